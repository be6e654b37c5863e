//! The device code.

/// PTX of the kernels.
pub(super) const PTX: &str = "";
