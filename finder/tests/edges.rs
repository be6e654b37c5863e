//! What only shows at an edge: the first value past a bound, a call out of turn, a buffer used again.

use scheidegg_finder::{
    ClusterSize, Clusters, ClustersBuf, Engine, Error, Finder, FrameBuf, FrameNote, FrameOwner, Frames,
    LostPixels, Numbers, Params, Payload, Pedestal, PixelMask, Plane, Precision, Result, Shape, Statistics,
    SyncFinder, Ticket, Tickets, Trainer, Training, Values,
};

const SHAPE: Shape = Shape { rows: 2, cols: 3 };
const OTHER: Shape = Shape { rows: 3, cols: 2 };
const SIZE: ClusterSize = ClusterSize { w: 2, h: 2 };

fn frames(pixels: &[u16], shape: Shape) -> Frames<'_> {
    Frames::new(pixels, shape).unwrap()
}

fn words<T>(result: Result<T>) -> String {
    result.err().expect("an error").to_string()
}

fn trained(precision: Precision) -> Pedestal {
    let mut trainer = Trainer::new(SHAPE);
    trainer.add(frames(&[5, 5, 5, 5, 5, 5, 7, 7, 7, 7, 7, 7], SHAPE)).unwrap();
    trainer.finish(precision).unwrap()
}

/// Finds as many values that were cut as a frame's first pixel says, and no cluster.
struct Plain(Vec<Pedestal>, usize);

impl Engine for Plain {
    fn name(&self) -> &str {
        "plain"
    }
    fn start(&mut self, pedestal: &Pedestal, _: Option<&PixelMask>) -> Result<()> {
        self.0 = vec![pedestal.clone(); self.1];
        Ok(())
    }
    fn find(&mut self, frames: Frames<'_>, _: u64, out: &mut ClustersBuf) -> Result<u64> {
        let mut cut = 0;
        for k in 0..frames.len() {
            match frames.frame(k)[0] {
                666 => return Err(Error::Other("an unlucky frame".into())),
                n => cut += u64::from(n),
            }
            // An infinite value a frame where the payload has one.
            let infinite = [0, 0, 0, 0, 0, 0x7c00u16, 0, 0, 0, 0, 0, 0].map(u16::to_ne_bytes).concat();
            let half = out.view().payload() == Payload::F16;
            out.push_frame(frames.number(k), if half { &infinite } else { &[] });
        }
        Ok(cut)
    }
    fn pedestal(&self, lane: usize) -> Pedestal {
        self.0[lane].clone()
    }
    fn set_lane(&mut self, lane: usize, pedestal: &Pedestal) {
        self.0[lane] = pedestal.clone();
    }
}

fn finder() -> SyncFinder<Plain> {
    finder_of(Payload::I32)
}

fn finder_of(payload: Payload) -> SyncFinder<Plain> {
    let params = Params { lanes: 2, pedestal_samples: 2, payload, ..Params::new(SIZE) };
    let mut finder = SyncFinder::new(Plain(Vec::new(), 2), SHAPE, &params).unwrap();
    finder.set_pedestal(&trained(Precision::F32)).unwrap();
    finder
}

#[test]
fn notes_stay_with_their_frames() {
    let mut buf = FrameBuf::new(SHAPE, 4);
    let note = |n| FrameNote { bunch_id: Some(n), ..FrameNote::default() };
    buf.extend(&[1, 2, 3], |_| Ok(Vec::new())).unwrap();
    assert!(buf.notes().is_empty());
    buf.note(1, note(8));
    assert_eq!(buf.notes(), [FrameNote::default(), note(8)]);
    buf.note(0, note(7));
    buf.note(2, note(9));
    assert_eq!(buf.notes(), [note(7), note(8), note(9)]);
    buf.note(1, note(6));
    assert_eq!(buf.notes(), [note(7), note(6), note(9)]);
    assert_eq!(format!("{buf:?}"), "FrameBuf(3 of 4 frames of 2 x 3)");
    buf.clear();
    assert!(buf.notes().is_empty());
}

#[test]
fn a_frame_that_is_pushed_keeps_its_lost_pixels() {
    let mut buf = FrameBuf::new(SHAPE, 2);
    let mut mask = PixelMask::new(SHAPE);
    mask.insert(1, 2);
    buf.push(1, |_| Ok(None)).unwrap();
    buf.push(2, |_| Ok(Some(mask.clone()))).unwrap();
    assert_eq!(buf.frames().lost_frames().collect::<Vec<_>>(), [(1, &mask)]);
    assert!(!buf.frames().is_empty());
    assert_eq!(format!("{mask:?}"), "PixelMask(2 x 3, 1 masked)");
}

