use std::fs;

use std::sync::Arc;

use scheidegg::io::simulate::{Simulation, Simulator};
use scheidegg::pipeline::Run;
use scheidegg::{AUTO, ClusterSize, Params, Registry};

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
        write(&Path::new(&keep).join(frames.to_string()), &facts, &sink, Some(&pedestal)).unwrap();
    }
    (dir, sink)
}

#[test]
fn a_report_is_one_page_with_its_pictures_beside() {
    let (dir, sink) = report_of(&simulator(600.0), 300);
    assert!(sink.clusters > 100_000);
    assert_eq!(sink.hits.iter().map(|n| u64::from(*n)).sum::<u64>(), sink.clusters);
    assert_eq!(sink.full.total(), sink.clusters);
    assert_eq!(sink.eta.iter().map(|n| u64::from(*n)).sum::<u64>() + sink.eta_outside, sink.clusters);
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
