//! Files named on the command line.

use std::path::PathBuf;

use scheidegg::Error;
use scheidegg::io::{OpenOptions, Source, open_sources};
use scheidegg::pipeline::Chain;

use crate::failure::{Failure, Outcome};

/// Opens the files of frames given to an option as one source, in the order given; with `force` also files that do not
/// go together.
pub fn open_all(
    option: &str,
    paths: &[PathBuf],
    options: &OpenOptions,
    force: bool,
) -> Outcome<Box<dyn Source>> {
    let mut sources = open_sources(paths, options)?;
    if let Some(empty) = sources.iter().find(|s| s.remaining() == Some(0)) {
        return Err(Error::file(empty.name(), "holds no frames").into());
    }
    match sources.len() {
        0 => Err(Failure::Usage(Error::param(option, "nothing", "a file of frames"))),
        1 => Ok(sources.remove(0)),
        _ => Ok(Box::new(Chain::forced(sources, force)?)),
    }
}
