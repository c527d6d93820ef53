//! From program to machine code in memory.
//!
//! The units of a program (`lower/units.rs`) are compiled at the same time, each by a thread.

use std::ptr;
use std::sync::atomic::{AtomicPtr, Ordering};
use std::thread::{self, ScopedJoinHandle};

use baker::ir::{ChannelId, Program, TimerId};
use baker::opt::reach::{Reach, reach};
use baker::opt::share::{Copies, copies};
use baker::opt::stage::Plan;
use baker::opt::{Level, optimise};
use inkwell::context::Context;

use crate::code::Code;
use crate::lower::Units;
use crate::target::Host;
use crate::{CodegenError, Emit, OptLevel, abi, internal, lower};

/// A program as machine code in this process's memory.
pub struct Native {
    /// By channel; those by which no packets enter have none.
    entries: Vec<Option<abi::RunFn>>,
    timers: Vec<abi::TimerFn>,
    reach: Reach,
    copies: Copies,
    // What the functions above lie in, and the pointers that they call each other through.
    _codes: Vec<Code>,
    _pointers: Vec<Pointer>,
}

/// Where a function of another module is.
struct Pointer {
    /// The unit that the function is in, and its symbol there.
    unit: usize,
    symbol: String,
    /// The pointer's own symbol.
    at: String,
    address: Box<AtomicPtr<u8>>,
}

impl Native {
    /// Compiles a program for the host's processor, packet accesses optimised to `packets`. `runtime`'s functions must
    /// obey what [`abi::Runtime`] says.
    pub fn compile(
        program: &Program,
        opt: OptLevel,
        packets: Level,
        runtime: &abi::Runtime,
    ) -> Result<Native, CodegenError> {
        let (program, plan) = prepare(program, packets);
        let plan = plan.as_ref();
        let units = &Units::new(&program, plan)?;
        let pointers = pointers(units, plan);
        let mut outside = vec![
            (lower::HASH_LOOKUP, runtime.hash_lookup as usize),
            (lower::HASH_INSERT, runtime.hash_insert as usize),
            (lower::HASH_REMOVE, runtime.hash_remove as usize),
            (lower::LPM_LOOKUP, runtime.lpm_lookup as usize),
            (lower::METER_TAKE, runtime.meter_take as usize),
            (lower::DEADLINE_SET, runtime.deadline_set as usize),
            (lower::DEADLINE_TAKE, runtime.deadline_take as usize),
            (lower::HOLD_PUT, runtime.hold_put as usize),
            (lower::HOLD_GET, runtime.hold_get as usize),
        ];
        outside.extend(pointers.iter().map(|pointer| (&*pointer.at, ptr::from_ref(&*pointer.address) as usize)));
        let unit = |unit: usize| {
            let code =
                Code::new(opt, &outside, |context, host| lower::lower(context, &program, plan, (units, unit), host))?;
            for pointer in pointers.iter().filter(|pointer| pointer.unit == unit) {
                let address = ptr::with_exposed_provenance_mut(code.address(&pointer.symbol)?);
                pointer.address.store(address, Ordering::Release);
            }
            Ok(code)
        };
        let (first, others) = thread::scope(|scope| {
            let others: Vec<_> = (1..units.count).map(|number| scope.spawn(move || unit(number))).collect();
            let first = unit(0).and_then(|code| Addresses::new(&program, &code).map(|addresses| (code, addresses)));
            let join = |thread: ScopedJoinHandle<Result<Code, CodegenError>>| {
                thread.join().unwrap_or_else(|_| internal("a thread that compiles panicked"))
            };
            (first, others.into_iter().map(join).collect::<Result<Vec<Code>, _>>())
        });
        let (first, Addresses { entries, timers }) = first?;
        let codes = [vec![first], others?].into_iter().flatten().collect();
        let (reach, copies) = (reach(&program), copies(&program));
        Ok(Native { entries, timers, reach, copies, _codes: codes, _pointers: pointers })
    }

    /// The function for packets that enter by a channel, which is one of `Program::entries`; valid while this value
    /// lives. Several threads may run it at once, each with its own [`abi::Context`].
    pub fn run_fn(&self, entry: ChannelId) -> Option<abi::RunFn> {
        *self.entries.get(entry.0 as usize)?
    }

    /// How far the code reaches into packets that were received.
    pub fn reach(&self) -> Reach {
        self.reach
    }

    /// How many bytes a copy for a member of a group needs for itself, which enters by this channel; `None`: all.
    pub fn of_member(&self, entry: ChannelId) -> Option<u32> {
        self.copies.of_members(entry)
    }

    /// The function of a timer, as [`Native::run_fn`].
    pub fn timer_fn(&self, timer: TimerId) -> Option<abi::TimerFn> {
        self.timers.get(timer.0 as usize).copied()
    }
}

/// For functions that others call which may be in another module.
fn pointers(units: &Units, plan: Option<&Plan>) -> Vec<Pointer> {
    let pointer = |unit, symbol, at| Pointer { unit, symbol, at, address: Box::new(AtomicPtr::new(ptr::null_mut())) };
    let stage = plan.map(|_| pointer(1, lower::STAGE.to_owned(), lower::STAGE_AT.to_owned()));
    let alone = units.home.iter().enumerate().filter_map(|(ppf, home)| Some((ppf, (*home)?)));
    let alone = alone.map(|(ppf, home)| pointer(home, lower::ppf_symbol(ppf), lower::ppf_at_symbol(ppf)));
    stage.into_iter().chain(alone).collect()
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
    let units = Units::new(&program, plan.as_ref())?;
    let mut texts = Vec::new();
    for unit in 0..units.count {
        let module = lower::lower(&context, &program, plan.as_ref(), (&units, unit), &host)?;
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
