//! Packets in the order of their RTP sequence numbers: those that come too early wait for others, for a bounded time.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

/// A jump of more numbers than this is a sender that begins anew (RFC 3550 appendix A.1, MAX_DROPOUT),
const JUMP: i64 = 3000;
/// and so is one back by more than this. What is older is late.
const BACK: i64 = 1024;

/// When something came.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Arrival {
    /// By a clock that is never set (CLOCK_MONOTONIC), in microseconds.
    pub monotonic: u64,
    /// By the wall clock, in microseconds since 1970.
    pub clock: u64,
}

/// Where a packet is in the order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// Its sequence number, which does not wrap around; the lower 16 bits are RTP's.
    pub sequence: u64,
    /// The sender has begun anew with it.
    pub restart: bool,
    /// When it came.
    pub arrival: Arrival,
}

/// Why a packet is not recorded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Dropped {
    /// It was there already.
    Duplicate,
    /// Those behind it were no longer waiting for it.
    Late,
    /// Its number is far from the others', and no packet followed it.
    Stray,
    /// It is no RTP packet.
    NotRtp,
    /// A stream of MPEG-TS had something else.
    NotTs,
    /// There is no room for it in a block.
    TooLong,
}

impl Dropped {
    /// All of them.
    pub const ALL: [Dropped; 6] =
        [Dropped::Duplicate, Dropped::Late, Dropped::Stray, Dropped::NotRtp, Dropped::NotTs, Dropped::TooLong];

    /// Its name, as counters have it.
    pub fn name(self) -> &'static str {
        match self {
            Dropped::Duplicate => "duplicate",
            Dropped::Late => "late",
            Dropped::Stray => "stray",
            Dropped::NotRtp => "not_rtp",
            Dropped::NotTs => "not_ts",
            Dropped::TooLong => "too_long",
        }
    }
}

/// A packet that waits for one before it.
#[derive(Clone, Debug)]
struct Held {
    place: Place,
    packet: Vec<u8>,
}

/// The window.
#[derive(Debug)]
pub struct Window {
    most: usize,
    /// In microseconds.
    longest: u64,
    /// The sequence number that is due; none before the first packet.
    due: Option<u64>,
    ssrc: u32,
    held: BTreeMap<u64, Held>,
    /// For each number modulo its length, the last one that went through: so duplicates differ from late ones.
    seen: Vec<u64>,
    /// A packet with a number far from the others' is believed when the next one follows it.
    jumped: Option<(u16, Arrival, Vec<u8>)>,
    /// Packets with a number far from the others' that no other followed.
    pub strays: u64,
}

impl Window {
    /// One in which so many packets wait, for so many microseconds.
    pub fn new(most: usize, longest: u64) -> Window {
        let seen = vec![u64::MAX; BACK as usize];
        Window { most, longest, due: None, ssrc: 0, held: BTreeMap::new(), seen, jumped: None, strays: 0 }
    }

    /// Takes a packet, and hands on those whose turn it is, in order. It is only copied where it has to wait.
    pub fn put(
        &mut self,
        number: u16,
        ssrc: u32,
        arrival: Arrival,
        packet: &[u8],
        next: &mut impl FnMut(Place, &[u8]),
    ) -> Result<(), Dropped> {
        let Some(due) = self.due.filter(|_| self.ssrc == ssrc) else {
            self.restart(number, ssrc, arrival, packet, next);
            return Ok(());
        };
        let ahead = i64::from(number.wrapping_sub(due as u16) as i16);
        let sequence = due.checked_add_signed(ahead);
        match sequence {
            Some(sequence) if (0..=JUMP).contains(&ahead) => self.in_window(sequence, arrival, packet, next),
            Some(sequence) if (-BACK..0).contains(&ahead) => {
                let seen = self.seen[sequence as usize % self.seen.len()];
                Err(if seen == sequence { Dropped::Duplicate } else { Dropped::Late })
            }
            _ => self.jump(number, ssrc, arrival, packet, next),
        }
    }

    fn in_window(
        &mut self,
        sequence: u64,
        arrival: Arrival,
        packet: &[u8],
        next: &mut impl FnMut(Place, &[u8]),
    ) -> Result<(), Dropped> {
        self.strays += u64::from(self.jumped.take().is_some());
        let place = Place { sequence, restart: false, arrival };
        if Some(sequence) == self.due {
            self.pass(place, packet, next);
            self.follow(next);
        } else if let Entry::Vacant(own) = self.held.entry(sequence) {
            own.insert(Held { place, packet: packet.to_vec() });
        } else {
            return Err(Dropped::Duplicate);
        }
        self.expire(arrival.monotonic, next);
        Ok(())
    }

    /// Whose time is over, or for whom there is no room, is no longer waited for.
    pub fn expire(&mut self, now: u64, next: &mut impl FnMut(Place, &[u8])) {
        let is_over = |held: &Held| now.saturating_sub(held.place.arrival.monotonic) > self.longest;
        let mut last_over = self.held.iter().filter(|(_, held)| is_over(held)).map(|(sequence, _)| *sequence).max();
        while let Some((sequence, held)) = self.held.pop_first() {
            if self.held.len() < self.most && last_over.is_none_or(|last| last < sequence) {
                self.held.insert(sequence, held);
                break;
            }
            last_over = last_over.filter(|last| *last > sequence);
            self.pass(held.place, &held.packet, next);
            self.follow(next);
        }
    }

