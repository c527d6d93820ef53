//! Checksums that a device is still to compute: what it makes of what a program leaves at traffic control must be what
//! comes of the same packet with its checksum. And sums that a device has computed: they must be of what is there.
//!
//! The virtual machine has the kernel's rules for both; the device is modelled here.

use baker::check::check;
use baker::ir::{self, ChannelId, Program, Target};
use baker::library::Library;
use baker::opt::Level;
use baker::place::Split;
use codegen::CodegenError;
use codegen::bpf::vm::{Machine, Map, Offloads};
use codegen::bpf::{self, Accepted, Refusal, TierError};
use codegen::kernel::{Hook, Object, Options, PUNTED, RECORD, Record, Verdict};
use dataplane::EngineKind;
use dataplane::step::{Stepper, place};
use dataplane::xdp::SharedMemory;
use std::mem::offset_of;
use std::sync::Arc;

use super::packets::{self, Shape};
use super::programs;
use crate::keeping::SplitMix64;

const PROGRAMS: u64 = 80;
/// Bytes in front of what a device's sum covers.
const ETHERNET: usize = 14;

/// Ones' complement sum of words in network order; an odd byte is a word's upper half.
fn sum(bytes: &[u8]) -> u32 {
    let mut sum: u32 =
        bytes.chunks(2).map(|word| u32::from(word[0]) << 8 | word.get(1).map_or(0, |low| u32::from(*low))).sum();
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    sum
}

/// The same as a processor with its lowest byte first reads the words.
fn host_sum(bytes: &[u8]) -> u16 {
    (sum(bytes) as u16).swap_bytes()
}

fn put16(packet: &mut [u8], at: usize, value: u32) {
    packet[at..at + 2].copy_from_slice(&(value as u16).to_be_bytes());
}

/// A packet of TCP or UDP as its sender means it, and where its header and its checksum lie, without padding.
struct Sent {
    packet: Vec<u8>,
    upper: usize,
    field: usize,
    is_udp: bool,
}

impl Sent {
    fn random(shape: &Shape, n: &mut SplitMix64) -> Sent {
        let mut packet = packets::packet(shape, n);
        let (ip, version) = (shape.ip_at(shape.ips.len() - 1), shape.ips[shape.ips.len() - 1]);
        let word = |at: usize| usize::from(packet[at]) << 8 | usize::from(packet[at + 1]);
        let end = ip + if version == 4 { word(ip + 2) } else { 40 + word(ip + 4) };
        packet.truncate(end);
        let (upper, is_udp) = (shape.upper_at(), shape.upper == "udp");
        let mut sent = Sent { packet, upper, field: upper + if is_udp { 6 } else { 16 }, is_udp };
        let pseudo = sent.pseudo(shape);
        put16(&mut sent.packet, sent.field, pseudo);
        sent
    }

    /// Sum of the pseudo header (RFC 9293 section 3.1, RFC 8200 section 8.1).
    fn pseudo(&self, shape: &Shape) -> u32 {
        let last = shape.ips.len() - 1;
        let ip = shape.ip_at(last);
        let addresses = if shape.ips[last] == 4 { ip + 12..ip + 20 } else { ip + 8..ip + 40 };
        let mut header = self.packet[addresses].to_vec();
        header.extend(((self.packet.len() - self.upper) as u32).to_be_bytes());
        header.extend([0, if self.is_udp { 17 } else { 6 }]);
        sum(&header)
    }

    /// What a device makes of it, or of what it has become.
    fn computed(&self, packet: &[u8]) -> Option<Vec<u8>> {
        let moved = |at: usize| (at + packet.len()).checked_sub(self.packet.len());
        let (upper, field) = (moved(self.upper)?, moved(self.field)?);
        let mut packet = packet.to_vec();
        let checksum = match !sum(&packet[upper..]) & 0xffff {
            0 if self.is_udp => 0xffff,
            checksum => checksum,
        };
        put16(&mut packet, field, checksum);
        Some(packet)
    }
}

/// The kernel's part of a program at traffic control, on the virtual machine.
struct AtTc {
    program: Program,
    machine: Machine,
}

impl AtTc {
    /// `None` where the kernel has no part.
    fn new(program: &Program, level: Level, spill: bool) -> Option<AtTc> {
        let Split { kernel, workers, .. } = place(program, &[], Hook::Tc);
        if matches!(kernel.channels[Program::RX.0 as usize].target, Target::Controller(_)) {
            return None;
        }
        let memory = SharedMemory::private(&workers).unwrap();
        let options = Options { hook: Hook::Tc, recorded: true, spill, ..Options::default() };
        let take = |object: &Object| Ok::<_, Refusal<CodegenError>>(object.clone());
        let accepted = bpf::compile_tiered(&kernel, level, memory.memory(), options, bpf::ANYTHING, take);
        let Accepted { first, parts, .. } = match accepted {
            Ok(accepted) => accepted,
            // Such as one with more stack than the kernel gives.
            Err(TierError::Ppf(..)) => return None,
            Err(TierError::Other(error)) => panic!("{error}"),
        };
        let parts: Vec<_> = parts.iter().map(|(ppf, part)| (ppf.0, part)).collect();
        let mut machine = Machine::of(&first, &parts, Map::Memory(memory.contents()));
        machine.hook = Hook::Tc;
        Some(AtTc { program: kernel, machine })
    }

