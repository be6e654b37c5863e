//! Threads that stay: they are woken once a batch.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
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
    /// The threads of the state that are busy, likewise.
    busy: AtomicUsize,
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
    /// Where the caller's thread works, when threads are pinned.
    first: Option<usize>,
}

/// Confines the caller's thread while it works; others that it starts later should not inherit that.
struct Pinned(Option<Set>);

impl Pinned {
    fn to(processor: Option<usize>) -> Pinned {
        let own = processor.map(only);
        Pinned(own.and_then(|own| affinity().filter(|before| *before != own && confine(&own))))
    }
}

impl Drop for Pinned {
    fn drop(&mut self) {
        if let Some(before) = &self.0 {
            confine(before);
        }
    }
}

impl Pool {
    /// Starts the threads. With `processors`, one for each, thread `i` works on the `i`-th of them.
    ///
    /// # Errors
    /// When a thread cannot be started.
    pub fn new(threads: usize, processors: Option<&[usize]>) -> std::io::Result<Pool> {
        let of = |i: usize| processors.and_then(|p| p.get(i)).copied();
        let state = State { work: None, epoch: 0, busy: 0, stop: false, panic: None };
        let desk = Arc::new(Desk {
            state: Mutex::new(state),
            epoch: AtomicU64::new(0),
            busy: AtomicUsize::new(0),
            begin: Condvar::new(),
            end: Condvar::new(),
        });
        let mut pool = Pool { desk: desk.clone(), threads: Vec::new(), first: of(0) };
        for i in 1..threads {
            let (desk, own) = (desk.clone(), of(i));
            pool.threads.push(std::thread::Builder::new().name(format!("scheidegg-{i}")).spawn(
                move || {
                    if let Some(own) = own {
                        // Refused only when the processor went away since it was asked for.
                        confine(&only(own));
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
        let _pinned = Pinned::to(self.first);
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
            self.desk.busy.store(state.busy, Ordering::Relaxed);
            self.desk.epoch.store(state.epoch, Ordering::Release);
        }
        self.desk.begin.notify_all();
        let mine = catch_unwind(AssertUnwindSafe(|| work(0)));
        for _ in 0..TURNS {
            if self.desk.busy.load(Ordering::Acquire) == 0 {
                break;
            }
            std::hint::spin_loop();
        }
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
        desk.busy.store(state.busy, Ordering::Release);
        if let Err(panic) = outcome {
            state.panic.get_or_insert(panic);
        }
        if state.busy == 0 {
            desk.end.notify_one();
        }
    }
}

/// A set of processors, a bit each, as the system has it.
type Set = [u64; 128];

/// The processors that the calling thread may run on; nothing where that cannot be asked.
fn affinity() -> Option<Set> {
    #[cfg(target_os = "linux")]
    {
        let mut set: Set = [0; 128];
        // SAFETY: the function of the C library that the program is linked with; the set is as long as its size says. 0 is
        // the calling thread.
        if unsafe { sched_getaffinity(0, size_of_val(&set), set.as_mut_ptr()) } == 0 {
            return Some(set);
        }
    }
    None
}

/// Lets the calling thread run on these processors only. Returns whether the system agreed.
fn confine(set: &Set) -> bool {
    #[cfg(target_os = "linux")]
    {
        // SAFETY: as in `affinity`.
        unsafe { sched_setaffinity(0, size_of_val(set), set.as_ptr()) == 0 }
    }
    #[cfg(not(target_os = "linux"))]
    {
        let _ = set;
        false
    }
}

#[cfg(target_os = "linux")]
unsafe extern "C" {
    fn sched_getaffinity(pid: i32, size: usize, set: *mut u64) -> i32;
    fn sched_setaffinity(pid: i32, size: usize, set: *const u64) -> i32;
}

/// The set of one processor.
fn only(processor: usize) -> Set {
    std::array::from_fn(|word| if word == processor / 64 { 1 << (processor % 64) } else { 0 })
}

/// The processors that the calling thread may run on, ascending; nothing where that cannot be asked.
pub(super) fn allowed() -> Option<Vec<usize>> {
    let set = affinity()?;
    Some((0..set.len() * 64).filter(|i| set[i / 64] >> (i % 64) & 1 == 1).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pinned_threads_have_a_processor_each_and_the_caller_is_let_go() {
        let Some(before) = allowed().filter(|p| p.len() >= 2) else {
            println!("SKIPPED: fewer than 2 processors");
            return;
        };
        let threads = before.len().min(4);
        let pool = Pool::new(threads, Some(&before)).expect("threads");
        let seen: Vec<Mutex<Vec<usize>>> = (0..threads).map(|_| Mutex::default()).collect();
        for _ in 0..3 {
            pool.run(&|i| *seen[i].lock().expect("a lock") = allowed().expect("the set"));
            for (i, seen) in seen.iter().enumerate() {
                assert_eq!(*seen.lock().expect("a lock"), [before[i]], "thread {i}");
            }
            assert_eq!(allowed(), Some(before.clone()));
        }
    }

    #[test]
    fn threads_that_are_not_pinned_run_anywhere() {
        let before = allowed();
        let pool = Pool::new(2, None).expect("threads");
        pool.run(&|_| assert_eq!(allowed(), before));
    }
}
