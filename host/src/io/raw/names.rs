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
    let (stem, extension) = name.rsplit_once('.')?;
    if !extension.eq_ignore_ascii_case("raw") {
        return None;
    }
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

/// The parts of `<base>_f<index>.dat`, or of `<base>_<index>.dat` with six digits: one file of a series.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct DatName {
    /// What every file of the series starts with, up to the index.
    pub base: String,
    pub index: u64,
    /// Digits the index is written with.
    pub digits: usize,
    extension: String,
}

impl DatName {
    /// The name of another file of the series.
    pub fn with_index(&self, index: u64) -> String {
        format!("{}{index:0digits$}.{}", self.base, self.extension, digits = self.digits)
    }

    /// Whether both are of one series.
    pub fn is_beside(&self, other: &DatName) -> bool {
        self.base == other.base && self.digits == other.digits && self.extension == other.extension
    }
}

/// Takes the name of one `.dat` file of a series apart, or says that it is none.
pub(crate) fn dat_name(name: &str) -> Option<DatName> {
    /// Digits of an index that no letter marks: fewer may as well be a run or a date.
    const DIGITS: usize = 6;
    let (stem, extension) = name.rsplit_once('.')?;
    if !extension.eq_ignore_ascii_case("dat") {
        return None;
    }
    let start = stem.rfind(|c: char| !c.is_ascii_digit())? + 1;
    let (base, index) = stem.split_at(start);
    let marked = base.ends_with("_f") && !index.is_empty();
    let bare = base.ends_with('_') && index.len() == DIGITS;
    (marked || bare).then(|| index.parse().ok()).flatten().map(|number| DatName {
        base: base.to_string(),
        index: number,
        digits: index.len(),
        extension: extension.to_string(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_of_a_series_are_known() {
        let n = dat_name("a_b_f00012.dat").unwrap();
        assert_eq!((n.base.as_str(), n.index, n.digits), ("a_b_f", 12, 5));
        assert_eq!(n.with_index(7), "a_b_f00007.dat");
        assert!(n.is_beside(&dat_name("a_b_f00000.dat").unwrap()));
        assert!(!n.is_beside(&dat_name("a_b_f0000.dat").unwrap()));
        assert_eq!(dat_name("x_000003.DAT").unwrap().with_index(10), "x_000010.DAT");
        let (n, other) = (dat_name("x_f01.dat").unwrap(), |name| dat_name(name).unwrap());
        assert!(n.is_beside(&other("x_f02.dat")) && !n.is_beside(&other("y_f01.dat")));
        assert!(!n.is_beside(&other("x_f1.dat")) && !n.is_beside(&other("x_f01.DAT")));
        assert_eq!(dat_name("x_f3.dat").unwrap().with_index(12), "x_f12.dat");
        assert_eq!(dat_name("x_f99999999999999999999.dat"), None);
        for not in [
            "run_0123.dat",
            "x_0000001.dat",
            "x000001.dat",
            "a_f.dat",
            "a.dat",
            "20261130.dat",
            "a_f00001.raw",
            "f7",
        ] {
            assert_eq!(dat_name(not), None, "{not}");
        }
    }

    #[test]
    fn names_are_taken_apart() {
        let n = data_file_name("scan_d1_x_d12_f000000000003_42.raw").unwrap();
        assert_eq!(
            (n.base.as_str(), n.port, n.file, n.digits, n.run.as_str()),
            ("scan_d1_x", 12, 3, 12, "42")
        );
        assert_eq!(data_file_name("a_d0_f1_2.RAW").unwrap().file, 1);
        for not in ["a_master_0.raw", "a_d0_f0_0.json", "a_d_f0_0.raw", "a_d0_f0_x.raw", "_f0_0.raw"] {
            assert_eq!(data_file_name(not), None, "{not}");
        }
        assert_eq!(master_name(Path::new("/x/a_b_master_7.json")), Some(("a_b".into(), "7".into())));
        assert_eq!(master_name(Path::new("a_b.json")), None);
    }
}
