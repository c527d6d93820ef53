//! Stations that have the addresses that servers are reached by: asked for by ARP (RFC 826) and neighbour discovery
//! (RFC 4861).
//!
//! Every host on a link can send answers, so only those are believed that were asked for, by the port that the address
//! belongs to, soon after the question. A station that has answered once is asked directly from then on, so that others
//! need not hear of it, and as long as it answers no other one can have its address. What is said unasked is a reason
//! to ask again.

use std::net::Ipv6Addr;

use control::application::metrics::{Family, Kind};
use indexmap::IndexMap;
use wire::resolution::{Answer, Requester, question};

/// All that are asked for, by the port that leads to them.
#[derive(Clone, Debug, Default)]
pub struct Neighbours {
    known: IndexMap<(u8, Ipv6Addr), Neighbour>,
    due: u64,
    /// By [`Heard::ALL`].
    heard: [u64; Heard::ALL.len()],
}

/// One of them.
#[derive(Clone, Copy, Debug)]
struct Neighbour {
    /// The own addresses that it is asked from.
    requester: Requester,
    /// Its Ethernet address.
    mac: Option<[u8; 6]>,
    /// When it was asked last, which station, and whether an answer is awaited still.
    asked: u64,
    /// See `asked`; none: all on the link.
    directly: bool,
    /// See `asked`.
    open: bool,
    /// Questions since the last answer.
    tries: u32,
    /// When it is asked next.
    due: u64,
}

/// What becomes of an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Heard {
    /// It is believed.
    Believed,
    /// It was not asked for, or not lately.
    Unasked,
    /// It came by another port than the address belongs to.
    OtherPort,
    /// Another station was asked, which has the address as far as is known.
    OtherStation,
    /// It is no answer.
    Malformed,
}

impl Heard {
    /// All of them.
    const ALL: [Heard; 5] = [Heard::Believed, Heard::Unasked, Heard::OtherPort, Heard::OtherStation, Heard::Malformed];

    /// Its name in metrics.
    fn name(self) -> &'static str {
        match self {
            Heard::Believed => "believed",
            Heard::Unasked => "unasked",
            Heard::OtherPort => "other_port",
            Heard::OtherStation => "other_station",
            Heard::Malformed => "malformed",
        }
    }
}

/// From question to question, as long as there is no answer, and otherwise, in nanoseconds.
const UNANSWERED: u64 = 500_000_000;
const KNOWN: u64 = 30_000_000_000;
/// How long an answer may take, in nanoseconds (RFC 4861 section 10, RETRANS_TIMER).
const PATIENCE: u64 = 1_000_000_000;
/// Times that a known station is asked directly before all are (RFC 4861 section 10, MAX_UNICAST_SOLICIT), and in all
/// before it is left alone for a while: checks say whether it works.
const DIRECTLY: u32 = 3;
const MOST_TRIES: u32 = 6;

impl Neighbours {
    /// Asks at once for those that were not asked for yet.
    pub fn reconsider(&mut self) {
        self.due = 0;
    }

    /// When the next question is due.
    pub fn due(&self) -> u64 {
        self.due
    }

    /// The Ethernet address of one of them.
    pub fn mac(&self, port: u8, address: Ipv6Addr) -> Option<[u8; 6]> {
        self.known.get(&(port, address)).and_then(|own| own.mac)
    }

    /// What was heard.
    pub fn family(&self) -> Family {
        let about = "answers to questions for a server's address, by what became of them";
        let mut family = Family::new(Kind::Counter, "neighbour_answers", about);
        let heard = Heard::ALL.into_iter().zip(self.heard);
        heard.for_each(|(heard, count)| family.add(&[("answer", heard.name())], count));
        family
    }

    /// Those are asked from now on, and no others.
    pub fn want(&mut self, wanted: IndexMap<(u8, Ipv6Addr), Requester>, now: u64) {
        self.known.retain(|key, own| wanted.get(key) == Some(&own.requester));
        for (key, requester) in wanted {
            let new = Neighbour { requester, mac: None, asked: 0, directly: false, open: false, tries: 0, due: now };
            self.known.entry(key).or_insert(new);
        }
    }

    /// Takes an answer that came by a port at a time, and counts what becomes of it.
    pub fn take(&mut self, port: u8, frame: &[u8], now: u64) -> Heard {
        let heard = self.hear(port, frame, now);
        self.heard[heard as usize] += 1;
        heard
    }

    /// What becomes of an answer that came by a port at a time.
    fn hear(&mut self, port: u8, frame: &[u8], now: u64) -> Heard {
        let Some(answer) = Answer::parse(frame) else { return Heard::Malformed };
        let Some(own) = self.known.get_mut(&(port, answer.address)) else {
            let elsewhere = self.known.keys().any(|(_, address)| *address == answer.address);
            return if elsewhere { Heard::OtherPort } else { Heard::Unasked };
        };
        if answer.mac == Some(own.requester.mac) {
            return Heard::Malformed;
        }
        let asked = answer.is_for(&own.requester) && own.open && now <= own.asked + PATIENCE;
        let other = answer.mac.is_some_and(|mac| own.mac.is_some_and(|known| known != mac));
        if !asked || (other && (own.directly || !answer.overrides)) {
            if other {
                // Perhaps another station has the address now: the answer to the next question says so.
                own.due = own.due.min(own.asked + UNANSWERED);
                self.due = self.due.min(own.due);
            }
            return if asked { Heard::OtherStation } else { Heard::Unasked };
        }
        // A station that is asked directly need not say what is known (RFC 4861 section 7.2.4).
        own.mac = answer.mac.or(own.mac);
        if own.mac.is_none() {
            return Heard::Malformed;
        }
        (own.open, own.tries, own.due) = (false, 0, now + KNOWN);
        Heard::Believed
    }

