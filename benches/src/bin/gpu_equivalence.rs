//! Runs the GPU against the CPU over generated frames and the conformance suite, to the bit, and prints a table.
//!
//! Needs no files. Ends with 0 when everything is equal (or, without a GPU, skipped and not required), with 1 when
//! something differs, with 2 when a GPU was required and there is none.

use std::process::ExitCode;
use std::sync::Arc;
use std::time::Instant;

use clap::Parser;
use scheidegg::cuda::{CudaBackend, CudaFinder, Options, Output, RegisteredSlice};
use scheidegg::{
    Backend, ClusterSize, Clusters, ClustersBuf, Finder, Frames, Noise, Params, Payload, PixelMask,
    Precision, Result, Shape, Ties,
};
use scheidegg_benches::gpu::equal::{Run, Table, compare, found};
use scheidegg_benches::gpu::frames::Scene;
use scheidegg_conformance::suite;
use scheidegg_cpu::CpuBackend;

/// Compares the GPU with the CPU, to the bit.
#[derive(Parser)]
struct Arguments {
    /// GPUs to use.
    #[arg(long, value_delimiter = ',', default_value = "0")]
    devices: Vec<usize>,
    /// Frames of 400 x 400 of the large comparisons.
    #[arg(long, default_value_t = 2000)]
    frames: usize,
    /// Frames of the comparison of f32 with f64 pedestals; 0 leaves it out.
    #[arg(long, default_value_t = 100_000)]
    drift_frames: usize,
    /// Only a few small frames of everything: for a memory checker.
    #[arg(long)]
    small: bool,
    /// Leave out the conformance suite.
    #[arg(long)]
    no_suite: bool,
    /// Only comparisons with this in their name.
    #[arg(long, value_name = "TEXT")]
    only: Option<String>,
    /// A missing GPU is a failure.
    #[arg(long)]
    require: bool,
}

fn params(side: usize, precision: Precision) -> Result<Params> {
    Ok(Params { precision, payload: Payload::I16, ..Params::new(ClusterSize::square(side)?) })
}

/// Many frames of 400 x 400, both sizes and precisions, and every way of working.
fn large(a: &Arguments, table: &mut Table, options: &Options) -> Result<()> {
    let shape = if a.small { Shape::new(40, 40)? } else { Shape::new(400, 400)? };
    let count = if a.small { 12 } else { a.frames };
    let scene = Scene::bright(shape, 1);
    let darks = scene.darks(if a.small { 20 } else { 300 });
    let data = scene.frames(count);
    let frames = Frames::new(&data, shape)?;
    for (side, precision) in
        [(3, Precision::F32), (3, Precision::F64F32), (9, Precision::F32), (9, Precision::F64F32)]
    {
        let name = format!("{shape}, {side}x{side}, {precision}");
        let run = Run {
            params: params(side, precision)?,
            darks: &darks,
            frames,
            options: options.clone(),
            in_place: true,
        };
        table.row(&name, count, || compare(&run, a.small));
    }
    let some = frames.slice(0, count.min(257));
    let ways: Vec<(&str, Options)> = vec![
        ("chunks of 1", Options { chunk_frames: Some(1), ..options.clone() }),
        ("chunks of 7, 1 slot", Options { chunk_frames: Some(7), slots: 1, ..options.clone() }),
        ("chunks of 64, 2 slots", Options { chunk_frames: Some(64), slots: 2, ..options.clone() }),
        ("chunks of 256, 8 slots", Options { chunk_frames: Some(256), slots: 8, ..options.clone() }),
        ("1 frame a launch", Options { frames_per_launch: Some(1), ..options.clone() }),
        ("2 frames a launch", Options { frames_per_launch: Some(2), ..options.clone() }),
        ("3 frames a launch", Options { frames_per_launch: Some(3), ..options.clone() }),
        ("copied results", Options { output: Output::Copied, ..options.clone() }),
        ("without graphs", Options { graphs: false, ..options.clone() }),
        ("timed", Options { timing: true, ..options.clone() }),
        ("room for 1 cluster a frame", Options { capacity: Some(1), ..options.clone() }),
        (
            "room for 1, copied results, chunks of 33",
            Options { capacity: Some(1), output: Output::Copied, chunk_frames: Some(33), ..options.clone() },
        ),
    ];
    for (side, in_place) in [(3, true), (9, false)] {
        for (way, options) in &ways {
            let name = format!("{side}x{side} {}: {way}", if in_place { "in place" } else { "copied in" });
            let run = Run {
                params: params(side, Precision::F32)?,
                darks: &darks,
                frames: some,
                options: options.clone(),
                in_place,
            };
            table.row(&name, some.len(), || match compare(&run, a.small) {
                Ok((_, 0)) if options.capacity.is_some() => Err("no chunk was done again".into()),
                outcome => outcome,
            });
        }
    }
    exact_room(table, options, &darks, some)
}

