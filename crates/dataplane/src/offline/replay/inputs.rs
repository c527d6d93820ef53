//! Capture files as one sequence of packets, by their times.

use std::path::Path;
use std::time::Duration;

use super::error::ReplayError;
use crate::ports::{CaptureInput, Captured};

/// Says on which port a packet of a capture file comes in; `None`: on none, for a port has sent it. The error: it can't
/// be said.
pub type Entries<'e> = dyn FnMut(&Captured<'_>) -> Result<Option<u8>, String> + 'e;

/// A capture file to be replayed.
pub struct ReplayInput<'e> {
    /// The file.
    pub path: &'e Path,
    /// On which ports its packets come in.
    pub entries: Box<Entries<'e>>,
}

/// A packet that comes in.
#[derive(Default)]
pub(super) struct Arrival {
    pub time: Duration,
    pub port: u8,
    pub frame: Vec<u8>,
}

/// A file, and its next packet.
struct Source<'e> {
    input: ReplayInput<'e>,
    capture: CaptureInput,
    next: Arrival,
    ended: bool,
}

/// The files.
pub(super) struct Inputs<'e> {
    sources: Vec<Source<'e>>,
    /// Packets that came in on no port.
    pub others: u64,
}

impl<'e> Inputs<'e> {
    /// Opens them, and looks at the first packet of each.
    pub fn open(inputs: Vec<ReplayInput<'e>>) -> Result<Self, ReplayError> {
        let mut all = Inputs { sources: Vec::new(), others: 0 };
        for input in inputs {
            let capture = CaptureInput::open(input.path)?;
            all.sources.push(Source { input, capture, next: Arrival::default(), ended: false });
        }
        (0..all.sources.len()).try_for_each(|index| all.advance(index))?;
        Ok(all)
    }

    /// The next packet of all files: the earliest of those that come next in each. Of packets of the same time that of
    /// the file that was given first. What lies in front of it in `packet` is overwritten.
    pub fn next(&mut self, packet: &mut Arrival) -> Result<bool, ReplayError> {
        let left = self.sources.iter().enumerate().filter(|(_, source)| !source.ended);
        let Some((index, _)) = left.min_by_key(|(_, source)| source.next.time) else { return Ok(false) };
        std::mem::swap(packet, &mut self.sources[index].next);
        self.advance(index)?;
        Ok(true)
    }

    /// Takes the next packet that comes in out of a file.
    fn advance(&mut self, index: usize) -> Result<(), ReplayError> {
        let Source { input, capture, next, ended } = &mut self.sources[index];
        while let Some(packet) = capture.next_packet() {
            let packet = packet?;
            let entry = (input.entries)(&packet);
            match entry.map_err(|what| ReplayError::Entry(format!("{}: {what}", input.path.display())))? {
                Some(port) => {
                    (next.time, next.port) = (packet.time, port);
                    next.frame.clear();
                    next.frame.extend_from_slice(packet.frame);
                    return Ok(());
                }
                None => self.others += 1,
            }
        }
        *ended = true;
        Ok(())
    }

    /// What of the files could not be read, a line for each.
    pub fn skipped(&self) -> Vec<String> {
        self.sources.iter().filter_map(|source| source.capture.skipped()).collect()
    }
}
