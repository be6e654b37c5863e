//! The hidden files that results grow in: one owner each, who holds a lock on it.
//!
//! A name is `.NAME.HOST-PID-COUNT.partial`. The owner holds a lock as long as it lives (`flock`, which most network file systems
//! carry from host to host); one that was killed has let go of it. So a file that can be locked belongs to nobody,
//! unless its owner has other files here that are locked: those that are whole and wait for their name are closed.

use std::collections::BTreeSet;
use std::fs::{self, File, TryLockError};
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use super::place::{folder_of, shortened};

/// The hidden files that this process has now.
static MINE: Mutex<BTreeSet<PathBuf>> = Mutex::new(BTreeSet::new());

fn mine() -> MutexGuard<'static, BTreeSet<PathBuf>> {
    MINE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Removes the hidden files of all results that are not finished. From then on no result is started or gets its name:
/// whoever tries waits. For a program that is about to end.
pub fn discard_outputs() {
    let files = mine();
    for path in files.iter() {
        let _ = fs::remove_file(path);
    }
    std::mem::forget(files);
}

/// A hidden file of this process.
#[derive(Debug)]
pub(super) struct Partial {
    pub path: PathBuf,
}

impl Partial {
    /// Starts a hidden file beside `target`. Its lock holds until the file is closed.
    pub fn create(target: &Path) -> io::Result<Started> {
        static COUNT: AtomicU64 = AtomicU64::new(0);
        let name = shortened(target.file_name().unwrap_or_default(), 120);
        loop {
            // One that is there is of another process of this number, which was killed.
            let count = COUNT.fetch_add(1, Ordering::Relaxed);
            let mut hidden = std::ffi::OsString::from(".");
            hidden.push(&name);
            hidden.push(format!(".{}-{}-{count}{ENDING}", host(), std::process::id()));
            let path = folder_of(target).join(hidden);
            let mut files = mine();
            match File::options().write(true).read(true).create_new(true).open(&path) {
                Ok(file) => {
                    files.insert(path.clone());
                    drop(files);
                    // Where the file system knows no locks, the number of the process must do.
                    let _ = file.lock();
                    return Ok(Started { partial: Partial { path }, file });
                }
                Err(e) if e.kind() == ErrorKind::AlreadyExists => {}
                Err(e) => return Err(e),
            }
        }
    }

    /// Lets `rename` give the file another name, unless the program is about to end.
    pub fn renamed<T>(&self, rename: impl FnOnce(&Path) -> io::Result<T>) -> io::Result<T> {
        let _files = mine();
        rename(&self.path)
    }

    /// Removes the file, if it is hidden still.
    pub fn remove(&self) {
        let mut files = mine();
        let _ = fs::remove_file(&self.path);
        files.remove(&self.path);
    }
}

/// A hidden file that was just made.
pub(super) struct Started {
    pub partial: Partial,
    pub file: File,
}

impl Started {
    /// Removes it again.
    pub fn discard(self) {
        self.partial.remove();
    }
}

const ENDING: &str = ".partial";

/// The name of this machine, so far as a file name takes it.
fn host() -> String {
    #[cfg(unix)]
    let name = rustix::system::uname().nodename().to_string_lossy().into_owned();
    #[cfg(not(unix))]
    let name = std::env::var("COMPUTERNAME").unwrap_or_default();
    let plain = |c: char| if c.is_ascii_alphanumeric() { c } else { '_' };
    name.chars().map(plain).take(60).collect()
}

/// A hidden file that a run left which was killed, or whose machine went down.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Leftover {
    /// Where it is.
    pub path: PathBuf,
    /// Its size.
    pub bytes: u64,
}

impl Leftover {
    /// Removes it.
    ///
    /// # Errors
    /// What the system says.
    pub fn remove(&self) -> io::Result<()> {
        match fs::remove_file(&self.path) {
            Err(e) if e.kind() == ErrorKind::NotFound => Ok(()),
            other => other,
        }
    }
}

/// The hidden files in a folder that belong to no living process. A folder that cannot be read has none.
pub fn leftovers(folder: &Path) -> Vec<Leftover> {
    let mut living = BTreeSet::new();
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let path = entry.path();
        let Some(owner) = entry.file_name().to_str().and_then(owner_of) else { continue };
        if mine().contains(&path) {
            continue;
        }
        match is_free(&path, &owner) {
            Ok(Some(bytes)) => found.push((owner, Leftover { path, bytes })),
            Ok(None) => drop(living.insert(owner)),
            // It is gone, or not ours to look at.
            Err(_) => {}
        }
    }
    let mut left: Vec<_> =
        found.into_iter().filter(|(owner, _)| !living.contains(owner)).map(|(_, l)| l).collect();
    left.sort();
    left
}

/// The machine and the number of a process.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Owner {
    host: String,
    process: u32,
}

/// Who made a hidden file of this name.
fn owner_of(name: &str) -> Option<Owner> {
    let (_, last) = name.strip_prefix('.')?.strip_suffix(ENDING)?.rsplit_once('.')?;
    let mut parts = last.split('-');
    let (host, process, count) = (parts.next()?, parts.next()?, parts.next()?);
    count.parse::<u64>().ok()?;
    let nothing_more = parts.next().is_none();
    nothing_more.then_some(Owner { host: host.into(), process: process.parse().ok()? })
}

/// Time in which a file that was just made gets its lock.
const YOUNG: Duration = Duration::from_secs(10);