/// Room for exactly the clusters of a frame is enough; for one less it is not.
fn exact_room(table: &mut Table, options: &Options, darks: &[u16], frames: Frames<'_>) -> Result<()> {
    let one = frames.slice(0, 1);
    let count = {
        let p = Params {
            pedestal_samples: (darks.len() / one.shape().pixels()) as u64,
            ..params(3, Precision::F32)?
        };
        let mut cpu = CpuBackend::new().build(one.shape(), &p)?;
        found(&mut *cpu, darks, one, "cpu")?.clusters.view().len()
    };
    for (capacity, again) in [(count, false), (count.saturating_sub(1).max(1), true)] {
        let name = format!("room for {capacity} of {count} clusters");
        let run = Run {
            params: params(3, Precision::F32)?,
            darks,
            frames: one,
            options: Options { capacity: Some(capacity), chunk_frames: Some(1), ..options.clone() },
            in_place: true,
        };
        table.row(&name, 1, || match compare(&run, false)? {
            (n, redone) if (redone > 0) == again => Ok((n, redone)),
            (_, redone) => Err(format!("{redone} chunks done again")),
        });
    }
    Ok(())
}

/// Shapes, windows, masks, ties, noise, payloads, lanes.
fn odd(a: &Arguments, table: &mut Table, options: &Options) -> Result<()> {
    let full = |rows: usize, cols: usize, count: usize| match a.small {
        true => (rows.min(33), cols.min(45), count.min(9)),
        false => (rows, cols, count),
    };
    for (rows, cols, count, w, h) in [
        full5(full(512, 1024, 200), (3, 3)),
        full5(full(512, 1024, 60), (9, 9)),
        full5(full(1, 1, 50), (3, 3)),
        full5(full(1, 1, 50), (2, 2)),
        full5(full(3, 400, 60), (3, 3)),
        full5(full(3, 400, 60), (9, 9)),
        full5(full(401, 399, 60), (3, 3)),
        full5(full(401, 399, 60), (9, 9)),
        full5(full(401, 399, 30), (5, 5)),
        full5(full(401, 399, 30), (7, 7)),
        full5(full(100, 131, 30), (4, 3)),
        full5(full(100, 131, 30), (2, 15)),
        full5(full(100, 131, 30), (15, 15)),
        full5(full(400, 1, 30), (3, 5)),
    ] {
        let shape = Shape::new(rows, cols)?;
        let scene = Scene::bright(shape, 3);
        let (darks, data) = (scene.darks(40), scene.frames(count));
        for precision in [Precision::F32, Precision::F64F32] {
            let name = format!("{shape}, {w}x{h}, {precision}");
            let run = Run {
                params: Params { size: ClusterSize::new(w, h)?, ..params(3, precision)? },
                darks: &darks,
                frames: Frames::new(&data, shape)?,
                options: options.clone(),
                in_place: false,
            };
            table.row(&name, count, || compare(&run, true));
        }
    }
    kinds(a, table, options)
}

/// A row of shapes from its two halves.
fn full5(
    (rows, cols, count): (usize, usize, usize),
    (w, h): (usize, usize),
) -> (usize, usize, usize, usize, usize) {
    (rows, cols, count, w, h)
}