    /// Hands on all that wait.
    pub fn flush(&mut self, next: &mut impl FnMut(Place, &[u8])) {
        while let Some((_, held)) = self.held.pop_first() {
            self.pass(held.place, &held.packet, next);
        }
    }

    fn pass(&mut self, place: Place, packet: &[u8], next: &mut impl FnMut(Place, &[u8])) {
        let length = self.seen.len();
        self.seen[place.sequence as usize % length] = place.sequence;
        self.due = Some(place.sequence + 1);
        next(place, packet);
    }

    /// Those that waited for the one that has just passed.
    fn follow(&mut self, next: &mut impl FnMut(Place, &[u8])) {
        while let Some(held) = self.due.and_then(|due| self.held.remove(&due)) {
            self.pass(held.place, &held.packet, next);
        }
    }

    /// The sender begins anew: numbers go on above all that were, so that they stay in order.
    fn restart(
        &mut self,
        number: u16,
        ssrc: u32,
        arrival: Arrival,
        packet: &[u8],
        next: &mut impl FnMut(Place, &[u8]),
    ) {
        self.flush(next);
        let sequence = match self.due {
            None => u64::from(number),
            Some(due) => due + u64::from(number.wrapping_sub(due as u16)),
        };
        let restart = self.due.is_some();
        (self.ssrc, self.jumped) = (ssrc, None);
        self.pass(Place { sequence, restart, arrival }, packet, next);
    }

    /// A number far from the others'.
    fn jump(
        &mut self,
        number: u16,
        ssrc: u32,
        arrival: Arrival,
        packet: &[u8],
        next: &mut impl FnMut(Place, &[u8]),
    ) -> Result<(), Dropped> {
        match self.jumped.take() {
            Some((first, came, own)) if first.wrapping_add(1) == number => {
                self.restart(first, ssrc, came, &own, next);
                self.put(number, ssrc, arrival, packet, next)
            }
            before => {
                self.strays += u64::from(before.is_some());
                self.jumped = Some((number, arrival, packet.to_vec()));
                Ok(())
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Hands packets with these numbers in, a millisecond apart; which ones came out, and which were refused.
    fn through(window: &mut Window, numbers: &[u16]) -> (Vec<u64>, Vec<Dropped>) {
        let (mut out, mut refused) = (Vec::new(), Vec::new());
        let mut next = |place: Place, packet: &[u8]| {
            assert_eq!(packet, (place.sequence as u16).to_be_bytes());
            out.push(place.sequence);
        };
        for (at, number) in numbers.iter().enumerate() {
            let arrival = Arrival { monotonic: 1000 * at as u64, clock: 0 };
            refused.extend(window.put(*number, 1, arrival, &number.to_be_bytes(), &mut next).err());
        }
        window.flush(&mut next);
        (out, refused)
    }

    proptest! {
        /// Whoever is not later than the window is wide comes out, once and in order.
        #[test]
        fn order_is_restored(first in any::<u16>(), count in 1usize..400, delays in prop::collection::vec(0u32..8, 400),
                             lost in prop::collection::vec(prop::bool::weighted(0.1), 400),
                             twice in prop::collection::vec(prop::bool::weighted(0.1), 400)) {
            let is_there = |at: &usize| *at == 0 || !lost[*at];
            let mut sent: Vec<(u32, usize)> = Vec::new();
            for at in (0..count).filter(is_there) {
                let due = at as u32 + if at == 0 { 0 } else { delays[at] };
                sent.push((due, at));
                if twice[at] {
                    sent.push((due + 3, at));
                }
            }
            sent.sort();
            let numbers: Vec<u16> = sent.iter().map(|(_, at)| first.wrapping_add(*at as u16)).collect();
            let (out, refused) = through(&mut Window::new(16, 1_000_000), &numbers);
            let expected: Vec<u64> = (0..count).filter(is_there).map(|at| u64::from(first) + at as u64).collect();
            prop_assert_eq!(refused.len(), numbers.len() - expected.len());
            prop_assert!(refused.iter().all(|own| *own == Dropped::Duplicate));
            prop_assert_eq!(out, expected);
        }
    }

    #[test]
    fn nobody_waits_too_long() {
        let mut window = Window::new(4, 1_000_000);
        let (out, refused) = through(&mut window, &[1, 3, 4, 5, 6, 7, 2, 8]);
        assert_eq!((out, refused), (vec![1, 3, 4, 5, 6, 7, 8], vec![Dropped::Late]));
        let mut window = Window::new(64, 3000);
        let (out, refused) = through(&mut window, &[1, 3, 4, 5, 6, 7, 2, 8]);
        assert_eq!((out, refused), (vec![1, 3, 4, 5, 6, 7, 8], vec![Dropped::Late]));
    }

    #[test]
    fn a_sender_begins_anew() {
        let (out, refused) = through(&mut Window::new(4, 1_000_000), &[10, 11, 30000, 12, 30001, 30002, 9, 10, 11]);
        // One far away is a stray until another follows it.
        assert_eq!(out, [10, 11, 12, 30001, 30002, 65536 + 9, 65536 + 10, 65536 + 11]);
        assert_eq!(refused, []);
    }
}
