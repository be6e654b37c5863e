//! The comparison against its definitions, written a second time in the plainest words: every pair of a photon and a
//! cluster is looked at, every pixel by itself.

use scheidegg_finder::{ClustersBuf, Payload, PixelMask, Shape};

use super::spectrum::Spectrum;
use super::*;
use crate::io::simulate::{Line, Photon, Simulation};

/// SplitMix64.
struct Random(u64);

impl Random {
    fn next(&mut self, below: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        (z ^ (z >> 31)) % below
    }
}

/// A cluster: row and column of its centre, its values.
struct Made {
    row: i64,
    col: i64,
    values: Vec<i32>,
}

/// Clusters at most photons, a pixel beside some of them, and anywhere; values around five times the noise.
fn clusters(random: &mut Random, photons: &[Photon], shape: Shape, size: ClusterSize) -> Vec<Made> {
    let mut at = Vec::new();
    for p in photons {
        let (row, col) = (p.pixel().0 as i64, p.pixel().1 as i64);
        let (dr, dc) = (random.next(5) as i64 - 2, random.next(5) as i64 - 2);
        match random.next(10) {
            0..5 => at.push((row, col)),
            5..8 => at.push((row + dr, col + dc)),
            _ => {}
        }
        if random.next(8) == 0 {
            at.push((row + dc, col - dr));
        }
    }
    for _ in 0..random.next(4) {
        at.push((random.next(shape.rows as u64) as i64, random.next(shape.cols as u64) as i64));
    }
    at.retain(|&(r, c)| (0..shape.rows as i64).contains(&r) && (0..shape.cols as i64).contains(&c));
    at.sort_unstable();
    at.dedup();
    let values = |random: &mut Random| (0..size.pixels()).map(|_| random.next(140) as i32 - 20).collect();
    at.into_iter().map(|(row, col)| Made { row, col, values: values(random) }).collect()
}

/// What the model counts.
fn model(
    simulator: &Simulator,
    mask: &PixelMask,
    size: ClusterSize,
    index: u64,
    found: &[Made],
    tally: &mut Tally,
) {
    let photons = simulator.photons(index);
    let lost = simulator.lost_pixels(index);
    let shape = simulator.shape();
    let pixel = |p: &Photon| (p.pixel().0 as i64, p.pixel().1 as i64);
    tally.frames += 1;
    tally.photons += photons.len() as u64;
    tally.clusters += found.len() as u64;

    // The nearest pair first, each photon and each cluster once.
    let (mut with, mut taken) = (vec![None; photons.len()], vec![false; found.len()]);
    loop {
        let mut best: Option<(f64, usize, usize)> = None;
        for (p, photon) in photons.iter().enumerate().filter(|(p, _)| with[*p].is_none()) {
            for (c, cluster) in found.iter().enumerate().filter(|(c, _)| !taken[*c]) {
                let (row, col) = pixel(photon);
                let (dy, dx) = (photon.y - cluster.row as f64 - 0.5, photon.x - cluster.col as f64 - 0.5);
                let distance = dy * dy + dx * dx;
                let near = (row - cluster.row).abs() <= 1 && (col - cluster.col).abs() <= 1;
                if near && best.is_none_or(|b| distance < b.0) {
                    best = Some((distance, p, c));
                }
            }
        }
        let Some((_, p, c)) = best else { break };
        (with[p], taken[c]) = (Some(c), true);
    }
    tally.found += with.iter().flatten().count() as u64;

    let (w, h) = (size.w as i64, size.h as i64);
    // Rows above and columns left of the centre; even windows have one more there than below and right.
    let (up, left) = (h / 2, w / 2);
    for (c, cluster) in found.iter().enumerate() {
        let inside = photons.iter().filter(|p| {
            let (row, col) = pixel(p);
            (cluster.row - up..cluster.row - up + h).contains(&row)
                && (cluster.col - left..cluster.col - left + w).contains(&col)
        });
        let inside = inside.count();
        tally.photons_a_cluster[inside.min(4)] += 1;
        match (taken[c], inside > 0) {
            (true, _) => tally.matched += 1,
            (_, true) => tally.extra += 1,
            _ => tally.false_clusters += 1,
        }
    }

    let bad = |r: i64, c: i64| {
        let outside = r < 0 || c < 0 || r >= shape.rows as i64 || c >= shape.cols as i64;
        outside
            || mask.contains(r as usize, c as usize)
            || lost.as_ref().is_some_and(|m| m.contains(r as usize, c as usize))
            || simulator.hot_pixels().contains(&(r as usize, c as usize))
            || simulator.dead_pixels().iter().any(|d| (d.0 as i64, d.1 as i64) == (r, c))
    };
    for (p, photon) in photons.iter().enumerate() {
        let (row, col) = pixel(photon);
        let crowded = photons.iter().enumerate().any(|(o, other)| {
            let (r, c) = pixel(other);
            o != p && (r - row).abs() <= h && (c - col).abs() <= w
        });
        let spoilt =
            (row - up - 1..row - up + h + 1).any(|r| (col - left - 1..col - left + w + 1).any(|c| bad(r, c)));
        if crowded || spoilt {
            continue;
        }
        tally.clean += 1;
        let Some(c) = with[p] else { continue };
        tally.clean_found += 1;
        let values = &found[c].values;
        let threshold = 5.0 * simulator.simulation().noise_adu;
        let over = values.iter().filter(|v| f64::from(**v) > threshold).count();
        tally.pixels_a_photon[over.min(5)] += 1;
        if photon.energy_kev == simulator.simulation().lines[0].energy_kev {
            tally.full.add(values.iter().map(|v| f64::from(*v)).sum());
            let value = |r: i64, c: i64| f64::from(values[(r * w + c) as usize]);
            let corners = (0..4).filter_map(|k| {
                let (r, c) = (up - 1 + k / 2, left - 1 + k % 2);
                (r + 1 < h && c + 1 < w)
                    .then(|| value(r, c) + value(r, c + 1) + value(r + 1, c) + value(r + 1, c + 1))
            });
            tally.square.add(corners.fold(f64::MIN, f64::max));
        }
    }
}

