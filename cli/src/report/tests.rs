use std::fs;

use std::sync::Arc;

use scheidegg::io::Sink;
use scheidegg::io::simulate::{Simulation, Simulator};
use scheidegg::pipeline::Run;
use scheidegg::provenance::Provenance;
use scheidegg::{
    AUTO, ClusterSize, Clusters, ClustersBuf, Params, Payload, PixelMask, Registry, Shape, to_f16,
};

use super::eta::Counts;
use super::peak::main_peak;
use super::*;

fn simulator(photons: f64) -> Arc<Simulator> {
    Simulation { rows: 150, cols: 260, photons_per_frame: photons, ..Simulation::default() }.build().unwrap()
}

/// Writes the report of a simulated run and returns its folder.
fn report_of(simulator: &Arc<Simulator>, frames: u64) -> (tempfile::TempDir, ReportSink) {
    let params = Params { pedestal_samples: 100, ..Params::new(ClusterSize::square(3).unwrap()) };
    let mut finder = Registry::standard().build(AUTO, simulator.shape(), &params).unwrap();
    let mut sink = ReportSink::new(simulator.shape());
    Run::new(&mut *finder).train(&mut simulator.darks(100)).unwrap();
    let start = finder.pedestal(0).unwrap();
    Run::new(&mut *finder).find(&mut simulator.frames(frames), &mut [&mut sink]).unwrap();
    let end = finder.pedestal(0).unwrap();
    let mut mask = PixelMask::new(simulator.shape());
    mask.insert(3, 4);
    let material = Material { sink: &sink, mask: Some(&mask), start: Some(&start), end: Some(&end) };
    let dir = tempfile::tempdir().unwrap();
    let facts = Facts {
        title: "A <run>".into(),
        tables: vec![Table { title: "Run".into(), rows: vec![("frames".into(), frames.to_string())] }],
        warnings: vec!["packets were lost".into()],
    };
    write(dir.path(), &facts, &material).unwrap();
    if let Some(keep) = std::env::var_os("SCHEIDEGG_KEEP_REPORT") {
        write(std::path::Path::new(&keep).join(frames.to_string()), &facts, &material).unwrap();
    }
    (dir, sink)
}

#[test]
fn a_report_is_one_page_with_its_pictures_beside() {
    let (dir, sink) = report_of(&simulator(600.0), 300);
    assert!(sink.clusters > 100_000);
    assert_eq!(sink.hits.iter().map(|n| u64::from(*n)).sum::<u64>(), sink.clusters);
    assert_eq!(sink.full.total(), sink.clusters);
    assert_eq!(sink.eta.total(), sink.clusters);
    let page = fs::read_to_string(dir.path().join("report.html")).unwrap();
    assert_eq!(page.matches("<svg").count(), 13);
    assert!(page.contains("A &lt;run&gt;") && page.contains("packets were lost"));
    // Nothing from elsewhere: the only addresses are those of data and of the SVG name space.
    assert!(!page.contains("<script") && !page.contains("src=\"http") && !page.contains("href=\"http"));
    let names = fs::read_dir(dir.path()).unwrap().map(|e| e.unwrap().file_name().into_string().unwrap());
    assert_eq!(names.filter(|n| n.ends_with(".png") || n.ends_with(".svg")).count(), 26);
    let peak = main_peak(&sink.full).unwrap();
    assert!((peak.position - 1000.0).abs() < 10.0 && (peak.sigma - 52.0).abs() < 5.0, "{peak:?}");
}

#[test]
fn a_run_without_clusters_or_frames_has_a_report() {
    for frames in [0, 5] {
        let (dir, sink) = report_of(&simulator(0.0), frames);
        assert!(sink.clusters < 500);
        assert!(dir.path().join("report.html").exists() && dir.path().join("eta_map.png").exists());
    }
}

/// Writes the report of these clusters and returns its page.
fn page_of(sink: &ReportSink, name: &str) -> String {
    let dir = tempfile::tempdir().unwrap();
    let material = Material { sink, mask: None, start: None, end: None };
    let facts = Facts { title: name.into(), ..Facts::default() };
    write(dir.path(), &facts, &material).unwrap();
    if let Some(keep) = std::env::var_os("SCHEIDEGG_KEEP_REPORT") {
        write(std::path::Path::new(&keep).join(name), &facts, &material).unwrap();
    }
    fs::read_to_string(dir.path().join("report.html")).unwrap()
}

#[test]
fn detectors_of_any_form_have_a_report() {
    for (rows, cols) in [(2, 2), (1, 1000), (700, 3)] {
        let shape = Shape { rows, cols };
        let mut sink = ReportSink::new(shape);
        let mut buf = ClustersBuf::new(shape, ClusterSize::square(3).unwrap(), Payload::I32);
        for frame in 0..40u64 {
            let mut records = Vec::new();
            for i in 0..10u64 {
                let at = (frame * 7 + i * i * 31) as usize % shape.pixels();
                records.extend(((at % cols) as u16).to_ne_bytes());
                records.extend(((at / cols) as u16).to_ne_bytes());
                let values = [3, -2, 9, 120, 700 + (i * 13 + frame * 5 % 17) as i32, 80, 4, 11, -6];
                values.iter().for_each(|v: &i32| records.extend(v.to_ne_bytes()));
            }
            // A long gap, then numbers far from 0.
            buf.push_frame(if frame < 20 { frame } else { frame + 4_000_000_000 }, &records);
        }
        sink.write(&buf.view().into()).unwrap();
        sink.finish(&Provenance::default()).unwrap();
        let page = page_of(&sink, &format!("{rows}x{cols}"));
        assert!(!page.contains("NaN") && !page.contains("inf"), "{rows}x{cols}");
        assert!(page.contains("frame numbers between the first and the last are missing"));
    }
}

