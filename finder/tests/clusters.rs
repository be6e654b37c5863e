//! Cluster records and what is taken from them: sums, the largest 2x2, eta.

use half::f16;
use scheidegg_finder::{
    Charge, Cluster, ClusterSize, Clusters, ClustersBuf, Corner, Payload, Record, Shape, Values, record_bytes,
};

const SHAPE: Shape = Shape { rows: 4, cols: 4 };
const SIZE: ClusterSize = ClusterSize { w: 3, h: 3 };

fn cluster(size: ClusterSize, values: &[i32]) -> Cluster<'_> {
    Cluster::new(1, 2, size, Values::I32(values)).unwrap()
}

fn record<T: bytemuck::Pod>(x: u16, y: u16, values: &[T]) -> Vec<u8> {
    let mut bytes = Vec::new();
    bytes.extend(x.to_ne_bytes());
    bytes.extend(y.to_ne_bytes());
    bytes.extend(bytemuck::cast_slice::<T, u8>(values));
    bytes
}

#[test]
fn the_largest_2x2_is_one_of_four_around_the_centre() {
    let base = [1, 2, 3, 4, 50, 6, 7, 8, 9];
    assert_eq!(cluster(SIZE, &base).sum(), 90.0);
    assert_eq!(cluster(SIZE, &base).centre(), 50.0);
    for (i, corner, sum) in [
        (0, Corner::TopLeft, 1 + 2 + 4 + 50),
        (2, Corner::TopRight, 2 + 3 + 50 + 6),
        (6, Corner::BottomLeft, 4 + 50 + 7 + 8),
        (8, Corner::BottomRight, 50 + 6 + 8 + 9),
    ] {
        let mut values = base;
        values[i] += 100;
        assert_eq!(cluster(SIZE, &values).max_sum_2x2(), (f64::from(sum) + 100.0, corner));
    }
    assert_eq!(cluster(SIZE, &[5; 9]).max_sum_2x2(), (20.0, Corner::TopLeft), "the first of equal ones");
    let below = cluster(SIZE, &[-5; 9]);
    assert_eq!((below.max_sum_2x2().0, below.eta2()), (-20.0, None));
}

#[test]
fn windows_of_two_have_fewer_2x2_squares() {
    // 2x2: the centre is its lower right pixel.
    let two = ClusterSize { w: 2, h: 2 };
    assert_eq!(two.centre(), 3);
    assert_eq!(cluster(two, &[1, 2, 3, 4]).max_sum_2x2(), (10.0, Corner::TopLeft));
    // 2 wide, 3 high: nothing to the right of the centre.
    let slim = ClusterSize { w: 2, h: 3 };
    assert_eq!(slim.centre(), 3);
    assert_eq!(cluster(slim, &[0, 0, 5, 9, 7, 1]).max_sum_2x2(), (22.0, Corner::BottomLeft));
    // 4x4: rows and columns 1 to 3 around the centre (2, 2).
    let four = ClusterSize { w: 4, h: 4 };
    let mut values = [0; 16];
    (values[10], values[15], values[0]) = (9, 4, 1000);
    assert_eq!(cluster(four, &values).max_sum_2x2(), (13.0, Corner::BottomRight));
}

#[test]
fn eta_is_the_share_of_the_right_column_and_the_lower_row() {
    //  . . .
    //  . 6 2
    //  . 1 1
    let eta = cluster(SIZE, &[0, 0, 0, 0, 6, 2, 0, 1, 1]).eta2().unwrap();
    assert_eq!((eta.x, eta.y, eta.sum, eta.corner), (0.3, 0.2, 10.0, Corner::BottomRight));
    //  1 2 .
    //  1 6 .
    //  . . .
    let eta = cluster(SIZE, &[1, 2, 0, 1, 6, 0, 0, 0, 0]).eta2().unwrap();
    assert_eq!((eta.x, eta.y, eta.sum, eta.corner), (0.8, 0.7, 10.0, Corner::TopLeft));
}

