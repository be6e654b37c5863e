//! Empty yet.
fn main() {}
