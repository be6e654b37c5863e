//! Times the fast finder on frames in `.npy` files, and writes what it found for a comparison.
//!
//! `cargo run --release -p scheidegg-cpu --example frames -- --pedestal dark.npy --data photons.npy --size 3`
//! Options: `--precision f32|f64f32|f64`, `--mode frozen|serial`, `--noise tracked|fixed`, `--ties all|first`,
//! `--isa portable|avx2|avx512`, `--threads N`, `--reps N`, `--batch N`, `--out FILE` (records, then the pedestal's sums).

use std::collections::HashMap;
use std::error::Error;
use std::time::Instant;

use scheidegg_cpu::simd::{CpuBackend, Isa};
use scheidegg_finder::{Backend, Frames, Params, Plane, Shape};

type Outcome<T> = Result<T, Box<dyn Error>>;

fn npy(path: &str) -> Outcome<(Vec<u16>, Shape)> {
    let bytes = std::fs::read(path)?;
    let start = 10 + usize::from(u16::from_le_bytes([bytes[8], bytes[9]]));
    let header = std::str::from_utf8(&bytes[10..start])?;
    if !header.contains("'<u2'") || !header.contains("'fortran_order': False") {
        return Err(format!("{path}: expected u16 frames in C order, found {header}").into());
    }
    let (_, dims) = header.split_once('(').ok_or("no shape")?;
    let dims: Vec<usize> =
        dims.split(')').next().ok_or("no shape")?.split(',').filter_map(|d| d.trim().parse().ok()).collect();
    let &[_, rows, cols] = &dims[..] else {
        return Err(format!("{path}: expected frames x rows x cols, found {dims:?}").into());
    };
    let pixels = bytes[start..].chunks_exact(2).map(|b| u16::from_le_bytes([b[0], b[1]])).collect();
    Ok((pixels, Shape::new(rows, cols)?))
}

fn main() -> Outcome<()> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let given: HashMap<&str, &str> =
        args.chunks_exact(2).map(|a| (a[0].trim_start_matches("--"), a[1].as_str())).collect();
    let get = |name: &str, default: &'static str| given.get(name).copied().unwrap_or(default);
    let (darks, shape) = npy(get("pedestal", ""))?;
    let (data, _) = npy(get("data", ""))?;
    let mut params = Params::new(get("size", "3").parse()?);
    params.precision = get("precision", "f32").parse()?;
    params.update = get("mode", "frozen").parse()?;
    params.noise = get("noise", "tracked").parse()?;
    params.ties = get("ties", "all").parse()?;
    params.payload = get("payload", "i32").parse()?;
    let mut backend = CpuBackend::new().threads(get("threads", "1").parse()?)?;
    if let Some(isa) = given.get("isa") {
        backend = backend.with_isa(isa.parse::<Isa>()?);
    }
    let frames = Frames::new(&data, shape)?;
    let mut finder = backend.build(shape, &params)?;
    finder.train(Frames::new(&darks, shape)?)?;
    let trained = finder.pedestal(0)?;
    let batch = get("batch", "0").parse::<usize>()?;
    let batch = if batch == 0 { finder.batch_frames() } else { batch };
    let mut times = Vec::new();
    let mut found = 0;
    let mut best = f64::INFINITY;
    for rep in 0..get("reps", "1").parse()? {
        finder.set_pedestal(&trained)?;
        let mut records = Vec::new();
        let started = Instant::now();
        found = 0;
        for part in frames.batches(batch) {
            let begun = Instant::now();
            let ticket = finder.submit(part)?;
            let clusters = finder.collect(ticket)?;
            best = best.min(begun.elapsed().as_secs_f64() * 1e6 / part.len() as f64);
            found += clusters.len();
            if rep == 0 && given.contains_key("out") {
                for k in 0..clusters.frames() {
                    records.extend(clusters.frame_bytes(k).iter().copied());
                }
            }
        }
        times.push(started.elapsed().as_secs_f64() / frames.len() as f64 * 1e6);
        if let Some(path) = given.get("out").filter(|_| rep == 0) {
            let pedestal = finder.pedestal(0)?;
            for plane in [&pedestal.sum, &pedestal.sum2] {
                match plane {
                    Plane::F32(v) => v.iter().for_each(|v| records.extend(v.to_le_bytes())),
                    Plane::F64(v) => v.iter().for_each(|v| records.extend(v.to_le_bytes())),
                }
            }
            std::fs::write(path, &records)?;
        }
    }
    times.sort_by(f64::total_cmp);
    println!(
        "{} {} {} {} {}: median {:.1} min {:.1} max {:.1} us/frame, {found} clusters in {} frames, best batch {best:.1}",
        backend.probe()?.device,
        params.size,
        params.update,
        params.noise,
        params.precision,
        times[times.len() / 2],
        times[0],
        times[times.len() - 1],
        frames.len()
    );
    Ok(())
}
