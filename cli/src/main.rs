//! The program.
mod plot;
mod report;
fn main() {}
