//! What a spliced connection takes of the fast path's memory.

use std::path::Path;

#[path = "../../../../tests/support/compile.rs"]
mod common;

/// Bytes of both flow entries with their keys, and of their share of the table, at most.
const MOST: f64 = 256.0;

#[test]
fn a_connection_takes_little_memory() {
    let program = common::compile(&Path::new(env!("CARGO_MANIFEST_DIR")).join("../splice.baker"));
    let flows = program.tables.iter().find(|table| table.name == "spliced.flows").unwrap();
    let bytes = 2.0 * dataplane::bytes_of_entry(&program, flows);
    assert!(bytes <= MOST, "{bytes} bytes per connection");
}
