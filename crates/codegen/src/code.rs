//! A module of LLVM's as machine code in memory.

use std::mem::ManuallyDrop;
use std::ptr::NonNull;

use inkwell::context::Context;
use inkwell::execution_engine::ExecutionEngine;
use inkwell::module::Module;
use inkwell::values::AnyValue;

use crate::target::{Host, codegen_level};
use crate::{CodegenError, OptLevel, internal};

/// The engine that owns the code.
pub(crate) struct Code {
    // Before `context` is freed; it owns the module and the code.
    engine: ManuallyDrop<ExecutionEngine<'static>>,
    // From `Box::into_raw`; the engine borrows it.
    context: NonNull<Context>,
}

// SAFETY: LLVM ties nothing to a thread. The engine and the context are reachable through this value alone: inkwell's
// reference counts have no owner outside of it.
unsafe impl Send for Code {}

// SAFETY: a shared reference gives addresses and nothing else, and is used by one thread at a time, which compiles.
unsafe impl Sync for Code {}

impl Code {
    /// Optimises a module for the host's processor. `outside`: symbols that it does not define, and where they are.
    pub fn new(
        opt: OptLevel,
        outside: &[(&str, usize)],
        lower: impl FnOnce(&'static Context, &Host) -> Result<Module<'static>, CodegenError>,
    ) -> Result<Code, CodegenError> {
        let raw = NonNull::from(Box::leak(Box::new(Context::create())));
        // SAFETY: `raw` comes from a box that lives until `Code` is dropped, or is freed just below.
        let context: &'static Context = unsafe { raw.as_ref() };
        match engine(context, opt, outside, lower) {
            Ok(engine) => Ok(Code { engine: ManuallyDrop::new(engine), context: raw }),
            Err(error) => {
                // SAFETY: everything that borrowed the context was dropped when `engine` returned its error, which
                // holds text only; the pointer comes from a box.
                drop(unsafe { Box::from_raw(raw.as_ptr()) });
                Err(error)
            }
        }
    }

    /// Where a function is, while this value lives. The first call makes the machine code.
    pub fn address(&self, symbol: &str) -> Result<usize, CodegenError> {
        match self.engine.get_function_address(symbol) {
            Ok(address) => Ok(address),
            Err(_) => internal(format!("the engine lost the function {symbol}")),
        }
    }
}

impl Drop for Code {
    fn drop(&mut self) {
        // SAFETY: dropped once, here, and before the context that it borrows; the context comes from a box.
        unsafe {
            ManuallyDrop::drop(&mut self.engine);
            drop(Box::from_raw(self.context.as_ptr()));
        }
    }
}

fn engine(
    context: &'static Context,
    opt: OptLevel,
    outside: &[(&str, usize)],
    lower: impl FnOnce(&'static Context, &Host) -> Result<Module<'static>, CodegenError>,
) -> Result<ExecutionEngine<'static>, CodegenError> {
    let host = Host::new(opt)?;
    let module = lower(context, &host)?;
    host.optimise(&module)?;
    // The engine's own target machine is generic; each function carries the host's processor and features as
    // attributes.
    let engine = module
        .create_jit_execution_engine(codegen_level(opt))
        .map_err(|error| CodegenError::Target(error.to_string()))?;
    // Those that are not used are no longer declared.
    for (name, address) in outside {
        let function = module.get_function(name).map(|function| function.as_any_value_enum());
        let global = module.get_global(name).map(|global| global.as_any_value_enum());
        if let Some(symbol) = function.or(global) {
            engine.add_global_mapping(&symbol, *address);
        }
    }
    map_libcalls(context, &module, &engine);
    Ok(engine)
}

/// Instruction selection calls these for divisions of more than 64 bits. The engine would look them up among the
/// process's dynamic symbols, where they are only if libgcc is linked dynamically: so it gets ours.
fn map_libcalls<'c>(context: &'c Context, module: &Module<'c>, engine: &ExecutionEngine<'c>) {
    extern "C" fn udiv(a: u128, b: u128) -> u128 {
        a.checked_div(b).unwrap_or(0)
    }
    extern "C" fn urem(a: u128, b: u128) -> u128 {
        a.checked_rem(b).unwrap_or(0)
    }
    extern "C" fn sdiv(a: i128, b: i128) -> i128 {
        a.checked_div(b).unwrap_or(0)
    }
    extern "C" fn srem(a: i128, b: i128) -> i128 {
        a.checked_rem(b).unwrap_or(0)
    }
    let i128_type = context.i128_type();
    let signature = i128_type.fn_type(&[i128_type.into(), i128_type.into()], false);
    let libcalls = [
        ("__udivti3", udiv as *const () as usize),
        ("__umodti3", urem as *const () as usize),
        ("__divti3", sdiv as *const () as usize),
        ("__modti3", srem as *const () as usize),
    ];
    for (name, address) in libcalls {
        let function = module.get_function(name).unwrap_or_else(|| module.add_function(name, signature, None));
        engine.add_global_mapping(&function, address);
    }
}
