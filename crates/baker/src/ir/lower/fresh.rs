//! Headers that are made anew: of zeros and default values, in front of a packet or in the place of another header.

use super::packet::{Made, NewPacket};
use super::{Lowering, Packet, Slot};
use crate::check::hir::LocalId;
use crate::check::own::OwnFields;
use crate::ir::{BitRange, Checksum, DropId, Op, Protocol, ProtocolId, Ty, Value};

/// Bytes of a header that one store writes at most.
const CHUNK: u32 = 16;

/// Whether all that a checksum covers is known where its header is made: the header, or a packet that is nothing but
/// the header (`alone`).
pub(super) fn is_known(checksum: Checksum, alone: bool) -> bool {
    !checksum.pseudo && (alone || !checksum.payload)
}

/// A header of zeros and default values. Its checksum is there where all that it covers is known.
fn image(protocol: &Protocol, alone: bool) -> Vec<u8> {
    let mut bytes = vec![0u8; protocol.size as usize];
    for field in &protocol.fields {
        for bit in (0..field.bits.width).filter(|bit| field.default >> (field.bits.width - 1 - bit) & 1 == 1) {
            let at = field.bits.offset + bit;
            bytes[(at / 8) as usize] |= 1 << (7 - at % 8);
        }
    }
    // The header is all constants, so its checksum is one too (RFC 1071). All zero counts as consistent: equation 3 of
    // RFC 1624 reaches the right sum from there.
    if let Some(checksum) = protocol.checksum
        && is_known(checksum, alone)
        && bytes.iter().any(|&byte| byte != 0)
    {
        let words = bytes.chunks(2).map(|pair| u32::from(pair[0]) << 8 | pair.get(1).map_or(0, |&low| low.into()));
        let mut sum: u32 = words.sum();
        while sum > 0xffff {
            sum = (sum & 0xffff) + (sum >> 16);
        }
        let at = (protocol.fields[checksum.field].bits.offset / 8) as usize;
        bytes[at..at + 2].copy_from_slice(&(!sum as u16).to_be_bytes());
    }
    bytes
}

fn number(bytes: &[u8]) -> u128 {
    bytes.iter().fold(0, |number, &byte| number << 8 | u128::from(byte))
}

impl<'p> Lowering<'p> {
    /// A packet whose header was made anew: what that is made of, the checksum behind it does not follow.
    pub(super) fn anew(&mut self, packet: Value) -> NewPacket {
        let apart = Some(self.b.shared_constant(1, 1));
        NewPacket { apart, made: Some(Made::Around), ..NewPacket::new(packet) }
    }

    /// A header of zeros and default values in front of the packet.
    pub(super) fn encap(&mut self, local: LocalId, protocol: ProtocolId) -> Value {
        let index = self.packet_index(local);
        self.apply_checksums(index);
        let packet = self.release(local);
        let bytes = self.program.protocols[protocol.0 as usize].size;
        let pushed = self.b.push(Ty::Packet(protocol), Op::Push { packet, bytes });
        self.fresh_header(pushed, protocol, false);
        pushed
    }

    /// Writes default values, and a checksum as [`image`] has it, into a header of zeros.
    pub(super) fn fresh_header(&mut self, packet: Value, protocol: ProtocolId, alone: bool) {
        let protocol = &self.program.protocols[protocol.0 as usize];
        for field in protocol.fields.iter().filter(|field| field.default != 0) {
            let value = self.b.constant(field.bits.width, field.default);
            self.b.effect(Op::Store { packet, bits: field.bits, value });
        }
        let Some(checksum) = protocol.checksum else { return };
        let bits = protocol.fields[checksum.field].bits;
        let at = (bits.offset / 8) as usize;
        let sum = number(&image(protocol, alone)[at..at + 2]);
        if sum != protocol.fields[checksum.field].default {
            let value = self.b.constant(16, sum);
            self.b.effect(Op::Store { packet, bits, value });
        }
    }

    /// The packet's own header becomes one of another protocol.
    pub(super) fn replace(&mut self, local: LocalId, protocol: ProtocolId) -> Value {
        let index = self.packet_index(local);
        self.prepare(index, protocol);
        self.end_known(index);
        let packet = self.release(local);
        let bytes = self.b.constant(32, 0);
        let packet = self.b.push(Ty::Packet(protocol), Op::Pull { packet, bytes });
        for (bits, value) in self.chunks(protocol) {
            self.b.effect(Op::Store { packet, bits, value });
        }
        packet
    }

    /// The header of a handle that looks into a packet becomes one of another protocol. But for the headers around it,
    /// no other one is known any more.
    pub(super) fn replace_inner(&mut self, local: LocalId, old: LocalId, protocol: ProtocolId, own: &OwnFields) {
        let index = self.packet_index(old);
        self.prepare(index, protocol);
        let Packet { var, base, layer: old, .. } = self.packets[index];
        let around = self.around(old);
        let mut gone = self.known(self.layers[old].root);
        gone.retain(|layer| !around.contains(layer));
        self.forget(&gone);
        let inner = self.layers[old].inner.expect("it looks into a packet");
        let base = base.expect("it looks into a packet");
        let layer = self.know(protocol, inner.parent, (inner.step, base), own.checksum(local));
        let one = self.b.shared_constant(1, 1);
        self.b.set(self.layers[layer].apart, one);
        self.packets.push(Packet { var, protocol, base: Some(base), layer });
        let index = self.packets.len() - 1;
        for (bits, value) in self.chunks(protocol) {
            self.store_covered(index, bits, value, false, &[]);
        }
        self.frame().slots[local.0 as usize] = Some(Slot::Packet(index));
        if !own.length(local) {
            self.write_length(index, false);
        }
    }

    /// Whether a handle only looks into a packet.
    pub(super) fn looks_into(&self, local: LocalId) -> bool {
        self.packets[self.packet_index(local)].base.is_some()
    }

    /// Sees to it that the packet has room for a header in the place of a handle's, and brings the checksums up to date
    /// that may stay there.
    fn prepare(&mut self, index: usize, protocol: ProtocolId) {
        let (old, new) = (self.packets[index].protocol, protocol);
        let [old, new] = [old, new].map(|protocol| &self.program.protocols[protocol.0 as usize]);
        if new.size > old.size {
            let bytes = self.b.constant(32, new.size.into());
            self.require_bytes(index, bytes, DropId::TRUNCATED);
        }
        let field = old.checksum.map(|checksum| old.fields[checksum.field].bits);
        let gone = field.is_some_and(|bits| bits.offset + bits.width <= new.size * 8);
        if gone {
            self.take_changes(self.packets[index].layer);
        }
        self.apply_checksums(index);
        self.asks_for_whole(index);
    }

    /// Stores that write a header of zeros and default values.
    fn chunks(&mut self, protocol: ProtocolId) -> Vec<(BitRange, Value)> {
        let image = image(&self.program.protocols[protocol.0 as usize], false);
        let chunks = (0..).zip(image.chunks(CHUNK as usize));
        let made = chunks.map(|(index, bytes)| {
            let bits = BitRange { offset: index * CHUNK * 8, width: bytes.len() as u32 * 8 };
            (bits, self.b.constant(bits.width, number(bytes)))
        });
        made.collect()
    }
}
