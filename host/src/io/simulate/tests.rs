//! The simulated detector as a whole.

use scheidegg_finder::{Error, FrameBuf, FrameOwner, Trainer};

use super::*;
use crate::io::{OpenOptions, Source, open_source};

fn small() -> Simulation {
    Simulation {
        rows: 40,
        cols: 56,
        photons_per_frame: 30.0,
        hot_pixels: 5,
        dead_pixels: 6,
        packet_loss: 0.02,
        ..Simulation::default()
    }
}

/// All pixels, and lost pixels by frame.
type Everything = (Vec<u16>, Vec<(usize, Vec<usize>)>);

fn read_all(source: &mut dyn Source, batch: usize) -> Everything {
    let mut buf = FrameBuf::new(source.shape(), batch);
    let (mut pixels, mut lost, mut done) = (Vec::new(), Vec::new(), 0);
    loop {
        buf.clear();
        let n = source.read(&mut buf).unwrap();
        if n == 0 {
            return (pixels, lost);
        }
        let frames = buf.frames();
        for k in 0..n {
            assert_eq!(frames.number(k), (done + k) as u64);
            pixels.extend_from_slice(frames.frame(k));
            lost.extend(frames.lost(k).map(|m| (done + k, m.indices().collect())));
        }
        done += n;
    }
}

#[test]
fn frames_do_not_depend_on_threads_batches_or_their_neighbours() {
    let simulator = small().build().unwrap();
    let on = |threads: usize, batch: usize, dark: bool| {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
        let mut source = if dark { simulator.darks(40) } else { simulator.frames(40) };
        pool.install(|| read_all(&mut source, batch))
    };
    for dark in [true, false] {
        let reference = on(1, 40, dark);
        assert!(!reference.1.is_empty(), "no packet lost: the test needs some");
        for (threads, batch) in [(1, 1), (2, 7), (4, 40), (3, 64)] {
            assert!(on(threads, batch, dark) == reference, "{threads} threads, batches of {batch}");
        }
        // Any frame on its own, last first, into memory that held something else.
        let n = simulator.shape().pixels();
        for k in (0..40).rev() {
            let mut frame = vec![0xabcd; n];
            let lost = if dark { simulator.dark(k, &mut frame) } else { simulator.frame(k, &mut frame) };
            assert!(frame == reference.0[k as usize * n..][..n], "frame {k} on its own");
            let expected = reference.1.iter().find(|l| l.0 == k as usize).map(|l| l.1.clone());
            assert_eq!(lost.map(|m| m.indices().collect::<Vec<_>>()), expected);
        }
        let mut source = if dark { simulator.darks(40) } else { simulator.frames(40) };
        assert_eq!(source.skip(39).unwrap().frames, 39);
        assert_eq!(source.remaining(), Some(1));
        let mut buf = FrameBuf::new(source.shape(), 5);
        assert_eq!(source.read(&mut buf).unwrap(), 1);
        assert_eq!(buf.frames().number(0), 39);
        assert_eq!(buf.frames().frame(0), &reference.0[39 * n..]);
        assert_eq!(source.skip(3).unwrap().frames, 0);
    }
}

/// A sum over the pixels of some frames, fixed when this was written: whoever changes what is simulated, or meets a
/// machine that computes otherwise, learns it here.
#[test]
fn frames_are_the_same_on_every_machine() {
    let simulator = small().build().unwrap();
    let mut frame = vec![0; simulator.shape().pixels()];
    let mut hash = 0xcbf2_9ce4_8422_2325u64;
    for k in 0..20 {
        simulator.dark(k, &mut frame);
        frame.iter().for_each(|&v| hash = (hash ^ u64::from(v)).wrapping_mul(0x100_0000_01b3));
        simulator.frame(k, &mut frame);
        frame.iter().for_each(|&v| hash = (hash ^ u64::from(v)).wrapping_mul(0x100_0000_01b3));
    }
    assert_eq!(hash, 0x643b_2835_05df_ffce, "got {hash:#x}");
}

