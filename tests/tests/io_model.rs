//! Raw runs drawn at random, read, and compared with a model of them written down in plain words: pixels, masks, frame
//! numbers and what the source says was amiss.

mod io_common;

use io_common::*;
use proptest::prelude::*;
use scheidegg::Shape;
use scheidegg::io::raw::{Header, PacketSet};
use scheidegg::io::{Gain, Health, RawReading, RawSource, Source};

/// A rectangle of the whole detector: first and last column, first and last row.
type Region = (usize, usize, usize, usize);

/// What one port sent of one frame.
#[derive(Clone, Debug)]
struct Sent {
    /// The number in the header.
    header: u64,
    /// Words of the whole port, as they are in the file.
    words: Vec<u16>,
    caught: PacketSet,
    /// Whether the header says which packets came, or only how many.
    has_mask: bool,
}

#[derive(Debug)]
struct Scene {
    port: Shape,
    /// Ports down and across.
    ports: Shape,
    packets: usize,
    /// Whether packets can be told at all.
    packets_known: bool,
    region: Option<Region>,
    /// Whether files hold whole ports although a region was asked for.
    stores_whole: bool,
    per_file: usize,
    gain: Gain,
    /// The true number of every frame that was ever taken.
    numbers: Vec<u64>,
    /// The number that a counter which began again gave it.
    counted: Vec<u64>,
    /// For every frame, what each port sent of it.
    sent: Vec<Vec<Option<Sent>>>,
}

/// What is asked of a scene; the rest is drawn with the seed.
#[derive(Clone, Debug)]
struct Plan {
    seed: u64,
    port: (usize, usize, usize),
    ports: (usize, usize),
    frames: usize,
    per_file: usize,
    roi: bool,
    faults: [bool; 6],
    gain: usize,
}

fn plans() -> impl Strategy<Value = Plan> {
    let sizes = ((1..4usize, 1..4usize, 2..9usize), (1..4usize, 1..3usize), 1..30usize, 1..9usize);
    (any::<u64>(), sizes, any::<bool>(), any::<[bool; 6]>(), 0..3usize).prop_map(
        |(seed, (port, ports, frames, per_file), roi, faults, gain)| Plan {
            seed,
            port,
            ports,
            frames,
            per_file,
            roi,
            faults,
            gain,
        },
    )
}

