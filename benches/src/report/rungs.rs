//! The ladder, told: a bar a step, page faults, energy, threads, and the published one beside it.

use super::axis::short;
use super::book::{Book, Text};
use super::charts::{self, Axes, Bar, Mark, Series};
use super::tell::Run;
use crate::harness::table::{Cell, Row};
use crate::ladder::steps::{STEPS, Step};

/// Windows that are told, as they stand in the tables.
pub(super) const SIZES: [&str; 2] = ["3", "9"];

pub(super) const BEST: &str = "best_us_per_frame";

/// The story's steps with the precision each is told in.
pub(super) fn story() -> impl Iterator<Item = (&'static Step, &'static str)> {
    STEPS.iter().map(|s| (s, s.told_in().word()))
}

fn colour(step: &Step) -> usize {
    match step.name {
        "baseline" => 5,
        n if n.starts_with("route") => 3,
        n if n.starts_with("opt") => 0,
        n if n.starts_with("library") => 4,
        _ => 2,
    }
}

/// The best time of a copy from the host, per frame: the floor under everything.
pub(super) fn wire_floor(run: &Run) -> Option<Cell> {
    let rows = run.table("wire.csv")?.rows().filter(|r| r.is(&[("direction", "h2d")]));
    rows.filter_map(|r| r.cell("us_per_frame")).min_by(|a, b| a.value.total_cmp(&b.value))
}

/// Whether the checks say that all steps of a window found the same.
fn same_clusters(run: &Run, size: &str) -> &'static str {
    let mut checks =
        run.table("checks.csv").into_iter().flat_map(|t| t.rows()).filter(|r| r.is(&[("size", size)]));
    match checks.next() {
        None => " times less.",
        Some(first) if first.text("equal") == "yes" && checks.all(|r| r.text("equal") == "yes") => {
            " times less. Every step of one precision and number of lanes finds the same clusters, value for value \
             (checks.csv)."
        }
        Some(_) => {
            " times less. NOT every step found the same clusters: see checks.csv before trusting a time."
        }
    }
}

