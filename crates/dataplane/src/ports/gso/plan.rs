//! Which packets of a batch leave together: those of a flow that follow each other in it, whatever is between
//! them.
//!
//! The packets of a flow keep their order: one that can't be joined to those before it ends their message, and those
//! after it begin another one. Messages leave in the order of their first packets.

use super::part::{Headers, Look, MOST_HEADERS, Part, look};
use crate::packets::Bytes;

/// Packets that are looked at together, at most.
pub const WINDOW: usize = 512;
/// Packets in a message at most: older kernels take no more segments.
pub const MOST: usize = 64;
/// In the place of a packet's number.
const NONE: u16 = u16::MAX;
/// Places that a flow may have in the table of flows.
const PROBES: usize = 8;
const PLACES: usize = 2 * WINDOW;

/// Packets that leave together, in their order.
#[derive(Clone, Debug)]
pub struct Message {
    /// The first of them.
    pub first: u16,
    last: u16,
    /// How many there are.
    pub packets: u16,
    /// Bytes of payload of all.
    payload: u32,
    /// Others may follow.
    is_open: bool,
}

/// What a packet of the window is.
#[derive(Clone, Copy, Debug)]
pub struct Seen {
    /// Of a flow.
    pub part: Option<Part>,
    pub headers: Headers,
}

/// Where a flow's latest message is noted.
#[derive(Clone, Copy, Debug, Default)]
struct Place {
    /// Of the window that it belongs to.
    window: u32,
    message: u16,
}

/// What becomes of the packets of a window.
#[derive(Debug)]
pub struct Plan {
    /// Messages in the order in which they leave.
    pub messages: Vec<Message>,
    /// By packet.
    seen: Box<[Seen; WINDOW]>,
    /// The next packet of the same message, by packet.
    next: Box<[u16; WINDOW]>,
    flows: Box<[Place; PLACES]>,
    window: u32,
    /// Datagrams of UDP are joined, too.
    takes_udp: bool,
    /// Packets of the longest message.
    pub longest: u16,
}

impl Plan {
    /// An empty one, with the memory that it needs.
    pub fn new(takes_udp: bool) -> Self {
        Plan {
            messages: Vec::with_capacity(WINDOW),
            seen: Box::new([Seen { part: None, headers: [0; MOST_HEADERS] }; WINDOW]),
            next: Box::new([NONE; WINDOW]),
            flows: Box::new([Place::default(); PLACES]),
            window: 0,
            takes_udp,
            longest: 0,
        }
    }

    /// Makes messages of so many packets, at most [`WINDOW`]: those that `packet` gives.
    pub fn make<'a>(&mut self, count: usize, packet: impl Fn(usize) -> Option<Bytes<'a>>) {
        self.messages.clear();
        self.longest = 0;
        self.window = self.window.wrapping_add(1);
        if self.window == 0 {
            (*self.flows, self.window) = ([Place::default(); PLACES], 1);
        }
        // Messages before this one are closed.
        let mut barrier = 0;
        for number in 0..count {
            self.next[number] = NONE;
            let Some(bytes) = packet(number) else { continue };
            let seen = &mut self.seen[number];
            let look = look(bytes, &mut seen.headers);
            seen.part = if let Look::Part(part) = look { Some(part) } else { None };
            let Some(part) = seen.part else {
                self.begin(number, 0, false);
                if look == Look::Unclear {
                    barrier = self.messages.len();
                }
                continue;
            };
            let place = self.place(number, &part);
            let before = place.and_then(|place| self.at(place)).filter(|&message| message >= barrier);
            if before.is_some_and(|message| self.join(message, number, &part)) {
                continue;
            }
            if let Some(place) = place {
                self.flows[place] = Place { window: self.window, message: self.messages.len() as u16 };
            }
            // Where the table has no place for its flow nothing follows, so that nothing is in the wrong order.
            let is_open = place.is_some() && part.may_join && !part.ends && (part.is_tcp || self.takes_udp);
            self.begin(number, part.payload, is_open);
        }
    }

    /// What a packet of the window is: one of those that were given.
    pub fn seen(&self, number: usize) -> &Seen {
        &self.seen[number]
    }

    /// The packets of a message from one of them on, in their order.
    pub fn packets(&self, first: u16) -> impl Iterator<Item = usize> + Clone + '_ {
        std::iter::successors(Some(first), |&number| Some(self.next[usize::from(number)]).filter(|next| *next != NONE))
            .map(usize::from)
    }

    fn begin(&mut self, number: usize, payload: u16, is_open: bool) {
        let number = number as u16;
        self.messages.push(Message { first: number, last: number, packets: 1, payload: payload.into(), is_open });
        self.longest = self.longest.max(1);
    }

    /// Whether the packet is part of the message from now on.
    fn join(&mut self, message: usize, number: usize, part: &Part) -> bool {
        let message = &mut self.messages[message];
        let (seen, headers) = (&self.seen[usize::from(message.first)], &self.seen[number].headers);
        let (Some(first), true) = (&seen.part, message.is_open && part.may_join) else { return false };
        let payload = message.payload + u32::from(part.payload);
        let fits =
            part.payload <= first.payload && payload as usize <= first.most() && usize::from(message.packets) < MOST;
        if !fits || !part.follows(headers, first, &seen.headers, message.packets, message.payload) {
            return false;
        }
        // Only the last one may be shorter.
        message.is_open = part.payload == first.payload && !part.ends;
        message.payload = payload;
        message.packets += 1;
        self.longest = self.longest.max(message.packets);
        self.next[usize::from(message.last)] = number as u16;
        message.last = number as u16;
        true
    }

    /// The place of a flow in the table: where it is, or where it may be put.
    fn place(&self, number: usize, part: &Part) -> Option<usize> {
        let headers = &self.seen[number].headers;
        let first = part.hash as usize;
        (first..first + PROBES).map(|place| place % PLACES).find(|&place| {
            let flow = |message: usize| {
                let other = &self.seen[usize::from(self.messages[message].first)];
                other.part.is_some_and(|first| part.is_of_flow(headers, &first, &other.headers))
            };
            self.at(place).is_none_or(flow)
        })
    }

    /// The message that is noted at a place.
    fn at(&self, place: usize) -> Option<usize> {
        let Place { window, message } = self.flows[place];
        (window == self.window).then_some(message.into())
    }
}
