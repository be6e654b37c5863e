//! What came of a run: for a reader, and as JSON for a program.

use scheidegg::io::Health;
use scheidegg::pipeline::{Ended, Stages, Summary, Trained};
use scheidegg::watch::{FaultyPixels, Findings, FrameCounts, Medians};
use scheidegg::{Choice, Error, Params, Pedestal};
use serde_json::{Value, json};

use crate::darks::WINDOW;
use crate::drift::Drift;
use crate::failure::{Failure, Outcome, in_options};
use crate::plot::grouped;
use crate::report::Table;
use crate::say::{bytes, say, tell};
use crate::stop;

/// The state of a pedestal in numbers.
#[derive(Clone, Debug)]
pub struct PedestalHealth {
    /// Dark frames in the window.
    pub samples: u64,
    /// Median of the means, in ADU.
    pub mean_adu: f64,
    /// Median of the noise, in ADU.
    pub noise_adu: f64,
    /// Pixels without noise.
    pub quiet: Vec<usize>,
    /// Pixels with a noise above 5 times the median.
    pub hot: Vec<usize>,
    /// Pixels that the user masked.
    pub masked: usize,
    /// Further pixels masked because no dark frame trained them.
    pub untrained: usize,
    /// Pixels that take part.
    pub left: usize,
}

impl PedestalHealth {
    /// The state of a pedestal under these parameters.
    pub fn of(pedestal: &Pedestal, params: &Params) -> Self {
        let mask = params.mask.as_deref();
        let Medians { mean_adu, noise_adu } = Medians::of(pedestal, mask);
        let pixels = FaultyPixels::of_pedestal(pedestal, mask);
        let further = |i: &&usize| !mask.is_some_and(|m| m.contains_index(**i));
        let masked = mask.map_or(0, |m| m.count());
        let untrained = pixels.untrained.iter().filter(further).count();
        PedestalHealth {
            samples: pedestal.samples,
            mean_adu,
            noise_adu,
            quiet: pixels.quiet,
            hot: pixels.hot,
            masked,
            untrained,
            left: pedestal.shape.pixels() - masked - untrained,
        }
    }

    /// The state in words, with the dark frames that it came from.
    pub fn rows(&self, dark: &str, trained: Option<&Trained>) -> Vec<(String, String)> {
        let row = |name: &str, value: String| (name.to_string(), value);
        let mut rows = vec![row("from", dark.to_string())];
        if let Some(t) = trained {
            rows.push(row("dark frames", format!("{}, window {}", count(t.frames), self.window(t))));
            if t.health != Health::default() {
                rows.push(row("faults", faults(&t.health)));
            }
        }
        rows.push(row("median", format!("mean {:.1} ADU, noise {:.2} ADU", self.mean_adu, self.noise_adu)));
        let mut pixels = format!("{} quiet (no noise), ", self.quiet.len());
        pixels += &format!("{} hot (noise above 5 times the median), ", self.hot.len());
        pixels += &format!("{} masked", self.masked + self.untrained);
        rows.push(row("pixels", pixels));
        rows
    }

    fn window(&self, trained: &Trained) -> String {
        match self.samples == trained.frames && self.samples < WINDOW {
            true => {
                format!("{} (all of them; {} where there are as many)", count(self.samples), count(WINDOW))
            }
            false => count(self.samples),
        }
    }

    /// The state as a JSON object.
    pub fn json(&self) -> Value {
        json!({
            "samples": self.samples,
            "median_mean_adu": self.mean_adu,
            "median_noise_adu": self.noise_adu,
            "quiet_pixels": self.quiet.len(),
            "hot_pixels": self.hot.len(),
            "masked_pixels": self.masked,
            "untrained_pixels": self.untrained,
        })
    }
}

/// Pixels of a list that JSON has; all are counted.
const LISTED: usize = 1000;

