//! From an object file to instructions: nothing is left to link but the numbers of maps, and what each process has
//! another one of.

use baker::ir::Program;
use object::{Object as _, ObjectSection};

use super::asm::{MAP, NUMBER};
use super::{SECTION, STACK};
use crate::kernel::{Location, MapUse, Object};
use crate::{CodegenError, internal};

/// The section that says which instruction comes from which line.
const LINES: &str = ".BTF.ext";
/// Bytes of an instruction.
pub(super) const SLOT: usize = 8;
/// Loads 64 bits from two slots.
pub(super) const LOAD_WIDE: u8 = 0x18;
/// The register that points behind the stack.
const FRAME: u8 = 10;

pub(super) const MAPS: [MapUse; 5] = [MapUse::Memory, MapUse::Devices, MapUse::Sockets, MapUse::Parts, MapUse::Taps];

/// Reads the function out of an object file.
pub(super) fn read(file: &[u8], program: &Program, locations: &[Location]) -> Result<Object, CodegenError> {
    let broken = |error: object::Error| CodegenError::Internal(format!("LLVM's object file: {error}"));
    let file = object::File::parse(file).map_err(broken)?;
    let Some(section) = file.section_by_name(SECTION) else {
        return internal(format!("the object file of `{}` has no code", program.name));
    };
    if section.relocations().next().is_some() {
        return internal(format!("the code of `{}` calls what is not there", program.name));
    }
    let mut code = section.data().map_err(broken)?.to_vec();
    let (mut maps, mut numbers) = (Vec::new(), Vec::new());
    let mut stack = 0;
    let mut index = 0;
    while index * SLOT < code.len() {
        let slot = &mut code[index * SLOT..];
        let (op, registers) = (slot[0], slot[1]);
        if op == LOAD_WIDE {
            if slot.len() < 2 * SLOT {
                return internal("a load that is cut off");
            }
            let low = u32::from_le_bytes([slot[4], slot[5], slot[6], slot[7]]);
            let high = u32::from_le_bytes([slot[12], slot[13], slot[14], slot[15]]);
            let number = u64::from(high) << 32 | u64::from(low);
            if high == (MAP >> 32) as u32 {
                let Some(map) = MAPS.into_iter().find(|map| MAP | *map as u64 == number) else {
                    return internal(format!("a load of map {low}"));
                };
                maps.push((index, map));
                slot[4..8].fill(0);
                slot[12..16].fill(0);
            }
            if high == (NUMBER >> 32) as u32 {
                numbers.push((index, super::asm::number(low)));
            }
            index += 2;
            continue;
        }
        let memory = matches!(op & 7, 1..=3);
        let base = if op & 7 == 1 { registers >> 4 } else { registers & 15 };
        let offset = i16::from_le_bytes([slot[2], slot[3]]);
        if memory && base == FRAME {
            stack = stack.max(u32::from(offset.unsigned_abs()));
        }
        index += 1;
    }
    if stack > STACK {
        return Err(CodegenError::Stack);
    }
    let lines = file.section_by_name(LINES).map(|section| section.data()).transpose().map_err(broken)?;
    let locations = lines.map_or(Ok(Vec::new()), |lines| super::debug_info::read(lines, locations))?;
    super::loops::with_jumps(Object { code, maps, numbers, locations, stack, llvm: None })
}