#[test]
fn seeds_and_kinds_differ() {
    let frame = |seed, dark| {
        let simulator =
            Simulation { seed, photons_per_frame: 0.0, ..small().without_faults() }.build().unwrap();
        let mut frame = vec![0; simulator.shape().pixels()];
        if dark {
            simulator.dark(0, &mut frame)
        } else {
            simulator.frame(0, &mut frame)
        };
        frame
    };
    assert_ne!(frame(1, true), frame(2, true));
    assert_ne!(frame(1, true), frame(1, false));
}

#[test]
fn pedestal_and_noise_are_those_asked_for() {
    let simulation = Simulation {
        rows: 60,
        cols: 60,
        gain_spread: 0.0,
        photons_per_frame: 0.0,
        ..Simulation::default().without_faults()
    };
    let simulator = simulation.build().unwrap();
    let mut source = simulator.darks(1000);
    let mut trainer = Trainer::new(source.shape());
    let mut buf = FrameBuf::new(source.shape(), 100);
    while source.read(&mut buf).unwrap() > 0 {
        trainer.add(buf.frames()).unwrap();
        buf.clear();
    }
    let pedestal = trainer.finish(scheidegg_finder::Precision::F64).unwrap();
    let stats = |v: &ndarray::Array2<f64>| (v.mean().unwrap(), v.std(0.0));
    let (mean, spread) = stats(&pedestal.mean());
    assert!((mean - 4655.0).abs() < 5.0 * 300.0 / 60.0, "pedestals {mean} +- {spread}");
    assert!((spread - 300.0).abs() < 5.0 * 300.0 / (2.0f64 * 3600.0).sqrt(), "pedestals {mean} +- {spread}");
    let (noise, spread) = stats(&pedestal.noise());
    // Rounding to whole ADU adds a variance of 1/12; the estimate of the noise itself spreads by 17/sqrt(2000).
    assert!((noise - 17.0).abs() < 5.0 * 2.0 / 60.0, "noise {noise} +- {spread}");
    assert!((spread - 2.03).abs() < 0.15, "noise {noise} +- {spread}");
}

#[test]
fn common_mode_and_drift_move_whole_frames() {
    let simulation = Simulation {
        photons_per_frame: 0.0,
        noise_adu: 0.0,
        noise_spread_adu: 0.0,
        common_mode_adu: 20.0,
        drift_adu_per_1000_frames: 5000.0,
        ..small().without_faults()
    };
    let simulator = simulation.build().unwrap();
    let n = simulator.shape().pixels();
    let (mut first, mut frame) = (vec![0; n], vec![0; n]);
    simulator.dark(0, &mut first);
    let mut shifts = Vec::new();
    for k in 0..200 {
        simulator.frame(k, &mut frame);
        let each: Vec<i32> = frame.iter().zip(&first).map(|(a, b)| i32::from(*a) - i32::from(*b)).collect();
        let (low, high) = (each.iter().min().unwrap(), each.iter().max().unwrap());
        assert!(high - low <= 1, "frame {k} moves by {low} to {high}");
        shifts.push(f64::from(each[0]) - 5.0 * k as f64);
    }
    let mean = shifts.iter().sum::<f64>() / 200.0;
    let sigma = (shifts.iter().map(|s| (s - mean) * (s - mean)).sum::<f64>() / 200.0).sqrt();
    assert!((sigma - 20.0).abs() < 5.0, "common mode {sigma}");
}

/// A frame of nothing but charge, in ADU: no noise, an even pedestal.
fn charge_only(simulation: Simulation) -> Simulation {
    Simulation {
        pedestal_adu: 1000.0,
        pedestal_spread_adu: 0.0,
        noise_adu: 0.0,
        noise_spread_adu: 0.0,
        gain_spread: 0.0,
        bits: 16,
        ..simulation.without_faults()
    }
}

