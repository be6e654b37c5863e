//! How much the program says: `--quiet`, `--verbose`.

use std::fmt::Arguments;
use std::sync::atomic::{AtomicU8, Ordering};

use crate::args::TalkArgs;

const QUIET: u8 = 0;
const USUAL: u8 = 1;
const VERBOSE: u8 = 2;

static LEVEL: AtomicU8 = AtomicU8::new(USUAL);

/// Takes what the command line asks for.
pub fn set(args: &TalkArgs) {
    let level = match (args.quiet, args.verbose) {
        (true, _) => QUIET,
        (false, true) => VERBOSE,
        (false, false) => USUAL,
    };
    LEVEL.store(level, Ordering::Relaxed);
}

/// Whether nothing but errors, and what `--json` asks for, is said.
pub fn is_quiet() -> bool {
    LEVEL.load(Ordering::Relaxed) == QUIET
}

/// Tells on stderr what was chosen and why, with `--verbose`.
macro_rules! detail {
    ($($words:tt)*) => { $crate::talk::line(format_args!($($words)*)) };
}
pub(crate) use detail;

/// A line of [`detail`].
pub fn line(words: Arguments<'_>) {
    if LEVEL.load(Ordering::Relaxed) == VERBOSE {
        crate::say::aside(format_args!("scheidegg: {words}"));
    }
}
