//! Where a result goes: the name it is given, and what becomes of a file that has the name already.

use std::ffi::{OsStr, OsString};
use std::fs::{self, Metadata};
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

use scheidegg_finder::{Error, Result};

use super::failed;

/// The name of a result, and whether it may take the place of a file that has it. A path alone may.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// The name.
    pub path: PathBuf,
    /// Refuse the name when something has it, at the start and again at the end.
    pub keep: bool,
}

impl<P: Into<PathBuf>> From<P> for Place {
    fn from(path: P) -> Self {
        Place { path: path.into(), keep: false }
    }
}

impl Place {
    /// A name that is refused when something has it.
    pub fn unless_taken(path: impl Into<PathBuf>) -> Place {
        Place { path: path.into(), keep: true }
    }

    /// Looks whether a result can be written here, and leaves nothing: for results that are started late in a run.
    ///
    /// # Errors
    /// As [`Output::create`](super::Output::create).
    pub fn check(&self) -> Result<()> {
        match self.resolve()? {
            Target::Stream(path) => Err(no_stream(&self.path, &path)),
            Target::File { target } => {
                let folder = folder_of(&target);
                let probe =
                    super::partial::Partial::create(&target).map_err(|e| refused(&self.path, folder, e))?;
                probe.discard();
                Ok(())
            }
        }
    }

    /// The folder that the file will be in, behind links; nothing where no file can be, or none is made.
    pub fn folder(&self) -> Option<PathBuf> {
        match follow(&self.path).ok()? {
            Followed::File(target) if target.is_file() || !target.exists() => {
                Some(folder_of(&target).to_path_buf())
            }
            Followed::File(_) | Followed::Device(_) => None,
        }
    }

    /// Whether this is a FIFO or a device, or a file that is open already (`/dev/stdout`), which takes bytes as they come.
    pub fn is_stream(&self) -> bool {
        matches!(self.resolve(), Ok(Target::Stream(_)))
    }

    /// Follows links to what will be written.
    pub(super) fn resolve(&self) -> Result<Target> {
        let path = &self.path;
        let err = |what: String| Err(Error::file(path, what));
        let target = match follow(path).map_err(|e| Error::io(path, e))? {
            Followed::Device(path) => return Ok(Target::Stream(path)),
            Followed::File(target) => target,
        };
        if target.file_name().is_none() {
            return err("has no file name".into());
        }
        match fs::metadata(&target) {
            Ok(there) if there.is_dir() => return err("is a folder: give the name of a file".into()),
            Ok(there) if !there.is_file() => return Ok(Target::Stream(target)),
            Ok(_) if self.keep => return Err(taken(path)),
            Ok(there) if is_read_only(&target, &there) => {
                return err("is read-only: allow writing (chmod u+w) or choose another name".into());
            }
            Ok(_) => {}
            Err(e) if e.kind() == ErrorKind::NotFound => {}
            Err(e) => return Err(Error::io(path, e)),
        }
        let folder = folder_of(&target);
        if !folder.is_dir() {
            return err(format!("the folder {} does not exist: make it first", folder.display()));
        }
        Ok(Target::File { target })
    }
}

/// The error for a name that something has.
pub(crate) fn taken(path: &Path) -> Error {
    Error::file(path, "is there already, and was to be kept: choose another name, or move it away")
}

/// The error for a kind of file that cannot be written from front to back.
pub(super) fn no_stream(path: &Path, stream: &Path) -> Error {
    let what = fs::metadata(stream).map_or("a device", |m| kind(&m));
    Error::file(
        path,
        format!(
            "is {what}, which takes bytes in their order only: of all results only cluster files (.clust) can go there"
        ),
    )
}

/// What could not be started beside a file of a name, with the folder that the system spoke of.
pub(super) fn refused(path: &Path, folder: &Path, e: io::Error) -> Error {
    match e.kind() {
        ErrorKind::PermissionDenied | ErrorKind::ReadOnlyFilesystem => {
            Error::file(path, format!("the folder {} cannot be written to: {e}", folder.display()))
        }
        _ => failed(path, e),
    }
}