#[test]
fn charge_is_conserved_and_lies_where_the_photon_hit() {
    for cloud_um in [0.0, 3.0, 7.5, 20.0] {
        let simulator = charge_only(Simulation {
            rows: 60,
            cols: 80,
            photons_per_frame: 1.0,
            // Large charges, so that rounding to whole ADU is small beside them.
            gain_adu_per_kev: 5000.0,
            cloud_um,
            ..Simulation::default()
        })
        .build()
        .unwrap();
        let shape = simulator.shape();
        let mut frame = vec![0; shape.pixels()];
        let mut compared = 0;
        for k in 0..400 {
            let photons = simulator.photons(k);
            let [photon] = photons[..] else { continue };
            let edge = 6.0 * cloud_um / 25.0 + 1.0;
            let inside =
                photon.x > edge && photon.y > edge && photon.x < 80.0 - edge && photon.y < 60.0 - edge;
            if !inside {
                continue;
            }
            simulator.frame(k, &mut frame);
            let (mut sum, mut x, mut y) = (0.0, 0.0, 0.0);
            for (i, &v) in frame.iter().enumerate() {
                let charge = f64::from(v) - 1000.0;
                assert!(charge >= 0.0);
                sum += charge;
                x += charge * ((i % 80) as f64 + 0.5);
                y += charge * ((i / 80) as f64 + 0.5);
            }
            let want = photon.charge_kev * 5000.0;
            assert!((sum - want).abs() < 20.0, "{cloud_um} um: {sum} ADU of {want}");
            if cloud_um == 0.0 {
                let (row, col) = photon.pixel();
                assert_eq!(frame.iter().filter(|v| **v > 1000).count(), 1);
                assert!(frame[row * 80 + col] > 1000);
            }
            if cloud_um == 20.0 {
                // A cloud wider than a pixel keeps its centre of gravity; a narrow one is pulled to pixel centres.
                assert!((x / sum - photon.x).abs() < 0.01 && (y / sum - photon.y).abs() < 0.01);
            }
            compared += 1;
        }
        assert!(compared > 50, "{compared} photons compared");
    }
}

#[test]
fn photons_have_the_energies_numbers_and_places_asked_for() {
    let simulator = Simulation { rows: 100, cols: 50, photons_per_frame: 200.0, ..Simulation::default() }
        .build()
        .unwrap();
    let photons: Vec<_> = (0..500).flat_map(|k| simulator.photons(k)).collect();
    let n = photons.len() as f64;
    assert!((n - 1e5).abs() < 5.0 * 1e5f64.sqrt(), "{n} photons");
    let mean = |f: &dyn Fn(&Photon) -> f64| photons.iter().map(f).sum::<f64>() / n;
    // Uniform from 0 to a: mean a/2, standard deviation a/sqrt(12).
    for (what, got, side) in [("x", mean(&|p| p.x), 50.0), ("y", mean(&|p| p.y), 100.0)] {
        assert!((got - side / 2.0).abs() < 5.0 * side / (12.0 * n).sqrt(), "mean {what} {got}");
    }
    assert!(photons.iter().all(|p| p.x < 50.0 && p.y < 100.0 && p.x >= 0.0 && p.y >= 0.0));
    let beta = mean(&|p| f64::from(u8::from(p.energy_kev == 8.905)));
    assert!((beta - 0.12).abs() < 5.0 * (0.12 * 0.88 / n).sqrt(), "share of K beta {beta}");
    let alpha: Vec<_> = photons.iter().filter(|p| p.energy_kev == 8.048).collect();
    let fano = alpha.iter().map(|p| (p.charge_kev - 8.048).powi(2)).sum::<f64>() / alpha.len() as f64;
    let want = 0.115 * 3.62e-3 * 8.048;
    assert!((fano / want - 1.0).abs() < 5.0 * (2.0 / alpha.len() as f64).sqrt(), "Fano variance {fano}");
    // Gain, noise and faults leave the photons alone.
    let other = Simulation { noise_adu: 40.0, hot_pixels: 0, ..simulator.simulation().clone() };
    assert_eq!(other.build().unwrap().photons(3), simulator.photons(3));
}

