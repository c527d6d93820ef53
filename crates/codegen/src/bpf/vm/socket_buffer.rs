//! A packet as traffic control has it: what is known of it beside its bytes, and the kernel's functions that change it
//! (`net/core/filter.c`).

use super::functions::FAILED;
use super::{CONTEXT, HEADROOM, Machine, PACKET};

/// Bytes of `struct __sk_buff`, and places in it.
pub(super) const CONTEXT_BYTES: usize = 192;
pub(super) const LEN: u64 = 0;
const QUEUE_MAPPING: usize = 12;
const VLAN_PRESENT: usize = 20;
const IFINDEX: usize = 40;
pub(super) const DATA: u64 = 76;
pub(super) const DATA_END: u64 = 80;
const GSO_SIZE: usize = 176;

/// Flags: `BPF_F_RECOMPUTE_CSUM`, `BPF_F_PSEUDO_HDR`, `BPF_F_MARK_MANGLED_0`.
const RECOMPUTE: u64 = 1;
const PSEUDO: u64 = 1 << 4;
const OPTIONAL: u64 = 1 << 5;
/// What is not there, for `bpf_csum_update` (`-ENOTSUPP`).
const NONE: u64 = (-524i64) as u64;

/// What a packet's sender has left to devices, and what a device has done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Offloads {
    /// A checksum of the packet is still to be computed (`CHECKSUM_PARTIAL`).
    pub partial: bool,
    /// Sum of all words behind the Ethernet header, as the host reads them, which the device has computed
    /// (`CHECKSUM_COMPLETE`).
    pub complete: Option<u32>,
    /// Bytes of payload of each of the packets of a super-packet; 0 of another one.
    pub gso_size: u32,
    /// The tag of a VLAN that lies beside the packet: its kind and its number, as the network has them.
    pub tag: Option<[u8; 4]>,
}

/// `csum_add`
fn add(a: u32, b: u32) -> u32 {
    let (sum, carry) = a.overflowing_add(b);
    sum + u32::from(carry)
}

/// `csum_fold`, without the complement.
fn fold(sum: u32) -> u16 {
    let sum = (sum & 0xffff) + (sum >> 16);
    ((sum & 0xffff) + (sum >> 16)) as u16
}

/// Sum of words as the host reads them, which begin at an even place or an odd one.
fn sum(at: usize, bytes: &[u8]) -> u32 {
    let word = |index: usize, byte: u8| u32::from(byte) << if (at + index).is_multiple_of(2) { 0 } else { 8 };
    bytes.iter().enumerate().fold(0, |sum, (index, byte)| add(sum, word(index, *byte)))
}

impl Machine {
    /// Fills the context.
    pub(super) fn socket_buffer(&mut self, interface: u32, queue: u32) {
        let Offloads { gso_size, tag, .. } = self.offloads;
        let context = self.regions[CONTEXT].bytes();
        let fields =
            [(IFINDEX, interface), (QUEUE_MAPPING, queue), (GSO_SIZE, gso_size), (VLAN_PRESENT, tag.is_some().into())];
        fields.iter().for_each(|(at, value)| context[*at..at + 4].copy_from_slice(&value.to_le_bytes()));
    }

    /// Bytes of the packet from a distance on; `None` where they are not there.
    fn buffer_bytes(&mut self, at: u64, len: usize) -> Option<&mut [u8]> {
        let (from, end) = (self.data + (at & u64::from(u32::MAX)) as usize, self.end);
        let range = from..from.checked_add(len)?;
        (range.end <= end).then(|| &mut self.regions[PACKET].bytes()[range])
    }

    /// The functions that are those of socket buffers, their first argument left out.
    pub(super) fn help_with_buffer(&mut self, number: i32, [b, c, d, e]: [u64; 4]) -> Option<Result<u64, String>> {
        Some(match number {
            9 => self.buffer_store(b, c, d as usize, e),
            11 => Ok(self.replace_checksum(b, d as u32, e)),
            18 => Ok(self.push_tag()),
            23 => Ok(7),
            26 => match self.buffer_bytes(b, d as usize).map(|bytes| bytes.to_vec()) {
                Some(copy) => self.bytes(c, copy.len()).map(|to| to.copy_from_slice(&copy)).map(|()| 0),
                None => Ok(FAILED),
            },
            39 => {
                let upto = self.data + b as usize;
                let is_there = upto <= self.end;
                if is_there {
                    self.first = self.first.max(upto);
                }
                Ok(if is_there { 0 } else { FAILED })
            }
            40 => Ok(match &mut self.offloads.complete {
                Some(complete) => {
                    *complete = add(*complete, b as u32);
                    u64::from(*complete)
                }
                None => NONE,
            }),
            43 => Ok(self.change_head(b as usize)),
            _ => return None,
        })
    }

    fn buffer_store(&mut self, at: u64, from: u64, len: usize, flags: u64) -> Result<u64, String> {
        let new = self.bytes(from, len)?.to_vec();
        let Some(bytes) = self.buffer_bytes(at, len) else { return Ok(FAILED) };
        let (before, after) = (sum(at as usize, bytes), sum(at as usize, &new));
        bytes.copy_from_slice(&new);
        if let Some(complete) = self.offloads.complete.as_mut().filter(|_| flags & RECOMPUTE != 0) {
            *complete = add(add(*complete, !before), after);
        }
        // All that was read of the packet before is void.
        Ok(0)
    }

    /// `bpf_l4_csum_replace` by a difference.
    fn replace_checksum(&mut self, at: u64, change: u32, flags: u64) -> u64 {
        let (partial, is_pseudo) = (self.offloads.partial, flags & PSEUDO != 0);
        if at > 0xffff || at & 1 == 1 {
            return FAILED;
        }
        let Some(bytes) = self.buffer_bytes(at, 2) else { return FAILED };
        let old = u16::from_le_bytes([bytes[0], bytes[1]]);
        if flags & OPTIONAL != 0 && old == 0 {
            return 0;
        }
        let mut new = match (partial, is_pseudo) {
            (false, _) => !fold(add(change, !u32::from(old))),
            (true, true) => fold(add(change, old.into())),
            (true, false) => old,
        };
        if flags & OPTIONAL != 0 && new == 0 {
            new = 0xffff;
        }
        bytes.copy_from_slice(&new.to_le_bytes());
        if let Some(complete) = self.offloads.complete.as_mut().filter(|_| is_pseudo && !partial) {
            *complete = add(*complete, !change);
        }
        0
    }

    /// Puts the tag beside a packet into it, in place of another one.
    fn push_tag(&mut self) -> u64 {
        let Some(tag) = self.offloads.tag else { return FAILED };
        if self.change_head(tag.len()) != 0 {
            return FAILED;
        }
        let Some(front) = self.buffer_bytes(0, 16) else { return FAILED };
        front.copy_within(4..16, 0);
        front[12..].copy_from_slice(&tag);
        0
    }

    fn change_head(&mut self, bytes: usize) -> u64 {
        if bytes > HEADROOM.min(self.data) {
            return FAILED;
        }
        self.data -= bytes;
        let data = self.data;
        self.regions[PACKET].bytes()[data..data + bytes].fill(0);
        0
    }
}
