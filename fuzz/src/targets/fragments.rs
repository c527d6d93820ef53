//! Datagrams in fragments: what is put together is what was sent, or nothing, and memory has a bound.

use wire::fragments::Fragments;

use super::unstructured::{Unstructured, checksum};

/// Takes frames, each with a port, the time since the last, and its length.
pub fn run(data: &[u8]) {
    let (mut pieces, mut now) = (Unstructured(data), 0u64);
    let mut fragments = Fragments::default();
    let mut whole = 0;
    while !pieces.is_empty() {
        let (port, pause, length) = (pieces.byte() % 2, pieces.byte(), pieces.word());
        now += u64::from(pause) * 100_000_000;
        let frame = pieces.bytes(length.into());
        if let Some(found) = fragments.take(port, frame, now) {
            whole += 1;
            if found[12..14] == [8, 0] {
                assert_eq!(checksum(&found[14..34], 0), 0, "the header's checksum");
                assert_eq!(usize::from(u16::from_be_bytes([found[16], found[17]])), found.len() - 14);
                assert_eq!((found[20] & 0x3f, found[21], found[23]), (0, 0, 6), "it is no fragment");
            } else {
                assert_eq!(usize::from(u16::from_be_bytes([found[18], found[19]])), found.len() - 54);
                assert_eq!(found[20], 6);
            }
        }
        assert!(fragments.due() > now, "what is late goes");
    }
    let counted: u64 = fragments.counts().map(|(_, count)| count).sum();
    assert!(counted + whole <= data.len() as u64 + 1);
    fragments.expire(u64::MAX);
    assert_eq!(fragments.due(), u64::MAX);
}
