//! A watch over tests that could wait for ever: a hang is a failure that names what hangs.

use std::cell::RefCell;
use std::io::Write;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread;
use std::time::Duration;

/// How long a test or a check may take, unless the environment variable `SCHEIDEGG_WATCHDOG` says other seconds.
const LIMIT: Duration = Duration::from_secs(90);

/// Ends the process with a failure unless it is dropped in time.
#[derive(Debug)]
#[must_use = "the watch ends when it is dropped"]
pub struct Watch {
    _end: Sender<()>,
}

impl Watch {
    /// Over something of this name. When it takes too long, that is said on the standard error output, whatever becomes
    /// of the output of tests, and the process ends with status 101.
    pub fn over(what: impl Into<String>) -> Watch {
        let what = what.into();
        Watch::with(limit(), move |limit| {
            let seconds = limit.as_secs();
            let words = format!(
                "\nHANGS: {what}: not done after {seconds} s (SCHEIDEGG_WATCHDOG sets another limit)\n"
            );
            // Not by `eprintln`, which a test may have captured.
            let _ = std::io::stderr().write_all(words.as_bytes());
            std::process::exit(101)
        })
    }

    fn with(limit: Duration, alarm: impl FnOnce(Duration) + Send + 'static) -> Watch {
        let (end, ended) = channel::<()>();
        // Without a thread to spare there is no watch, and the test goes on.
        let _ = thread::Builder::new().name("watchdog".into()).spawn(move || {
            if ended.recv_timeout(limit) == Err(RecvTimeoutError::Timeout) {
                alarm(limit);
            }
        });
        Watch { _end: end }
    }
}

fn limit() -> Duration {
    let given = std::env::var("SCHEIDEGG_WATCHDOG").ok().and_then(|s| s.parse().ok());
    given.map_or(LIMIT, Duration::from_secs)
}

/// Watches over the test that runs on this thread until the thread ends. Where tests share the main thread, nothing is
/// watched.
pub fn over_this_test() {
    thread_local! {
        static WATCH: RefCell<Option<Watch>> = const { RefCell::new(None) };
    }
    let thread = thread::current();
    let Some(name) = thread.name().filter(|name| *name != "main") else { return };
    WATCH.with_borrow_mut(|watch| {
        watch.get_or_insert_with(|| Watch::over(format!("test {name}")));
    });
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, Ordering};

    #[test]
    fn what_takes_too_long_is_noticed_and_nothing_else() {
        for (takes, noticed) in [(0, false), (200, true)] {
            let rang = Arc::new(AtomicBool::new(false));
            let bell = Arc::clone(&rang);
            let watch = Watch::with(Duration::from_millis(50), move |_| bell.store(true, Ordering::Release));
            thread::sleep(Duration::from_millis(takes));
            drop(watch);
            thread::sleep(Duration::from_millis(100));
            assert_eq!(rang.load(Ordering::Acquire), noticed, "{takes} ms");
        }
    }

    #[test]
    fn a_thread_has_one_watch() {
        over_this_test();
        over_this_test();
    }
}
