//! Pedestals in `.npz` files: training once, finding many times.

use std::path::Path;

use scheidegg_finder::{Error, Pedestal, PixelMask, Plane, Result, Shape};

use super::archive::write_npz;
use super::facts::Facts;
use super::npy::{Dtype, NpyHeader, Scalar};
use super::npz::{Array, Npz};
use super::output::Place;
use crate::provenance::Provenance;

/// Saves a pedestal as a `.npz` file with the arrays `shape` (rows, cols), `samples`, `x0`, `sum`, `sum2` and, where the
/// pedestal has them, `fixed_variance` and `untrained`. Planes are `rows x cols` in the pedestal's precision, so that nothing
/// is lost.
///
/// # Errors
/// As [`Output::create`](super::Output::create).
pub fn save_pedestal(place: impl Into<Place>, pedestal: &Pedestal) -> Result<()> {
    save_pedestal_with(place, pedestal, &Facts::default(), None)
}

/// As [`save_pedestal`], with how its dark frames were taken, an array `facts` of bytes with a JSON object, and where it
/// comes from, a string of JSON `provenance`.
///
/// # Errors
/// As [`save_pedestal`].
pub fn save_pedestal_with(
    place: impl Into<Place>,
    pedestal: &Pedestal,
    facts: &Facts,
    provenance: Option<&Provenance>,
) -> Result<()> {
    pedestal.validate()?;
    let sides = [pedestal.shape.rows as u64, pedestal.shape.cols as u64];
    let array = |descr: &str, shape: &[u64], bytes: &[u8]| {
        let mut all = NpyHeader::write(&format!("'{descr}'"), shape);
        all.extend_from_slice(bytes);
        all
    };
    let plane = |plane: &Plane| match plane {
        Plane::F32(v) => array("<f4", &sides, bytemuck::cast_slice(v)),
        Plane::F64(v) => array("<f8", &sides, bytemuck::cast_slice(v)),
    };
    let mut members = vec![
        ("shape", array("<u8", &[2], bytemuck::cast_slice(&sides))),
        ("samples", array("<u8", &[], &pedestal.samples.to_le_bytes())),
        ("x0", array("<u2", &sides, bytemuck::cast_slice(&pedestal.x0))),
        ("sum", plane(&pedestal.sum)),
        ("sum2", plane(&pedestal.sum2)),
    ];
    if let Some(variance) = &pedestal.fixed_variance {
        members.push(("fixed_variance", plane(variance)));
    }
    if let Some(mask) = &pedestal.untrained {
        let bytes: Vec<u8> = (0..pedestal.shape.pixels()).map(|i| u8::from(mask.contains_index(i))).collect();
        members.push(("untrained", array("|b1", &sides, &bytes)));
    }
    if *facts != Facts::default() {
        let text = serde_json::to_vec(facts).map_err(|e| Error::Other(e.to_string()))?;
        members.push(("facts", array("|u1", &[text.len() as u64], &text)));
    }
    if let Some(provenance) = provenance {
        let text = provenance.to_json();
        members.push(("provenance", array(&format!("|S{}", text.len()), &[], text.as_bytes())));
    }
    write_npz(place, &members)
}

/// How the dark frames of a saved pedestal were taken; nothing is known of those of a file without `facts`.
///
/// # Errors
/// [`Error::File`] for a file that is not whole, or facts that are none.
pub fn load_pedestal_facts(path: &Path) -> Result<Facts> {
    let err = |what: String| Error::file(path, format!("array facts {what}"));
    let Some(array) = Npz::open(path)?.array("facts")? else { return Ok(Facts::default()) };
    if array.header.dtype != Dtype::One(Scalar::new('u', 1))
        || array.header.shape.iter().any(|n| *n > 1 << 20)
    {
        return Err(err(format!("is {} {:?}, expected |u1", array.header.dtype, array.header.shape)));
    }
    let text: Vec<u8> = array.values("facts", path)?;
    serde_json::from_slice(&text).map_err(|e| err(format!("is no JSON of facts: {e}")))
}

