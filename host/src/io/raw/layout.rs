//! Where the words of a port's image lie in the frame, and which packet brought them.

use scheidegg_finder::{PixelMask, Shape};

use super::fields::Roi;
use super::header::{Detector, Header, PacketSet};

/// What one port contributes to a frame.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct PortView {
    /// Index of the port, `d` in the names of its files.
    pub port: usize,
    /// Rows and columns that the port sends, whole.
    pub full: Shape,
    /// The part of it that is in the file, in the port's own pixels.
    pub stored: Rect,
    /// The part of it that is in the frame.
    pub used: Rect,
    /// Where the first pixel of `used` goes.
    pub row: usize,
    /// Where the first pixel of `used` goes.
    pub col: usize,
    /// Bytes of an image in the file.
    pub image_bytes: usize,
}

/// A rectangle of pixels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Rect {
    pub row: usize,
    pub col: usize,
    pub rows: usize,
    pub cols: usize,
}

impl Rect {
    pub const fn whole(shape: Shape) -> Rect {
        Rect { row: 0, col: 0, rows: shape.rows, cols: shape.cols }
    }
}

/// How the images of all ports make a frame.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Layout {
    /// Rows and columns of a frame.
    pub shape: Shape,
    /// The ports that have a part in it.
    pub ports: Vec<PortView>,
}

impl Layout {
    /// Ports of `port` pixels each, `geometry` of them down and across: index `d` runs down a column of ports, then the
    /// next column (so that the two ports of a module are neighbours). With a region of interest a file holds its part of
    /// the port alone, and ports outside have no files.
    pub fn of_ports(port: Shape, geometry: Shape, roi: Option<Roi>) -> Result<Layout, String> {
        /// More ports than any of these detectors has.
        const MOST_PORTS: usize = 1024;
        if geometry.pixels() > MOST_PORTS {
            return Err(format!("\"Geometry\" is {geometry} ports, expected at most {MOST_PORTS} in all"));
        }
        let sides = port.rows.checked_mul(geometry.rows).zip(port.cols.checked_mul(geometry.cols));
        let whole = sides.and_then(|(rows, cols)| Shape::new(rows, cols).ok()).ok_or_else(|| {
            format!("{geometry} ports of {port} pixels are no image of at most 65536 a side")
        })?;
        let roi = match roi {
            None => Roi { xmin: 0, xmax: whole.cols - 1, ymin: 0, ymax: whole.rows - 1 },
            Some(r) if r.xmin >= whole.cols || r.ymin >= whole.rows => {
                return Err(format!("the region of interest {r:?} lies outside the image of {whole} pixels"));
            }
            // Receivers clip a region at the detector's edge.
            Some(r) => Roi { xmax: r.xmax.min(whole.cols - 1), ymax: r.ymax.min(whole.rows - 1), ..r },
        };
        let mut ports = Vec::new();
        for d in 0..geometry.pixels() {
            let (top, left) = (d % geometry.rows * port.rows, d / geometry.rows * port.cols);
            let (row, row_end) = (top.max(roi.ymin), (top + port.rows - 1).min(roi.ymax));
            let (col, col_end) = (left.max(roi.xmin), (left + port.cols - 1).min(roi.xmax));
            if row > row_end || col > col_end {
                continue;
            }
            let used =
                Rect { row: row - top, col: col - left, rows: row_end + 1 - row, cols: col_end + 1 - col };
            ports.push(PortView {
                port: d,
                full: port,
                stored: used,
                used,
                row: row - roi.ymin,
                col: col - roi.xmin,
                image_bytes: used.rows * used.cols * 2,
            });
        }
        let shape = Shape { rows: roi.ymax + 1 - roi.ymin, cols: roi.xmax + 1 - roi.xmin };
        Ok(Layout { shape, ports })
    }

    /// One chip test board.
    pub fn of_board(image_bytes: usize) -> Layout {
        let shape = moench03::SHAPE;
        let view = PortView {
            port: 0,
            full: shape,
            stored: Rect::whole(shape),
            used: Rect::whole(shape),
            row: 0,
            col: 0,
            image_bytes,
        };
        Layout { shape, ports: vec![view] }
    }
}

/// How an image is cut into packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Packets {
    /// Packets of an image.
    pub count: usize,
    /// Bytes of every packet but the last.
    pub bytes: usize,
}

impl Packets {
    /// The packets of a detector's own images.
    pub fn of_detector(detector: Detector, full_bytes: usize, ten_giga: bool) -> Option<Packets> {
        /// Bytes of a chip test board's packet over a 1 Gb/s link (slsDetectorPackage).
        const SLOW_BOARD: usize = 1344;
        let bytes = match detector {
            Detector::Moench03 if !ten_giga => SLOW_BOARD,
            d => d.packet_bytes(),
        };
        let whole = detector == Detector::Moench03 || full_bytes.is_multiple_of(bytes);
        let count = full_bytes.div_ceil(bytes);
        (whole && count <= PacketSet::CAPACITY).then_some(Packets { count, bytes })
    }

