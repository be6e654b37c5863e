//! Where results may go: not in the place of what they are made from, nor of one another, nor of what is to be kept.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use scheidegg::io::{Place, leftovers};
use scheidegg::{Error, Result};

use crate::args::WritingArgs;
use crate::failure::{Failure, Outcome};

/// Options with the files given to them.
pub type Named<'a> = Vec<(&'static str, &'a Path)>;

/// The files given to an option.
pub fn named<'a>(option: &'static str, paths: impl IntoIterator<Item = &'a PathBuf>) -> Named<'a> {
    paths.into_iter().map(|p| (option, p.as_path())).collect()
}

/// Refuses a result that would take the place of an input or of another result.
pub fn check(inputs: Named<'_>, results: Named<'_>) -> Outcome {
    let mut taken: Vec<(&str, PathBuf)> = inputs.into_iter().map(|(o, p)| (o, place(p))).collect();
    for (option, path) in results {
        let at = place(path);
        if let Some((other, _)) = taken.iter().find(|(_, p)| *p == at) {
            let expected = format!("another file than {other}");
            return Err(Failure::Usage(Error::param(option, path.display(), expected)));
        }
        taken.push((option, at));
    }
    Ok(())
}

/// Refuses results whose names are taken, if those are to be kept, and looks after the hidden files that killed runs left in
/// their folders: sentences about these.
pub fn ready(writing: &WritingArgs, results: &Named<'_>) -> Outcome<Vec<String>> {
    let mut folders = BTreeSet::new();
    for (option, path) in results {
        let place = writing.place(*path);
        let Some(folder) = place.folder() else { continue };
        if writing.no_clobber && path.exists() {
            let expected = "a name that nothing has yet (--no-clobber)";
            return Err(Failure::Usage(Error::param(*option, path.display(), expected)));
        }
        folders.insert(folder.canonicalize().unwrap_or(folder));
    }
    let mut notes = Vec::new();
    for folder in folders {
        let left = leftovers(&folder);
        let bytes = left.iter().map(|l| l.bytes).sum();
        for file in &left {
            let (path, bytes) = (file.path.display(), size(file.bytes));
            if writing.clean {
                file.remove().map_err(|e| Error::io(&file.path, e))?;
                notes.push(format!("{path} ({bytes}): removed, a run that was killed had left it"));
            } else if left.len() <= MOST_NAMED {
                notes.push(format!(
                    "{path} ({bytes}): left by a run that was killed (--clean removes such files)"
                ));
            }
        }
        if !writing.clean && left.len() > MOST_NAMED {
            notes.push(format!(
                "{}: {} hidden files ({}) from {} on were left by runs that were killed (--clean removes such files)",
                folder.display(),
                left.len(),
                size(bytes),
                left[0].path.display()
            ));
        }
    }
    Ok(notes)
}

/// Files left behind that are named one by one.
const MOST_NAMED: usize = 10;

/// A number of bytes in a unit that suits it.
fn size(bytes: u64) -> String {
    match bytes {
        0..10_000 => format!("{bytes} bytes"),
        10_000..10_000_000 => format!("{:.1} kB", bytes as f64 / 1e3),
        10_000_000..10_000_000_000 => format!("{:.1} MB", bytes as f64 / 1e6),
        _ => format!("{:.1} GB", bytes as f64 / 1e9),
    }
}

/// Where the report of a run goes: into its folder, unless the run did not come to its end and there is a report already.
/// Then it goes into one beside it, like `report.partial`.
pub fn report(folder: &Path, complete: bool) -> PathBuf {
    let page = |folder: &Path| folder.join("report.html").exists();
    if complete || !page(folder) {
        return folder.to_path_buf();
    }
    let name = folder.file_name().unwrap_or_default().to_string_lossy();
    let beside = |n: u32| {
        folder
            .with_file_name(format!("{name}.partial{}", if n == 1 { String::new() } else { format!("-{n}") }))
    };
    (1..).map(beside).find(|folder| !page(folder)).expect("numbers do not end")
}

/// Whether a path is that of what standard output is: a pipe or a file.
pub fn is_stdout(path: &Path) -> bool {
    #[cfg(unix)]
    {
        use std::os::unix::fs::{FileTypeExt, MetadataExt};
        let (Ok(there), Ok(out)) = (path.metadata(), rustix::fs::fstat(std::io::stdout())) else {
            return false;
        };
        (there.dev(), there.ino()) == (out.st_dev, out.st_ino) && !there.file_type().is_char_device()
    }
    #[cfg(not(unix))]
    {
        let _ = path;
        false
    }
}

/// Refuses a file name without this ending, which says what kind of file it is.
pub fn ends_with(option: &str, path: &Path, ending: &str) -> Outcome {
    if path.extension().is_some_and(|e| e.eq_ignore_ascii_case(ending)) {
        return Ok(());
    }
    Err(Failure::Usage(Error::param(option, path.display(), format!("a name that ends with .{ending}"))))
}