#[test]
fn records_are_views_in_their_own_type() {
    let mut buf = ClustersBuf::new(SHAPE, SIZE, Payload::I16);
    let (a, b): (Vec<i16>, Vec<i16>) = ((1..10).collect(), (-9..0).collect());
    buf.push_frame(7, &record(1, 2, &a));
    buf.push_frame(8, &[]);
    buf.push_frame(1 << 40, &[record(0, 0, &b), record(3, 3, &a)].concat());
    let view = buf.view();
    assert_eq!((view.len(), view.frames(), view.record_bytes()), (3, 3, 22));
    assert_eq!((view.offsets(), view.numbers()), (&[0, 1, 1, 3][..], &[7, 8, 1 << 40][..]));
    let records = view.records::<i16, 9>().unwrap();
    assert_eq!((records[1].x, records[1].data[8], records[2].y), (0, -1, 3));
    assert!(view.records::<i32, 9>().unwrap_err().to_string().contains("expected i16 x 9 (3x3)"));
    assert!(view.records::<i16, 4>().is_err());
    assert_eq!(view.frame(2).map(|c| c.sum()).collect::<Vec<_>>(), [-45.0, 45.0]);
    assert_eq!(view.frame_bytes(1), []);
    assert_eq!(size_of::<Record<i16, 9>>(), record_bytes(SIZE, Payload::I16));
    assert_eq!(size_of::<Record<f16, 9>>(), record_bytes(SIZE, Payload::F16));
    assert_eq!(size_of::<Record<f32, 15>>(), record_bytes(ClusterSize { w: 5, h: 3 }, Payload::F32));

    let copy = view.to_owned();
    assert_eq!((copy.view().bytes(), copy.view().offsets()), (view.bytes(), view.offsets()));
    let mut twice = copy.clone();
    twice.append(&view);
    assert_eq!(twice.view().offsets(), [0, 1, 1, 3, 4, 4, 6]);
    twice.clear();
    assert!(twice.view().is_empty() && twice.view().frames() == 0);
    assert!(twice.view().records::<i16, 9>().unwrap().is_empty());
}

#[test]
fn half_precision_values_widen_exactly() {
    let mut buf = ClustersBuf::new(SHAPE, ClusterSize { w: 2, h: 2 }, Payload::F16);
    let values = [0.5, -2.0, 65504.0, 1e-7].map(f16::from_f32);
    buf.push_frame(0, &record(3, 1, &values));
    let view = buf.view();
    let cluster = view.get(0);
    assert_eq!((cluster.x, cluster.y, cluster.values().len()), (3, 1, 4));
    assert_eq!(cluster.values().get(2), 65504.0);
    assert_eq!(cluster.centre(), f64::from(values[3]));
    assert_eq!(view.iter().len(), 1);
}

/// The peer's `test_Cluster.py`: a cluster with the wrong number of values is refused.
#[test]
fn a_cluster_has_one_value_a_pixel() {
    for n in [0, 8, 10] {
        let values = vec![1; n];
        for values in [Values::I32(&values), Values::I16(&vec![1; n]), Values::F32(&vec![1.0; n])] {
            let said = Cluster::new(1, 2, SIZE, values).unwrap_err().to_string();
            assert!(said.starts_with(&format!("cluster values = {n}: expected 9")), "{said}");
        }
    }
    for (w, h, n) in [(0, 0, 0), (3, 1, 3), (1, 2, 2), (16, 2, 32)] {
        let values = vec![1; n];
        let said = Cluster::new(1, 2, ClusterSize { w, h }, Values::I32(&values)).unwrap_err().to_string();
        assert!(said.contains(&format!("{w}x{h}")), "{said}");
        let none = Clusters::new(SHAPE, ClusterSize { w, h }, Payload::I32, &[], &[0], &[]);
        assert!(none.unwrap_err().to_string().contains(&format!("{w}x{h}")));
    }
    let whole = Cluster::new(1, 2, ClusterSize { w: 2, h: 3 }, Values::I32(&[1, 2, 3, 4, 5, 6])).unwrap();
    assert_eq!((whole.x, whole.y, whole.size().h, whole.values().len(), whole.sum()), (1, 2, 3, 6, 21.0));
}

