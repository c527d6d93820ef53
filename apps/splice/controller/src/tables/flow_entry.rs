//! Flow entries: what the data path does with the segments of one direction of a connection. `packed` has them as the
//! program does.

use wire::flow_key::FlowKey;
use wire::seq;

/// What becomes of the segments of one direction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Mode {
    /// All go to the controller.
    #[default]
    Held,
    /// Those that end before the flow entry's limit pass, the others go to the controller.
    Limited,
    /// All pass.
    Open,
    /// As limited, and a FIN at the limit passes, too: nothing else is to come.
    Closing,
    /// Those that do nothing but acknowledge less than the flow entry's limit pass. Where the other direction is
    /// [`Mode::Answered`] the data path closes with this one's sender: `closing` of the program.
    Finishing,
    /// All go to the controller but a response that begins at the limit and whose head is plain: the data path reads
    /// it.
    Awaiting,
    /// As limited, by such a head: see [`answered`](super::answered).
    Answered,
    /// Those that do nothing but acknowledge pass.
    Acknowledging,
}

/// The flow entry of one direction. Sequence numbers are those of this direction's sender, before they are changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FlowEntry {
    /// What becomes of its segments.
    pub mode: Mode,
    /// Bit 0: a FIN came this way; bit 1: a reset.
    pub ended: u8,
    /// The port that its segments leave by.
    pub port: u8,
    /// The sender's window scale.
    pub scale: u8,
    /// The scale that was advertised to the receiver.
    pub advertised_scale: u8,
    /// The next hop's address.
    pub dst_mac: [u8; 6],
    /// The flow key that its segments get; the one that they come with, reversed, where they go nowhere yet.
    pub to: FlowKey,
    /// What is added to sequence numbers.
    pub seq: u32,
    /// What is added to acknowledgements.
    pub ack: u32,
    /// What is added to the clock of timestamps.
    pub tsval: u32,
    /// What is added to their echo.
    pub tsecr: u32,
    /// The sequence number behind the last byte that passes; with [`Mode::Finishing`] the first acknowledgement that
    /// does not.
    pub limit: u32,
    /// The last acknowledgement, as it came.
    pub acked: u32,
    /// How far the window reached that came with it.
    pub edge: u32,
    /// Second of the last segment.
    pub seen: u32,
    /// What the controller knows of the message that passes, from `limit` on, and of the connection: see `note`. With
    /// [`Mode::Awaiting`] the acknowledgement of the whole request, with [`Mode::Answered`] what was read; where the
    /// data path closes the last timestamp of its sender and the echo.
    pub framing: u64,
    /// See `framing`.
    pub facts: u16,
}

/// A time of the path, in nanoseconds, in the seconds that flow entries have. None has 0.
pub fn second(now: u64) -> u32 {
    (now / 1_000_000_000) as u32 + 1
}

/// Whether a connection is over, by the `ended` of its two flow entries: each side has sent its FIN, or one of them a
/// reset.
pub fn are_over(ended: [u8; 2]) -> bool {
    ended[0] & ended[1] & 1 != 0 || (ended[0] | ended[1]) & 2 != 0
}

impl FlowEntry {
    /// Of a client's entry: whether all that it acknowledges passes, the next request does not, and neither side has
    /// ended anything.
    pub fn is_between_requests(&self) -> bool {
        matches!(self.mode, Mode::Limited | Mode::Acknowledging) && self.ended == 0
    }

    /// Keeps what the data path has noted in the entry that this one replaces, where both lead to the same connection.
    /// An entry that holds segments notes no acknowledgements.
    pub fn keep_noted(mut self, before: Option<&FlowEntry>) -> FlowEntry {
        if let Some(before) = before.filter(|before| before.to == self.to) {
            (self.ended, self.seen) = (before.ended, before.seen);
            // Segments that went to the controller have acknowledged more, where that says so.
            if before.mode != Mode::Held && !seq::before(before.acked, self.acked) {
                (self.acked, self.edge) = (before.acked, before.edge);
            }
            return self.keep_answer(before);
        }
        self
    }

    /// An entry whose segments go to the controller.
    pub fn held(to: FlowKey, seen: u32) -> FlowEntry {
        FlowEntry {
            mode: Mode::Held,
            ended: 0,
            port: 0,
            scale: 0,
            advertised_scale: 0,
            dst_mac: [0; 6],
            to,
            seq: 0,
            ack: 0,
            tsval: 0,
            tsecr: 0,
            limit: 0,
            acked: 0,
            edge: 0,
            seen,
            framing: 0,
            facts: 0,
        }
    }
}