#[test]
fn one_frame_and_numbers_that_start_again_are_drawn() {
    let shape = Shape { rows: 30, cols: 50 };
    for (name, numbers) in
        [("one", vec![17]), ("again", vec![0, 1, 2, 3, 0, 1, 2, 3]), ("late", vec![u64::MAX - 1])]
    {
        let mut buf = ClustersBuf::new(shape, ClusterSize::square(3).unwrap(), Payload::F32);
        numbers.iter().for_each(|n| buf.push_frame(*n, &[]));
        let mut sink = ReportSink::new(shape);
        sink.write(&buf.view().into()).unwrap();
        sink.finish(&Provenance::default()).unwrap();
        let page = page_of(&sink, name);
        assert!(page.contains("no clusters") && page.contains("not fitted: there are too few clusters"));
        assert_eq!(page.contains("start again 1 times"), name == "again");
        assert!(!page.contains("NaN") && !page.contains("inf"), "{name}");
    }
}

#[test]
fn a_report_says_what_it_measured_with() {
    let (dir, sink) = report_of(&simulator(600.0), 40);
    let page = fs::read_to_string(dir.path().join("report.html")).unwrap();
    assert_eq!(sink.payload, Some(Payload::I32));
    for words in [
        "given back an even part of an ADU",
        "standard deviations around its peak",
        "masked or untrained: 1<",
        "<h2>Provenance</h2>",
        "40 frames, numbers 0 to 39",
        "χ²/ndf",
        "pedestal, end less start (ADU)",
        "aria-describedby=\"about-hit_map\"",
    ] {
        assert!(page.contains(words), "{words}");
    }
}

/// Records with charges of both signs, halves, equal squares, values far away, and eta outside 0 to 1.
fn odd_clusters(size: ClusterSize, payload: Payload, frames: u64) -> ClustersBuf {
    const SHAPE: Shape = Shape { rows: 30, cols: 50 };
    let mut buf = ClustersBuf::new(SHAPE, size, payload);
    let mut state = 1u64;
    let mut random = |below: u64| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) % below
    };
    for number in 0..frames {
        let mut records = Vec::new();
        for _ in 0..random(400) {
            records.extend((random(SHAPE.cols as u64) as u16).to_ne_bytes());
            records.extend((random(SHAPE.rows as u64) as u16).to_ne_bytes());
            let far = random(40) == 0;
            for _ in 0..size.pixels() {
                let v = (random(1200) as f64 - 300.0) / 2.0;
                match payload {
                    Payload::I32 => {
                        records.extend((v as i32 * if far { 4_000_000 } else { 1 }).to_ne_bytes())
                    }
                    Payload::I16 => records.extend((v as i16 * if far { 70 } else { 1 }).to_ne_bytes()),
                    Payload::F16 => {
                        records.extend(to_f16(v * if far { 140.0 } else { 1.0 }).to_bits().to_ne_bytes())
                    }
                    Payload::F32 => records.extend((v as f32 * if far { 1e17 } else { 1.0 }).to_ne_bytes()),
                }
            }
        }
        buf.push_frame(number, &records);
    }
    buf
}

/// The plain definition of what a report counts.
fn counted_one_by_one(batch: &Clusters<'_>) -> ReportSink {
    let mut sink = ReportSink::new(batch.shape());
    sink.payload = Some(batch.payload());
    sink.provenance = Some(Provenance::default());
    let mut eta = Counts::default();
    batch.charges_unrounded(0..batch.len(), |c| eta.add(c.eta));
    sink.eta.merge(&[&eta]);
    (0..batch.frames()).for_each(|k| sink.timeline.push(batch.numbers()[k], batch.frame(k).len() as u64));
    for cluster in batch.iter() {
        sink.clusters += 1;
        sink.centre.add(cluster.centre());
        sink.full.add(cluster.sum());
        sink.square.add(cluster.max_sum_2x2().0);
        sink.hits[usize::from(cluster.y) * batch.shape().cols + usize::from(cluster.x)] += 1;
    }
    sink
}

#[test]
fn a_report_counts_the_same_whoever_counts() {
    for (w, h) in [(3, 3), (2, 2), (9, 9), (4, 3)] {
        for payload in Payload::ALL {
            let size = ClusterSize { w, h };
            let clusters = odd_clusters(size, *payload, 80);
            let want = counted_one_by_one(&clusters.view());
            assert!(want.clusters > 12_000 && want.eta.outside() > 100, "{size} {payload}");
            for threads in [1, 2, 5] {
                let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
                let mut sink = ReportSink::new(clusters.view().shape());
                pool.install(|| sink.write(&clusters.view().into())).unwrap();
                sink.finish(&Provenance::default()).unwrap();
                assert_eq!(sink, want, "{size} {payload}, {threads} threads");
            }
        }
    }
}

#[test]
fn a_report_counts_the_same_in_batches_of_any_length() {
    let size = ClusterSize::square(3).unwrap();
    let whole = odd_clusters(size, Payload::I32, 80);
    let want = counted_one_by_one(&whole.view());
    for frames in [1, 7, 33] {
        let mut sink = ReportSink::new(whole.view().shape());
        for from in (0..80).step_by(frames) {
            let mut part = ClustersBuf::new(whole.view().shape(), size, Payload::I32);
            (from..(from + frames).min(80))
                .for_each(|k| part.push_frame(k as u64, whole.view().frame_bytes(k)));
            sink.write(&part.view().into()).unwrap();
        }
        sink.finish(&Provenance::default()).unwrap();
        assert_eq!(sink, want, "batches of {frames}");
    }
}
