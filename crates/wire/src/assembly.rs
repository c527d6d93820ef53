//! Bounded reassembly of one direction of a TCP stream (RFC 9293 section 3.10.7.4).

use super::seq::before;

/// Bytes in order, and some that came early, in one buffer. Of bytes that come several times the first ones count.
#[derive(Clone, Debug)]
pub struct Assembly {
    base: u32,
    /// From the base on, as far as any byte has come; never more than the room. What lies in no range yet means
    /// nothing.
    bytes: Vec<u8>,
    /// Bytes at the front that are in order.
    ready: usize,
    /// Behind them, what came early: places of first bytes, and behind the last, in order. Between two of them is a
    /// gap.
    early: Vec<(usize, usize)>,
    /// The number of a FIN that came.
    fin: Option<u32>,
    room: usize,
}

/// Ranges behind a gap at most: what would make more of them is lost and comes again.
const MOST_EARLY: usize = 128;

/// Room of an empty buffer that is kept for what comes next.
const MOST_SPARE: usize = 4096;

impl Assembly {
    /// For so many bytes, from a sequence number on.
    pub fn new(base: u32, room: usize) -> Assembly {
        Assembly { base, bytes: Vec::new(), ready: 0, early: Vec::new(), fin: None, room }
    }

    /// The sequence number of the first byte that is ready.
    pub fn base(&self) -> u32 {
        self.base
    }

    /// The sequence number that is expected next: what is acknowledged.
    pub fn next(&self) -> u32 {
        self.end().wrapping_add(self.is_ended().into())
    }

    fn end(&self) -> u32 {
        self.base.wrapping_add(self.ready as u32)
    }

    /// The bytes in order.
    pub fn ready(&self) -> &[u8] {
        &self.bytes[..self.ready]
    }

    /// Bytes that there is room for.
    pub fn room(&self) -> usize {
        self.room - self.ready
    }

    /// Bytes of memory that the buffer takes.
    pub fn memory(&self) -> usize {
        self.bytes.capacity()
    }

    /// Whether bytes are here that were not taken yet, in order or behind a gap.
    pub fn holds_any(&self) -> bool {
        !self.bytes.is_empty()
    }

    /// Whether the FIN is what comes next.
    pub fn is_ended(&self) -> bool {
        self.fin == Some(self.end())
    }

    /// Takes a segment, and says whether all of it is had now, or was before. What is beyond the room is left out.
    pub fn insert(&mut self, seq: u32, payload: &[u8], fin: bool) -> bool {
        if fin && self.fin.is_none() {
            let at = seq.wrapping_add(payload.len() as u32);
            // What is behind all that there is room for is no data of this stream, or comes again.
            if !before(at, self.end()) && at.wrapping_sub(self.base) as usize <= self.room {
                self.fin = Some(at);
            }
        }
        if before(self.end(), seq) && payload.is_empty() {
            return true;
        }
        // What lies before the bytes in order is had.
        let old = if before(seq, self.end()) { self.end().wrapping_sub(seq) as usize } else { 0 };
        let Some(new) = payload.get(old..).filter(|new| !new.is_empty()) else { return true };
        let from = seq.wrapping_add(old as u32).wrapping_sub(self.base) as usize;
        if from >= self.room {
            return false;
        }
        let fitting = &new[..new.len().min(self.room - from)];
        self.fill(from, fitting) && fitting.len() == new.len()
    }

    /// Takes bytes at a place behind those in order, or right at their end, where none are yet. False where there are
    /// too many gaps.
    fn fill(&mut self, from: usize, piece: &[u8]) -> bool {
        let to = from + piece.len();
        // The ranges that it touches become one with it.
        let first = self.early.partition_point(|(_, end)| *end < from);
        let behind = self.early.partition_point(|(start, _)| *start <= to);
        if from > self.ready && first == behind && self.early.len() >= MOST_EARLY {
            return false;
        }
        self.grow(to);
        let mut at = from;
        for &(start, end) in &self.early[first..behind] {
            if at < start {
                self.bytes[at..start].copy_from_slice(&piece[at - from..start - from]);
            }
            at = at.max(end);
        }
        if at < to {
            self.bytes[at..to].copy_from_slice(&piece[at - from..]);
        }
        let touched = self.early[first..behind].iter();
        let whole = touched.fold((from, to), |(from, to), (start, end)| (from.min(*start), to.max(*end)));
        if whole.0 <= self.ready {
            self.early.drain(first..behind);
            self.ready = whole.1;
        } else {
            self.early.splice(first..behind, [whole]);
        }
        true
    }

    /// Makes the buffer reach to a place, which is within the room, and take no more memory than the room.
    fn grow(&mut self, to: usize) {
        if to > self.bytes.capacity() {
            let wanted = (2 * self.bytes.capacity()).clamp(to, self.room);
            self.bytes.reserve_exact(wanted - self.bytes.len());
        }
        if to > self.bytes.len() {
            self.bytes.resize(to, 0);
        }
    }

    /// Takes bytes off the front.
    pub fn take(&mut self, count: usize) -> Vec<u8> {
        let rest = self.bytes.split_off(count);
        let taken = std::mem::replace(&mut self.bytes, rest);
        self.advance(count);
        taken
    }

