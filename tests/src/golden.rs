//! The golden data: small runs with known results, from the peer library and from the executable SPEC.
//!
//! They lie compressed in `golden/` beside this crate. A set's `*_frames.npz` holds its 1000 dark frames as
//! `dark_base + dark_above` and its data frames; every other file is one result, named after what was computed.

use std::path::PathBuf;
use std::sync::Arc;

use scheidegg::{ClusterSize, Noise, Params, PixelMask, Plane, Precision, Shape, Ties, Update};

use crate::npy::{Npz, Values};

/// The names of the sets.
pub const SETS: [&str; 3] = ["moench", "weak", "edges"];

/// Frames of a set.
#[derive(Clone, Debug)]
pub struct Set {
    /// Rows and columns.
    pub shape: Shape,
    /// 1000 dark frames.
    pub darks: Vec<u16>,
    /// Data frames, numbered from 0.
    pub data: Vec<u16>,
}

/// The known result of a run over a set.
#[derive(Clone, Debug)]
pub struct Expected {
    /// The file's name.
    pub file: String,
    /// The set's name.
    pub set: String,
    /// What was computed.
    pub params: Params,
    /// Frame of every cluster.
    pub frame: Vec<u64>,
    /// Column of every cluster.
    pub x: Vec<u16>,
    /// Row of every cluster.
    pub y: Vec<u16>,
    /// The `w*h` values of every cluster.
    pub data: Vec<i32>,
    /// What only the executable SPEC tells: the value of every centre, the final pedestal, the branches.
    pub exact: Option<Exact>,
}

/// Results to the bit.
#[derive(Clone, Debug)]
pub struct Exact {
    /// `d` of every cluster's centre, in C.
    pub value: Plane,
    /// The final `sum`, in P.
    pub sum: Plane,
    /// The final `sum2`, in P.
    pub sum2: Plane,
    /// The offsets.
    pub x0: Vec<u16>,
    /// The branch of every pixel of every frame, for some.
    pub trace: Option<Vec<u8>>,
}

/// Where the golden data lie: in this crate, or where `SCHEIDEGG_GOLDEN` says (a program that was built elsewhere).
pub fn folder() -> PathBuf {
    match std::env::var_os("SCHEIDEGG_GOLDEN") {
        Some(folder) => folder.into(),
        None => PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("golden"),
    }
}

/// Reads the frames of a set.
///
/// # Errors
/// A sentence that names the file.
pub fn set(name: &str) -> Result<Set, String> {
    let mut npz = Npz::open(&folder().join(format!("{name}_frames.npz")))?;
    let base = npz.array("dark_base")?;
    let &[rows, cols] = &base.shape[..] else { return Err(format!("{name}: dark_base is no image")) };
    let base = base.u16()?;
    let above = npz.array("dark_above")?.u8()?;
    let darks = above.iter().enumerate().map(|(i, &a)| base[i % base.len()] + u16::from(a)).collect();
    let shape = Shape::new(rows, cols).map_err(|e| e.to_string())?;
    Ok(Set { shape, darks, data: npz.array("data")?.u16()? })
}

/// The mask of the results named `masked`: the pixels where `7*row + 3*col` is a multiple of 11.
pub fn striped_mask(shape: Shape) -> PixelMask {
    let mut mask = PixelMask::new(shape);
    for i in 0..shape.pixels() {
        if (7 * (i / shape.cols) + 3 * (i % shape.cols)).is_multiple_of(11) {
            mask.insert_index(i);
        }
    }
    mask
}

/// The names of all results, sorted.
///
/// # Errors
/// When the folder cannot be read.
pub fn results() -> Result<Vec<String>, String> {
    let folder = folder();
    let entries = std::fs::read_dir(&folder).map_err(|e| format!("{}: {e}", folder.display()))?;
    let mut names: Vec<String> = entries
        .filter_map(|e| e.ok()?.file_name().into_string().ok())
        .filter(|n| n.ends_with(".npz") && !n.ends_with("_frames.npz"))
        .collect();
    names.sort();
    Ok(names)
}

/// Reads a result.
///
/// # Errors
/// A sentence that names the file.
pub fn result(file: &str) -> Result<Expected, String> {
    let mut npz = Npz::open(&folder().join(file))?;
    let strange = || format!("{file}: not named like a result");
    let words: Vec<&str> = file.trim_end_matches(".npz").split('_').collect();
    let [set, size, kind @ ..] = &words[..] else { return Err(strange()) };
    let size: ClusterSize = size.parse().map_err(|_| strange())?;
    let mut params = Params { precision: Precision::F64, ..Params::new(size) };
    let mut masked = false;
    match kind {
        ["aare2026.7.2"] => params.update = Update::Serial,
        ["aare2026.9.30"] => params.noise = Noise::Fixed,
        [mode, precision, rest @ ..] => {
            (params.update, params.noise) = match *mode {
                "frozen" => (Update::Frozen, Noise::Tracked),
                "frozenfixed" => (Update::Frozen, Noise::Fixed),
                "serial" => (Update::Serial, Noise::Tracked),
                "serialfixed" => (Update::Serial, Noise::Fixed),
                _ => return Err(strange()),
            };
            params.precision = match *precision {
                "f32f32" => Precision::F32,
                "f64f32" => Precision::F64F32,
                "f64f64" => Precision::F64,
                _ => return Err(strange()),
            };
            for word in rest {
                match *word {
                    "tiesfirst" => params.ties = Ties::First,
                    "masked" => masked = true,
                    _ => return Err(strange()),
                }
            }
        }
        _ => return Err(strange()),
    }
    let plane = |npz: &mut Npz, name: &str| match npz.array(name)?.values {
        Values::F32(v) => Ok(Plane::F32(v)),
        Values::F64(v) => Ok(Plane::F64(v)),
        _ => Err(format!("{file}: {name}: not a plane of numbers")),
    };
    if masked {
        params.mask = Some(Arc::new(striped_mask(self::set(set)?.shape)));
    }
    let exact = match npz.has("sum2") {
        false => None,
        true => Some(Exact {
            value: plane(&mut npz, "value")?,
            sum: plane(&mut npz, "sum")?,
            sum2: plane(&mut npz, "sum2")?,
            x0: npz.array("x0")?.u16()?,
            trace: if npz.has("trace") { Some(npz.array("trace")?.u8()?) } else { None },
        }),
    };
    Ok(Expected {
        file: file.into(),
        set: (*set).into(),
        params,
        frame: npz.array("frame")?.u64()?,
        x: npz.array("x")?.u16()?,
        y: npz.array("y")?.u16()?,
        data: npz.array("data")?.i32()?,
        exact,
    })
}
