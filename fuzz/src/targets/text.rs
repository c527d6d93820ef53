//! Packets as text: whatever the text, there are bytes or an error with its column; and bytes shown as text are the
//! same bytes again.

use control::packet::{Definitions, build, describe, dissect, text};

use super::switch;

/// Pieces of packets' texts.
pub const WORDS: &[&str] = &[
    "ether(",
    "ipv4(",
    "arp(",
    "hex(",
    "zero(",
    "text(\"",
    "pad(",
    ")",
    "/",
    "+",
    ", ",
    "dst=",
    "ttl=",
    "total_length=",
    "checksum=",
    "65535",
    "65536",
    "99999999999999999999",
    "0x",
    "ff:ff:ff:ff:ff:ff",
    "10.0.0.1",
    "\\x",
    "\\",
    "again",
    "loop",
    "é",
];

/// Takes one text, which is also taken for the bytes of a packet.
pub fn run(data: &[u8]) {
    let program = switch::program();
    let definitions =
        Definitions::from([("again", "hex(01)/ether()"), ("loop", "loop/loop")].map(|(k, v)| (k.into(), v.into())));
    let written = String::from_utf8_lossy(data);
    match build(program, &written, &definitions) {
        Ok(bytes) => same(&bytes),
        Err(error) => {
            assert!(!error.problem.is_empty());
            assert!((1..=written.chars().count() + 1).contains(&error.column), "{error:?}");
        }
    }
    same(&data[..data.len().min(control::packet::MAX_PACKET)]);
}

fn same(bytes: &[u8]) {
    let program = switch::program();
    let shown = text(program, bytes);
    let again = build(program, &shown, &Definitions::new());
    assert_eq!(again.as_deref(), Ok(bytes), "{shown}");
    assert!(!describe(program, bytes).is_empty() || bytes.is_empty());
    let end = dissect(program, bytes).last().map_or(0, |layer| layer.bytes.end);
    assert!(end <= bytes.len());
}