#[test]
fn hot_dead_and_lost_pixels_are_where_the_simulator_says() {
    let simulator = small().build().unwrap();
    let (hot, dead) = (simulator.hot_pixels(), simulator.dead_pixels());
    assert_eq!((hot.len(), dead.len()), (5, 6));
    assert!(dead.iter().all(|d| !hot.contains(&(d.0, d.1))));
    let mut source = simulator.darks(300);
    let shape = source.shape();
    let mut buf = FrameBuf::new(shape, 300);
    source.read(&mut buf).unwrap();
    let frames = buf.frames();
    let mut trainer = Trainer::new(shape);
    trainer.add(frames).unwrap();
    let pedestal = trainer.finish(scheidegg_finder::Precision::F64).unwrap();
    let mut noisy = pedestal.hot_pixels(4.0);
    let mut quiet = pedestal.quiet_pixels();
    let sorted = |mut v: Vec<(usize, usize)>| {
        v.sort_unstable();
        v
    };
    noisy.sort_unstable();
    quiet.sort_unstable();
    assert_eq!(noisy, sorted(hot));
    assert_eq!(quiet, sorted(dead.iter().map(|d| (d.0, d.1)).collect()));
    assert!(dead.iter().any(|d| d.2 == 0) && dead.iter().any(|d| d.2 == 16383));

    // 5 packets of 8 rows, each lost with 2 %.
    let (mut packets, mut pixels) = (0, 0);
    for (k, mask) in frames.lost_frames() {
        assert!(mask.indices().all(|i| frames.frame(k)[i] == 0xffff));
        let all = frames.frame(k).iter().filter(|v| **v == 0xffff).count();
        assert_eq!(all, mask.count());
        assert_eq!(all % (8 * 56), 0);
        packets += all / (8 * 56);
        pixels += all;
    }
    let health = source.health();
    assert_eq!((health.lost_packets, health.lost_pixels), (packets as u64, pixels as u64));
    assert!((packets as f64 - 30.0).abs() < 5.0 * 30.0f64.sqrt(), "{packets} packets lost");
    // Those of data frames, without the frame.
    let mut frame = vec![0; shape.pixels()];
    for k in 0..100 {
        assert_eq!(simulator.frame(k, &mut frame), simulator.lost_pixels(k));
    }
}

#[test]
fn values_are_cut_at_the_bits_of_a_pixel() {
    for (bits, max) in [(14, 16383), (16, 65535)] {
        let bright = Simulation { gain_adu_per_kev: 1e5, bits, ..charge_only(small()) };
        let simulator = Simulation { bits, ..bright }.build().unwrap();
        let mut frame = vec![0; simulator.shape().pixels()];
        simulator.frame(0, &mut frame);
        assert_eq!(frame.iter().max(), Some(&max));
        let dim = Simulation { pedestal_adu: 5.0, noise_adu: 20.0, ..charge_only(small()) };
        dim.build().unwrap().dark(0, &mut frame);
        assert_eq!(frame.iter().min(), Some(&0));
    }
}