/// The pixels of the lists, for JSON: how many, and where the first ones are.
pub fn pixels(p: &FaultyPixels) -> Value {
    let lists = p.lists().map(|(name, _, list)| (name.to_string(), list_of(p, list)));
    Value::Object(lists.into_iter().collect())
}

fn list_of(p: &FaultyPixels, list: &[usize]) -> Value {
    let first: Vec<_> = list.iter().take(LISTED).map(|i| p.place(*i)).collect();
    json!({ "count": list.len(), "first_row_col": first })
}

/// The sentences of the watch in the words of the command line.
pub fn attention(found: &Findings) -> Vec<String> {
    found.warnings().iter().map(|w| in_options(w)).collect()
}

/// Everything that is said of a run at its end.
#[derive(Debug)]
pub struct RunReport {
    /// What was read.
    pub data: String,
    /// Where the pedestal came from.
    pub dark: String,
    /// What was asked.
    pub params: Params,
    /// What computed.
    pub choice: Choice,
    /// The training, unless the pedestal came from a file.
    pub trained: Option<Trained>,
    /// The run.
    pub summary: Summary,
    /// The pedestal as training left it.
    pub pedestal: PedestalHealth,
    /// How far it moved during the run.
    pub drift: Option<Drift>,
    /// What was seen that is no error.
    pub findings: Findings,
    /// Files written.
    pub written: Vec<String>,
    /// Further sentences that need attention.
    pub notes: Vec<String>,
}

impl RunReport {
    /// Sentences that need attention, each once.
    pub fn warnings(&self) -> Vec<String> {
        let dark = self.trained.iter().flat_map(|t| t.health.warnings.clone());
        let data = self.summary.health.warnings.clone();
        let mut out: Vec<String> = Vec::new();
        for w in dark.chain(data).chain(attention(&self.findings)).chain(self.notes.clone()) {
            let w = in_options(&w);
            if !out.contains(&w) {
                out.push(w);
            }
        }
        let saturated = self.summary.statistics.saturated;
        if saturated > 0 {
            let payload = self.params.payload;
            let how = if payload == scheidegg::Payload::F16 { "are infinite" } else { "were cut" };
            out.push(format!(
                "{saturated} stored values did not fit into {payload} and {how} (--payload i32)"
            ));
        }
        out
    }

    /// Whether all frames that were asked for were judged.
    pub fn is_complete(&self) -> bool {
        matches!(self.summary.ended, Ended::Complete)
    }

    /// The same facts as tables, for the screen and the report.
    pub fn tables(&self) -> Vec<Table> {
        let s = &self.summary;
        let row = |name: &str, value: String| (name.to_string(), value);
        let mut run = vec![
            row("data", self.data.clone()),
            row("frames", frames_of(s)),
            row("clusters", format!("{}, {:.1} a frame", count(s.clusters), s.clusters_per_frame())),
        ];
        if s.stopped() {
            run.push(row("stopped", stopped_at(s)));
        }
        if let Some(end) = ended(s) {
            run.push(row("ended", end));
        }
        run.push(row("faults", faults(&s.health)));
        run.push(row("rate", format!("{} frames/s, {:.1} s", grouped(s.rate(), 0), s.seconds)));
        run.push(row("time", times(&s.stages)));
        run.push(row("backend", format!("{} ({})", self.choice.name, self.choice.device)));
        for reason in &self.choice.reasons {
            run.push(row("", reason.clone()));
        }
        let q = &self.params;
        let asked = vec![
            row("cluster", format!("{}, values as {}", q.size, q.payload)),
            row("threshold", format!("{} times the noise{}", q.n_sigma, floor_of(q))),
            row("mode", format!("{}, noise {}, precision {}{}", q.update, q.noise, q.precision, rest_of(q))),
        ];
        let table = |title: &str, rows| Table { title: title.into(), rows };
        let mut pedestal = self.pedestal.rows(&self.dark, self.trained.as_ref());
        pedestal.extend(self.drift.map(|d| row("drift", d.words())));
        vec![table("Run", run), table("Pedestal", pedestal), table("Parameters", asked)]
    }

