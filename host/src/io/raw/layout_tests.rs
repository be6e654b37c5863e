//! Layouts against a plain model: every pixel of the whole image is asked which port sends it.

use scheidegg_finder::{PixelMask, Shape};

use super::fields::Roi;
use super::header::{Detector, Header, PacketSet};
use super::layout::{Layout, Lost, Packets};

const fn shape(rows: usize, cols: usize) -> Shape {
    Shape { rows, cols }
}

fn header(packets: u32, caught: PacketSet) -> Header {
    let mut h = Header::parse(&[0; Header::BYTES]);
    (h.packets, h.caught) = (packets, caught);
    h
}

/// Compares a layout with what each pixel says.
fn check(port: Shape, geometry: Shape, roi: Option<Roi>) {
    let l = Layout::of_ports(port, geometry, roi).unwrap();
    let whole = shape(port.rows * geometry.rows, port.cols * geometry.cols);
    let (first, last) = match roi {
        None => ((0, 0), (whole.rows - 1, whole.cols - 1)),
        Some(r) => ((r.ymin, r.xmin), (r.ymax.min(whole.rows - 1), r.xmax.min(whole.cols - 1))),
    };
    let frame = shape(last.0 - first.0 + 1, last.1 - first.1 + 1);
    assert_eq!(l.shape, frame, "{port} {geometry} {roi:?}");
    let mut pixels = 0;
    for d in 0..geometry.pixels() {
        let (top, left) = (d % geometry.rows * port.rows, d / geometry.rows * port.cols);
        let view = l.ports.iter().find(|p| p.port == d);
        let mut own = 0;
        for word in 0..port.pixels() {
            let (row, col) = (top + word / port.cols, left + word % port.cols);
            let inside = (first.0..=last.0).contains(&row) && (first.1..=last.1).contains(&col);
            let expected = inside.then(|| (row - first.0) * frame.cols + col - first.1);
            assert_eq!(view.and_then(|v| v.pixel_of(word, frame.cols)), expected, "port {d} word {word}");
            own += usize::from(inside);
        }
        // A port without a pixel in the frame has no file.
        assert_eq!(view.map_or(0, |v| v.image_bytes), 2 * own);
        assert_eq!(view.is_some(), own > 0);
        if let Some(v) = view {
            assert_eq!((v.full, v.stored, v.used.rows * v.used.cols), (port, v.used, own));
            assert_eq!(
                v.pixel_of(v.used.row * port.cols + v.used.col, frame.cols),
                Some(v.row * frame.cols + v.col)
            );
        }
        pixels += own;
    }
    assert_eq!(pixels, frame.pixels());
}

#[test]
fn every_pixel_comes_from_the_port_that_covers_it() {
    check(shape(4, 5), shape(1, 1), None);
    check(shape(1, 1), shape(3, 2), None);
    check(shape(3, 4), shape(4, 2), None);
    let (port, geometry) = (shape(3, 4), shape(3, 2));
    for xmin in 0..8 {
        for xmax in xmin..10 {
            for ymin in 0..9 {
                for ymax in [ymin, ymin + 1, ymin + 4, 8, 11] {
                    if ymin <= ymax {
                        check(port, geometry, Some(Roi { xmin, xmax, ymin, ymax }));
                    }
                }
            }
        }
    }
}

#[test]
fn the_largest_layouts_are_taken_and_larger_ones_refused() {
    assert_eq!(Layout::of_ports(shape(1, 1), shape(32, 32), None).unwrap().ports.len(), 1024);
    assert!(Layout::of_ports(shape(1, 1), shape(1025, 1), None).unwrap_err().contains("at most 1024 in all"));
    assert!(Layout::of_ports(shape(65_536, 1), shape(1, 1), None).is_ok());
    for (port, geometry) in [(shape(65_536, 1), shape(2, 1)), (shape(1, usize::MAX), shape(1, 2))] {
        assert!(Layout::of_ports(port, geometry, None).unwrap_err().contains("at most 65536 a side"));
    }
    let whole = |roi| Layout::of_ports(shape(4, 6), shape(1, 1), Some(roi));
    assert_eq!(whole(Roi { xmin: 5, xmax: 5, ymin: 3, ymax: 3 }).unwrap().shape, shape(1, 1));
    assert!(
        whole(Roi { xmin: 6, xmax: 6, ymin: 0, ymax: 0 }).unwrap_err().contains("outside the image of 4 x 6")
    );
    assert!(whole(Roi { xmin: 0, xmax: 0, ymin: 4, ymax: 4 }).unwrap_err().contains("outside the image"));
}

