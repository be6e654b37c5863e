//! Files named on the command line.

use std::path::{Path, PathBuf};

use scheidegg::io::{OpenOptions, Results, Source, open_results, open_sources};
use scheidegg::pipeline::Chain;
use scheidegg::{ClusterSize, Error, Payload, Result};

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
    match sources.len() {
        0 => Err(Failure::Usage(Error::param(option, "nothing", "a file of frames"))),
        1 => Ok(sources.remove(0)),
        _ => Ok(Box::new(Chain::forced(sources, force)?)),
    }
}

/// Opens a file of clusters. Only `.clust` files have to be told their window and the type of their values.
pub fn results(path: &Path, size: ClusterSize, payload: Payload) -> Result<Box<dyn Results>> {
    match path.extension().is_some_and(|e| e.eq_ignore_ascii_case("clust")) {
        true => open_results(path, Some(size), Some(payload)),
        false => open_results(path, None, None),
    }
}