/// Loads a pedestal that [`save_pedestal`] saved.
///
/// # Errors
/// [`Error::File`] for a file that is not whole or whose bytes are not those that were written (their CRC-32), an array that is
/// missing or of another type or shape, a value that is no number.
pub fn load_pedestal(path: &Path) -> Result<Pedestal> {
    let mut npz = Npz::open(path)?;
    let err = |what: String| Error::file(path, what);
    // Named first: any other .npz lacks it.
    let sides = numbers(&npz.need("shape")?, "shape", path)?;
    let &[rows, cols] = sides.as_slice() else {
        return Err(err(format!("array shape is {sides:?}, expected rows and cols")));
    };
    let side = |n: u64| usize::try_from(n).unwrap_or(usize::MAX);
    let shape = Shape::new(side(rows), side(cols)).map_err(|e| err(e.to_string()))?;
    let samples = match numbers(&npz.need("samples")?, "samples", path)?.as_slice() {
        &[n] => n,
        other => return Err(err(format!("array samples is {other:?}, expected one number"))),
    };
    let x0 = npz.need("x0")?;
    let x0 = check_plane(&x0, "x0", shape, &[Scalar::new('u', 2)], path)?.values("x0", path)?;
    let plane = |name: &str, npz: &mut Npz| match npz.array(name)? {
        Some(array) => plane_of(&array, name, shape, path).map(Some),
        None => Ok(None),
    };
    let (sum, sum2) = (npz.need("sum")?, npz.need("sum2")?);
    let pedestal = Pedestal {
        shape,
        samples,
        x0,
        sum: plane_of(&sum, "sum", shape, path)?,
        sum2: plane_of(&sum2, "sum2", shape, path)?,
        fixed_variance: plane("fixed_variance", &mut npz)?,
        untrained: match npz.array("untrained")? {
            Some(array) => Some(mask_of(&array, "untrained", shape, path)?),
            None => None,
        },
    };
    pedestal.validate().map_err(|e| err(e.to_string()))?;
    Ok(pedestal)
}

fn numbers(array: &Array, name: &str, path: &Path) -> Result<Vec<u64>> {
    if array.header.dtype != Dtype::One(Scalar::new('u', 8)) || array.header.shape.iter().any(|n| *n > 16) {
        let (dtype, shape) = (&array.header.dtype, &array.header.shape);
        return Err(Error::file(path, format!("array {name} is {dtype} {shape:?}, expected <u8")));
    }
    array.values(name, path)
}

/// Checks that an array is `rows x cols` of one of these types.
fn check_plane<'a>(
    array: &'a Array,
    name: &str,
    shape: Shape,
    kinds: &[Scalar],
    path: &Path,
) -> Result<&'a Array> {
    let h = &array.header;
    let is_kind = matches!(h.dtype, Dtype::One(s) if kinds.contains(&s));
    if is_kind && !h.fortran_order && h.shape == [shape.rows as u64, shape.cols as u64] {
        return Ok(array);
    }
    let order = if h.fortran_order { " in Fortran order" } else { "" };
    let kinds: Vec<_> = kinds.iter().map(Scalar::to_string).collect();
    Err(Error::file(
        path,
        format!(
            "array {name} is {} of shape {:?}{order}, expected {} of shape {shape} in C order",
            h.dtype,
            h.shape,
            kinds.join(" or ")
        ),
    ))
}

fn plane_of(array: &Array, name: &str, shape: Shape, path: &Path) -> Result<Plane> {
    let single = Scalar::new('f', 4);
    check_plane(array, name, shape, &[single, Scalar::new('f', 8)], path)?;
    Ok(match array.header.dtype == Dtype::One(single) {
        true => Plane::F32(array.values(name, path)?),
        false => Plane::F64(array.values(name, path)?),
    })
}

fn mask_of(array: &Array, name: &str, shape: Shape, path: &Path) -> Result<PixelMask> {
    let kinds = [Scalar::new('b', 1), Scalar::new('u', 1)];
    let bytes = check_plane(array, name, shape, &kinds, path)?.values::<u8>(name, path)?;
    PixelMask::from_bools(shape, &bytes.iter().map(|b| *b != 0).collect::<Vec<_>>())
}
