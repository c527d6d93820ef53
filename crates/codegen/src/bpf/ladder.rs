//! The forms that code for the kernel can have, tried one after the other until the kernel takes it.
//!
//! | rung | form | what it costs |
//! |---|---|---|
//! | [`Form::Whole`] | all in one function, values in registers | nothing |
//! | [`Form::Careful`] | as above, values that outlive their block in memory (see `careful`) | loads and stores |
//! | [`Form::Aggregates`] | parts of moderate size joined by tail calls (see `parts`) | headers are loaded again in each part |
//! | [`Form::Ppfs`] | as above, each PPF a part | tail calls at all channels |
//!
//! From each rung of parts, parts that are still too much are tried with values in memory; what is too much then cannot run in the
//! kernel, and its largest PPF is named.

use baker::ir::{PpfId, Program};
use baker::opt::{Level, optimise};

use super::parts::{Parts, expanded, rx_ppf};
use super::{Scope, with_module};
use crate::CodegenError;
use crate::kernel::{Memory, Object, Options};

/// A rung.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// One program.
    Whole,
    /// One program, values in memory.
    Careful,
    /// Parts of up to [`AGGREGATE`] instructions.
    Aggregates,
    /// A part for each PPF.
    Ppfs,
}

impl Form {
    /// In words.
    pub fn text(self) -> &'static str {
        match self {
            Form::Whole => "one program",
            Form::Careful => "one program that keeps values in memory",
            Form::Aggregates => "several programs joined by tail calls",
            Form::Ppfs => "a program for each PPF, joined by tail calls",
        }
    }

    /// Its name in JSON.
    pub fn name(self) -> &'static str {
        match self {
            Form::Whole => "whole",
            Form::Careful => "careful",
            Form::Aggregates => "aggregates",
            Form::Ppfs => "ppfs",
        }
    }
}

/// Instructions of the IR that an aggregate of [`Form::Aggregates`] has at most, before it is optimised.
const AGGREGATE: usize = 300;
/// Instructions of the IR of a program for which one function is tried. LLVM takes long for more, and the verifier never took it.
const WHOLE: usize = 1500;

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
#[derive(Clone, Debug)]
pub struct Taken<T> {
    /// The rung.
    pub form: Form,
    /// What received packets enter.
    pub first: T,
    /// The others, by the PPF that they begin with.
    pub parts: Vec<(PpfId, T)>,
}

/// No form was taken.
pub enum Misfit<E> {
    /// This PPF is too much, for this reason.
    Ppf(PpfId, E),
    /// Something else is wrong.
    Other(E),
}

/// Climbs down until `offer` takes the code of a program, all of whose PPFs run in the kernel.
pub fn fit<T, E: From<CodegenError>>(
    program: &Program,
    packets: Level,
    memory: &Memory,
    options: Options,
    mut offer: impl FnMut(&Object) -> Result<T, Refusal<E>>,
) -> Result<Taken<T>, Misfit<E>> {
    let mut make = |program: &Program, scope, careful| {
        let options = Options { careful, ..options };
        offer(&with_module(program, scope, memory, options, super::read)?)
    };
    let first = rx_ppf(program);
    if !options.apart || first.is_none() {
        let optimised = optimise(program, packets);
        if expanded(&optimised) <= WHOLE {
            for form in
                [Form::Whole, Form::Careful].into_iter().filter(|form| *form == Form::Careful || !options.careful)
            {
                match (make(&optimised, Scope::Whole, form == Form::Careful), first) {
                    (Ok(first), _) => return Ok(Taken { form, first, parts: Vec::new() }),
                    (Err(Refusal::TooMuch(_)), Some(_)) => {}
                    (Err(Refusal::TooMuch(error) | Refusal::Other(error)), _) => return Err(Misfit::Other(error)),
                }
            }
        }
    }
    match apart(program, packets, AGGREGATE, options, &mut make) {
        Err(Misfit::Ppf(..)) => {}
        Ok((first, parts)) => return Ok(Taken { form: Form::Aggregates, first, parts }),
        Err(other) => return Err(other),
    }
    let (first, parts) = apart(program, packets, 0, options, &mut make)?;
    Ok(Taken { form: Form::Ppfs, first, parts })
}

/// The first part, and the others.
type Made<T> = (T, Vec<(PpfId, T)>);

/// In parts with up to `largest` instructions.
fn apart<T, E: From<CodegenError>>(
    program: &Program,
    packets: Level,
    largest: usize,
    options: Options,
    make: &mut impl FnMut(&Program, Scope, bool) -> Result<T, Refusal<E>>,
) -> Result<Made<T>, Misfit<E>> {
    let parts = Parts::new(program, packets, largest).map_err(|error| Misfit::Other(error.into()))?;
    if let Some(ppf) = parts.too_deep() {
        return Err(Misfit::Ppf(ppf, CodegenError::Deep.into()));
    }
    let mut made = Vec::new();
    for &root in parts.roots() {
        let mut make = |careful| make(parts.program(), Scope::Part(root), careful);
        let part = match make(options.careful) {
            Err(Refusal::TooMuch(_)) if !options.careful => make(true),
            result => result,
        };
        match part {
            Ok(part) => made.push((root, part)),
            Err(Refusal::TooMuch(error)) => return Err(Misfit::Ppf(parts.largest(root), error)),
            Err(Refusal::Other(error)) => return Err(Misfit::Other(error)),
        }
    }
    let (_, first) = made.remove(0);
    Ok((first, made))
}
