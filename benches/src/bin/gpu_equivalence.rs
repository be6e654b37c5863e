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
    Backend, ClusterSize, Clusters, ClustersBuf, Error, Finder, Frames, Noise, Params, Payload, Pedestal,
    PixelMask, Precision, Result, Shape, Ties,
};
use scheidegg_benches::gpu::frames::Scene;
use scheidegg_conformance::suite;
use scheidegg_cpu::{CpuBackend, OracleBackend};

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
    /// A missing GPU is a failure.
    #[arg(long)]
    require: bool,
}

/// A comparison of a run on the GPU with the same on the CPU.
struct Run<'a> {
    name: String,
    params: Params,
    darks: &'a [u16],
    frames: Frames<'a>,
    options: Options,
    /// Where frames are read from: page-locked memory in place, or copied.
    in_place: bool,
}

/// Rows of the table, and what differed.
#[derive(Default)]
struct Table {
    rows: usize,
    failed: usize,
}

impl Table {
    fn head() {
        println!(
            "{:<58} {:>7} {:>10} {:>7} {:>7}  result",
            "comparison", "frames", "clusters", "redone", "s"
        );
    }

    fn row(&mut self, name: &str, frames: usize, outcome: Result<(u64, u64), String>, start: Instant) {
        self.rows += 1;
        let s = start.elapsed().as_secs_f64();
        match outcome {
            Ok((clusters, redone)) => {
                println!("{name:<58} {frames:>7} {clusters:>10} {redone:>7} {s:>7.2}  equal");
            }
            Err(what) => {
                self.failed += 1;
                println!("{name:<58} {frames:>7} {:>10} {:>7} {s:>7.2}  DIFFERS: {what}", "-", "-");
            }
        }
    }
}

/// What a run returns.
struct Found {
    clusters: ClustersBuf,
    pedestals: Vec<Pedestal>,
    saturated: u64,
    redone: u64,
}

fn found(finder: &mut dyn Finder, darks: &[u16], frames: Frames<'_>, backend: &str) -> Result<Found> {
    let (shape, params) = (finder.shape(), finder.params().clone());
    if finder.backend() != backend {
        return Err(Error::Other(format!("{} ran instead of {backend}", finder.backend())));
    }
    finder.train(Frames::new(darks, shape)?)?;
    finder.finish_training()?;
    let mut clusters = ClustersBuf::new(shape, params.size, params.payload);
    finder.find(frames, &mut |c| {
        clusters.append(&c);
        Ok(())
    })?;
    let pedestals = (0..params.lanes).map(|l| finder.pedestal(l)).collect::<Result<_>>()?;
    let statistics = finder.statistics();
    Ok(Found { clusters, pedestals, saturated: statistics.saturated, redone: statistics.redone })
}

/// The first difference of two batches of clusters, in words.
fn difference(want: &Clusters<'_>, got: &Clusters<'_>) -> Option<String> {
    if want.numbers() != got.numbers() {
        return Some(format!("{} frames, expected {}", got.frames(), want.frames()));
    }
    for k in 0..want.frames() {
        if want.frame_bytes(k) == got.frame_bytes(k) {
            continue;
        }
        let (w, g) = (want.frame(k), got.frame(k));
        let (nw, ng) = (w.len(), g.len());
        return Some(match w.zip(g).enumerate().find(|(_, (w, g))| w != g) {
            Some((i, (w, g))) => format!(
                "frame {k}: cluster {i} of {ng}: ({}, {}) {:?}, expected of {nw}: ({}, {}) {:?}",
                g.x, g.y, g.values, w.x, w.y, w.values
            ),
            None => format!("frame {k}: {ng} clusters, expected {nw}"),
        });
    }
    match (want.trace(), got.trace()) {
        (a, b) if a == b => None,
        (Some(a), Some(b)) => {
            let i = a.iter().zip(b).position(|(a, b)| a != b).unwrap_or(0);
            Some(format!("trace byte {i}: {}, expected {}", b[i], a[i]))
        }
        _ => Some("one trace is missing".into()),
    }
}

