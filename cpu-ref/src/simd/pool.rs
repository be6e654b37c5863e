//! Threads that stay: they are woken once a batch.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

/// Turns of waiting before a thread sleeps: batches follow each other closely, and waking takes tens of
/// microseconds.
const TURNS: usize = 4000;

/// The work of a batch, called with the index of the thread.
type Work<'a> = dyn Fn(usize) + Sync + 'a;

/// A pointer to the work that [`Pool::run`] keeps alive while threads use it.
#[derive(Clone, Copy)]
struct Shared(*const Work<'static>);
// SAFETY: what it points to is `Sync`, and `Pool::run` keeps it alive.
unsafe impl Send for Shared {}

struct State {
    work: Option<Shared>,
    epoch: u64,
    busy: usize,
    stop: bool,
    panic: Option<Box<dyn Any + Send>>,
}

struct Desk {
    state: Mutex<State>,
    /// The epoch of the state, to be watched without the lock.
    epoch: AtomicU64,
    begin: Condvar,
    end: Condvar,
}

impl Desk {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// `threads - 1` threads beside the caller's.
pub(super) struct Pool {
    desk: Arc<Desk>,
    threads: Vec<JoinHandle<()>>,
}

impl Pool {
    /// Starts the threads. With `pinned`, thread `i` runs on the `i`-th processor.
    pub fn new(threads: usize, pinned: bool) -> std::io::Result<Pool> {
        let state = State { work: None, epoch: 0, busy: 0, stop: false, panic: None };
        let desk = Arc::new(Desk {
            state: Mutex::new(state),
            epoch: AtomicU64::new(0),
            begin: Condvar::new(),
            end: Condvar::new(),
        });
        let mut pool = Pool { desk: desk.clone(), threads: Vec::new() };
        for i in 1..threads {
            let desk = desk.clone();
            pool.threads.push(std::thread::Builder::new().name(format!("scheidegg-{i}")).spawn(
                move || {
                    if pinned {
                        pin(i);
                    }
                    serve(&desk, i);
                },
            )?);
        }
        Ok(pool)
    }

    /// Threads, the caller's included.
    pub fn threads(&self) -> usize {
        self.threads.len() + 1
    }

    /// Calls `work` once on every thread and returns when all have come back.
    ///
    /// # Panics
    /// When one of them did.
    pub fn run(&self, work: &Work<'_>) {
        if self.threads.is_empty() {
            return work(0);
        }
        // SAFETY: only the lifetime is taken away; nobody uses the pointer after this function has returned, for it
        // waits until no thread is busy and forgets the pointer, also when `work` panics here.
        let shared = Shared(unsafe { std::mem::transmute::<*const Work<'_>, *const Work<'static>>(work) });
        {
            let mut state = self.desk.lock();
            state.work = Some(shared);
            state.epoch += 1;
            state.busy = self.threads.len();
            self.desk.epoch.store(state.epoch, Ordering::Release);
        }
        self.desk.begin.notify_all();
        let mine = catch_unwind(AssertUnwindSafe(|| work(0)));
        let mut state = self.desk.lock();
        while state.busy > 0 {
            state = self.desk.end.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        state.work = None;
        let theirs = state.panic.take();
        drop(state);
        if let Err(panic) = mine {
            resume_unwind(panic);
        }
        if let Some(panic) = theirs {
            resume_unwind(panic);
        }
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        {
            let mut state = self.desk.lock();
            state.stop = true;
            state.epoch += 1;
            self.desk.epoch.store(state.epoch, Ordering::Release);
        }
        self.desk.begin.notify_all();
        for thread in self.threads.drain(..) {
            // A thread catches the panics of its work.
            let _ = thread.join();
        }
    }
}

fn serve(desk: &Desk, index: usize) {
    let mut seen = 0;
    loop {
        for _ in 0..TURNS {
            if desk.epoch.load(Ordering::Acquire) != seen {
                break;
            }
            std::hint::spin_loop();
        }
        let work = {
            let mut state = desk.lock();
            while state.epoch == seen {
                state = desk.begin.wait(state).unwrap_or_else(PoisonError::into_inner);
            }
            seen = state.epoch;
            if state.stop {
                return;
            }
            state.work
        };
        let outcome = catch_unwind(AssertUnwindSafe(|| {
            if let Some(work) = work {
                // SAFETY: `run` waits for this thread to be no longer busy.
                unsafe { (*work.0)(index) }
            }
        }));
        let mut state = desk.lock();
        state.busy -= 1;
        if let Err(panic) = outcome {
            state.panic.get_or_insert(panic);
        }
        if state.busy == 0 {
            desk.end.notify_one();
        }
    }
}

/// Binds the calling thread to one processor; does nothing where that is not known or not allowed.
pub(super) fn pin(processor: usize) {
    #[cfg(target_os = "linux")]
    {
        unsafe extern "C" {
            fn sched_setaffinity(pid: i32, size: usize, mask: *const u64) -> i32;
        }
        let mut mask = [0u64; 16];
        if let Some(word) = mask.get_mut(processor / 64) {
            *word = 1 << (processor % 64);
            // SAFETY: the function of the C library that the program is linked with; the mask is as long as its size
            // says. 0 is the calling thread.
            unsafe { sched_setaffinity(0, size_of_val(&mask), mask.as_ptr()) };
        }
    }
    #[cfg(not(target_os = "linux"))]
    let _ = processor;
}