    /// Passes over bytes at the front, which are not needed.
    pub fn discard(&mut self, count: usize) {
        self.bytes.drain(..count);
        if self.bytes.is_empty() && self.bytes.capacity() > MOST_SPARE {
            self.bytes = Vec::new();
        }
        self.advance(count);
    }

    /// Passes over bytes that are not there: others have seen to them. Nothing is ready.
    pub fn skip(&mut self, count: u32) {
        let count = count as usize;
        self.bytes.drain(..count.min(self.bytes.len()));
        self.advance(count);
        if self.fin.is_some_and(|fin| before(fin, self.base)) {
            self.fin = None;
        }
    }

    /// The buffer begins so many bytes further on.
    fn advance(&mut self, count: usize) {
        self.base = self.base.wrapping_add(count as u32);
        self.ready = self.ready.saturating_sub(count);
        self.early.retain(|(_, end)| *end > count);
        for (start, end) in &mut self.early {
            (*start, *end) = (start.saturating_sub(count), *end - count);
        }
        // What others have seen to has filled a gap.
        if let Some(&(start, end)) = self.early.first().filter(|(start, _)| *start <= self.ready) {
            debug_assert!(start == self.ready, "ready bytes are in no range");
            self.ready = end;
            self.early.remove(0);
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

    #[test]
    fn pieces_that_overlap_take_no_more_than_the_room() {
        let mut assembly = Assembly::new(7, 20_480);
        for at in 0..1000 {
            assembly.insert(7 + 1 + at, &[at as u8; 1460], false);
            assembly.insert(7 + 20_000 - at, &[at as u8; 1460], false);
            assert!(assembly.memory() <= 20_480, "{} bytes", assembly.memory());
        }
        // The first of those that said something counts.
        assembly.insert(7, b"x", false);
        assert_eq!((assembly.ready().len(), assembly.ready()[1], assembly.ready()[1461]), (2460, 0, 1));
        assert_eq!((assembly.take(2460).len(), assembly.memory() <= 20_480), (2460, true));
    }

    #[test]
    fn gaps_are_counted() {
        let mut assembly = Assembly::new(0, 20_480);
        let had = (0..200).filter(|at| assembly.insert(2 * at + 1, b"y", false)).count();
        assert_eq!(had, MOST_EARLY);
        // What makes no more of them is taken.
        assert!(assembly.insert(2 * MOST_EARLY as u32, b"yy", false));
        assert!(assembly.insert(0, &[b'x'; 2 * MOST_EARLY], false));
        assert_eq!(assembly.ready().len(), 2 * MOST_EARLY + 2);
    }

    #[derive(Clone, Debug)]
    enum Step {
        Insert(usize, Vec<u8>),
        Take(usize),
        Discard(usize),
        Skip(u32),
    }

    fn step() -> impl Strategy<Value = Step> {
        prop_oneof![
            8 => (0usize..90, prop::collection::vec(any::<u8>(), 0..40)).prop_map(|(at, bytes)| Step::Insert(at, bytes)),
            1 => (0usize..50).prop_map(Step::Take),
            1 => (0usize..50).prop_map(Step::Discard),
            1 => (0u32..50).prop_map(Step::Skip),
        ]
    }

    proptest! {
        /// The same as a list of bytes each of which is there or not, whatever overlaps and contradicts itself.
        #[test]
        fn what_is_had_is_what_came_first(start: u32, steps in prop::collection::vec(step(), 1..60)) {
            const ROOM: usize = 64;
            let mut assembly = Assembly::new(start, ROOM);
            // From the base on.
            let mut model: Vec<Option<u8>> = vec![None; ROOM];
            for step in steps {
                let ready = assembly.ready().len();
                match step {
                    // Now and then from before the base.
                    Step::Insert(at, bytes) => {
                        let seq = assembly.base().wrapping_add(at as u32).wrapping_sub(10);
                        let had = assembly.insert(seq, &bytes, false);
                        let places = (at..at + bytes.len()).filter_map(|at| at.checked_sub(10));
                        for (place, byte) in places.zip(&bytes[10usize.saturating_sub(at).min(bytes.len())..]) {
                            if place < ROOM {
                                model[place].get_or_insert(*byte);
                            }
                        }
                        prop_assert_eq!(had, bytes.is_empty() || at + bytes.len() <= ROOM + 10);
                    }
                    Step::Take(count) | Step::Discard(count) if count > ready => {}
                    Step::Take(count) => {
                        let expected: Vec<u8> = model.drain(..count).flatten().collect();
                        prop_assert_eq!(assembly.take(count), expected);
                    }
                    Step::Discard(count) => {
                        model.drain(..count);
                        assembly.discard(count);
                    }
                    Step::Skip(count) if ready == 0 => {
                        model.drain(..count as usize);
                        assembly.skip(count);
                    }
                    Step::Skip(_) => {}
                }
                model.resize(ROOM, None);
                let expected: Vec<u8> = model.iter().map_while(|byte| *byte).collect();
                prop_assert_eq!(assembly.ready(), expected);
                prop_assert!(assembly.memory() <= ROOM);
                prop_assert_eq!(assembly.holds_any(), model.iter().any(Option::is_some));
            }
        }

        /// Whatever the order, overlap and number of pieces, what is ready is a prefix of what was sent; and all of it
        /// once each piece has come in order.
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
