//! The command line.

mod compute;
mod find;
mod finder;
mod frames;
pub mod help;
mod number;
mod results;
mod shell;
mod simulate;
mod writing;

use clap::builder::styling::{AnsiColor, Styles};
use clap::{Parser, Subcommand};

pub use compute::{BackendArgs, BackendsArgs, BenchArgs, CpuArgs};
pub use find::{FindArgs, TrainArgs};
pub use finder::FinderArgs;
pub use frames::{InputArgs, LayoutArgs, ReadingArgs};
pub use results::{CompareArgs, InfoArgs};
pub use shell::{CompletionsArgs, ManArgs, TalkArgs};
pub use simulate::{DemoArgs, Format, PhysicsArgs, SimulateArgs};
pub use writing::WritingArgs;

/// Version and commit.
const VERSION: &str = concat!(env!("CARGO_PKG_VERSION"), " (", env!("SCHEIDEGG_COMMIT"), ")");

const STYLES: Styles = Styles::styled()
    .header(AnsiColor::Green.on_default().bold())
    .usage(AnsiColor::Green.on_default().bold())
    .literal(AnsiColor::Cyan.on_default())
    .placeholder(AnsiColor::Cyan.on_default());

/// Finds photons in frames of charge-integrating X-ray pixel detectors.
///
/// Exit status: 0 done, 1 failed, or a comparison found a difference, 2 wrong usage, 128 + signal when a signal ended the run
/// (130 for Ctrl-C, 143 for SIGTERM, 129 for SIGHUP): what was found before is written, and the summary says where. A
/// second signal ends the program at once.
#[derive(Debug, Parser)]
#[command(name = "scheidegg", version = VERSION, styles = STYLES, arg_required_else_help = true)]
pub struct Cli {
    #[command(flatten)]
    pub talk: TalkArgs,
    #[command(subcommand)]
    pub command: Command,
}

#[derive(Debug, Subcommand)]
pub enum Command {
    /// Train the pedestal with dark frames, find the photons in data frames, write their clusters
    #[command(after_help = help::FIND, allow_negative_numbers = true)]
    Find(Box<FindArgs>),
    /// Train the pedestal with dark frames and save it, for `find --pedestal`
    #[command(after_help = help::TRAIN, allow_negative_numbers = true)]
    Train(Box<TrainArgs>),
    /// Simulate a MÖNCH in copper fluorescence, find its photons, compare with the truth, draw the report
    #[command(after_help = help::DEMO, allow_negative_numbers = true)]
    Demo(DemoArgs),
    /// Write simulated dark and data frames to files
    #[command(after_help = help::SIMULATE, allow_negative_numbers = true)]
    Simulate(Box<SimulateArgs>),
    /// Say what a file holds and what is wrong with it
    #[command(after_help = help::INFO, allow_negative_numbers = true)]
    Info(InfoArgs),
    /// Compare two results, or two backends on the same frames
    #[command(after_help = help::COMPARE, allow_negative_numbers = true)]
    Compare(Box<CompareArgs>),
    /// Time a backend on frames in files
    #[command(after_help = help::BENCH, allow_negative_numbers = true)]
    Bench(Box<BenchArgs>),
    /// List the backends, and why those that are not available are not
    #[command(after_help = help::BACKENDS, allow_negative_numbers = true)]
    Backends(BackendsArgs),
    /// Print the completions for a shell
    #[command(after_help = help::COMPLETIONS, allow_negative_numbers = true)]
    Completions(CompletionsArgs),
    /// Print the manual page, or write those of all subcommands into a folder
    #[command(after_help = help::MAN, allow_negative_numbers = true)]
    Man(ManArgs),
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }
}