fn pedestal_difference(want: &Pedestal, got: &Pedestal) -> Option<String> {
    for (name, w, g) in [("sum", &want.sum, &got.sum), ("sum2", &want.sum2, &got.sum2)] {
        let bits = |p: &scheidegg::Plane, i: usize| p.get(i).to_bits();
        if let Some(i) = (0..w.len()).find(|&i| bits(w, i) != bits(g, i)) {
            return Some(format!("{name} of pixel {i}: {}, expected {}", g.get(i), w.get(i)));
        }
    }
    (want != got).then(|| "the pedestals differ beside their sums".into())
}

/// Compares, and says how many clusters there were and how many chunks were done again.
fn compare(run: &Run<'_>, oracle: bool) -> Result<(u64, u64), String> {
    let shape = run.frames.shape();
    let params = Params { pedestal_samples: (run.darks.len() / shape.pixels()) as u64, ..run.params.clone() };
    let words = |e: Error| e.to_string();
    let (reference, name): (Box<dyn Backend>, _) = match oracle {
        true => (Box::new(OracleBackend::new()), "oracle"),
        false => (Box::new(CpuBackend::new()), "cpu"),
    };
    let mut cpu = reference.build(shape, &params).map_err(words)?;
    let want = found(&mut *cpu, run.darks, run.frames, name).map_err(words)?;
    drop(cpu);
    let mut gpu = CudaFinder::new(shape, &params, &run.options).map_err(words)?;
    let locked = match run.in_place {
        true => Some(RegisteredSlice::new(run.options.devices[0], run.frames.as_slice()).map_err(words)?),
        false => None,
    };
    let got = found(&mut gpu, run.darks, run.frames, "cuda").map_err(words)?;
    drop(locked);
    if let Some(what) = difference(&want.clusters.view(), &got.clusters.view()) {
        return Err(what);
    }
    for (lane, (w, g)) in want.pedestals.iter().zip(&got.pedestals).enumerate() {
        if let Some(what) = pedestal_difference(w, g) {
            return Err(format!("lane {lane}: {what}"));
        }
    }
    if want.saturated != got.saturated {
        return Err(format!("{} values cut to fit, expected {}", got.saturated, want.saturated));
    }
    Ok((got.clusters.view().len() as u64, got.redone))
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
        let start = Instant::now();
        let run = Run {
            name: format!("{shape}, {side}x{side}, {precision}"),
            params: params(side, precision)?,
            darks: &darks,
            frames,
            options: options.clone(),
            in_place: true,
        };
        table.row(&run.name, count, compare(&run, a.small), start);
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
            let start = Instant::now();
            let run = Run {
                name: format!("{side}x{side} {}: {way}", if in_place { "in place" } else { "copied in" }),
                params: params(side, Precision::F32)?,
                darks: &darks,
                frames: some,
                options: options.clone(),
                in_place,
            };
            let mut outcome = compare(&run, a.small);
            if options.capacity.is_some() && matches!(outcome, Ok((_, 0))) {
                outcome = Err("no chunk was done again".into());
            }
            table.row(&run.name, some.len(), outcome, start);
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
        let start = Instant::now();
        let run = Run {
            name: format!("room for {capacity} of {count} clusters"),
            params: params(3, Precision::F32)?,
            darks,
            frames: one,
            options: Options { capacity: Some(capacity), chunk_frames: Some(1), ..options.clone() },
            in_place: true,
        };
        let outcome = compare(&run, false).and_then(|(n, redone)| match (redone > 0) == again {
            true => Ok((n, redone)),
            false => Err(format!("{redone} chunks done again")),
        });
        table.row(&run.name, 1, outcome, start);
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
            let start = Instant::now();
            let run = Run {
                name: format!("{shape}, {w}x{h}, {precision}"),
                params: Params { size: ClusterSize::new(w, h)?, ..params(3, precision)? },
                darks: &darks,
                frames: Frames::new(&data, shape)?,
                options: options.clone(),
                in_place: false,
            };
            table.row(&run.name, count, compare(&run, true), start);
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
        let start = Instant::now();
        let run = Run {
            name: format!("{shape}: {kind}"),
            params,
            darks: &darks,
            frames: Frames::new(&data, shape)?,
            options: Options { chunk_frames: Some(16), ..options.clone() },
            in_place: true,
        };
        table.row(&run.name, count, compare(&run, true), start);
    }
    // Frames with headers between them, read as they lie.
    for gap in [8, 56, 3000] {
        let start = Instant::now();
        let mut spread = Vec::new();
        for frame in data.chunks(shape.pixels()) {
            spread.extend_from_slice(frame);
            spread.resize(spread.len() + gap, 0x1234);
        }
        let run = Run {
            name: format!("{shape}: {gap} pixels between frames"),
            params: params_of_gap()?,
            darks: &darks,
            frames: Frames::strided(&spread, shape, count, shape.pixels() + gap)?,
            options: Options { chunk_frames: Some(16), ..options.clone() },
            in_place: true,
        };
        table.row(&run.name, count, compare(&run, true), start);
    }
    Ok(())
}

