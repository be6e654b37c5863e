//! The probes, told: who was busy and what binds, the link, the instructions.

use super::axis::short;
use super::book::{Book, Text};
use super::charts::{self, Axes, Group, Lane, Series};
use super::roofline;
use super::rungs::{BEST, SIZES, story, wire_floor};
use super::tell::Run;
use crate::harness::table::{Cell, Row};
use crate::ladder::steps::{How, Step};

/// Busy time per engine and what binds.
pub(super) fn engines(book: &mut Book, run: &Run) {
    if run.table("probe.csv").is_none() {
        return;
    }
    book.section("What each engine did, and what binds");
    book.para(Text::new().t(
        "Union of the intervals in which an engine worked, from CUPTI's activity records of a run of its own. The red \
         tick is the time a frame takes without the probe. Where the longest bar reaches the tick, that engine binds; \
         where all are shorter, the GPU waits for launches, for barriers or for the host.",
    ));
    for size in SIZES {
        // Two screens: bars of fourteen steps could not be told apart from the back of a room.
        for (kind, title) in [("frames", "a frame at a time"), ("chunks", "a chunk at a time")] {
            let a_frame = |s: &Step| matches!(s.how, How::Frames(_));
            let steps = story().filter(|(s, _)| s.on_gpu() && a_frame(s) == (kind == "frames"));
            let groups: Vec<Group> = steps.filter_map(|(s, p)| group(run, s, size, p)).collect();
            if groups.is_empty() {
                continue;
            }
            book.figure(
                &format!("engines_{kind}_{size}x{size}"),
                charts::groups(
                    &format!("{size}x{size}, {title}: who is busy, and what binds"),
                    "busy time of each engine against the time that passes",
                    "us a frame",
                    &["copy in", "kernels", "copy out"],
                    "time that passes",
                    &groups,
                ),
                Text::new().t("probe.csv, busy_us_per_frame; ladder.csv, best_us_per_frame."),
            );
        }
    }
    roofline::roofline(book, run);
    let Some(kernels) = run.table("probe_kernels.csv") else { return };
    let rows = kernels
        .rows()
        .map(|r| {
            let n = |c: &str| r.cell(c).map_or_else(Text::new, |v| Text::new().n(&v));
            vec![
                Text::new().t(r.text("step")),
                Text::new().t(format!("{0}x{0} {1}", r.text("size"), r.text("precision"))),
                Text::new().t(r.text("kernel")),
                n("launches"),
                n("median_us"),
                n("us_per_frame"),
                n("registers"),
            ]
        })
        .collect();
    book.grid(&["step", "window", "kernel", "launches", "median us", "us a frame", "registers"], rows);
}

/// The engines of a step beside the time that passes.
fn group(run: &Run, step: &Step, size: &str, precision: &str) -> Option<Group> {
    let busy = |e: &str| run.engine(step.name, size, precision, e).and_then(|r| r.cell("busy_us_per_frame"));
    let values: Vec<Option<(f64, String)>> =
        ["h2d", "kernel", "d2h"].iter().map(|e| busy(e).map(|c| (c.value, c.to_string()))).collect();
    values.iter().any(Option::is_some).then_some(())?;
    let tick = run.step(step.name, size, precision).and_then(|r| r.cell(BEST));
    Some(Group { label: step.title.into(), values, tick: tick.map(|c| (c.value, c.to_string())) })
}

/// When each engine worked, for the steps that were probed.
pub(super) fn timelines(book: &mut Book, run: &Run) {
    let Some(table) = run.table("timeline.csv") else { return };
    book.section("Engine timelines");
    for (step, _) in story() {
        for size in SIZES {
            let rows: Vec<Row<'_>> =
                table.rows().filter(|r| r.is(&[("step", step.name), ("size", size)])).collect();
            let Some(first) = rows.first() else { continue };
            let precision = first.text("precision");
            let wanted = rows.iter().filter(|r| r.text("precision") == precision);
            let mut lanes: Vec<Lane> =
                [("h2d", "copy in", 0), ("kernel", "kernels", 1), ("d2h", "copy out", 2)]
                    .iter()
                    .map(|(_, label, colour)| Lane {
                        label: (*label).into(),
                        colour: *colour,
                        intervals: Vec::new(),
                    })
                    .collect();
            // A frame at a time: eight frames are seen, more are a smear.
            let probe = run.engine(step.name, size, precision, "h2d");
            let clip = probe
                .filter(|r| r.number("count_per_frame").is_some_and(|n| n > 0.9))
                .and_then(|r| Some(8.0 * r.number("span_us_per_frame")?))
                .unwrap_or(f64::INFINITY);
            for r in wanted.filter(|r| r.number("end_us").is_some_and(|e| e <= clip)) {
                let at = ["h2d", "kernel", "d2h"].iter().position(|e| *e == r.text("engine"));
                if let (Some(at), Some(start), Some(end)) = (at, r.cell("start_us"), r.cell("end_us")) {
                    lanes[at].intervals.push((
                        start.value,
                        end.value,
                        format!("{start} {}", r.text("kernel")),
                    ));
                }
            }
            let frames = run.step(step.name, size, precision).and_then(|r| r.cell(BEST));
            let seen = if clip.is_finite() { "about eight frames" } else { "some chunks" };
            let subtitle = frames.map_or(seen.to_string(), |c| {
                format!("{seen}, under the probe; without it a frame takes {} us", short(c.value))
            });
            book.figure(
                &format!("timeline_{}_{size}x{size}", step.name),
                charts::timeline(&format!("{}, {size}x{size}", step.title), &subtitle, &lanes),
                Text::new().t(format!(
                    "timeline.csv, step = {}, size = {size}, from the middle of the run.",
                    step.name
                )),
            );
        }
    }
}

