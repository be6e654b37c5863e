//! `.npy` files written row by row, whole only at the end.

use ndarray::ArrayView2;
use scheidegg_finder::{Error, Result, Shape};

use super::header::NpyHeader;
use crate::io::output::{Output, Place};

/// An array whose first side grows while it is written.
#[derive(Debug)]
pub(crate) struct NpyRows {
    out: Output,
    descr: String,
    /// Sides of the array; the first is the number of rows so far.
    shape: Vec<u64>,
}

impl NpyRows {
    /// Starts an array of rows of this shape. `descr` is a Python literal, `'<u2'` with its quotes.
    pub fn create(place: impl Into<Place>, descr: &str, row: &[u64]) -> Result<NpyRows> {
        let shape: Vec<u64> = std::iter::once(0).chain(row.iter().copied()).collect();
        let mut out = Output::create(place)?;
        out.write(&NpyHeader::write(descr, &shape))?;
        Ok(NpyRows { out, descr: descr.to_string(), shape })
    }

    /// The header with so many rows; all are of one length.
    pub fn header(&self, rows: u64) -> Vec<u8> {
        header(&self.descr, &self.shape, rows)
    }

    /// Hands everything that was gathered to the system.
    pub fn flush(&mut self) -> Result<()> {
        self.out.flush()
    }

    /// The file as it is, and what its header is with so many rows.
    pub fn into_parts(self) -> (Output, impl Fn(u64) -> Vec<u8>) {
        let NpyRows { out, descr, shape } = self;
        (out, move |rows| header(&descr, &shape, rows))
    }

    /// Appends rows.
    pub fn write(&mut self, rows: u64, bytes: &[u8]) -> Result<()> {
        self.out.write(bytes)?;
        self.shape[0] += rows;
        Ok(())
    }

    /// The complete file, still without its name, and its header.
    pub fn end(mut self) -> Result<(Output, Vec<u8>)> {
        let header = NpyHeader::write(&self.descr, &self.shape);
        self.out.write_over_start(&header)?;
        Ok((self.out, header))
    }
}

fn header(descr: &str, shape: &[u64], rows: u64) -> Vec<u8> {
    let shape: Vec<u64> = std::iter::once(rows).chain(shape[1..].iter().copied()).collect();
    NpyHeader::write(descr, &shape)
}

/// Writes frames to a `.npy` file of `u16`, `frames x rows x cols`. Dropped unfinished, it leaves nothing.
#[derive(Debug)]
pub struct NpyFrames {
    rows: NpyRows,
    shape: Shape,
}

impl NpyFrames {
    /// Starts a file.
    ///
    /// # Errors
    /// As [`Output::create`].
    pub fn create(place: impl Into<Place>, shape: Shape) -> Result<NpyFrames> {
        let rows = NpyRows::create(place, "'<u2'", &[shape.rows as u64, shape.cols as u64])?;
        Ok(NpyFrames { rows, shape })
    }

    /// Appends one or more frames, dense and row-major.
    ///
    /// # Errors
    /// [`Error::Param`] for what is no whole number of frames; as [`Output::write`].
    pub fn push(&mut self, pixels: &[u16]) -> Result<()> {
        let each = self.shape.pixels();
        if !pixels.len().is_multiple_of(each) {
            let found = format!("{} pixels", pixels.len());
            return Err(Error::param("frames", found, format!("a multiple of {each} ({})", self.shape)));
        }
        self.rows.write((pixels.len() / each) as u64, bytemuck::cast_slice(pixels))
    }

    /// Completes the file under its name.
    ///
    /// # Errors
    /// As [`Output::finish`].
    pub fn finish(self) -> Result<()> {
        self.rows.end()?.0.finish().map(|_| ())
    }
}

/// Writes an image, `rows x cols` of `f64`, to a `.npy` file.
///
/// # Errors
/// As [`Output::create`] and [`Output::write`].
pub fn write_image(place: impl Into<Place>, image: ArrayView2<'_, f64>) -> Result<()> {
    let mut out = Output::create(place)?;
    let (rows, cols) = image.dim();
    out.write(&NpyHeader::write("'<f8'", &[rows as u64, cols as u64]))?;
    for row in image.rows() {
        let row = row.as_standard_layout();
        out.write(bytemuck::cast_slice(row.as_slice().expect("standard layout")))?;
    }
    out.finish().map(|_| ())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What a result that is cut goes by: what has reached the file, and a header of the same length for fewer rows.
    #[test]
    fn rows_reach_the_file_and_the_header_is_made_for_any_of_them() {
        let dir = tempfile::tempdir().unwrap();
        let mut rows = NpyRows::create(dir.path().join("a.npy"), "'<u2'", &[3]).unwrap();
        let header = |n: u64| NpyHeader::write("'<u2'", &[n, 3]);
        rows.write(2, &[7; 12]).unwrap();
        rows.flush().unwrap();
        rows.write(5, &[8; 30]).unwrap();
        assert_eq!((rows.header(0), rows.header(9)), (header(0), header(9)));
        let (mut out, of) = rows.into_parts();
        assert_eq!(out.reached().unwrap(), header(0).len() as u64 + 12);
        assert_eq!((of(2), of(7)), (header(2), header(7)));
        out.write_over_start(&of(7)).unwrap();
        let path = out.finish().unwrap();
        assert_eq!(std::fs::read(path).unwrap(), [&header(7)[..], &[7; 12], &[8; 30]].concat());
    }
}
