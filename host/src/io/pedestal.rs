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

#[cfg(test)]
mod tests {
    use scheidegg_finder::{Frames, Precision, Trainer};

    use super::*;

    const SHAPE: Shape = Shape { rows: 2, cols: 3 };

    fn pedestal() -> Pedestal {
        let mut trainer = Trainer::new(SHAPE);
        trainer.add(Frames::new(&[1, 2, 3, 4, 5, 6, 2, 2, 4, 4, 9, 6], SHAPE).unwrap()).unwrap();
        trainer.finish(Precision::F32).unwrap()
    }

    fn array(descr: &str, sides: &[u64], bytes: &[u8]) -> Vec<u8> {
        [NpyHeader::write(&format!("'{descr}'"), sides), bytes.to_vec()].concat()
    }

    fn in_fortran_order(array: &[u8]) -> Vec<u8> {
        let at = array.windows(5).position(|w| w == b"False").unwrap();
        [&array[..at], b"True ", &array[at + 5..]].concat()
    }

    #[test]
    fn facts_and_provenance_are_there_where_they_are_given() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("p.npz");
        let known = Facts { detector: Some("Moench".into()), storage_cell: Some(3), ..Facts::default() };
        let told = Provenance { host: "h".into(), frames: 7, ..Provenance::default() };
        for (facts, provenance) in [(false, false), (true, false), (false, true), (true, true)] {
            let some = if facts { known.clone() } else { Facts::default() };
            save_pedestal_with(&path, &pedestal(), &some, provenance.then_some(&told)).unwrap();
            let mut names = ["shape", "samples", "x0", "sum", "sum2"].map(String::from).to_vec();
            names.extend(facts.then(|| "facts".into()));
            names.extend(provenance.then(|| "provenance".into()));
            let mut npz = Npz::open(&path).unwrap();
            let mut found = npz.names();
            found.sort();
            names.sort();
            assert_eq!(found, names);
            assert_eq!(load_pedestal_facts(&path).unwrap(), some);
            let said = npz.json("provenance").unwrap().map(|v| v.to_string());
            let said = said.map(|text| Provenance::from_json(&text).unwrap());
            assert_eq!(said.as_ref(), provenance.then_some(&told));
            assert_eq!(load_pedestal(&path).unwrap(), pedestal());
        }
    }

    #[test]
    fn what_are_no_facts_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("p.npz");
        let load = |facts: Vec<u8>| {
            write_npz(&path, &[("facts", facts)]).unwrap();
            load_pedestal_facts(&path)
        };
        let most = 1 << 20;
        let long = |bytes: usize| [b"{}".to_vec(), vec![b' '; bytes - 2]].concat();
        assert_eq!(load(array("|u1", &[most], &long(1 << 20))).unwrap(), Facts::default());
        for (facts, words) in [
            (array("|u1", &[most + 1], &long((1 << 20) + 1)), "is |u1 [1048577], expected |u1"),
            (array("<u2", &[1], b"{}"), "is <u2 [1], expected |u1"),
            (array("|u1", &[2], b"{]"), "is no JSON of facts: "),
        ] {
            let said = load(facts).unwrap_err().to_string();
            assert!(said.contains(&format!("p.npz: array facts {words}")), "{said}");
        }
    }

    #[test]
    fn an_array_that_does_not_fit_is_named_with_what_it_is() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("p.npz");
        let f4 = |v: f32| v.to_ne_bytes().repeat(6);
        let good = |name: &str| match name {
            "shape" => array("<u8", &[2], bytemuck::cast_slice(&[2u64, 3])),
            "samples" => array("<u8", &[], &2u64.to_ne_bytes()),
            "x0" => array("<u2", &[2, 3], &[5; 12]),
            "untrained" => array("|b1", &[2, 3], &[0, 0, 1, 0, 0, 2]),
            "sum2" | "fixed_variance" => array("<f4", &[2, 3], &f4(9.0)),
            _ => array("<f4", &[2, 3], &f4(1.0)),
        };
        let with = |name: &str, instead: Option<Vec<u8>>| {
            let all = ["shape", "samples", "x0", "sum", "sum2", "fixed_variance", "untrained"];
            let kept = all.into_iter().filter(|n| *n != name).map(|n| (n, good(n)));
            let all: Vec<_> = kept.chain(instead.map(|bytes| (name, bytes))).collect();
            write_npz(&path, &all).unwrap();
            load_pedestal(&path)
        };
        let whole = with("x0", Some(good("x0"))).unwrap();
        assert_eq!((whole.samples, &whole.x0[..]), (2, &[0x505; 6][..]));
        assert_eq!(whole.untrained.unwrap().indices().collect::<Vec<_>>(), [2, 5]);
        assert_eq!(whole.fixed_variance, Some(Plane::F32(vec![9.0; 6])));
        let zeros = |n: u64| array("<u8", &[n], &vec![0; 8 * n as usize]);
        let c_order = "of shape 2 x 3 in C order";
        for (name, instead, words) in [
            ("shape", array("<u4", &[2], &[1; 8]), "array shape is <u4 [2], expected <u8".to_string()),
            ("shape", zeros(17), "array shape is <u8 [17], expected <u8".into()),
            ("shape", zeros(16), format!("array shape is {:?}, expected rows and cols", [0; 16])),
            ("shape", zeros(2), "0 x 0".into()),
            ("samples", array("<i8", &[], &[1; 8]), "array samples is <i8 [], expected <u8".into()),
            ("samples", zeros(2), "array samples is [0, 0], expected one number".into()),
            (
                "x0",
                array("<i2", &[2, 3], &[0; 12]),
                format!("array x0 is <i2 of shape [2, 3], expected <u2 {c_order}"),
            ),
            (
                "x0",
                array("<u2", &[3, 2], &[0; 12]),
                format!("array x0 is <u2 of shape [3, 2], expected <u2 {c_order}"),
            ),
            (
                "x0",
                in_fortran_order(&good("x0")),
                format!("array x0 is <u2 of shape [2, 3] in Fortran order, expected <u2 {c_order}"),
            ),
            (
                "sum",
                array("<i4", &[2, 3], &[0; 24]),
                format!("array sum is <i4 of shape [2, 3], expected <f4 or <f8 {c_order}"),
            ),
            (
                "sum2",
                array("<f4", &[6], &[0; 24]),
                format!("array sum2 is <f4 of shape [6], expected <f4 or <f8 {c_order}"),
            ),
            (
                "fixed_variance",
                array("<f2", &[2, 3], &[0; 12]),
                format!("array fixed_variance is <f2 of shape [2, 3], expected <f4 or <f8 {c_order}"),
            ),
            (
                "untrained",
                array("<u2", &[2, 3], &[0; 12]),
                format!("array untrained is <u2 of shape [2, 3], expected |b1 or |u1 {c_order}"),
            ),
            // What no frames lead to.
            ("sum", array("<f4", &[2, 3], &f4(f32::NAN)), "pedestal sum".into()),
            ("fixed_variance", array("<f8", &[2, 3], &[0; 48]), "pedestal".into()),
        ] {
            let said = with(name, Some(instead)).unwrap_err().to_string();
            assert!(said.contains("p.npz: ") && said.contains(&words), "{name}: {said}");
        }
        for name in ["shape", "samples", "x0", "sum", "sum2"] {
            let said = with(name, None).unwrap_err().to_string();
            assert!(said.contains(&format!("p.npz: has no array {name} (found: ")), "{said}");
        }
        for name in ["fixed_variance", "untrained"] {
            assert!(with(name, None).is_ok(), "{name} need not be there");
        }
    }
}
