//! `bench`: how fast a backend is on frames in files.
//!
//! The frames are read into memory first. A repetition is timed from the first batch submitted to the last one collected;
//! reading, training and writing are not in it.

use std::time::Instant;

use scheidegg::io::{Output, Place, Source, skip_first};
use scheidegg::{AUTO, Error, Finder, FrameBuf, FrameOwner, Frames, Params, Registry, Result};
use serde_json::{Value, json};

use crate::args::BenchArgs;
use crate::failure::{Outcome, usage};
use crate::find::{params_for, registry};
use crate::plot::{Axis, BLUE, Chart, GREEN, Layer, Legend};
use crate::say::{bytes, say, tell};
use crate::summary::{count, params as asked};
use crate::{darks, input, places};

/// Runs the subcommand.
pub fn run(args: &BenchArgs) -> Outcome {
    if let Some(path) = &args.plot {
        places::ends_with("--plot", path, "svg")?;
        let place = args.writing.place(path);
        places::ready(&args.writing, &vec![("--plot", path)])?
            .iter()
            .for_each(|note| tell!("scheidegg: warning: {note}"));
        place.check()?;
    }
    let options = args.input.options();
    let mut data = input::open_all("--data", &args.input.data, &options, args.input.force)?;
    let mut darks = darks::open(&args.input)?;
    let shape = data.shape();
    let params = params_for(&args.finder, shape)?;
    darks::same_shape(&*darks, shape)?;
    darks::go_with(&*darks, &*data, args.input.force)?;
    if args.backend != AUTO {
        // Before frames are read, not after.
        registry(None, false)?.get(&args.backend).map_err(usage)?;
    }
    skip_first(&mut *data, args.input.first)?;
    let frames = read(&mut *data, args.input.frames)?;
    if frames.is_empty() {
        return Err(Error::Other(format!("{}: no data frames to time", data.name())).into());
    }
    let name = darks.name();
    let darks = read(&mut *darks, darks::limit(&args.input)?)?;
    darks::enough(&name, darks.len() as u64, args.finder.pedestal_samples)?;

    let sweep: Vec<Option<usize>> = match args.threads.is_empty() {
        true => vec![None],
        false => args.threads.iter().copied().map(Some).collect(),
    };
    let mut runs = Vec::new();
    for threads in sweep {
        let run = measure(args, &registry(threads, args.pin)?, &params, &darks, &frames, threads)?;
        match args.json {
            true => bytes(format!("{}\n", run.json(&params)).as_bytes()),
            false => run.print(&params, runs.is_empty()),
        }
        runs.push(run);
    }
    if let Some(path) = &args.plot {
        plot(args.writing.place(path), &runs, &params)?;
    }
    Ok(())
}

/// Up to `limit` frames of a source, in memory.
fn read(source: &mut dyn Source, limit: Option<u64>) -> Result<FrameBuf> {
    const PIECE: u64 = 256;
    // One more than there should be: where a file is cut, it is said behind the last whole frame.
    let there = source.remaining().map_or(u64::MAX, |n| n.saturating_add(1));
    let left = there.min(limit.unwrap_or(u64::MAX));
    let mut all = FrameBuf::new(source.shape(), left.min(PIECE) as usize);
    loop {
        let before = all.len();
        if all.is_full() {
            if before as u64 >= left {
                return Ok(all);
            }
            let room = (before as u64 + PIECE.max(before as u64)).min(left) as usize;
            let mut larger = FrameBuf::new(source.shape(), room);
            let (frames, numbers) = (all.frames(), numbers(all.frames()));
            let lost =
                frames.lost_frames().map(|(frame, mask)| scheidegg::LostPixels { frame, mask: mask.clone() });
            let lost = lost.collect();
            larger.extend(&numbers, |to| {
                to.copy_from_slice(frames.as_slice());
                Ok(lost)
            })?;
            all = larger;
        }
        if source.read(&mut all)? == 0 {
            return Ok(all);
        }
    }
}

