//! Bit fields at random places and widths, against a model that moves single bits.

mod common;

use baker::ir::*;
use common::asm::{Asm, program};
use common::{FRAME_SIZE, Machine, Random};

const HEADER: u32 = 40;

/// `bits[offset..][..width]` as a number; bit 0 is the most significant bit of byte 0.
fn get(bytes: &[u8], offset: u32, width: u32) -> u128 {
    (offset..offset + width).fold(0, |sum, bit| sum << 1 | u128::from(bytes[bit as usize / 8] >> (7 - bit % 8) & 1))
}

fn set(bytes: &mut [u8], offset: u32, width: u32, value: u128) {
    for i in 0..width {
        let (bit, mask) = (offset + width - 1 - i, value >> i & 1);
        let byte = &mut bytes[bit as usize / 8];
        *byte = *byte & !(1 << (7 - bit % 8)) | (mask as u8) << (7 - bit % 8);
    }
}

/// Copies fields to fields, inverted or not; the packet lies at one end of the region, beyond which nothing may be
/// touched.
#[test]
fn random_fields() {
    let mut random = Random(42);
    for round in 0..60 {
        let (mut asm, packet) = Asm::new(0);
        let mut copies = Vec::new();
        for _ in 0..24 {
            let width = random.below(128) as u32 + 1;
            // Often at the very end of the header, often byte-aligned.
            let place = |random: &mut Random| match random.below(4) {
                0 => HEADER * 8 - width,
                1 => random.below(u64::from((HEADER * 8 - width) / 8 + 1)) as u32 * 8,
                _ => random.below(u64::from(HEADER * 8 - width + 1)) as u32,
            };
            let (from, to, flip) = (place(&mut random), place(&mut random), random.below(2) == 1);
            let mut value = asm.load(packet, from, width);
            if flip {
                let ones = asm.constant(width, common::mask(width));
                value = asm.bin(BinOp::Xor, value, ones);
            }
            asm.store(packet, to, value);
            copies.push((from, to, width, flip));
        }
        asm.put(packet, 1);
        let program = program(&[HEADER], &[(0, Target::Ppf(PpfId(0))), (0, Target::Tx)], vec![(0, asm.body)]);
        for mut machine in Machine::both(&program) {
            let mut frames = Vec::new();
            let mut models = Vec::new();
            for _ in 0..64 {
                let bytes = random.bytes(HEADER as usize);
                // Frame 255, the first that is given out, ends where the region ends.
                frames.push(machine.receive(FRAME_SIZE - HEADER as usize, &bytes, 0));
                let mut model = vec![0; FRAME_SIZE];
                let header = &mut model[FRAME_SIZE - HEADER as usize..];
                header.copy_from_slice(&bytes);
                for &(from, to, width, flip) in &copies {
                    let value = get(header, from, width) ^ if flip { common::mask(width) } else { 0 };
                    set(header, to, width, value);
                }
                models.push(model);
            }
            assert_eq!(frames[0], 255);
            machine.run(&frames);
            for (frame, model) in frames.iter().zip(&models) {
                assert!(machine.frame(*frame) == &model[..], "round {round}: {copies:?}");
            }
        }
    }
}

/// Each width at each bit of a byte, alone, so that LLVM cannot merge accesses.
#[test]
fn every_width_at_every_offset() {
    let mut random = Random(7);
    for offset in 0..8 {
        let mut fields = Vec::new();
        let mut bodies = Vec::new();
        for width in 1..=128u32 {
            let (mut asm, packet) = Asm::new(0);
            let value = asm.load(packet, offset, width);
            let ones = asm.constant(width, common::mask(width));
            let flipped = asm.bin(BinOp::Xor, value, ones);
            asm.store(packet, 160 + offset, flipped);
            asm.put(packet, width);
            bodies.push((0, asm.body));
            fields.push(width);
        }
        // PPF 0 → channel 1 → PPF 1 → channel 2 → …
        let mut channels: Vec<_> = (0..128).map(|i| (0, Target::Ppf(PpfId(i)))).collect();
        channels.push((0, Target::Tx));
        let program = program(&[HEADER], &channels, bodies);
        for mut machine in Machine::both(&program) {
            let mut model = random.bytes(HEADER as usize);
            let frame = machine.receive(100, &model, 0);
            machine.run(&[frame]);
            for &width in &fields {
                let value = get(&model, offset, width) ^ common::mask(width);
                set(&mut model, 160 + offset, width, value);
            }
            assert_eq!(machine.packet(frame), model, "offset {offset}");
            assert_eq!(machine.channel(128), 1);
        }
    }
}