    /// Prints the summary.
    pub fn print(&self) {
        print_tables(&self.tables());
        for file in &self.written {
            say!("written      {file}");
        }
        for w in self.warnings() {
            say!("warning      {w}");
        }
    }

    /// The summary as a JSON object.
    pub fn json(&self) -> Value {
        let (s, q) = (&self.summary, &self.params);
        json!({
            "data": self.data,
            "dark": self.dark,
            "frames": s.frames,
            "first_frame": s.first_frame,
            "last_frame": s.last_frame,
            "stopped": s.stopped(),
            "stopped_by": stop::name(s.stopped()),
            "stopped_at_frame": if s.stopped() { s.last_frame } else { None },
            "clusters": s.clusters,
            "clusters_per_frame": s.clusters_per_frame(),
            "seconds": s.seconds,
            "frames_per_second": s.rate(),
            "stages": {
                "reading_seconds": s.stages.reading,
                "finding_seconds": s.stages.finding,
                "writing_seconds": s.stages.writing,
            },
            "saturated_values": s.statistics.saturated,
            "redone_batches": s.statistics.redone,
            "drift": self.drift.map(|d| d.json()),
            "health": health(&s.health),
            "backend": {
                "name": self.choice.name,
                "device": self.choice.device,
                "reasons": self.choice.reasons,
            },
            "training": self.trained.as_ref().map(training),
            "pedestal": self.pedestal.json(),
            "pixels": pixels(&self.findings.pixels),
            "first_frames": first_frames(&self.findings.frames),
            "saturated_clusters": self.findings.saturated_clusters,
            "saturated_pixels": list_of(&self.findings.pixels, &self.findings.saturated_pixels),
            "params": params(q),
            "ended": s.provenance.ended,
            "faults": s.faults().map(|e| e.to_string()).collect::<Vec<_>>(),
            "provenance": s.provenance,
            "written": self.written,
            "warnings": self.warnings(),
        })
    }
}

/// How the first frames lie to the pedestal, for JSON.
fn first_frames(c: &FrameCounts) -> Value {
    json!({
        "frames": c.frames,
        "values": c.values,
        "below_threshold": c.below,
        "above_threshold": c.above,
        "at_ceiling": c.at_ceiling,
        "largest_adu": c.largest,
    })
}

/// Prints tables without their titles, names in a column.
pub fn print_tables(tables: &[Table]) {
    for table in tables {
        for (i, (name, value)) in table.rows.iter().enumerate() {
            // The first row of a table says what it is about where its own name does not.
            let name = if i == 0 && name == "from" { "pedestal" } else { name };
            say!("{name:<12} {value}");
        }
    }
}

/// A count with its thousands apart.
pub fn count(n: u64) -> String {
    grouped(n as f64, 0)
}

/// How long the stages of a run worked, in words.
fn times(s: &Stages) -> String {
    format!(
        "reading {:.1} s, finding {:.1} s, writing {:.1} s, side by side",
        s.reading, s.finding, s.writing
    )
}

fn frames_of(s: &Summary) -> String {
    match (s.first_frame, s.last_frame) {
        (Some(a), Some(b)) => format!("{}, numbers {a} to {b}", count(s.frames)),
        _ => "none".into(),
    }
}

/// Where a run was stopped, in words.
pub fn stopped_at(s: &Summary) -> String {
    match s.last_frame {
        Some(n) => format!("at frame {n} ({}): the output is complete up to and with it", stop::by()),
        None => format!("before the first frame ({})", stop::by()),
    }
}

