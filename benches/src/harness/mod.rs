//! What makes a number of a benchmark worth quoting: the table it is written to, the machine it came from, the
//! page faults and joules beside it, and the refusal to measure on a GPU that is busy or asleep.

pub mod child;
pub mod energy;
pub mod faults;
pub mod gpu;
pub mod machine;
pub mod skips;
pub mod stats;
pub mod table;
pub mod times;
