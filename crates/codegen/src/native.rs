//! From program to machine code in memory.
//!
//! The function that takes batches up to their first effects (`lower/rounds.rs`) and all else are compiled at the same time,
//! each by a thread.

use std::ptr;
use std::sync::atomic::{AtomicPtr, Ordering};
use std::thread;

use baker::ir::{ChannelId, Program, TimerId};
use baker::opt::stage::Plan;
use baker::opt::{Level, optimise};
use inkwell::context::Context;

use crate::code::Code;
use crate::target::Host;
use crate::{CodegenError, Emit, OptLevel, abi, internal, lower};

/// A program as machine code in this process's memory.
pub struct Native {
    /// By channel; those by which no packets enter have none.
    entries: Vec<Option<abi::RunFn>>,
    timers: Vec<abi::TimerFn>,
    // What the functions above lie in, and what they refer to.
    _code: Code,
    _stage: Option<Code>,
    _stage_at: Box<AtomicPtr<u8>>,
}

impl Native {
    /// Compiles a program for the host's processor, packet accesses optimised to `packets`. `runtime`'s functions must obey
    /// what [`abi::Runtime`] says.
    pub fn compile(
        program: &Program,
        opt: OptLevel,
        packets: Level,
        runtime: &abi::Runtime,
    ) -> Result<Native, CodegenError> {
        let (program, plan) = prepare(program, packets);
        let stage_at = Box::new(AtomicPtr::new(ptr::null_mut()));
        let outside = [
            (lower::STAGE_AT, ptr::from_ref(&*stage_at) as usize),
            (lower::HASH_LOOKUP, runtime.hash_lookup as usize),
            (lower::HASH_INSERT, runtime.hash_insert as usize),
            (lower::HASH_REMOVE, runtime.hash_remove as usize),
            (lower::LPM_LOOKUP, runtime.lpm_lookup as usize),
            (lower::METER_TAKE, runtime.meter_take as usize),
        ];
        let ((code, addresses), stage) = thread::scope(|scope| {
            let stage = plan.as_ref().map(|plan| {
                scope.spawn(|| {
                    let code =
                        Code::new(opt, &outside, |context, host| lower::lower_stage(context, &program, plan, host))?;
                    let address = code.address(lower::STAGE)?;
                    Ok((code, address))
                })
            });
            let rest = Code::new(opt, &outside, |context, host| lower::lower(context, &program, plan.as_ref(), host));
            let rest = rest.and_then(|code| Addresses::new(&program, &code).map(|addresses| (code, addresses)));
            let stage =
                stage.map(|thread| thread.join().unwrap_or_else(|_| internal("a thread that compiles panicked")));
            Ok::<_, CodegenError>((rest?, stage.transpose()?))
        })?;
        let stage = stage.map(|(code, address)| {
            stage_at.store(ptr::with_exposed_provenance_mut(address), Ordering::Release);
            code
        });
        let Addresses { entries, timers } = addresses;
        Ok(Native { entries, timers, _code: code, _stage: stage, _stage_at: stage_at })
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

/// The functions by which the data plane comes in.
struct Addresses {
    entries: Vec<Option<abi::RunFn>>,
    timers: Vec<abi::TimerFn>,
}

impl Addresses {
    fn new(program: &Program, code: &Code) -> Result<Addresses, CodegenError> {
        let mut entries = vec![None; program.channels.len()];
        for channel in program.entries() {
            let address = code.address(&lower::entry_symbol(channel))?;
            // SAFETY: the address of a function that the lowering made with the signature of `RunFn`.
            entries[channel.0 as usize] = Some(unsafe { std::mem::transmute::<usize, abi::RunFn>(address) });
        }
        let mut timers = Vec::new();
        for index in 0..program.timers.len() {
            let address = code.address(&lower::timer_symbol(index))?;
            // SAFETY: the address of a function that the lowering made with the signature of `TimerFn`.
            timers.push(unsafe { std::mem::transmute::<usize, abi::TimerFn>(address) });
        }
        Ok(Addresses { entries, timers })
    }
}

/// The program, its packet accesses optimised to `packets`, as LLVM IR or as assembly, for people to read.
pub fn emit(program: &Program, opt: OptLevel, packets: Level, what: Emit) -> Result<String, CodegenError> {
    let (program, plan) = prepare(program, packets);
    let context = Context::create();
    let host = Host::new(opt)?;
    let rest = lower::lower(&context, &program, plan.as_ref(), &host)?;
    let stage = plan.as_ref().map(|plan| lower::lower_stage(&context, &program, plan, &host)).transpose()?;
    let mut texts = Vec::new();
    for module in [Some(rest), stage].into_iter().flatten() {
        host.optimise(&module)?;
        texts.push(match what {
            Emit::Llvm => module.print_to_string().to_string(),
            Emit::Asm => host.assembly(&module)?,
        });
    }
    Ok(texts.join("\n"))
}

/// The optimised program, and how its look-ups are staged.
fn prepare(program: &Program, packets: Level) -> (Program, Option<Plan>) {
    let program = optimise(program, packets);
    let plan = if packets == Level::Cgpc { Plan::new(&program) } else { None };
    (program, plan)
}
