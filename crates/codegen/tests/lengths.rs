//! Bytes at run-time places, sums, and packets that are made, grown and trimmed. Frames lie between guard pages.

mod common;

use baker::ir::*;
use common::asm::{Asm, add_meta, program};
use common::{FRAME_SIZE, Machine, Random};

/// Ones' complement sum of words at even places, plainly.
fn plain_sum(packet: &[u8], offset: usize, bytes: usize) -> u16 {
    let mut sum = 0u64;
    for (at, byte) in packet.iter().enumerate().skip(offset).take(bytes) {
        sum += u64::from(*byte) << if at % 2 == 0 { 8 } else { 0 };
    }
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    sum as u16
}

/// One PPF that puts its packet to tx.
fn one_ppf(size: u32, asm: Asm) -> Program {
    program(&[size], &[(0, Target::Ppf(PpfId(0))), (0, Target::Tx)], vec![(0, asm.body)])
}

/// The first two bytes and the next two, as 32-bit values.
fn arguments(asm: &mut Asm, packet: Value) -> (Value, Value) {
    let [a, b] = [0, 16].map(|at| {
        let value = asm.load(packet, at, 16);
        asm.resize(value, 32)
    });
    (a, b)
}

#[test]
fn sums() {
    let (mut asm, packet) = Asm::new(0);
    let (offset, bytes) = arguments(&mut asm, packet);
    let sum = asm.int(16, Op::Sum { packet, offset, bytes });
    asm.store(packet, 32, sum);
    asm.put(packet, 1);
    let program = one_ppf(6, asm);
    let mut random = Random(1);
    for mut machine in Machine::both(&program) {
        for round in 0..300 {
            let len = 6 + random.below(200) as usize;
            let offset = random.below(len as u64 + 1) as usize;
            let bytes = random.below((len - offset) as u64 + 1) as usize;
            let mut packet = match round % 3 {
                0 => random.bytes(len),
                1 => vec![0xff; len],
                _ => vec![0; len],
            };
            packet[..2].copy_from_slice(&(offset as u16).to_be_bytes());
            packet[2..4].copy_from_slice(&(bytes as u16).to_be_bytes());
            // The packet ends where the frame does; the last frame ends at the guard page.
            let frame = machine.receive(FRAME_SIZE - len, &packet, 1);
            machine.run(&[frame]);
            let want = plain_sum(&packet, offset, bytes);
            let found = machine.packet(frame);
            assert_eq!(u16::from_be_bytes([found[4], found[5]]), want, "{bytes} bytes from {offset} of {packet:02x?}");
            machine.release(&[frame]);
        }
    }
}

#[test]
fn bits_at_run_time_places() {
    for (at, width) in [(0, 8), (0, 128), (0, 24), (3, 13), (7, 127), (0, 72), (12, 4)] {
        let bits = BitRange { offset: at, width };
        let (mut asm, packet) = Asm::new(0);
        let (offset, from) = arguments(&mut asm, packet);
        let value = asm.int(width, Op::LoadAt { packet, offset: from, bits });
        asm.effect(Op::StoreAt { packet, offset, bits, value });
        asm.put(packet, 1);
        let program = one_ppf(4, asm);
        let mut random = Random(7);
        for mut machine in Machine::both(&program) {
            for _ in 0..30 {
                let mut packet = random.bytes(60);
                let last = u64::from(60 - bits.end_byte());
                let [to, from] = [(); 2].map(|_| 4 + random.below(last - 3) as usize);
                packet[..2].copy_from_slice(&(to as u16).to_be_bytes());
                packet[2..4].copy_from_slice(&(from as u16).to_be_bytes());
                let frame = machine.receive(FRAME_SIZE - 60, &packet, 1);
                machine.run(&[frame]);
                let value = interp::load_bits(&packet[from..], bits).expect("within the packet");
                interp::store_bits(&mut packet[to..], bits, value).expect("within the packet");
                assert_eq!(machine.packet(frame), packet, "{bits:?} from {from} to {to}");
                machine.release(&[frame]);
            }
        }
    }
}

#[test]
fn growing_stops_at_the_frame_s_ends() {
    for end in [PacketEnd::Head, PacketEnd::Tail] {
        let (mut asm, packet) = Asm::new(0);
        let (bytes, _) = arguments(&mut asm, packet);
        let grown = asm.int(1, Op::Grow { packet, bytes, end });
        let first = asm.load(packet, 0, 8);
        let answer = asm.resize(grown, 8);
        let sum = asm.bin(BinOp::Or, first, answer);
        asm.store(packet, 24, sum);
        asm.put(packet, 1);
        let mut program = one_ppf(4, asm);
        program.limits.encap = 10;
        for mut machine in Machine::both(&program) {
            for (headroom, len) in [(100, 40), (10, 4), (0, 4), (FRAME_SIZE - 50, 50), (0, FRAME_SIZE)] {
                let most = match end {
                    PacketEnd::Head => headroom.saturating_sub(10),
                    PacketEnd::Tail => FRAME_SIZE - headroom - len,
                };
                for bytes in [0, 1, most, most + 1, 0xffff] {
                    let mut packet = vec![0x55; len];
                    packet[..2].copy_from_slice(&(bytes as u16).to_be_bytes());
                    let frame = machine.receive(headroom, &packet, 1);
                    machine.run(&[frame]);
                    let fits = bytes <= most && (end == PacketEnd::Tail || headroom >= 10);
                    let mut want = packet.clone();
                    if fits && end == PacketEnd::Head {
                        want.splice(0..0, vec![0; bytes]);
                    } else if fits {
                        want.resize(len + bytes, 0);
                    }
                    want[3] = want[0] | u8::from(fits);
                    assert_eq!(machine.packet(frame), want, "{end:?}: {bytes} at {headroom}, {len} long");
                    machine.release(&[frame]);
                }
            }
        }
    }
}

#[test]
fn trimmed_and_created() {
    let (mut asm, packet) = Asm::new(0);
    let (bytes, _) = arguments(&mut asm, packet);
    asm.effect(Op::Trim { packet, bytes });
    let made = asm.def(Ty::Packet(ProtocolId(0)), Op::Create);
    let mark = asm.load(packet, 16, 16);
    asm.store(made, 16, mark);
    asm.put(packet, 1);
    asm.put(made, 1);
    let mut program = one_ppf(4, asm);
    let meta = add_meta(&mut program, 64);
    program.limits = Limits { headroom: 70, front: 70, copies: 1, encap: 70, created: 4 };
    for mut machine in Machine::both(&program) {
        // A frame that was used before, so that it holds something.
        let used = machine.receive(100, &[0xee; 300], 3);
        machine.set_meta(used, meta, 0xeeee);
        machine.release(&[used]);
        let free = machine.free_frames().len();
        let frame = machine.receive(128, &[0, 3, 0xab, 0xcd, 1, 2, 3, 4, 5], 3);
        let outputs = machine.run(&[frame]);
        assert_eq!((outputs.len(), outputs[0].frame), (2, frame));
        assert_eq!(machine.packet(frame), [0, 3, 0xab, 0xcd, 1, 2]);
        let made = outputs[1].frame;
        assert_eq!(machine.packet(made), [0, 0, 0xab, 0xcd]);
        let descriptor = machine.descriptor(made);
        assert_eq!(descriptor.addr, u64::from(made) * FRAME_SIZE as u64 + 128);
        assert_eq!([meta, Program::RX_PORT, Program::TX_PORT].map(|field| machine.meta(made, field)), [0; 3]);
        assert_eq!(machine.free_frames().len(), free - 2);
    }
}