    /// The packets that these headers speak of: the most that one image had, if they cut it evenly.
    pub fn of_headers<'a>(full_bytes: usize, headers: impl Iterator<Item = &'a Header>) -> Option<Packets> {
        let count = headers.map(|h| h.caught.end().max(h.packets as usize)).max()?;
        let even = (1..=PacketSet::CAPACITY).contains(&count) && full_bytes.is_multiple_of(count * 2);
        even.then(|| Packets { count, bytes: full_bytes / count })
    }

    /// Whether a header can belong to an image of so many packets.
    pub fn fits(&self, h: &Header) -> bool {
        h.caught.end() <= self.count && h.packets as usize <= self.count
    }

    /// What of an image was lost on the way.
    pub fn lost(&self, h: &Header) -> Lost {
        let by_mask = self.count - h.caught.count_below(self.count);
        if by_mask == 0 {
            Lost::Nothing
        } else if h.caught.end() > 0 || h.packets == 0 {
            Lost::Packets(by_mask)
        } else {
            // No mask: headers of version 1 count only.
            match self.count.saturating_sub(h.packets as usize) {
                0 => Lost::Nothing,
                n => Lost::Somewhere(n),
            }
        }
    }

    /// Masks the pixels of the packets that a port lost. `pixel_of` gives the pixel of a word of the port's image, if it
    /// is in the frame.
    pub fn mask(
        &self,
        h: &Header,
        words: usize,
        pixel_of: impl Fn(usize) -> Option<usize>,
        mask: &mut PixelMask,
    ) {
        for p in (0..self.count).filter(|&p| !h.caught.contains(p)) {
            // A word that only half arrived is lost.
            let (first, end) = (p * self.bytes / 2, ((p + 1) * self.bytes).div_ceil(2));
            for word in first..end.min(words) {
                if let Some(pixel) = pixel_of(word) {
                    mask.insert_index(pixel);
                }
            }
        }
    }
}

/// What was lost of one image of one port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Lost {
    /// Nothing.
    Nothing,
    /// So many packets, which ones the header says.
    Packets(usize),
    /// So many packets, nobody says which: they show as rows of 0xFFFF.
    Somewhere(usize),
}

impl Lost {
    pub fn packets(self) -> usize {
        match self {
            Lost::Nothing => 0,
            Lost::Packets(n) | Lost::Somewhere(n) => n,
        }
    }
}

impl PortView {
    /// The pixel of the frame that a word of the whole port's image is.
    pub fn pixel_of(&self, word: usize, cols: usize) -> Option<usize> {
        let (r, c) = (word / self.full.cols, word % self.full.cols);
        let (r, c) = (r.checked_sub(self.used.row)?, c.checked_sub(self.used.col)?);
        (r < self.used.rows && c < self.used.cols).then(|| (self.row + r) * cols + self.col + c)
    }
}

/// MÖNCH 03 behind a chip test board: 32 ADCs take 5000 samples each.
pub(super) mod moench03 {
    use scheidegg_finder::Shape;

    pub const SHAPE: Shape = Shape { rows: 400, cols: 400 };
    const ADCS: usize = 32;
    /// The first column of every ADC, which reads a block of 25 columns and 200 rows.
    const BASE: [usize; ADCS] = [
        300, 325, 350, 375, 300, 325, 350, 375, 200, 225, 250, 275, 200, 225, 250, 275, 100, 125, 150, 175,
        100, 125, 150, 175, 0, 25, 50, 75, 0, 25, 50, 75,
    ];

    /// The pixel of a word of the image: ADC `word % 32` at sample `word / 32`.
    pub fn pixel_of(word: usize) -> usize {
        let (sample, adc) = (word / ADCS, word % ADCS);
        let col = BASE[adc] + sample % 25;
        // Two chips' halves are read away from the middle.
        let row = if (adc / 4).is_multiple_of(2) { 199 - sample / 25 } else { 200 + sample / 25 };
        row * SHAPE.cols + col
    }