/// What will be written.
#[derive(Debug)]
pub(super) enum Target {
    /// A file, there or not, that takes its name at the end.
    File { target: PathBuf },
    /// A FIFO or a device, written to as it is.
    Stream(PathBuf),
}

/// The folder that a file is in.
pub(super) fn folder_of(path: &Path) -> &Path {
    path.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// Where links lead.
enum Followed {
    File(PathBuf),
    /// Into a folder of open files, as `/dev/stdout` does: what is there is open already and must be written as it is.
    Device(PathBuf),
}

/// Links followed before a circle is suspected, as in Linux.
const MOST_LINKS: usize = 40;

fn follow(path: &Path) -> io::Result<Followed> {
    let mut at = path.to_path_buf();
    for _ in 0..MOST_LINKS {
        if fs::canonicalize(folder_of(&at)).is_ok_and(|f| is_of_open_files(&f)) {
            return Ok(Followed::Device(at));
        }
        match fs::read_link(&at) {
            // Relative ones start at the folder of the link.
            Ok(next) => at = folder_of(&at).join(next),
            // No link, or nothing there.
            Err(e) if matches!(e.kind(), ErrorKind::InvalidInput | ErrorKind::NotFound) => {
                return Ok(Followed::File(at));
            }
            Err(e) => return Err(e),
        }
    }
    Err(io::Error::other(format!("more than {MOST_LINKS} symbolic links, one after the other")))
}

fn is_of_open_files(folder: &Path) -> bool {
    folder.starts_with("/dev/fd") || (folder.starts_with("/proc") && folder.ends_with("fd"))
}

/// Whether the user may not write a file, though the folder would let it be replaced.
fn is_read_only(path: &Path, there: &Metadata) -> bool {
    #[cfg(unix)]
    let refused = rustix::fs::access(path, rustix::fs::Access::WRITE_OK).is_err();
    #[cfg(not(unix))]
    let refused = false;
    let _ = path;
    there.permissions().readonly() || refused
}

/// What is there, in words.
fn kind(there: &Metadata) -> &'static str {
    #[cfg(unix)]
    {
        use std::os::unix::fs::FileTypeExt;
        let kind = there.file_type();
        if kind.is_fifo() {
            return "a FIFO";
        } else if kind.is_socket() {
            return "a socket";
        }
    }
    if there.is_file() { "a file that is open already" } else { "a device" }
}

/// Gives a file a name unless something has that name; false when something has.
pub(super) fn name_if_free(from: &Path, to: &Path) -> io::Result<bool> {
    let mut outcome = Ok(());
    // What a file system does not know is done in another way.
    for way in WAYS {
        outcome = way(from, to);
        match &outcome {
            Ok(()) => return Ok(true),
            Err(e) if e.kind() == ErrorKind::AlreadyExists => return Ok(false),
            Err(_) => {}
        }
    }
    outcome.map(|()| true)
}

/// Ways to give a file a name that nothing has.
const WAYS: [fn(&Path, &Path) -> io::Result<()>; 3] = [rename, link, claim];

fn rename(from: &Path, to: &Path) -> io::Result<()> {
    #[cfg(target_os = "linux")]
    {
        use rustix::fs::{CWD, RenameFlags, renameat_with};
        Ok(renameat_with(CWD, from, CWD, to, RenameFlags::NOREPLACE)?)
    }
    #[cfg(not(target_os = "linux"))]
    {
        let _ = (from, to);
        Err(ErrorKind::Unsupported.into())
    }
}

fn link(from: &Path, to: &Path) -> io::Result<()> {
    fs::hard_link(from, to)?;
    // It has its name, whether the hidden one can be taken away or not.
    let _ = fs::remove_file(from);
    Ok(())
}

/// The name is taken by an empty file first, which goes again where nothing can take its place.
fn claim(from: &Path, to: &Path) -> io::Result<()> {
    drop(fs::File::create_new(to)?);
    fs::rename(from, to).inspect_err(|_| {
        let _ = fs::remove_file(to);
    })
}

