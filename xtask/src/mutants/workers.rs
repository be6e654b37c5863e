//! A list worked on by a few threads.

use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Calls `f` with the number of the thread and every item, and gives the results in the order of the items; the first
/// error ends it.
pub fn each<T: Sync, R: Send>(
    threads: usize,
    items: &[T],
    f: impl Fn(usize, &T) -> Result<R, String> + Sync,
) -> Result<Vec<R>, String> {
    let next = AtomicUsize::new(0);
    let results: Mutex<Vec<Option<R>>> = Mutex::new(items.iter().map(|_| None).collect());
    let fault = Mutex::new(None);
    std::thread::scope(|scope| {
        for worker in 0..threads.max(1) {
            let (next, results, fault, f) = (&next, &results, &fault, &f);
            scope.spawn(move || {
                loop {
                    let k = next.fetch_add(1, Ordering::Relaxed);
                    let Some(item) = items.get(k) else { return };
                    match f(worker, item) {
                        Ok(r) => results.lock().expect("no thread panics")[k] = Some(r),
                        Err(e) => {
                            fault.lock().expect("no thread panics").get_or_insert(e);
                            next.store(items.len(), Ordering::Relaxed);
                        }
                    }
                }
            });
        }
    });
    match fault.into_inner().expect("no thread panics") {
        Some(e) => Err(e),
        None => Ok(results.into_inner().expect("no thread panics").into_iter().flatten().collect()),
    }
}
