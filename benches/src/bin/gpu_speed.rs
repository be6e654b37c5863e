//! Measures the GPU over generated frames of 400 x 400: end to end from page-locked memory to borrowed results, and
//! the kernels alone. Needs no files. Every number is a median of repetitions with its spread, in one process.
//!
//! Beside the table it asserts what must hold in steady state: no allocation, and no page fault a frame.

use std::collections::VecDeque;
use std::io::Write;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Instant;

use clap::Parser;
use scheidegg::cuda::{
    CudaBackend, CudaFinder, DeviceInfo, Options, Output, RegisteredFrames, pinning_budget,
};
use scheidegg::{
    Backend, ClusterSize, Clusters, Error, Finder, FrameOwner, Frames, Params, Payload, Precision, Result,
    Shape, record_bytes,
};
use scheidegg_benches::gpu::Spread;
use scheidegg_benches::gpu::frames::Scene;
use scheidegg_benches::gpu::process::{Counting, allocations, page_faults};
use scheidegg_benches::probes::wire::both_ways;

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Measures the GPU, end to end and kernels alone.
#[derive(Parser)]
struct Arguments {
    /// The GPU.
    #[arg(long, default_value_t = 0)]
    device: usize,
    /// Rows and columns of the square frames.
    #[arg(long, default_value_t = 400)]
    side: usize,
    /// Frames of one repetition.
    #[arg(long, default_value_t = 20_480)]
    frames: usize,
    /// Repetitions.
    #[arg(long, default_value_t = 7)]
    repetitions: usize,
    /// Different frames, used in turn.
    #[arg(long, default_value_t = 512)]
    distinct: usize,
    /// Only the four main rows and the kernels.
    #[arg(long)]
    short: bool,
    /// What is measured, for the record.
    #[arg(long, default_value = "unknown")]
    commit: String,
    /// A file for one line of JSON a row.
    #[arg(long)]
    json: Option<std::path::PathBuf>,
    /// A missing GPU is a failure.
    #[arg(long)]
    require: bool,
}

struct Bench {
    a: Arguments,
    shape: Shape,
    darks: Vec<u16>,
    data: Vec<u16>,
    device: DeviceInfo,
    json: Option<std::fs::File>,
    rows: Vec<String>,
    broken: Vec<String>,
}

/// One measurement of a finder from end to end.
struct EndToEnd {
    times: Vec<f64>,
    us: Spread,
    clusters: f64,
    faults: Option<u64>,
    allocations: u64,
    redone: u64,
}

/// What a consumer reads of every batch through its view: all offsets, and the last record of every frame.
fn consume(clusters: &Clusters<'_>) -> u64 {
    let mut sum = 0u64;
    for k in 0..clusters.frames() {
        sum = sum.wrapping_add(clusters.numbers()[k]);
        let (start, end) = (clusters.offsets()[k], clusters.offsets()[k + 1]);
        if end > start {
            let last = clusters.get(end as usize - 1);
            sum = sum.wrapping_add(u64::from(last.x) << 16 | u64::from(last.y));
        }
    }
    sum.wrapping_add(clusters.len() as u64)
}

/// Microseconds, with commas between.
fn list(us: &[f64]) -> String {
    us.iter().map(|us| format!("{us:.3}")).collect::<Vec<_>>().join(",")
}

impl Bench {
    fn params(&self, side: usize, precision: Precision) -> Result<Params> {
        Ok(Params {
            precision,
            payload: Payload::I16,
            pedestal_samples: (self.darks.len() / self.shape.pixels()) as u64,
            ..Params::new(ClusterSize::square(side)?)
        })
    }

    fn options(&self) -> Options {
        Options { devices: vec![self.a.device], ..Options::default() }
    }

    fn finder(&self, params: &Params, options: &Options) -> Result<CudaFinder> {
        let mut finder = CudaFinder::new(self.shape, params, options)?;
        finder.train(Frames::new(&self.darks, self.shape)?)?;
        finder.finish_training()?;
        finder.reserve()?;
        Ok(finder)
    }

    /// The distinct frames as page-locked owners of one batch each.
    fn owners(&self, batch: usize) -> Result<Vec<Arc<dyn FrameOwner>>> {
        let pixels = self.shape.pixels();
        let whole = self.data.chunks_exact(batch * pixels);
        if whole.len() == 0 {
            return Err(Error::param(
                "distinct",
                self.a.distinct,
                format!("at least {batch}, a whole chunk"),
            ));
        }
        whole
            .map(|part| {
                let frames = RegisteredFrames::from_vec(self.a.device, part.to_vec(), self.shape)?;
                Ok(Arc::new(frames) as Arc<dyn FrameOwner>)
            })
            .collect()
    }

