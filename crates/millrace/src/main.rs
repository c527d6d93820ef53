//! The millrace command line.
fn main() {}
