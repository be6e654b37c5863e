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
    /// Pixels of it that no port has.
    pub absent: Option<PixelMask>,
    /// Rows and columns of the whole detector, and the part of it that is the frame.
    pub whole: Option<Shape>,
    pub region: Option<Roi>,
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
        Ok(Layout { shape, ports, absent: None, whole: Some(whole), region: Some(roi) })
    }

    /// One chip test board.
    pub fn of_board(shape: Shape, image_bytes: usize) -> Layout {
        let view = PortView {
            port: 0,
            full: shape,
            stored: Rect::whole(shape),
            used: Rect::whole(shape),
            row: 0,
            col: 0,
            image_bytes,
        };
        Layout { shape, ports: vec![view], absent: None, whole: None, region: None }
    }

    /// The same without some ports: the image is the smallest one that holds the others, and pixels of it that no port has
    /// are masked.
    pub fn without(mut self, absent: &[usize]) -> Result<Layout, String> {
        self.ports.retain(|p| !absent.contains(&p.port));
        let edge = |f: fn(&PortView) -> usize| self.ports.iter().map(f);
        let (Some(top), Some(left)) = (edge(|p| p.row).min(), edge(|p| p.col).min()) else {
            return Err("none of its UDP ports has data: there is no image".into());
        };
        let (bottom, right) = (edge(|p| p.row + p.used.rows).max(), edge(|p| p.col + p.used.cols).max());
        self.shape = Shape { rows: bottom.unwrap_or(top) - top, cols: right.unwrap_or(left) - left };
        for port in &mut self.ports {
            (port.row, port.col) = (port.row - top, port.col - left);
        }
        if let Some(r) = &mut self.region {
            (r.xmin, r.ymin) = (r.xmin + left, r.ymin + top);
            (r.xmax, r.ymax) = (r.xmin + self.shape.cols - 1, r.ymin + self.shape.rows - 1);
        }
        self.mask_ports(&[])
    }

    /// The same image with the pixels of these ports masked, and all others that no port has.
    pub fn mask_ports(mut self, absent: &[usize]) -> Result<Layout, String> {
        self.ports.retain(|p| !absent.contains(&p.port));
        if self.ports.is_empty() {
            return Err("none of its UDP ports has data: there is no image".into());
        }
        let mut bare = vec![true; self.shape.pixels()];
        for port in &self.ports {
            for r in 0..port.used.rows {
                bare[(port.row + r) * self.shape.cols + port.col..][..port.used.cols].fill(false);
            }
        }
        let mask = PixelMask::from_bools(self.shape, &bare).map_err(|e| e.to_string())?;
        self.absent = Some(mask).filter(|m| !m.is_empty());
        Ok(self)
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
            Detector::Board(_) if !ten_giga => SLOW_BOARD,
            d => d.packet_bytes(),
        };
        let whole = matches!(detector, Detector::Board(_)) || full_bytes.is_multiple_of(bytes);
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

    /// The pixel of the frame that a word of the image in the file is.
    pub fn stored_pixel_of(&self, word: usize, cols: usize) -> Option<usize> {
        let (r, c) = (word / self.stored.cols + self.stored.row, word % self.stored.cols + self.stored.col);
        self.pixel_of(r * self.full.cols + c, cols)
    }
}

#[cfg(test)]
mod tests {
    use super::super::boards::Board;
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
    fn ports_without_files_leave_the_image_or_are_masked() {
        let all = || Layout::of_ports(shape(4, 6), shape(2, 2), None).unwrap();
        let half = all().without(&[1, 3]).unwrap();
        assert_eq!((half.shape, half.absent), (shape(4, 12), None));
        let low = all().without(&[0, 2]).unwrap();
        assert_eq!(
            low.ports.iter().map(|p| (p.port, p.row, p.col)).collect::<Vec<_>>(),
            [(1, 0, 0), (3, 0, 6)]
        );
        let l = all().without(&[2]).unwrap();
        let absent = l.absent.unwrap();
        assert_eq!((l.shape, absent.count()), (shape(8, 12), 24));
        assert!(
            absent.contains(0, 6)
                && absent.contains(3, 11)
                && !absent.contains(0, 5)
                && !absent.contains(4, 6)
        );
        assert!(all().without(&[0, 1, 2, 3]).is_err());
    }