#[test]
fn values_know_whether_there_are_any() {
    assert!(Values::I32(&[]).is_empty() && Values::F16(&[]).is_empty());
    assert!(!Values::I16(&[0]).is_empty() && !Values::F32(&[0.0, 1.0]).is_empty());
}

#[test]
fn parts_that_do_not_fit_are_refused() {
    let bytes = vec![0u64; 10];
    let bytes: &[u8] = bytemuck::cast_slice(&bytes);
    let new = |numbers: &'static [u64], offsets: &'static [u64], records| {
        Clusters::new(SHAPE, SIZE, Payload::I32, numbers, offsets, records)
    };
    assert!(new(&[0], &[0, 2], &bytes[..80]).is_ok());
    for (offsets, numbers) in
        [(&[][..], &[0][..]), (&[0], &[0]), (&[1, 2], &[0]), (&[0, 2, 1], &[0, 1]), (&[0, 2, 2], &[0])]
    {
        assert!(new(numbers, offsets, &bytes[..80]).is_err(), "{offsets:?}");
    }
    assert!(new(&[0], &[0, 2], &bytes[..79]).is_err(), "cut short");
    assert!(new(&[0], &[0, 1], &bytes[1..41]).is_err(), "not aligned");
    // No records may start anywhere.
    let none = new(&[0], &[0, 0], &bytes[1..1]).unwrap();
    assert!(none.records::<i32, 9>().unwrap().is_empty());
    assert!(none.with_trace(&[0; 16]).unwrap().trace().is_some());
    assert!(none.with_trace(&[0; 15]).unwrap_err().to_string().contains("16 bytes"));
}

#[test]
fn a_trace_goes_with_its_frames() {
    let mut buf = ClustersBuf::new(SHAPE, SIZE, Payload::I32);
    buf.push_frame(0, &[]);
    buf.push_trace(&[1; 16]);
    buf.push_frame(1, &[]);
    buf.spare_trace().fill(2);
    assert_eq!(buf.view().trace().unwrap()[15..17], [1, 2]);
    let copy = buf.view().to_owned();
    assert_eq!(copy.view().trace(), buf.view().trace());
    buf.clear();
    assert!(buf.view().trace().is_none());
}

#[test]
#[should_panic(expected = "21 bytes are no records of 22")]
fn half_a_record_cannot_be_pushed() {
    ClustersBuf::new(SHAPE, SIZE, Payload::I16).push_frame(0, &[0; 21]);
}

/// A record of values as they are stored in a type: all of them are such that none is changed by it.
fn record_of(payload: Payload, x: u16, y: u16, values: &[f64]) -> Vec<u8> {
    match payload {
        Payload::I32 => record(x, y, &values.iter().map(|v| *v as i32).collect::<Vec<_>>()),
        Payload::I16 => record(x, y, &values.iter().map(|v| *v as i16).collect::<Vec<_>>()),
        Payload::F16 => record(x, y, &values.iter().map(|v| f16::from_f64(*v)).collect::<Vec<_>>()),
        Payload::F32 => record(x, y, &values.iter().map(|v| *v as f32).collect::<Vec<_>>()),
    }
}

