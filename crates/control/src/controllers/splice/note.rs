//! What a control block keeps for the controller: enough to go on with the connection in another process, beside what the data
//! path needs anyway. It is written with the block, so that both are of the same moment.

use super::block::{Block, before};
use super::body::{Body, Next};
use super::connection::{Connection, State, Stream, Upstream};

/// Bits of [`Block::facts`] of either side.
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
/// Of the server's.
const RESPONSE: u16 = 1 << 4;
const TUNNEL: u16 = 1 << 5;
const BEGUN: u16 = 1 << 6;
const ENDED: u16 = 1 << 7;

/// The sizes of segments that a SYN cookie can keep (`tcp_cookie_mss` of `lib/tcp/cookie`), and so all that there are.
const SIZES: [u16; 8] = [536, 1200, 1300, 1380, 1420, 1440, 1460, 8940];

/// What the client's block says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClientNote {
    /// The greatest segment that it takes.
    pub mss: u16,
    /// What was agreed on: selective acknowledgements, timestamps, window scales.
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
    /// Whether a request is expected, or read but with no server yet; the block's limit is where it begins.
    pub asking: bool,
    /// Whether the client's FIN has come.
    pub done: bool,
    /// Whether bytes were acknowledged that no server has.
    pub lost: bool,
}

/// What the server's block says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ServerNote {
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

/// Which of [`SIZES`] one is; the greatest that is not above it where it is none, the least where that is above it, too.
fn size(mss: u16) -> u16 {
    SIZES.partition_point(|own| *own <= mss).saturating_sub(1) as u16
}

fn bits(all: &[(bool, u16)]) -> u16 {
    all.iter().filter(|(holds, _)| *holds).fold(0, |bits, (_, bit)| bits | bit)
}

/// What [`Upstream::note_server`] has made the limit of.
pub fn response_limit(block: &Block, closes: bool) -> u32 {
    let is_done = Body::of_word(block.framing).is_some_and(|body| body.next() == Next::End);
    block.limit.wrapping_add((closes && is_done).into())
}

/// The body of a message as a block keeps it; 0: its head is expected.
fn framing(stream: &Stream) -> u64 {
    stream.body.as_ref().map_or(0, Body::word)
}

impl Connection {
    /// Notes on the client's block what is known of this side. With it goes `limit`.
    pub fn note_client(&self, block: &mut Block) {
        // A request that may still need another connection is read again by the next process, when it comes again.
        let unheard = self.state == State::Serving && self.upstream.as_ref().is_some_and(Upstream::is_unheard);
        let asking = self.state != State::Serving || unheard;
        // Of a request that no server is connected for all bytes are here alone.
        let (start, has) = match (&self.state, &self.upstream) {
            (State::Serving, Some(u)) if !unheard => (self.requests.limit(), u.acked),
            (State::Connecting | State::Serving, _) => (self.start, self.start),
            _ => (self.requests.limit(), self.requests.limit()),
        };
        // An own answer is not kept, but for its FIN.
        let says_something = self.state == State::Answering
            && self.answer.as_ref().is_none_or(|answer| !answer.bytes.is_empty() || answer.resets);
        block.limit = start;
        block.framing = if asking { 0 } else { framing(&self.requests) };
        block.facts = size(self.agreed.mss)
            | CLIENT
            | bits(&[
                (self.agreed.sack, SACK),
                (self.agreed.times, TIMES),
                (self.agreed.scale.is_some(), SCALE),
                (self.keeps_alive, KEEPS_ALIVE),
                (self.closes, CLOSES),
                (self.request.as_ref().is_some_and(|request| request.method == "HEAD"), HEAD),
                (asking, ASKING),
                (self.client_done, DONE),
                (before(has, self.acknowledged) || says_something, LOST),
            ]);
    }
}

impl Upstream {
    /// Notes on the server's block what is known of this side. Where Millrace `closes` behind the response its last byte passes by the
    /// controller, which sends a FIN with it.
    pub fn note_server(&self, block: &mut Block, closes: bool) {
        let last = closes && self.responses.is_done();
        block.limit = self.responses.limit().wrapping_sub(last.into());
        block.framing = framing(&self.responses);
        block.facts = bits(&[
            (self.response.is_some(), RESPONSE),
            (self.response.is_some_and(|response| response.status == 101), TUNNEL),
            (self.begun, BEGUN),
            (self.responses.bytes.is_ended(), ENDED),
            // They have been passed on, so that they do not come again.
            (self.responses.bytes.holds_any() && !self.responses.is_done() && !self.responses.is_endless(), LOST),
        ]);
    }
}

impl ClientNote {
    /// Of a block; none where it is no client's.
    pub fn of(block: &Block) -> Option<ClientNote> {
        let has = |bit: u16| block.facts & bit != 0;
        has(CLIENT).then(|| ClientNote {
            mss: SIZES[usize::from(block.facts & 7)],
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

impl ServerNote {
    /// Of a block.
    pub fn of(block: &Block) -> ServerNote {
        let has = |bit: u16| block.facts & bit != 0;
        ServerNote {
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
