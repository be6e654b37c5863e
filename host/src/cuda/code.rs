//! The device code that is part of this library: PTX text, built from `kernels-rs` by `cargo xtask ptx`.

use scheidegg_finder::{Error, Result};
use scheidegg_kernels::ptx;

/// The PTX of the module that has an entry.
///
/// # Errors
/// [`Error::Other`] for a name that is none.
pub(super) fn module_of(entry: &str) -> Result<&'static str> {
    ptx::module(entry).ok_or_else(|| Error::Other(format!("there is no device code called {entry}")))
}

#[cfg(test)]
mod tests {
    use scheidegg_kernels::device::abi;

    use super::*;

    /// The parameter of an entry is the structure that the host passes: its size shows in the text.
    #[test]
    fn arguments_have_the_size_that_the_entries_take() {
        let bytes = |entry: &str| {
            let (text, parameter) = (module_of(entry).unwrap(), format!("{entry}_param_0["));
            let at = text.find(&parameter).expect(entry) + parameter.len();
            text[at..].split(']').next().unwrap().parse::<usize>().unwrap()
        };
        for entry in abi::FRAME_ENTRIES {
            let want = match entry.starts_with("frame_f32") {
                true => size_of::<abi::FrameArgs<f32>>(),
                false => size_of::<abi::FrameArgs<f64>>(),
            };
            assert_eq!(bytes(entry), want, "{entry}");
        }
        for entry in [abi::SCAN, abi::OFFSETS, abi::PLACE, abi::COPY] {
            assert_eq!(bytes(entry), size_of::<abi::GatherArgs>(), "{entry}");
        }
        assert!(module_of("frame_f16").is_err());
    }
}
