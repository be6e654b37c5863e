//! Our ladder beside the published one, and why they differ: every reason is a cell of the run.

use super::book::{Book, Text};
use super::kernels::{Kernels, sum};
use super::rungs::BEST;
use super::tell::Run;
use crate::harness::table::{Cell, Row};

/// Closer than this two times are the same.
const SAME: f64 = 0.03;

/// Our ladder beside the published one.
pub(super) fn published(book: &mut Book, run: &Run) {
    let Some(table) = run.table("published.csv") else { return };
    let mut rows = Vec::new();
    let mut reasons = Vec::new();
    for r in table.rows() {
        let Some(pair) = Pair::of(run, r) else {
            reasons.push(Text::new().t(format!(
                "{}, {}, {}x{}: our step {} is not in this run.",
                r.text("what"),
                r.text("gpu"),
                r.text("size"),
                r.text("size"),
                r.text("our_step")
            )));
            continue;
        };
        rows.push(vec![
            Text::new().t(r.text("what")),
            Text::new().t(r.text("gpu")),
            Text::new().t(format!("{0}x{0}", r.text("size"))),
            Text::new().n(&pair.theirs),
            Text::new().t(r.text("our_step")),
            Text::new().n(&pair.ours),
            Text::new().of(pair.theirs.value / pair.ours.value, &[&pair.theirs, &pair.ours]),
        ]);
        reasons.push(pair.why());
    }
    book.section("Beside the published ladder");
    if !rows.is_empty() {
        book.grid(&["published", "GPU", "window", "us/frame", "our step", "us/frame", "ratio"], rows);
    }
    reasons.into_iter().for_each(|t| book.para(t));
}

/// A published time and ours.
struct Pair<'a> {
    run: &'a Run,
    row: Row<'a>,
    ours_row: Row<'a>,
    theirs: Cell,
    ours: Cell,
}