/// Makes a folder for results where there is none, and looks whether files can be made in it.
pub fn folder(path: &Path) -> Result<()> {
    if path.exists() && !path.is_dir() {
        return Err(Error::file(path, "is a file: give the name of a folder"));
    }
    std::fs::create_dir_all(path).map_err(|e| Error::io(path, e))?;
    Place::from(path.join("report.html")).check()
}

/// Whether a folder is there or could be made.
pub fn can_be_folder(path: &Path) -> Result<()> {
    if path.exists() && !path.is_dir() {
        return Err(Error::file(path, "is a file: give the name of a folder"));
    }
    let above = path.ancestors().skip(1).map(|p| if p.as_os_str().is_empty() { Path::new(".") } else { p });
    let there = if path.is_dir() { Some(path) } else { above.into_iter().find(|p| p.exists()) };
    let there = there.unwrap_or(Path::new("."));
    can_write_into(there)
}

/// Whether a file can be written in the place of this name.
pub fn can_be_file(path: &Path) -> Result<()> {
    if path.is_dir() {
        return Err(Error::file(path, "is a folder: give the name of a file"));
    }
    let folder = path.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new("."));
    if !folder.is_dir() {
        return Err(Error::file(path, format!("there is no folder {}", folder.display())));
    }
    can_write_into(folder)
}

fn can_write_into(folder: &Path) -> Result<()> {
    let meta = std::fs::metadata(folder).map_err(|e| Error::io(folder, e))?;
    if !meta.is_dir() {
        return Err(Error::file(folder, "is a file, not a folder"));
    }
    if meta.permissions().readonly() {
        return Err(Error::file(folder, "may not be written to"));
    }
    Ok(())
}