#[test]
#[should_panic(expected = "lost pixels out of order")]
fn a_frame_has_its_lost_pixels_once() {
    let lost = || LostPixels { frame: 1, mask: PixelMask::new(SHAPE) };
    let _ = FrameBuf::new(SHAPE, 2).extend(&[1, 2], |_| Ok(vec![lost(), lost()]));
}

#[test]
fn the_last_number_is_named_in_full() {
    let pixels = [0; 24];
    let far = frames(&pixels, SHAPE).with_numbers(Numbers::From(u64::MAX));
    assert_eq!(words(far), format!("first frame number = {0}: expected at most {1}", u64::MAX, u64::MAX - 4));
}

#[test]
fn clusters_without_charge_have_no_eta() {
    let cluster = |v: &'static [i32]| scheidegg_finder::Cluster::new(0, 0, SIZE, Values::I32(v)).unwrap();
    assert_eq!(cluster(&[1, -1, 2, -2]).eta2(), None);
    assert!(cluster(&[1, -1, 2, -1]).eta2().is_some());
}

#[test]
fn cleared_clusters_have_no_trace_and_reserved_ones_stay_where_they_are() {
    let mut buf = ClustersBuf::new(SHAPE, SIZE, Payload::I32);
    buf.push_frame(0, &[1; 20]);
    buf.push_trace(&[1; 6]);
    buf.clear();
    buf.push_frame(3, &[]);
    buf.push_trace(&[2; 6]);
    assert_eq!(buf.view().trace(), Some(&[2; 6][..]));

    let mut buf = ClustersBuf::new(SHAPE, SIZE, Payload::I32);
    let at = |buf: &ClustersBuf| buf.view().bytes().as_ptr();
    buf.push_frame(0, &[1; 20]);
    buf.reserve(100_000);
    let place = at(&buf);
    (0..1000).for_each(|k| buf.push_frame(k, &[1; 2000]));
    assert_eq!((at(&buf), buf.view().len()), (place, 100_001));
}

#[test]
fn bounds_of_parameters_belong_to_their_range() {
    let good = Params::new(ClusterSize { w: 3, h: 3 });
    Params { n_sigma: 1e6, noise_floor_adu: 65_535.0, lanes: 4096, ..good.clone() }.validate(SHAPE).unwrap();
    assert!(Params { n_sigma: 1_000_001.0, ..good.clone() }.validate(SHAPE).is_err());
    // 2^32 pixels of all lanes together are the most.
    let large = Shape { rows: 65_536, cols: 4096 };
    Params { lanes: 16, ..good.clone() }.validate(large).unwrap();
    let many = Params { lanes: 17, ..good }.validate(large);
    assert_eq!(words(many), "lanes = 17: expected at most 16 for frames of 65536 x 4096");
    let precise = Precision::ALL.iter().map(|p| (p.pedestal_is_f64(), p.compute_is_f64()));
    assert_eq!(precise.collect::<Vec<_>>(), [(false, false), (true, false), (true, true)]);
}

#[test]
fn a_pixel_as_noisy_as_allowed_is_not_hot() {
    let mut trainer = Trainer::new(SHAPE);
    trainer.add(frames(&[0, 0, 0, 0, 0, 0, 2, 2, 2, 2, 20, 22], SHAPE)).unwrap();
    let p = trainer.finish(Precision::F64).unwrap();
    assert_eq!(p.hot_pixels(10.0), [(1, 2)]);
}

#[test]
fn sums_past_what_frames_can_lead_to_are_refused() {
    let good = trained(Precision::F64);
    let with = |change: &dyn Fn(&mut Pedestal)| {
        let mut p = good.clone();
        change(&mut p);
        p.validate()
    };
    // Twice the largest sum of two frames, and of squares.
    let (sum, square) = (131_072.0 * 2.0, 8_589_934_592.0 * 2.0);
    for (most, past) in [(sum, sum * 1.0001), (-sum, -sum * 1.0001)] {
        with(&|p| p.sum = Plane::F64(vec![most; 6])).unwrap();
        assert!(words(with(&|p| p.sum = Plane::F64(vec![past; 6]))).contains("-262144 to 262144"));
    }
    with(&|p| p.sum2 = Plane::F64(vec![square; 6])).unwrap();
    assert!(words(with(&|p| p.sum2 = Plane::F64(vec![square * 1.0001; 6]))).contains("0 to 17179869184"));
    with(&|p| p.fixed_variance = Some(Plane::F64(vec![square / 2.0; 6]))).unwrap();
    assert!(
        words(with(&|p| p.fixed_variance = Some(Plane::F64(vec![square; 6])))).contains("0 to 8589934592")
    );
}

