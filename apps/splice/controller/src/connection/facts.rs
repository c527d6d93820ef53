//! The facts that a flow entry keeps for the controller: enough for another process to go on with the connection,
//! beside what the data path needs anyway. They are written with the entry, so that both are of the same moment.

use wire::body::{Body, Next};
use wire::seq::before;

use super::client::{Client, Progress};
use super::stream::Stream;
use super::upstream::Upstream;
use crate::tables::answered::{BEGUN, RESPONSE};
use crate::tables::flow_entry::{FlowEntry, Mode};

/// Bits of [`FlowEntry::facts`] of either side.
const LOST: u16 = 1 << 15;
/// Of the client's side; below them is which of [`SIZES`] the greatest segment has.
const CLIENT: u16 = 1 << 3;
const SACK: u16 = 1 << 4;
const TIMES: u16 = 1 << 5;
const SCALE: u16 = 1 << 6;
const KEEPS_ALIVE: u16 = 1 << 7;
const HEAD: u16 = 1 << 8;
const ASKING: u16 = 1 << 9;
const DONE: u16 = 1 << 10;
const CLOSES: u16 = 1 << 11;
/// Of the server's, beside those of [`answered`](crate::tables::answered).
const TUNNEL: u16 = 1 << 5;
const ENDED: u16 = 1 << 7;

/// The sizes of segments that a SYN cookie can keep (`tcp_cookie_mss` of `lib/tcp/cookie`), and so all that there are.
const SIZES: [u16; 8] = [536, 1200, 1316, 1380, 1420, 1440, 1460, 8940];

/// What the client's entry says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClientFacts {
    /// The greatest segment that it takes.
    pub mss: u16,
    /// Negotiated options: selective acknowledgements, timestamps, window scales.
    pub sack: bool,
    #[allow(missing_docs)]
    pub times: bool,
    #[allow(missing_docs)]
    pub scale: bool,
    /// Whether another request may follow.
    pub keeps_alive: bool,
    /// Whether Millrace itself closes behind the response.
    pub closes: bool,
    /// Whether the present request is a HEAD.
    pub is_head: bool,
    /// Whether a request is expected, or read but with no server yet; the flow entry's limit is where it begins.
    pub asking: bool,
    /// Whether the client's FIN has come.
    pub done: bool,
    /// Whether bytes were acknowledged that no server has.
    pub lost: bool,
}

/// What the server's entry says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ServerFacts {
    /// Whether the response's head has been read.
    pub response: bool,
    /// Whether it is no HTTP any more (101).
    pub tunnel: bool,
    /// Whether a byte of the response has been passed on.
    pub begun: bool,
    /// Whether the server's FIN has come.
    pub ended: bool,
    /// Whether bytes have been passed on that could not be read yet.
    pub lost: bool,
}

/// Which of [`SIZES`] one is; the greatest that is not above it where it is none, the least where that is above it,
/// too.
fn size(mss: u16) -> u16 {
    SIZES.partition_point(|own| *own <= mss).saturating_sub(1) as u16
}

fn bits(all: &[(bool, u16)]) -> u16 {
    all.iter().filter(|(holds, _)| *holds).fold(0, |bits, (_, bit)| bits | bit)
}

/// The body of a response whose head has been read, by the data path too.
pub fn response_body(entry: &FlowEntry) -> Option<Body> {
    if entry.mode == Mode::Answered { Some(Body::empty()) } else { Body::of_word(entry.framing) }
}

/// What [`Upstream::note`] has made the limit of.
pub fn response_limit(entry: &FlowEntry, closes: bool) -> u32 {
    let is_done = response_body(entry).is_some_and(|body| body.next() == Next::End);
    entry.limit.wrapping_add((closes && is_done).into())
}

/// The body of a message as an entry keeps it; 0: its head is expected.
fn framing(stream: &Stream) -> u64 {
    stream.body.as_ref().map_or(0, Body::word)
}

impl Client {
    /// Notes on the client's entry what is known of this side. With it goes `limit`.
    pub fn note(&self, progress: Progress, entry: &mut FlowEntry) {
        entry.limit = progress.start;
        entry.framing = if progress.served { framing(&self.requests) } else { 0 };
        entry.facts = size(self.options.mss)
            | CLIENT
            | bits(&[
                (self.options.sack, SACK),
                (self.options.times, TIMES),
                (self.options.scale.is_some(), SCALE),
                (self.persistence.keeps_alive(), KEEPS_ALIVE),
                (self.persistence.closes(), CLOSES),
                (progress.is_head, HEAD),
                (!progress.served, ASKING),
                (self.done, DONE),
                (before(progress.delivered, self.acknowledged) || progress.answers, LOST),
            ]);
    }
}

impl Upstream {
    /// Notes on the server's entry what is known of this side. Where Millrace `closes` behind the response its last
    /// byte passes by the controller, which sends a FIN with it.
    pub fn note(&self, entry: &mut FlowEntry, closes: bool) {
        let responses = &self.conn.responses;
        let last = closes && responses.is_done();
        entry.limit = responses.limit().wrapping_sub(last.into());
        entry.framing = framing(responses);
        entry.facts = bits(&[
            (self.response.is_some(), RESPONSE),
            (self.response.is_some_and(|response| response.status == 101), TUNNEL),
            (self.begun, BEGUN),
            (responses.bytes.is_ended(), ENDED),
            // They have been passed on, so that they do not come again.
            (responses.bytes.holds_any() && !responses.is_done() && !responses.is_endless(), LOST),
        ]);
    }
}

impl ClientFacts {
    /// Of an entry; none where it is no client's.
    pub fn of(entry: &FlowEntry) -> Option<ClientFacts> {
        let has = |bit: u16| entry.facts & bit != 0;
        has(CLIENT).then(|| ClientFacts {
            mss: SIZES[usize::from(entry.facts & 7)],
            sack: has(SACK),
            times: has(TIMES),
            scale: has(SCALE),
            keeps_alive: has(KEEPS_ALIVE),
            closes: has(CLOSES),
            is_head: has(HEAD),
            asking: has(ASKING),
            done: has(DONE),
            lost: has(LOST),
        })
    }
}

impl ServerFacts {
    /// Of an entry.
    pub fn of(entry: &FlowEntry) -> ServerFacts {
        let has = |bit: u16| entry.facts & bit != 0;
        ServerFacts {
            response: has(RESPONSE),
            tunnel: has(TUNNEL),
            begun: has(BEGUN),
            ended: has(ENDED),
            lost: has(LOST),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_of_segments_are_kept() {
        assert_eq!(SIZES.map(|mss| SIZES[usize::from(size(mss))]), SIZES);
        let found = [0, 535, 1199, 1459, u16::MAX].map(|mss| SIZES[usize::from(size(mss))]);
        assert_eq!(found, [536, 536, 536, 1440, 8940]);
    }
}