#[test]
fn parameters_out_of_range_are_named() {
    let d = Simulation::default;
    for (name, simulation) in [
        ("frame shape", Simulation { rows: 0, ..d() }),
        ("frame shape", Simulation { rows: 65536, cols: 65536, ..d() }),
        ("lines", Simulation { lines: vec![], ..d() }),
        ("energy_kev", Simulation { lines: vec![Line { energy_kev: f64::NAN, weight: 1.0 }], ..d() }),
        ("weight", Simulation { lines: vec![Line { energy_kev: 8.0, weight: 0.0 }], ..d() }),
        ("photons_per_frame", Simulation { photons_per_frame: -1.0, ..d() }),
        ("cloud_um", Simulation { cloud_um: 1e9, ..d() }),
        ("noise_adu", Simulation { noise_adu: f64::INFINITY, ..d() }),
        ("packet_loss", Simulation { packet_loss: 1.5, ..d() }),
        ("rows_per_packet", Simulation { rows_per_packet: 0, ..d() }),
        ("bits", Simulation { bits: 12, ..d() }),
        ("hot_pixels", Simulation { rows: 2, cols: 2, ..d() }),
    ] {
        let said = simulation.build().unwrap_err().to_string();
        assert!(said.starts_with(name), "{name}: {said}");
    }
}

#[test]
fn every_pixel_can_be_faulty_and_every_packet_lost() {
    let all = Simulation { hot_pixels: 1000, dead_pixels: 40 * 56 - 1000, packet_loss: 1.0, ..small() };
    let simulator = all.build().unwrap();
    let mut frame = vec![0; simulator.shape().pixels()];
    let lost = simulator.frame(7, &mut frame).unwrap();
    assert_eq!(lost.count(), frame.len());
    assert!(frame.iter().all(|v| *v == 0xffff));
}

fn names(folder: &std::path::Path) -> Vec<String> {
    let mut names: Vec<_> = std::fs::read_dir(folder)
        .unwrap()
        .map(|e| e.unwrap().file_name().to_string_lossy().into_owned())
        .collect();
    names.sort();
    names
}

#[test]
fn npy_files_hold_the_frames() {
    let dir = tempfile::tempdir().unwrap();
    let folder = dir.path().join("run/1");
    let mut seen = Vec::new();
    // A number that a careless reader of JSON changes in its last bit, and with it the frames.
    let odd = Simulation { noise_adu: 0.933_761_739_990_113_6, ..small() };
    let written = write_npy(&folder, &odd, 7, 12, &mut |done, total| {
        seen.push((done, total));
        Ok(())
    })
    .unwrap();
    assert_eq!(seen.last(), Some(&(19, 19)));
    assert_eq!(names(&folder), ["dark.npy", "data.npy", "simulation.json"]);
    assert_eq!((written.darks, written.frames, written.stopped), (7, 12, false));
    assert_eq!(&Simulation::load(&written.parameters).unwrap(), written.simulator.simulation());
    assert_eq!(written.simulator.simulation().packet_loss, 0.0);
    for (path, frames, dark) in [(&written.dark, 7, true), (written.data.as_ref().unwrap(), 12, false)] {
        let bytes = std::fs::read(path).unwrap();
        let header = std::str::from_utf8(&bytes[10..128]).unwrap();
        assert_eq!(&bytes[..10], b"\x93NUMPY\x01\x00\x76\x00");
        assert!(header.contains(&format!("'shape': ({frames}, 40, 56), ")), "{header}");
        assert!(header.ends_with('\n'));
        let mut source =
            if dark { written.simulator.darks(frames) } else { written.simulator.frames(frames) };
        let pixels: Vec<u8> = read_all(&mut source, 64).0.iter().flat_map(|v| v.to_le_bytes()).collect();
        assert!(bytes[128..] == pixels, "other pixels in {}", path.display());
    }
}

