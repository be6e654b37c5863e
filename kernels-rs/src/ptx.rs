//! The kernels as PTX, made from `device` by `cargo xtask ptx`: a user needs no compiler for the GPU.
//!
//! A driver compiles the whole module that it loads. There is one for every entry that finds clusters, and one for
//! those that gather them, so that a run waits for two of them and not for all.

use crate::device::abi::FRAME_ENTRIES;

/// The module of the entries `scan`, `offsets`, `place` and `copy`.
pub const GATHER: &str = include_str!("../ptx/gather.ptx");

macro_rules! modules {
    ($($kernel:ident $name:ident: $p:ty, $rule:ty;)+) => {
        const FRAMES: [(&str, &str); FRAME_ENTRIES.len()] = [$((
            stringify!($name),
            include_str!(concat!("../ptx/", stringify!($name), ".ptx")),
        )),+];
    };
}
crate::entries!(modules);

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