/// Why a run ended early though nobody stopped it, in words.
fn ended(s: &Summary) -> Option<String> {
    let why = match &s.ended {
        Ended::SourceFault(_) => "the next frame cannot be read",
        Ended::FinderFault(_) => "the next frames cannot be judged",
        Ended::NoSinkLeft => "no result can be written any further",
        Ended::Complete | Ended::Stopped => return None,
    };
    Some(format!("at a fault: {why}"))
}

/// How far the results of a run go that ended at a fault.
fn as_far_as(s: &Summary) -> String {
    match s.last_frame {
        Some(n) => format!("the results are complete up to and with frame {n}"),
        None => "no frame was judged".into(),
    }
}

/// Ends the program with what went wrong in a run whose results are told, if something did.
///
/// # Errors
/// The last fault; those before it are printed. Without one, that a signal ended the run.
pub fn conclude(s: &Summary) -> Outcome {
    let mut faults: Vec<String> =
        s.sinks.iter().filter_map(|k| Some(k.error.as_ref()?.to_string())).collect();
    faults.extend(s.ended.fault().map(|e| format!("{e}: {}", as_far_as(s))));
    let Some(last) = faults.pop() else { return if s.stopped() { Err(Failure::Stopped) } else { Ok(()) } };
    for fault in faults {
        tell!("scheidegg: {fault}");
    }
    Err(Error::Other(last).into())
}

/// What was wrong with frames, in words.
fn faults(h: &Health) -> String {
    let mut out = format!("{} gaps, {} lost packets", count(h.gaps), count(h.lost_packets));
    if h.lost_pixels > 0 {
        out += &format!(" ({} pixels masked in their frames)", count(h.lost_pixels));
    }
    if h.incomplete_frames > 0 {
        out += &format!(", {} incomplete frames left out", count(h.incomplete_frames));
    }
    if h.repeated_frames > 0 {
        out += &format!(", {} repeated frames left out", count(h.repeated_frames));
    }
    if h.damaged_files > 0 {
        let (files, frames) = (count(h.damaged_files), count(h.unread_frames));
        out += &format!(", {files} damaged files given up ({frames} frames not read)");
    }
    if h.gain_pixels > 0 {
        out += &format!(", {} pixels in another gain masked in their frames", count(h.gain_pixels));
    }
    out
}

fn floor_of(q: &Params) -> String {
    if q.noise_floor_adu > 0.0 {
        format!(", noise at least {} ADU", q.noise_floor_adu)
    } else {
        String::new()
    }
}

fn rest_of(q: &Params) -> String {
    let mut out = format!(", ties {}", q.ties);
    if q.test2 {
        out += ", quadrant test";
    }
    if q.lanes > 1 {
        out += &format!(", {} lanes", q.lanes);
    }
    out
}

/// A training, for JSON.
pub fn training(t: &Trained) -> Value {
    json!({ "frames": t.frames, "seconds": t.seconds, "health": health(&t.health) })
}

/// What was wrong with frames, for JSON.
pub fn health(h: &Health) -> Value {
    json!({
        "gaps": h.gaps,
        "incomplete_frames": h.incomplete_frames,
        "repeated_frames": h.repeated_frames,
        "lost_packets": h.lost_packets,
        "lost_pixels": h.lost_pixels,
        "gain_pixels": h.gain_pixels,
        "damaged_files": h.damaged_files,
        "unread_frames": h.unread_frames,
        "warnings": h.warnings,
    })
}

/// What was asked, for JSON.
pub fn params(q: &Params) -> Value {
    json!({
        "size": q.size.to_string(),
        "n_sigma": q.n_sigma,
        "update": q.update.word(),
        "noise": q.noise.word(),
        "precision": q.precision.word(),
        "ties": q.ties.word(),
        "test2": q.test2,
        "lanes": q.lanes,
        "noise_floor_adu": q.noise_floor_adu,
        "payload": q.payload.word(),
        "pedestal_samples": q.pedestal_samples,
    })
}

/// Prints one JSON object.
pub fn print_json(value: &Value) {
    bytes(format!("{value:#}\n").as_bytes());
}

