//! Code for the kernel as it is kept on disk: that of the tier that was taken, or that a PPF was too much in all of
//! them.

use std::hash::{Hash, Hasher};

use baker::ir::{PpfId, Program};
use baker::opt::Level;
use baker::source::{FileId, Span};

use super::object::MAPS;
use super::tiers::{Accepted, Tier};
use crate::cache::{Key, Reader, Writer};
use crate::kernel::{Location, Memory, Number, Object, Options};

/// What came of compiling a program.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Kept {
    /// This was taken. Numbers that each process has another one of are not in it.
    Accepted(Accepted<Object>),
    /// This PPF was too much, for this reason.
    TooMuch(PpfId, String),
}

/// Where what is kept of a program has its place.
pub(super) fn key(program: &Program, packets: Level, memory: &Memory, options: Options, taker: &str) -> Key {
    struct Places<'m>(&'m Memory);
    impl Hash for Places<'_> {
        fn hash<H: Hasher>(&self, state: &mut H) {
            self.0.hash_places(state);
        }
    }
    Key::new("BPF code", (program, packets, Places(memory), options, taker))
}

const TIERS: [Tier; 4] = [Tier::Whole, Tier::Spilled, Tier::Aggregates, Tier::Ppfs];

impl Kept {
    pub fn write(&self, writer: &mut Writer) {
        match self {
            Kept::TooMuch(ppf, why) => {
                writer.number(TIERS.len() as u64);
                writer.number(ppf.0.into());
                writer.bytes(why.as_bytes());
            }
            Kept::Accepted(Accepted { tier, first, parts }) => {
                writer.number(*tier as u64);
                write_object(writer, first);
                writer.list(parts.iter(), |writer, (ppf, part)| {
                    writer.number(ppf.0.into());
                    write_object(writer, part);
                });
            }
        }
    }

    pub fn read(reader: &mut Reader) -> Option<Kept> {
        let tier: usize = reader.number()?;
        if tier == TIERS.len() {
            return Some(Kept::TooMuch(PpfId(reader.number()?), reader.text()?));
        }
        let (tier, first) = (*TIERS.get(tier)?, read_object(reader)?);
        let parts = reader.list(|reader| Some((PpfId(reader.number()?), read_object(reader)?)))?;
        Some(Kept::Accepted(Accepted { tier, first, parts }))
    }
}

fn write_object(writer: &mut Writer, object: &Object) {
    // Text is for people to read, and not kept.
    let Object { code, maps, numbers, locations, stack, llvm: _ } = object;
    writer.bytes(code);
    writer.list(maps.iter(), |writer, (slot, map)| {
        writer.number(*slot as u64);
        writer.number(*map as u64);
    });
    writer.list(numbers.iter(), |writer, (slot, number)| {
        writer.number(*slot as u64);
        let (table, second) = match number {
            Number::Base => (None, false),
            Number::Seed(table, second) => (Some(*table), *second),
        };
        writer.optional(table);
        writer.number(second.into());
    });
    writer.list(locations.iter(), |writer, (first, Location { ppf, span })| {
        writer.number(*first as u64);
        writer.bytes(ppf.as_bytes());
        writer.optional(span.map(|span| span.file.0));
        if let Some(Span { file: _, start, end }) = span {
            writer.number((*start).into());
            writer.number((*end).into());
        }
    });
    writer.number((*stack).into());
}

fn read_object(reader: &mut Reader) -> Option<Object> {
    let code = reader.bytes()?.to_vec();
    let maps = reader.list(|reader| {
        let (slot, map) = (reader.number()?, reader.number::<u64>()?);
        Some((slot, MAPS.into_iter().find(|known| *known as u64 == map)?))
    })?;
    let numbers = reader.list(|reader| {
        let (slot, table, second) = (reader.number()?, reader.optional()?, reader.number::<u64>()? != 0);
        Some((slot, table.map_or(Number::Base, |table| Number::Seed(table, second))))
    })?;
    let locations = reader.list(|reader| {
        let (first, ppf, file) = (reader.number()?, reader.text()?, reader.optional()?);
        let mut span = |file| Some(Span { file: FileId(file), start: reader.number()?, end: reader.number()? });
        let span = match file {
            Some(file) => Some(span(file)?),
            None => None,
        };
        Some((first, Location { ppf, span }))
    })?;
    Some(Object { code, maps, numbers, locations, stack: reader.number()?, llvm: None })
}
