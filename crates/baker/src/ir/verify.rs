//! The verifier: what every pass must leave true and every engine may rely on.
//!
//! Checked in this order, later checks only where the earlier ones found nothing, so that one fault gives one error:
//! ids and declarations; per PPF the shape of its blocks, then types, then that definitions dominate uses, then packet
//! ownership, locks and null tests; last, that no packet can run in a circle.

mod declarations;
mod definitions;
mod entries;
mod locks;
mod packets;
mod shape;
mod types;
mod wiring;

use std::convert::Infallible;

use super::analysis::{Cfg, Definitions, Dominators};
use super::inst::*;
use super::program::*;
use crate::parallel;

/// A rule that a program breaks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VerifyError {
    /// Name of the PPF or timer, if it is in one.
    pub ppf: Option<String>,
    /// The block, if it is in one.
    pub block: Option<BlockId>,
    /// What is wrong.
    pub message: String,
}

impl std::fmt::Display for VerifyError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if let Some(ppf) = &self.ppf {
            write!(f, "ppf {ppf}: ")?;
        }
        if let Some(block) = self.block {
            write!(f, "b{}: ", block.0)?;
        }
        f.write_str(&self.message)
    }
}

impl std::error::Error for VerifyError {}

/// Checks the whole program. Errors come in the order of the program's text.
pub fn verify(program: &Program) -> Result<(), Vec<VerifyError>> {
    let mut errors = Errors { list: Vec::new(), ppf: None };
    declarations::check(program, &mut errors);
    if errors.list.is_empty() {
        let timers = program.timers.iter().map(|timer| (&timer.name, &timer.body, timer.params(program)));
        let ppfs = program.ppfs.iter().map(|ppf| (&ppf.name, &ppf.body, vec![Ty::Packet(ppf.protocol)]));
        let bodies: Vec<(&String, &Body, Vec<Ty>)> = timers.chain(ppfs).collect();
        let found = parallel::each(
            &bodies,
            |(_, body, _)| body.size(),
            |(name, body, params)| {
                let mut errors = Errors { list: Vec::new(), ppf: Some((*name).clone()) };
                verify_body(program, body, params, &mut errors);
                Ok::<_, Infallible>(errors.list)
            },
        );
        let Ok(found) = found;
        errors.list.extend(found.into_iter().flatten());
    }
    if errors.list.is_empty() {
        wiring::check(program, &mut errors);
    }
    if errors.list.is_empty() { Ok(()) } else { Err(errors.list) }
}

/// A body whose entry block takes parameters of these types.
fn verify_body(program: &Program, body: &Body, params: &[Ty], errors: &mut Errors) {
    let before = errors.list.len();
    let clean = |errors: &Errors| errors.list.len() == before;
    shape::check(program, body, params, errors);
    if clean(errors) {
        types::check(program, body, errors);
    }
    if clean(errors) {
        let analyses = Analyses::new(body);
        definitions::check(body, &analyses, errors);
        if clean(errors) {
            packets::check(body, &analyses.cfg, errors);
            locks::check(body, &analyses.cfg, errors);
            entries::check(program, body, &analyses, errors);
        }
    }
}

/// What the checks of a body ask of it.
struct Analyses<'b> {
    cfg: Cfg,
    definitions: Definitions<'b>,
    dominators: Dominators,
}

impl<'b> Analyses<'b> {
    fn new(body: &'b Body) -> Self {
        let cfg = Cfg::new(body);
        Analyses { definitions: Definitions::new(body), dominators: Dominators::new(&cfg), cfg }
    }
}

/// The errors found so far.
struct Errors {
    list: Vec<VerifyError>,
    /// The PPF or timer being checked.
    ppf: Option<String>,
}

impl Errors {
    /// Adds an error in a block.
    fn at(&mut self, block: BlockId, message: String) {
        self.list.push(VerifyError { ppf: self.ppf.clone(), block: Some(block), message });
    }

    /// Adds an error of the PPF or the program as a whole.
    fn add(&mut self, message: String) {
        self.list.push(VerifyError { ppf: self.ppf.clone(), block: None, message });
    }
}

/// Blocks with their ids.
fn blocks(body: &Body) -> impl Iterator<Item = (BlockId, &Block)> {
    body.blocks.iter().enumerate().map(|(i, block)| (BlockId(i as u32), block))
}
