//! Packets of streams that the controller has and the program sends on: one for all receivers of a track, as a frame
//! with headers that are overwritten for each of them.

use std::collections::VecDeque;
use std::net::IpAddr;

use dataplane::controller::{Field, InjectError, Injector, Input, Link, NameError};
use wire::checksum::checksum;

/// Packets that wait for room at most; more are lost.
const WAITING: usize = 1024;
/// Bytes of the headers in front of RTP.
const ETHERNET: usize = 14;
const IPV4: usize = 20;
const IPV6: usize = 40;
const UDP: usize = 8;

/// See the module.
#[derive(Debug)]
pub struct GroupInput {
    injector: Injector,
    workers: usize,
    v4: Input,
    v6: Input,
    track: Field,
    waiting: VecDeque<(u32, Input, Vec<u8>)>,
}

impl GroupInput {
    /// That of a link's program.
    pub fn of(link: &Link) -> Result<GroupInput, NameError> {
        Ok(GroupInput {
            injector: link.injector(),
            workers: link.workers(),
            v4: link.input("fan4.input")?,
            v6: link.input("fan6.input")?,
            track: link.field("track")?,
            waiting: VecDeque::new(),
        })
    }

    /// Gives the program an RTP packet for all receivers of a track. Those with addresses of the version of this one
    /// cost less than others. Whether there was room.
    pub(super) fn put(&mut self, track: u32, like: IpAddr, packet: &[u8]) -> bool {
        if self.waiting.len() >= WAITING {
            return false;
        }
        let (frame, input) = match like {
            IpAddr::V4(_) => (frame_v4(packet), self.v4),
            IpAddr::V6(_) => (frame_v6(packet), self.v6),
        };
        self.waiting.push_back((track, input, frame));
        self.flush();
        true
    }

    /// Gives the program what waits, as far as there is room.
    pub(super) fn flush(&mut self) {
        while let Some((track, input, frame)) = self.waiting.front() {
            // Packets of one track stay in order on one worker.
            let worker = *track as usize % self.workers;
            match self.injector.inject_on(worker, *input, frame, &[(self.track, u128::from(*track))]) {
                Err(InjectError::Busy) => return,
                // The next program has other receivers, and these packets are old by then.
                Err(InjectError::Gone) => return self.waiting.clear(),
                Err(error) => tracing::error!("a packet for the program: {error}"),
                Ok(()) => {}
            }
            self.waiting.pop_front();
        }
    }
}

/// A frame without addresses, up to its UDP header. Its UDP checksum is left to the program, which makes it once for
/// all receivers.
fn frame_v4(packet: &[u8]) -> Vec<u8> {
    let mut frame = Vec::with_capacity(ETHERNET + IPV4 + UDP + packet.len());
    frame.extend([0; 12]);
    frame.extend([0x08, 0x00]);
    let length = (IPV4 + UDP + packet.len()) as u16;
    let mut header = [0; IPV4];
    header[0] = 0x45;
    header[2..4].copy_from_slice(&length.to_be_bytes());
    // Not to be fragmented (RFC 791); 64 hops; UDP.
    (header[6], header[8], header[9]) = (0x40, 64, 17);
    let sum = checksum(&header, 0);
    header[10..12].copy_from_slice(&sum.to_be_bytes());
    frame.extend(header);
    datagram(frame, packet)
}

fn frame_v6(packet: &[u8]) -> Vec<u8> {
    let mut frame = Vec::with_capacity(ETHERNET + IPV6 + UDP + packet.len());
    frame.extend([0; 12]);
    frame.extend([0x86, 0xdd]);
    let mut header = [0; IPV6];
    header[0] = 0x60;
    header[4..6].copy_from_slice(&((UDP + packet.len()) as u16).to_be_bytes());
    (header[6], header[7]) = (17, 64);
    frame.extend(header);
    datagram(frame, packet)
}

fn datagram(mut frame: Vec<u8>, packet: &[u8]) -> Vec<u8> {
    frame.extend([0; 4]);
    frame.extend(((UDP + packet.len()) as u16).to_be_bytes());
    frame.extend([0; 2]);
    frame.extend_from_slice(packet);
    frame
}
