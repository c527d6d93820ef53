//! Segments of a request that have come behind a gap. What lies there may be the next request, so it does not go to the
//! server before the gap is filled. Until then it is kept, and the client is told so (RFC 2018): one lost segment
//! costs one segment more, and not all that came behind it.

use wire::segment::{ACK, FIN, PSH, Segment};
use wire::seq::before;

/// Bytes that one connection keeps at most. What is beyond them comes again.
const MOST: usize = 65536;
/// What a segment counts for beside its bytes.
const EACH: usize = 64;

/// One that is kept.
#[derive(Clone, Debug)]
struct Piece {
    seq: u32,
    payload: Box<[u8]>,
    flags: u8,
}

impl Piece {
    fn end(&self) -> u32 {
        self.seq.wrapping_add(self.payload.len() as u32)
    }
}

/// Those of a connection.
#[derive(Clone, Debug, Default)]
pub struct OutOfOrder {
    /// By their sequence numbers.
    pieces: Vec<Piece>,
    /// What they count for, of [`MOST`].
    used: usize,
    /// Where the last one that came begins.
    last: u32,
}

impl OutOfOrder {
    /// Keeps a segment, if there is room. It does not begin before the next byte in order, and it ends within the
    /// window.
    pub fn keep(&mut self, segment: &Segment) {
        self.last = segment.seq;
        let at = self.pieces.partition_point(|own| before(own.seq, segment.seq));
        let end = segment.seq.wrapping_add(segment.payload.len() as u32);
        let had = self.pieces.get(at).filter(|own| own.seq == segment.seq);
        let used = self.used + segment.payload.len() + EACH;
        if used > MOST || had.is_some_and(|own| !before(own.end(), end)) {
            return;
        }
        let piece = Piece { seq: segment.seq, payload: segment.payload.into(), flags: segment.flags & (FIN | PSH) };
        self.used = used;
        self.pieces.insert(at, piece);
    }

    /// Takes out the first one, if it begins no later than at a number up to which all is known. It is given as the
    /// client might have sent it behind the last one: with its acknowledgement, window and clock.
    pub fn next(&mut self, known: u32, last: &Segment) -> Option<Vec<u8>> {
        self.pieces.first().filter(|own| !before(known, own.seq))?;
        let Piece { seq, payload, flags } = self.pieces.remove(0);
        self.used -= payload.len() + EACH;
        if self.pieces.is_empty() {
            self.pieces = Vec::new();
        }
        Some(Segment { seq, payload: &payload, flags: ACK | flags, ..last.clone() }.frame())
    }

    /// What is kept, as the client is told: first the range with what came last, then the others from the front
    /// (RFC 2018 section 4).
    pub fn sack_blocks<const N: usize>(&self) -> [Option<(u32, u32)>; N] {
        let mut ranges: Vec<(u32, u32)> = Vec::new();
        for piece in self.pieces.iter().filter(|own| !own.payload.is_empty()) {
            match ranges.last_mut() {
                Some((_, end)) if !before(*end, piece.seq) => {
                    if before(*end, piece.end()) {
                        *end = piece.end();
                    }
                }
                _ => ranges.push((piece.seq, piece.end())),
            }
        }
        if let Some(at) = ranges.iter().position(|&(from, to)| !before(self.last, from) && before(self.last, to)) {
            ranges[..=at].rotate_right(1);
        }
        std::array::from_fn(|at| ranges.get(at).copied())
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv6Addr;

    use wire::flow_key::FlowKey;
    use wire::segment::TcpOptions;

    use super::*;

    fn segment(seq: u32, flags: u8, payload: &[u8]) -> Segment<'_> {
        let key = FlowKey { src: Ipv6Addr::from(1), dst: Ipv6Addr::from(2), src_port: 3, dst_port: 4 };
        let (mac, options) = ([2; 6], TcpOptions::default());
        Segment { dst_mac: mac, src_mac: mac, flow_key: key, seq, ack: 7, flags, window: 9, options, payload }
    }

    #[test]
    fn what_is_known_comes_out_in_order() {
        let start = u32::MAX - 5;
        let mut own = OutOfOrder::default();
        for (at, bytes) in [(20, &b"cc"[..]), (4, b"aaaa"), (8, b"bb"), (4, b"aa"), (22, b"dd")] {
            own.keep(&segment(start.wrapping_add(at), if at == 22 { ACK | FIN } else { ACK }, bytes));
        }
        let block = |from, to| Some((start.wrapping_add(from), start.wrapping_add(to)));
        assert_eq!(own.sack_blocks(), [block(20, 24), block(4, 10), None]);
        let last = Segment { ack: 99, window: 5, ..segment(start, ACK | PSH, b"four") };
        assert!(own.next(start.wrapping_add(3), &last).is_none());
        let mut known = |to| -> Vec<_> { std::iter::from_fn(|| own.next(start.wrapping_add(to), &last)).collect() };
        let frames = known(8);
        let came: Vec<_> = frames.iter().map(|frame| Segment::parse(frame).unwrap()).collect();
        let what: Vec<_> = came.iter().map(|own| (own.seq, own.payload, own.ack, own.window, own.flags)).collect();
        let expected = [(start.wrapping_add(4), &b"aaaa"[..]), (start.wrapping_add(8), b"bb")];
        assert_eq!(what, expected.map(|(seq, bytes)| (seq, bytes, 99, 5, ACK)));
        assert_eq!(known(24).len(), 2);
        assert_eq!((own.used, own.pieces.capacity()), (0, 0));
    }

    #[test]
    fn a_client_can_not_fill_the_memory() {
        let mut own = OutOfOrder::default();
        for at in 0..100_000 {
            own.keep(&segment(10 + 2 * at, ACK, b"x"));
        }
        assert!(own.used <= MOST && own.pieces.len() == MOST / (EACH + 1), "{} {}", own.used, own.pieces.len());
        let mut own = OutOfOrder::default();
        (0..100).for_each(|_| own.keep(&segment(10, ACK, &[0; 1460])));
        assert_eq!(own.pieces.len(), 1);
    }
}
