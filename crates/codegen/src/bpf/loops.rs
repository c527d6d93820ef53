//! Loops as older kernels (6.1) want them: the edge back to what was passed already must be a jump. LLVM also lays
//! loops out so that code falls through to the loop's head from behind; there comes a jump to the next instruction in
//! between, which kernels leave out again.
//!
//! ```text
//!       goto head               goto head
//! body: …                 body: …
//!       r1 += 1                 r1 += 1
//!                               goto +0
//! head: if r1 < r2 …      head: if r1 < r2 …
//! ```

use super::LONGEST;
use super::object::{LOAD_WIDE, SLOT};
use crate::CodegenError;
use crate::kernel::Object;

/// `goto +0`
const NEXT: [u8; SLOT] = [0x05, 0, 0, 0, 0, 0, 0, 0];

/// Where an instruction goes on.
struct Successors {
    /// Behind it; none where the program ends or only a jump leads on.
    falls: Option<usize>,
    jumps: Option<usize>,
}

fn successors(code: &[u8], at: usize) -> Successors {
    let slot = &code[at * SLOT..];
    let op = slot[0];
    let (class, what) = (op & 7, op >> 4);
    let is_jump = matches!(class, 5 | 6) && !matches!(what, 8 | 9);
    let target = at.wrapping_add(1).wrapping_add_signed(i16::from_le_bytes([slot[2], slot[3]]).into());
    let next = at + if op == LOAD_WIDE { 2 } else { 1 };
    let ends = class == 5 && what == 9;
    Successors { falls: (!(ends || is_jump && what == 0)).then_some(next), jumps: is_jump.then_some(target) }
}

/// Where code falls through to the head of a loop that it is in: numbers of the heads.
fn heads(code: &[u8]) -> Vec<usize> {
    let count = code.len() / SLOT;
    let mut starts = Vec::new();
    let mut at = 0;
    while at < count {
        starts.push(at);
        at += if code[at * SLOT] == LOAD_WIDE { 2 } else { 1 };
    }
    // From each instruction: how many edges back pass over the place in front of it.
    let mut loops_over = vec![0i32; count + 1];
    let mut is_target = vec![false; count + 1];
    for &from in &starts {
        if let Some(to) = successors(code, from).jumps.filter(|to| *to <= count) {
            is_target[to] = true;
            if to < from {
                loops_over[to + 1] += 1;
                loops_over[from + 1] -= 1;
            }
        }
    }
    for at in 1..=count {
        loops_over[at] += loops_over[at - 1];
    }
    let falls = |&&from: &&usize| {
        let Successors { falls, jumps } = successors(code, from);
        let head = falls.filter(|head| *head < count && jumps.is_none() && is_target[*head] && loops_over[*head] > 0);
        head.is_some_and(|head| leads(code, count, head, from))
    };
    starts.iter().filter(falls).filter_map(|from| successors(code, *from).falls).collect()
}

/// Whether a path leads from one instruction to another.
fn leads(code: &[u8], count: usize, from: usize, to: usize) -> bool {
    let mut seen = vec![false; count];
    let mut work = vec![from];
    while let Some(at) = work.pop() {
        if at == to {
            return true;
        }
        if at < count && !std::mem::replace(&mut seen[at], true) {
            let Successors { falls, jumps } = successors(code, at);
            work.extend(falls.into_iter().chain(jumps));
        }
    }
    false
}

