//! The compilation tiers of code for the kernel, tried one after the other until the kernel takes it.
//!
//! | tier | form | what it costs |
//! |---|---|---|
//! | [`Tier::Whole`] | all in one function, values in registers | nothing |
//! | [`Tier::Spilled`] | as above, values that outlive their block in memory (see `spill`) | loads and stores |
//! | [`Tier::Aggregates`] | parts of moderate size joined by tail calls (see `parts`) | headers are loaded again in each part |
//! | [`Tier::Ppfs`] | as above, each PPF a part | tail calls at all channels |
//!
//! From each tier of parts, parts that are still too much are tried with spilled values; what is too much then cannot
//! run in the kernel, and its largest PPF is named.

use std::fmt::Display;

use baker::ir::{PpfId, Program};
use baker::opt::{Level, optimise};
use baker::parallel;

use super::kept::{self, Kept};
use super::object::SLOT;
use super::parts::{Parts, expanded, rx_ppf};
use super::{CompileUnit, filled, with_module};
use crate::CodegenError;
use crate::cache::Part;
use crate::kernel::{Memory, Object, Options};

/// A tier.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tier {
    /// One program.
    Whole,
    /// One program, values in memory.
    Spilled,
    /// Parts of up to [`AGGREGATE`] instructions.
    Aggregates,
    /// A part for each PPF.
    Ppfs,
}

impl Tier {
    /// In words.
    pub fn text(self) -> &'static str {
        match self {
            Tier::Whole => "one program",
            Tier::Spilled => "one program with spilled values",
            Tier::Aggregates => "several programs joined by tail calls",
            Tier::Ppfs => "a program for each PPF, joined by tail calls",
        }
    }

    /// Its name in JSON.
    pub fn name(self) -> &'static str {
        match self {
            Tier::Whole => "whole",
            Tier::Spilled => "spilled",
            Tier::Aggregates => "aggregates",
            Tier::Ppfs => "ppfs",
        }
    }
}

/// Instructions of the IR that an aggregate of [`Tier::Aggregates`] has at most, before it is optimised.
const AGGREGATE: usize = 300;
/// Instructions of the IR of a program for which one function is tried. LLVM takes long for more, and the verifier
/// never took it.
const WHOLE: usize = 1500;

/// What takes any code: see [`compile_tiered`].
pub const ANYTHING: &str = "anything";

/// What became of code that was offered.
pub enum Refusal<E> {
    /// It is too much: code in a form that is less so may be taken.
    TooMuch(E),
    /// Something else is wrong.
    Other(E),
}

impl<E: From<CodegenError>> From<CodegenError> for Refusal<E> {
    fn from(error: CodegenError) -> Self {
        match error {
            CodegenError::TooLarge(..) | CodegenError::Stack => Refusal::TooMuch(error.into()),
            error => Refusal::Other(error.into()),
        }
    }
}

/// Code that was taken: one program, or parts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Accepted<T> {
    /// The tier.
    pub tier: Tier,
    /// What received packets enter.
    pub first: T,
    /// The others, by the PPF that they begin with.
    pub parts: Vec<(PpfId, T)>,
}

impl Accepted<Object> {
    /// Offers code that was taken before, with the numbers of this process.
    pub(super) fn offer<T: Send, E: From<CodegenError> + Send>(
        self,
        memory: &Memory,
        offer: &(impl Fn(&Object) -> Result<T, Refusal<E>> + Sync),
    ) -> Result<Accepted<T>, Refusal<E>> {
        let (ppfs, parts): (Vec<PpfId>, Vec<Object>) = self.parts.into_iter().unzip();
        let objects: Vec<Object> = [self.first].into_iter().chain(parts).collect();
        let length = |object: &Object| object.code.len() / SLOT;
        let mut taken = parallel::each(&objects, length, |object| offer(&filled(object.clone(), memory)?))?;
        let first = taken.remove(0);
        Ok(Accepted { tier: self.tier, first, parts: ppfs.into_iter().zip(taken).collect() })
    }
}

impl<T> Accepted<(T, Object)> {
    /// The code, and what became of it.
    fn apart(self) -> (Accepted<Object>, Accepted<T>) {
        let Accepted { tier, first: (first, object), parts } = self;
        let (parts, objects) = parts.into_iter().map(|(ppf, (part, object))| ((ppf, part), (ppf, object))).unzip();
        (Accepted { tier, first: object, parts: objects }, Accepted { tier, first, parts })
    }
}

/// No form was taken.
pub enum TierError<E> {
    /// This PPF is too much, for this reason.
    Ppf(PpfId, E),
    /// Something else is wrong.
    Other(E),
}

/// What is known of a program's code before it is offered.
pub enum Known {
    /// It was taken before: so many instructions.
    Accepted(usize),
    /// This PPF was too much, for this reason.
    TooMuch(PpfId, String),
}

/// What [`compile_tiered`] would find on disk.
pub fn known(program: &Program, packets: Level, memory: &Memory, options: Options, taker: &str) -> Option<Known> {
    Some(match Part::new(|| kept::key(program, packets, memory, options, taker)).find(Kept::read)? {
        Kept::TooMuch(ppf, why) => Known::TooMuch(ppf, why),
        Kept::Accepted(Accepted { first, parts, .. }) => {
            let objects = [&first].into_iter().chain(parts.iter().map(|(_, part)| part));
            Known::Accepted(objects.map(|object| object.code.len() / SLOT).sum())
        }
    })
}