    /// The word of every pixel.
    pub fn words() -> Vec<u32> {
        let mut words = vec![0; SHAPE.pixels()];
        for word in 0..SHAPE.pixels() {
            words[pixel_of(word)] = word as u32;
        }
        words
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn shape(rows: usize, cols: usize) -> Shape {
        Shape { rows, cols }
    }

    #[test]
    fn ports_run_down_a_column_first() {
        // Two modules down and two across, two ports each.
        let l = Layout::of_ports(shape(256, 1024), shape(4, 2), None).unwrap();
        assert_eq!(l.shape, shape(1024, 2048));
        let at: Vec<_> = l.ports.iter().map(|p| (p.port, p.row, p.col)).collect();
        assert_eq!(at[..5], [(0, 0, 0), (1, 256, 0), (2, 512, 0), (3, 768, 0), (4, 0, 1024)]);
    }

    #[test]
    fn a_region_of_interest_leaves_ports_out() {
        let roi = Roi { xmin: 10, xmax: 19, ymin: 300, ymax: 511 };
        let l = Layout::of_ports(shape(256, 1024), shape(2, 1), Some(roi)).unwrap();
        assert_eq!(l.shape, shape(212, 10));
        assert_eq!(l.ports.len(), 1);
        let p = &l.ports[0];
        assert_eq!((p.port, p.image_bytes, p.row, p.col), (1, 212 * 10 * 2, 0, 0));
        assert_eq!(p.used, Rect { row: 44, col: 10, rows: 212, cols: 10 });
        assert_eq!(p.pixel_of(44 * 1024 + 10, 10), Some(0));
        assert_eq!(p.pixel_of(45 * 1024 + 19, 10), Some(19));
        assert_eq!(p.pixel_of(45 * 1024 + 20, 10), None);
        assert_eq!(p.pixel_of(43 * 1024 + 12, 10), None);
    }

    #[test]
    fn a_region_across_ports_is_one_image() {
        let roi = Roi { xmin: 0, xmax: 1023, ymin: 250, ymax: 259 };
        let l = Layout::of_ports(shape(256, 1024), shape(2, 1), Some(roi)).unwrap();
        let at: Vec<_> = l.ports.iter().map(|p| (p.port, p.row, p.used.row, p.used.rows)).collect();
        assert_eq!(at, [(0, 0, 250, 6), (1, 6, 0, 4)]);
    }

    #[test]
    fn moench03_uses_every_pixel_once() {
        let mut seen = vec![false; 160_000];
        (0..160_000).for_each(|w| assert!(!std::mem::replace(&mut seen[moench03::pixel_of(w)], true)));
        // ADC 0 starts left of the upper half's middle row, ADC 4 in the lower half.
        assert_eq!(moench03::pixel_of(0), 199 * 400 + 300);
        assert_eq!(moench03::pixel_of(4), 200 * 400 + 300);
        assert_eq!(moench03::pixel_of(32 * 26 + 31), 201 * 400 + 76);
        let words = moench03::words();
        assert!((0..160_000).all(|w| words[moench03::pixel_of(w)] as usize == w));
    }

    fn header(packets: u32, caught: PacketSet) -> Header {
        let mut h = Header::parse(&[0; Header::BYTES]);
        (h.packets, h.caught) = (packets, caught);
        h
    }

    #[test]
    fn packets_are_known_or_learnt() {
        let own = Packets::of_detector(Detector::Jungfrau, 1 << 20, true).unwrap();
        assert_eq!(own, Packets { count: 128, bytes: 8192 });
        assert_eq!(Packets::of_detector(Detector::Moench, 320_000, true).unwrap().count, 50);
        assert_eq!(Packets::of_detector(Detector::Moench03, 360_000, true).unwrap().count, 45);
        assert_eq!(Packets::of_detector(Detector::Moench03, 360_000, false).unwrap().count, 268);
        assert_eq!(Packets::of_detector(Detector::Moench, 33 * 41 * 2, true), None);
        let learnt = |all: &[Header]| Packets::of_headers(33 * 41 * 2, all.iter());
        assert_eq!(
            learnt(&[header(2, PacketSet::first(2)), header(3, PacketSet::first(3))]).unwrap().count,
            3
        );
        assert_eq!(learnt(&[header(2, PacketSet::first(2))]), None);
        assert_eq!(learnt(&[]), None);
    }

    #[test]
    fn losses_are_told_from_the_header() {
        let p = Packets { count: 128, bytes: 8192 };
        assert_eq!(p.lost(&header(128, PacketSet::first(128))), Lost::Nothing);
        let mut caught = PacketSet::first(128);
        caught.remove(3);
        assert_eq!(p.lost(&header(127, caught)), Lost::Packets(1));
        assert_eq!(p.lost(&header(0, PacketSet::EMPTY)), Lost::Packets(128));
        assert_eq!(p.lost(&header(128, PacketSet::EMPTY)), Lost::Nothing);
        assert_eq!(p.lost(&header(100, PacketSet::EMPTY)), Lost::Somewhere(28));
    }

    #[test]
    fn lost_packets_mask_their_rows() {
        let p = Packets { count: 128, bytes: 8192 };
        let mut caught = PacketSet::first(128);
        caught.remove(3);
        let frame = shape(512, 1024);
        let mut mask = PixelMask::new(frame);
        p.mask(&header(127, caught), frame.pixels(), Some, &mut mask);
        assert_eq!(mask.count(), 4096);
        assert!(
            mask.contains(12, 0)
                && mask.contains(15, 1023)
                && !mask.contains(11, 1023)
                && !mask.contains(16, 0)
        );
    }
}
