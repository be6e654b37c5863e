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
    let (mut sources, mut faults) = match options.keep_going {
        false => (open_sources(paths, options)?, Vec::new()),
        true => (Vec::new(), Vec::new()),
    };
    for path in paths.iter().filter(|_| options.keep_going) {
        match open_sources(std::slice::from_ref(path), options) {
            Ok(some) => sources.extend(some),
            // A name that was mistyped is no damage.
            Err(e) if !path.exists() => return Err(e.into()),
            Err(e) => faults.push(e),
        }
    }
    if let Some(empty) = sources.iter().find(|s| s.remaining() == Some(0)) {
        return Err(Error::file(empty.name(), "holds no frames").into());
    }
    match (sources.len(), options.keep_going) {
        (0, _) => Err(match faults.into_iter().next() {
            Some(fault) => fault.into(),
            None => Failure::Usage(Error::param(option, "nothing", "a file of frames")),
        }),
        (1, false) => Ok(sources.remove(0)),
        // One file too: its rest is given up at a fault.
        (_, keep_going) => {
            let chain = Chain::forced(sources, force)?.keep_going(keep_going);
            Ok(Box::new(faults.into_iter().fold(chain, Chain::without)))
        }
    }
}
