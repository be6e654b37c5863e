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
        book.para(beside_published_precision(run, &cell(naive, "clusters"), &cell(double, "clusters")));
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
    let at = |mode: Mode, column: &str, last: bool| {
        let mut rows = levels.rows().filter(|r| r.is(&[("mode", mode.word())]));
        let row = if last { rows.last() } else { rows.next() };
        row.and_then(|r| r.cell(column))
    };
    let grows = at(Mode::NaiveF32, "false_percent", true).map(|c| c.value)
        > at(Mode::NaiveF32, "false_percent", false).map(|c| c.value);
    let clean = [Mode::CentredF32, Mode::F64F32].iter().all(|m| {
        let rows = levels.rows().filter(|r| r.is(&[("mode", m.word())]));
        rows.filter_map(|r| r.number("false_percent")).all(|v| v < 0.01)
    });
    let mut caption = Text::new().t("precision_levels.csv, false_percent.");
    if clean {
        caption = caption.t(" Centred f32 and f64 sums lie on the axis.");
    }
    for level in levels.rows().filter(|r| r.is(&[("mode", Mode::NaiveF32.word())])) {
        // Where raw sums begin to fail, and how fast.
        if let (Some(adu), Some(share), Some(zero)) =
            (level.cell("pedestal_adu"), level.cell("false_percent"), level.cell("zero_variance_pixels"))
            && share.value > 0.0
        {
            caption =
                caption.t(" At ").whole(&adu).t(" ADU raw sums have ").n(&share).t(" % false clusters and ");
            caption = caption.whole(&zero).t(" pixels of no variance.");
        }
    }
    book.figure(
        "precision_levels",
        charts::lines(
            match (grows, clean) {
                (true, true) => "False clusters grow with the pedestal, unless sums are centred",
                _ => "False clusters by pedestal and precision",
            },
            "share of clusters that the same finder in f64 does not find",
            axes,
            &series,
        ),
        caption,
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
    let of = |m: Mode, column: &'static str| {
        drift.rows().filter(move |r| r.is(&[("mode", m.word())])).filter_map(move |r| r.cell(column))
    };
    if let (Some(first), Some(end)) =
        (of(Mode::NaiveF32, "zero_variance_pixels").next(), of(Mode::NaiveF32, "zero_variance_pixels").last())
    {
        caption = caption
            .t(" Pixels of no variance with raw sums: ")
            .whole(&first)
            .t(" after the first window, ")
            .whole(&end)
            .t(" after the last.");
    }
    let error = || of(Mode::CentredF32, "variance_rms_error_percent");
    if let Some(worst) = error().max_by(|a, b| a.value.total_cmp(&b.value)) {
        let differ: Vec<Cell> = ["only_here", "only_f64"]
            .iter()
            .flat_map(|c| of(Mode::CentredF32, c))
            .filter(|c| c.value > 0.0)
            .collect();
        caption = caption.t(" The largest error of centred sums is ").n(&worst).t(" %; ");
        caption = match differ.is_empty() {
            true => caption.t("in no window did it change a single cluster."),
            false => {
                super::kernels::sum(caption.t("in all windows together it changed "), &differ).t(" clusters.")
            }
        };
    }
    let end = |m: Mode| of(m, "variance_rms_error_percent").last().map_or(0.0, |c| c.value);
    let walks = end(Mode::NaiveF32) > 100.0 * end(Mode::CentredF32);
    book.figure(
        "precision_drift",
        charts::lines(
            if walks {
                "Raw sums walk away, centred sums stay"
            } else {
                "Drift of the variance, raw and centred sums"
            },
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
            overlaid(spectra),
        );
    }
}

/// How the spectra differ, from their bins.
fn overlaid(spectra: &Table) -> Text {
    let [naive, centred, double] = [Mode::NaiveF32, Mode::CentredF32, Mode::F64].map(Mode::word);
    let differ =
        |r: &Row<'_>, mode: &str| (r.number(mode).unwrap_or(0.0) - r.number(double).unwrap_or(0.0)).abs();
    let text = Text::new().t("precision_spectra.csv.");
    let bins = spectra.rows().filter(|r| differ(r, centred) > 0.0).count();
    let most = spectra.rows().max_by(|a, b| differ(a, centred).total_cmp(&differ(b, centred)));
    let text = match most.filter(|_| bins > 0).and_then(|r| Some((r, r.cell(centred)?, r.cell(double)?))) {
        None => text.t(" Centred f32 lies on f64 in every bin."),
        Some((row, a, b)) => text
            .t(format!(" Centred f32 differs from f64 in {bins} of {} bins, most at {} ADU: ", spectra.len(), row.text("adu")))
            .whole(&a)
            .t(" against ")
            .whole(&b)
            .t(" clusters. A value is rounded to whole ADU after the mean is taken away, and a mean a rounding apart puts it a bin \
                further."),
    };
    let worst = spectra.rows().max_by(|a, b| differ(a, naive).total_cmp(&differ(b, naive)));
    let Some((row, raw, true_one)) = worst.and_then(|r| Some((r, r.cell(naive)?, r.cell(double)?))) else {
        return text;
    };
    if raw.value == true_one.value {
        return text.t(" So does raw f32.");
    }
    text.t(format!(" Raw f32 is furthest from f64 at {} ADU: ", row.text("adu")))
        .whole(&raw)
        .t(" clusters where f64 has ")
        .whole(&true_one)
        .t(".")
}