/// Every kind of parameter on one set of frames.
fn kinds(a: &Arguments, table: &mut Table, options: &Options) -> Result<()> {
    let shape = if a.small { Shape::new(30, 41)? } else { Shape::new(200, 301)? };
    let count = if a.small { 10 } else { 60 };
    let scene = Scene::bright(shape, 5);
    let darks = scene.darks(50);
    let mut data = scene.frames(count);
    // Flat patches of equal values, and values that no i16 holds.
    for (k, frame) in data.chunks_mut(shape.pixels()).enumerate() {
        for r in 0..5 {
            let at = (3 + r) * shape.cols + 5 + k % 7;
            frame[at..at + 5].fill(9000);
        }
        frame[20 * shape.cols + k % shape.cols] = 65535;
    }
    let mut mask = PixelMask::new(shape);
    for i in (0..shape.pixels()).filter(|i| i % 13 == 4 || i / shape.cols == 17) {
        mask.insert_index(i);
    }
    let base = params(3, Precision::F32)?;
    let nine = params(9, Precision::F64F32)?;
    let kinds: Vec<(&str, Params)> = vec![
        ("saturation, i16", base.clone()),
        ("i32", Params { payload: Payload::I32, ..base.clone() }),
        ("f16", Params { payload: Payload::F16, ..base.clone() }),
        ("f32", Params { payload: Payload::F32, ..nine.clone() }),
        ("ties first", Params { ties: Ties::First, ..base.clone() }),
        ("ties first, 9x9 f64", Params { ties: Ties::First, ..nine.clone() }),
        ("test 2", Params { test2: true, ..base.clone() }),
        ("masked", Params { mask: Some(Arc::new(mask.clone())), ..base.clone() }),
        ("masked, 9x9 f64", Params { mask: Some(Arc::new(mask)), ..nine.clone() }),
        ("fixed noise", Params { noise: Noise::Fixed, ..base.clone() }),
        ("fixed noise, 9x9 f64", Params { noise: Noise::Fixed, ..nine.clone() }),
        ("noise floor", Params { noise_floor_adu: 25.0, ..base.clone() }),
        ("3 lanes", Params { lanes: 3, ..base.clone() }),
        ("8 lanes, 9x9 f64", Params { lanes: 8, ..nine.clone() }),
        ("100 lanes", Params { lanes: 100, ..base.clone() }),
        ("trace", Params { trace: true, ..base }),
        ("trace, 9x9 f64, 2 lanes", Params { trace: true, lanes: 2, ..nine }),
    ];
    for (kind, params) in kinds {
        let name = format!("{shape}: {kind}");
        let run = Run {
            params,
            darks: &darks,
            frames: Frames::new(&data, shape)?,
            options: Options { chunk_frames: Some(16), ..options.clone() },
            in_place: true,
        };
        table.row(&name, count, || compare(&run, true));
    }
    // Frames with headers between them, read as they lie.
    for gap in [8, 56, 3000] {
        let name = format!("{shape}: {gap} pixels between frames");
        let mut spread = Vec::new();
        for frame in data.chunks(shape.pixels()) {
            spread.extend_from_slice(frame);
            spread.resize(spread.len() + gap, 0x1234);
        }
        let run = Run {
            params: params(3, Precision::F32)?,
            darks: &darks,
            frames: Frames::strided(&spread, shape, count, shape.pixels() + gap)?,
            options: Options { chunk_frames: Some(16), ..options.clone() },
            in_place: true,
        };
        table.row(&name, count, || compare(&run, true));
    }
    Ok(())
}

