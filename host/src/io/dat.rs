//! JUNGFRAU `.dat` files: per frame 16 bytes (`u64` frame number, `u64` bunch) and an image of `u16` words.

use std::path::Path;

use scheidegg_finder::{Error, FrameBuf, Result, Shape};

use super::files::OpenOptions;
use super::raw::{Assembly, Gain, Part, dat_name};
use super::read_at::Blob;
use super::{Facts, Health, Skipped, Source};

const HEADER: u64 = 16;

/// Images that are written to `.dat` files: a module, half of one, a chip.
pub const DAT_SHAPES: [Shape; 3] =
    [Shape { rows: 512, cols: 1024 }, Shape { rows: 256, cols: 1024 }, Shape { rows: 256, cols: 256 }];

/// The frames of a JUNGFRAU `.dat` file or series of files, decoded like raw files are. Files are open only while they are
/// read.
#[derive(Debug)]
pub struct DatSource {
    frames: Assembly,
}

impl DatSource {
    /// Opens one file. The shape of the image is told by the file's length and frame numbers where none is given.
    ///
    /// # Errors
    /// [`Error::File`] when no shape fits, or more than one.
    pub fn open(path: &Path, shape: Option<Shape>, gain: Gain) -> Result<DatSource> {
        DatSource::open_alone(path, &OpenOptions { gain, dat_shape: shape, ..OpenOptions::default() })
    }

    /// Opens one file, whatever stands beside it.
    ///
    /// # Errors
    /// As [`DatSource::open`].
    pub fn open_alone(path: &Path, options: &OpenOptions) -> Result<DatSource> {
        let parts = vec![Part::on_disk(path.to_path_buf(), 0)?];
        let how = (options.gain, options.keep_going);
        DatSource::of(path, path.display().to_string(), parts, options.dat_shape, how)
    }

    /// Opens the series that a file belongs to: the files beside it whose names differ in the index at the end only
    /// (`NAME_f00000.dat`, or `NAME_000000.dat` with six digits). Any other file is opened alone.
    ///
    /// # Errors
    /// As [`DatSource::open`].
    pub fn open_series(path: &Path, options: &OpenOptions) -> Result<DatSource> {
        let how = (options.gain, options.keep_going);
        let own = path.file_name().and_then(|n| dat_name(&n.to_string_lossy()));
        let Some(own) = own else {
            return DatSource::open_alone(path, options);
        };
        super::read_at::plain_file(path)?;
        let folder = path.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new("."));
        let mut parts = Vec::new();
        for entry in std::fs::read_dir(folder).map_err(|e| Error::io(folder, e))? {
            let name = entry.map_err(|e| Error::io(folder, e))?.file_name();
            let Some(found) = dat_name(&name.to_string_lossy()).filter(|n| n.is_beside(&own)) else {
                continue;
            };
            parts.push(Part::on_disk(folder.join(name), found.index)?);
        }
        parts.sort_by_key(Part::index);
        let name = match parts.len() {
            1 => path.display().to_string(),
            n => format!("{} and {} more files of its series", path.display(), n - 1),
        };
        DatSource::of(path, name, parts, options.dat_shape, how)
    }

    fn of(
        path: &Path,
        name: String,
        parts: Vec<Part>,
        shape: Option<Shape>,
        (gain, keep_going): (Gain, bool),
    ) -> Result<DatSource> {
        let shape = match shape {
            Some(shape) => shape,
            None => {
                let (blob, bytes) = Blob::open(path)?;
                shape_of(&blob, bytes).map_err(|what| Error::file(path, what))?
            }
        };
        let frames = Assembly::of_dat(name, shape, parts, gain, keep_going);
        Ok(DatSource { frames: frames.map_err(|what| Error::file(path, what))? })
    }
}

fn stride_of(shape: Shape) -> u64 {
    HEADER + shape.pixels() as u64 * 2
}

fn number_at(blob: &Blob, at: u64) -> std::io::Result<u64> {
    let mut number = [0; 8];
    blob.read_exact_at(&mut number, at)?;
    Ok(u64::from_le_bytes(number))
}

/// The shape whose frames fill the file with ascending numbers.
fn shape_of(blob: &Blob, bytes: u64) -> std::result::Result<Shape, String> {
    /// Frame numbers further apart than this are no neighbours.
    const FAR: u64 = 1 << 32;
    let ascending = |shape: Shape| {
        let stride = stride_of(shape);
        let numbers: Vec<_> =
            (0..(bytes / stride).min(4)).map(|k| number_at(blob, k * stride).unwrap_or(u64::MAX)).collect();
        numbers.windows(2).all(|w| w[0] < w[1] && w[1] - w[0] < FAR)
    };
    let of_size = |whole: bool| {
        let fits = move |s: &Shape| bytes >= stride_of(*s) && (!whole || bytes.is_multiple_of(stride_of(*s)));
        DAT_SHAPES.into_iter().filter(fits)
    };
    // A file that was cut fills no shape; its frame numbers still tell, from the second frame on. One whose length fits one
    // shape only may have any numbers.
    let mut candidates: Vec<_> = of_size(true).filter(|s| ascending(*s)).collect();
    if candidates.is_empty() {
        candidates = Some(of_size(true).collect::<Vec<_>>())
            .filter(|c| c.len() == 1)
            .unwrap_or_else(|| of_size(false).filter(|s| ascending(*s)).collect());
    }
    match candidates.as_slice() {
        [shape] => Ok(*shape),
        [] => Err(format!(
            "{bytes} bytes are no frames of 16 bytes and 512 x 1024, 256 x 1024 or 256 x 256 pixels with ascending numbers"
        )),
        many => {
            let names: Vec<_> = many.iter().map(Shape::to_string).collect();
            Err(format!("may hold images of {}: say which", names.join(" or ")))
        }
    }
}