#[test]
fn packets_fit_up_to_their_number() {
    // 512 packets are the most that a header has bits for.
    let own = |packets: usize| Packets::of_detector(Detector::Jungfrau, packets * 8192, true);
    assert_eq!(own(512), Some(Packets { count: 512, bytes: 8192 }));
    assert_eq!(own(513), None);
    let learnt = |bytes: usize, h: Header| Packets::of_headers(bytes, [h].iter());
    assert_eq!(learnt(600, header(3, PacketSet::first(2))), Some(Packets { count: 3, bytes: 200 }));
    assert_eq!(learnt(600, header(2, PacketSet::first(3))), Some(Packets { count: 3, bytes: 200 }));
    assert_eq!(learnt(600, header(7, PacketSet::EMPTY)), None, "not cut evenly");
    assert_eq!(learnt(600, header(0, PacketSet::EMPTY)), None);
    assert_eq!(learnt(2 * 513, header(513, PacketSet::EMPTY)), None);
    assert_eq!(learnt(2 * 512, header(512, PacketSet::EMPTY)), Some(Packets { count: 512, bytes: 2 }));

    let p = Packets { count: 10, bytes: 6 };
    for (packets, caught, fits) in
        [(10, 10, true), (0, 0, true), (11, 10, false), (10, 11, false), (11, 11, false)]
    {
        assert_eq!(p.fits(&header(packets, PacketSet::first(caught))), fits, "{packets} {caught}");
    }
}

#[test]
fn lost_packets_are_counted_where_they_are_known() {
    let p = Packets { count: 10, bytes: 6 };
    assert_eq!(p.lost(&header(9, PacketSet::first(9))), Lost::Packets(1));
    assert_eq!(p.lost(&header(12, PacketSet::EMPTY)), Lost::Nothing);
    assert_eq!(p.lost(&header(9, PacketSet::EMPTY)), Lost::Somewhere(1));
    let counts = [Lost::Nothing, Lost::Packets(3), Lost::Somewhere(4)].map(Lost::packets);
    assert_eq!(counts, [0, 3, 4]);
}

#[test]
fn a_word_between_two_packets_is_lost_with_either() {
    // Packets of 5 bytes: 0 to 5, 5 to 10, 10 to 15; the words of 2 bytes 2 and 7 are in two packets each.
    let p = Packets { count: 4, bytes: 5 };
    for (packet, words) in [(0, vec![0, 1, 2]), (1, vec![2, 3, 4]), (2, vec![5, 6, 7]), (3, vec![7, 8])] {
        let mut caught = PacketSet::first(4);
        caught.remove(packet);
        let mut mask = PixelMask::new(shape(1, 20));
        // The image ends after 9 words; pixels run the other way; word 3 is not in the frame.
        let pixel_of = |word: usize| (word != 3).then_some(19 - word);
        p.mask(&header(3, caught), 9, pixel_of, &mut mask);
        let mut expected: Vec<usize> = words.into_iter().filter(|w| *w != 3).map(|w| 19 - w).collect();
        expected.sort_unstable();
        assert_eq!(mask.indices().collect::<Vec<_>>(), expected, "packet {packet}");
    }
}

#[test]
fn a_packet_past_the_last_is_in_no_set() {
    let mut all = PacketSet::first(512);
    assert!(all.contains(511) && !all.contains(512) && !all.contains(usize::MAX));
    all.remove(512);
    all.remove(usize::MAX);
    assert_eq!(all, PacketSet::first(512));
    all.remove(511);
    assert_eq!(all, PacketSet::first(511));
    assert_eq!((PacketSet::EMPTY.end(), PacketSet::EMPTY.count_below(512)), (0, 0));
    for n in 0..=512 {
        let set = PacketSet::first(n);
        assert!((0..512).all(|k| set.contains(k) == (k < n)), "{n}");
    }
}

#[test]
fn a_header_is_read_where_its_fields_lie() {
    let bytes: [u8; Header::BYTES] = std::array::from_fn(|i| i as u8 + 1);
    let h = Header::parse(&bytes);
    let le = |at: usize, n: usize| (0..n).fold(0u64, |v, i| v | u64::from(bytes[at + i]) << (8 * i));
    assert_eq!((h.frame, h.bunch, h.timestamp_100ns), (le(0, 8), le(16, 8), le(24, 8)));
    assert_eq!((u64::from(h.exposure_100ns), u64::from(h.packets)), (le(8, 4), le(12, 4)));
    assert_eq!([h.module, h.row, h.column].map(u64::from), [le(32, 2), le(34, 2), le(36, 2)]);
    assert_eq!((h.detector, h.version), (47, 48));
    for packet in 0..512 {
        assert_eq!(h.caught.contains(packet), bytes[48 + packet / 8] >> (packet % 8) & 1 == 1, "{packet}");
    }
    assert_eq!(Header::parse(&h.to_bytes()), h);
    assert_eq!(h.to_bytes()[..36], bytes[..36]);
    assert_eq!(h.to_bytes()[46..], bytes[46..]);
    for (detector, code, name) in [(Detector::Jungfrau, 3, "Jungfrau"), (Detector::Moench, 5, "Moench")] {
        assert_eq!((detector.header_code(), detector.name()), (code, name));
    }
}