/// A bar a step.
pub(super) fn arc(book: &mut Book, run: &Run) {
    for size in SIZES {
        let told: Vec<(&Step, &str, Row<'_>, Cell)> = story()
            .filter_map(|(s, p)| {
                let row = run.step(s.name, size, p)?;
                Some((s, p, row, row.cell(BEST)?))
            })
            .collect();
        let (Some(first), Some(fastest)) =
            (told.first(), told.iter().min_by(|a, b| a.3.value.total_cmp(&b.3.value)))
        else {
            continue;
        };
        book.section(&format!("The ladder, {size}x{size}"));
        if size == SIZES[0] {
            book.para(Text::new().t(
                "How to read it: a frame has to be copied in, judged and copied out, and a host has to ask for it all. What \
                 takes longest binds. An optimization buys the distance between the bar that it attacks and the \
                 next-tallest one, and nothing when the bar did not bind.",
            ));
            let launches =
                run.engine("opt1", size, "f64f32", "kernel").and_then(|r| r.cell("count_per_frame"));
            if let Some(n) = launches.filter(|n| n.value > 1.5) {
                book.para(
                    Text::new()
                        .t("One difference from the published ladder must be known: the steps opt1 to opt7 launch ")
                        .n(&n)
                        .t(
                            " kernels a frame, where the published finder launches one that appends through an atomic \
                             cursor. What that costs in each step is told below, in a section of its own.",
                        ),
                );
            }
        }
        book.para(
            Text::new()
                .t(format!("{} takes ", first.0.title))
                .n(&first.3)
                .t(format!(" us a frame at {size}x{size}. The fastest step, {}, takes ", fastest.0.title))
                .n(&fastest.3)
                .t(" us: ")
                .of(first.3.value / fastest.3.value, &[&first.3, &fastest.3])
                .t(same_clusters(run, size)),
        );
        let bars: Vec<Bar> = told
            .iter()
            .map(|(s, p, row, cell)| Bar {
                label: s.title.into(),
                value: cell.value,
                words: short(cell.value),
                about: format!(
                    "{cell}; {p}, {} threads, spread {} %",
                    row.text("threads"),
                    row.text("spread_percent")
                ),
                colour: colour(s),
            })
            .collect();
        let marks: Vec<Mark> = wire_floor(run)
            .map(|c| Mark { value: c.value, label: format!("the wire, {} us", short(c.value)) })
            .into_iter()
            .collect();
        let title =
            format!("{size}x{size}: {} to {} us a frame", short(first.3.value), short(fastest.3.value));
        book.figure(
            &format!("arc_{size}x{size}"),
            charts::bars(
                &title,
                "best of the warm repetitions; f64 sums down to opt6, f32 from opt7 on",
                "us a frame",
                &bars,
                &marks,
            ),
            Text::new().t(format!("ladder.csv, size = {size}, {BEST}.")),
        );
        for now in &told[1..] {
            let before = now.0.follows().and_then(|b| told.iter().find(|t| t.0.name == b.name));
            book.para(against(run, size, before, now));
        }
    }
}

/// What a step changed, and by how much; with a probe also what it left standing.
fn against(
    run: &Run,
    size: &str,
    before: Option<&(&Step, &str, Row<'_>, Cell)>,
    now: &(&Step, &str, Row<'_>, Cell),
) -> Text {
    let (step, precision, _, cell) = now;
    let mut text = Text::new().t(format!("{}: {}. ", step.title, step.change)).n(cell).t(" us a frame");
    if let Some(before) = before {
        let ratio = before.3.value / cell.value;
        text = match ratio {
            r if r >= 1.03 => {
                text.t(", ").of(r, &[&before.3, cell]).t(format!(" times faster than {}", before.0.name))
            }
            r if r <= 0.97 => text
                .t(", ")
                .of(1.0 / r, &[&before.3, cell])
                .t(format!(" times slower than {}", before.0.name)),
            _ => text.t(format!(
                ", no different from {} (within 3 %): it attacked a bar that did not bind",
                before.0.name
            )),
        };
    }
    let mut engines: Vec<(&str, Cell)> = ["h2d", "kernel", "d2h"]
        .into_iter()
        .filter_map(|e| Some((e, run.engine(step.name, size, precision, e)?.cell("busy_us_per_frame")?)))
        .collect();
    engines.sort_by(|a, b| b.1.value.total_cmp(&a.1.value));
    let mut engines = engines.into_iter();
    let Some((engine, busy)) = engines.next() else { return text.t(".") };
    let next = engines.next();
    let share = busy.value / cell.value;
    text = text.t(format!(". The busiest engine is {} with ", words(engine))).n(&busy).t(" us a frame");
    if share < 0.85 {
        return text
            .t(", ")
            .of(100.0 * share, &[&busy, cell])
            .t(" % of the time: the rest is waiting, launches and the host.");
    }
    text = text.t(", which is what binds now");
    if share > 1.02 {
        text = text.t(
            " (under the probe, where kernels of several streams overlap less; without it they are done sooner)",
        );
    }
    match next {
        Some((engine, cell)) => text
            .t(format!(
                "; the next-tallest bar, as far as an attack on this one can get, is {} with ",
                words(engine)
            ))
            .n(&cell)
            .t(" us."),
        None => text.t("."),
    }
}

fn words(engine: &str) -> &'static str {
    match engine {
        "h2d" => "the copy in",
        "kernel" => "the kernels",
        "d2h" => "the copy out",
        _ => "the copies within the GPU",
    }
}

/// Page faults beside the time.
pub(super) fn faults(book: &mut Book, run: &Run) {
    if run.table("ladder.csv").is_none() {
        return;
    }
    let mut begun = false;
    for size in SIZES {
        let told: Vec<(&Step, Cell, Cell)> = story()
            .filter(|(s, _)| s.on_gpu())
            .filter_map(|(s, p)| {
                let row = run.step(s.name, size, p)?;
                Some((s, row.cell("plateau_faults_per_frame")?, row.cell(BEST)?))
            })
            .collect();
        if told.is_empty() {
            continue;
        }
        if !begun {
            book.section("Page faults: what owned results cost");
            begun = true;
        }
        let bars: Vec<Bar> = told
            .iter()
            .map(|(s, faults, time)| Bar {
                label: s.title.into(),
                // Below a fault in a hundred frames it is none.
                value: if faults.value < 0.01 { 0.0 } else { faults.value },
                words: format!("{} ({} us)", short(faults.value), short(time.value)),
                about: faults.to_string(),
                colour: if s.allocates() { 4 } else { 2 },
            })
            .collect();
        book.figure(
            &format!("faults_{size}x{size}"),
            charts::bars(
                &format!("{size}x{size}: page faults a frame, once warm"),
                "orange steps allocate their results, green ones lend them; in brackets us a frame",
                "minor page faults a frame",
                &bars,
                &[],
            ),
            Text::new().t("ladder.csv, plateau_faults_per_frame."),
        );
        let find = |name: &str| told.iter().find(|(s, _, _)| s.name == name);
        if let (Some(owned), Some(lent)) = (find("opt5"), find("opt6")) {
            let (us, count) = (owned.2.value - lent.2.value, owned.1.value - lent.1.value);
            let mut text = Text::new()
                .t(format!("At {size}x{size} opt5 and opt6 differ in nothing but ownership: "))
                .n(&owned.1)
                .t(" faults and ")
                .n(&owned.2)
                .t(" us a frame against ")
                .n(&lent.1)
                .t(" and ")
                .n(&lent.2)
                .t(".");
            if count > 1.0 && us > 0.0 {
                text = text
                    .t(" That is ")
                    .of(us / count, &[&owned.2, &lent.2, &owned.1, &lent.1])
                    .t(" us a fault, the copy included.");
            }
            book.para(text);
        }
    }
}

/// Energy a frame.
pub(super) fn energy(book: &mut Book, run: &Run) {
    let mut begun = false;
    for size in SIZES {
        let bars: Vec<Bar> = story()
            .filter_map(|(s, p)| {
                let cell = run.step(s.name, size, p)?.cell("energy_mj_per_frame")?;
                Some(Bar {
                    label: s.title.into(),
                    value: cell.value,
                    words: short(cell.value),
                    about: cell.to_string(),
                    colour: colour(s),
                })
            })
            .collect();
        if bars.is_empty() {
            continue;
        }
        if !begun {
            book.section("Energy");
            begun = true;
        }
        book.figure(
            &format!("energy_{size}x{size}"),
            charts::bars(
                &format!("{size}x{size}: energy of the GPU a frame"),
                "NVML's energy counter over at least half a second of work, idle power included",
                "mJ a frame",
                &bars,
                &[],
            ),
            Text::new().t("ladder.csv, energy_mj_per_frame."),
        );
    }
}

/// CPU threads.
pub(super) fn threads(book: &mut Book, run: &Run) {
    let Some(table) = run.table("baseline_threads.csv") else { return };
    book.section("The CPU baseline, by threads");
    let mut series = Vec::new();
    for (i, (size, precision)) in
        [("3", "f32"), ("3", "f64f32"), ("9", "f32"), ("9", "f64f32")].iter().enumerate()
    {
        let rows =
            table.rows().filter(|r| r.is(&[("step", "baseline"), ("size", size), ("precision", precision)]));
        let points: Vec<(f64, f64, String)> = rows
            .filter_map(|r| {
                let y = r.cell(BEST)?;
                Some((r.number("threads")?, y.value, y.to_string()))
            })
            .collect();
        series.push(Series {
            dots: true,
            ..Series::line(&format!("{size}x{size} {precision}"), [0, 5, 4, 1][i], points)
        });
    }
    let axes = Axes { x: "threads", y: "us a frame", log_x: true, log_y: true };
    book.figure(
        "threads",
        charts::lines("The CPU finder by threads", "best of the warm repetitions, four lanes", axes, &series),
        Text::new().t("baseline_threads.csv, best_us_per_frame."),
    );
}

#[cfg(test)]
mod tests {
    use super::super::tell::tests::run_with;
    use super::*;

    #[test]
    fn the_arc_is_told_from_the_numbers() {
        let ladder = "step,size,precision,best_us_per_frame\n\
                      baseline,3,f64f32,40\nopt4,3,f64f32,80\nrouteA,3,f64f32,20\nopt5,3,f64f32,79\nopt6,3,f64f32,25\n\
                      opt7,3,f32,24\n";
        let probe = "step,size,precision,engine,busy_us_per_frame,count_per_frame\n\
                     opt1,3,f64f32,kernel,24,5\n\
                     opt5,3,f64f32,h2d,9,1\nopt5,3,f64f32,kernel,24,5\nopt5,3,f64f32,d2h,4,1\n\
                     opt6,3,f64f32,h2d,9,1\nopt6,3,f64f32,kernel,24,5\nopt6,3,f64f32,d2h,4,1\n\
                     opt7,3,f32,h2d,9,1\nopt7,3,f32,kernel,30,5\nopt7,3,f32,d2h,4,1\n";
        let text = run_with(&[("ladder.csv", ladder), ("probe.csv", probe)], |run| {
            let mut book = Book::new("T", "S");
            arc(&mut book, run);
            book.plain()
        });
        for words in [
            "CPU, best thread count takes 40 us a frame at 3x3. The fastest step, route A: a graph a frame, takes 20 us: 2 times",
            "the steps opt1 to opt7 launch 5 kernels a frame",
            // opt3 is not in this run: nothing is compared with anything else instead.
            "staging copy. 80 us a frame.",
            "20 us a frame, 4 times faster than opt4.",
            "79 us a frame, no different from opt4 (within 3 %): it attacked a bar that did not bind. The busiest engine is \
             the kernels with 24 us a frame, 30.4 % of the time",
            "25 us a frame, 3.16 times faster than opt5. The busiest engine is the kernels with 24 us a frame, which is what \
             binds now; the next-tallest bar, as far as an attack on this one can get, is the copy in with 9 us.",
            "which is what binds now (under the probe,",
        ] {
            assert!(text.contains(words), "{words}\nin\n{text}");
        }
    }

    #[test]
    fn steps_that_found_something_else_are_not_praised() {
        let ladder = "step,size,precision,best_us_per_frame\nopt1,3,f64f32,40\n";
        let told = |equal: &str| {
            let checks = format!("size,equal\n3,yes\n3,{equal}\n");
            run_with(&[("ladder.csv", ladder), ("checks.csv", &checks)], |run| same_clusters(run, "3"))
        };
        assert!(told("yes").contains("finds the same clusters"));
        assert!(told("no: opt3").contains("NOT every step"));
    }
}