impl Scene {
    fn draw(plan: &Plan) -> Scene {
        let mut random = Random::new(plan.seed);
        let [lossy, gaps, missing, corrupt, restart, partly] = plan.faults;
        let (packets, rows_a_packet, cols) = plan.port;
        let port = Shape { rows: packets * rows_a_packet, cols };
        let ports = Shape { rows: plan.ports.0, cols: plan.ports.1 };
        let mut number = 1 + random.below(50) as u64;
        let numbers: Vec<u64> = (0..plan.frames)
            .map(|_| {
                number += if gaps && random.below(6) == 0 { 2 + random.below(90) as u64 } else { 1 };
                number
            })
            .collect();
        let mut counted = numbers.clone();
        // Around these frames nothing else is amiss, so that what they must become is beyond doubt.
        let mut quiet = vec![false; plan.frames];
        let is_plain = |at: usize, quiet: &[bool]| {
            let around = at.saturating_sub(5)..(at + 6).min(plan.frames);
            let steps = |k: &usize| *k == around.start || numbers[*k] == numbers[*k - 1] + 1;
            around.clone().all(|k| !quiet[k] && steps(&k))
        };
        let keep_quiet = |at: usize, quiet: &mut Vec<bool>| {
            (at.saturating_sub(5)..(at + 6).min(plan.frames)).for_each(|k| quiet[k] = true)
        };
        let begins = 8 + random.below(8);
        if restart && begins + 6 < plan.frames && is_plain(begins, &quiet) {
            keep_quiet(begins, &mut quiet);
            let from = numbers[begins] - random.below(2) as u64;
            (begins..plan.frames).for_each(|k| counted[k] -= from);
        }
        let mut wrong = vec![None; plan.frames];
        for at in 0..plan.frames {
            if corrupt && plan.frames > 3 && random.below(9) == 0 && is_plain(at, &quiet) {
                keep_quiet(at, &mut quiet);
                let numbers = [1 << 40, u64::MAX, 1 << 33, numbers[at] | 1 << 50];
                wrong[at] = Some((random.below(ports.pixels()), numbers[random.below(4)]));
            }
        }
        let mut sent = Vec::new();
        for frame in 0..plan.frames {
            let mut of_frame = Vec::new();
            for d in 0..ports.pixels() {
                // The first frame tells how many packets there are, the last where the run ends.
                let inside = frame > 0 && frame + 1 < plan.frames;
                let gone = missing && inside && !quiet[frame] && random.below(5) == 0;
                let mut caught = PacketSet::first(packets);
                let mut words: Vec<u16> =
                    (0..port.pixels()).map(|_| (random.next() & 0x3fff) as u16).collect();
                for _ in 0..random.below(4) {
                    words[random.below(port.pixels())] |= [0x4000, 0x8000, 0xc000][random.below(3)];
                }
                if random.below(4) == 0 {
                    words[random.below(port.pixels())] = 0xffff;
                }
                if random.below(9) == 0 {
                    let row = random.below(port.rows);
                    words[row * cols..(row + 1) * cols].fill(0xffff);
                }
                // The first frame is whole: packets are learnt from the headers.
                if lossy && frame > 0 && random.below(3) == 0 {
                    let packet = random.below(packets);
                    caught.remove(packet);
                    if random.below(3) > 0 {
                        let each = rows_a_packet * cols;
                        words[packet * each..(packet + 1) * each].fill(0xffff);
                    }
                }
                let header = match wrong[frame] {
                    Some((port, number)) if port == d => number,
                    _ => counted[frame],
                };
                let has_mask = !(lossy && random.below(8) == 0);
                of_frame.push((!gone).then_some(Sent { header, words, caught, has_mask }));
            }
            sent.push(of_frame);
        }
        let whole = Shape { rows: port.rows * ports.rows, cols: port.cols * ports.cols };
        let region = plan.roi.then(|| {
            let mut pair = |n: usize| {
                let (a, b) = (random.below(n), random.below(n));
                (a.min(b), a.max(b))
            };
            let ((x0, x1), (y0, y1)) = (pair(whole.cols), pair(whole.rows));
            (x0, x1, y0, y1)
        });
        Scene {
            port,
            ports,
            packets,
            packets_known: !partly,
            region,
            stores_whole: random.below(3) == 0,
            per_file: plan.per_file,
            gain: [Gain::MaskOthers, Gain::KeepValue, Gain::None][plan.gain],
            numbers,
            counted,
            sent,
        }
    }

    fn region(&self) -> Region {
        let whole = (0, self.port.cols * self.ports.cols - 1, 0, self.port.rows * self.ports.rows - 1);
        self.region.unwrap_or(whole)
    }

    fn shape(&self) -> Shape {
        let (x0, x1, y0, y1) = self.region();
        Shape { rows: y1 - y0 + 1, cols: x1 - x0 + 1 }
    }

    /// The rows and columns of a port that are in the region, in the port's own pixels.
    fn part(&self, d: usize) -> Option<(std::ops::Range<usize>, std::ops::Range<usize>)> {
        let (x0, x1, y0, y1) = self.region();
        let (top, left) = (d % self.ports.rows * self.port.rows, d / self.ports.rows * self.port.cols);
        let clip = |from: usize, to: usize, at: usize, n: usize| from.max(at)..(to + 1).min(at + n);
        let (rows, cols) = (clip(y0, y1, top, self.port.rows), clip(x0, x1, left, self.port.cols));
        let own = |r: std::ops::Range<usize>, at: usize| r.start - at..r.end - at;
        (!rows.is_empty() && !cols.is_empty()).then(|| (own(rows, top), own(cols, left)))
    }

