//! Five kernels a frame, where the published finder has one: what that costs, step by step.

use scheidegg_kernels::device::abi;

use super::book::{Book, Text};
use super::rungs::{BEST, SIZES, story};
use super::tell::Run;
use crate::harness::table::{Cell, Row};

/// The kernels of a step, from `probe_kernels.csv`.
pub(super) struct Kernels<'a> {
    /// Those that judge (one, or two where the last frames of a chunk take another): us a frame.
    pub judges: Vec<Cell>,
    /// Those that bring the results into order: their rows.
    pub gather: Vec<Row<'a>>,
}

impl<'a> Kernels<'a> {
    /// The kernels of a step that was probed.
    pub(super) fn of(run: &'a Run, step: &str, size: &str, precision: &str) -> Option<Kernels<'a>> {
        let wanted = [("step", step), ("size", size), ("precision", precision)];
        let rows: Vec<Row<'a>> = run.table("probe_kernels.csv")?.rows().filter(|r| r.is(&wanted)).collect();
        // Whatever does not bring into order judges, by whatever name.
        let orders = [abi::SCAN, abi::OFFSETS, abi::PLACE, abi::COPY];
        let (gather, judges): (Vec<Row<'a>>, Vec<Row<'a>>) =
            rows.into_iter().partition(|r| orders.contains(&r.text("kernel")));
        let judges: Vec<Cell> = judges.iter().filter_map(|r| r.cell("us_per_frame")).collect();
        (!judges.is_empty()).then_some(Kernels { judges, gather })
    }

    /// Time of all that judge, in us a frame.
    fn judging_us(&self) -> f64 {
        self.judges.iter().map(|c| c.value).sum()
    }

    /// Time of each kernel that gathers, in us a frame.
    pub(super) fn times(&self) -> Vec<Cell> {
        self.gather.iter().filter_map(|r| r.cell("us_per_frame")).collect()
    }

    /// Time of all that gather, in us a frame.
    pub(super) fn gather_us(&self) -> f64 {
        self.times().iter().map(|c| c.value).sum()
    }

    /// The one of them that takes longest.
    fn longest(&self) -> Option<Row<'a>> {
        let time = |r: &Row<'_>| r.number("us_per_frame").unwrap_or(0.0);
        self.gather.iter().copied().max_by(|a, b| time(a).total_cmp(&time(b)))
    }
}

/// Adds a number that is the sum of cells.
pub(super) fn sum(text: Text, cells: &[Cell]) -> Text {
    let all: Vec<&Cell> = cells.iter().collect();
    text.of(cells.iter().map(|c| c.value).sum(), &all)
}

/// The section.
pub(super) fn gathering(book: &mut Book, run: &Run) {
    let probed = |name: &str, size: &str| {
        let (step, precision) = story().find(|(s, _)| s.name == name)?;
        Some((step, precision, Kernels::of(run, name, size, precision)?))
    };
    let Some((_, _, first)) = SIZES.iter().find_map(|size| probed("opt4", size)) else { return };
    book.section("A frame is several kernels here and one in the published finder");
    if first.gather.is_empty() {
        book.para(Text::new().t("Not any more: the steps of this run launch one kernel a frame."));
        return;
    }
    book.para(Text::new().t(format!(
        "The published finder stores from the kernel that judges: a pixel with a cluster takes the next place from an \
         atomic cursor, and clusters lie in the order in which the GPU happened to run. Here a frame's clusters lie in \
         raster order, the same on every machine. The kernel that judges leaves them in tiles, and {} more kernels bring \
         them into order ({}; kernels-rs/src/device/gather.rs). They are made for many frames at once; the steps opt1 to \
         opt7 launch all of them for every single frame. So these steps are not the published ones to the launch: what \
         the difference costs is in the table, from the probes.",
        first.gather.len(),
        first.gather.iter().map(|r| r.text("kernel")).collect::<Vec<_>>().join(", "),
    )));
    for size in SIZES {
        let mut rows = Vec::new();
        for (step, precision) in story() {
            let Some(kernels) = Kernels::of(run, step.name, size, precision) else { continue };
            let Some(time) = run.step(step.name, size, precision).and_then(|r| r.cell(BEST)) else {
                continue;
            };
            let count = run.engine(step.name, size, precision, "kernel");
            let count = count.and_then(|r| r.cell("count_per_frame"));
            let times = kernels.times();
            let cells: Vec<&Cell> = times.iter().chain([&time]).collect();
            rows.push(vec![
                Text::new().t(step.title),
                Text::new().n(&time),
                count.map_or_else(Text::new, |c| Text::new().n(&c)),
                sum(Text::new(), &kernels.judges),
                sum(Text::new(), &times),
                Text::new().of(100.0 * kernels.gather_us() / time.value, &cells),
            ]);
        }
        if rows.is_empty() {
            continue;
        }
        book.grid(
            &[
                &format!("step, {size}x{size}"),
                "us a frame",
                "kernels a frame",
                "judging us",
                "into order us, added up",
                "of the time that passes, %",
            ],
            rows,
        );
        book.para(verdict(run, size));
    }
}