impl Source for DatSource {
    fn name(&self) -> String {
        self.frames.name().to_string()
    }

    fn shape(&self) -> Shape {
        self.frames.shape()
    }

    fn remaining(&self) -> Option<u64> {
        Some(self.frames.left())
    }

    fn read(&mut self, into: &mut FrameBuf) -> Result<usize> {
        self.frames.read(into)
    }

    fn skip(&mut self, frames: u64) -> Result<Skipped> {
        self.frames.skip(frames)
    }

    fn facts(&self) -> Facts {
        Facts { detector: Some("Jungfrau".into()), ..Facts::default() }
    }

    fn health(&self) -> Health {
        self.frames.health(true)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    const SMALL: Shape = DAT_SHAPES[2];

    /// The headers of small frames with these numbers, and so many bytes in all.
    fn told(numbers: &[u64], bytes: u64) -> std::result::Result<Shape, String> {
        let mut content = vec![0; bytes as usize];
        for (k, n) in numbers.iter().enumerate() {
            content[k * stride_of(SMALL) as usize..][..8].copy_from_slice(&n.to_le_bytes());
        }
        shape_of(&Blob::Memory(Arc::from(content)), bytes)
    }

    #[test]
    fn a_shape_is_told_by_numbers_that_ascend_by_little() {
        const FAR: u64 = 1 << 32;
        let stride = stride_of(SMALL);
        assert_eq!(stride, 131_088);
        for (numbers, fits) in [
            (&[5, 6][..], true),
            (&[0, FAR - 1], true),
            (&[5, 4 + FAR], true),
            (&[5, 5], false),
            (&[6, 5], false),
            (&[5, 5 + FAR], false),
            (&[0, FAR], false),
            (&[0, u64::MAX], false),
        ] {
            // Cut inside the third frame, so that the length tells nothing.
            let found = told(numbers, 2 * stride + 7);
            let none = "262183 bytes are no frames of 16 bytes and 512 x 1024, 256 x 1024 or 256 x 256 pixels with ascending \
                        numbers";
            assert_eq!(found, if fits { Ok(SMALL) } else { Err(none.into()) }, "{numbers:?}");
            // The length of whole frames tells all, where no other shape has it.
            assert_eq!(told(numbers, 2 * stride), Ok(SMALL), "{numbers:?}");
        }
        // Only the first four frames are looked at; one frame of a larger shape is in as many bytes.
        let many = told(&[1, 2, 3, 9, 4], 5 * stride + 7);
        assert_eq!(many, Err("may hold images of 256 x 1024 or 256 x 256: say which".into()));
        assert!(told(&[3], stride - 1).unwrap_err().starts_with("131087 bytes are no frames"));
        assert_eq!(told(&[3], stride), Ok(SMALL));
    }

    #[test]
    fn a_series_is_called_by_the_file_that_was_given() {
        let dir = tempfile::tempdir().unwrap();
        let path = |name: &str| dir.path().join(name);
        let shape = Shape { rows: 1, cols: 2 };
        let options = OpenOptions { dat_shape: Some(shape), ..OpenOptions::default() };
        let write = |name: &str, number: u64| {
            let mut frame = [0; 20];
            frame[..8].copy_from_slice(&number.to_le_bytes());
            frame[16] = number as u8;
            std::fs::write(path(name), frame).unwrap();
        };
        let read = |name: &str| -> Result<(String, Vec<u64>)> {
            let mut source = DatSource::open_series(&path(name), &options)?;
            let mut buf = FrameBuf::new(shape, 9);
            source.read(&mut buf)?;
            Ok((source.name().replace(&*path("").to_string_lossy(), ""), buf.numbers().to_vec()))
        };
        write("a_f2.dat", 30);
        assert_eq!(read("a_f2.dat").unwrap(), ("a_f2.dat".into(), vec![30]));
        write("a_f1.dat", 20);
        write("b_f1.dat", 7);
        assert_eq!(
            read("a_f2.dat").unwrap(),
            ("a_f2.dat and 1 more files of its series".into(), vec![20, 30])
        );
        write("a_f3.dat", 40);
        assert_eq!(
            read("a_f1.dat").unwrap(),
            ("a_f1.dat and 2 more files of its series".into(), vec![20, 30, 40])
        );
        assert_eq!(DatSource::open_alone(&path("a_f3.dat"), &options).unwrap().remaining(), Some(1));
        // One that is not there has no series.
        assert!(matches!(read("a_f4.dat"), Err(Error::Io { .. })));
        write("c.dat", 9);
        assert_eq!(read("c.dat").unwrap(), ("c.dat".into(), vec![9]));
    }
}