    /// Runs at least so many frames through the finder; frames and clusters.
    fn pass(
        finder: &mut CudaFinder,
        owners: &[Arc<dyn FrameOwner>],
        flight: &mut VecDeque<scheidegg::Ticket>,
        frames: usize,
        seen: &mut u64,
    ) -> Result<(usize, u64)> {
        let (mut done, mut clusters, mut next) = (0, 0, 0);
        let mut submitted = 0;
        while done < frames {
            while flight.len() < finder.slots() && submitted < frames {
                let owner = &owners[next % owners.len()];
                next += 1;
                submitted += owner.frames().len();
                flight.push_back(finder.submit_shared(owner.clone())?);
            }
            let Some(ticket) = flight.pop_front() else { break };
            let found = finder.collect(ticket)?;
            done += found.frames();
            clusters += found.len() as u64;
            *seen = seen.wrapping_add(consume(&found));
        }
        Ok((done, clusters))
    }

    fn end_to_end(&self, finder: &mut CudaFinder) -> Result<EndToEnd> {
        let owners = self.owners(finder.batch_frames())?;
        let mut flight = VecDeque::with_capacity(finder.slots());
        let mut seen = 0;
        // Warm up: clocks, caches, and every slot and pedestal once.
        Self::pass(finder, &owners, &mut flight, (self.a.frames / 2).max(4096), &mut seen)?;
        let mut us = vec![0.0; self.a.repetitions];
        let redone = finder.statistics().redone;
        let (mut frames, mut clusters) = (0, 0);
        let (faults, count) = (page_faults(), allocations());
        for one in &mut us {
            let start = Instant::now();
            let (n, c) = Self::pass(finder, &owners, &mut flight, self.a.frames, &mut seen)?;
            *one = start.elapsed().as_secs_f64() * 1e6 / n as f64;
            frames += n;
            clusters += c;
        }
        let (count, after) = (allocations() - count, page_faults());
        std::hint::black_box(seen);
        Ok(EndToEnd {
            us: Spread::of(&us),
            times: us,
            clusters: clusters as f64 / frames as f64,
            faults: faults.zip(after).map(|(a, b)| b - a),
            allocations: count,
            redone: finder.statistics().redone - redone,
        })
    }

    fn record(&mut self, kind: &str, name: &str, fields: &[(&str, String)]) -> Result<()> {
        let text: Vec<String> = fields.iter().map(|(k, v)| format!("{k} {v}")).collect();
        println!("{kind:<11} {name:<44} {}", text.join("  "));
        if let Some(file) = &mut self.json {
            let mut line = serde_json::Map::new();
            let mut put = |k: &str, v: &str| {
                let value = v.parse::<f64>().map_or_else(|_| v.into(), serde_json::Value::from);
                line.insert(k.into(), value);
            };
            put("kind", kind);
            put("name", name);
            put("gpu", &self.device.name);
            put("driver", &format!("CUDA {}.{}", self.device.driver.0, self.device.driver.1));
            put("commit", &self.a.commit);
            fields.iter().for_each(|(k, v)| put(k, v));
            writeln!(file, "{}", serde_json::Value::Object(line))
                .map_err(|e| Error::Other(format!("the JSON file: {e}")))?;
        }
        Ok(())
    }

    /// Measures a finder from end to end; the median in microseconds a frame, frames of a chunk, clusters of a frame.
    fn measure(&mut self, name: &str, params: &Params, options: &Options) -> Result<(f64, usize, f64)> {
        let mut finder = self.finder(params, options)?;
        let e = self.end_to_end(&mut finder)?;
        let frames = (self.a.frames * self.a.repetitions) as u64;
        let faults = e.faults.map_or("unknown".into(), |f| f.to_string());
        self.record(
            "end to end",
            name,
            &[
                ("us_per_frame", format!("{:.3}", e.us.median)),
                ("least", format!("{:.3}", e.us.least)),
                ("most", format!("{:.3}", e.us.most)),
                ("spread_percent", format!("{:.2}", 100.0 * e.us.relative())),
                ("clusters_per_frame", format!("{:.1}", e.clusters)),
                ("page_faults", faults),
                ("allocations", e.allocations.to_string()),
                ("redone", e.redone.to_string()),
                ("chunk", finder.batch_frames().to_string()),
                ("times", list(&e.times)),
            ],
        )?;
        if e.allocations > 0 {
            self.broken.push(format!("{name}: {} allocations in steady state", e.allocations));
        }
        // The kernel may fault a page of ours now and then (a migrated page): one in a thousand frames is not ours.
        if e.faults.is_some_and(|f| f > frames / 1000) {
            self.broken.push(format!("{name}: {:?} page faults in {frames} frames", e.faults));
        }
        if e.redone > 0 {
            self.broken.push(format!("{name}: {} chunks were done again in steady state", e.redone));
        }
        self.rows.push(format!(
            "{name:<44} {:>8.3} us/frame  spread {:>5.2} %",
            e.us.median,
            100.0 * e.us.relative()
        ));
        Ok((e.us.median, finder.batch_frames(), e.clusters))
    }

