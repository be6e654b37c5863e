//! The kernels as PTX, made from `device` by `cargo xtask ptx`: a user needs no compiler for the GPU.
//!
//! A driver compiles the whole module that it loads. There is one for every entry that finds clusters, and one for
//! those that gather them, so that a run waits for two of them and not for all.

use crate::device::abi::FRAME_ENTRIES;

/// The module of the entries `scan`, `offsets`, `place` and `copy`.
pub const GATHER: &str = include_str!("../ptx/gather.ptx");

macro_rules! modules {
    ($($name:literal),+ $(,)?) => {
        /// In the order of [`FRAME_ENTRIES`].
        const FRAMES: [(&str, &str); FRAME_ENTRIES.len()] =
            [$(($name, include_str!(concat!("../ptx/", $name, ".ptx")))),+];
    };
}

modules! {
    "frame_f32_3x3",
    "frame_f32_5x5",
    "frame_f32_7x7",
    "frame_f32_9x9",
    "frame_f32_3x3_fixed",
    "frame_f32_5x5_fixed",
    "frame_f32_7x7_fixed",
    "frame_f32_9x9_fixed",
    "frame_f32_any",
    "frame_f32_trace",
    "frame_f64_3x3",
    "frame_f64_5x5",
    "frame_f64_7x7",
    "frame_f64_9x9",
    "frame_f64_3x3_fixed",
    "frame_f64_5x5_fixed",
    "frame_f64_7x7_fixed",
    "frame_f64_9x9_fixed",
    "frame_f64_any",
    "frame_f64_trace",
    "resident_f32_3x3",
    "resident_f32_5x5",
    "resident_f32_7x7",
    "resident_f32_9x9",
    "resident_f32_3x3_fixed",
    "resident_f32_5x5_fixed",
    "resident_f32_7x7_fixed",
    "resident_f32_9x9_fixed",
    "resident_f64_3x3",
    "resident_f64_5x5",
    "resident_f64_7x7",
    "resident_f64_9x9",
    "resident_f64_3x3_fixed",
    "resident_f64_5x5_fixed",
    "resident_f64_7x7_fixed",
    "resident_f64_9x9_fixed",
}

/// The module of an entry, or nothing for a name that is none.
pub fn module(entry: &str) -> Option<&'static str> {
    use crate::device::abi::{COPY, OFFSETS, PLACE, SCAN};
    match entry {
        SCAN | OFFSETS | PLACE | COPY => Some(GATHER),
        _ => FRAMES.iter().find(|(name, _)| *name == entry).map(|(_, text)| *text),
    }
}

#[cfg(test)]
mod tests {
    extern crate std;
    use super::*;

    #[test]
    fn every_entry_is_in_its_module() {
        for name in FRAME_ENTRIES.into_iter().chain(["scan", "offsets", "place", "copy"]) {
            let text = module(name).expect(name);
            assert!(
                text.lines()
                    .any(|l| l.strip_prefix(".visible .entry ") == Some(std::format!("{name}(").as_str())),
                "{name}"
            );
        }
        assert!(module("frame_f16_3x3").is_none());
    }
}