/// The one way to write a path, whether a file is there or not.
fn place(path: &Path) -> PathBuf {
    let folder = path.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let beside = || Some(folder.canonicalize().ok()?.join(path.file_name()?));
    path.canonicalize().ok().or_else(beside).unwrap_or_else(|| path.to_path_buf())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_said_in_a_unit_that_suits_them() {
        for (bytes, said) in [
            (0, "0 bytes"),
            (9_999, "9999 bytes"),
            (10_000, "10.0 kB"),
            (9_999_949, "9999.9 kB"),
            (10_000_000, "10.0 MB"),
            (9_999_949_999, "9999.9 MB"),
            (12_345_678_901, "12.3 GB"),
        ] {
            assert_eq!(size(bytes), said);
        }
    }

    #[test]
    fn an_ending_is_there_in_any_case() {
        assert!(ends_with("--out", Path::new("a.NpZ"), "npz").is_ok());
        for not in ["npz", "a", "a.npy", "a.npz.gz"] {
            assert!(ends_with("--out", Path::new(not), "npz").is_err(), "{not}");
        }
    }

    #[test]
    fn a_report_that_is_there_is_kept_from_one_that_is_not_complete() {
        let dir = tempfile::tempdir().unwrap();
        let folder = dir.path().join("r");
        let page = |name: &str| {
            std::fs::create_dir_all(dir.path().join(name)).unwrap();
            std::fs::write(dir.path().join(name).join("report.html"), "").unwrap();
        };
        let next = |complete| report(&folder, complete).file_name().unwrap().to_string_lossy().into_owned();
        assert_eq!((next(true), next(false)), ("r".into(), "r".into()));
        page("r");
        assert_eq!((next(true), next(false)), ("r".into(), "r.partial".into()));
        page("r.partial");
        assert_eq!(next(false), "r.partial-2");
        page("r.partial-2");
        assert_eq!(next(false), "r.partial-3");
    }

    #[test]
    fn places_that_cannot_be_are_told_before_anything_is_written() {
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| dir.path().join(name);
        std::fs::write(at("file"), "").unwrap();
        let said = |r: Result<()>| r.map_or_else(|e| e.to_string(), |()| "can be".into());
        assert_eq!(said(can_be_file(&at("new"))), "can be");
        assert_eq!(said(can_be_file(&at("file"))), "can be");
        assert_eq!(said(can_be_file(Path::new("new-here"))), "can be");
        assert!(said(can_be_file(dir.path())).contains("is a folder: give the name of a file"));
        assert!(said(can_be_file(&at("none/new"))).contains("there is no folder"));
        assert!(said(can_be_file(&at("file/new"))).contains("there is no folder"));
        assert_eq!(said(can_be_folder(dir.path())), "can be");
        assert_eq!(said(can_be_folder(&at("a/b/c"))), "can be");
        assert_eq!(said(can_be_folder(Path::new("new-here/too"))), "can be");
        assert!(said(can_be_folder(&at("file"))).contains("is a file: give the name of a folder"));
        assert!(said(can_be_folder(&at("file/a"))).contains("is a file, not a folder"));
        assert!(said(folder(&at("file"))).contains("is a file: give the name of a folder"));
        assert_eq!(said(folder(&at("made/too"))), "can be");
        assert!(at("made/too").is_dir());
        let mut closed = std::fs::metadata(dir.path()).unwrap().permissions();
        closed.set_readonly(true);
        std::fs::create_dir(at("closed")).unwrap();
        std::fs::set_permissions(at("closed"), closed).unwrap();
        for refused in [can_be_file(&at("closed/new")), can_be_folder(&at("closed/new"))] {
            assert!(said(refused).contains("may not be written to"));
        }
    }

    /// Puts hidden files of dead runs into a folder, each a byte larger than the one before.
    fn leave(folder: &Path, files: usize) -> Vec<PathBuf> {
        let old = std::time::SystemTime::now() - std::time::Duration::from_secs(60);
        let leave = |n: usize| {
            let path = folder.join(format!(".x.npz.far-1-{n:02}.partial"));
            std::fs::write(&path, vec![0; 2000 + n]).unwrap();
            std::fs::File::options().write(true).open(&path).unwrap().set_modified(old).unwrap();
            path
        };
        (0..files).map(leave).collect()
    }

    #[test]
    fn what_killed_runs_left_is_told_and_removed_where_that_is_asked_for() {
        let dir = tempfile::tempdir().unwrap();
        let folder = dir.path().canonicalize().unwrap();
        std::fs::create_dir(folder.join("other")).unwrap();
        let results = ["a.npz", "b.npz", "other/c.npz"].map(|name| folder.join(name));
        let results: Named<'_> = results.iter().map(|r| ("--out", r.as_path())).collect();
        let notes = |clean| ready(&WritingArgs { no_clobber: true, clean }, &results).unwrap();
        assert_eq!(notes(false), Vec::<String>::new());
        for files in [1, MOST_NAMED] {
            let left = leave(&folder, files);
            let each: Vec<_> = left
                .iter()
                .zip(2000..)
                .map(|(l, n)| {
                    format!(
                        "{} ({n} bytes): left by a run that was killed (--clean removes such files)",
                        l.display()
                    )
                })
                .collect();
            assert_eq!(notes(false), each);
        }
        let left = leave(&folder, MOST_NAMED + 1);
        let all = format!(
            "{}: 11 hidden files (22.1 kB) from {} on were left by runs that were killed (--clean removes such files)",
            folder.display(),
            left[0].display()
        );
        assert_eq!(notes(false), [all]);
        let removed = |l: &PathBuf| !l.exists();
        assert!(!left.iter().any(removed));
        let each: Vec<_> = left
            .iter()
            .zip(2000..)
            .map(|(l, n)| format!("{} ({n} bytes): removed, a run that was killed had left it", l.display()))
            .collect();
        assert_eq!(notes(true), each);
        assert!(left.iter().all(removed));
        assert_eq!(notes(true), Vec::<String>::new());
    }

    #[test]
    fn a_name_that_is_taken_is_refused_where_it_is_to_be_kept() {
        let dir = tempfile::tempdir().unwrap();
        let (taken, new) = (dir.path().join("taken"), dir.path().join("new"));
        std::fs::write(&taken, "").unwrap();
        for (no_clobber, path, refused) in
            [(true, &taken, true), (true, &new, false), (false, &taken, false), (false, &new, false)]
        {
            let done = ready(&WritingArgs { no_clobber, clean: false }, &vec![("--out", path.as_path())]);
            assert_eq!(done.is_err(), refused, "{} {no_clobber}", path.display());
        }
    }

    #[test]
    fn one_file_has_one_place_however_it_is_written() {
        let dir = tempfile::tempdir().unwrap();
        let whole = dir.path().canonicalize().unwrap();
        assert_eq!(place(&dir.path().join("./new")), whole.join("new"));
        std::fs::write(whole.join("there"), "").unwrap();
        assert_eq!(
            place(&dir.path().join("../").join(whole.file_name().unwrap()).join("there")),
            whole.join("there")
        );
        assert_eq!(place(Path::new("new-here")), Path::new(".").canonicalize().unwrap().join("new-here"));
        assert_eq!(place(Path::new("none/new")), Path::new("none/new"));
        let of = |paths: [&'static str; 2]| paths.map(|p| ("--out", Path::new(p))).to_vec();
        assert!(check(of(["a", "b"]), of(["c", "d"])).is_ok());
        assert!(check(of(["a", "b"]), of(["c", "./b"])).is_err());
        assert!(check(of(["a", "./a"]), of(["c", "./c"])).is_err());
        assert!(check(of(["a", "./a"]), of(["c", "d"])).is_ok());
    }
}
