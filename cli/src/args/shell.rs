//! Words for every subcommand, and those about the command line itself.

use std::path::PathBuf;

use clap::Args;
use clap_complete::Shell;

/// How much is said.
#[derive(Clone, Copy, Debug, Args)]
pub struct TalkArgs {
    /// Say nothing but errors (and what --json asks for)
    #[arg(short, long, global = true, conflicts_with = "verbose", help_heading = "What is said")]
    pub quiet: bool,
    /// Tell on stderr what was chosen and why
    #[arg(short, long, global = true, help_heading = "What is said")]
    pub verbose: bool,
}

#[derive(Debug, Args)]
pub struct CompletionsArgs {
    /// The shell
    #[arg(value_enum)]
    pub shell: Shell,
}

#[derive(Debug, Args)]
pub struct ManArgs {
    /// Folder for the pages of the program and of all subcommands; without it the program's page is printed
    #[arg(value_name = "DIR")]
    pub folder: Option<PathBuf>,
}