/// Many frames with pedestals in f32 and in f64: how many clusters there are, and how many differ.
fn drift(frames: usize, options: &Options) -> Result<(u64, u64)> {
    let shape = Shape::new(400, 400)?;
    let scene = Scene::bright(shape, 9);
    let darks = scene.darks(1000);
    let data = scene.frames(2048);
    let locked = RegisteredSlice::new(options.devices[0], &data)?;
    let all = Frames::new(locked.pixels(), shape)?;
    let mut finders = Vec::new();
    for precision in [Precision::F32, Precision::F64F32] {
        let mut finder = CudaFinder::new(shape, &params(3, precision)?, options)?;
        finder.train(Frames::new(&darks, shape)?)?;
        finders.push(finder);
    }
    let (mut clusters, mut different, mut done) = (0u64, 0u64, 0usize);
    while done < frames {
        let part = all.slice(0, all.len().min(frames - done));
        let mut results = Vec::new();
        for finder in &mut finders {
            let p = finder.params();
            let mut buf = ClustersBuf::new(shape, p.size, p.payload);
            finder.find(part, &mut |c| {
                buf.append(&c);
                Ok(())
            })?;
            results.push(buf);
        }
        let (x, y) = (results[0].view(), results[1].view());
        clusters += y.len() as u64;
        for k in 0..part.len() {
            if x.frame_bytes(k) != y.frame_bytes(k) {
                let centres = |c: &Clusters<'_>| c.frame(k).map(|c| (c.y, c.x)).collect::<Vec<_>>();
                let (p, q) = (centres(&x), centres(&y));
                let only = |p: &[(u16, u16)], q: &[(u16, u16)]| {
                    p.iter().filter(|c| q.binary_search(c).is_err()).count() as u64
                };
                different += only(&p, &q) + only(&q, &p);
            }
        }
        done += part.len();
    }
    println!("f32 against f64 over {done} frames: {different} of {clusters} clusters differ");
    Ok((clusters, different))
}

fn conformance(a: &Arguments, table: &mut Table, options: &Options) {
    if a.no_suite {
        return;
    }
    for (name, options) in [
        ("conformance suite", options.clone()),
        (
            "conformance suite, room for 1, copied results",
            Options {
                capacity: Some(1),
                output: Output::Copied,
                graphs: false,
                slots: 2,
                chunk_frames: Some(16),
                ..options.clone()
            },
        ),
        ("conformance suite, 2 frames a launch", Options { frames_per_launch: Some(2), ..options.clone() }),
    ] {
        let random_runs = if a.small { 3 } else { 40 };
        table.row(name, random_runs, || {
            let wanted = suite::Options { random_runs, ..Default::default() };
            let report = suite::run(&CudaBackend::new(options), &wanted);
            print!("{report}");
            match report.failed.is_empty() {
                true => Ok((0, 0)),
                false => Err(format!("{} checks failed", report.failed.len())),
            }
        });
    }
}

fn main() -> ExitCode {
    let a = Arguments::parse();
    let options = Options { devices: a.devices.clone(), ..Options::default() };
    match CudaBackend::new(options.clone()).probe() {
        Ok(probe) => println!("{}; CPU {:?}", probe.device, CpuBackend::new().probe().map(|p| p.device)),
        Err(e) => {
            println!("SKIPPED: {e}");
            return ExitCode::from(if a.require { 2 } else { 0 });
        }
    }
    let start = Instant::now();
    let mut table = Table::new(a.only.clone());
    let outcome = large(&a, &mut table, &options).and_then(|()| odd(&a, &mut table, &options));
    if a.drift_frames > 0 && !a.small {
        table.row("f32 against f64: fewer than 1 in 10^6 differ", a.drift_frames, || {
            match drift(a.drift_frames, &options).map_err(|e| e.to_string())? {
                (all, different) if different * 1_000_000 < all.max(1) => Ok((all, 0)),
                (all, different) => Err(format!("{different} of {all} clusters")),
            }
        });
    }
    conformance(&a, &mut table, &options);
    if let Err(e) = &outcome {
        println!("ended early: {e}");
    }
    let bad = table.failed > 0 || outcome.is_err();
    println!(
        "{} of {} comparisons equal, {:.0} s: {}",
        table.rows - table.failed,
        table.rows,
        start.elapsed().as_secs_f64(),
        if bad { "FAILED" } else { "ok" }
    );
    ExitCode::from(u8::from(bad))
}