#[test]
fn every_count_is_that_of_the_definitions() {
    for (k, (w, h, photons, gain)) in
        [(3, 3, 14.0, 124.0), (5, 5, 8.0, 300.0), (4, 2, 14.0, 60.0), (2, 5, 20.0, 124.0)]
            .into_iter()
            .enumerate()
    {
        let size = ClusterSize::new(w, h).unwrap();
        let line = |energy_kev, weight| Line { energy_kev, weight };
        let simulator = Simulation {
            rows: 37,
            cols: 45,
            seed: k as u64,
            photons_per_frame: photons,
            gain_adu_per_kev: gain,
            // Nearly all values of a cluster are near the threshold of 85 or 22.5 ADU.
            noise_adu: if k == 2 { 4.5 } else { 17.0 },
            lines: vec![line(8.0, 0.8), line(9.0, 0.2)],
            hot_pixels: 5,
            dead_pixels: 5,
            packet_loss: 0.1,
            ..Simulation::default()
        }
        .build()
        .unwrap();
        let shape = simulator.shape();
        let mut mask = PixelMask::new(shape);
        let mut random = Random(k as u64);
        (0..3).for_each(|_| mask.insert(random.next(37) as usize, random.next(45) as usize));
        let mut truth = Truth::new(simulator.clone(), size).with_mask(&mask).unwrap();
        let mut expected = Tally::new(8.0 * gain);
        for batch in 0..3 {
            let mut buf = ClustersBuf::new(shape, size, Payload::I32);
            for index in batch * 100..(batch + 1) * 100 {
                let found = clusters(&mut random, &simulator.photons(index), shape, size);
                let mut bytes = Vec::new();
                for m in &found {
                    bytes.extend((m.col as u16).to_ne_bytes());
                    bytes.extend((m.row as u16).to_ne_bytes());
                    m.values.iter().for_each(|v| bytes.extend(v.to_ne_bytes()));
                }
                buf.push_frame(index, &bytes);
                model(&simulator, &mask, size, index, &found, &mut expected);
            }
            truth.add(&buf.view()).unwrap();
        }
        assert_eq!(truth.tally, expected, "{size}");
        // Enough of everything that a slip shows.
        assert!(expected.clean_found > 100 && expected.extra > 100 && expected.false_clusters > 100);
        assert!(expected.photons_a_cluster[..3].iter().all(|n| *n > 20), "{:?}", expected.photons_a_cluster);
    }
}

