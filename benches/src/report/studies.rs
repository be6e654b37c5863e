//! The studies of precision and of timing, told.

use super::book::{Book, Text, thousands};
use super::charts::{self, Axes, Series};
use super::tell::Run;
use crate::harness::table::{Cell, Row, Table};
use crate::study::precision::Mode;
use crate::study::timing::NAMES;

fn points(table: &Table, mode: &str, x: &str, y: &str) -> Vec<(f64, f64, String)> {
    let rows = table.rows().filter(|r| r.is(&[("mode", mode)]));
    rows.filter_map(|r| {
        let (x, y) = (r.number(x)?, r.cell(y)?);
        Some((x, y.value, y.to_string()))
    })
    .collect()
}

fn colour(mode: Mode) -> usize {
    match mode {
        Mode::NaiveF32 => 4,
        Mode::CentredF32 => 0,
        Mode::F64F32 => 2,
        Mode::F64 => 5,
    }
}

/// Naive f32, centred f32 and f64.
pub fn precision(book: &mut Book, run: &Run) {
    let (Some(full), Some(drift), Some(levels)) =
        (run.table("precision.csv"), run.table("precision_drift.csv"), run.table("precision_levels.csv"))
    else {
        return;
    };
    book.section("Precision: why the sums are centred");
    let row = |mode: Mode| full.find(&[("mode", mode.word())]);
    if let (Some(naive), Some(centred), Some(double)) =
        (row(Mode::NaiveF32), row(Mode::CentredF32), row(Mode::F64))
    {
        let cell = |r: Row<'_>, c: &str| r.cell(c).expect("a study has numbers in every column");
        book.para(
            Text::new()
                .t("The same ")
                .whole(&cell(double, "frames"))
                .t(" frames of 400 x 400, the same trained pedestal. With sums in f64 the finder stores ")
                .whole(&cell(double, "clusters"))
                .t(" clusters. With raw sums in f32 it stores ")
                .whole(&cell(naive, "clusters"))
                .t(", of which ")
                .whole(&cell(naive, "only_here"))
                .t(" are not among those of f64; with centred sums in f32 ")
                .whole(&cell(centred, "clusters"))
                .t(", of which ")
                .whole(&cell(centred, "only_here"))
                .t(" are not. At the end the variance of a pixel is off by ")
                .n(&cell(naive, "variance_rms_error_percent"))
                .t(" % (root mean square) with raw sums and by ")
                .n(&cell(centred, "variance_rms_error_percent"))
                .t(" % with centred ones; ")
                .whole(&cell(naive, "zero_variance_pixels"))
                .t(" and ")
                .whole(&cell(centred, "zero_variance_pixels"))
                .t(" pixels have a variance of exactly 0, ")
                .whole(&cell(naive, "negative_variance_pixels"))
                .t(" and ")
                .whole(&cell(centred, "negative_variance_pixels"))
                .t(" one below 0 that had to be cut."),
        );
        book.para(Text::new().t(
            "The reason is cancellation. The variance is sum2/N - mean^2, the small difference of two numbers near the \
             square of the pedestal. An f32 holds 24 bits; at 4655 ADU the square takes 25 of them, so that the last \
             bits of a variance of a few hundred ADU^2 are rounding, and every update rounds again. Sums of X - X0 \
             have nothing to cancel. The naive mode starts here from exact sums, rounded once.",
        ));
    }
    let series: Vec<Series> = Mode::ALL
        .iter()
        .filter(|m| **m != Mode::F64)
        .map(|m| Series {
            dots: true,
            ..Series::line(m.word(), colour(*m), points(levels, m.word(), "pedestal_adu", "false_percent"))
        })
        .collect();
    let axes = Axes {
        x: "pedestal of the pixels (ADU)",
        y: "clusters that f64 has not (%)",
        log_x: false,
        log_y: false,
    };
    book.figure(
        "precision_levels",
        charts::lines(
            "False clusters grow with the pedestal, unless sums are centred",
            "share of clusters that the same finder in f64 does not find",
            axes,
            &series,
        ),
        Text::new().t("precision_levels.csv, false_percent. Centred f32 and f64 lie on the axis."),
    );
    let series: Vec<Series> = [Mode::NaiveF32, Mode::CentredF32]
        .iter()
        .map(|m| {
            Series::line(
                m.word(),
                colour(*m),
                points(drift, m.word(), "end_frame", "variance_rms_error_percent"),
            )
        })
        .collect();
    let axes = Axes { x: "frame", y: "error of the variance (%, rms)", log_x: false, log_y: true };
    let mut caption = Text::new().t("precision_drift.csv, variance_rms_error_percent.");
    let last = |m: Mode| drift.rows().filter(|r| r.is(&[("mode", m.word())])).last();
    if let (Some(naive), Some(centred)) = (last(Mode::NaiveF32), last(Mode::CentredF32))
        && let (Some(a), Some(b), Some(end), Some(c), Some(d)) = (
            naive.cell("clusters"),
            centred.cell("clusters"),
            naive.cell("end_frame"),
            centred.cell("only_here"),
            naive.cell("only_here"),
        )
    {
        caption = caption
            .t(" In the last window, up to frame ")
            .whole(&end)
            .t(", raw f32 stores ")
            .whole(&a)
            .t(" clusters (")
            .whole(&d)
            .t(" of them not in f64) where centred f32 stores ")
            .whole(&b)
            .t(" (")
            .whole(&c)
            .t(" not in f64).");
    }
    book.figure(
        "precision_drift",
        charts::lines(
            "Raw sums walk away, centred sums stay",
            "error of a pixel's variance against f64 over a long run",
            axes,
            &series,
        ),
        caption,
    );
    if let Some(spectra) = run.table("precision_spectra.csv") {
        let of = |mode: Mode| -> Vec<(f64, f64, String)> {
            let rows = spectra.rows();
            rows.filter_map(|r| {
                let y = r.cell(mode.word())?;
                // A count of 0 has no place on a logarithmic axis; half a count is below it.
                Some((r.number("adu")?, y.value.max(0.5), y.to_string()))
            })
            .collect()
        };
        let series: Vec<Series> = [Mode::NaiveF32, Mode::F64, Mode::CentredF32]
            .iter()
            .map(|m| Series { dashed: *m == Mode::CentredF32, ..Series::line(m.word(), colour(*m), of(*m)) })
            .collect();
        let axes =
            Axes { x: "charge of a 3x3 cluster (ADU)", y: "clusters in 10 ADU", log_x: false, log_y: true };
        book.figure(
            "precision_spectra",
            charts::lines("Cluster spectra, overlaid", "the same frames in three precisions", axes, &series),
            Text::new().t("precision_spectra.csv. False clusters of raw f32 lie at low charge; centred f32 lies on f64."),
        );
    }
}

