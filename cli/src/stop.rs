//! Signals: the first one ends a run at a whole frame, the second one the program at once.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI32, Ordering};

use scheidegg::{Error, Result};

use crate::say::tell;

/// The signal that came first, 0 before that.
static FIRST: AtomicI32 = AtomicI32::new(0);

/// A signal that asked the program to end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Signal(i32);

impl Signal {
    /// The exit status of a program that it ended: 128 and its number, as shells have it.
    pub fn status(self) -> u8 {
        u8::try_from(128 + self.0).unwrap_or(u8::MAX)
    }
}

impl fmt::Display for Signal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            1 => f.write_str("SIGHUP"),
            2 => f.write_str("SIGINT"),
            15 => f.write_str("SIGTERM"),
            n => write!(f, "signal {n}"),
        }
    }
}

/// The signal that asked the program to end, if one has.
pub fn signal() -> Option<Signal> {
    match FIRST.load(Ordering::Relaxed) {
        0 => None,
        n => Some(Signal(n)),
    }
}

/// The signal that ended a run, in words.
pub fn by() -> String {
    signal().map_or("from within".into(), |s| s.to_string())
}

/// The name of the signal that ended a run which was `stopped`.
pub fn name(stopped: bool) -> Option<String> {
    stopped.then(by)
}

/// The flag that a signal sets which asks the program to end: SIGINT (Ctrl-C), SIGTERM or SIGHUP. One that was ignored when
/// the program started, as `nohup` and the background jobs of a script have it, stays ignored.
///
/// # Errors
/// When the system takes no handler.
pub fn on_signal() -> Result<Arc<AtomicBool>> {
    let flag = Arc::new(AtomicBool::new(false));
    system::watch(flag.clone())
        .map_err(|e| Error::Other(format!("signals (Ctrl-C) cannot be caught: {e}")))?;
    Ok(flag)
}

/// What a signal does.
fn received(number: i32, flag: &AtomicBool) {
    if flag.swap(true, Ordering::Relaxed) {
        scheidegg::io::discard_outputs();
        std::process::exit(i32::from(Signal(number).status()));
    }
    FIRST.store(number, Ordering::Relaxed);
    tell!("\nscheidegg: stopping at a whole frame (again to stop at once)");
}

#[cfg(unix)]
mod system {
    use std::io;
    use std::sync::Arc;
    use std::sync::atomic::AtomicBool;
    use std::thread;

    use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM, SIGXFSZ};
    use signal_hook::iterator::Signals;

    /// Calls [`received`](super::received) on a thread of its own for every signal that is not ignored.
    pub fn watch(flag: Arc<AtomicBool>) -> io::Result<()> {
        let ignored = ignored();
        let heard = [SIGINT, SIGTERM, SIGHUP].into_iter().filter(|s| ignored >> (s - 1) & 1 == 0);
        let mut signals = Signals::new(heard)?;
        thread::Builder::new().name("signals".into()).spawn(move || {
            signals.forever().for_each(|number| super::received(number, &flag));
        })?;
        Ok(())
    }

    /// Makes a file that grows beyond what the system allows (`ulimit -f`) an error of the write, as a full disk is, and not
    /// the end of the program.
    pub fn catch_limits() {
        // Where the system takes no handler, all is as it was.
        let _ = signal_hook::flag::register(SIGXFSZ, Arc::default());
    }

    /// The signals that are ignored, a bit each, where the system tells it in a file (Linux); else none.
    fn ignored() -> u64 {
        let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
        let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
        mask.and_then(|m| u64::from_str_radix(m.trim(), 16).ok()).unwrap_or(0)
    }
}

#[cfg(not(unix))]
mod system {
    use std::io;
    use std::sync::Arc;
    use std::sync::atomic::AtomicBool;

    /// Calls [`received`](super::received) for every Ctrl-C.
    pub fn watch(flag: Arc<AtomicBool>) -> io::Result<()> {
        ctrlc::set_handler(move || super::received(2, &flag)).map_err(io::Error::other)
    }

    /// There is no such signal.
    pub fn catch_limits() {}
}

pub use system::catch_limits;
