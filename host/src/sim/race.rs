//! Finds threads that touch the same shared memory without a barrier between.

use std::cell::Cell;

/// Who touched a half-word since when.
#[derive(Clone, Copy, Default)]
struct Touch {
    /// Barriers passed when it was written, atomically changed, or read last; one more, 0 for never.
    written: u32,
    changed: u32,
    read: u32,
    /// By whom, or [`MANY`].
    writer: u32,
    changer: u32,
    reader: u32,
}

const MANY: u32 = u32::MAX;

/// The watch over the shared memory of a block, half-word by half-word.
pub struct Races {
    touches: Box<[Cell<Touch>]>,
    /// Barriers passed, and one more.
    now: Cell<u32>,
}

impl Races {
    /// Nothing touched.
    pub fn new(halves: usize) -> Self {
        Races { touches: vec![Cell::new(Touch::default()); halves].into_boxed_slice(), now: Cell::new(1) }
    }

    /// All threads have come to a barrier.
    pub fn barrier(&self) {
        self.now.set(self.now.get() + 1);
    }

    /// A thread reads.
    ///
    /// # Panics
    /// When another thread has written since the last barrier.
    #[inline]
    pub fn read(&self, half: u32, thread: u32) {
        let (cell, now) = (&self.touches[half as usize], self.now.get());
        let mut t = cell.get();
        // Nearly every read is of what was written before the last barrier: seen at once.
        if t.written.max(t.changed) == now {
            let others = [("wrote", t.written, t.writer), ("changed", t.changed, t.changer)];
            self.check(half, thread, "reads", &others);
        }
        t.reader = if t.read == now && t.reader != thread { MANY } else { thread };
        t.read = now;
        cell.set(t);
    }

    /// A thread writes.
    ///
    /// # Panics
    /// When another thread has touched it since the last barrier.
    pub fn write(&self, half: u32, thread: u32) {
        let (cell, now) = (&self.touches[half as usize], self.now.get());
        let t = cell.get();
        let others =
            [("wrote", t.written, t.writer), ("changed", t.changed, t.changer), ("read", t.read, t.reader)];
        self.check(half, thread, "writes", &others);
        cell.set(Touch { written: now, writer: thread, ..t });
    }

    /// A thread changes it atomically.
    ///
    /// # Panics
    /// When another thread has written or read it, not atomically, since the last barrier.
    pub fn atomic(&self, half: u32, thread: u32) {
        let (cell, now) = (&self.touches[half as usize], self.now.get());
        let t = cell.get();
        self.check(half, thread, "changes", &[("wrote", t.written, t.writer), ("read", t.read, t.reader)]);
        let changer = if t.changed == now && t.changer != thread { MANY } else { thread };
        cell.set(Touch { changed: now, changer, ..t });
    }

    fn check(&self, half: u32, thread: u32, does: &str, others: &[(&str, u32, u32)]) {
        for &(did, when, who) in others {
            if when == self.now.get() && who != thread {
                let other = if who == MANY { "several threads".to_string() } else { format!("thread {who}") };
                let byte = half * 2;
                panic!(
                    "race in shared memory at byte {byte}: thread {thread} {does} what {other} {did} since the last \
                     barrier"
                );
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_barrier_lets_another_thread_read() {
        let r = Races::new(1);
        r.write(0, 3);
        r.read(0, 3);
        r.barrier();
        r.read(0, 4);
        r.read(0, 5);
        r.barrier();
        r.atomic(0, 1);
        r.atomic(0, 2);
    }

    #[test]
    #[should_panic(expected = "thread 4 reads what thread 3 wrote")]
    fn a_read_without_a_barrier_is_a_race() {
        let r = Races::new(1);
        r.write(0, 3);
        r.read(0, 4);
    }

    #[test]
    #[should_panic(expected = "thread 2 writes what thread 1 read")]
    fn a_write_over_a_read_is_a_race() {
        let r = Races::new(1);
        r.read(0, 1);
        r.write(0, 2);
    }

    #[test]
    #[should_panic(expected = "thread 5 changes what thread 4 read")]
    fn an_atomic_beside_a_read_is_a_race() {
        let r = Races::new(1);
        r.read(0, 4);
        r.atomic(0, 5);
    }
}
