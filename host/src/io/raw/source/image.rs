//! From the bytes of every port to the pixels of a frame.

use std::cell::RefCell;

use scheidegg_finder::{Error, Result};

use super::RawSource;
use crate::io::raw::decode::{self, Found, Rule};
use crate::io::raw::layout::{Lost, PortView, moench03};
use crate::io::raw::port::Head;

impl RawSource {
    /// Reads and decodes one frame from its part of every port.
    pub(super) fn frame(&self, heads: &[Head], pixels: &mut [u16]) -> Result<Found> {
        let mut found = Found::default();
        for (head, view) in heads.iter().zip(&self.layout.ports) {
            let lost = self.packets.map(|p| p.lost(&head.header));
            let rule =
                Rule { gain: self.gain, ones_are_lost: matches!(lost, None | Some(Lost::Somewhere(_))) };
            if let Some(packets) = self.packets.filter(|_| matches!(lost, Some(Lost::Packets(_)))) {
                let mask = found.mask(self.layout.shape);
                let cols = self.layout.shape.cols;
                match self.words {
                    Some(_) => {
                        let inside = self.layout.shape.pixels();
                        packets.mask(&head.header, inside, |w| Some(moench03::pixel_of(w)), mask);
                    }
                    None => packets.mask(&head.header, view.full.pixels(), |w| view.pixel_of(w, cols), mask),
                }
            }
            self.image(head, view, rule, pixels, &mut found).map_err(|e| {
                let file = &self.matching.ports.iter().find(|p| p.d == view.port).expect("its port").files
                    [head.file];
                Error::io(&file.path, e)
            })?;
        }
        found.count_lost();
        Ok(found)
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
        let cols = self.layout.shape.cols;
        if self.words.is_none() && view.stored == view.used && view.used.cols == cols {
            // The port's rows are the frame's: no way round.
            let into = &mut pixels[view.row * cols..][..view.used.rows * cols];
            head.blob.read_exact_at(bytemuck::cast_slice_mut(into), head.image)?;
            for (r, row) in into.chunks_exact_mut(cols).enumerate() {
                decode::row(row, (view.row + r) * cols, self.layout.shape, rule, found);
            }
            return Ok(());
        }
        SCRATCH.with_borrow_mut(|scratch| {
            // What lies behind the samples of a chip test board is not looked at.
            let words = self.words.as_ref().map_or(view.image_bytes / 2, Vec::len);
            scratch.resize(words, 0);
            head.blob.read_exact_at(bytemuck::cast_slice_mut(scratch), head.image)?;
            if let Some(map) = &self.words {
                for (pixel, (to, &word)) in pixels.iter_mut().zip(map).enumerate() {
                    decode::sample(scratch[word as usize], to, pixel, self.layout.shape, found);
                }
                return Ok(());
            }
            let (skip_rows, skip_cols) = (view.used.row - view.stored.row, view.used.col - view.stored.col);
            for r in 0..view.used.rows {
                let from = &scratch[(skip_rows + r) * view.stored.cols + skip_cols..][..view.used.cols];
                let first = (view.row + r) * cols + view.col;
                let to = &mut pixels[first..][..view.used.cols];
                to.copy_from_slice(from);
                decode::row(to, first, self.layout.shape, rule, found);
            }
            Ok(())
        })
    }
}