fn numbers(frames: Frames<'_>) -> Vec<u64> {
    (0..frames.len()).map(|k| frames.number(k)).collect()
}

/// What one number of threads gave.
struct Measured {
    backend: String,
    device: String,
    threads: Option<usize>,
    frames: usize,
    /// Raw bytes of a frame.
    bytes: usize,
    clusters: u64,
    /// Microseconds a frame, one value a repetition, ascending.
    us: Vec<f64>,
}

fn measure(
    args: &BenchArgs,
    registry: &Registry,
    params: &Params,
    darks: &FrameBuf,
    frames: &FrameBuf,
    threads: Option<usize>,
) -> Outcome<Measured> {
    let shape = frames.shape();
    let (mut finder, choice) = registry.build_explained(&args.backend, shape, params).map_err(usage)?;
    finder.train(darks.frames())?;
    finder.finish_training()?;
    let trained = finder.pedestal(0)?;
    let mut us = Vec::new();
    let mut clusters = None;
    for rep in 0..args.reps {
        finder.set_pedestal(&trained)?;
        // The pedestal reaches the backend with the first batch, which is not part of the work to be timed.
        find(&mut *finder, frames.frames().slice(0, 0))?;
        let start = Instant::now();
        let found = find(&mut *finder, frames.frames())?;
        us.push(start.elapsed().as_secs_f64() * 1e6 / frames.len() as f64);
        if *clusters.get_or_insert(found) != found {
            return Err(Error::Other(format!(
                "backend {}: {found} clusters in repetition {rep}, expected {} as in the first",
                choice.name,
                clusters.unwrap_or(0)
            ))
            .into());
        }
    }
    us.sort_by(f64::total_cmp);
    Ok(Measured {
        backend: choice.name,
        device: choice.device,
        threads,
        frames: frames.len(),
        bytes: shape.pixels() * 2,
        clusters: clusters.unwrap_or(0),
        us,
    })
}

fn find(finder: &mut dyn Finder, frames: Frames<'_>) -> Result<u64> {
    let mut clusters = 0;
    if frames.is_empty() {
        let ticket = finder.submit(frames)?;
        return Ok(finder.collect(ticket)?.len() as u64);
    }
    finder.find(frames, &mut |batch| {
        clusters += batch.len() as u64;
        Ok(())
    })?;
    Ok(clusters)
}

impl Measured {
    fn median(&self) -> f64 {
        self.us[self.us.len() / 2]
    }

    /// From the fastest to the slowest repetition.
    fn spread(&self) -> f64 {
        self.slowest() - self.us[0]
    }

    fn slowest(&self) -> f64 {
        self.us[self.us.len() - 1]
    }

    fn frames_a_second(&self) -> f64 {
        1e6 / self.median()
    }

    fn gigabytes_a_second(&self) -> f64 {
        self.bytes as f64 / self.median() * 1e-3
    }

    fn json(&self, params: &Params) -> Value {
        json!({
            "backend": self.backend,
            "device": self.device,
            "threads": self.threads,
            "size": params.size.to_string(),
            "update": params.update.word(),
            "noise": params.noise.word(),
            "precision": params.precision.word(),
            "params": asked(params),
            "frames": self.frames,
            "reps": self.us.len(),
            "clusters": self.clusters,
            "median_us": self.median(),
            "min_us": self.us[0],
            "max_us": self.slowest(),
            "spread_us": self.spread(),
            "frames_per_s": self.frames_a_second(),
            "gb_per_s": self.gigabytes_a_second(),
        })
    }