/// Where it matters, from the numbers.
fn verdict(run: &Run, size: &str) -> Text {
    let time = |name: &str, precision: &str| run.step(name, size, precision).and_then(|r| r.cell(BEST));
    let mut text = Text::new().t(format!("At {size}x{size}: "));
    // opt1 to opt4: none of their engines binds, so a kernel's time is at most a part of the waiting.
    let mut shares: Vec<(&str, f64, Vec<Cell>)> = Vec::new();
    for name in ["opt1", "opt2", "opt3", "opt4"] {
        if let (Some(kernels), Some(time)) = (Kernels::of(run, name, size, "f64f32"), time(name, "f64f32")) {
            let share = 100.0 * kernels.gather_us() / time.value;
            let mut cells = kernels.times();
            cells.push(time);
            shares.push((name, share, cells));
        }
    }
    for (i, (name, share, cells)) in shares.iter().enumerate() {
        let cells: Vec<&Cell> = cells.iter().collect();
        let before = if i == 0 { "the kernels that bring into order are " } else { ", " };
        text = text.t(before).of(*share, &cells).t(format!(" % of {name}"));
    }
    let most = shares.iter().map(|s| s.1).fold(0.0, f64::max);
    if !shares.is_empty() {
        text = text.t(match most {
            m if m < 15.0 => ". One kernel instead of all would change little there: the time is the host's.",
            m if m < 30.0 => {
                ". One kernel instead of all would make the last of these faster by that much at most; the order of the \
                 steps would stay."
            }
            _ => ". That is a good part of the time: these steps are slower than the published ones for it.",
        });
    }
    if let (Some(plain), Some(graph)) = (time("opt4", "f64f32"), time("routeA", "f64f32"))
        && plain.value > graph.value
    {
        text = text
            .t(" What several launches cost the host is what route A saves by sending them as one: ")
            .of(plain.value - graph.value, &[&plain, &graph])
            .t(" us a frame against opt4.");
    }
    let busy = |e: &str| run.engine("opt6", size, "f64f32", e).and_then(|r| r.cell("busy_us_per_frame"));
    if let (Some(kernels), Some(time), Some(h2d), Some(d2h), Some(busy)) = (
        Kernels::of(run, "opt6", size, "f64f32"),
        time("opt6", "f64f32"),
        busy("h2d"),
        busy("d2h"),
        busy("kernel"),
    ) {
        let times = kernels.times();
        let (copy, direction) = if h2d.value >= d2h.value { (h2d, "in") } else { (d2h, "out") };
        if busy.value >= 0.85 * time.value && kernels.gather_us() > kernels.judging_us() {
            text = text
                .t(" In opt6 it decides: the kernels bind (busy ")
                .n(&busy)
                .t(" us of ")
                .n(&time)
                .t("); added up, ");
            text = sum(text, &times).t(" us of kernels go into the order and ");
            text = sum(text, &kernels.judges).t(" us into judging. With judging alone ").t(
                match kernels.judging_us() < copy.value {
                    true => "the copies would bind",
                    false => "the kernels would bind still",
                },
            );
            text = text.t(format!(" (copy {direction} busy ")).n(&copy).t(" us).");
        } else {
            text = text.t(" In opt6 they take ");
            text = sum(text, &times).t(" us of ").n(&time).t(" us.");
        }
        if let Some(longest) = kernels.longest()
            && let (Some(us), Some(threads)) = (longest.cell("us_per_frame"), longest.cell("threads"))
            && threads.value <= 1024.0
        {
            text = text
                .t(format!(" The longest of them, {}, takes ", longest.text("kernel")))
                .n(&us)
                .t(" us with ")
                .whole(&threads)
                .t(" threads, a single block: it takes a block a frame, and one frame leaves the GPU idle beside it.");
        }
    }
    if let Some(kernels) = Kernels::of(run, "many", size, "f32") {
        text = text.t(" Over many frames at once the price is gone: in the step many they take ");
        text = sum(text, &kernels.times()).t(" us a frame.");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::super::tell::tests::run_with;
    use super::*;

    #[test]
    fn the_verdict_follows_the_numbers() {
        let ladder = |opt4: &str, opt6: &str| {
            format!(
                "step,size,precision,best_us_per_frame\nopt4,3,f64f32,{opt4}\nrouteA,3,f64f32,50\nopt6,3,f64f32,{opt6}\n"
            )
        };
        let kernels = "step,size,precision,kernel,us_per_frame,threads\n\
                       opt4,3,f64f32,frame_f64_3x3,5,46332\nopt4,3,f64f32,scan,13,256\nopt4,3,f64f32,copy,7,999999\n\
                       opt6,3,f64f32,frame_f64_3x3,5,46332\nopt6,3,f64f32,scan,13,256\nopt6,3,f64f32,copy,7,999999\n";
        let probe = "step,size,precision,engine,busy_us_per_frame,count_per_frame\n\
                     opt6,3,f64f32,h2d,9,1\nopt6,3,f64f32,d2h,12,1\nopt6,3,f64f32,kernel,25,3\n";
        let told = |opt4: &str, opt6: &str| {
            let tables =
                [("ladder.csv", &*ladder(opt4, opt6)), ("probe_kernels.csv", kernels), ("probe.csv", probe)];
            run_with(&tables, |run| verdict(run, "3").plain())
        };
        let text = told("200", "26");
        assert!(text.contains("10 % of opt4. One kernel instead of all would change little"), "{text}");
        assert!(text.contains("saves by sending them as one: 150 us"), "{text}");
        assert!(
            text.contains("In opt6 it decides: the kernels bind (busy 25 us of 26); added up, 20 us"),
            "{text}"
        );
        assert!(
            text.contains(
                "5 us into judging. With judging alone the copies would bind (copy out busy 12 us)"
            ),
            "{text}"
        );
        assert!(text.contains("scan, takes 13 us with 256 threads"), "{text}");
        let text = told("40", "60");
        assert!(text.contains("50 % of opt4. That is a good part"), "{text}");
        assert!(!text.contains("route A saves"), "{text}");
        assert!(text.contains("In opt6 they take 20 us of 60 us"), "{text}");
    }
}