/// What the link moves.
pub(super) fn wire(book: &mut Book, run: &Run) {
    let Some(table) = run.table("wire.csv") else { return };
    book.section("What the link really moves");
    let directions = [("h2d", 0), ("d2h", 2), ("both", 3), ("h2d pageable", 4)];
    let series: Vec<Series> = directions
        .iter()
        .map(|(d, colour)| {
            let rows = table.rows().filter(|r| r.is(&[("direction", d)]));
            let points = rows.filter_map(|r| {
                let y = r.cell("us_per_frame")?;
                Some((r.number("bytes_per_copy")? / 1e3, y.value, y.to_string()))
            });
            Series { dots: true, ..Series::line(d, *colour, points.collect()) }
        })
        .collect();
    let axes = Axes { x: "kB a copy", y: "us for 320 kB", log_x: true, log_y: true };
    let row = |d: &str, frames: &str| table.find(&[("direction", d), ("frames_per_copy", frames)]);
    let mut caption = Text::new().t("wire.csv, us_per_frame. `both` moves as much each way at once.");
    if let (Some(one), Some(many), Some(small)) = (
        row("h2d", "1.000").and_then(|r| r.cell("us_per_copy")),
        wire_floor(run),
        table
            .rows()
            .find(|r| r.is(&[("direction", "h2d"), ("bytes_per_copy", "4096")]))
            .and_then(|r| r.cell("us_per_copy")),
    ) {
        caption = caption
            .t(" A copy of one frame takes ")
            .n(&one)
            .t(" us, a frame within large copies ")
            .n(&many)
            .t(" us. Even 4 kB take ")
            .n(&small)
            .t(" us: a copy has a price of its own, whatever it carries, and that is what limits a small one.");
    }
    book.figure(
        "wire",
        charts::lines(
            "A small copy pays for itself",
            "time for the bytes of one frame, by the size of a copy",
            axes,
            &series,
        ),
        caption,
    );
}

/// Instructions on the common path.
pub(super) fn instructions(book: &mut Book, run: &Run) {
    let Some(table) = run.table("sass.csv") else { return };
    book.section("Instructions of a kernel, by pipe");
    book.para(Text::new().t(
        "Counted in the machine code that ptxas makes: the instructions of the loop over frames, without the blocks that \
         only a stored cluster reaches. The cap is what a multiprocessor could do if nothing but issuing bound it: the \
         busiest pipe's cycles for all pixels of a frame, halo included, over all multiprocessors.",
    ));
    if let Some(version) = table.rows().next().map(|r| r.text("assembler")).filter(|v| !v.is_empty()) {
        book.para(Text::new().t(format!(
            "The assembler was ptxas {version}. The driver that ran the kernels has one of its own: a few instructions more or \
             less are its."
        )));
    }
    let measured: Vec<(&str, Cell, Cell)> = table
        .rows()
        .filter_map(|r| {
            Some((r.text("entry"), r.cell("cap_us_per_frame")?, r.cell("measured_us_per_frame")?))
        })
        .collect();
    if !measured.is_empty() {
        let mut text = Text::new().t("Measured over the cap, on the chip of this run: ");
        for (i, (entry, cap, seen)) in measured.iter().enumerate() {
            let comma = if i > 0 { ", " } else { "" };
            text = text.t(format!("{comma}{entry} ")).of(seen.value / cap.value, &[seen, cap]).t(" times");
        }
        book.para(text.t(
            ". What lies between is not the issue of these instructions: the path of stored clusters, waiting for memory and \
             at barriers, blocks that are left over when the others are done. The count does not tell them apart.",
        ));
    }
    let rows = table
        .rows()
        .map(|r| {
            let n = |c: &str| r.cell(c).map_or_else(Text::new, |v| Text::new().n(&v));
            vec![
                Text::new().t(r.text("entry")),
                Text::new().t(r.text("chip")),
                n("common"),
                n("fp32"),
                n("fp64"),
                n("integer"),
                n("shared"),
                n("global"),
                n("control"),
                n("other"),
                n("rare"),
                Text::new().t(r.text("bound")),
                n("cap_us_per_frame"),
                n("measured_us_per_frame"),
            ]
        })
        .collect();
    book.grid(
        &[
            "entry",
            "chip",
            "common path",
            "fp32",
            "fp64",
            "integer",
            "shared",
            "global",
            "control",
            "other",
            "rare path",
            "pipe that binds",
            "cap us/frame",
            "measured us/frame",
        ],
        rows,
    );
}