#[test]
fn charges_are_those_of_each_cluster() {
    for payload in Payload::ALL {
        for (w, h) in [(3, 3), (2, 2), (5, 4)] {
            let size = ClusterSize { w, h };
            // Extremes, equal squares, both signs.
            let (low, high) = match payload {
                Payload::I16 => (f64::from(i16::MIN), f64::from(i16::MAX)),
                Payload::F16 => (-65_504.0, 65_504.0),
                _ => (f64::from(i32::MIN), f64::from(i32::MAX)),
            };
            let value = |i: usize| [high, 7.0, 7.0, -3.0, low, 0.0, 7.0, 12.0, 1.0][i % 9];
            let mut buf = ClustersBuf::new(SHAPE, size, *payload);
            for k in 0..9 {
                let values: Vec<f64> = (0..size.pixels()).map(|i| value(i + k)).collect();
                buf.push_frame(k as u64, &record_of(*payload, k as u16 % 4, 3, &values));
            }
            let view = buf.view();
            let mut at = 2;
            view.charges(2..9, |c| {
                let one = view.get(at);
                assert_eq!((c.x, c.y, c.centre, c.sum), (one.x, one.y, one.centre(), one.sum()));
                assert_eq!((c.sum_2x2, c.eta), (one.max_sum_2x2().0, one.eta2()));
                at += 1;
            });
            assert_eq!(at, 9);
        }
    }
}

#[test]
fn infinite_values_are_counted_and_coordinates_are_none() {
    let wide = Shape { rows: 65_536, cols: 40_000 };
    let mut batch = ClustersBuf::new(wide, SIZE, Payload::F16);
    assert_eq!(batch.view().infinite_f16(), 0);
    let [zero, most, inf] = [0.0, 65_504.0, f32::INFINITY].map(f16::from_f32);
    // These coordinates have the bits of both infinities.
    batch.push_frame(1, &record(0x7c00, 0xfc00, &[most; 9]));
    assert_eq!(batch.view().infinite_f16(), 0);
    batch.push_frame(2, &record(0x7c00, 0xfc00, &[inf, zero, -inf, most, -most, zero, zero, zero, inf]));
    batch.push_frame(3, &record(1, 2, &[zero, zero, zero, zero, inf, zero, zero, zero, zero]));
    assert_eq!((batch.view().infinite_f16(), batch.view().is_empty()), (4, false));
    for _ in 0..2000 {
        batch.push_frame(4, &record(5, 6, &[inf; 9]));
    }
    assert_eq!(batch.view().infinite_f16(), 4 + 18_000);
    let mut other = ClustersBuf::new(wide, SIZE, Payload::I16);
    other.push_frame(1, &record(0x7c00, 0xfc00, &[0x7c00i16; 9]));
    assert_eq!(other.view().infinite_f16(), 0, "no half precision");
}

/// Bits that look random.
fn random(state: &mut u64) -> u64 {
    *state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
    *state >> 33
}

/// Weak photons of 150 to 250 ADU whose eta is even from 0.2 to 0.8 both ways, as `values` rounds them, 3 a frame.
fn weak_photons(payload: Payload, frames: u64, size: ClusterSize) -> ClustersBuf {
    let mut buf = ClustersBuf::new(SHAPE, size, payload);
    let mut state = 7;
    let mut even = |low: f64, high: f64| low + (high - low) * random(&mut state) as f64 / 2f64.powi(31);
    for number in 0..frames {
        let mut records = Vec::new();
        for x in 0..3 {
            let (sum, across, down) = (even(150.0, 250.0), even(0.2, 0.8), even(0.2, 0.8));
            let mut values = vec![0.0; size.pixels()];
            let at = size.centre();
            let left = at - size.w - 1;
            for (i, share) in [
                (left, (1.0 - across) * (1.0 - down)),
                (left + 1, across * (1.0 - down)),
                (left + size.w, (1.0 - across) * down),
                (at, across * down),
            ] {
                values[i] = sum * share;
            }
            records.extend((x as u16).to_ne_bytes());
            records.extend(2u16.to_ne_bytes());
            for v in values {
                match payload {
                    Payload::I32 => records.extend((v.round() as i32).to_ne_bytes()),
                    Payload::I16 => records.extend((v.round() as i16).to_ne_bytes()),
                    Payload::F16 => records.extend(f16::from_f64(v).to_bits().to_ne_bytes()),
                    Payload::F32 => records.extend((v as f32).to_ne_bytes()),
                }
            }
        }
        buf.push_frame(number, &records);
    }
    buf
}