    fn master(&self) -> String {
        let roi = self.region.map_or("[]".into(), |(x0, x1, y0, y1)| {
            format!(r#"[{{"xmin": {x0}, "xmax": {x1}, "ymin": {y0}, "ymax": {y1}}}]"#)
        });
        let rows = if self.packets_known { self.port.rows } else { self.port.rows + 1 };
        format!(
            r#"{{"Version": 8.0, "Detector Type": "Moench", "Geometry": {{"x": {}, "y": {}}}, "Image Size": {},
                "Pixels": {{"x": {}, "y": {}}}, "Max Frames Per File": {}, "Number of Rows": {rows}, "Receiver Rois": {roi}}}"#,
            self.ports.cols,
            self.ports.rows,
            self.port.pixels() * 2,
            self.port.cols,
            self.port.rows,
            self.per_file
        )
    }

    /// Data files: port, index, content.
    fn files(&self) -> Vec<(usize, u64, Vec<u8>)> {
        let mut all = Vec::new();
        for d in 0..self.ports.pixels() {
            let Some((rows, cols)) = self.part(d) else { continue };
            let own: Vec<&Sent> = self.sent.iter().filter_map(|f| f[d].as_ref()).collect();
            let mut chunks: Vec<&[&Sent]> = own.chunks(self.per_file).collect();
            if chunks.is_empty() {
                chunks.push(&[]);
            }
            for (k, chunk) in chunks.iter().enumerate() {
                let mut file = Vec::new();
                for sent in *chunk {
                    let mut h = Header::parse(&[0; Header::BYTES]);
                    (h.frame, h.detector) = (sent.header, 5);
                    h.packets = sent.caught.count_below(self.packets) as u32;
                    (h.row, h.column) = ((d % self.ports.rows) as u16, (d / self.ports.rows) as u16);
                    h.caught = if sent.has_mask { sent.caught } else { PacketSet::EMPTY };
                    file.extend(h.to_bytes());
                    let stored =
                        |r: usize, c: usize| self.stores_whole || (rows.contains(&r) && cols.contains(&c));
                    for (i, word) in sent.words.iter().enumerate() {
                        if stored(i / self.port.cols, i % self.port.cols) {
                            file.extend(word.to_le_bytes());
                        }
                    }
                }
                all.push((d, k as u64, file));
            }
        }
        all
    }

    /// Whether the length of a first file fits a cut port and a whole one: then nobody can tell which it is.
    fn is_ambiguous(&self) -> bool {
        self.files().iter().any(|(d, k, file)| {
            let (rows, cols) = self.part(*d).expect("it has a file");
            let fits = |pixels: usize| file.len().is_multiple_of(Header::BYTES + 2 * pixels);
            let cut = rows.len() * cols.len();
            *k == 0
                && cut != self.port.pixels()
                && (file.is_empty() || (fits(cut) && fits(self.port.pixels())))
        })
    }

    /// The frames that must come out, and what must be said of them.
    fn expected(&self) -> (Vec<Frame>, Health) {
        let shape = self.shape();
        let used: Vec<usize> = (0..self.ports.pixels()).filter(|d| self.part(*d).is_some()).collect();
        let (mut frames, mut health): (Vec<Frame>, _) = (Vec::new(), Health::default());
        let mut before: Option<usize> = None;
        for (k, of_frame) in self.sent.iter().enumerate() {
            let there = used.iter().filter(|d| of_frame[**d].is_some()).count();
            if there < used.len() {
                // A number that no port has is a gap; one that some have is an incomplete frame.
                health.incomplete_frames += u64::from(there > 0);
                continue;
            }
            let number = match (before, frames.last()) {
                (Some(b), Some(last)) if self.counted[k] > self.counted[b] => {
                    let passed = |n: &usize| used.iter().any(|d| self.sent[*n][*d].is_some());
                    let left_out = (b + 1..k).filter(passed).count() as u64;
                    health.gaps += self.counted[k] - self.counted[b] - 1 - left_out;
                    last.number + self.counted[k] - self.counted[b]
                }
                (_, Some(last)) => last.number + 1,
                _ => self.numbers[k],
            };
            before = Some(k);
            let mut frame = Frame { number, pixels: vec![0; shape.pixels()], lost: None };
            let mut lost = vec![false; shape.pixels()];
            for &d in &used {
                let sent = of_frame[d].as_ref().expect("all are there");
                self.decode(d, sent, &mut frame.pixels, &mut lost, &mut health);
            }
            frame.lost = scheidegg::PixelMask::from_bools(shape, &lost).ok().filter(|m| !m.is_empty());
            frames.push(frame);
        }
        (frames, health)
    }

    fn decode(&self, d: usize, sent: &Sent, pixels: &mut [u16], masked: &mut [bool], health: &mut Health) {
        let (rows, cols) = self.part(d).expect("a port of the region");
        let (x0, _, y0, _) = self.region();
        let (top, left) = (d % self.ports.rows * self.port.rows, d / self.ports.rows * self.port.cols);
        let missing = self.packets - sent.caught.count_below(self.packets);
        // A header that counts no packet at all has lost all, whatever its mask.
        let by_mask = self.packets_known && missing > 0 && (sent.has_mask || missing == self.packets);
        let somewhere = self.packets_known && missing > 0 && !by_mask;
        if self.packets_known {
            health.lost_packets += missing as u64;
        }
        for r in rows {
            let word = |c: usize| sent.words[r * self.port.cols + c];
            let row_is_lost = cols.clone().all(|c| word(c) == 0xffff);
            for c in cols.clone() {
                let packet = r * self.packets / self.port.rows;
                let single = (!self.packets_known || somewhere) && self.gain != Gain::None;
                let lost = row_is_lost
                    || (by_mask && !sent.caught.contains(packet))
                    || (single && word(c) == 0xffff);
                let other = !lost && self.gain == Gain::MaskOthers && word(c) > 0x3fff;
                health.lost_pixels += u64::from(lost);
                health.gain_pixels += u64::from(other);
                let at = (top + r - y0) * self.shape().cols + left + c - x0;
                masked[at] = lost || other;
                pixels[at] = if self.gain == Gain::None { word(c) } else { word(c) & 0x3fff };
            }
        }
    }

    fn open(&self) -> RawSource {
        let reading = RawReading { gain: self.gain, ..RawReading::default() };
        RawSource::in_memory(self.master().as_bytes(), self.files(), &reading).unwrap()
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1500, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_run_is_read_as_the_model_says(plan in plans(), batch in 1..12usize, skip in 0..6u64) {
        let scene = Scene::draw(&plan);
        prop_assume!(!scene.is_ambiguous());
        let (frames, want) = scene.expected();
        let mut source = scene.open();
        prop_assert_eq!(source.shape(), scene.shape());
        prop_assert!(source.remaining().unwrap() >= frames.len() as u64);
        let (found, end) = read_batches(&mut source, batch);
        prop_assert!(end.is_ok(), "{:?}", end);
        let numbers = |f: &[Frame]| f.iter().map(|f| f.number).collect::<Vec<_>>();
        prop_assert_eq!(numbers(&found), numbers(&frames));
        for (found, frame) in found.iter().zip(&frames) {
            prop_assert_eq!(&found.lost, &frame.lost, "mask of frame {}", frame.number);
            let seen = |f: &Frame| -> Vec<u16> {
                // What a lost pixel holds means nothing.
                let lost = |i: usize| f.lost.as_ref().is_some_and(|m| m.contains_index(i));
                f.pixels.iter().enumerate().map(|(i, v)| if lost(i) { 0 } else { *v }).collect()
            };
            prop_assert_eq!(seen(found), seen(frame), "pixels of frame {}", frame.number);
        }
        let got = source.health();
        prop_assert_eq!(&Health { warnings: got.warnings.clone(), ..want }, &got);
        prop_assert_eq!(source.remaining(), Some(0));
        // The numbers do not depend on where one begins.
        let mut source = scene.open();
        prop_assert_eq!(source.skip(skip).unwrap().frames, skip.min(frames.len() as u64));
        prop_assert_eq!(numbers(&read_all(&mut source)), numbers(&frames[(skip as usize).min(frames.len())..]));
    }
}