#[test]
fn an_untrained_pixel_has_no_offset() {
    let mut mask = PixelMask::new(SHAPE);
    mask.insert_index(1);
    let lost = [LostPixels { frame: 0, mask }];
    let mut trainer = Trainer::new(SHAPE);
    trainer.add(frames(&[9; 12], SHAPE).with_lost(&lost).unwrap()).unwrap();
    let p = trainer.finish(Precision::F64).unwrap();
    assert_eq!((p.x0.as_slice(), p.samples), (&[9, 0, 9, 9, 9, 9][..], 2));
}

#[test]
fn another_shape_is_refused_everywhere_and_changes_nothing() {
    let pixels = [5; 6];
    let (other, own) = (frames(&pixels, OTHER), frames(&pixels, SHAPE));
    let said = |what: &str| format!("{what}: shape 3 x 2, expected 2 x 3");
    let mut trainer = Trainer::new(SHAPE);
    assert_eq!(words(trainer.add(other)), said("dark frames"));
    assert_eq!(trainer.frames(), 0);
    let params = Params { pedestal_samples: 2, ..Params::new(SIZE) };
    let mut training = Training::new(SHAPE, &params).unwrap();
    assert_eq!(words(training.train(other)), said("dark frames"));
    let mut turned = trained(Precision::F32);
    turned.shape = OTHER;
    assert_eq!(words(training.set_pedestal(&turned)), said("pedestal"));
    let mut short = trained(Precision::F32);
    short.x0.pop();
    assert!(words(training.set_pedestal(&short)).contains("pedestal x0"));
    assert!(!training.is_finished());

    let mut finder = finder();
    assert_eq!(words(finder.submit(other)), said("frames"));
    let ticket = finder.submit(own).unwrap();
    finder.collect(ticket).unwrap();
    assert_eq!(words(finder.train(other)), said("dark frames"));
    finder.train(own).unwrap();
    let ticket = finder.submit(own).unwrap();
    finder.collect(ticket).unwrap();
}

#[test]
fn calls_wait_until_nothing_is_in_flight() {
    let pixels = [5; 6];
    let own = frames(&pixels, SHAPE);
    let mut finder = finder();
    assert_eq!((finder.slots(), finder.batch_frames(), finder.in_flight()), (2, 64, 0));
    assert!(words(finder.pedestal(2)).starts_with("lane = 2: expected below 2"));
    finder.pedestal(1).unwrap();
    let ticket = finder.submit(own).unwrap();
    assert_eq!((finder.in_flight(), ticket.number()), (1, 0));
    let pedestal = trained(Precision::F32);
    for refused in [finder.train(own), finder.refresh_noise(), finder.set_pedestal(&pedestal)] {
        assert!(words(refused).contains("1 batch is in flight"));
    }
    let second = finder.submit(own).unwrap();
    assert_eq!((finder.in_flight(), second.number()), (2, 1));
    assert!(words(finder.submit(own).map(|_| ())).contains("2 batches are in flight"));
    finder.collect(ticket).unwrap();
    finder.collect(second).unwrap();
    finder.refresh_noise().unwrap();
}

#[test]
fn training_ends_when_it_is_told_to() {
    let params = Params { pedestal_samples: 10, ..Params::new(SIZE) };
    let mut finder = SyncFinder::new(Plain(Vec::new(), 1), SHAPE, &params).unwrap();
    assert!(words(finder.finish_training()).contains("has 0 dark frames"));
    finder.train(frames(&[5; 18], SHAPE)).unwrap();
    assert!(finder.pedestal(0).is_err());
    finder.finish_training().unwrap();
    assert_eq!(finder.pedestal(0).unwrap().samples, 3);
}

#[test]
fn buffers_come_back_however_a_batch_ends() {
    let mut finder = finder();
    let (good, bad) = ([4, 0, 0, 0, 0, 0], [666; 6]);
    for _ in 0..10 {
        let _ = finder.submit(frames(&good, SHAPE)).unwrap();
        let _ = finder.submit(frames(&good, SHAPE)).unwrap();
        assert_eq!((finder.abandon(), finder.in_flight()), (2, 0));
        assert!(words(finder.submit(frames(&bad, SHAPE)).map(|_| ())).contains("unlucky"));
        finder.set_pedestal(&trained(Precision::F32)).unwrap();
        let ticket = finder.submit(frames(&good, SHAPE)).unwrap();
        assert_eq!(finder.collect(ticket).unwrap().frames(), 1);
        assert_eq!(finder.abandon(), 0);
    }
    assert_eq!(finder.statistics().saturated, 40);
}

