//! Comparisons whose outcome is known.

use approx::{assert_abs_diff_eq, assert_relative_eq};
use scheidegg_finder::{ClustersBuf, FrameBuf, FrameOwner, Payload, Precision, Shape, Trainer};

use super::*;
use crate::io::Source;
use crate::io::simulate::{Line, Simulation};

/// A cluster of 3x3 `i32`.
type Made = (usize, usize, [i32; 9]);

fn push(buf: &mut ClustersBuf, number: u64, mut clusters: Vec<Made>) {
    clusters.sort_unstable_by_key(|c| (c.0, c.1));
    let mut bytes = Vec::new();
    for (row, col, values) in clusters {
        bytes.extend((col as u16).to_ne_bytes());
        bytes.extend((row as u16).to_ne_bytes());
        values.iter().for_each(|v| bytes.extend(v.to_ne_bytes()));
    }
    buf.push_frame(number, &bytes);
}

fn size() -> ClusterSize {
    ClusterSize::square(3).unwrap()
}

fn empty(shape: Shape) -> ClustersBuf {
    ClustersBuf::new(shape, size(), Payload::I32)
}

/// All charge in the centre.
fn point(adu: i32) -> [i32; 9] {
    [0, 0, 0, 0, adu, 0, 0, 0, 0]
}

#[test]
fn perfect_clusters_match_every_photon() {
    let simulator =
        Simulation { photons_per_frame: 40.0, ..Simulation::default() }.without_faults().build().unwrap();
    let mut buf = empty(simulator.shape());
    let mut photons = 0;
    for k in 0..50 {
        // Two photons in one pixel are two clusters here: perfect, though no finder could.
        let found = simulator.photons(k);
        photons += found.len() as u64;
        let one = |p: &crate::io::simulate::Photon| (p.pixel().0, p.pixel().1, point(998));
        push(&mut buf, k, found.iter().map(one).collect());
    }
    let mut truth = Truth::new(simulator, size());
    truth.add(&buf.view()).unwrap();
    let s = truth.summary();
    assert_eq!(
        (s.frames, s.photons, s.found, s.clusters, s.matched),
        (50, photons, photons, photons, photons)
    );
    assert_eq!((s.extra, s.false_clusters, s.efficiency), (0, 0, Some(1.0)));
    assert_eq!(s.clean_found, s.clean_photons);
    // 7x7 pixels with 40 photons a frame: most are alone; and few are at the edge.
    assert!(s.clean_photons as f64 > 0.95 * photons as f64 && s.clean_photons < photons);
    assert_eq!(s.pixels_a_photon[1], s.clean_photons);
    let peak = s.peak.unwrap();
    // All entries are equal: only rounding moves the fit.
    assert_abs_diff_eq!(peak.position_adu, 998.0, epsilon = 1e-6);
    assert_abs_diff_eq!(peak.width_adu, 0.0, epsilon = 1e-6);
    assert_eq!(peak.expected_position_adu, 8.048 * 124.0);
    // Only photons of the main line.
    assert!(peak.clusters < s.clean_photons && peak.clusters as f64 > 0.8 * s.clean_photons as f64);
}

/// A simulation with one clean photon in a frame, its frame and its pixel.
fn one_photon() -> (Arc<Simulator>, u64, (usize, usize)) {
    let simulator =
        Simulation { rows: 30, cols: 40, photons_per_frame: 1.0, ..Simulation::default() }.without_faults();
    let simulator = simulator.build().unwrap();
    let found = (0..1000).find_map(|k| match simulator.photons(k)[..] {
        [p] if (5..25).contains(&p.pixel().0) && (5..35).contains(&p.pixel().1) => Some((k, p.pixel())),
        _ => None,
    });
    let (k, pixel) = found.unwrap();
    (simulator, k, pixel)
}

