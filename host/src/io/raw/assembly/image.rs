//! From the bytes of every port to the pixels of a frame.

use std::cell::RefCell;

use scheidegg_finder::Result;

use super::Assembly;
use crate::io::raw::decode::{self, Found, Rule};
use crate::io::raw::layout::{Lost, PortView};
use crate::io::raw::port::Head;

impl Assembly {
    /// Reads and decodes one frame from its part of every port.
    pub(super) fn frame(&self, number: u64, heads: &[Head], pixels: &mut [u16]) -> Result<Found> {
        let mut found = Found::default();
        if let Some(absent) = &self.layout.absent {
            pixels.fill(0);
            found.absent = absent.count() as u64;
            found.mask = Some(absent.clone());
        }
        let cols = self.layout.shape.cols;
        for (k, head) in heads.iter().enumerate() {
            let view = self.view(k);
            let lost = self.packets.map(|p| p.lost(&head.header));
            let rule =
                Rule { gain: self.gain, ones_are_lost: matches!(lost, None | Some(Lost::Somewhere(_))) };
            if let Some(packets) = self.packets.filter(|_| matches!(lost, Some(Lost::Packets(_)))) {
                let mask = found.mask(self.layout.shape);
                match &self.map {
                    Some(map) => packets.mask(&head.header, map.len(), |w| map.pixel_of(w), mask),
                    None => packets.mask(&head.header, view.full.pixels(), |w| view.pixel_of(w, cols), mask),
                }
            }
            self.image(head, view, rule, pixels, &mut found).map_err(|e| {
                let file = &self.matching.ports[k].files[head.file];
                let end = head.image + view.image_bytes as u64;
                head.blob.read_failed(&file.path, e, &format!("frame {number}"), end)
            })?;
        }
        found.count_lost();
        Ok(found)
    }

    /// Reads the words of a port's image. Where the file ends before, and that is to be borne with, the others are 0 and
    /// their pixels masked.
    fn words(
        &self,
        head: &Head,
        into: &mut [u16],
        found: &mut Found,
        pixel_of: impl Fn(usize) -> Option<usize>,
    ) -> std::io::Result<()> {
        let bytes: &mut [u8] = bytemuck::cast_slice_mut(into);
        let want = bytes.len().min(head.bytes);
        let mut there = want;
        if let Err(e) = head.blob.read_exact_at(&mut bytes[..want], head.image) {
            if !self.keep_going || e.kind() != std::io::ErrorKind::UnexpectedEof {
                return Err(e);
            }
            let now = head.blob.bytes()?.saturating_sub(head.image);
            there = now.min(want as u64) as usize;
            head.blob.read_exact_at(&mut bytes[..there], head.image)?;
        }
        if there < bytes.len() {
            found.cut = true;
            let words = there / 2;
            into[words..].fill(0);
            let mask = found.mask(self.layout.shape);
            (words..into.len()).filter_map(pixel_of).for_each(|p| mask.insert_index(p));
        }
        Ok(())
    }

    fn image(
        &self,
        head: &Head,
        view: &PortView,
        rule: Rule,
        pixels: &mut [u16],
        found: &mut Found,
    ) -> std::io::Result<()> {
        thread_local! {
            static SCRATCH: RefCell<Vec<u16>> = const { RefCell::new(Vec::new()) };
        }
        let (shape, cols) = (self.layout.shape, self.layout.shape.cols);
        if self.map.is_none() && view.stored == view.used && view.used.cols == cols {
            // The port's rows are the frame's: no way round.
            let into = &mut pixels[view.row * cols..][..view.used.rows * cols];
            self.words(head, into, found, |w| Some(view.row * cols + w))?;
            for (r, row) in into.chunks_exact_mut(cols).enumerate() {
                decode::row(row, (view.row + r) * cols, shape, rule, found);
            }
            Ok(())
        } else if let Some(map) = &self.map {
            SCRATCH.with_borrow_mut(|scratch| {
                // What lies behind the samples, digital ones, is not looked at.
                scratch.resize(map.len(), 0);
                self.words(head, scratch, found, |w| map.pixel_of(w))?;
                for (pixel, (to, &word)) in pixels.iter_mut().zip(map.words()).enumerate() {
                    decode::sample(scratch[word as usize], to, pixel, shape, found);
                }
                Ok(())
            })
        } else {
            SCRATCH.with_borrow_mut(|scratch| {
                scratch.resize(view.image_bytes / 2, 0);
                self.words(head, scratch, found, |w| view.stored_pixel_of(w, cols))?;
                let (skip_rows, skip_cols) =
                    (view.used.row - view.stored.row, view.used.col - view.stored.col);
                for r in 0..view.used.rows {
                    let from = &scratch[(skip_rows + r) * view.stored.cols + skip_cols..][..view.used.cols];
                    let first = (view.row + r) * cols + view.col;
                    let to = &mut pixels[first..][..view.used.cols];
                    to.copy_from_slice(from);
                    decode::row(to, first, shape, rule, found);
                }
                Ok(())
            })
        }
    }
}
