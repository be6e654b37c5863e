//! The device code.

/// PTX of the kernels.
pub(super) const PTX: &str = ".version 7.0\n.target sm_75\n";
