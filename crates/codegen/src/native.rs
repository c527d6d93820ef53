//! From program to machine code in memory.
//!
//! A program is compiled to an image (`image.rs`), or found as one on disk, and then linked to this process.

use std::collections::HashMap;
use std::ptr;
use std::sync::atomic::{AtomicPtr, Ordering};

use baker::ir::{ChannelId, Program, TimerId};
use baker::opt::Level;
use baker::opt::reach::Reach;
use inkwell::context::Context;

use crate::cache::{Key, Part};
use crate::image::{Image, Pointer, prepare};
use crate::link::Linked;
use crate::lower::Units;
use crate::target::Host;
use crate::{CodegenError, Emit, OptLevel, abi, internal, lower};

/// A program as machine code in this process's memory.
pub struct Native {
    /// By channel; those by which no packets enter have none.
    entries: HashMap<ChannelId, abi::RunFn>,
    timers: Vec<abi::TimerFn>,
    reach: Reach,
    members: HashMap<ChannelId, u32>,
    // What the functions above lie in, and the pointers that they call each other through.
    _linked: Vec<Linked>,
    _cells: Box<[AtomicPtr<u8>]>,
}

impl Native {
    /// Machine code of a program for the host's processor, packet accesses optimised to `packets`: taken from disk
    /// where it is kept there ([`crate::cache`]), else compiled. `runtime`'s functions must obey what
    /// [`abi::Runtime`] says.
    pub fn compile(
        program: &Program,
        opt: OptLevel,
        packets: Level,
        runtime: &abi::Runtime,
    ) -> Result<Native, CodegenError> {
        let mut part = Part::new(|| {
            let host = Host::new(opt).map(|host| (host.triple(), host.cpu, host.features)).ok();
            Key::new("machine code", (program, opt, packets, host))
        });
        if let Some(image) = part.find(Image::read) {
            match Native::link(image, runtime) {
                Ok(native) => {
                    part.done(true);
                    return Ok(native);
                }
                Err(error) => part.is_useless(&error.to_string()),
            }
        }
        let image = Image::compile(program, opt, packets)?;
        part.keep(|writer| image.write(writer));
        let native = Native::link(image, runtime)?;
        part.done(false);
        Ok(native)
    }

    /// Puts compiled code into memory.
    fn link(image: Image, runtime: &abi::Runtime) -> Result<Native, CodegenError> {
        let Image { objects, entries, timers, pointers, reach, members } = image;
        // They stay where they are.
        let cells: Box<[AtomicPtr<u8>]> = pointers.iter().map(|_| AtomicPtr::default()).collect();
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
        outside.extend(pointers.iter().zip(&cells).map(|(pointer, cell)| (&*pointer.at, ptr::from_ref(cell) as usize)));
        let linked = objects.iter().map(|object| Linked::new(object, &outside)).collect::<Result<Vec<_>, _>>()?;
        for (Pointer { unit, symbol, .. }, cell) in pointers.iter().zip(&cells) {
            let Some(linked) = linked.get(*unit) else { return internal("a function in a module that is not there") };
            cell.store(ptr::with_exposed_provenance_mut(linked.address(symbol)?), Ordering::Release);
        }
        let Some(first) = linked.first() else { return internal("a program without a module") };
        let entry = |channel: &ChannelId| {
            let address = first.address(&lower::entry_symbol(*channel))?;
            // SAFETY: the address of a function that the lowering made with the signature of `RunFn`.
            Ok((*channel, unsafe { std::mem::transmute::<usize, abi::RunFn>(address) }))
        };
        let timer = |timer: usize| {
            let address = first.address(&lower::timer_symbol(timer))?;
            // SAFETY: the address of a function that the lowering made with the signature of `TimerFn`.
            Ok(unsafe { std::mem::transmute::<usize, abi::TimerFn>(address) })
        };
        let entries = entries.iter().map(entry).collect::<Result<HashMap<_, _>, CodegenError>>()?;
        let timers = (0..timers).map(timer).collect::<Result<Vec<_>, CodegenError>>()?;
        Ok(Native { entries, timers, reach, members: members.into_iter().collect(), _linked: linked, _cells: cells })
    }

    /// The function for packets that enter by a channel, which is one of `Program::entries`; valid while this value
    /// lives. Several threads may run it at once, each with its own [`abi::Context`].
    pub fn run_fn(&self, entry: ChannelId) -> Option<abi::RunFn> {
        self.entries.get(&entry).copied()
    }

    /// How far the code reaches into packets that were received.
    pub fn reach(&self) -> Reach {
        self.reach
    }

    /// How many bytes a copy for a member of a group needs for itself, which enters by this channel; `None`: all.
    pub fn of_member(&self, entry: ChannelId) -> Option<u32> {
        self.members.get(&entry).copied()
    }

    /// The function of a timer, as [`Native::run_fn`].
    pub fn timer_fn(&self, timer: TimerId) -> Option<abi::TimerFn> {
        self.timers.get(timer.0 as usize).copied()
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
