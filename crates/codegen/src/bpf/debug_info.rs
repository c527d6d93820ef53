//! Which instruction comes from where: as debug information in LLVM's module, with a source location's number for a
//! line; LLVM's BPF back end lists lines by instruction, in section `.BTF.ext`.

use std::cell::RefCell;

use baker::source::Span;
use inkwell::context::Context;
use inkwell::debug_info::{
    AsDIScope, DICompileUnit, DIFlags, DIFlagsConstants, DWARFEmissionKind, DWARFSourceLanguage, DebugInfoBuilder,
};
use inkwell::module::{FlagBehavior, Module};
use inkwell::values::FunctionValue;

use super::Kernel;
use crate::kernel::Location;
use crate::lower::Res;
use crate::{CodegenError, internal};

/// Source locations of a module that is being built.
pub(super) struct DebugInfo<'c> {
    builder: DebugInfoBuilder<'c>,
    unit: DICompileUnit<'c>,
    locations: RefCell<Vec<Location>>,
}

impl<'c> DebugInfo<'c> {
    pub fn new(context: &'c Context, module: &Module<'c>) -> Self {
        let version = context.i32_type().const_int(3, false);
        module.add_basic_value_flag("Debug Info Version", FlagBehavior::Warning, version);
        let (language, kind) = (DWARFSourceLanguage::C, DWARFEmissionKind::LineTablesOnly);
        let (builder, unit) = module.create_debug_info_builder(
            true, language, "program", ".", "", true, "", 0, "", kind, 0, false, false, "", "",
        );
        DebugInfo { builder, unit, locations: RefCell::default() }
    }

    /// Gives a function a scope for source locations.
    pub fn function(&self, function: FunctionValue<'c>, name: &str) {
        let file = self.unit.get_file();
        let ty = self.builder.create_subroutine_type(file, None, &[], DIFlags::PUBLIC);
        let (scope, flags) = (self.unit.as_debug_info_scope(), DIFlags::PUBLIC);
        let made = self.builder.create_function(scope, name, None, file, 1, ty, true, true, 1, flags, true);
        function.set_subprogram(made);
    }

    /// The source locations by number, when all code is made.
    pub fn finish(self) -> Vec<Location> {
        self.builder.finalize();
        self.locations.into_inner()
    }
}

impl<'c> Kernel<'c, '_> {
    /// What is built from now on in a function comes from this source location.
    pub(super) fn at_location(&self, function: FunctionValue<'c>, ppf: &str, span: Option<Span>) -> Res<()> {
        let location = Location { ppf: ppf.to_owned(), span };
        let mut locations = self.debug_info.locations.borrow_mut();
        if locations.last() != Some(&location) {
            locations.push(location);
        }
        let Some(scope) = function.get_subprogram() else { return internal("a function without a scope") };
        let (line, scope) = (locations.len() as u32, scope.as_debug_info_scope());
        let location = self.debug_info.builder.create_debug_location(self.context, line, 0, scope, None);
        self.builder.set_current_debug_location(location);
        Ok(())
    }
}

/// Reads section `.BTF.ext`: which source location begins at which byte of the code.
pub(super) fn read(section: &[u8], locations: &[Location]) -> Res<Vec<(usize, Location)>> {
    let word = |at: usize| {
        let bytes = section.get(at..at + 4).and_then(|bytes| bytes.try_into().ok());
        bytes.map(u32::from_le_bytes).ok_or_else(|| CodegenError::Internal("a list of lines that is cut off".into()))
    };
    // magic, version, flags; length of this header; offset and length of the functions, then of the lines.
    let lines = (word(4)? + word(16)?) as usize;
    let record = word(lines)? as usize;
    let count = word(lines + 8)? as usize;
    let mut found = Vec::new();
    for index in 0..count {
        let at = lines + 12 + index * record;
        // Offset of the instruction; file; text; line and column.
        let line = (word(at + 12)? >> 10) as usize;
        if let Some(location) = line.checked_sub(1).and_then(|line| locations.get(line)) {
            found.push((word(at)? as usize / 8, location.clone()));
        }
    }
    Ok(found)
}