/// The size of a hidden file that nobody holds; `None` for one that somebody does, or may.
fn is_free(path: &Path, owner: &Owner) -> io::Result<Option<u64>> {
    // To be written, as locks of network file systems ask.
    let file = File::options().write(true).open(path)?;
    let about = file.metadata()?;
    let dead = owner.host == host() && !lives(owner.process);
    let free = match file.try_lock() {
        Ok(()) => dead || about.modified()?.elapsed().is_ok_and(|age| age >= YOUNG),
        Err(TryLockError::WouldBlock) => false,
        // No locks here: an owner on this machine can be looked for, another one is left alone.
        Err(TryLockError::Error(_)) => dead,
    };
    Ok(free.then_some(about.len()))
}

/// Whether a process of this number runs here, so far as the system tells.
fn lives(process: u32) -> bool {
    let all = Path::new("/proc");
    !all.join("self").exists() || all.join(process.to_string()).exists()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_say_whose_they_are() {
        let owner = owner_of(".a.b.npz.node_7-123-4.partial").unwrap();
        assert_eq!((owner.host.as_str(), owner.process), ("node_7", 123));
        for other in [
            "a.npz.h-1-2.partial",
            ".a.npz.h-1-2",
            ".a.h-1.partial",
            ".a.h-1-2-3.partial",
            ".a.h-x-2.partial",
        ] {
            assert_eq!(owner_of(other), None, "{other}");
        }
    }

    #[test]
    fn only_what_belongs_to_nobody_is_left_over() {
        let dir = tempfile::tempdir().unwrap();
        let at = |name: String| dir.path().join(name);
        let held = Partial::create(&at("x.npz".into())).unwrap();
        let dead = at(format!(".x.npz.{}-{}-0.partial", host(), u32::MAX));
        let far_and_young = at(".x.npz.elsewhere-1-0.partial".into());
        let locked = at(".y.npz.far-2-0.partial".into());
        let of_the_same = at(".y.npz.far-2-1.partial".into());
        for path in [&dead, &far_and_young, &locked, &of_the_same] {
            fs::write(path, "12345").unwrap();
        }
        let hold = File::open(&locked).unwrap();
        hold.lock().unwrap();
        let old = std::time::SystemTime::now() - 2 * YOUNG;
        for path in [&locked, &of_the_same] {
            File::options().write(true).open(path).unwrap().set_modified(old).unwrap();
        }
        let paths = || leftovers(dir.path()).into_iter().map(|l| l.path).collect::<Vec<_>>();
        assert_eq!(leftovers(dir.path()), [Leftover { path: dead.clone(), bytes: 5 }]);
        File::options().write(true).open(&far_and_young).unwrap().set_modified(old).unwrap();
        assert_eq!(paths(), [far_and_young.clone(), dead.clone()]);
        drop(hold);
        assert_eq!(paths(), [far_and_young, dead, locked, of_the_same]);
        leftovers(dir.path()).iter().for_each(|l| l.remove().unwrap());
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
        held.discard();
        assert_eq!(leftovers(dir.path()), []);
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0);
    }

    #[test]
    fn a_hidden_file_says_whose_it_is_as_long_as_it_is() {
        let dir = tempfile::tempdir().unwrap();
        let started = Partial::create(&dir.path().join("x".repeat(250))).unwrap();
        let path = started.partial.path.clone();
        let name = path.file_name().unwrap().to_str().unwrap().to_string();
        assert!(name.starts_with(&format!(".{}.", "x".repeat(120))), "{name}");
        let owner = owner_of(&name).unwrap();
        assert_eq!((owner.host, owner.process), (host(), std::process::id()));
        #[cfg(target_os = "linux")]
        {
            let whole = fs::read_to_string("/proc/sys/kernel/hostname").unwrap();
            let plain = |c: char| if c.is_ascii_alphanumeric() { c } else { '_' };
            assert_eq!(host(), whole.trim_end().chars().map(plain).take(60).collect::<String>());
            assert!(lives(std::process::id()) && !lives(u32::MAX));
        }
        let left = Leftover { path: path.clone(), bytes: 3 };
        let make = || {
            fs::write(&path, "old").unwrap();
            let old = std::time::SystemTime::now() - 2 * YOUNG;
            File::options().write(true).open(&path).unwrap().set_modified(old).unwrap();
        };
        // Locked or not, it is ours until it has another name or is gone.
        drop(started.file);
        make();
        assert_eq!(leftovers(dir.path()), []);
        started.partial.renamed(|from| fs::rename(from, dir.path().join("x"))).unwrap();
        started.partial.remove();
        assert_eq!(fs::read(dir.path().join("x")).unwrap(), b"old");
        // Another one of that name is not ours.
        make();
        assert_eq!(leftovers(dir.path()), std::slice::from_ref(&left));
        left.remove().unwrap();
        left.remove().unwrap();
        assert!(!path.exists());
        fs::create_dir(&path).unwrap();
        left.remove().unwrap_err();
    }

    #[test]
    fn a_name_that_a_killed_process_left_is_not_used_again() {
        let dir = tempfile::tempdir().unwrap();
        let target = dir.path().join("x.npz");
        let first = Partial::create(&target).unwrap();
        let count: u64 = {
            let name = first.partial.path.file_name().unwrap().to_str().unwrap().to_string();
            name.trim_end_matches(ENDING).rsplit_once('-').unwrap().1.parse().unwrap()
        };
        // The next few numbers are taken.
        for n in count + 1..count + 50 {
            let name = format!(".x.npz.{}-{}-{n}{ENDING}", host(), std::process::id());
            fs::write(dir.path().join(name), "").unwrap();
        }
        let second = Partial::create(&target).unwrap();
        second.discard();
        first.discard();
    }
}