/// A run for tests.
#[cfg(test)]
pub mod example {
    use std::sync::Arc;

    use scheidegg::provenance::Provenance;
    use scheidegg::{ClusterSize, Payload, PixelMask, Plane, Shape, Statistics};

    use super::*;

    const SHAPE: Shape = Shape { rows: 2, cols: 3 };

    fn mask(pixels: &[usize]) -> PixelMask {
        let mut mask = PixelMask::new(SHAPE);
        pixels.iter().for_each(|i| mask.insert_index(*i));
        mask
    }

    /// A pedestal of six pixels without a fault.
    pub fn pedestal() -> Pedestal {
        Pedestal {
            shape: SHAPE,
            samples: 1000,
            x0: vec![100; 6],
            sum: Plane::F32(vec![500.0; 6]),
            sum2: Plane::F32(vec![1e5; 6]),
            fixed_variance: None,
            untrained: None,
        }
    }

    /// A run at which everything went wrong that is counted. Pixels 0 and 1 are masked, 1 and 2 untrained, 3 is quiet.
    pub fn report(ended: Ended) -> RunReport {
        let mut pedestal = Pedestal { untrained: Some(mask(&[1, 2])), ..pedestal() };
        let (Plane::F32(sum), Plane::F32(sum2)) = (&mut pedestal.sum, &mut pedestal.sum2) else {
            unreachable!()
        };
        (sum[3], sum2[3]) = (0.0, 0.0);
        let params = Params {
            payload: Payload::I16,
            test2: true,
            lanes: 3,
            mask: Some(Arc::new(mask(&[0, 1]))),
            ..Params::new(ClusterSize { w: 3, h: 3 })
        };
        let health = Health {
            gaps: 1,
            incomplete_frames: 2,
            repeated_frames: 3,
            lost_packets: 4,
            lost_pixels: 5,
            gain_pixels: 6,
            damaged_files: 7,
            unread_frames: 8,
            storage_cells: 0,
            warnings: vec!["of the source".into(), "of both".into()],
        };
        let darks = Health { warnings: vec!["of both".into()], lost_packets: 9, ..Health::default() };
        RunReport {
            data: "data.npy".into(),
            dark: "dark.npy".into(),
            choice: Choice {
                name: "cpu".into(),
                device: "AVX".into(),
                reasons: vec!["was asked for".into()],
            },
            trained: Some(Trained { frames: 1200, health: darks, inputs: Vec::new(), seconds: 0.25 }),
            summary: Summary {
                frames: 12345,
                first_frame: Some(10),
                last_frame: Some(12354),
                ended,
                clusters: 24690,
                health,
                statistics: Statistics { saturated: 11, redone: 12, ..Statistics::default() },
                seconds: 2.0,
                stages: Stages { reading: 0.5, finding: 1.5, writing: 1.0 },
                sinks: Vec::new(),
                provenance: Provenance::default(),
            },
            pedestal: PedestalHealth::of(&pedestal, &params),
            findings: Findings::of_pedestal(&pedestal, &params),
            drift: Some(Drift { median: 0.25, low: -1.0, high: 2.0 }),
            params,
            written: vec!["o.npz".into()],
            notes: vec!["a note".into()],
        }
    }

    /// A run with nothing to tell of.
    pub fn quiet() -> RunReport {
        let mut run = report(Ended::Complete);
        run.params = Params::new(ClusterSize { w: 3, h: 3 });
        run.summary.health = Health { gaps: 2, ..Health::default() };
        run.summary.statistics.saturated = 0;
        run.pedestal = PedestalHealth::of(&pedestal(), &run.params);
        run.findings = Findings::of_pedestal(&pedestal(), &run.params);
        (run.trained, run.drift) = (None, None);
        run.notes.clear();
        run
    }
}

#[cfg(test)]
mod tests;