    /// Of three ports down and across some have no data: image and region shrink to the others, or nothing is left.
    #[test]
    fn a_region_shrinks_with_its_image() {
        let roi = |xmin, xmax, ymin, ymax| Roi { xmin, xmax, ymin, ymax };
        let of = |absent: &[usize]| {
            let l = Layout::of_ports(shape(4, 6), shape(3, 3), Some(roi(2, 16, 1, 10))).unwrap();
            l.without(absent).map(|l| {
                let ports = l.ports.iter().map(|p| (p.port, p.row, p.col)).collect::<Vec<_>>();
                (l.shape, l.region.unwrap(), ports, l.absent.map_or(0, |m| m.count()))
            })
        };
        let all = (0..9).map(|d| (d, [0, 3, 7][d % 3], [0, 4, 10][d / 3])).collect();
        assert_eq!(of(&[]), Ok((shape(10, 15), roi(2, 16, 1, 10), all, 0)));
        // The first column and row of ports: what is left begins at row 4 and column 6 of the detector.
        let low = vec![(4, 0, 0), (5, 4, 0), (7, 0, 6), (8, 4, 6)];
        assert_eq!(of(&[0, 1, 2, 3, 6]), Ok((shape(7, 11), roi(6, 16, 4, 10), low, 0)));
        // The last ones.
        let high = vec![(0, 0, 0), (1, 3, 0), (3, 0, 4), (4, 3, 4)];
        assert_eq!(of(&[2, 5, 6, 7, 8]), Ok((shape(7, 10), roi(2, 11, 1, 7), high, 0)));
        // Two corners: the other two are masked.
        let corners = vec![(4, 0, 0), (8, 4, 6)];
        let masked = 4 * 5 + 3 * 6;
        assert_eq!(of(&[0, 1, 2, 3, 5, 6, 7]), Ok((shape(7, 11), roi(6, 16, 4, 10), corners, masked)));
        let nothing = Err("none of its UDP ports has data: there is no image".to_string());
        assert_eq!(of(&[0, 1, 2, 3, 4, 5, 6, 7, 8]), nothing);
        let l = Layout::of_ports(shape(4, 6), shape(1, 2), None).unwrap();
        assert_eq!(l.clone().mask_ports(&[0, 1]).map(|l| l.shape), nothing.map(|n| n.0));
        let masked = l.mask_ports(&[1]).unwrap();
        assert_eq!((masked.shape, masked.ports.len(), masked.absent.unwrap().count()), (shape(4, 12), 1, 24));
    }

    #[test]
    fn words_of_a_file_are_those_of_the_part_in_it() {
        let roi = Roi { xmin: 2, xmax: 8, ymin: 1, ymax: 6 };
        let l = Layout::of_ports(shape(4, 6), shape(2, 2), Some(roi)).unwrap();
        for p in &l.ports {
            for whole in [false, true] {
                let stored = if whole { Rect::whole(p.full) } else { p.used };
                let view = PortView { stored, ..p.clone() };
                for word in 0..stored.rows * stored.cols {
                    let (r, c) = (stored.row + word / stored.cols, stored.col + word % stored.cols);
                    let pixel = p.pixel_of(r * 6 + c, l.shape.cols);
                    assert!(whole || pixel.is_some());
                    assert_eq!(
                        view.stored_pixel_of(word, l.shape.cols),
                        pixel,
                        "port {} word {word}",
                        p.port
                    );
                }
            }
        }
    }

    #[test]
    fn a_region_may_touch_every_edge_and_no_more() {
        let roi = |xmin, xmax, ymin, ymax| Some(Roi { xmin, xmax, ymin, ymax });
        let of = |roi| Layout::of_ports(shape(4, 6), shape(2, 2), roi);
        assert_eq!(of(None).unwrap().shape, shape(8, 12));
        let corner = of(roi(11, 99, 7, 99)).unwrap();
        assert_eq!((corner.shape, corner.ports.len(), corner.ports[0].port), (shape(1, 1), 1, 3));
        assert!(of(roi(12, 12, 0, 0)).unwrap_err().contains("outside"));
        assert!(of(roi(0, 0, 8, 8)).unwrap_err().contains("outside"));
        // One column of a port beside another port.
        let seam = of(roi(5, 6, 0, 0)).unwrap();
        assert_eq!(
            seam.ports.iter().map(|p| (p.port, p.col, p.used.cols)).collect::<Vec<_>>(),
            [(0, 0, 1), (2, 1, 1)]
        );
        assert!(Layout::of_ports(shape(1, 1), shape(32, 32), None).is_ok());
        assert!(Layout::of_ports(shape(1, 1), shape(41, 25), None).unwrap_err().contains("at most 1024"));
    }

    #[test]
    fn a_region_across_ports_is_one_image() {
        let roi = Roi { xmin: 0, xmax: 1023, ymin: 250, ymax: 259 };
        let l = Layout::of_ports(shape(256, 1024), shape(2, 1), Some(roi)).unwrap();
        let at: Vec<_> = l.ports.iter().map(|p| (p.port, p.row, p.used.row, p.used.rows)).collect();
        assert_eq!(at, [(0, 0, 250, 6), (1, 6, 0, 4)]);
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
        assert_eq!(Packets::of_detector(Detector::Board(Board::Moench03), 360_000, true).unwrap().count, 45);
        assert_eq!(
            Packets::of_detector(Detector::Board(Board::Moench03), 360_000, false).unwrap().count,
            268
        );
        assert_eq!(Packets::of_detector(Detector::Moench, 33 * 41 * 2, true), None);
        assert_eq!(Packets::of_detector(Detector::Jungfrau, 512 * 8192, true).unwrap().count, 512);
        assert_eq!(Packets::of_detector(Detector::Jungfrau, 513 * 8192, true), None);
        assert!(own.fits(&header(128, PacketSet::first(128))));
        assert!(
            !own.fits(&header(129, PacketSet::first(128))) && !own.fits(&header(128, PacketSet::first(129)))
        );
        let learnt = |all: &[Header]| Packets::of_headers(33 * 41 * 2, all.iter());
        assert_eq!(
            learnt(&[header(2, PacketSet::first(2)), header(3, PacketSet::first(3))]).unwrap(),
            Packets { count: 3, bytes: 11 * 41 * 2 }
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