/// Raw sums gained clusters elsewhere too: how many more here.
fn beside_published_precision(run: &Run, naive: &Cell, double: &Cell) -> Text {
    let more = 100.0 * (naive.value / double.value - 1.0);
    let text =
        Text::new().t("Raw sums in f32 give ").of(more, &[naive, double]).t(" % more clusters than f64 here");
    let wanted = [("what", "naive_f32_more_clusters_percent")];
    let Some(theirs) = run.table("published_studies.csv").and_then(|t| t.find(&wanted)?.cell("value")) else {
        return text.t(".");
    };
    let text = text.t("; a published run gained ").n(&theirs).t(" %. ");
    text.t(if (more / theirs.value - 1.0).abs() < 0.1 {
        "They agree."
    } else {
        "The number is no constant: it depends on the pedestal's height over its noise and on how long a run is. The two \
         figures below show both."
    })
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
        if test3 == "on" {
            beside_published_timing(book, run, &cells[3], [&cells[4], &cells[5]]);
        }
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

/// Clusters that serial and frozen do not share, beside the published number.
fn beside_published_timing(book: &mut Book, run: &Run, clusters: &Cell, only: [&Cell; 2]) {
    let wanted = [("what", "serial_clusters_that_differ")];
    let theirs = run.table("published_studies.csv").and_then(|t| t.find(&wanted));
    let Some((theirs, of)) = theirs.and_then(|r| Some((r.cell("value")?, r.cell("of")?))) else { return };
    let ours = (only[0].value + only[1].value) / clusters.value * 1e6;
    let published = theirs.value / of.value * 1e6;
    let text = Text::new()
        .t("Published: ")
        .whole(&theirs)
        .t(" clusters in ")
        .whole(&of)
        .t(" differ, ")
        .of(published, &[&theirs, &of])
        .t(" in a million; here ")
        .of(ours, &[only[0], only[1], clusters])
        .t(" in a million. ");
    // The counts are small: three of their own roots are within chance.
    let chance = 3.0
        * ((only[0].value + only[1].value).sqrt() / clusters.value + theirs.value.sqrt() / of.value)
        * 1e6;
    book.para(text.t(if (ours - published).abs() <= chance {
        "With numbers as small as these that is the same."
    } else if ours < published {
        "Fewer. It takes a window at the very edge of its bar, and most clusters here are far above theirs: nearly all \
         photons have nearly the same energy, and the noise of neighbours is alike. A continuous spectrum or a detector \
         with noisy pixels has more windows at the edge."
    } else {
        "More: this scene has more windows at the very edge of their bar."
    }));
}

#[cfg(test)]
mod tests {
    use super::super::tell::tests::run_with;
    use super::*;

    #[test]
    fn spectra_are_compared_bin_by_bin() {
        let told = |rows: &str| {
            let text = format!("adu,naive f32,centred f32,\"f64, f32\",f64\n{rows}");
            run_with(&[("precision_spectra.csv", &text)], |run| {
                overlaid(run.table("precision_spectra.csv").unwrap()).plain()
            })
        };
        let same = told("-5,10,10,10,10\n5,20,20,20,20\n");
        assert!(same.contains("in every bin") && same.contains("So does raw f32"), "{same}");
        let other = told("-5,900,10,10,10\n5,20,21,20,20\n");
        assert!(other.contains("differs from f64 in 1 of 2 bins, most at 5 ADU: 21 against 20"), "{other}");
        assert!(other.contains("at -5 ADU: 900 clusters where f64 has 10"), "{other}");
    }

    #[test]
    fn the_published_number_of_changed_clusters_is_explained_from_ours() {
        let told = |only: &str| {
            let timing = format!("clusters_frozen,only_frozen,only_serial\n17000000,0,{only}\n");
            let published = "what,value,of\nserial_clusters_that_differ,19,23200000\n";
            run_with(&[("timing.csv", &timing), ("published_studies.csv", published)], |run| {
                let row = run.table("timing.csv").unwrap().rows().next().unwrap();
                let c = |name: &str| row.cell(name).unwrap();
                let mut book = Book::new("T", "S");
                let only = [&c("only_frozen"), &c("only_serial")];
                beside_published_timing(&mut book, run, &c("clusters_frozen"), only);
                book.plain()
            })
        };
        assert!(told("14").contains("that is the same"), "{}", told("14"));
        assert!(told("0").contains("Fewer. It takes"), "{}", told("0"));
        assert!(told("400").contains("More: this scene"), "{}", told("400"));
    }
}