    fn print(&self, params: &Params, first: bool) {
        if first {
            say!(
                "{} {} {} {}, {} frames, {} clusters, {} repetitions",
                params.size,
                params.update,
                params.noise,
                params.precision,
                count(self.frames as u64),
                count(self.clusters),
                self.us.len()
            );
            say!("times are those of a frame; spread: from the fastest to the slowest repetition");
            say!(
                "{:>10} {:>10} {:>10} {:>10} {:>8}  backend",
                "median us",
                "min us",
                "spread us",
                "frames/s",
                "GB/s"
            );
        }
        say!(
            "{:>10.1} {:>10.1} {:>10.1} {:>10.0} {:>8.2}  {} ({})",
            self.median(),
            self.us[0],
            self.spread(),
            self.frames_a_second(),
            self.gigabytes_a_second(),
            self.backend,
            self.device
        );
    }
}

/// Draws frames a second over threads, beside what the first number of threads promises.
fn plot(place: Place, runs: &[Measured], params: &Params) -> Outcome {
    let mut out = Output::create(place)?;
    out.write(chart(runs, params).draw().svg.as_bytes())?;
    out.finish()?;
    Ok(())
}

/// Every number of threads as the median with a bar from the slowest to the fastest repetition.
fn chart(runs: &[Measured], params: &Params) -> Chart {
    let at = |m: &Measured| {
        let rate = |us: f64| 1e6 / us;
        (m.threads.unwrap_or(1) as f64, rate(m.median()), rate(m.slowest()), rate(m.us[0]))
    };
    let mut points: Vec<_> = runs.iter().map(at).collect();
    points.sort_by(|a, b| a.0.total_cmp(&b.0));
    let most = points[points.len() - 1].0;
    let (threads, speed, ..) = points[0];
    let ideal = vec![(0.0, 0.0), (most, speed * most / threads)];
    let top = points.iter().map(|p| p.3).chain([ideal[1].1]).fold(0.0, f64::max);
    let reps = runs[0].us.len();
    Chart {
        title: format!(
            "{}, {} {} {}, {} frames, {reps} repetitions",
            runs[0].backend,
            params.size,
            params.update,
            params.precision,
            count(runs[0].frames as u64)
        ),
        // Room for the last bar.
        x: Axis::whole("threads", 0.0, most + 0.03 * most.max(4.0)),
        y: Axis::linear("frames/s", 0.0, top * 1.05),
        layers: vec![
            Layer::Line { name: "in proportion".into(), colour: GREEN, points: ideal, dashed: true },
            Layer::Points { name: "median, min to max".into(), colour: BLUE, points },
        ],
        legend: Legend::Beside,
        empty: None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use scheidegg::ClusterSize;

    fn measured(threads: usize, us: &[f64]) -> Measured {
        Measured {
            backend: "cpu".into(),
            device: "any".into(),
            threads: Some(threads),
            frames: 100,
            bytes: 320_000,
            clusters: 7,
            us: us.to_vec(),
        }
    }

    #[test]
    fn a_plot_has_whole_threads_and_a_bar_for_every_point() {
        let runs =
            [measured(2, &[50.0, 52.0, 80.0]), measured(1, &[100.0, 101.0, 103.0]), measured(3, &[40.0; 3])];
        let params = Params::new(ClusterSize::square(3).unwrap());
        let chart = chart(&runs, &params);
        let ticks = chart.x.ticks(8);
        assert!(ticks.major.iter().map(|t| t.0).chain(ticks.minor).all(|v| v.fract() == 0.0));
        let Layer::Points { points, .. } = &chart.layers[1] else { panic!("{:?}", chart.layers[1]) };
        assert_eq!(points.iter().map(|p| p.0).collect::<Vec<_>>(), [1.0, 2.0, 3.0]);
        assert_eq!(points[1], (2.0, 1e6 / 52.0, 1e6 / 80.0, 1e6 / 50.0));
        let svg = chart.draw().svg;
        assert_eq!(svg.matches("<circle").count(), 4, "three points and the legend's");
        // The words stand right of the plot, which is 560 wide.
        let words = svg.split("<text x=\"").find(|t| t.contains("in proportion")).unwrap();
        assert!(words.split('"').next().unwrap().parse::<f64>().unwrap() > 600.0, "{words}");
    }
}
