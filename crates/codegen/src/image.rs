//! A program as object files: machine code that is linked to nothing yet, as it is kept on disk.
//!
//! The units of a program (`lower/units.rs`) are compiled at the same time, each by a thread.

use std::thread::{self, ScopedJoinHandle};

use baker::ir::{ChannelId, Program};
use baker::opt::reach::{Reach, reach};
use baker::opt::share::copies;
use baker::opt::stage::Plan;
use baker::opt::{Level, optimise};
use inkwell::context::Context;

use crate::cache::{Reader, Writer};
use crate::lower::{self, Units};
use crate::target::Host;
use crate::{CodegenError, OptLevel, internal};

/// Machine code, and what is to be known of it.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Image {
    /// One object file per unit.
    pub objects: Vec<Vec<u8>>,
    /// The channels by which packets enter; the first unit has their functions.
    pub entries: Vec<ChannelId>,
    /// How many timers there are; the first unit has their functions.
    pub timers: usize,
    pub pointers: Vec<Pointer>,
    /// How far the code reaches into packets that were received.
    pub reach: Reach,
    /// How many bytes a copy for a member of a group needs for itself, by the channel that it enters by.
    pub members: Vec<(ChannelId, u32)>,
}

/// Through what a function of another module is called.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Pointer {
    /// The unit that the function is in, and its symbol there.
    pub unit: usize,
    pub symbol: String,
    /// The pointer's own symbol.
    pub at: String,
}

impl Image {
    /// Compiles a program for the host's processor, packet accesses optimised to `packets`.
    pub fn compile(program: &Program, opt: OptLevel, packets: Level) -> Result<Image, CodegenError> {
        let (program, plan) = prepare(program, packets);
        let plan = plan.as_ref();
        let units = &Units::new(&program, plan)?;
        let unit = |unit: usize| {
            let (context, host) = (Context::create(), Host::new(opt)?);
            let module = lower::lower(&context, &program, plan, (units, unit), &host)?;
            host.optimise(&module)?;
            host.object(&module)
        };
        let (first, others) = thread::scope(|scope| {
            let others: Vec<_> = (1..units.count).map(|number| scope.spawn(move || unit(number))).collect();
            let join = |thread: ScopedJoinHandle<Result<Vec<u8>, CodegenError>>| {
                thread.join().unwrap_or_else(|_| internal("a thread that compiles panicked"))
            };
            (unit(0), others.into_iter().map(join).collect::<Result<Vec<_>, _>>())
        });
        let mut members: Vec<_> = copies(&program).members().collect();
        members.sort_unstable();
        Ok(Image {
            objects: [vec![first?], others?].concat(),
            entries: program.entries().collect(),
            timers: program.timers.len(),
            pointers: pointers(units, plan),
            reach: reach(&program),
            members,
        })
    }

    /// As it is kept.
    pub fn write(&self, writer: &mut Writer) {
        let Image { objects, entries, timers, pointers, reach, members } = self;
        writer.list(objects.iter(), |writer, object| writer.bytes(object));
        writer.list(entries.iter(), |writer, entry| writer.number(entry.0.into()));
        writer.number(*timers as u64);
        writer.list(pointers.iter(), |writer, Pointer { unit, symbol, at }| {
            writer.number(*unit as u64);
            writer.bytes(symbol.as_bytes());
            writer.bytes(at.as_bytes());
        });
        writer.optional(reach.touched);
        writer.optional(reach.written);
        writer.list(members.iter(), |writer, (channel, bytes)| {
            writer.number(channel.0.into());
            writer.number((*bytes).into());
        });
    }

    /// What [`Image::write`] wrote.
    pub fn read(reader: &mut Reader) -> Option<Image> {
        Some(Image {
            objects: reader.list(|reader| Some(reader.bytes()?.to_vec()))?,
            entries: reader.list(|reader| Some(ChannelId(reader.number()?)))?,
            timers: reader.number()?,
            pointers: reader
                .list(|reader| Some(Pointer { unit: reader.number()?, symbol: reader.text()?, at: reader.text()? }))?,
            reach: Reach { touched: reader.optional()?, written: reader.optional()? },
            members: reader.list(|reader| Some((ChannelId(reader.number()?), reader.number()?)))?,
        })
    }
}

/// For functions that others call which may be in another module.
fn pointers(units: &Units, plan: Option<&Plan>) -> Vec<Pointer> {
    let stage = plan.map(|_| Pointer { unit: 1, symbol: lower::STAGE.into(), at: lower::STAGE_AT.into() });
    let alone = units.home.iter().enumerate().filter_map(|(ppf, home)| Some((ppf, (*home)?)));
    let pointer = |(ppf, unit)| Pointer { unit, symbol: lower::ppf_symbol(ppf), at: lower::ppf_at_symbol(ppf) };
    stage.into_iter().chain(alone.map(pointer)).collect()
}

/// The optimised program, and how its look-ups are staged.
pub(crate) fn prepare(program: &Program, packets: Level) -> (Program, Option<Plan>) {
    let program = optimise(program, packets);
    // A batch that is staged is in no PPF at a time.
    let plan = if packets == Level::Cgpc && !program.timed { Plan::new(&program) } else { None };
    (program, plan)
}