/// The Gaussian core as it is defined, of entries spread over their bins by hand.
fn core(bins: &[(f64, u32)]) -> (f64, f64) {
    let points: Vec<f64> = bins
        .iter()
        .flat_map(|&(at, n)| (0..n * 100).map(move |i| at - 0.5 + (f64::from(i) + 0.5) / f64::from(n * 100)))
        .collect();
    let total: u32 = bins.iter().map(|b| b.1).sum();
    let quantile = |share: f64| {
        let mut below = 0;
        let at = bins.iter().position(|b| {
            below += b.1;
            f64::from(below) >= share * f64::from(total)
        });
        bins[at.unwrap()].0
    };
    let (mut mean, mut width) = (quantile(0.5), (quantile(0.75) - quantile(0.25)) / 1.349);
    for _ in 0..100 {
        let reach = f64::max(2.0 * width, 1.0);
        let inside: Vec<f64> = points.iter().copied().filter(|p| (p - mean).abs() < reach).collect();
        let n = inside.len() as f64;
        let new = inside.iter().sum::<f64>() / n;
        let variance = inside.iter().map(|p| (p - new) * (p - new)).sum::<f64>() / n;
        // Less a bin's own variance, and what a Gaussian has outside two deviations.
        (mean, width) = (new, (variance - 1.0 / 12.0).max(0.0).sqrt() / 0.879_625_6);
    }
    (mean, width)
}

#[test]
fn the_core_is_that_of_the_definition() {
    // Narrow and wide, leaning, at the lower end, far from the middle, with a second peak that must not count.
    for (name, bins) in [
        ("narrow", vec![(98, 3), (99, 40), (100, 100), (101, 52), (102, 4)]),
        ("leaning", (0..30).map(|i| (60 + i, (30 - i) as u32 * 3)).collect()),
        ("at zero", vec![(0, 50), (1, 80), (2, 30), (3, 10), (40, 3)]),
        // Where it ends depends on where it begins: from other quartiles on it has other cores.
        ("far apart", vec![(4, 4), (12, 8), (26, 4)]),
        (
            "two peaks",
            (0..21)
                .map(|i| (70 + i, 100 - 9 * (i as i32 - 10).unsigned_abs()))
                .chain([(150, 60), (20, 40)])
                .collect(),
        ),
    ] {
        let bins: Vec<(usize, u32)> = bins;
        let mut bins = bins;
        bins.sort_unstable();
        for (expected_adu, bin_adu) in [(150.0, 1.0), (2048.0, 1.0), (2049.0, 2.0), (5000.0, 3.0)] {
            let mut spectrum = Spectrum::new(expected_adu);
            for &(at, n) in &bins {
                (0..n).for_each(|_| spectrum.add(at as f64 * bin_adu));
            }
            let plain: Vec<(f64, u32)> = bins.iter().map(|&(at, n)| (at as f64, n)).collect();
            let (mean, width) = core(&plain);
            let (got_mean, got_width) = spectrum.core().unwrap();
            // The points of a bin stand a hundredth of an entry apart.
            approx::assert_abs_diff_eq!(got_mean, mean * bin_adu, epsilon = 0.01 * bin_adu);
            approx::assert_abs_diff_eq!(got_width, width * bin_adu, epsilon = 0.01 * bin_adu);
            assert!(width > 0.1, "{name} has a width");
        }
    }
}

#[test]
fn a_spectrum_counts_to_twice_the_expected_charge() {
    // Bins of whole ADU centred on whole ADU: what is added, and whether it is inside.
    for (expected_adu, adu, inside) in [
        (100.0, -0.51, false),
        (100.0, -0.5, true),
        (100.0, 0.0, true),
        (100.0, 200.0, true),
        (100.0, 201.4, true),
        (100.0, 201.5, false),
        (3000.0, -1.01, false),
        (3000.0, -1.0, true),
        (3000.0, 6002.9, true),
        (3000.0, 6003.0, false),
        (0.25, 1.4, true),
        (0.25, 2.5, false),
    ] {
        let mut spectrum = Spectrum::new(expected_adu);
        (0..10).for_each(|_| spectrum.add(adu));
        assert_eq!(spectrum.entries(), 10);
        assert_eq!(spectrum.core().is_some(), inside, "{adu} of {expected_adu}");
    }
    let mut one = Spectrum::new(100.0);
    (0..6).for_each(|_| one.add(40.0));
    one.add(1e6);
    let mut other = Spectrum::new(100.0);
    (0..5).for_each(|_| other.add(41.0));
    other.add(-1e6);
    other.add(1e7);
    let both = one.clone().merge(other.clone());
    assert_eq!((one.entries(), other.entries(), both.entries()), (7, 7, 14));
    let (mean, _) = both.core().unwrap();
    assert!((40.0..41.0).contains(&mean), "{mean}");
    assert_eq!(Spectrum::default().merge(one.clone()), one);
}