    /// What the wire alone takes for chunks of so many frames and as many results beside them.
    fn wire(&mut self, name: &str, params: &Params, chunk: usize, clusters: f64) -> Result<()> {
        let up = chunk * self.shape.pixels() * 2;
        let down = (chunk as f64 * clusters) as usize * record_bytes(params.size, params.payload);
        let copies = self.a.frames.div_ceil(chunk);
        let seconds = both_ways(up, down, copies, self.a.repetitions)?;
        let times: Vec<f64> = seconds.iter().map(|s| s * 1e6 / chunk as f64).collect();
        let us = Spread::of(&times);
        self.record(
            "wire",
            name,
            &[
                ("us_per_frame", format!("{:.3}", us.median)),
                ("least", format!("{:.3}", us.least)),
                ("most", format!("{:.3}", us.most)),
                ("spread_percent", format!("{:.2}", 100.0 * us.relative())),
                ("bytes_up", up.to_string()),
                ("bytes_down", down.to_string()),
                ("times", list(&times)),
            ],
        )?;
        self.rows.push(format!(
            "the wire alone, {name:<28} {:>8.3} us/frame  spread {:>5.2} %",
            us.median,
            100.0 * us.relative()
        ));
        Ok(())
    }

    /// Times the kernels alone over one chunk that is on the GPU.
    fn kernels(&mut self, name: &str, params: &Params, options: &Options) -> Result<()> {
        let options = Options { output: Output::Copied, slots: 2, ..options.clone() };
        let mut finder = match self.finder(params, &options) {
            Ok(finder) => finder,
            // A halo of so many frames fits no block.
            Err(Error::Param { name: what, found, expected }) if what == "frames_per_launch" => {
                println!("kernels     {name:<44} left out: {what} = {found}: expected {expected}");
                return Ok(());
            }
            Err(e) => return Err(e),
        };
        let owners = self.owners(finder.batch_frames())?;
        // Twice: the first chunk may find too little room.
        for _ in 0..2 {
            let t = finder.submit_shared(owners[0].clone())?;
            finder.collect(t)?;
        }
        let n = finder.batch_frames() as f64;
        let times = (4096.0 / n).ceil() as usize;
        finder.time_kernels(times)?;
        let mut find = Vec::new();
        let mut order = Vec::new();
        for _ in 0..self.a.repetitions {
            let t = finder.time_kernels(times)?;
            find.push(t.find_s * 1e6 / n);
            order.push(t.output_s * 1e6 / n);
        }
        let (find, order) = (Spread::of(&find), Spread::of(&order));
        self.record(
            "kernels",
            name,
            &[
                ("find_us_per_frame", format!("{:.3}", find.median)),
                ("find_spread_percent", format!("{:.2}", 100.0 * find.relative())),
                ("order_us_per_frame", format!("{:.3}", order.median)),
                ("order_spread_percent", format!("{:.2}", 100.0 * order.relative())),
                ("chunk", format!("{n}")),
            ],
        )?;
        self.rows.push(format!(
            "kernels {name:<36} {:>8.3} us/frame  + {:.3} to order (spread {:.2} %)",
            find.median,
            order.median,
            100.0 * find.relative()
        ));
        Ok(())
    }

