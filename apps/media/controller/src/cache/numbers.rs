//! Sequence numbers and timestamps as a client gets them: they go on where others take the place of those before, as
//! after a seek, or in the next recording (RFC 2326 appendix B).

use std::time::Duration;

use wire::rtp::Header;

/// Those of a track.
#[derive(Clone, Copy, Debug, Default)]
pub struct Numbers {
    /// Units of timestamps in a second.
    rate: u32,
    /// Is added to sequence numbers.
    sequence: u16,
    last: Option<Last>,
    /// The next packet follows the last one, whatever its numbers are.
    joins: bool,
}

/// The last packet.
#[derive(Clone, Copy, Debug)]
struct Last {
    /// Its own timestamp, and what it was sent with.
    timestamp: u32,
    sent: Header,
    /// When it was due.
    due: Duration,
}

impl Numbers {
    /// Those of a track of which nothing was sent.
    pub fn new(rate: u32) -> Numbers {
        Numbers { rate, ..Numbers::default() }
    }

    /// The next packet is another one than that which would follow the last.
    pub fn join(&mut self) {
        self.joins = self.last.is_some();
    }

    /// What a packet is sent with that is due then. Where only each so many a second's part is sent, numbers have no
    /// gaps, and time passes by so much faster.
    pub fn next(&mut self, own: Header, due: Duration, scale: u32) -> Header {
        let joins = std::mem::take(&mut self.joins);
        let mut sent = own;
        if let Some(last) = self.last {
            let next = last.sent.sequence.wrapping_add(1);
            if joins || scale > 1 {
                self.sequence = next.wrapping_sub(own.sequence);
            }
            let passed = match joins {
                true => (due.saturating_sub(last.due).as_nanos() * u128::from(self.rate) / 1_000_000_000) as u32,
                false => (own.timestamp.wrapping_sub(last.timestamp) as i32 / scale.max(1) as i32) as u32,
            };
            sent.sequence = own.sequence.wrapping_add(self.sequence);
            sent.timestamp = last.sent.timestamp.wrapping_add(passed);
            sent.ssrc = last.sent.ssrc;
        }
        self.last = Some(Last { timestamp: own.timestamp, sent, due });
        sent
    }

    /// The timestamp that a packet of the same recording as the last one was sent with, or would be; and whether it was
    /// sent.
    pub fn place(&self, own: Header) -> Option<(u32, bool)> {
        let last = self.last.filter(|_| !self.joins)?;
        let timestamp = last.sent.timestamp.wrapping_add(own.timestamp.wrapping_sub(last.timestamp));
        let behind = own.sequence.wrapping_add(self.sequence).wrapping_sub(last.sent.sequence) as i16;
        Some((timestamp, behind <= 0))
    }

    /// What was sent last.
    pub fn last(&self) -> Option<Header> {
        self.last.map(|own| own.sent)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_go_on() {
        let mut numbers = Numbers::new(90_000);
        let mut next = |sequence: u16, timestamp: u32, ssrc: u32, due: u64, scale: u32, joins: bool| {
            if joins {
                numbers.join();
            }
            let sent = numbers.next(Header { sequence, timestamp, ssrc }, Duration::from_millis(due), scale);
            assert_eq!(sent.ssrc, 7);
            (sent.sequence, sent.timestamp)
        };
        // Nothing was before the first one.
        assert_eq!(next(65534, u32::MAX - 999, 7, 0, 1, true), (65534, u32::MAX - 999));
        // What is missing is missing, and numbers wrap around.
        assert_eq!(next(0, 2000, 7, 33, 1, false), (0, 2000));
        assert_eq!(next(1, 1000, 7, 34, 1, false), (1, 1000));
        // Another recording, 40 ms later.
        assert_eq!(next(500, 77_000, 9, 74, 1, true), (2, 1000 + 3600));
        assert_eq!(next(502, 80_000, 9, 80, 1, false), (4, 4600 + 3000));
        let place = |sequence, timestamp| numbers.place(Header { sequence, timestamp, ssrc: 9 });
        assert_eq!(place(499, 76_500), Some((4100, true)));
        assert_eq!(place(502, 80_000), Some((7600, true)));
        assert_eq!(place(503, 80_300), Some((7900, false)));
        let mut next = |sequence: u16, timestamp: u32, ssrc: u32, due: u64, scale: u32, _: bool| {
            let sent = numbers.next(Header { sequence, timestamp, ssrc }, Duration::from_millis(due), scale);
            (sent.sequence, sent.timestamp)
        };
        // Pictures that lie two seconds apart, four times as fast.
        assert_eq!(next(900, 260_000, 9, 90, 4, false), (5, 7600 + 45_000));
        assert_eq!(next(901, 260_000, 9, 90, 4, false), (6, 52_600));
    }
}
