//! Lines on standard output and standard error. A line that cannot be written never ends the program: the run goes on, and
//! the exit status says so where it matters.

use std::fmt::Arguments;
use std::io::{ErrorKind, Write, stderr, stdout};
use std::sync::atomic::{AtomicBool, Ordering};

use crate::talk;

/// Prints a line on standard output, as `println!` does, and remembers when that failed.
macro_rules! say {
    ($($words:tt)*) => { $crate::say::line(format_args!($($words)*)) };
}
/// Prints a line on standard error, as `eprintln!` does; where that fails, nobody is there to be told.
macro_rules! tell {
    ($($words:tt)*) => { $crate::say::aside(format_args!($($words)*)) };
}
pub(crate) use {say, tell};

/// What was to be said on standard output could not be written.
static LOST: AtomicBool = AtomicBool::new(false);
/// Standard output takes a result: words go to standard error.
static DIVERTED: AtomicBool = AtomicBool::new(false);

/// Prints a line on standard output, unless nothing is to be said.
pub fn line(words: Arguments<'_>) {
    if !talk::is_quiet() {
        bytes(format!("{words}\n").as_bytes());
    }
}

/// Prints what was asked for on standard output, however little is to be said.
pub fn bytes(words: &[u8]) {
    if DIVERTED.load(Ordering::Relaxed) {
        let _ = stderr().lock().write_all(words);
        return;
    }
    let mut out = stdout().lock();
    written(out.write_all(words).and_then(|()| out.flush()));
}

/// Prints a line on standard error.
pub fn aside(words: Arguments<'_>) {
    let _ = writeln!(stderr().lock(), "{words}");
}

/// Sends what is said from now on to standard error, because standard output takes a result.
pub fn divert() {
    DIVERTED.store(true, Ordering::Relaxed);
}

/// Remembers that something could not be written to standard output. A reader that has gone, as `head` does, is no failure.
pub fn written(outcome: std::io::Result<()>) {
    if let Err(e) = outcome
        && e.kind() != ErrorKind::BrokenPipe
        && !LOST.swap(true, Ordering::Relaxed)
    {
        aside(format_args!("scheidegg: standard output: {e}"));
    }
}

/// The exit status of a program that was to end with this one: 1 when all went well but not everything could be said.
pub fn status(status: u8) -> u8 {
    if status == 0 && LOST.load(Ordering::Relaxed) { 1 } else { status }
}
