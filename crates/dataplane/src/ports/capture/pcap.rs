//! The records of a pcap file (draft-ietf-opsawg-pcap).

use std::io::Read;
use std::time::Duration;

use super::record::{Found, LONGEST, Trouble};
use super::skipped::Skipped;
use super::window::Window;

/// Bytes in front of the first record.
pub(super) const HEADER: usize = 24;
/// Bytes in front of a packet: seconds, their fraction, bytes in the file, bytes in all.
const RECORD: usize = 16;
/// What a file begins with, by the resolution of its times.
const MICROSECONDS: u32 = 0xa1b2_c3d4;
const NANOSECONDS: u32 = 0xa1b2_3c4d;
/// No packet has more bytes than this, however few of them were captured.
const MOST: u32 = 1 << 28;
/// Behind damage, bytes of a packet at least: an Ethernet header.
const LEAST: usize = 14;
/// Behind damage, seconds between a packet and the one before.
const NEAR: u32 = 86_400;
/// Seconds since 1970 that are a date, from 1990 on; others may be times since a capture began, and such numbers are
/// everywhere.
const OUR_DAYS: u32 = 631_152_000;

/// Where a file is read.
pub(super) struct Records {
    little: bool,
    /// Parts of a second.
    resolution: u32,
    /// Packets so far.
    number: u64,
    /// Seconds of the last one.
    last: Option<u32>,
}

struct Record {
    seconds: u32,
    fraction: u32,
    captured: usize,
    original: u32,
}

impl Records {
    /// Of a file's first bytes, with its link type; `None`: they are not a pcap file's.
    pub fn of(head: &[u8]) -> Option<(Records, u32)> {
        let (little, resolution) = Self::magic(head)?;
        let records = Records { little, resolution, number: 0, last: None };
        let link = records.word(head.get(..HEADER)?, 20);
        Some((records, link))
    }

    /// Whether a file begins as one of this format does.
    pub fn knows(head: &[u8]) -> bool {
        Self::magic(head).is_some()
    }

    fn magic(head: &[u8]) -> Option<(bool, u32)> {
        let magic: [u8; 4] = head.get(..4)?.try_into().ok()?;
        let of = |magic| match magic {
            MICROSECONDS => Some(1_000_000),
            NANOSECONDS => Some(1_000_000_000),
            _ => None,
        };
        let little = of(u32::from_le_bytes(magic)).map(|resolution| (true, resolution));
        little.or_else(|| of(u32::from_be_bytes(magic)).map(|resolution| (false, resolution)))
    }

    fn word(&self, bytes: &[u8], at: usize) -> u32 {
        let word: [u8; 4] = bytes[at..at + 4].try_into().expect("four bytes");
        if self.little { u32::from_le_bytes(word) } else { u32::from_be_bytes(word) }
    }

    /// The record that begins with these bytes; `None`: none can.
    fn record(&self, bytes: &[u8]) -> Option<Record> {
        let bytes = bytes.get(..RECORD)?;
        let [seconds, fraction, captured, original] = [0, 4, 8, 12].map(|at| self.word(bytes, at));
        let record = Record { seconds, fraction, captured: captured as usize, original };
        let can_be = fraction < self.resolution
            && record.captured <= LONGEST
            && captured <= original
            && original <= MOST
            // A stretch of zeros is no sequence of empty packets.
            && (original > 0 || seconds > 0);
        can_be.then_some(record)
    }

    /// Whether records go on here, behind damage: with one of about the time of the last, where that is a date of our
    /// days, which other bytes are once in 10^10; else with one behind which is another, or the file's end.
    fn go_on(&self, bytes: &[u8], ended: bool) -> bool {
        let found = self.record(bytes).filter(|found| found.captured >= LEAST && found.original as usize <= LONGEST);
        let Some(record) = found else { return false };
        match self.last {
            Some(last) if last.abs_diff(record.seconds) > NEAR => return false,
            Some(OUR_DAYS..) => return true,
            _ => {}
        }
        let behind = bytes.get(RECORD + record.captured..);
        behind.is_some_and(|behind| (behind.is_empty() && ended) || self.record(behind).is_some())
    }

    /// What begins at the window's beginning.
    pub fn next(&mut self, window: &mut Window<impl Read>, skipped: &mut Skipped) -> Result<Found, Trouble> {
        let (offset, ahead) = (window.offset(), window.peek(RECORD)?);
        if ahead.is_empty() {
            return Ok(Found::End);
        }
        let whole = ahead.len() >= RECORD;
        let Some(record) = self.record(ahead) else {
            return self.behind(window, skipped, offset, whole);
        };
        let len = RECORD + record.captured;
        let ahead = window.peek(len + RECORD)?;
        if ahead.len() < len {
            // The file ends here, or the length is wrong.
            return self.behind(window, skipped, offset, false);
        }
        if ahead.len() >= len + RECORD && self.record(&ahead[len..]).is_none() {
            // Damaged is what comes next, unless records go on before that: then it is this one's length.
            let reach = 2 * RECORD + LONGEST;
            window.peek(len + reach)?;
            let (ahead, ended) = (window.bytes(), window.is_last());
            if let Some(place) = (1..len).find(|&place| self.go_on(&ahead[place..], ended)) {
                window.skip(place);
                skipped.damaged(self.number, offset);
                self.number += 1;
                return Ok(Found::Other);
            }
        }
        self.number += 1;
        self.last = Some(record.seconds);
        if record.captured < record.original as usize {
            skipped.cut(self.number, record.captured, record.original);
            window.skip(len);
            return Ok(Found::Other);
        }
        let nanoseconds = record.fraction * (1_000_000_000 / self.resolution);
        let time = Duration::new(record.seconds.into(), nanoseconds);
        Ok(Found::Packet { bytes: RECORD..len, record: len, time, number: None, interface: None, outgoing: false })
    }

    /// Goes on behind what can't be read. `whole`: it is not that the file ends there.
    fn behind(
        &mut self,
        window: &mut Window<impl Read>,
        skipped: &mut Skipped,
        offset: u64,
        whole: bool,
    ) -> Result<Found, Trouble> {
        let found = window.seek(2 * RECORD + LONGEST, |bytes, ended| self.go_on(bytes, ended))?;
        skipped.unreadable(self.number, offset, found || whole);
        self.number += 1;
        Ok(if found { Found::Other } else { Found::End })
    }
}