/// How far counts are from even: chi-squared over its degrees of freedom, of cells of 0.01 between 0.25 and 0.75.
fn unevenness(etas: &[f64]) -> f64 {
    let mut counts = [0.0; 50];
    for cell in
        etas.iter().filter_map(|e| Some(((e - 0.25) * 100.0).floor()).filter(|c| (0.0..50.0).contains(c)))
    {
        counts[cell as usize] += 1.0;
    }
    let mean = counts.iter().sum::<f64>() / 50.0;
    counts.iter().map(|n| (n - mean).powi(2) / mean).sum::<f64>() / 49.0
}

#[test]
fn eta_of_weak_photons_has_no_steps() {
    for (w, h) in [(3, 3), (2, 2), (5, 5)] {
        for payload in Payload::ALL {
            let buf = weak_photons(*payload, 60_000, ClusterSize { w, h });
            let view = buf.view();
            let (mut rounded, mut not) = ([Vec::new(), Vec::new()], [Vec::new(), Vec::new()]);
            let put = |to: &mut [Vec<f64>; 2], c: Charge| {
                let eta = c.eta.expect("a charge above 0");
                to[0].push(eta.x);
                to[1].push(eta.y);
            };
            view.charges(0..view.len(), |c| put(&mut rounded, c));
            view.charges_unrounded(0..view.len(), |c| put(&mut not, c));
            for axis in 0..2 {
                let (before, after) = (unevenness(&rounded[axis]), unevenness(&not[axis]));
                assert!(after < 1.6, "{w}x{h} {payload}: {after}");
                if matches!(payload, Payload::I32 | Payload::I16) {
                    assert!(before > 3.0, "{w}x{h} {payload}: {before}");
                }
            }
        }
    }
}

/// The bits that tell the parts of a digit: SplitMix64, as others write it.
fn splitmix(x: u64) -> u64 {
    let mut z = (u128::from(x) + 0x9e37_79b9_7f4a_7c15) as u64;
    for (shift, factor) in [(30, 0xbf58_476d_1ce4_e5b9), (27, 0x94d0_49bb_1331_11eb)] {
        z = (u128::from(z ^ (z / (1 << shift))) * factor) as u64;
    }
    z ^ (z / (1 << 31))
}

/// Eta of a cluster whose rounding is undone, in the plainest words: shares of the right column and the lower row.
fn unrounded(payload: Payload, number: u64, at: (u16, u16), size: ClusterSize, values: &[f64]) -> (f64, f64) {
    let digits = splitmix(splitmix(number) ^ (u64::from(at.1) * 65_536 + u64::from(at.0)));
    let (up, left) = (size.h / 2, size.w / 2);
    // Of the 3x3 around the centre, as far as the window has it.
    let value = |row: usize, column: usize| {
        let v = values[row * size.w + column];
        let place = 3 * (row + 1 - up) + (column + 1 - left);
        let part = (digits / 128u64.pow(place as u32) % 128) as f64;
        let digit = if payload == Payload::F16 { v.abs().log2().floor().exp2() / 1024.0 } else { 1.0 };
        v + (part - 63.5) / 128.0 * digit
    };
    let mut best = (f64::MIN, 0.0, 0.0);
    for (row, column) in [(up - 1, left - 1), (up - 1, left), (up, left - 1), (up, left)] {
        if row + 1 < size.h && column + 1 < size.w {
            let (a, b) = (value(row, column), value(row, column + 1));
            let (c, d) = (value(row + 1, column), value(row + 1, column + 1));
            let sum = a + b + c + d;
            if sum > best.0 {
                best = (sum, (b + d) / sum, (c + d) / sum);
            }
        }
    }
    (best.1, best.2)
}

#[test]
fn the_bits_of_parts_are_those_of_others() {
    // The first numbers of SplitMix64 from these seeds.
    let known = [
        (0, 0xe220_a839_7b1d_cdaf),
        (1, 0x910a_2dec_8902_5cc1),
        (2, 0x9758_35de_1c97_56ce),
        (0x9e37_79b9_7f4a_7c15, 0x6e78_9e6a_a1b9_65f4),
    ];
    known.iter().for_each(|(seed, first)| assert_eq!(splitmix(*seed), *first));
}

