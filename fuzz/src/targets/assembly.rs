//! Reassembly of a stream: what is ready is what came first of each byte, and memory has a bound, whatever overlaps.

use wire::assembly::Assembly;

use super::unstructured::Unstructured;

/// Bytes that there is room for: too few for more gaps than are kept.
const ROOM: usize = 250;

/// Takes steps: segments, bytes that are taken or passed over.
pub fn run(data: &[u8]) {
    let mut pieces = Unstructured(data);
    let base = u32::from(pieces.word()) << 16 | u32::from(pieces.word());
    let mut assembly = Assembly::new(base, ROOM);
    let mut model: Vec<Option<u8>> = vec![None; ROOM];
    while !pieces.is_empty() {
        let kind = pieces.byte();
        let ready = assembly.ready().len();
        match kind % 8 {
            0 => {
                let count = usize::from(pieces.byte()).min(ready);
                let expected: Vec<u8> = model.drain(..count).flatten().collect();
                assert_eq!(assembly.take(count), expected);
            }
            1 => {
                let count = usize::from(pieces.byte()).min(ready);
                model.drain(..count);
                assembly.discard(count);
            }
            2 if ready == 0 => {
                let count = pieces.word();
                model.drain(..usize::from(count).min(ROOM));
                assembly.skip(count.into());
            }
            _ => {
                // From some bytes before the base on, to beyond the room.
                let at = usize::from(pieces.word() % 1024);
                let length = usize::from(pieces.byte()) * if kind & 64 == 0 { 1 } else { 4 };
                let bytes = pieces.bytes(length);
                let seq = assembly.base().wrapping_add(at as u32).wrapping_sub(200);
                let had = assembly.insert(seq, bytes, kind & 128 != 0);
                assert_eq!(
                    had,
                    bytes.is_empty() || at + bytes.len() <= 200 + ROOM,
                    "what is beyond the room is left out"
                );
                for (directory, byte) in (at..).map(|at| at.checked_sub(200)).zip(bytes) {
                    if let Some(own) = directory.and_then(|directory| model.get_mut(directory)) {
                        own.get_or_insert(*byte);
                    }
                }
            }
        }
        model.resize(ROOM, None);
        let expected: Vec<u8> = model.iter().map_while(|byte| *byte).collect();
        assert_eq!(assembly.ready(), expected);
        assert!(assembly.memory() <= ROOM && assembly.room() == ROOM - expected.len());
        let fin = assembly.next().wrapping_sub(assembly.base()) as usize - expected.len();
        assert_eq!(fin, usize::from(assembly.is_ended()));
    }
}
