//! Comparisons in windows other than 3x3, at gains above a bin an ADU, and at the bounds of what counts.

use approx::{assert_abs_diff_eq, assert_relative_eq};
use scheidegg_finder::{ClustersBuf, Payload, Shape};

use super::*;
use crate::io::simulate::Simulation;

/// Windows that are larger, oblong either way, and even: those reach further up and left.
const WINDOWS: [(usize, usize); 6] = [(3, 3), (5, 5), (2, 5), (5, 2), (7, 3), (4, 4)];

fn buffer(simulator: &Simulator, size: ClusterSize) -> ClustersBuf {
    ClustersBuf::new(simulator.shape(), size, Payload::I32)
}

/// A frame of clusters with these values, centred on these pixels.
fn push(buf: &mut ClustersBuf, size: ClusterSize, number: u64, centres: &[(i64, i64)], values: &[i32]) {
    assert_eq!(values.len(), size.pixels());
    let mut bytes = Vec::new();
    for (row, col) in centres {
        bytes.extend((*col as u16).to_ne_bytes());
        bytes.extend((*row as u16).to_ne_bytes());
        values.iter().for_each(|v| bytes.extend(v.to_ne_bytes()));
    }
    buf.push_frame(number, &bytes);
}

fn point(size: ClusterSize, adu: i32) -> Vec<i32> {
    let mut values = vec![0; size.pixels()];
    values[size.centre()] = adu;
    values
}

/// A simulation, and the first of its frames with one photon of which `wanted` is true: its number and the photon's pixel.
fn frame_with(gain: f64, wanted: impl Fn(i64, i64) -> bool) -> (Arc<Simulator>, u64, (i64, i64)) {
    let s = Simulation {
        rows: 24,
        cols: 26,
        photons_per_frame: 1.0,
        gain_adu_per_kev: gain,
        ..Simulation::default()
    };
    let simulator = s.without_faults().build().unwrap();
    let found = (0..200_000).find_map(|k| match simulator.photons(k)[..] {
        [p] if wanted(p.pixel().0 as i64, p.pixel().1 as i64) => {
            Some((k, (p.pixel().0 as i64, p.pixel().1 as i64)))
        }
        _ => None,
    });
    let (k, pixel) = found.expect("a photon somewhere");
    (simulator, k, pixel)
}

fn summary(
    simulator: &Arc<Simulator>,
    size: ClusterSize,
    mask: &[(i64, i64)],
    buf: &ClustersBuf,
) -> TruthSummary {
    let mut pixels = PixelMask::new(simulator.shape());
    mask.iter().for_each(|m| pixels.insert(m.0 as usize, m.1 as usize));
    let mut truth = Truth::new(simulator.clone(), size).with_mask(&pixels).unwrap();
    truth.add(&buf.view()).unwrap();
    truth.summary()
}

/// A photon is clean when the window around it, one pixel wider each way, lies in the frame and holds no masked pixel.
#[test]
fn clean_photons_have_their_window_and_one_pixel_more() {
    for (w, h) in WINDOWS {
        let size = ClusterSize::new(w, h).unwrap();
        let (up, down) = (size.up() as i64 + 1, size.down() as i64 + 1);
        let (left, right) = (size.left() as i64 + 1, size.right() as i64 + 1);
        let clean = |simulator: &Arc<Simulator>, k, mask: &[(i64, i64)]| {
            let mut buf = buffer(simulator, size);
            push(&mut buf, size, k, &[], &point(size, 1));
            summary(simulator, size, mask, &buf).clean_photons
        };
        let (simulator, k, (row, col)) =
            frame_with(124.0, |r, c| (9..15).contains(&r) && (10..16).contains(&c));
        assert_eq!(clean(&simulator, k, &[]), 1);
        for (at, expected) in [
            ((row - up, col), 0),
            ((row - up - 1, col), 1),
            ((row + down, col), 0),
            ((row + down + 1, col), 1),
            ((row, col - left), 0),
            ((row, col - left - 1), 1),
            ((row, col + right), 0),
            ((row, col + right + 1), 1),
            ((row - up, col - left), 0),
            ((row + down, col + right), 0),
        ] {
            assert_eq!(
                clean(&simulator, k, &[at]),
                expected,
                "{size}: masked at {at:?}, photon at {row}, {col}"
            );
        }
        // The frame's edges: just inside, just outside.
        let Shape { rows, cols } = simulator.shape();
        let (rows, cols) = (rows as i64, cols as i64);
        let middle = |n: i64, side: i64| (side / 2 - 3..side / 2 + 3).contains(&n);
        for (row, col, expected) in [
            (Some(up), None, 1),
            (Some(up - 1), None, 0),
            (Some(rows - 1 - down), None, 1),
            (Some(rows - down), None, 0),
            (None, Some(left), 1),
            (None, Some(left - 1), 0),
            (None, Some(cols - 1 - right), 1),
            (None, Some(cols - right), 0),
        ] {
            let (simulator, k, at) = frame_with(124.0, |r, c| {
                row.map_or(middle(r, rows), |n| n == r) && col.map_or(middle(c, cols), |n| n == c)
            });
            assert_eq!(clean(&simulator, k, &[]), expected, "{size}: photon at {at:?}");
        }
    }
}