#[test]
fn a_summary_says_every_number() {
    let peak = |position_adu: f64| Peak {
        clusters: 6,
        position_adu,
        width_adu: 20.5,
        expected_position_adu: 992.0,
        expected_width_adu: 33.3,
        position_kev: 7.25,
        width_kev: 0.164,
    };
    let s = TruthSummary {
        frames: 8,
        photons: 200,
        found: 150,
        efficiency: Some(0.75),
        clean_photons: 20,
        clean_found: 19,
        clean_efficiency: None,
        clusters: 160,
        matched: 150,
        extra: 6,
        false_clusters: 4,
        photons_a_cluster: [1, 2, 3, 4, 5],
        pixels_a_photon: [6, 7, 8, 9, 10, 11],
        line_kev: 8.0,
        peak: Some(peak(990.5)),
        peak_2x2: Some(peak(901.5)),
    };
    let expected = "\
Simulated truth, 8 frames
  photons                  200  found          150    75.000 %
  clean photons             20  found           19           -
  clusters                 160  matched 150, extra 6, false 4 (0.500 a frame)
  photons a cluster: none 1, one 2, two 3, three 4, more 5
  pixels a photon above 5 sigma: none 6, one 7, two 8, three 9, four 10, more 11
  8.000 keV in the window: 990.5 ADU (7.250 keV), expected 992.0; width 20.5 ADU (0.164 keV), expected 33.3
  8.000 keV in the 2x2: 901.5 ADU (7.250 keV), expected 992.0; width 20.5 ADU (0.164 keV), expected 33.3";
    assert_eq!(s.to_string(), expected);
    let none = TruthSummary { frames: 0, peak: None, peak_2x2: None, ..s };
    assert!(none.to_string().contains("false 4 (0.000 a frame)") && !none.to_string().contains("keV"));
}

#[test]
fn a_peak_is_in_adu_and_in_kev() {
    let simulator = Simulation { gain_adu_per_kev: 50.0, ..Simulation::default() }.build().unwrap();
    let mut truth = Truth::new(simulator.clone(), ClusterSize::square(3).unwrap());
    truth.tally.photons = 8;
    truth.tally.found = 6;
    truth.tally.clean = 4;
    truth.tally.clean_found = 1;
    for adu in [400.0, 401.0, 402.0] {
        (0..10).for_each(|_| truth.tally.full.add(adu));
        (0..10).for_each(|_| truth.tally.square.add(adu - 100.0));
    }
    let s = truth.summary();
    assert_eq!((s.efficiency, s.clean_efficiency, s.line_kev), (Some(0.75), Some(0.25), 8.048));
    let (full, square) = (s.peak.unwrap(), s.peak_2x2.unwrap());
    assert_eq!((full.clusters, square.clusters), (30, 30));
    approx::assert_abs_diff_eq!(full.position_adu, 401.0, epsilon = 1e-6);
    approx::assert_abs_diff_eq!(square.position_adu, 301.0, epsilon = 1e-6);
    approx::assert_abs_diff_eq!(full.position_kev, 401.0 / 50.0, epsilon = 1e-6);
    approx::assert_abs_diff_eq!(full.width_kev, full.width_adu / 50.0, epsilon = 1e-9);
    assert!(full.width_adu > 0.5);
    assert_eq!(full.expected_position_adu, 8.048 * 50.0);
    assert_eq!(full.expected_width_adu, simulator.sum_width_adu(8.048, 9));
    assert_eq!(square.expected_width_adu, simulator.sum_width_adu(8.048, 4));
}