/// Serial against frozen.
pub fn timing(book: &mut Book, run: &Run) {
    let (Some(summary), Some(matrix)) = (run.table("timing.csv"), run.table("timing_matrix.csv")) else {
        return;
    };
    book.section("Timing: serial against frozen");
    for (test3, row) in ["on", "off"].iter().filter_map(|t| Some((*t, summary.find(&[("test3", t)])?))) {
        let Some(cells) =
            ["frames", "pixels", "pixels_that_differ", "clusters_frozen", "only_frozen", "only_serial"]
                .iter()
                .map(|c| row.cell(c))
                .collect::<Option<Vec<Cell>>>()
        else {
            continue;
        };
        let mut text = Text::new()
            .t(if test3 == "on" { "With test 3 on, as SPEC has it: of " } else { "With test 3 off: of " })
            .whole(&cells[1])
            .t(" pixels in ")
            .whole(&cells[0])
            .t(" frames ")
            .whole(&cells[2])
            .t(" take another branch. Of ")
            .whole(&cells[3])
            .t(" clusters ")
            .whole(&cells[4])
            .t(" are found by frozen alone and ")
            .whole(&cells[5])
            .t(" by serial alone.");
        let mut changes: Vec<Row<'_>> = matrix
            .rows()
            .filter(|r| r.is(&[("test3", test3)]) && r.text("frozen") != r.text("serial"))
            .filter(|r| r.number("pixels").is_some_and(|n| n > 0.0))
            .collect();
        changes
            .sort_by(|a, b| b.number("pixels").unwrap_or(0.0).total_cmp(&a.number("pixels").unwrap_or(0.0)));
        for (i, change) in changes.iter().enumerate() {
            let Some(n) = change.cell("pixels") else { continue };
            text = text
                .t(if i == 0 { " The changes: " } else { ", " })
                .t(format!("{} becomes {} ", change.text("frozen"), change.text("serial")))
                .whole(&n);
        }
        book.para(if changes.is_empty() { text } else { text.t(".") });
        let counts: Vec<Vec<(f64, String)>> = NAMES
            .iter()
            .map(|f| {
                let cell = |s: &&str| {
                    let row = matrix.find(&[("test3", test3), ("frozen", f), ("serial", s)]);
                    let cell = row.and_then(|r| r.cell("pixels"));
                    (cell.as_ref().map_or(0.0, |c| c.value), cell.map_or(String::new(), |c| c.to_string()))
                };
                NAMES.iter().map(cell).collect()
            })
            .collect();
        book.figure(
            &format!("timing_test3_{test3}"),
            charts::matrix(
                &format!("Which branch becomes which, test 3 {test3}"),
                &format!(
                    "{} pixels judged twice, with the pedestal of the frame's start and of the moment",
                    thousands(cells[1].value)
                ),
                "frozen",
                "serial",
                &NAMES,
                &counts,
            ),
            Text::new().t(format!("timing_matrix.csv, test3 = {test3}. The diagonal agrees.")),
        );
    }
    book.para(Text::new().t(
        "Why it can differ at all: after an UPDATE a serial finder takes the pixel's value anew from its new mean, which \
         pulls it towards 0 by 1/N of itself. Windows that come later in the raster see that value. A difference needs \
         a pixel whose window lies within about a thousandth of its own bar, and a neighbour that was itself quiet: one \
         with more noise than the pixel, so that the same value is quiet for it and significant for the pixel (test 1), \
         or a sum that the many small pulls carry over its bar (test 3).",
    ));
}