#[test]
fn rounding_is_undone_by_the_parts_that_frame_and_place_tell() {
    let shape = Shape { rows: 70, cols: 1000 };
    let mut state = 3;
    for payload in Payload::ALL {
        for (w, h) in [(3, 3), (2, 2), (3, 2), (2, 5), (4, 4), (5, 5), (7, 6)] {
            let size = ClusterSize { w, h };
            let mut buf = ClustersBuf::new(shape, size, *payload);
            let mut expected = Vec::new();
            for number in [0, 1, 77, 1 << 40, u64::MAX] {
                let mut records = Vec::new();
                for _ in 0..3 {
                    let at = ((random(&mut state) % 1000) as u16, (random(&mut state) % 70) as u16);
                    let mut values: Vec<f64> =
                        (0..size.pixels()).map(|_| (random(&mut state) % 300) as f64 - 40.0).collect();
                    values[size.centre()] = 1000.0;
                    records.extend(record_of(*payload, at.0, at.1, &values));
                    expected.push(unrounded(*payload, number, at, size, &values));
                }
                buf.push_frame(number, &records);
            }
            let view = buf.view();
            let (mut found, mut plain) = (Vec::new(), Vec::new());
            let eta = |c: Charge| c.eta.map(|e| (e.x, e.y)).expect("a charge above 0");
            view.charges_unrounded(0..view.len(), |c| found.push(eta(c)));
            view.charges(0..view.len(), |c| plain.push(eta(c)));
            assert_eq!(found, if *payload == Payload::F32 { plain } else { expected }, "{payload} {size}");
        }
    }
}

#[test]
fn rounding_is_undone_alike_in_any_ranges() {
    let size = ClusterSize::square(3).unwrap();
    for payload in Payload::ALL {
        let mut buf = weak_photons(*payload, 40, size);
        buf.push_frame(1000, &[]);
        buf.push_frame(1001, &[]);
        buf.append(&weak_photons(*payload, 3, size).view());
        let view = buf.view();
        let mut whole = Vec::new();
        view.charges_unrounded(0..view.len(), |c| whole.push(c));
        let mut plain = Vec::new();
        view.charges(0..view.len(), |c| plain.push(c));
        assert_eq!(whole.len(), view.len());
        for (a, b) in whole.iter().zip(&plain) {
            assert_eq!((a.x, a.y, a.centre, a.sum, a.sum_2x2), (b.x, b.y, b.centre, b.sum, b.sum_2x2));
            let (a, b) = (a.eta.unwrap(), b.eta.unwrap());
            // Four values, each within half a digit.
            assert!((a.sum - b.sum).abs() <= 2.0 && (a.x - b.x).abs() < 0.03, "{a:?} {b:?}");
            assert_eq!(a == b, *payload == Payload::F32);
        }
        for step in [1, 2, 50] {
            let mut parts = Vec::new();
            for from in (0..view.len()).step_by(step) {
                view.charges_unrounded(from..(from + step).min(view.len()), |c| parts.push(c));
            }
            assert_eq!(parts, whole, "{payload} in steps of {step}");
        }
        view.charges_unrounded(view.len()..view.len(), |_| panic!("an empty range"));
        // The same photon in another frame, or elsewhere in it, is another one.
        if *payload == Payload::I32 {
            let frames = weak_photons(*payload, 1, size);
            let (first, again) = (frames.view(), frames.view());
            let mut other = ClustersBuf::new(SHAPE, size, *payload);
            other.push_frame(9, again.bytes());
            let mut etas = Vec::new();
            first.charges_unrounded(0..1, |c| etas.push(c.eta));
            other.view().charges_unrounded(0..1, |c| etas.push(c.eta));
            assert_ne!(etas[0], etas[1]);
        }
    }
}