impl<'a> Pair<'a> {
    fn of(run: &'a Run, row: Row<'a>) -> Option<Pair<'a>> {
        let ours_row = run.step(row.text("our_step"), row.text("size"), row.text("our_precision"))?;
        Some(Pair { run, row, ours_row, theirs: row.cell("us_per_frame")?, ours: ours_row.cell(BEST)? })
    }

    fn step(&self) -> (&'a str, &'a str, &'a str) {
        (self.row.text("our_step"), self.row.text("size"), self.row.text("our_precision"))
    }

    fn busy(&self, engine: &str) -> Option<Cell> {
        let (step, size, precision) = self.step();
        self.run.engine(step, size, precision, engine)?.cell("busy_us_per_frame")
    }

    /// The whole paragraph: the two times, then the link, the kernels and the host in turn.
    fn why(&self) -> Text {
        let (step, size, _) = self.step();
        let ratio = self.ours.value / self.theirs.value;
        let mut text = Text::new()
            .t(format!("{}, {size}x{size}: ", self.row.text("gpu")))
            .n(&self.theirs)
            .t(" us published, ")
            .n(&self.ours)
            .t(format!(" us for our {step}"));
        text = match ratio {
            r if r > 1.0 + SAME => text
                .t(", ")
                .of(self.ours.value - self.theirs.value, &[&self.ours, &self.theirs])
                .t(" us more. "),
            r if r < 1.0 - SAME => text
                .t(", ")
                .of(self.theirs.value - self.ours.value, &[&self.ours, &self.theirs])
                .t(" us less. "),
            _ => text.t(", the same within 3 %. "),
        };
        let text = self.link(text);
        let text = self.kernels(text, ratio);
        self.host(text, ratio)
    }

    /// What the published link carries and what ours carries.
    fn link(&self, mut text: Text) -> Text {
        let (Some(h2d), Some(d2h), Some(link)) = (
            self.ours_row.cell("h2d_bytes_per_frame"),
            self.ours_row.cell("d2h_bytes_per_frame"),
            self.row.cell("link_gb_per_s"),
        ) else {
            return text;
        };
        let floor = h2d.value.max(d2h.value) / link.value / 1e3;
        text = text
            .t("The wire: our step moves ")
            .whole(&h2d)
            .t(" bytes in and ")
            .whole(&d2h)
            .t(" out a frame; at ")
            .n(&link)
            .t(" GB/s the larger of them takes ")
            .of(floor, &[&h2d, &d2h, &link])
            .t(" us. ");
        if floor > self.theirs.value {
            let most = self.theirs.value * link.value * 1e3;
            text = text
                .t("The published step must move fewer: in its time that link carries no more than ")
                .of(most, &[&self.theirs, &link])
                .t(" bytes one way. Its results have less room a frame than ours. ");
        } else if floor > 0.7 * self.theirs.value {
            text = text.t("The published time is close to that: it stands at its link. ");
        } else {
            text = text.t("The published time is well above that: its link does not bind. ");
        }
        text
    }

    /// Which of our engines binds, and what of the kernels' time the published finder does not have.
    fn kernels(&self, mut text: Text, ratio: f64) -> Text {
        let (step, size, precision) = self.step();
        let (Some(h2d), Some(kernel), Some(d2h)) = (self.busy("h2d"), self.busy("kernel"), self.busy("d2h"))
        else {
            return text.t(format!("The step {step} was not probed in this run. "));
        };
        text = text
            .t("Our engines: copy in busy ")
            .n(&h2d)
            .t(" us, kernels ")
            .n(&kernel)
            .t(" us, copy out ")
            .n(&d2h)
            .t(" us. ");
        let copies = h2d.value.max(d2h.value);
        let binds = kernel.value.max(copies) >= 0.85 * self.ours.value;
        text = text.t(match (binds, kernel.value > copies) {
            (true, true) => "Our kernels bind, not the wire. ",
            (true, false) => "Our wire binds. ",
            (false, _) => "None of them binds: the host does. ",
        });
        let Some(kernels) = Kernels::of(self.run, step, size, precision) else { return text };
        if kernels.gather.is_empty() {
            return text;
        }
        text = text.t(format!(
            "Of our kernels' time {} that bring clusters into order have, added up, ",
            kernels.gather.len()
        ));
        text = sum(text, &kernels.times())
            .t(" us; the published finder appends through an atomic cursor and has none of them");
        let rest = kernel.value - kernels.gather_us();
        if ratio > 1.0 + SAME && binds && kernel.value > copies && rest < copies {
            sum(text.t(" (judging alone would leave "), &kernels.judges)
                .t(" us of kernels, and our copies would bind). That is the difference. ")
        } else {
            text.t(". ")
        }
    }

    /// Launches and page faults: what the host pays.
    fn host(&self, mut text: Text, ratio: f64) -> Text {
        let (step, size, precision) = self.step();
        let time = |name: &str| self.run.step(name, size, precision).and_then(|r| r.cell(BEST));
        let Some(faults) = self.ours_row.cell("plateau_faults_per_frame") else { return text };
        if faults.value <= 1.0 {
            return text;
        }
        text = text.t("The host: our step takes ").n(&faults).t(" page faults a frame");
        if let Some(lent) = time("opt6").filter(|l| l.value < self.ours.value && step == "opt5") {
            text = text
                .t("; lending the results instead of copying them (opt6) saves ")
                .of(self.ours.value - lent.value, &[&self.ours, &lent])
                .t(" us, ")
                .of(100.0 * (self.ours.value - lent.value) / self.ours.value, &[&self.ours, &lent])
                .t(" % of the step");
        }
        text = text.t(". ");
        if let (Some(plain), Some(graph)) = (time("opt4"), time("routeA"))
            && plain.value > graph.value * (1.0 + SAME)
        {
            text = text
                .t("Several launches a frame cost the host too: sent as one (route A) they save ")
                .of(plain.value - graph.value, &[&plain, &graph])
                .t(" us against opt4. ");
        }
        text.t(match ratio {
            r if r > 1.0 + SAME => {
                "Published and ours pay for owned results alike; ours pays for the launches and kernels above besides."
            }
            r if r < 1.0 - SAME => {
                "Both pay for owned results; how much a page fault costs is the host's, and it is not the same host."
            }
            _ => "Both pay for owned results above all, and that is why they agree.",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::super::tell::tests::run_with;
    use super::*;

    const PUBLISHED: &str = "what,gpu,size,us_per_frame,link_gb_per_s,our_step,our_precision\n\
                             zero-copy,RTX 4090,3,16.3,25,opt6,f64f32\n";
    const KERNELS: &str = "step,size,precision,kernel,us_per_frame,threads\n\
                           opt6,3,f64f32,frame_f64_3x3,4.5,46332\nopt6,3,f64f32,scan,13,256\nopt6,3,f64f32,copy,7,9\n";
    const PROBE: &str = "step,size,precision,engine,busy_us_per_frame\n\
                         opt6,3,f64f32,h2d,9\nopt6,3,f64f32,kernel,24.5\nopt6,3,f64f32,d2h,4\n";

    fn told(ours: &str, d2h: &str) -> String {
        let ladder = format!(
            "step,size,precision,best_us_per_frame,h2d_bytes_per_frame,d2h_bytes_per_frame,plateau_faults_per_frame\n\
             opt6,3,f64f32,{ours},320000,{d2h},0\n"
        );
        let tables = [
            ("published.csv", PUBLISHED),
            ("probe_kernels.csv", KERNELS),
            ("probe.csv", PROBE),
            ("ladder.csv", &ladder),
        ];
        run_with(&tables, |run| {
            let row = run.table("published.csv").unwrap().rows().next().unwrap();
            Pair::of(run, row).unwrap().why().plain()
        })
    }

    #[test]
    fn the_reason_follows_the_cells() {
        let text = told("24.8", "120000");
        assert!(text.contains("8.5 us more"), "{text}");
        assert!(text.contains("takes 12.8 us. The published time is close to that"), "{text}");
        assert!(text.contains("Our kernels bind, not the wire"), "{text}");
        assert!(text.contains("2 that bring clusters into order have, added up, 20 us"), "{text}");
        assert!(text.contains("That is the difference."), "{text}");
        // Faster than published: no difference is explained away.
        let text = told("10", "120000");
        assert!(text.contains("6.3 us less"), "{text}");
        assert!(!text.contains("That is the difference"), "{text}");
        // More bytes than the published link could carry in the published time.
        let text = told("60", "984256");
        assert!(
            text.contains("must move fewer: in its time that link carries no more than 408k bytes"),
            "{text}"
        );
        assert!(text.contains("None of them binds: the host does."), "{text}");
        assert!(told("16.5", "120000").contains("the same within 3 %"));
    }

    #[test]
    fn a_step_that_is_missing_is_said_to_be() {
        let ladder = "step,size,precision,best_us_per_frame\nopt1,3,f64f32,5\n";
        let text = run_with(&[("published.csv", PUBLISHED), ("ladder.csv", ladder)], |run| {
            let mut book = Book::new("T", "S");
            published(&mut book, run);
            book.plain()
        });
        assert!(text.contains("our step opt6 is not in this run"), "{text}");
    }
}