#[test]
fn each_cluster_is_matched_extra_or_false() {
    let (simulator, k, (row, col)) = one_photon();
    // Where the centre lies, and what that is: matched, extra, false; the photon found or not.
    for (clusters, expected) in [
        (vec![], (0, 0, 0, 0)),
        (vec![(row, col)], (1, 1, 0, 0)),
        (vec![(row + 1, col - 1)], (1, 1, 0, 0)),
        (vec![(row + 2, col)], (0, 0, 0, 1)),
        (vec![(row - 2, col)], (0, 0, 0, 1)),
        (vec![(row, col - 2)], (0, 0, 0, 1)),
        (vec![(row, col + 2)], (0, 0, 0, 1)),
        (vec![(row, col), (row + 1, col)], (1, 1, 1, 0)),
        (vec![(row, col), (0, 0), (row, col + 1), (29, 39)], (1, 1, 1, 2)),
    ] {
        let mut buf = empty(simulator.shape());
        push(&mut buf, k, clusters.iter().map(|c| (c.0, c.1, point(500))).collect());
        let mut truth = Truth::new(simulator.clone(), size());
        truth.add(&buf.view()).unwrap();
        let s = truth.summary();
        assert_eq!((s.found, s.matched, s.extra, s.false_clusters), expected, "{clusters:?}");
        assert_eq!((s.photons, s.clean_photons, s.clean_found), (1, 1, expected.0), "{clusters:?}");
        assert_eq!(s.photons_a_cluster.iter().sum::<u64>(), clusters.len() as u64);
        assert_eq!(s.photons_a_cluster[0], expected.3);
    }
}

/// Photons of a window are counted up to four, and more are as many.
#[test]
fn many_photons_of_a_cluster_are_four_or_more() {
    let s = Simulation { rows: 30, cols: 40, photons_per_frame: 600.0, ..Simulation::default() };
    let simulator = s.without_faults().build().unwrap();
    let (mut buf, mut expected, mut most) = (empty(simulator.shape()), [0; 5], 0);
    for k in 0..60 {
        let inside = |p: &(usize, usize)| (14..17).contains(&p.0) && (19..22).contains(&p.1);
        let count = simulator.photons(k).iter().map(|p| p.pixel()).filter(inside).count();
        expected[count.min(4)] += 1;
        most = most.max(count);
        push(&mut buf, k, vec![(15, 20, point(900))]);
    }
    let mut truth = Truth::new(simulator, size());
    truth.add(&buf.view()).unwrap();
    assert_eq!(truth.summary().photons_a_cluster, expected);
    assert!(most > 6 && expected[2..].iter().all(|n| *n > 0), "{expected:?}, up to {most}");
}

#[test]
fn the_nearest_pair_is_taken_first() {
    let (simulator, k, (row, col)) = one_photon();
    // The cluster on the photon's pixel wins over its neighbours, whatever the order.
    for (dr, dc) in [(-1i64, -1i64), (-1, 0), (0, -1), (0, 1), (1, 0), (1, 1)] {
        let mut buf = empty(simulator.shape());
        let beside = ((row as i64 + dr) as usize, (col as i64 + dc) as usize);
        push(&mut buf, k, vec![(row, col, point(900)), (beside.0, beside.1, point(300))]);
        let mut truth = Truth::new(simulator.clone(), size());
        truth.add(&buf.view()).unwrap();
        assert_eq!(truth.tally.full.entries(), u64::from(simulator.photons(k)[0].energy_kev == 8.048));
        let s = truth.summary();
        assert_eq!((s.matched, s.extra), (1, 1));
        // The matched one has one pixel above 85 ADU in either case; its charge says which it is.
        if truth.tally.full.entries() == 1 {
            let mut alone = super::spectrum::Spectrum::new(truth.judge.main_adu());
            alone.add(900.0);
            assert_eq!(truth.tally.full, alone);
        }
    }
}

