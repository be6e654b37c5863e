//! How far a run is, on stderr: a bar on a terminal, now and then a line elsewhere.

use std::io::IsTerminal;
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use scheidegg::pipeline::Progress;

use crate::say::tell;
use crate::talk;

/// Time between lines when stderr is no terminal.
const PAUSE: Duration = Duration::from_secs(10);

/// Shows how far a run is.
pub struct Display {
    what: &'static str,
    bar: Option<ProgressBar>,
    last: Instant,
}

impl Display {
    /// For a run that is called `what` on the screen.
    pub fn new(what: &'static str) -> Self {
        let bar = (std::io::stderr().is_terminal() && !talk::is_quiet()).then(|| {
            let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr());
            bar.set_style(style("{prefix:>9} {spinner} {pos} frames {msg}"));
            bar.set_prefix(what);
            bar
        });
        Display { what, bar, last: Instant::now() }
    }

    /// Shows this.
    pub fn show(&mut self, p: &Progress) {
        let rate = p.frames as f64 / p.elapsed.as_secs_f64().max(1e-9);
        let mut words = format!("{rate:.0} frames/s");
        if p.clusters > 0 {
            words += &format!(", {:.1} clusters/frame", p.clusters as f64 / p.frames.max(1) as f64);
        }
        if let Some(bar) = &self.bar {
            if let Some(total) = p.total
                && bar.length() != Some(total)
            {
                bar.set_length(total);
                bar.set_style(style("{prefix:>9} [{bar:30}] {pos}/{len} frames, {msg}, {eta} left"));
            }
            bar.set_message(words);
            bar.set_position(p.frames);
        } else if self.last.elapsed() >= PAUSE && !talk::is_quiet() {
            self.last = Instant::now();
            let of = p.total.map_or(String::new(), |t| format!(" of {t}"));
            tell!("{}: {}{of} frames, {words}", self.what, p.frames);
        }
    }
}

impl Drop for Display {
    fn drop(&mut self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}

fn style(template: &str) -> ProgressStyle {
    ProgressStyle::with_template(template)
        .unwrap_or_else(|_| ProgressStyle::default_bar())
        .progress_chars("=> ")
}
