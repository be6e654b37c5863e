//! The names of the files of a raw run.

use std::path::{Path, PathBuf};

/// The parts of `<base>_d<port>_f<file>_<run>.raw`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DataFileName {
    /// What every file of the run starts with.
    pub base: String,
    /// UDP port.
    pub port: usize,
    /// Index of the file in the series of its port.
    pub file: u64,
    /// Digits the index is written with; packages before 4.0 write 12.
    pub digits: usize,
    /// The run as it is written.
    pub run: String,
}

/// Takes the name of a data file apart, or says that it is none.
pub fn data_file_name(name: &str) -> Option<DataFileName> {
    let stem = name.strip_suffix(".raw")?;
    let (rest, run) = stem.rsplit_once('_')?;
    let (rest, file) = rest.rsplit_once("_f")?;
    let (base, port) = rest.rsplit_once("_d")?;
    let number = |s: &str| !s.is_empty() && s.bytes().all(|b| b.is_ascii_digit());
    if !number(run) || !number(file) || !number(port) {
        return None;
    }
    Some(DataFileName {
        base: base.to_string(),
        port: port.parse().ok()?,
        file: file.parse().ok()?,
        digits: file.len(),
        run: run.to_string(),
    })
}

/// Takes `<base>_master_<run>` apart: the base and the run of a master file.
pub(crate) fn master_name(path: &Path) -> Option<(String, String)> {
    let stem = path.file_stem()?.to_str()?;
    let (base, run) = stem.rsplit_once("_master_")?;
    (!run.is_empty() && run.bytes().all(|b| b.is_ascii_digit())).then(|| (base.to_string(), run.to_string()))
}

/// The master files that may stand beside a data file.
pub(crate) fn masters_of(path: &Path, name: &DataFileName) -> [PathBuf; 2] {
    ["json", "raw"].map(|ext| path.with_file_name(format!("{}_master_{}.{ext}", name.base, name.run)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_taken_apart() {
        let n = data_file_name("scan_d1_x_d12_f000000000003_42.raw").unwrap();
        assert_eq!(
            (n.base.as_str(), n.port, n.file, n.digits, n.run.as_str()),
            ("scan_d1_x", 12, 3, 12, "42")
        );
        for not in ["a_master_0.raw", "a_d0_f0_0.json", "a_d_f0_0.raw", "a_d0_f0_x.raw", "_f0_0.raw"] {
            assert_eq!(data_file_name(not), None, "{not}");
        }
        assert_eq!(master_name(Path::new("/x/a_b_master_7.json")), Some(("a_b".into(), "7".into())));
        assert_eq!(master_name(Path::new("a_b.json")), None);
    }
}
