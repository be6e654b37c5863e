//! SLS raw runs: a master file and data files, one series a UDP port.

mod header;
mod names;

pub use header::{Detector, Header, PacketSet};
pub use names::{DataFileName, data_file_name};
