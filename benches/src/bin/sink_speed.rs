//! Measures the files that results are written to, each sink alone: batches of made-up clusters, and beside them the
//! same bytes written to a file in one call a batch, which is what the file system takes.

use std::fs::{File, remove_file};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Instant;

use clap::Parser;
use scheidegg::io::{Batch, open_sink};
use scheidegg::provenance::Provenance;
use scheidegg::{ClusterSize, Clusters, ClustersBuf, Error, Params, Payload, Result, Shape, record_bytes};

/// Measures result files, each kind alone.
#[derive(Parser)]
struct Arguments {
    /// Folder for the files; they are removed again.
    #[arg(long)]
    out: PathBuf,
    /// Frames of a batch.
    #[arg(long, default_value_t = 128)]
    batch: usize,
    /// Frames of a file.
    #[arg(long, default_value_t = 2048)]
    frames: usize,
    /// Clusters of a frame.
    #[arg(long, default_value_t = 2150)]
    clusters: usize,
    /// Files of every kind; the fastest counts.
    #[arg(long, default_value_t = 5)]
    repetitions: usize,
}

/// A batch of records that no two of are alike.
fn batch(a: &Arguments, size: ClusterSize, payload: Payload) -> ClustersBuf {
    let mut buf = ClustersBuf::new(Shape { rows: 400, cols: 400 }, size, payload);
    let mut state = 1u64;
    for k in 0..a.batch {
        let bytes = std::iter::repeat_with(|| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 56) as u8
        });
        let records: Vec<u8> = bytes.take(a.clusters * record_bytes(size, payload)).collect();
        buf.push_frame(k as u64, &records);
    }
    buf
}

/// Seconds of writing a file and of completing it.
fn once(path: &Path, params: &Params, batch: &Clusters<'_>, batches: usize) -> Result<(f64, f64)> {
    let io = |e| Error::io(path, e);
    let start = Instant::now();
    if path.extension().is_some_and(|e| e == "bytes") {
        let mut file = File::create(path).map_err(io)?;
        (0..batches).try_for_each(|_| file.write_all(batch.bytes())).map_err(io)?;
        return Ok((start.elapsed().as_secs_f64(), 0.0));
    }
    let mut sink = open_sink(path, params)?;
    (0..batches).try_for_each(|_| sink.write(&Batch::of(*batch)))?;
    let written = start.elapsed().as_secs_f64();
    sink.finish(&Provenance::default())?;
    Ok((written, start.elapsed().as_secs_f64() - written))
}

fn all(a: &Arguments) -> Result<()> {
    let batches = a.frames.div_ceil(a.batch.max(1));
    println!("{} frames of {} clusters, batches of {}; us a frame", a.frames, a.clusters, a.batch);
    for (side, payload) in [(3, Payload::I16), (3, Payload::I32), (9, Payload::I16)] {
        let size = ClusterSize::square(side)?;
        let buf = batch(a, size, payload);
        let batch = buf.view();
        let params = Params { payload, ..Params::new(size) };
        for kind in ["bytes", "clust", "npy", "npz"] {
            let path = a.out.join(format!("sink_speed.{kind}"));
            let mut best = (f64::INFINITY, 0.0);
            for _ in 0..a.repetitions {
                let time = once(&path, &params, &batch, batches)?;
                remove_file(&path).map_err(|e| Error::io(&path, e))?;
                if time.0 + time.1 < best.0 + best.1 {
                    best = time;
                }
            }
            let us = |s: f64| s * 1e6 / (batches * a.batch) as f64;
            let rate = (batches * batch.bytes().len()) as f64 / (best.0 + best.1) / 1e9;
            println!(
                "{side}x{side} {payload} {kind:<6} {:7.1} to write {:7.1} to complete {:7.1} in all {rate:6.2} GB/s of records",
                us(best.0),
                us(best.1),
                us(best.0 + best.1)
            );
        }
    }
    Ok(())
}

fn main() -> ExitCode {
    match all(&Arguments::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(e) => {
            eprintln!("{e}");
            ExitCode::FAILURE
        }
    }
}