    /// The packet from its head on, where it leaves as the program wants it.
    fn run(&mut self, packet: &[u8], first: usize, offloads: Offloads) -> Option<Vec<u8>> {
        self.machine.offloads = offloads;
        let ran = self.machine.run_divided(packet, first, 1, 0).unwrap_or_else(|fault| panic!("{fault}"));
        let memory = self.machine.memory(0).unwrap();
        let number = |at: usize| {
            let at = RECORD as usize + at;
            u64::from_le_bytes(memory[at..at + 8].try_into().unwrap())
        };
        let (end, head) = (number(offset_of!(Record, end)), number(offset_of!(Record, head)) as usize);
        match end.checked_sub(PUNTED) {
            None if end == Verdict::Transmit as u64 => Some(ran.packet),
            Some(channel) => {
                let target = self.program.channels[ChannelId(channel as u32).0 as usize].target;
                matches!(target, Target::Tx).then(|| ran.packet[head..].to_vec())
            }
            None => None,
        }
    }
}

/// 0 and 0xffff are one number where a checksum stands.
fn same(a: &[u8], b: &[u8], field: usize) -> bool {
    let plain = |packet: &[u8]| {
        let mut packet = packet.to_vec();
        if packet[field..field + 2] == [0xff, 0xff] {
            packet[field..field + 2].fill(0);
        }
        packet
    };
    a.len() == b.len() && plain(a) == plain(b)
}

#[test]
fn devices_complete_what_programs_leave() {
    let (mut ran, mut compared, mut changed, mut summed, mut noticed) = (0, 0, 0, 0, 0);
    for seed in 0..PROGRAMS {
        let mut n = SplitMix64(seed ^ 0x0ff1_0ad5);
        let mut shape = Shape::random(&mut n);
        shape.bare = false;
        if shape.upper.starts_with("icmp") {
            shape.upper = n.pick(&["tcp", "udp"]);
        }
        let made = programs::program(shape, &mut n);
        let Some(typed) = check("sums.baker", &made.text, &Library).program else { continue };
        let level = n.pick(&[Level::Base, Level::Pac, Level::Cgpc]);
        let operations = ir::lower_with_operations(&typed);
        ir::verify(&operations).unwrap_or_else(|errors| panic!("{errors:?}\n{}", made.text));
        let Some(mut at_tc) = AtTc::new(&operations, level, seed % 2 == 1) else { continue };
        ran += 1;
        let mut interp = Stepper::new(Arc::new(ir::lower(&typed)), EngineKind::Interp).unwrap();
        for _ in 0..6 {
            let sent = Sent::random(&shape, &mut n);
            let first = ETHERNET + n.below((sent.packet.len() - ETHERNET) as u64 + 1) as usize;
            let whole = sent.computed(&sent.packet).unwrap();
            let wanted = interp.receive(1, &whole);
            let at = || format!("seed {seed}, {level:?}, {shape:?}\n{}\n{:02x?}", made.text, sent.packet);

            // One that a device is still to compute.
            let partial = Offloads { partial: true, ..Offloads::default() };
            let left = at_tc.run(&sent.packet, first, partial);
            let ([wanted], Some(left)) = (&wanted[..], &left) else { continue };
            let Some(completed) = sent.computed(left) else { continue };
            let field = sent.field + completed.len() - sent.packet.len();
            assert!(same(&completed, &wanted.bytes, field), "{completed:02x?}\nnot\n{:02x?}\n{}", wanted.bytes, at());
            compared += 1;
            changed += u64::from(wanted.bytes != whole);

            // It matters: a kernel that takes it for one that is there makes something else of it.
            let mistaken = at_tc.run(&sent.packet, first, Offloads::default());
            let completed = mistaken.and_then(|left| sent.computed(&left));
            noticed += u64::from(completed.is_some_and(|completed| !same(&completed, &wanted.bytes, field)));

            // One that is there, with a sum of all that a device has computed.
            let complete = Some(host_sum(&whole[ETHERNET..]).into());
            let left = at_tc.run(&whole, first, Offloads { complete, ..Offloads::default() });
            assert_eq!(left.as_deref(), Some(&wanted.bytes[..]), "{}", at());
            // What is stored from one side of its beginning to the other it does not follow, nor a front that grows.
            if level == Level::Base && wanted.bytes.len() == whole.len() {
                let found = at_tc.machine.offloads.complete.unwrap();
                let found = (found & 0xffff) + (found >> 16);
                let number = u32::from(host_sum(&wanted.bytes[ETHERNET..]));
                assert_eq!(found % 0xffff, number % 0xffff, "{:02x?}\n{}", wanted.bytes, at());
                summed += 1;
            }
        }
    }
    println!(
        "{ran} programs ran, {compared} packets compared, {changed} of them changed, {noticed} by the rule, {summed} sums"
    );
    assert!(ran > PROGRAMS / 10 && compared > ran && changed > ran && noticed > ran && summed > 10);
}