#[test]
fn photons_near_faults_edges_and_each_other_are_not_clean() {
    let (simulator, k, (row, col)) = one_photon();
    let clean = |mask: &[(usize, usize)]| {
        let mut pixels = PixelMask::new(simulator.shape());
        mask.iter().for_each(|m| pixels.insert(m.0, m.1));
        let mut truth = Truth::new(simulator.clone(), size()).with_mask(&pixels).unwrap();
        let mut buf = empty(simulator.shape());
        push(&mut buf, k, vec![]);
        truth.add(&buf.view()).unwrap();
        truth.summary().clean_photons
    };
    assert_eq!(clean(&[]), 1);
    assert_eq!(clean(&[(row, col)]), 0);
    assert_eq!(clean(&[(row + 2, col - 2)]), 0);
    assert_eq!(clean(&[(row + 3, col), (row, col + 3)]), 1);

    // Every packet lost; every pixel dead; a frame of 4x4; many photons.
    let s = simulator.simulation().clone();
    for bad in [
        Simulation { packet_loss: 1.0, ..s.clone() },
        Simulation { dead_pixels: 1200, ..s.clone() },
        Simulation { hot_pixels: 1200, ..s.clone() },
        Simulation { rows: 4, cols: 4, ..s.clone() },
        Simulation { photons_per_frame: 10_000.0, ..s },
    ] {
        let simulator = bad.build().unwrap();
        let mut buf = empty(simulator.shape());
        (0..5).for_each(|k| push(&mut buf, k, vec![]));
        let mut truth = Truth::new(simulator, size());
        truth.add(&buf.view()).unwrap();
        assert_eq!(truth.summary().clean_photons, 0, "{bad:?}");
        assert!(truth.summary().photons > 0);
    }
}

/// The decision of SPEC 3 with a frozen pedestal and noise, in the plainest words.
fn find(simulator: &Arc<Simulator>, darks: u64, frames: u64) -> ClustersBuf {
    let shape = simulator.shape();
    let mut trainer = Trainer::new(shape);
    let mut buf = FrameBuf::new(shape, 100);
    let mut source = simulator.darks(darks);
    while source.read(&mut buf).unwrap() > 0 {
        trainer.add(buf.frames()).unwrap();
        buf.clear();
    }
    let pedestal = trainer.finish(Precision::F64).unwrap();
    let (mean, noise) = (pedestal.mean(), pedestal.noise());
    let mut out = empty(shape);
    let mut pixels = vec![0; shape.pixels()];
    for k in 0..frames {
        let lost = simulator.frame(k, &mut pixels);
        let value = |r: usize, c: usize| -> Option<f64> {
            let inside = r < shape.rows && c < shape.cols && !lost.as_ref().is_some_and(|m| m.contains(r, c));
            inside.then(|| f64::from(pixels[r * shape.cols + c]) - mean[(r, c)])
        };
        let mut found = Vec::new();
        for r in 0..shape.rows {
            for c in 0..shape.cols {
                let Some(d) = value(r, c) else { continue };
                let mut window = [0.0; 9];
                let mut max = f64::NEG_INFINITY;
                for (i, w) in window.iter_mut().enumerate() {
                    if let Some(v) = value((r + i / 3).wrapping_sub(1), (c + i % 3).wrapping_sub(1)) {
                        *w = v;
                        max = max.max(v);
                    }
                }
                let (sum, bar) = (window.iter().sum::<f64>(), 5.0 * noise[(r, c)]);
                if d == max && (d > bar || sum > 3.0 * bar) {
                    found.push((r, c, window.map(|w| w.round() as i32)));
                }
            }
        }
        push(&mut out, k, found);
    }
    out
}