/// Tries tier after tier until `offer` takes the code of a program, all of whose PPFs run in the kernel. What `taker`
/// took before is tried first, where it is kept on disk ([`crate::cache`]); it names what decides what is too much.
/// Parts are compiled and offered on several threads.
pub fn compile_tiered<T: Send, E: From<CodegenError> + Display + Send>(
    program: &Program,
    packets: Level,
    memory: &Memory,
    options: Options,
    taker: &str,
    offer: impl Fn(&Object) -> Result<T, Refusal<E>> + Sync,
) -> Result<Accepted<T>, TierError<E>> {
    let mut part = match options.text {
        true => Part::unkept(),
        false => Part::new(|| kept::key(program, packets, memory, options, taker)),
    };
    match part.find(Kept::read) {
        Some(Kept::TooMuch(ppf, why)) => {
            part.done(true);
            return Err(TierError::Ppf(ppf, CodegenError::Found(why).into()));
        }
        Some(Kept::Accepted(code)) => match code.offer(memory, &offer) {
            Ok(accepted) => {
                part.done(true);
                return Ok(accepted);
            }
            Err(Refusal::TooMuch(error) | Refusal::Other(error)) => part.is_useless(&error.to_string()),
        },
        None => {}
    }
    let result = compile_anew(program, packets, memory, options, |object| {
        let filled = filled(object.clone(), memory)?;
        Ok((offer(&filled)?, object))
    });
    let result = match result {
        Ok(accepted) => {
            let (code, taken) = accepted.apart();
            part.keep(|writer| Kept::Accepted(code).write(writer));
            Ok(taken)
        }
        Err(error) => {
            if let TierError::Ppf(ppf, why) = &error {
                part.keep(|writer| Kept::TooMuch(*ppf, why.to_string()).write(writer));
            }
            Err(error)
        }
    };
    part.done(false);
    result
}

/// Tries tier after tier.
fn compile_anew<T: Send, E: From<CodegenError> + Send>(
    program: &Program,
    packets: Level,
    memory: &Memory,
    options: Options,
    offer: impl Fn(Object) -> Result<T, Refusal<E>> + Sync,
) -> Result<Accepted<T>, TierError<E>> {
    let make = |program: &Program, unit, spill| {
        let options = Options { spill, ..options };
        offer(with_module(program, unit, memory, options, super::read(options))?)
    };
    let first = rx_ppf(program);
    if !options.apart || first.is_none() {
        let optimised = optimise(program, packets);
        if expanded(&optimised) <= WHOLE {
            for tier in [Tier::Whole, Tier::Spilled].into_iter().filter(|tier| *tier == Tier::Spilled || !options.spill)
            {
                match (make(&optimised, CompileUnit::Whole, tier == Tier::Spilled), first) {
                    (Ok(first), _) => return Ok(Accepted { tier, first, parts: Vec::new() }),
                    (Err(Refusal::TooMuch(_)), Some(_)) => {}
                    (Err(Refusal::TooMuch(error) | Refusal::Other(error)), _) => return Err(TierError::Other(error)),
                }
            }
        }
    }
    match apart(program, packets, AGGREGATE, options, &make) {
        Err(TierError::Ppf(..)) => {}
        Ok((first, parts)) => return Ok(Accepted { tier: Tier::Aggregates, first, parts }),
        Err(other) => return Err(other),
    }
    let (first, parts) = apart(program, packets, 0, options, &make)?;
    Ok(Accepted { tier: Tier::Ppfs, first, parts })
}

/// The first part, and the others.
type CompiledParts<T> = (T, Vec<(PpfId, T)>);

/// In parts with up to `largest` instructions.
fn apart<T: Send, E: From<CodegenError> + Send>(
    program: &Program,
    packets: Level,
    largest: usize,
    options: Options,
    make: &(impl Fn(&Program, CompileUnit, bool) -> Result<T, Refusal<E>> + Sync),
) -> Result<CompiledParts<T>, TierError<E>> {
    let parts = Parts::new(program, packets, largest).map_err(|error| TierError::Other(error.into()))?;
    if let Some(ppf) = parts.too_deep() {
        return Err(TierError::Ppf(ppf, CodegenError::Deep.into()));
    }
    let mut made = parallel::each(
        parts.roots(),
        |_| parallel::SMALL,
        |&root| {
            let make = |spill| make(parts.program(), CompileUnit::Part(root), spill);
            let part = match make(options.spill) {
                Err(Refusal::TooMuch(_)) if !options.spill => make(true),
                result => result,
            };
            match part {
                Ok(part) => Ok((root, part)),
                Err(Refusal::TooMuch(error)) => Err(TierError::Ppf(parts.largest(root), error)),
                Err(Refusal::Other(error)) => Err(TierError::Other(error)),
            }
        },
    )?;
    let (_, first) = made.remove(0);
    Ok((first, made))
}