/// Code that does the same with jumps back to the heads of all loops.
pub(super) fn with_jumps(object: Object) -> Result<Object, CodegenError> {
    let heads = heads(&object.code);
    if heads.is_empty() {
        return Ok(object);
    }
    let moved = |at: usize| at + heads.partition_point(|head| *head <= at);
    let Object { code, maps, numbers, locations, stack, llvm } = object;
    let mut out = Vec::with_capacity(code.len() + heads.len() * SLOT);
    let mut at = 0;
    while at * SLOT < code.len() {
        if heads.binary_search(&at).is_ok() {
            out.extend(NEXT);
        }
        let slots = if code[at * SLOT] == LOAD_WIDE { 2 } else { 1 };
        let mut slot = code[at * SLOT..(at + slots) * SLOT].to_vec();
        if let Some(to) = successors(&code, at).jumps {
            let by = moved(to) as isize - moved(at) as isize - 1;
            let size = code.len() / SLOT + heads.len();
            let by = i16::try_from(by).map_err(|_| CodegenError::TooLarge(size, LONGEST))?;
            slot[2..4].copy_from_slice(&by.to_le_bytes());
        }
        out.extend(slot);
        at += slots;
    }
    let maps = maps.into_iter().map(|(slot, map)| (moved(slot), map)).collect();
    let numbers = numbers.into_iter().map(|(slot, number)| (moved(slot), number)).collect();
    let locations = locations.into_iter().map(|(first, location)| (moved(first), location)).collect();
    Ok(Object { code: out, maps, numbers, locations, stack, llvm })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bpf::vm::{Image, Machine};

    fn instruction(op: u8, registers: u8, offset: i16, number: i32) -> [u8; SLOT] {
        let ([o0, o1], [n0, n1, n2, n3]) = (offset.to_le_bytes(), number.to_le_bytes());
        [op, registers, o0, o1, n0, n1, n2, n3]
    }

    fn runs(code: &[u8]) -> (u32, u64) {
        let image = Image { code: code.to_vec(), maps: Vec::new() };
        let ran = Machine::new(vec![image], Vec::new()).run(&[0; 60], 1, 0).unwrap();
        (ran.verdict, ran.instructions)
    }

    #[test]
    fn a_loop_that_is_fallen_into_from_behind_gets_a_jump() {
        let code = [
            instruction(0xb7, 0, 0, 0),
            instruction(0x05, 0, 3, 0),
            // r1 = a number of two slots, which is no jump
            instruction(0x18, 1, 0, 5),
            instruction(0, 0, 0, 0),
            instruction(0x07, 0, 0, 1),
            // The head: if r0 < 7 goto body
            instruction(0xa5, 0, -4, 7),
            instruction(0x95, 0, 0, 0),
        ]
        .concat();
        let object = Object {
            code: code.clone(),
            maps: vec![(2, crate::kernel::MapUse::Memory)],
            numbers: Vec::new(),
            locations: Vec::new(),
            stack: 0,
            llvm: None,
        };
        assert_eq!(heads(&code), [5]);
        let changed = with_jumps(object).unwrap();
        assert_eq!((changed.code.len(), &changed.code[5 * SLOT..6 * SLOT]), (code.len() + SLOT, &NEXT[..]));
        assert_eq!((heads(&changed.code).len(), &changed.maps[0].0), (0, &2));
        let ((verdict, few), (same, more)) = (runs(&code), runs(&changed.code));
        assert_eq!((verdict, same, more - few), (7, 7, 7), "one jump each time round");
    }

    #[test]
    fn what_is_no_loop_stays_as_it_is() {
        // A path that joins another one within a loop whose back edge is a jump.
        let code = [
            instruction(0xb7, 0, 0, 0),
            instruction(0x07, 0, 0, 1),
            instruction(0x15, 0, 1, 3),
            instruction(0x07, 0, 0, 1),
            instruction(0xa5, 0, -4, 9),
            instruction(0x95, 0, 0, 0),
        ]
        .concat();
        // The joint is come to from behind itself, by that path; a jump there does no harm.
        assert_eq!(heads(&code), [4]);
        let ahead = [&code[..4 * SLOT], &code[5 * SLOT..]].concat();
        assert_eq!(heads(&ahead), [0; 0], "without the way back");
        let (maps, numbers, locations) = (Vec::new(), Vec::new(), Vec::new());
        let object = Object { code: code.clone(), maps, numbers, locations, stack: 0, llvm: None };
        assert_eq!(runs(&with_jumps(object).unwrap().code).0, runs(&code).0);
    }
}
