//! Lines on standard output.

use std::fmt::Arguments;
use std::io::{ErrorKind, Write, stdout};

/// Prints a line, as `println!` does; a reader that has gone, as `head` does, is no failure.
macro_rules! say {
    ($($words:tt)*) => { $crate::say::line(format_args!($($words)*)) };
}
pub(crate) use say;

/// Prints a line.
pub fn line(words: Arguments<'_>) {
    match writeln!(stdout().lock(), "{words}") {
        Err(e) if e.kind() != ErrorKind::BrokenPipe => {
            eprintln!("scheidegg: standard output: {e}");
            std::process::exit(1);
        }
        _ => {}
    }
}