    fn all(&mut self) -> Result<()> {
        let (f32, f64) = (Precision::F32, Precision::F64F32);
        let o = self.options();
        let name = |side: usize, p: Precision| format!("{side}x{side} {p}");
        // One finder keeps the compiled kernels.
        let anchor = CudaFinder::new(self.shape, &self.params(3, f32)?, &o)?;
        print!("{}", anchor.explain());
        println!("page-locked memory: {}", pinning_budget());
        let mut main = Vec::new();
        for (side, p) in [(3, f32), (9, f32), (3, f64), (9, f64)] {
            let params = self.params(side, p)?;
            let (us, chunk, clusters) = self.measure(&name(side, p), &params, &o)?;
            // The probe opens the first GPU.
            if p == f32 && self.a.device == 0 {
                self.wire(&name(side, p), &params, chunk, clusters)?;
            }
            main.push((side, p, us));
        }
        for (side, p) in [(3, f32), (9, f32), (3, f64), (9, f64)] {
            let params = self.params(side, p)?;
            self.kernels(&format!("{}, as chosen", name(side, p)), &params, &o)?;
        }
        let sweep: &[usize] = if self.a.short { &[] } else { &[1, 2, 3, 4, 6, 8, 12] };
        for side in [3, 9] {
            let params = self.params(side, f32)?;
            for launch in sweep {
                let options = Options { frames_per_launch: Some(*launch), ..o.clone() };
                self.kernels(&format!("{}, {launch} a launch", name(side, f32)), &params, &options)?;
            }
        }
        if !self.a.short {
            for (side, p) in [(3, f32), (9, f32)] {
                let params = self.params(side, p)?;
                let n = name(side, p);
                let copied = Options { output: Output::Copied, ..o.clone() };
                self.measure(&format!("{n}, copied results"), &params, &copied)?;
                let plain = Options { graphs: false, ..o.clone() };
                self.measure(&format!("{n}, without graphs"), &params, &plain)?;
                for chunk in [32, 64, 256] {
                    let options = Options { chunk_frames: Some(chunk), ..o.clone() };
                    self.measure(&format!("{n}, chunks of {chunk}"), &params, &options)?;
                }
            }
            let params = self.params(3, f32)?;
            self.measure("3x3 f32, 3 slots", &params, &Options { slots: 3, ..o.clone() })?;
            self.measure("3x3 f32, 8 slots", &params, &Options { slots: 8, ..o.clone() })?;
            self.measure("3x3 f32, timed", &params, &Options { timing: true, ..o })?;
            let params = Params { lanes: 4, ..self.params(3, f32)? };
            self.measure("3x3 f32, 4 lanes", &params, &self.options())?;
        }
        self.goals(&main);
        Ok(())
    }

    fn goals(&mut self, main: &[(usize, Precision, f64)]) {
        let of = |side: usize, p: Precision| {
            main.iter().find(|m| m.0 == side && m.1 == p).map_or(f64::NAN, |m| m.2)
        };
        self.rows.push(String::new());
        for (side, most) in [(3, 6.7), (9, 7.5)] {
            let (single, double) = (of(side, Precision::F32), of(side, Precision::F64F32));
            let met = |yes: bool| if yes { "met" } else { "MISSED" };
            self.rows.push(format!(
                "{side}x{side}: {single:.3} us/frame, goal {most}: {}; f64 {:+.1} %, goal within 15 %: {}",
                met(single <= most),
                100.0 * (double / single - 1.0),
                met(double <= 1.15 * single)
            ));
        }
    }
}

fn main() -> ExitCode {
    let a = Arguments::parse();
    let backend = CudaBackend::new(Options { devices: vec![a.device], ..Options::default() });
    let device = match backend.probe().and_then(|_| DeviceInfo::of(a.device)) {
        Ok(device) => device,
        Err(e) => {
            println!("SKIPPED: {e}");
            return ExitCode::from(if a.require { 2 } else { 0 });
        }
    };
    println!("{device}, commit {}", a.commit);
    let start = Instant::now();
    let outcome = (|| {
        let shape = Shape::new(a.side, a.side)?;
        let scene = Scene::bright(shape, 1);
        let json = match &a.json {
            Some(path) => Some(std::fs::File::create(path).map_err(|e| Error::io(path, e))?),
            None => None,
        };
        let (darks, data) = (scene.darks(500), scene.frames(a.distinct));
        let mut bench = Bench { shape, darks, data, device, json, rows: Vec::new(), broken: Vec::new(), a };
        let done = bench.all();
        println!();
        bench.rows.iter().for_each(|row| println!("{row}"));
        bench.broken.iter().for_each(|what| println!("BROKEN: {what}"));
        done.map(|()| bench.broken.is_empty())
    })();
    println!("{:.0} s", start.elapsed().as_secs_f64());
    match outcome {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(e) => {
            println!("ended early: {e}");
            ExitCode::FAILURE
        }
    }
}
