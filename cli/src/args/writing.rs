//! What becomes of files that are there already.

use std::path::PathBuf;

use clap::Args;
use scheidegg::io::Place;

/// What becomes of files that are there already.
#[derive(Clone, Debug, Default, Args)]
#[command(next_help_heading = "Results")]
pub struct WritingArgs {
    /// Refuse a result whose name is taken: at the start, and again when the file gets its name. Without this a complete
    /// result replaces what has its name; one that was stopped, or ended at a fault, lies beside it as NAME.partial.EXT
    #[arg(long)]
    pub no_clobber: bool,
    /// Remove the hidden .partial files of runs that were killed from the folders of the results
    #[arg(long)]
    pub clean: bool,
}

impl WritingArgs {
    /// Where a result goes.
    pub fn place(&self, path: impl Into<PathBuf>) -> Place {
        Place { path: path.into(), keep: self.no_clobber }
    }
}