#[test]
fn a_plain_finder_finds_clean_photons_at_their_energy() {
    let simulator = Simulation {
        rows: 200,
        cols: 200,
        // As dense as the default.
        photons_per_frame: 575.0,
        drift_adu_per_1000_frames: 0.0,
        packet_loss: 1e-3,
        ..Simulation::default()
    }
    .build()
    .unwrap();
    let found = find(&simulator, 500, 200);
    let mut truth = Truth::new(simulator, size());
    truth.add(&found.view()).unwrap();
    let s = truth.summary();
    println!("{s}");
    // Five standard deviations of a Poisson count.
    assert_abs_diff_eq!(s.photons as f64, 115_000.0, epsilon = 5.0 * 115_000f64.sqrt());
    assert!(s.clean_efficiency.unwrap() > 0.9999, "{s}");
    assert!((0.85..0.99).contains(&s.efficiency.unwrap()), "{s}");
    assert_eq!(s.matched, s.found);
    assert_eq!(s.matched + s.extra + s.false_clusters, s.clusters);
    assert!((s.false_clusters as f64) < 0.2 * s.frames as f64, "{s}");
    let peak = s.peak.unwrap();
    // Statistics alone, width / sqrt(clusters), are some 0.3 of 998 ADU; the rest is for tails that pull at the fit.
    assert_relative_eq!(peak.position_adu, peak.expected_position_adu, max_relative = 2e-3);
    assert_relative_eq!(peak.width_adu, peak.expected_width_adu, max_relative = 0.03);
    let two = s.peak_2x2.unwrap();
    // Four of nine pixels do not hold all charge of a cloud that is shared.
    assert_relative_eq!(two.position_adu, two.expected_position_adu, max_relative = 0.03);
    assert!(two.width_adu < peak.width_adu, "{s}");
    let summary: TruthSummary = serde_json::from_str(&serde_json::to_string(&s).unwrap()).unwrap();
    assert_eq!(summary, s);
}

#[test]
fn batches_and_their_order_do_not_matter() {
    let simulator = Simulation {
        rows: 60,
        cols: 70,
        photons_per_frame: 60.0,
        hot_pixels: 4,
        dead_pixels: 4,
        lines: vec![Line { energy_kev: 8.0, weight: 1.0 }],
        ..Simulation::default()
    }
    .build()
    .unwrap();
    let found = find(&simulator, 100, 20);
    let mut whole = Truth::new(simulator.clone(), size());
    whole.add(&found.view()).unwrap();
    let mut parts = Truth::new(simulator.clone(), size()).numbered_from(1000);
    assert_eq!(Sink::name(&parts), "truth");
    for k in (0..20).rev() {
        let mut one = empty(simulator.shape());
        one.push_frame(1000 + k as u64, found.view().frame_bytes(k));
        Sink::write(&mut parts, &one.view().into()).unwrap();
    }
    Sink::finish(&mut parts, &Provenance::default()).unwrap();
    assert_eq!(parts.summary(), whole.summary());
    assert!(whole.summary().clean_photons > 0);
}

#[test]
fn clusters_of_another_run_are_refused() {
    let (simulator, ..) = one_photon();
    let add = |buf: &ClustersBuf| {
        let mut truth = Truth::new(simulator.clone(), size()).numbered_from(5);
        truth.add(&buf.view()).unwrap_err().to_string()
    };
    let other = Shape { rows: 30, cols: 41 };
    assert!(add(&empty(other)).contains("30 x 41"));
    let five = ClustersBuf::new(simulator.shape(), ClusterSize::square(5).unwrap(), Payload::I32);
    assert!(add(&five).starts_with("cluster size = 5x5"));
    let mut early = empty(simulator.shape());
    push(&mut early, 4, vec![]);
    assert!(add(&early).starts_with("frame number = 4"));
    let mask = PixelMask::new(other);
    assert!(Truth::new(simulator.clone(), size()).with_mask(&mask).is_err());
}

#[test]
fn nothing_compared_is_no_efficiency() {
    let (simulator, ..) = one_photon();
    let s = Truth::new(simulator, size()).summary();
    assert_eq!((s.frames, s.efficiency, s.clean_efficiency, s.peak), (0, None, None, None));
    assert!(s.to_string().contains("0 frames"));
}