/// Gives a file a name beside `target`, like `clusters.partial.npz` or `clusters.partial-2.npz`: the first one that is
/// free. The extension is that of `like`.
pub(super) fn name_beside(from: &Path, target: &Path, like: &Path) -> io::Result<PathBuf> {
    for n in 1.. {
        let to = beside(target, like, n);
        if name_if_free(from, &to)? {
            return Ok(to);
        }
    }
    unreachable!("numbers do not end")
}

/// Bytes of a name that all common file systems take.
const LONGEST_NAME: usize = 255;

/// The `n`th name beside a file.
fn beside(target: &Path, like: &Path, n: u64) -> PathBuf {
    let mut end = if n == 1 { ".partial".to_string() } else { format!(".partial-{n}") };
    if let Some(extension) = like.extension() {
        end += &format!(".{}", extension.to_string_lossy());
    }
    let stem = target.file_stem().unwrap_or_default();
    let mut name = shortened(stem, LONGEST_NAME.saturating_sub(end.len()));
    name.push(end);
    target.with_file_name(name)
}

/// A name of at most so many bytes.
pub(super) fn shortened(name: &OsStr, most: usize) -> OsString {
    if name.len() <= most {
        return name.to_os_string();
    }
    let text = name.to_string_lossy();
    let mut end = most.min(text.len());
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    text[..end].into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_beside_keep_the_extension_and_fit() {
        let name = |target: &str, n| beside(Path::new(target), Path::new(target), n).display().to_string();
        assert_eq!(name("a/clusters.npz", 1), "a/clusters.partial.npz");
        assert_eq!(name("clusters.npz", 2), "clusters.partial-2.npz");
        assert_eq!(name("a/b.c.npy", 1), "a/b.c.partial.npy");
        assert_eq!(name("a/plain", 1), "a/plain.partial");
        let long = format!("a/{}.clust", "ä".repeat(124));
        let short = name(&long, 17);
        assert!(short.ends_with("ä.partial-17.clust") && short.len() <= 2 + LONGEST_NAME, "{short}");
        let linked = beside(Path::new("a/store.bin"), Path::new("b/x.clust"), 1);
        assert_eq!(linked, Path::new("a/store.partial.clust"));
    }

    #[test]
    fn a_name_is_taken_once() {
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| dir.path().join(name);
        for name in ["a", "b"] {
            fs::write(at(name), name).unwrap();
        }
        assert!(name_if_free(&at("a"), &at("x")).unwrap());
        assert!(!name_if_free(&at("b"), &at("x")).unwrap());
        assert_eq!((fs::read(at("x")).unwrap(), fs::read(at("b")).unwrap()), (b"a".to_vec(), b"b".to_vec()));
        assert_eq!(name_beside(&at("b"), &at("x"), &at("x")).unwrap(), at("x.partial"));
        // In every way.
        for (k, way) in WAYS.into_iter().enumerate().skip(usize::from(cfg!(not(target_os = "linux")))) {
            let to = at(&format!("to{k}"));
            way(&at("none"), &to).unwrap_err();
            assert!(!to.exists(), "{k}");
            fs::write(at("from"), "1").unwrap();
            way(&at("from"), &to).unwrap();
            assert!(!at("from").exists(), "{k}");
            fs::write(at("from"), "2").unwrap();
            assert_eq!(way(&at("from"), &to).unwrap_err().kind(), ErrorKind::AlreadyExists, "{k}");
            assert_eq!(
                (fs::read(to).unwrap(), fs::read(at("from")).unwrap()),
                (b"1".to_vec(), b"2".to_vec())
            );
        }
        name_if_free(&at("none"), &at("y")).unwrap_err();
        assert!(!at("y").exists());
    }

    #[test]
    fn what_cannot_be_written_is_refused_before_anything_is() {
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| dir.path().join(name);
        let said = |place: Place| place.check().unwrap_err().to_string();
        assert!(said(at("none/x.npz").into()).contains("does not exist: make it first"));
        assert!(said(dir.path().into()).contains("is a folder"));
        fs::write(at("x.npz"), "old").unwrap();
        Place::from(at("x.npz")).check().unwrap();
        assert!(said(Place::unless_taken(at("x.npz"))).contains("is there already"));
        let mut mode = fs::metadata(at("x.npz")).unwrap().permissions();
        mode.set_readonly(true);
        fs::set_permissions(at("x.npz"), mode).unwrap();
        assert!(said(at("x.npz").into()).contains("is read-only"));
        Place::from(at("y.npz")).check().unwrap();
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
    }

    #[test]
    fn folders_are_those_of_files() {
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| dir.path().join(name);
        fs::create_dir(at("sub")).unwrap();
        fs::write(at("file"), "").unwrap();
        let folder = |path: PathBuf| Place::from(path).folder();
        for name in ["file", "new"] {
            assert_eq!(folder(at(name)), Some(dir.path().to_path_buf()), "{name}");
            assert!(!Place::from(at(name)).is_stream());
        }
        assert_eq!(folder("new-here".into()), Some(".".into()));
        assert_eq!(folder(at("sub")), None);
        let said = |path: PathBuf| Place::from(path).check().unwrap_err().to_string();
        assert!(said("/".into()).contains("has no file name"));
        assert!(said(at("file/x")).contains("file/x: "));
        #[cfg(unix)]
        {
            std::os::unix::fs::symlink("sub/there", at("link")).unwrap();
            assert_eq!(folder(at("link")), Some(at("sub")));
            assert_eq!(folder("/dev/null".into()), None);
            assert_eq!(folder("/dev/fd/0".into()), None);
            assert!(Place::from("/dev/null").is_stream());
            let _socket = std::os::unix::net::UnixListener::bind(at("socket")).unwrap();
            assert!(said(at("socket")).contains("is a socket, which takes bytes in their order only"));
            assert!(said("/dev/null".into()).contains("is a device, which takes"));
        }
    }

    #[test]
    fn open_files_have_folders_of_their_own() {
        for (folder, is) in [
            ("/dev/fd", true),
            ("/proc/self/fd", true),
            ("/proc/7/fd", true),
            ("/proc/7/fdinfo", false),
            ("/proc", false),
            ("/home/fd", false),
            ("/dev", false),
        ] {
            assert_eq!(is_of_open_files(Path::new(folder)), is, "{folder}");
        }
    }

    #[test]
    fn folders_that_cannot_be_written_to_are_named() {
        let said = |kind: ErrorKind| refused(Path::new("a/b"), Path::new("a"), kind.into()).to_string();
        for kind in [ErrorKind::PermissionDenied, ErrorKind::ReadOnlyFilesystem] {
            assert!(said(kind).starts_with("a/b: the folder a cannot be written to: "));
        }
        assert!(said(ErrorKind::StorageFull).contains("free some space"));
    }

    #[test]
    fn names_are_cut_between_letters() {
        let cut = |name: &str, most| shortened(OsStr::new(name), most).into_string().unwrap();
        assert_eq!((cut("abc", 3), cut("abc", 2), cut("abc", 0)), ("abc".into(), "ab".into(), String::new()));
        assert_eq!((cut("aäb", 2), cut("aäb", 3), cut("ää", 1)), ("a".into(), "aä".into(), String::new()));
    }

    #[cfg(unix)]
    #[test]
    fn links_are_followed_to_their_end() {
        use std::os::unix::fs::symlink;
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| dir.path().join(name);
        fs::create_dir(at("sub")).unwrap();
        symlink("sub/b", at("a")).unwrap();
        symlink("../c", at("sub/b")).unwrap();
        let target = |path: PathBuf| match Place::from(path).resolve() {
            Ok(Target::File { target }) => Ok(target),
            Ok(Target::Stream(path)) => Err(path.display().to_string()),
            Err(e) => Err(e.to_string()),
        };
        assert_eq!(target(at("a")).unwrap(), at("sub/../c"));
        symlink("d", at("e")).unwrap();
        symlink("e", at("d")).unwrap();
        assert!(target(at("d")).unwrap_err().contains("more than 40 symbolic links"));
        assert_eq!(target("/dev/null".into()).unwrap_err(), "/dev/null");
        #[cfg(target_os = "linux")]
        {
            symlink("/dev/stdout", at("out.clust")).unwrap();
            assert_eq!(target(at("out.clust")).unwrap_err(), "/proc/self/fd/1");
        }
    }
}
