//! What waits to be sent exactly, cut into documents: as many as may be on their way, each of a segment at most.

use std::collections::VecDeque;

use crate::tables::{DOCUMENTS, Next};

/// See the module.
#[derive(Debug)]
pub struct Outgoing {
    bytes: Vec<u8>,
    /// Bytes of them that were sent.
    start: usize,
    /// Documents that were sent, and those of them that have come.
    sent: u32,
    acked: u32,
    /// Bytes of each of those that were sent and have not come.
    under_way: VecDeque<usize>,
    /// Bytes so far, and those of them that have come.
    pushed: u64,
    delivered: u64,
    /// Bytes of a document at most.
    size: usize,
    /// What follows behind the last byte.
    end: Option<Next>,
}

/// What fits in any segment (RFC 9293 section 3.7.1).
const LEAST: u16 = 536;

impl Outgoing {
    /// For a connection with a segment size, or none that is known.
    pub fn new(mss: u16) -> Outgoing {
        let size = usize::from(if mss == 0 { LEAST } else { mss.min(1460) });
        Outgoing {
            bytes: Vec::new(),
            start: 0,
            sent: 0,
            acked: 0,
            under_way: VecDeque::new(),
            pushed: 0,
            delivered: 0,
            size,
            end: None,
        }
    }

    /// For a connection of a process before: so many documents were sent, so many of them have come; `ends`: nothing
    /// more is to be.
    pub fn taken_up(sent: u32, acked: u32, ends: bool) -> Outgoing {
        Outgoing { sent, acked, end: ends.then_some(Next::Close), ..Outgoing::new(0) }
    }

    /// Adds bytes.
    pub fn push(&mut self, bytes: &[u8]) {
        if self.start == self.bytes.len() {
            self.bytes.clear();
            self.start = 0;
        }
        self.bytes.extend_from_slice(bytes);
        self.pushed += bytes.len() as u64;
    }

    /// Bytes that were added so far.
    pub fn pushed(&self) -> u64 {
        self.pushed
    }

    /// Those of them that have come.
    pub fn delivered(&self) -> u64 {
        self.delivered
    }

    /// Nothing more is added: what follows. False where nothing is left that could say so.
    pub fn finish(&mut self, next: Next) -> bool {
        self.end = Some(next);
        self.start < self.bytes.len()
    }

    /// Whether nothing more is added.
    pub fn is_finished(&self) -> bool {
        self.end.is_some()
    }

    /// So many documents have come, in all.
    pub fn acked(&mut self, documents: u32) {
        let more = documents.wrapping_sub(self.acked);
        if more <= self.sent.wrapping_sub(self.acked) {
            self.acked = documents;
            // Those of a process before are not among them.
            let come = (more as usize).min(self.under_way.len());
            self.delivered += self.under_way.drain(..come).sum::<usize>() as u64;
        }
    }

    /// Bytes that wait.
    pub fn waiting(&self) -> usize {
        self.bytes.len() - self.start
    }

    /// Whether all has come.
    pub fn is_done(&self) -> bool {
        self.end.is_some() && self.waiting() == 0 && self.acked == self.sent
    }

    /// The next document that may be sent: its index, what follows, its bytes.
    pub fn next(&mut self) -> Option<(u32, Next, Vec<u8>)> {
        let rest = &self.bytes[self.start..];
        if rest.is_empty() || self.sent.wrapping_sub(self.acked) >= DOCUMENTS {
            return None;
        }
        let bytes = rest[..rest.len().min(self.size)].to_vec();
        let next = self.end.filter(|_| bytes.len() == rest.len()).unwrap_or(Next::Document);
        self.start += bytes.len();
        self.under_way.push_back(bytes.len());
        let index = self.sent;
        self.sent = self.sent.wrapping_add(1);
        Some((index, next, bytes))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_cut_and_bounded() {
        let mut own = Outgoing::new(0);
        let all: Vec<u8> = (0..100_000u32).map(|at| at as u8).collect();
        own.push(&all[..60_000]);
        let (mut found, mut count) = (Vec::new(), 0);
        let mut take = |own: &mut Outgoing| {
            let mut last = None;
            while let Some((index, next, bytes)) = own.next() {
                assert!(index == count && !bytes.is_empty() && bytes.len() <= 536);
                (count, last) = (count + 1, Some(next));
                found.extend(bytes);
            }
            (count, last)
        };
        assert_eq!(take(&mut own), (DOCUMENTS, Some(Next::Document)));
        // One that says too much is not believed, nor one that is old.
        own.acked(DOCUMENTS + 1);
        assert_eq!(take(&mut own), (DOCUMENTS, None));
        own.acked(14);
        own.acked(2);
        assert_eq!((own.delivered(), own.pushed()), (14 * 536, 60_000));
        assert_eq!(take(&mut own), (DOCUMENTS + 14, Some(Next::Document)));
        own.push(&all[60_000..]);
        assert!(own.finish(Next::Close) && !own.is_done());
        let mut last = None;
        for _ in 0..20 {
            own.acked(own.sent);
            let (_, next) = take(&mut own);
            last = next.or(last);
        }
        assert_eq!((found == all, last), (true, Some(Next::Close)));
        own.acked(own.sent);
        assert!(own.is_done() && own.delivered() == 100_000);
    }

    #[test]
    fn an_end_without_bytes_is_said_otherwise() {
        let mut own = Outgoing::new(1460);
        own.push(b"a");
        assert_eq!(own.next(), Some((0, Next::Document, b"a".to_vec())));
        assert!(!own.finish(Next::Close));
        own.acked(1);
        assert!(own.is_done() && own.next().is_none());
    }
}
