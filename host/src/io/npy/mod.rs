//! `.npy` files: frames in, frames and images out.

mod frames;
mod header;
mod literal;
mod write;

pub use frames::NpySource;
pub(crate) use header::{Dtype, NpyHeader, Scalar};
pub(crate) use write::NpyRows;
pub use write::{NpyFrames, write_image};

use std::path::Path;

use scheidegg_finder::{Error, Result};

use super::read_at::Blob;

/// Opens a `.npy` file: its bytes, how many they are, and its header.
pub(crate) fn open(path: &Path) -> Result<(Blob, u64, NpyHeader)> {
    let (blob, bytes) = Blob::open(path)?;
    let header = read_header(&blob, bytes, 0).map_err(|what| Error::file(path, what))?;
    Ok((blob, bytes, header))
}

/// The header of an array that starts at `start` of a file and has `bytes` bytes; `data` counts from there.
pub(crate) fn read_header(blob: &Blob, bytes: u64, start: u64) -> Result<NpyHeader, String> {
    let mut head = vec![0; usize::try_from(bytes).unwrap_or(usize::MAX).min(12)];
    blob.read_exact_at(&mut head, start).map_err(|e| e.to_string())?;
    let need = NpyHeader::bytes_needed(&head)?;
    if need as u64 > bytes {
        return Err("ends inside its header".into());
    }
    head.resize(need, 0);
    blob.read_exact_at(&mut head, start).map_err(|e| e.to_string())?;
    NpyHeader::parse(&head)
}
