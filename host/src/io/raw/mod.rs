//! SLS raw runs: a master file and data files, one series a UDP port.

mod assembly;
mod boards;
mod decode;
mod fields;
#[cfg(test)]
mod fields_tests;
mod header;
mod layout;
#[cfg(test)]
mod layout_tests;
mod master;
#[cfg(test)]
mod master_tests;
mod matching;
#[cfg(test)]
mod matching_tests;
mod names;
#[cfg(test)]
mod names_tests;
mod numbering;
mod port;
#[cfg(test)]
mod port_tests;
mod source;
#[cfg(test)]
mod source_tests;

pub(crate) use assembly::{Assembly, Part};
pub use boards::Board;
pub use decode::Gain;
pub(crate) use decode::{Found, Rule, rows as decode_rows};
pub use fields::Roi;
pub use header::{Detector, Header, PacketSet};
pub use master::Master;
pub use names::{DataFileName, data_file_name};
pub(crate) use names::{dat_name, masters_of};
pub use source::{RawReading, RawSource};
