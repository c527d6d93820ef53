//! Responses whose heads the data path has read by itself: what a flow entry says of them (`heads` of the program).

use crate::tables::flow_entry::{FlowEntry, Mode};

/// Bits of [`FlowEntry::facts`] of the server's side that the data path sets, too: the head of the response has been
/// read.
pub const RESPONSE: u16 = 1 << 4;
/// A byte of it has been passed on.
pub const BEGUN: u16 = 1 << 6;
/// Tells the data path that Millrace closes the client's connection behind the response.
pub const CLOSES: u16 = 1 << 8;

/// The bits of a time, in units of [`UNIT`].
const TIME: u32 = 38;
/// Nanoseconds, as a power of two.
const UNIT: u32 = 10;
const HEAD: u32 = 11;
const STATUS: u32 = 10;

/// The head of such a response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Answered {
    /// The status.
    pub status: u16,
    /// Bytes of the head.
    pub head: usize,
    /// Whether the whole response came in its first segment.
    pub whole: bool,
    /// When that came, in nanoseconds.
    pub at: u64,
}

impl Answered {
    /// What an entry says, at a time; none where no head was read.
    pub fn of(entry: &FlowEntry, now: u64) -> Option<Answered> {
        let bits = |from: u32, count: u32| entry.framing >> from & ((1 << count) - 1);
        let ago = (now >> UNIT).wrapping_sub(bits(0, TIME)) & ((1 << TIME) - 1);
        (entry.mode == Mode::Answered).then(|| Answered {
            status: bits(TIME + HEAD, STATUS) as u16,
            head: bits(TIME, HEAD) as usize,
            whole: bits(TIME + HEAD + STATUS, 1) != 0,
            at: now.saturating_sub(ago << UNIT),
        })
    }
}

impl FlowEntry {
    /// Keeps what the data path has read of a response that the controller does not know of: `before` is the entry that
    /// this one replaces. Where they do not lead to the same connection it is nothing of this one's.
    pub fn keep_answer(self, before: &FlowEntry) -> FlowEntry {
        let is_known = self.facts & RESPONSE != 0 || self.limit == before.limit;
        if before.mode != Mode::Answered || before.to != self.to || is_known {
            return self;
        }
        let FlowEntry { mode, limit, framing, facts, acked, edge, .. } = *before;
        FlowEntry { mode, limit, framing, facts, acked, edge, ..self }
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv6Addr;

    use wire::flow_key::FlowKey;

    use super::*;

    fn entry() -> FlowEntry {
        let key = FlowKey { src: Ipv6Addr::LOCALHOST, dst: Ipv6Addr::LOCALHOST, src_port: 1, dst_port: 2 };
        FlowEntry { mode: Mode::Awaiting, limit: 100, framing: 7, ..FlowEntry::held(key, 1) }
    }

    #[test]
    fn what_was_read_is_found() {
        let now = 5_000_000_000_000_000;
        let time = (now >> UNIT) - 3;
        let word = 13 << 60 | 1 << 59 | 404 << 49 | 250 << 38 | (time & ((1 << TIME) - 1));
        let answered = FlowEntry { mode: Mode::Answered, framing: word, ..entry() };
        let expected = Answered { status: 404, head: 250, whole: true, at: now - 3 * 1024 };
        assert_eq!(Answered::of(&answered, now), Some(expected));
        assert_eq!(Answered::of(&entry(), now), None);
    }

    #[test]
    fn an_answer_outlasts_what_does_not_know_of_it() {
        let before = FlowEntry { mode: Mode::Answered, limit: 900, framing: 13 << 60, facts: RESPONSE, ..entry() };
        let held = FlowEntry { mode: Mode::Held, ..entry() };
        assert_eq!(held.clone().keep_answer(&before), before);
        assert_eq!(held.clone().keep_answer(&entry()), held);
        // The next request waits for its response where this one ends.
        let next = FlowEntry { limit: 900, ..entry() };
        assert_eq!(next.clone().keep_answer(&before), next);
        let known = FlowEntry { mode: Mode::Limited, facts: RESPONSE, ..entry() };
        assert_eq!(known.clone().keep_answer(&before), known);
    }
}