fn params_of_gap() -> Result<Params> {
    params(3, Precision::F32)
}

/// Many frames with pedestals in f32 and in f64: how many clusters differ.
fn drift(a: &Arguments, table: &mut Table, options: &Options) -> Result<()> {
    if a.drift_frames == 0 || a.small {
        return Ok(());
    }
    let start = Instant::now();
    let shape = Shape::new(400, 400)?;
    let scene = Scene::bright(shape, 9);
    let darks = scene.darks(1000);
    let data = scene.frames(2048);
    let locked = RegisteredSlice::new(options.devices[0], &data)?;
    let frames = Frames::new(locked.pixels(), shape)?;
    let mut finders = [Precision::F32, Precision::F64F32].map(|p| {
        let mut finder = CudaFinder::new(shape, &params(3, p)?, options)?;
        finder.train(Frames::new(&darks, shape)?)?;
        Ok::<_, Error>(finder)
    });
    let (mut all, mut different, mut done) = (0u64, 0u64, 0usize);
    while done < a.drift_frames {
        let part = frames.slice(0, frames.len().min(a.drift_frames - done));
        let mut results = Vec::new();
        for finder in &mut finders {
            let finder = finder.as_mut().map_err(|e| Error::Other(e.to_string()))?;
            let p = finder.params();
            let mut buf = ClustersBuf::new(shape, p.size, p.payload);
            finder.find(part, &mut |c| {
                buf.append(&c);
                Ok(())
            })?;
            results.push(buf);
        }
        let (x, y) = (results[0].view(), results[1].view());
        all += y.len() as u64;
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
    let share = different as f64 / all.max(1) as f64;
    let outcome = match share < 1e-6 {
        true => Ok((all, 0)),
        false => Err(format!("{different} of {all} clusters")),
    };
    println!("f32 against f64 over {done} frames: {different} of {all} clusters differ ({share:.1e})");
    table.row("f32 against f64: fewer than 1 in 10^6 differ", done, outcome, start);
    Ok(())
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
    ] {
        let start = Instant::now();
        let wanted = suite::Options { random_runs: if a.small { 3 } else { 40 }, ..Default::default() };
        let report = suite::run(&CudaBackend::new(options), &wanted);
        let outcome = match report.failed.is_empty() {
            true => Ok((0, 0)),
            false => Err(format!("{} checks failed", report.failed.len())),
        };
        print!("{report}");
        table.row(name, report.passed.len(), outcome, start);
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
    let mut table = Table::default();
    Table::head();
    let outcome = large(&a, &mut table, &options)
        .and_then(|()| odd(&a, &mut table, &options))
        .and_then(|()| drift(&a, &mut table, &options));
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
