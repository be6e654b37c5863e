//! Every step in numbers: the table, what f64 costs, and whose repetitions scatter.

use super::book::{Book, Text};
use super::rungs::{BEST, SIZES};
use super::tell::Run;
use crate::ladder::steps::Step;

/// A spread above this, in percent, is pointed out.
const WIDE: f64 = 20.0;

/// The section.
pub(super) fn table(book: &mut Book, run: &Run) {
    let Some(ladder) = run.table("ladder.csv") else { return };
    book.section("Every step, both precisions");
    precisions(book, run);
    let mut wide = Text::new();
    let mut count = 0;
    for r in ladder.rows() {
        if let Some(spread) = r.cell("spread_percent").filter(|s| s.value > WIDE) {
            let what = format!("{} {2}x{2} {} ", r.text("step"), r.text("precision"), r.text("size"));
            wide = wide.t(if count > 0 { ", " } else { "" }).t(what).n(&spread).t(" %");
            count += 1;
        }
    }
    if count > 0 {
        book.para(Text::new().t(format!(
            "The warm repetitions of {count} steps spread by more than {WIDE} % (listed next): there the best is what the \
             machine can do and the median what it did."
        )));
        book.para(wide.t("."));
    }
    let rows = ladder
        .rows()
        .map(|r| {
            let title = Step::named(r.text("step")).map_or(r.text("step"), |s| s.title);
            let n = |c: &str| r.cell(c).map_or_else(Text::new, |v| Text::new().n(&v));
            vec![
                Text::new().t(title),
                Text::new().t(format!("{0}x{0}", r.text("size"))),
                Text::new().t(r.text("precision")),
                Text::new().t(r.text("threads")),
                n("cold_us_per_frame"),
                n(BEST),
                n("median_us_per_frame"),
                n("spread_percent"),
                n("plateau_faults_per_frame"),
                n("h2d_bytes_per_frame"),
                n("d2h_bytes_per_frame"),
                n("energy_mj_per_frame"),
            ]
        })
        .collect();
    book.grid(
        &[
            "step",
            "window",
            "sums",
            "threads",
            "cold us",
            "best us",
            "median us",
            "spread %",
            "faults/frame",
            "bytes in",
            "bytes out",
            "mJ/frame",
        ],
        rows,
    );
}

/// What sums in f64 cost where both precisions were measured.
fn precisions(book: &mut Book, run: &Run) {
    for name in ["opt6", "many", "library"] {
        let mut text = Text::new();
        for size in SIZES {
            let time = |p: &str| run.step(name, size, p).and_then(|r| r.cell(BEST));
            let (Some(double), Some(single)) = (time("f64f32"), time("f32")) else { continue };
            let more = 100.0 * (double.value / single.value - 1.0);
            text = text
                .t(format!(" At {size}x{size} "))
                .n(&double)
                .t(" us a frame with sums in f64 and ")
                .n(&single)
                .t(" with sums in f32");
            text = match more.abs() < 3.0 {
                true => text.t(": the same within 3 %."),
                false => text.t(": ").of(more.abs(), &[&double, &single]).t(if more > 0.0 {
                    " % more."
                } else {
                    " % less."
                }),
            };
        }
        if !text.plain().is_empty() {
            let title = Step::named(name).map_or(name, |s| s.title);
            book.para(Text::new().t(format!("{title}:")).then(text));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::tell::tests::run_with;
    use super::*;

    #[test]
    fn what_scatters_is_named_and_precisions_are_compared() {
        let ladder = "step,size,precision,best_us_per_frame,spread_percent\n\
                      baseline,3,f64f32,30,83.4\nlibrary,3,f64f32,6.6,4\nlibrary,3,f32,6.0,2\nlibrary,9,f64f32,7.0,4\n\
                      library,9,f32,7.1,2\n";
        let text = run_with(&[("ladder.csv", ladder)], |run| {
            let mut book = Book::new("T", "S");
            table(&mut book, run);
            book.plain()
        });
        for words in [
            "repetitions of 1 steps spread by more than 20 %",
            "baseline 3x3 f64f32 83.4 %.",
            "At 3x3 6.6 us a frame with sums in f64 and 6 with sums in f32: 10 % more.",
            "At 9x9 7 us a frame with sums in f64 and 7.1 with sums in f32: the same within 3 %.",
        ] {
            assert!(text.contains(words), "{words}\nin\n{text}");
        }
    }
}
