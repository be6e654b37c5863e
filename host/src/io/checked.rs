//! CRC-32 sums taken along while bytes are read.

use std::path::Path;

use scheidegg_finder::{Error, Result};

/// The CRC-32 of bytes on their way, and what it must come to at their end.
#[derive(Clone, Debug)]
pub(crate) struct Watch {
    hasher: crc32fast::Hasher,
    expected: u32,
    /// Offset of the next byte.
    at: u64,
}

impl Watch {
    /// From the byte at `start` on.
    pub fn new(expected: u32, start: u64) -> Watch {
        Watch { hasher: crc32fast::Hasher::new(), expected, at: start }
    }

    /// Takes bytes read at this offset: those that come next, or some of those taken before and more.
    pub fn take(&mut self, offset: u64, bytes: &[u8]) {
        debug_assert!(offset <= self.at, "bytes are taken in order");
        let known = usize::try_from(self.at.saturating_sub(offset)).unwrap_or(usize::MAX);
        if let Some(more) = bytes.get(known..) {
            self.hasher.update(more);
            self.at += more.len() as u64;
        }
    }

    /// Nothing follows: `what` of the file is as it was written, or damaged.
    pub fn end(&self, path: &Path, what: &str) -> Result<()> {
        let found = self.hasher.clone().finalize();
        if found == self.expected {
            return Ok(());
        }
        Err(Error::file(
            path,
            format!(
                "{what} is damaged: its CRC-32 is {found:08x}, it was written with {:08x} (copy the file again, or make it \
                 anew)",
                self.expected
            ),
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_counted_once_whatever_the_pieces() {
        let bytes: Vec<u8> = (0..100).collect();
        let crc = crc32fast::hash(&bytes);
        for (a, b) in [(0, 100), (0, 0), (40, 40), (60, 30), (100, 100)] {
            let mut watch = Watch::new(crc, 1000);
            watch.take(1000, &bytes[..a]);
            watch.take(1000 + b.min(a) as u64, &bytes[b.min(a)..]);
            assert!(watch.end(Path::new("a"), "it").is_ok(), "{a} {b}");
        }
        let said = Watch::new(crc, 0).end(Path::new("a.npz"), "array x").unwrap_err().to_string();
        assert!(said.contains("a.npz: array x is damaged") && said.contains("CRC-32 is 00000000"), "{said}");
    }
}
