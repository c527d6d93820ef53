//! From program to machine code in memory.

use std::mem::ManuallyDrop;
use std::ptr::NonNull;

use baker::ir::{ChannelId, Program, TimerId};
use baker::opt::stage::Plan;
use baker::opt::{Level, optimise};
use inkwell::context::Context;
use inkwell::execution_engine::ExecutionEngine;
use inkwell::module::Module;

use crate::target::{Host, codegen_level};
use crate::{CodegenError, Emit, OptLevel, abi, internal, lower};

/// A program as machine code in this process's memory.
pub struct Native {
    /// By channel; those by which no packets enter have none.
    entries: Vec<Option<abi::RunFn>>,
    timers: Vec<abi::TimerFn>,
    // Before `context` is freed; it owns the module and the code.
    engine: ManuallyDrop<ExecutionEngine<'static>>,
    // From `Box::into_raw`; the engine borrows it.
    context: NonNull<Context>,
}

// SAFETY: LLVM ties nothing to a thread. The engine and the context are reachable through this value alone: inkwell's
// reference counts have no owner outside of it.
unsafe impl Send for Native {}

// SAFETY: a shared reference gives function pointers and nothing else.
unsafe impl Sync for Native {}

impl Native {
    /// Compiles a program for the host's processor, packet accesses optimised to `packets`. `runtime`'s functions must obey
    /// what [`abi::Runtime`] says.
    pub fn compile(
        program: &Program,
        opt: OptLevel,
        packets: Level,
        runtime: &abi::Runtime,
    ) -> Result<Native, CodegenError> {
        let raw = NonNull::from(Box::leak(Box::new(Context::create())));
        // SAFETY: `raw` comes from a box that lives until `Native` is dropped, or is freed just below.
        let context: &'static Context = unsafe { raw.as_ref() };
        match compile_in(context, program, opt, packets, runtime) {
            Ok(Compiled { engine, entries, timers }) => {
                Ok(Native { entries, timers, engine: ManuallyDrop::new(engine), context: raw })
            }
            Err(error) => {
                // SAFETY: everything that borrowed the context was dropped when `compile_in` returned its error, which
                // holds text only; the pointer comes from a box.
                drop(unsafe { Box::from_raw(raw.as_ptr()) });
                Err(error)
            }
        }
    }

    /// The function for packets that enter by a channel, which is one of `Program::entries`; valid while this value lives.
    /// Several threads may run it at once, each with its own [`abi::Context`].
    pub fn run_fn(&self, entry: ChannelId) -> Option<abi::RunFn> {
        *self.entries.get(entry.0 as usize)?
    }

    /// The function of a timer, as [`Native::run_fn`].
    pub fn timer_fn(&self, timer: TimerId) -> Option<abi::TimerFn> {
        self.timers.get(timer.0 as usize).copied()
    }
}

impl Drop for Native {
    fn drop(&mut self) {
        // SAFETY: dropped once, here, and before the context that it borrows; the context comes from a box.
        unsafe {
            ManuallyDrop::drop(&mut self.engine);
            drop(Box::from_raw(self.context.as_ptr()));
        }
    }
}

/// The program, its packet accesses optimised to `packets`, as LLVM IR or as assembly, for people to read.
pub fn emit(program: &Program, opt: OptLevel, packets: Level, what: Emit) -> Result<String, CodegenError> {
    let context = Context::create();
    let host = Host::new(opt)?;
    let module = build(&context, program, packets, &host)?;
    match what {
        Emit::Llvm => Ok(module.print_to_string().to_string()),
        Emit::Asm => host.assembly(&module),
    }
}

/// The optimised module of a program.
fn build<'c>(context: &'c Context, program: &Program, packets: Level, host: &Host) -> Result<Module<'c>, CodegenError> {
    let program = optimise(program, packets);
    let plan = if packets == Level::Cgpc { Plan::new(&program) } else { None };
    let module = lower::lower(context, &program, plan.as_ref(), host)?;
    module
        .verify()
        .map_err(|error| CodegenError::Internal(format!("LLVM refuses the module of `{}`: {error}", program.name)))?;
    host.optimise(&module)?;
    Ok(module)
}

/// The engine that owns the code, and the functions in it.
struct Compiled {
    engine: ExecutionEngine<'static>,
    entries: Vec<Option<abi::RunFn>>,
    timers: Vec<abi::TimerFn>,
}

fn compile_in(
    context: &'static Context,
    program: &Program,
    opt: OptLevel,
    packets: Level,
    runtime: &abi::Runtime,
) -> Result<Compiled, CodegenError> {
    let host = Host::new(opt)?;
    let module = build(context, program, packets, &host)?;
    // The engine's own target machine is generic; each function carries the host's processor and features as attributes.
    let engine = module
        .create_jit_execution_engine(codegen_level(opt))
        .map_err(|error| CodegenError::Target(error.to_string()))?;
    let runtime_functions = [
        (lower::HASH_LOOKUP, runtime.hash_lookup as usize),
        (lower::HASH_INSERT, runtime.hash_insert as usize),
        (lower::HASH_REMOVE, runtime.hash_remove as usize),
        (lower::LPM_LOOKUP, runtime.lpm_lookup as usize),
        (lower::METER_TAKE, runtime.meter_take as usize),
    ];
    for (name, address) in runtime_functions {
        // Those that are not called are no longer declared.
        if let Some(function) = module.get_function(name) {
            engine.add_global_mapping(&function, address);
        }
    }
    map_libcalls(context, &module, &engine);
    let address = |symbol: &str| match engine.get_function_address(symbol) {
        Ok(address) => Ok(address),
        Err(_) => internal(format!("the engine lost the function {symbol}")),
    };
    let mut entries = vec![None; program.channels.len()];
    for channel in program.entries() {
        let address = address(&lower::entry_symbol(channel))?;
        // SAFETY: the address of a function that the lowering made with the signature of `RunFn`.
        entries[channel.0 as usize] = Some(unsafe { std::mem::transmute::<usize, abi::RunFn>(address) });
    }
    let mut timers = Vec::new();
    for index in 0..program.timers.len() {
        let address = address(&lower::timer_symbol(index))?;
        // SAFETY: the address of a function that the lowering made with the signature of `TimerFn`.
        timers.push(unsafe { std::mem::transmute::<usize, abi::TimerFn>(address) });
    }
    Ok(Compiled { engine, entries, timers })
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
