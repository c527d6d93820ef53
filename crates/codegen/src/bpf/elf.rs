//! The kernel's programs as an object file, for tools that read such files.
//!
//! The section `xdp`, or `tc`, holds what received packets enter, and `xdp/MODULE.PPF` a part that begins with that
//! PPF. Tools tell the kind of a program by the section's name. Loads of maps are relocations (`R_BPF_64_64`) against
//! symbols that the file does not define, for maps are made when a program is loaded: their sizes follow from its
//! tables.

use baker::ir::PpfId;
use object::write::{Object as File, Relocation, SectionId, Symbol, SymbolId, SymbolSection};
use object::{
    Architecture, BinaryFormat, Endianness, RelocationFlags, SectionKind, SymbolFlags, SymbolKind, SymbolScope,
};

use super::object::SLOT;
use super::{Accepted, NAME};
use crate::kernel::{Hook, MapUse, Object};
use crate::{CodegenError, internal};

/// The relocation of a load of 64 bits (`R_BPF_64_64`).
const WIDE: u32 = 1;

/// The file, of programs for a hook. `name` names PPFs.
///
/// # Errors
/// A fault of the library that writes it.
pub fn elf(hook: Hook, accepted: &Accepted<Object>, name: impl Fn(PpfId) -> String) -> Result<Vec<u8>, CodegenError> {
    let start = match hook {
        Hook::Xdp => "xdp",
        Hook::Tc => "tc",
    };
    let mut file = File::new(BinaryFormat::Elf, Architecture::Bpf, Endianness::Little);
    let mut maps: Vec<(MapUse, SymbolId)> = Vec::new();
    program(&mut file, &mut maps, start, NAME, &accepted.first)?;
    for (ppf, object) in &accepted.parts {
        let ppf = name(*ppf);
        program(&mut file, &mut maps, &format!("{start}/{ppf}"), &ppf, object)?;
    }
    // Of what it calls the kernel gives some to such programs only.
    let license = file.add_section(Vec::new(), b"license".to_vec(), SectionKind::Data);
    file.append_section_data(license, b"GPL\0", 1);
    file.write().or_else(|error| internal(format!("the object file: {error}")))
}

/// Adds a program.
fn program(
    file: &mut File,
    maps: &mut Vec<(MapUse, SymbolId)>,
    section: &str,
    name: &str,
    object: &Object,
) -> Result<(), CodegenError> {
    let section = file.add_section(Vec::new(), section.as_bytes().to_vec(), SectionKind::Text);
    file.append_section_data(section, &object.code, SLOT as u64);
    symbol(file, name, SymbolKind::Text, Some(section), object.code.len() as u64);
    for (slot, map) in &object.maps {
        let symbol = match maps.iter().find(|(known, _)| known == map) {
            Some((_, symbol)) => *symbol,
            None => {
                let symbol = symbol(file, map.name(), SymbolKind::Data, None, 0);
                maps.push((*map, symbol));
                symbol
            }
        };
        let flags = RelocationFlags::Elf { r_type: WIDE };
        let relocation = Relocation { offset: (slot * SLOT) as u64, symbol, addend: 0, flags };
        file.add_relocation(section, relocation)
            .or_else(|error| internal(format!("a relocation of the object file: {error}")))?;
    }
    Ok(())
}

fn symbol(file: &mut File, name: &str, kind: SymbolKind, section: Option<SectionId>, size: u64) -> SymbolId {
    file.add_symbol(Symbol {
        name: name.as_bytes().to_vec(),
        value: 0,
        size,
        kind,
        scope: SymbolScope::Linkage,
        weak: false,
        section: section.map_or(SymbolSection::Undefined, SymbolSection::Section),
        flags: SymbolFlags::None,
    })
}
