//! The roofs over every step: what the link carries and what the step's kernels can do.

use super::book::{Book, Text};
use super::charts::{self, Axes, Series};
use super::rungs::{BEST, SIZES, story};
use super::tell::Run;
use crate::harness::table::Cell;
use crate::ladder::steps::Step;

/// The peak of the link in GB/s, the best sustained rate, and the fastest copy that a probe saw.
struct Peak {
    peak: Cell,
    sustained: Cell,
    seen: Option<Cell>,
}

impl Peak {
    /// The peak is the lower of what a probe saw while a copy ran and what copies sustain.
    fn of(run: &Run) -> Option<Peak> {
        let most = |cells: &mut dyn Iterator<Item = Cell>| cells.max_by(|a, b| a.value.total_cmp(&b.value));
        let copies = |d: &str| d == "h2d" || d == "d2h";
        let wire = run.table("wire.csv")?;
        let sustained = most(
            &mut wire.rows().filter(|r| copies(r.text("direction"))).filter_map(|r| r.cell("gb_per_s")),
        )?;
        let seen = run.table("probe.csv").and_then(|probe| {
            most(&mut probe.rows().filter(|r| copies(r.text("engine"))).filter_map(|r| r.cell("gb_per_s")))
        });
        let peak = match &seen {
            Some(cell) if cell.value < sustained.value => cell.clone(),
            _ => sustained.clone(),
        };
        Some(Peak { peak, sustained, seen })
    }

    fn text(&self) -> Text {
        let text = Text::new()
            .t("A step lies under two roofs. The link carries ")
            .n(&self.peak)
            .t(" GB/s each way: the lower of the best sustained rate, ")
            .n(&self.sustained)
            .t(", and the fastest copy that a probe saw");
        match &self.seen {
            Some(cell) => text.t(", ").n(cell).t("."),
            None => text.t(" (none in this run)."),
        }
    }
}

/// A figure a window, and a table: each step, its roofs, and how near it is to the lower one.
pub(super) fn roofline(book: &mut Book, run: &Run) {
    let Some(peak) = Peak::of(run) else { return };
    book.para(peak.text().t(
        " The kernels of a step take the time that the probe saw. The higher of the two times is the least that a frame can \
         take.",
    ));
    for size in SIZES {
        figure(book, run, &peak, size);
        let rows: Vec<Vec<Text>> =
            story().filter(|(s, _)| s.on_gpu()).filter_map(|(s, p)| row(run, &peak, s, size, p)).collect();
        if !rows.is_empty() {
            let window = format!("step, {size}x{size}");
            book.grid(&[&window, "us a frame", "link us", "kernels us", "lower roof", "% of it"], rows);
        }
    }
}

/// A step, its two roofs in us a frame, and how near it is to the one that binds.
fn row(run: &Run, peak: &Peak, step: &Step, size: &str, precision: &str) -> Option<Vec<Text>> {
    let ladder = run.step(step.name, size, precision)?;
    let time = ladder.cell(BEST)?;
    let (h2d, d2h) = (ladder.cell("h2d_bytes_per_frame")?, ladder.cell("d2h_bytes_per_frame")?);
    let bytes = if h2d.value >= d2h.value { h2d } else { d2h };
    let link = bytes.value / peak.peak.value / 1e3;
    let kernels = run.engine(step.name, size, precision, "kernel").and_then(|r| r.cell("busy_us_per_frame"));
    let mut row =
        vec![Text::new().t(step.title), Text::new().n(&time), Text::new().of(link, &[&bytes, &peak.peak])];
    let Some(kernels) = kernels else {
        row.extend([Text::new(), Text::new(), Text::new()]);
        return Some(row);
    };
    row.push(Text::new().n(&kernels));
    if kernels.value > link {
        row.push(Text::new().t("kernels"));
        row.push(Text::new().of(100.0 * kernels.value / time.value, &[&kernels, &time]));
    } else {
        row.push(Text::new().t("link"));
        row.push(Text::new().of(100.0 * link / time.value, &[&bytes, &peak.peak, &time]));
    }
    Some(row)
}

