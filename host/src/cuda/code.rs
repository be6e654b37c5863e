//! The device code that is part of this library: PTX text, one module an entry that finds clusters, and one for the
//! entries that order them. `cargo xtask ptx` builds it from `kernels-rs`.

use scheidegg_finder::{Error, Result};

macro_rules! modules {
    ($($name:literal)+) => {
        /// Every module by name.
        pub(super) const MODULES: &[(&str, &str)] = &[$((
            $name,
            include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/../kernels-rs/ptx/", $name, ".ptx")),
        )),+];
    };
}

modules! {
    "frame_f32_3x3" "frame_f32_5x5" "frame_f32_7x7" "frame_f32_9x9"
    "frame_f32_3x3_fixed" "frame_f32_5x5_fixed" "frame_f32_7x7_fixed" "frame_f32_9x9_fixed"
    "frame_f32_any" "frame_f32_trace"
    "frame_f64_3x3" "frame_f64_5x5" "frame_f64_7x7" "frame_f64_9x9"
    "frame_f64_3x3_fixed" "frame_f64_5x5_fixed" "frame_f64_7x7_fixed" "frame_f64_9x9_fixed"
    "frame_f64_any" "frame_f64_trace"
    "gather"
}

/// The module with the entries that order clusters.
pub(super) const GATHER: &str = "gather";

/// The PTX of a module.
///
/// # Errors
/// [`Error::Other`] for a name that is none.
pub(super) fn ptx(name: &str) -> Result<&'static str> {
    let module = MODULES.iter().find(|(n, _)| *n == name);
    module
        .map(|(_, text)| *text)
        .ok_or_else(|| Error::Other(format!("there is no device code called {name}")))
}

#[cfg(test)]
mod tests {
    use scheidegg_kernels::device::abi;

    use super::*;

    #[test]
    fn every_entry_is_there_and_loads_where_the_oldest_driver_does() {
        for entry in abi::FRAME_ENTRIES {
            let text = ptx(entry).unwrap();
            assert!(text.contains(&format!(".entry {entry}(")), "{entry}");
        }
        for entry in [abi::SCAN, abi::OFFSETS, abi::PLACE, abi::COPY] {
            assert!(ptx(GATHER).unwrap().contains(&format!(".entry {entry}(")), "{entry}");
        }
        assert!(ptx("frame_f16").is_err());
    }

    /// The parameter of an entry is the structure that the host passes: the size shows in the text.
    #[test]
    fn arguments_have_the_size_that_the_entries_take() {
        let bytes = |module: &str, entry: &str| {
            let text = ptx(module).unwrap();
            let at = text.find(&format!("{entry}_param_0[")).unwrap() + entry.len() + 9;
            text[at..].split(']').next().unwrap().parse::<usize>().unwrap()
        };
        for entry in abi::FRAME_ENTRIES {
            let want = match entry.starts_with("frame_f32") {
                true => size_of::<abi::FrameArgs<f32>>(),
                false => size_of::<abi::FrameArgs<f64>>(),
            };
            assert_eq!(bytes(entry, entry), want, "{entry}");
        }
        for entry in [abi::SCAN, abi::OFFSETS, abi::PLACE, abi::COPY] {
            assert_eq!(bytes(GATHER, entry), size_of::<abi::GatherArgs>(), "{entry}");
        }
    }
}
