use std::fs;

use std::sync::Arc;

use scheidegg::io::Sink;
use scheidegg::io::simulate::{Simulation, Simulator};
use scheidegg::pipeline::Run;
use scheidegg::provenance::Provenance;
use scheidegg::{AUTO, ClusterSize, Clusters, ClustersBuf, Params, Payload, Registry, Shape, to_f16};

use super::peak::main_peak;
use super::sink::ETA_CELLS;
use super::*;

fn simulator(photons: f64) -> Arc<Simulator> {
    Simulation { rows: 150, cols: 260, photons_per_frame: photons, ..Simulation::default() }.build().unwrap()
}

/// Writes the report of a simulated run and returns its folder.
fn report_of(simulator: &Arc<Simulator>, frames: u64) -> (tempfile::TempDir, ReportSink) {
    let params = Params { pedestal_samples: 100, ..Params::new(ClusterSize::square(3).unwrap()) };
    let mut finder = Registry::standard().build(AUTO, simulator.shape(), &params).unwrap();
    let mut sink = ReportSink::new(simulator.shape());
    let mut run = Run::new(&mut *finder);
    run.train(&mut simulator.darks(100)).unwrap();
    run.find(&mut simulator.frames(frames), &mut [&mut sink]).unwrap();
    drop(run);
    let pedestal = finder.pedestal(0).unwrap();
    let dir = tempfile::tempdir().unwrap();
    let facts = Facts {
        title: "A <run>".into(),
        tables: vec![Table { title: "Run".into(), rows: vec![("frames".into(), frames.to_string())] }],
        warnings: vec!["packets were lost".into()],
    };
    write(dir.path(), &facts, &sink, Some(&pedestal)).unwrap();
    if let Some(keep) = std::env::var_os("SCHEIDEGG_KEEP_REPORT") {
        write(std::path::Path::new(&keep).join(frames.to_string()), &facts, &sink, Some(&pedestal)).unwrap();
    }
    (dir, sink)
}

#[test]
fn a_report_is_one_page_with_its_pictures_beside() {
    let (dir, sink) = report_of(&simulator(600.0), 300);
    assert!(sink.clusters > 100_000);
    assert_eq!(sink.hits.iter().map(|n| u64::from(*n)).sum::<u64>(), sink.clusters);
    assert_eq!(sink.full.total(), sink.clusters);
    assert_eq!(sink.eta.iter().sum::<u64>() + sink.eta_outside, sink.clusters);
    let page = fs::read_to_string(dir.path().join("report.html")).unwrap();
    assert_eq!(page.matches("<svg").count(), 9);
    assert!(page.contains("A &lt;run&gt;") && page.contains("packets were lost"));
    // Nothing from elsewhere: the only addresses are those of data and of the SVG name space.
    assert!(!page.contains("<script") && !page.contains("src=\"http") && !page.contains("href=\"http"));
    let names = fs::read_dir(dir.path()).unwrap().map(|e| e.unwrap().file_name().into_string().unwrap());
    assert_eq!(names.filter(|n| n.ends_with(".png") || n.ends_with(".svg")).count(), 18);
    let peak = main_peak(&sink.full).unwrap();
    assert!((peak.position - 1000.0).abs() < 30.0, "{peak:?}");
}

#[test]
fn a_run_without_clusters_or_frames_has_a_report() {
    for frames in [0, 5] {
        let (dir, sink) = report_of(&simulator(0.0), frames);
        assert!(sink.clusters < 500);
        assert!(dir.path().join("report.html").exists() && dir.path().join("eta_map.png").exists());
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
    (0..batch.frames()).for_each(|k| sink.timeline.push(batch.numbers()[k], batch.frame(k).len() as u64));
    for cluster in batch.iter() {
        sink.clusters += 1;
        sink.centre.add(cluster.centre());
        sink.full.add(cluster.sum());
        sink.square.add(cluster.max_sum_2x2().0);
        sink.hits[usize::from(cluster.y) * batch.shape().cols + usize::from(cluster.x)] += 1;
        let cells = ETA_CELLS as f64;
        match cluster.eta2() {
            Some(e) if e.x >= 0.0 && e.x <= 1.0 && e.y >= 0.0 && e.y <= 1.0 => {
                let cell = |eta: f64| (eta * cells).floor().min(cells - 1.0) as usize;
                sink.eta[cell(e.y) * ETA_CELLS + cell(e.x)] += 1;
            }
            _ => sink.eta_outside += 1,
        }
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
            assert!(want.clusters > 12_000 && want.eta_outside > 100, "{size} {payload}");
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