/// Frames a second over the bytes that a frame moves on the busier direction of the link.
fn figure(book: &mut Book, run: &Run, peak: &Peak, size: &str) {
    let (mut points, mut labels) = (Vec::new(), Vec::new());
    for (step, precision) in story().filter(|(s, _)| s.on_gpu()) {
        let Some(row) = run.step(step.name, size, precision) else { continue };
        if let (Some(h2d), Some(d2h), Some(rate)) =
            (row.number("h2d_bytes_per_frame"), row.number("d2h_bytes_per_frame"), row.cell("frames_per_s"))
        {
            points.push((h2d.max(d2h) / 1e3, rate.value, format!("{}: {rate}", step.title)));
            labels.push(step.name.to_string());
        }
    }
    if points.is_empty() {
        return;
    }
    let bytes = || points.iter().map(|p: &(f64, f64, String)| p.0);
    let (low, high) = (bytes().fold(f64::INFINITY, f64::min), bytes().fold(0.0, f64::max));
    // To the decades around the dots.
    let ends = [10f64.powf(low.log10().floor()), 10f64.powf((high * 1.01).log10().ceil())];
    let mut series = vec![Series {
        line: false,
        dots: true,
        labels,
        ..Series::line(&format!("{size}x{size}"), 0, points)
    }];
    let link = ends.map(|kb| (kb, peak.peak.value * 1e6 / kb, peak.peak.to_string())).to_vec();
    series.push(Series { dashed: true, ..Series::line("link", 2, link) });
    let fastest = story()
        .filter_map(|(s, p)| run.engine(s.name, size, p, "kernel")?.cell("busy_us_per_frame"))
        .filter(|c| c.value > 0.0)
        .min_by(|a, b| a.value.total_cmp(&b.value));
    let mut caption =
        Text::new().t("ladder.csv, frames_per_s; wire.csv, gb_per_s; probe.csv, busy_us_per_frame.");
    if let Some(cell) = fastest {
        let rate = 1e6 / cell.value;
        let line = ends.map(|kb| (kb, rate, cell.to_string())).to_vec();
        series.push(Series { dashed: true, ..Series::line("fastest kernels", 4, line) });
        caption = caption.t(" The fastest kernels of a step could do ").of(rate, &[&cell]).t(" frames/s.");
    }
    let axes = Axes {
        x: "kB a frame on the busier direction of the link",
        y: "frames a second",
        log_x: true,
        log_y: true,
    };
    book.figure(
        &format!("roofline_{size}x{size}"),
        charts::lines(
            &format!("{size}x{size}: the roofs, link and kernels"),
            "one dot a step; dashed lines are limits",
            axes,
            &series,
        ),
        caption,
    );
}

#[cfg(test)]
mod tests {
    use super::super::tell::tests::run_with;
    use super::*;

    const LADDER: &str = "step,size,precision,best_us_per_frame,frames_per_s,h2d_bytes_per_frame,d2h_bytes_per_frame\n\
                          opt1,3,f64f32,200,5000,320000,90000\ncoarse,3,f32,8,125000,320000,400000\n";

    fn told(sustained: &str, seen: &str) -> String {
        let wire = format!("direction,gb_per_s\nh2d,{sustained}\nboth,99\n");
        let probe = format!(
            "step,size,precision,engine,busy_us_per_frame,gb_per_s\nopt1,3,f64f32,h2d,9,{seen}\n\
             opt1,3,f64f32,kernel,25,\ncoarse,3,f32,kernel,2.5,\n"
        );
        run_with(&[("wire.csv", &wire), ("probe.csv", &probe), ("ladder.csv", LADDER)], |run| {
            let mut book = Book::new("T", "S");
            roofline(&mut book, run);
            book.plain()
        })
    }

    #[test]
    fn the_peak_is_the_lower_of_the_two_estimates() {
        assert!(told("55", "50").contains("The link carries 50 GB/s each way"));
        assert!(told("50", "55").contains("The link carries 50 GB/s each way"));
        assert!(told("50", "").contains("(none in this run)"));
    }

    #[test]
    fn each_step_stands_under_the_lower_roof() {
        let text = told("50", "52");
        // opt1: 320 kB at 50 GB/s are 6.4 us, its kernels take 25 of 200 us. coarse: 400 kB are 8 us of 8.
        assert!(text.contains("a blocking launch a frame 200 6.4 25 kernels 12.5"), "{text}");
        assert!(text.contains("coarse copies 8 8 2.5 link 100"), "{text}");
        assert!(text.contains("could do 400k frames/s"), "{text}");
    }
}