    /// The questions that are due at a time, with the ports that they leave by.
    pub fn ask(&mut self, now: u64) -> Vec<(u8, Vec<u8>)> {
        let mut questions = Vec::new();
        for ((port, address), own) in &mut self.known {
            if own.due > now {
                continue;
            }
            own.directly = own.mac.is_some() && own.tries < DIRECTLY;
            (own.asked, own.open, own.tries) = (now, true, own.tries + 1);
            let goes_on = own.mac.is_none() || own.tries < MOST_TRIES;
            own.due = now + if goes_on { UNANSWERED } else { KNOWN };
            own.tries = if goes_on { own.tries } else { 0 };
            questions.push((*port, question(&own.requester, *address, own.mac.filter(|_| own.directly))));
        }
        self.due = self.known.values().map(|own| own.due).min().unwrap_or(now + KNOWN);
        questions
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const OWN: [u8; 6] = [2, 0, 0, 0, 2, 0xfe];
    const A: [u8; 6] = [2, 0, 0, 0, 2, 0x11];
    const B: [u8; 6] = [2, 0, 0, 0, 2, 0x99];
    const PORT: u8 = 2;

    fn address() -> Ipv6Addr {
        "::ffff:10.0.2.11".parse().unwrap()
    }

    /// One of IPv4 is wanted, and of IPv6.
    fn neighbours() -> Neighbours {
        let mut neighbours = Neighbours::default();
        let requester = |address: &str| Requester { mac: OWN, address: address.parse().unwrap() };
        let six = (PORT, "2001:db8:2::11".parse().unwrap());
        let wanted = [((PORT, address()), requester("::ffff:10.0.2.254")), (six, requester("2001:db8:2::254"))];
        neighbours.want(wanted.into_iter().collect(), 0);
        neighbours
    }

    /// An ARP reply that says which station has the address.
    fn reply(mac: [u8; 6]) -> Vec<u8> {
        let head = [&OWN[..], &mac, &[8, 6, 0, 1, 8, 0, 6, 4, 0, 2], &mac, &[10, 0, 2, 11], &OWN, &[10, 0, 2, 254]];
        head.concat()
    }

    fn mac(neighbours: &Neighbours) -> Option<[u8; 6]> {
        neighbours.known[&(PORT, address())].mac
    }

    /// The receiver of a question for an IPv4 address: a station, or all.
    fn asked(neighbours: &mut Neighbours, now: u64) -> Vec<[u8; 6]> {
        let questions = neighbours.ask(now).into_iter().filter(|(_, frame)| frame[12..14] == [8, 6]);
        questions.map(|(_, frame)| *frame.first_chunk().unwrap()).collect()
    }

    #[test]
    fn only_what_was_asked_for_is_believed() {
        let mut own = neighbours();
        assert_eq!(own.hear(PORT, &reply(B), 0), Heard::Unasked);
        assert_eq!(asked(&mut own, 0), [[0xff; 6]]);
        assert_eq!(own.hear(1, &reply(B), 1), Heard::OtherPort);
        assert_eq!(own.hear(PORT, &reply(OWN), 1), Heard::Malformed);
        let mut elsewhere = reply(B);
        elsewhere[31] = 12;
        assert_eq!(own.hear(PORT, &elsewhere, 1), Heard::Unasked, "an address that is not wanted");
        assert_eq!(own.hear(PORT, &reply(B), PATIENCE + 1), Heard::Unasked, "late");
        assert_eq!(mac(&own), None);
        assert_eq!(own.hear(PORT, &reply(A), 2), Heard::Believed);
        assert_eq!(own.hear(PORT, &reply(B), 3), Heard::Unasked, "the question is answered");
        assert_eq!(mac(&own), Some(A));
    }

    #[test]
    fn who_says_otherwise_is_a_reason_to_ask_and_no_more() {
        let mut own = neighbours();
        asked(&mut own, 0);
        own.hear(PORT, &reply(A), 1);
        // The station that is known is asked first, and as long as it answers it stays.
        assert_eq!(own.hear(PORT, &reply(B), 2), Heard::Unasked);
        let now = UNANSWERED;
        assert!(own.due <= now);
        assert_eq!(asked(&mut own, now), [A]);
        assert_eq!(own.hear(PORT, &reply(B), now + 1), Heard::OtherStation);
        assert_eq!(own.hear(PORT, &reply(A), now + 2), Heard::Believed);
        assert_eq!(mac(&own), Some(A));
        assert!(asked(&mut own, now + KNOWN).is_empty());
        // When it is gone all are asked.
        let now = now + 2 + KNOWN;
        let questions: Vec<_> = (0..8).flat_map(|count| asked(&mut own, now + count * UNANSWERED)).collect();
        assert_eq!(questions, [A, A, A, [0xff; 6], [0xff; 6], [0xff; 6]]);
        let now = now + 5 * UNANSWERED;
        assert_eq!(own.hear(PORT, &reply(B), now + 3), Heard::Believed);
        assert_eq!(mac(&own), Some(B));
    }

    #[test]
    fn who_is_not_wanted_any_more_is_forgotten() {
        let mut own = neighbours();
        asked(&mut own, 0);
        own.hear(PORT, &reply(A), 1);
        own.want(IndexMap::new(), 2);
        assert_eq!(own.hear(PORT, &reply(A), 3), Heard::Unasked);
        assert!(own.ask(4).is_empty());
    }
}
