//! Calls of functions that controllers have: arguments into memory, a call through the context's list, the result out
//! of it.

use std::mem::offset_of;

use baker::ir::{Extern, ExternId, Value};
use inkwell::values::IntValue;

use super::Res;
use super::body::{Ppf, Scratch};
use super::memory::Memory;
use super::walk::Lowering;
use crate::abi::{Context, ExternCall};
use crate::internal;

/// Bytes of an argument or result.
const WIDE: u32 = 16;

impl<'c> Ppf<'_, 'c, '_> {
    /// The result, where the function has one.
    pub fn call_extern(&mut self, id: ExternId, args: &[Value]) -> Res<Option<IntValue<'c>>> {
        let module = self.module;
        let Some(function) = module.program.externs.get(id.0 as usize) else {
            return internal(format!("there is no extern {}", id.0));
        };
        if args.len() != function.params.len() || args.len() > Extern::MAX_PARAMS {
            return internal(format!("extern {} gets {} arguments", function.name, args.len()));
        }
        let slot = self.stack_slot(Scratch::Arguments, WIDE * Extern::MAX_PARAMS as u32, 8)?;
        for (index, (arg, width)) in (0u64..).zip(args.iter().zip(&function.params)) {
            let value = module.resize(self.int_of(*arg, *width)?, WIDE * 8)?;
            module.store(module.at(slot, index * u64::from(WIDE))?, value, 8, Memory::Table)?;
        }
        let externs = module.context_ptr(self.ctx, offset_of!(Context, externs))?;
        let entry = module.at(externs, u64::from(id.0) * size_of::<ExternCall>() as u64)?;
        let field = |offset: usize| module.load(module.ptr, module.at(entry, offset as u64)?, 8, Memory::Control);
        let callee = field(offset_of!(ExternCall, call))?.into_pointer_value();
        // It may be null: it is the function's own.
        let data = field(offset_of!(ExternCall, data))?;
        let ty = module.context.void_type().fn_type(&[module.ptr.into(), module.ptr.into()], false);
        module.builder.build_indirect_call(ty, callee, &[data.into(), slot.into()], "")?;
        let Some(width) = function.result else { return Ok(None) };
        let result = module.load_int(module.int(WIDE * 8)?, slot, 8, Memory::Table)?;
        Ok(Some(module.resize(result, width)?))
    }
}
