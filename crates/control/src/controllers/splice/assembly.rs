//! Bounded reassembly of one direction of a TCP stream (RFC 9293 section 3.10.7.4).

use super::block::before;

/// Bytes in order, and some that came early.
#[derive(Clone, Debug)]
pub struct Assembly {
    base: u32,
    ready: Vec<u8>,
    /// Pieces behind a gap, by sequence number; they may overlap.
    early: Vec<(u32, Vec<u8>)>,
    /// The number of a FIN that came.
    fin: Option<u32>,
    room: usize,
}

/// Pieces behind a gap at most: more of them are lost and come again.
const MOST_EARLY: usize = 128;

impl Assembly {
    /// For so many bytes, from a sequence number on.
    pub fn new(base: u32, room: usize) -> Assembly {
        Assembly { base, ready: Vec::new(), early: Vec::new(), fin: None, room }
    }

    /// The sequence number of the first byte that is ready.
    pub fn base(&self) -> u32 {
        self.base
    }

    /// The sequence number that is expected next: what is acknowledged.
    pub fn next(&self) -> u32 {
        self.base.wrapping_add(self.ready.len() as u32).wrapping_add(self.is_ended().into())
    }

    fn end(&self) -> u32 {
        self.base.wrapping_add(self.ready.len() as u32)
    }

    /// The bytes in order.
    pub fn ready(&self) -> &[u8] {
        &self.ready
    }

    /// Bytes that there is room for.
    pub fn room(&self) -> usize {
        self.room.saturating_sub(self.ready.len())
    }

    /// Whether bytes are here that were not taken yet, in order or behind a gap.
    pub fn holds_any(&self) -> bool {
        !self.ready.is_empty() || !self.early.is_empty()
    }

    /// Whether the FIN is what comes next.
    pub fn is_ended(&self) -> bool {
        self.fin == Some(self.end())
    }

    /// Takes a segment, and says whether all of it is had now, or was before. What is beyond the room is left out.
    pub fn insert(&mut self, seq: u32, payload: &[u8], fin: bool) -> bool {
        if fin && self.fin.is_none() {
            let at = seq.wrapping_add(payload.len() as u32);
            // What is behind all that there is room for is somebody else's, or comes again.
            if !before(at, self.end()) && at.wrapping_sub(self.base) as usize <= self.room {
                self.fin = Some(at);
            }
        }
        if before(self.end(), seq) {
            let beyond = seq.wrapping_sub(self.base) as usize + payload.len() > self.room;
            if payload.is_empty() || self.early.iter().any(|(at, own)| *at == seq && own.len() == payload.len()) {
                return true;
            }
            let fits = !beyond && self.early.len() < MOST_EARLY;
            if fits {
                self.early.push((seq, payload.to_vec()));
            }
            return fits;
        }
        self.append(seq, payload);
        // What came early may fit now.
        while let Some(index) = self.early.iter().position(|(seq, _)| !before(self.end(), *seq)) {
            let (seq, piece) = self.early.swap_remove(index);
            self.append(seq, &piece);
        }
        !before(self.end(), seq.wrapping_add(payload.len() as u32))
    }

    /// A piece that begins at the end or before it.
    fn append(&mut self, seq: u32, piece: &[u8]) {
        let known = self.end().wrapping_sub(seq) as usize;
        let Some(new) = piece.get(known..) else { return };
        let room = self.room();
        self.ready.extend_from_slice(&new[..new.len().min(room)]);
    }

    /// Takes bytes off the front.
    pub fn take(&mut self, count: usize) -> Vec<u8> {
        let rest = self.ready.split_off(count);
        self.base = self.base.wrapping_add(count as u32);
        std::mem::replace(&mut self.ready, rest)
    }

    /// Passes over bytes at the front, which nobody needs.
    pub fn discard(&mut self, count: usize) {
        self.ready.drain(..count);
        self.base = self.base.wrapping_add(count as u32);
    }

    /// Passes over bytes that are not there: others have seen to them. Nothing is ready.
    pub fn skip(&mut self, count: u32) {
        self.base = self.base.wrapping_add(count);
        let early = std::mem::take(&mut self.early);
        early.into_iter().for_each(|(seq, piece)| _ = self.insert(seq, &piece, false));
        if self.fin.is_some_and(|fin| before(fin, self.base)) {
            self.fin = None;
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn bytes_are_skipped_and_what_comes_behind_is_kept() {
        let mut assembly = Assembly::new(u32::MAX - 1, 100);
        assembly.insert(8, b"behind", true);
        assembly.skip(8);
        assert_eq!((assembly.base(), assembly.ready()), (6, &b""[..]));
        assembly.skip(2);
        assert_eq!((assembly.ready(), assembly.is_ended(), assembly.next()), (&b"behind"[..], true, 15));
    }

    proptest! {
        /// Whatever the order, overlap and number of pieces, what is ready is a prefix of what was sent; and all of it once
        /// each piece has come in order.
        #[test]
        fn any_order_gives_the_stream(
            start: u32,
            pieces in prop::collection::vec((0usize..200, 1usize..60), 1..40),
            last_first: bool,
        ) {
            let stream: Vec<u8> = (0..260u32).map(|byte| (byte * 7 % 251) as u8).collect();
            let mut assembly = Assembly::new(start, 200);
            let insert = |assembly: &mut Assembly, from: usize, to: usize| {
                assembly.insert(start.wrapping_add(from as u32), &stream[from..to], false);
            };
            if last_first {
                insert(&mut assembly, 150, 260);
            }
            for (from, length) in pieces {
                insert(&mut assembly, from, (from + length).min(260));
                prop_assert_eq!(assembly.ready(), &stream[..assembly.ready().len()]);
                prop_assert!(assembly.ready().len() <= 200);
            }
            for from in (0..200).step_by(20) {
                insert(&mut assembly, from, from + 20);
            }
            prop_assert_eq!(assembly.ready(), &stream[..200]);
            let taken = assembly.take(50);
            prop_assert_eq!(&taken, &stream[..50]);
            prop_assert_eq!(assembly.base(), start.wrapping_add(50));
            insert(&mut assembly, 180, 260);
            prop_assert_eq!(assembly.ready(), &stream[50..250]);
        }
    }
}
