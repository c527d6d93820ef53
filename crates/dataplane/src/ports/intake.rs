//! Packets as a queue gets them from the kernel, with a header of what is left to be done: they go into frames as the
//! network would have them.

use std::sync::atomic::Ordering;

use crate::counters::PortCounters;
use crate::packets::{HEADER, Refused, RxBatch, Segments, Unfinished};
use crate::sys::{ETHERNET, TAG, TAG_AT};

/// Of one queue.
#[derive(Debug, Default)]
pub struct Intake {
    /// What is left of a packet that the batch before had no room for.
    left: Option<Segments>,
    /// Since the last look: super-packets, packets that were made of them, packets that can't be finished by reason.
    supers: u64,
    made: u64,
    refused: [u64; Refused::ALL.len()],
}

impl Intake {
    /// Takes a packet, with the tag of a VLAN that belongs into it; whether all of it is taken. Else the next batch is
    /// to be given the same packet.
    pub fn take(
        &mut self,
        batch: &mut RxBatch<'_>,
        header: &[u8; HEADER],
        packet: &[u8],
        tag: Option<[u8; TAG]>,
    ) -> bool {
        if *header == [0; HEADER] && packet.len() >= ETHERNET {
            match tag {
                None => batch.push(&[packet]),
                Some(tag) => batch.push(&[&packet[..TAG_AT], &tag, &packet[TAG_AT..]]),
            }
            return true;
        }
        let begin = || Unfinished::read(header).and_then(|left| Segments::new(packet, &left, tag));
        let mut segments = match self.left.take().map_or_else(begin, Ok) {
            Ok(segments) => segments,
            Err(why) => {
                self.refused[why as usize] += 1;
                return true;
            }
        };
        let before = segments.left();
        let is_done = batch.push_segments(packet, &mut segments);
        if segments.is_super() {
            self.made += (before - segments.left()) as u64;
            self.supers += u64::from(is_done);
        }
        if !is_done {
            self.left = Some(segments);
        }
        is_done
    }

    /// Brings counters up to date.
    pub fn count(&mut self, counters: &PortCounters) {
        counters.rx_super.fetch_add(std::mem::take(&mut self.supers), Ordering::Relaxed);
        counters.rx_in_super.fetch_add(std::mem::take(&mut self.made), Ordering::Relaxed);
        for (counter, count) in counters.unfinished.iter().zip(&mut self.refused) {
            counter.fetch_add(std::mem::take(count), Ordering::Relaxed);
        }
    }
}
