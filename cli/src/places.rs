//! Where results may go: not in the place of what they are made from, nor of one another.

use std::path::{Path, PathBuf};

use scheidegg::{Error, Result};

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

/// Refuses a file name without this ending, which says what kind of file it is.
pub fn ends_with(option: &str, path: &Path, ending: &str) -> Outcome {
    if path.extension().is_some_and(|e| e.eq_ignore_ascii_case(ending)) {
        return Ok(());
    }
    Err(Failure::Usage(Error::param(option, path.display(), format!("a name that ends with .{ending}"))))
}

/// Makes a folder for results where there is none.
pub fn folder(path: &Path) -> Result<()> {
    if path.exists() && !path.is_dir() {
        return Err(Error::file(path, "is a file: give the name of a folder"));
    }
    std::fs::create_dir_all(path).map_err(|e| Error::io(path, e))
}

/// The one way to write a path, whether a file is there or not.
fn place(path: &Path) -> PathBuf {
    let folder = path.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let beside = || Some(folder.canonicalize().ok()?.join(path.file_name()?));
    path.canonicalize().ok().or_else(beside).unwrap_or_else(|| path.to_path_buf())
}