/// Which clusters a photon explains: all whose window holds its pixel.
#[test]
fn a_cluster_without_its_photon_is_extra_as_far_as_its_window_reaches() {
    for (w, h) in WINDOWS {
        let size = ClusterSize::new(w, h).unwrap();
        let (simulator, k, (row, col)) =
            frame_with(124.0, |r, c| (9..15).contains(&r) && (10..16).contains(&c));
        let (up, down) = (size.up() as i64, size.down() as i64);
        let (left, right) = (size.left() as i64, size.right() as i64);
        // The photon lies at most `up` rows above a centre that holds it, and `down` rows below.
        for (dr, dc) in (-8..=8).flat_map(|r| (-8..=8).map(move |c| (r, c))) {
            let mut buf = buffer(&simulator, size);
            // The first one takes the photon.
            push(&mut buf, size, k, &[(row, col), (row + dr, col + dc)], &point(size, 500));
            let s = summary(&simulator, size, &[], &buf);
            let inside = (-down..=up).contains(&dr) && (-right..=left).contains(&dc);
            assert_eq!((s.found, s.matched, s.clean_found), (1, 1, 1), "{size} {dr} {dc}");
            assert_eq!(
                (s.extra, s.false_clusters),
                (u64::from(inside), u64::from(!inside)),
                "{size} {dr} {dc}"
            );
            assert_eq!(s.photons_a_cluster[1], 1 + u64::from(inside));
        }
    }
}

/// Pixels of a photon's cluster are counted from five times the noise on, and five of them are as many as nine.
#[test]
fn pixels_of_a_photon_are_those_above_five_times_the_noise() {
    for (w, h) in WINDOWS {
        let size = ClusterSize::new(w, h).unwrap();
        let (simulator, k, pixel) = frame_with(124.0, |r, c| (9..15).contains(&r) && (10..16).contains(&c));
        let bar = 5.0 * simulator.simulation().noise_adu;
        for over in 0..=size.pixels() {
            let mut values = vec![bar.floor() as i32; size.pixels()];
            values[..over].fill(bar.floor() as i32 + 1);
            let mut buf = buffer(&simulator, size);
            push(&mut buf, size, k, &[pixel], &values);
            let mut expected = [0; 6];
            expected[over.min(5)] = 1;
            assert_eq!(
                summary(&simulator, size, &[], &buf).pixels_a_photon,
                expected,
                "{size}, {over} pixels"
            );
        }
    }
}

/// Fault: above 2048 ADU a bin is wider than an ADU, and the peak stands elsewhere.
#[test]
fn peaks_stand_where_they_are_at_any_gain() {
    for gain in [10.0, 124.0, 254.4, 255.0, 400.0, 1500.0, 4000.0] {
        for (w, h) in [(3, 3), (5, 5), (2, 5)] {
            let size = ClusterSize::new(w, h).unwrap();
            let s = Simulation {
                rows: 60,
                cols: 60,
                photons_per_frame: 12.0,
                gain_adu_per_kev: gain,
                ..Simulation::default()
            };
            let simulator = s.without_faults().build().unwrap();
            let mut buf = buffer(&simulator, size);
            let line = simulator.simulation().main_line().energy_kev;
            let adu = (0.9 * line * gain).round() as i32;
            let mut photons = 0;
            for k in 0..40 {
                let hits: Vec<_> =
                    simulator.photons(k).iter().map(|p| (p.pixel().0 as i64, p.pixel().1 as i64)).collect();
                photons += hits.len();
                let mut values = point(size, adu - 40);
                values[0] += 40;
                push(&mut buf, size, k, &hits, &values);
            }
            let s = summary(&simulator, size, &[], &buf);
            let peak = s.peak.unwrap();
            let bin = (line * gain / 2048.0).ceil().max(1.0);
            assert!(s.found > photons as u64 * 9 / 10 && peak.clusters > 100, "{s}");
            assert_abs_diff_eq!(peak.position_adu, f64::from(adu), epsilon = 0.5 * bin + 1e-6);
            assert_abs_diff_eq!(peak.width_adu, 0.0, epsilon = 1e-6);
            assert_relative_eq!(peak.position_kev, peak.position_adu / gain);
            assert_relative_eq!(peak.expected_position_adu, line * gain);
            assert_relative_eq!(peak.width_kev, peak.width_adu / gain);
            // The corner pixel belongs to the 2x2 around the centre where the window is two pixels wide up to there.
            let square = if (size.up(), size.left()) == (1, 1) { adu } else { adu - 40 };
            assert_abs_diff_eq!(
                s.peak_2x2.unwrap().position_adu,
                f64::from(square),
                epsilon = 0.5 * bin + 1e-6
            );
            assert_relative_eq!(peak.expected_width_adu, simulator.sum_width_adu(line, w * h));
        }
    }
}
