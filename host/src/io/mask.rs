//! Masks in `.npy` files.

use std::path::Path;

use scheidegg_finder::{Error, PixelMask, Result, Shape};

use super::npy::{Dtype, NpyHeader, Scalar};
use super::npz::Array;
use super::output::{Output, Place};
use super::read_at::Blob;

/// Loads a mask from a `.npy` file of `rows x cols` booleans or integers of any size, byte order and array order; what is
/// not 0 is masked.
///
/// # Errors
/// [`Error::File`] for another type or number of sides, [`Error::ShapeMismatch`] for another shape than `shape`.
pub fn load_mask(path: &Path, shape: Shape) -> Result<PixelMask> {
    let err = |what: String| Error::file(path, what);
    let (blob, bytes) = Blob::open(path)?;
    let array = Array::at(blob, 0, bytes).map_err(err)?;
    let NpyHeader { dtype, fortran_order, shape: sides, .. } = &array.header;
    let Dtype::One(Scalar { kind: 'b' | 'u' | 'i', size, .. }) = dtype else {
        let what =
            format!("is a mask of {dtype}, expected bool or integers (in numpy: np.save(name, m != 0))");
        return Err(err(what));
    };
    let &[rows, cols] = sides.as_slice() else {
        let what =
            format!("is a mask of {} sides ({sides:?}), expected rows and columns, {shape}", sides.len());
        return Err(err(what));
    };
    if (rows, cols) != (shape.rows as u64, shape.cols as u64) {
        let got = Shape { rows: rows as usize, cols: cols as usize };
        return Err(Error::ShapeMismatch { what: path.display().to_string(), expected: shape, got });
    }
    let bytes = array.values::<u8>("of the mask", path)?;
    let mut mask = PixelMask::new(shape);
    for (i, element) in bytes.chunks_exact(*size).enumerate() {
        if element.iter().any(|b| *b != 0) {
            let at = if *fortran_order { (i % shape.rows) * shape.cols + i / shape.rows } else { i };
            mask.insert_index(at);
        }
    }
    Ok(mask)
}

/// Saves a code a pixel, row-major, as a `.npy` file of `u8` that [`load_mask`] takes for a mask of those that are not 0.
///
/// # Errors
/// [`Error::Param`] for another number of codes than pixels; as [`Output::create`].
pub fn save_mask(place: impl Into<Place>, shape: Shape, codes: &[u8]) -> Result<()> {
    if codes.len() != shape.pixels() {
        let found = format!("{} codes", codes.len());
        return Err(Error::param("mask", found, format!("{} for {shape} pixels", shape.pixels())));
    }
    let mut out = Output::create(place)?;
    out.write(&NpyHeader::write("'|u1'", &[shape.rows as u64, shape.cols as u64]))?;
    out.write(codes)?;
    out.finish().map(|_| ())
}

#[cfg(test)]
mod tests {
    use super::*;

    const SHAPE: Shape = Shape { rows: 2, cols: 3 };

    fn file(dir: &Path, descr: &str, fortran: bool, sides: &str, elements: &[u8]) -> std::path::PathBuf {
        let order = if fortran { "True" } else { "False" };
        let dict = format!("{{'descr': '{descr}', 'fortran_order': {order}, 'shape': {sides}, }}");
        let mut bytes = b"\x93NUMPY\x01\x00\x76\x00".to_vec();
        bytes.extend(format!("{dict:<117}\n").bytes());
        bytes.extend(elements);
        let path = dir.join("mask.npy");
        std::fs::write(&path, bytes).unwrap();
        path
    }

    #[test]
    fn any_integer_and_any_order_says_the_same() {
        let dir = tempfile::tempdir().unwrap();
        // Pixels (0, 1) and (1, 2).
        let (c, f) = ([0u8, 1, 0, 0, 0, 1], [0u8, 0, 1, 0, 0, 1]);
        let mut seen = 0;
        for (fortran, pixels) in [(false, c), (true, f)] {
            for (kind, size) in
                [('b', 1), ('u', 1), ('i', 1), ('u', 2), ('i', 2), ('i', 4), ('u', 8), ('i', 8)]
            {
                for order in ["<", ">"] {
                    let descr = format!("{}{kind}{size}", if size == 1 { "|" } else { order });
                    // The one byte that is not 0 may be any of an element.
                    for at in 0..size {
                        let mut bytes = vec![0; 6 * size];
                        for (i, p) in pixels.iter().enumerate() {
                            bytes[i * size + at] = *p * 3;
                        }
                        let path = file(dir.path(), &descr, fortran, "(2, 3)", &bytes);
                        let mask = load_mask(&path, SHAPE).unwrap();
                        assert_eq!(mask.indices().collect::<Vec<_>>(), [1, 5], "{descr} {fortran}");
                        seen += 1;
                    }
                }
            }
        }
        assert_eq!(seen, 2 * 2 * 27);
    }

    #[test]
    fn what_is_no_mask_is_refused_by_name() {
        let dir = tempfile::tempdir().unwrap();
        for (descr, sides, bytes, words) in [
            ("<f4", "(2, 3)", 24, "mask of <f4, expected bool or integers (in numpy: np.save(name, m != 0))"),
            ("|u1", "(24,)", 24, "mask of 1 sides ([24]), expected rows and columns, 2 x 3"),
            ("|u1", "(3, 2)", 6, "shape 3 x 2, expected 2 x 3"),
            ("<i4", "(2, 400)", 24, "is cut"),
            ("|u1", "(2, 3)", 24, "18 bytes behind"),
        ] {
            let path = file(dir.path(), descr, false, sides, &vec![0; bytes]);
            let said = load_mask(&path, SHAPE).unwrap_err().to_string();
            assert!(said.contains("mask.npy: ") && said.contains(words), "{said}");
        }
    }

    #[test]
    fn codes_come_back_as_a_mask() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("m.npy");
        save_mask(&path, SHAPE, &[0, 1, 0, 16, 0, 3]).unwrap();
        assert_eq!(load_mask(&path, SHAPE).unwrap().indices().collect::<Vec<_>>(), [1, 3, 5]);
        assert!(save_mask(&path, SHAPE, &[0; 5]).is_err());
    }
}
