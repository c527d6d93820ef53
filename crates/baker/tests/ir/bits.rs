//! Bit fields at any offset and width, against a model that goes bit by bit.

use baker::ir::interp::{Machine, load_bits, store_bits};
use baker::ir::*;

use crate::support::*;

#[test]
fn every_offset_and_width() {
    let mut random = Random(3);
    for offset in 0..24 {
        for width in 1..=128 {
            let bits = BitRange { offset, width };
            // No byte more than needed, so that one access too many is seen.
            let mut bytes = random.bytes(bits.end_byte() as usize);
            assert_eq!(load_bits(&bytes, bits), Some(naive_get(&bytes, bits)), "{bits:?}");
            let value = random.bits(width);
            let mut expected = bytes.clone();
            naive_set(&mut expected, bits, value);
            assert_eq!(store_bits(&mut bytes, bits, value), Some(()));
            assert_eq!(bytes, expected, "{bits:?}");
        }
    }
}

#[test]
fn beyond_the_end_nothing_is_read_or_written() {
    let mut bytes = [1, 2, 3];
    let bits = BitRange { offset: 17, width: 8 };
    assert_eq!(load_bits(&bytes, bits), None);
    assert_eq!(store_bits(&mut bytes, bits, 0xff), None);
    assert_eq!(bytes, [1, 2, 3]);
}

#[test]
fn random_loads_and_stores_in_programs() {
    let mut random = Random(4);
    for _ in 0..300 {
        let mut p = program();
        let protocol = protocol(&mut p, "bytes", &[("a", 128), ("b", 128), ("c", 56)]);
        let size = p.protocols[0].size;
        let (mut code, packet) = Code::new(protocol);
        let mut moves = Vec::new();
        for _ in 0..6 {
            let width = 1 + random.below(128);
            let mut at = || BitRange { offset: random.below(size * 8 - width + 1), width };
            let (from, to) = (at(), at());
            let value = code.load(packet, from.offset, width);
            code.store(packet, to.offset, width, value);
            moves.push((from, to));
        }
        code.put(packet, OUT);
        one_ppf(&mut p, protocol, code);
        let mut machine = Machine::new(p);
        for _ in 0..4 {
            let frame = random.bytes(size as usize + 3);
            let mut expected = frame.clone();
            for &(from, to) in &moves {
                let value = naive_get(&expected, from);
                naive_set(&mut expected, to, value);
            }
            assert_eq!(machine.receive(0, &frame)[0].packet, expected, "{moves:?}");
        }
    }
}