#[test]
fn a_stopped_simulation_leaves_whole_files_and_a_failed_one_none() {
    let dir = tempfile::tempdir().unwrap();
    for (which, stop_at) in [("dark", 1u64), ("data", 3000)] {
        let folder = dir.path().join(which);
        let written = write_npy(&folder, &small(), 2000, 5000, &mut |done, _| {
            if done >= stop_at { Err(Error::Stopped) } else { Ok(()) }
        })
        .unwrap();
        assert!(written.stopped);
        assert_eq!(written.data.is_none(), which == "dark");
        let all = written.darks + written.frames;
        assert!(all >= stop_at && all < 7000, "{all} frames");
        let size = std::fs::metadata(written.data.as_ref().unwrap_or(&written.dark)).unwrap().len();
        let frames = if which == "dark" { written.darks } else { written.frames };
        assert_eq!(size, 128 + frames * 40 * 56 * 2);
    }
    for write in [write_npy, write_raw] {
        let folder = dir.path().join("failed");
        let outcome = write(folder.clone(), &small(), 2000, 5000, &mut |done, _| {
            if done > 3000 { Err(Error::Other("enough".into())) } else { Ok(()) }
        });
        assert_eq!(outcome.unwrap_err().to_string(), "enough");
        assert!(names(&folder).is_empty(), "{:?}", names(&folder));
    }
}

#[test]
fn raw_files_hold_the_frames_and_their_lost_packets() {
    let dir = tempfile::tempdir().unwrap();
    // 5 packets of 8 rows, as the full detector has 50.
    let lossy = Simulation { cols: 400, packet_loss: 0.1, rows_per_packet: 3, ..small() };
    let written = write_raw(dir.path(), &lossy, 30, 40, &mut |_, _| Ok(())).unwrap();
    assert_eq!(
        names(dir.path()),
        [
            "dark_d0_f0_0.raw",
            "dark_master_0.json",
            "data_d0_f0_0.raw",
            "data_master_0.json",
            "simulation.json"
        ]
    );
    let simulator = &written.simulator;
    assert_eq!(simulator.simulation().rows_per_packet, 8);
    let packets = 5;
    let bytes = std::fs::read(dir.path().join("data_d0_f0_0.raw")).unwrap();
    let frame_bytes = 112 + 40 * 400 * 2;
    assert_eq!(bytes.len(), 40 * frame_bytes);
    let mut lost_packets = 0;
    let mut pixels = vec![0; 40 * 400];
    for (k, frame) in bytes.chunks(frame_bytes).enumerate() {
        let lost = simulator.frame(k as u64, &mut pixels);
        let words: Vec<u16> = frame[112..].chunks(2).map(|b| u16::from_le_bytes([b[0], b[1]])).collect();
        assert!(words == pixels, "frame {k}");
        assert_eq!(frame[..8], (k as u64).to_le_bytes());
        let caught = u32::from_le_bytes(frame[12..16].try_into().unwrap()) as usize;
        let missing = lost.map_or(0, |m| m.count()) / (400 * simulator.simulation().rows_per_packet);
        assert_eq!(caught, packets - missing);
        lost_packets += missing;
    }
    assert!(lost_packets > 0 && written.health.lost_packets >= lost_packets as u64);

    // The same through the reader, dark frames too.
    for (path, frames, dark) in [(&written.dark, 30, true), (written.data.as_ref().unwrap(), 40, false)] {
        let mut source = if dark { simulator.darks(frames) } else { simulator.frames(frames) };
        let mut file = open_source(path, &OpenOptions::default()).unwrap();
        let (mut made, lost) = read_all(&mut source, 16);
        // The reader takes the bits above the fourteenth from lost pixels too; they are masked anyway.
        made.iter_mut().for_each(|v| *v &= 0x3fff);
        let read = read_all(&mut *file, 16);
        assert!(read.0 == made, "other pixels, dark {dark}");
        assert!(read.1 == lost, "other lost pixels, dark {dark}");
        assert_eq!(file.health().lost_packets, source.health().lost_packets);
        assert_eq!(file.health().lost_pixels, source.health().lost_pixels);
    }

    let wide = Simulation { bits: 16, ..small() };
    let said = write_raw(dir.path(), &wide, 1, 1, &mut |_, _| Ok(())).unwrap_err().to_string();
    assert!(said.starts_with("bits = 16"), "{said}");
}