#[test]
fn infinite_values_and_cut_ones_are_counted_together() {
    let mut view = ClustersBuf::new(SHAPE, SIZE, Payload::F16);
    let record = |words: [u16; 6]| words.map(u16::to_ne_bytes).concat();
    view.push_frame(0, &record([0x7c00, 0x7c00, 1, 2, 3, 4]));
    assert_eq!(view.view().infinite_f16(), 0, "coordinates are no values");
    view.push_frame(1, &record([0, 0, 0x7c00, 2, 0xfc00, 4]));
    assert_eq!(view.view().infinite_f16(), 2);
    let none = Clusters::new(SHAPE, SIZE, Payload::F16, &[], &[0], &[]).unwrap();
    assert_eq!(none.infinite_f16(), 0);

    let mut finder = finder_of(Payload::F16);
    let ticket = finder.submit(frames(&[5; 18], SHAPE)).unwrap();
    finder.collect(ticket).unwrap();
    assert_eq!(finder.statistics().saturated, 3 * 5 + 3);
}

#[test]
fn every_wrong_ticket_is_told_why() {
    let mut tickets = Tickets::new();
    let (first, second) = (tickets.issue(), tickets.issue());
    let said = words(tickets.redeem(second));
    assert!(said.contains("ticket 1") && said.contains("collect ticket 0 first"), "{said}");
    tickets.redeem(first).unwrap();
    let third = tickets.issue();
    assert_eq!(third.number(), 2);
    assert_eq!(tickets.abandon(), 2);
    assert!(words(tickets.redeem(third)).contains("was abandoned"));
    let mut other = Tickets::new();
    let foreign = other.issue();
    assert!(words(tickets.redeem(foreign)).contains("another finder"));
}

/// A finder of batches of one frame and of so many slots that writes down what it is asked for.
struct Logged {
    finder: SyncFinder<Plain>,
    slots: usize,
    log: Vec<String>,
}

impl Finder for Logged {
    fn shape(&self) -> Shape {
        self.finder.shape()
    }
    fn params(&self) -> &Params {
        self.finder.params()
    }
    fn train(&mut self, darks: Frames<'_>) -> Result<()> {
        self.finder.train(darks)
    }
    fn finish_training(&mut self) -> Result<()> {
        self.finder.finish_training()
    }
    fn refresh_noise(&mut self) -> Result<()> {
        self.finder.refresh_noise()
    }
    fn slots(&self) -> usize {
        self.slots
    }
    fn in_flight(&self) -> usize {
        self.finder.in_flight()
    }
    fn abandon(&mut self) -> usize {
        self.finder.abandon()
    }
    fn batch_frames(&self) -> usize {
        1
    }
    fn max_batch_frames(&self) -> usize {
        0
    }
    fn submit(&mut self, frames: Frames<'_>) -> Result<Ticket> {
        self.log.push(format!("submit {}", frames.number(0)));
        self.finder.submit(frames)
    }
    fn collect(&mut self, ticket: Ticket) -> Result<Clusters<'_>> {
        self.log.push(format!("collect {}", ticket.number()));
        self.finder.collect(ticket)
    }
    fn pedestal(&mut self, lane: usize) -> Result<Pedestal> {
        self.finder.pedestal(lane)
    }
    fn set_pedestal(&mut self, pedestal: &Pedestal) -> Result<()> {
        self.finder.set_pedestal(pedestal)
    }
    fn statistics(&self) -> Statistics {
        self.finder.statistics()
    }
}

#[test]
fn batches_wait_for_each_other_in_the_slots_alone() {
    let (pixels, in_turn) =
        ([5; 18], ["submit 0", "collect 0", "submit 1", "collect 1", "submit 2", "collect 2"]);
    let ahead = ["submit 0", "submit 1", "collect 0", "submit 2", "collect 1", "collect 2"];
    // Whoever has no slot has one all the same.
    for (slots, expected) in [(0, in_turn), (1, in_turn), (2, ahead)] {
        let mut finder = Logged { finder: finder(), slots, log: Vec::new() };
        let mut numbers = Vec::new();
        let mut each = |c: Clusters<'_>| {
            numbers.extend_from_slice(c.numbers());
            Ok(())
        };
        finder.find(frames(&pixels, SHAPE), &mut each).unwrap();
        assert_eq!((&numbers[..], &finder.log[..]), (&[0, 1, 2][..], &expected.map(String::from)[..]));
    }
}

#[test]
fn nothing_is_found_while_batches_are_in_flight() {
    let mut finder = finder();
    let pixels = [5; 6];
    let ticket = finder.submit(frames(&pixels, SHAPE)).unwrap();
    let refused = finder.find(frames(&pixels, SHAPE), &mut |_| panic!("nothing is handed out"));
    assert!(words(refused).contains("1 batch is in flight"));
    // What was in flight still is.
    assert_eq!(finder.collect(ticket).unwrap().frames(), 1);
}
