//! The placer: which PPFs run in the kernel's XDP hook, and which on workers.
//!
//! What crosses a channel is the packet, its metadata and the channel's number, nothing else. So a program can be cut
//! at any channel, and also in front of a PPF that has changed nothing yet:
//!
//! ```text
//! rx ─▶ classify ─▶ route ─▶ tx            kernel:   rx ─▶ classify ─▶ route ─▶ tx
//!            └────▶ reassemble ─▶ tx                           └────▶ (worker)
//!                                           workers:            (kernel) ─▶ reassemble ─▶ tx
//! ```
//!
//! In the kernel is every PPF that can run there and that packets come to from `rx` through such PPFs alone: a packet
//! that has gone to a worker does not come back. Workers have all PPFs, since packets of controllers, too, go through
//! them; a PPF that both run works on the same tables.
//!
//! A PPF that cannot do an operation in the kernel hands the packet over there, to be begun again by a worker, if
//! nothing was changed on any path from its start to that operation. Otherwise all of it is the workers'.

mod clean;
mod split;

pub use split::{Split, split};

use std::collections::BTreeMap;

use crate::diag::Diagnostic;
use crate::ir::{ChannelId, Inst, Pin, Ppf, PpfId, Program, Target, Times};
use crate::source::Span;

/// Why an operation cannot be done; `None` where it can.
pub type Test<'a> = Box<dyn Fn(&Inst) -> Option<String> + 'a>;

/// What the kernel cannot do, in words that go on "it …".
pub struct Limits<'a> {
    /// What keeps the whole program out.
    pub whole: Vec<String>,
    /// Why an operation cannot be done there.
    pub operation: Test<'a>,
    /// Why one may fail there that would not on workers: PPFs with it are the workers', unless they are pinned to the
    /// kernel.
    pub unsure: Test<'a>,
    /// PPFs that turned out to be too much, and why.
    pub ppfs: BTreeMap<PpfId, String>,
}

impl Limits<'_> {
    /// Why the kernel is not to do an operation of a PPF.
    fn refusal(&self, ppf: &Ppf, inst: &Inst) -> Option<String> {
        let unsure = || (self.unsure)(inst).filter(|_| ppf.pin != Some(Pin::Kernel));
        (self.operation)(inst).or_else(unsure)
    }
}

/// An operation that the kernel cannot do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Obstacle {
    /// Why.
    pub reason: String,
    /// Where.
    pub span: Option<Span>,
}

/// Where a PPF runs, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Stage {
    /// In the kernel; from each obstacle's path on by a worker, from the PPF's start.
    Kernel(Vec<Obstacle>),
    /// On workers, for the kernel cannot do it: the first obstacle behind a change, or what keeps the program out.
    Cannot(Obstacle),
    /// On workers, for it is pinned there.
    Pinned,
    /// On workers, for no packet comes to it in the kernel.
    Behind,
}

/// Where each PPF runs.
#[derive(Clone, Debug)]
pub struct Placement {
    /// By PPF.
    pub stages: Vec<Stage>,
    /// Channels from the kernel to workers.
    pub cuts: Vec<ChannelId>,
}

impl Placement {
    /// Places a program as it was lowered, before packet accesses are optimised. The errors: a PPF that is pinned to
    /// the kernel cannot run there.
    pub fn new(program: &Program, limits: &Limits) -> Result<Placement, Vec<Diagnostic>> {
        let times = Times::new(program);
        let mut stages = vec![Stage::Behind; program.ppfs.len()];
        let mut cuts = Vec::new();
        let mut work = vec![Program::RX];
        while let Some(channel) = work.pop() {
            let Target::Ppf(PpfId(ppf)) = program.channels[channel.0 as usize].target else { continue };
            let stage = &mut stages[ppf as usize];
            if *stage == Stage::Behind {
                *stage = own_stage(program, PpfId(ppf), limits, &times);
                if matches!(stage, Stage::Kernel(_)) {
                    work.extend(program.ppfs[ppf as usize].body.puts());
                }
            }
            if !matches!(stage, Stage::Kernel(_)) && !cuts.contains(&channel) {
                cuts.push(channel);
            }
        }
        cuts.sort();
        let placement = Placement { stages, cuts };
        let errors: Vec<Diagnostic> =
            program.ppfs.iter().zip(&placement.stages).filter_map(|(ppf, stage)| contradiction(ppf, stage)).collect();
        if errors.is_empty() { Ok(placement) } else { Err(errors) }
    }

    /// Whether a PPF runs in the kernel.
    pub fn is_kernel(&self, ppf: PpfId) -> bool {
        matches!(self.stages[ppf.0 as usize], Stage::Kernel(_))
    }

    /// Whether anything runs in the kernel.
    pub fn any_kernel(&self) -> bool {
        self.stages.iter().any(|stage| matches!(stage, Stage::Kernel(_)))
    }
}

/// Where a PPF runs that packets come to in the kernel.
fn own_stage(program: &Program, id: PpfId, limits: &Limits, times: &Times) -> Stage {
    let ppf = &program.ppfs[id.0 as usize];
    if ppf.pin == Some(Pin::Worker) {
        return Stage::Pinned;
    }
    if let Some(reason) = limits.whole.first().or_else(|| limits.ppfs.get(&id)) {
        return Stage::Cannot(Obstacle { reason: reason.clone(), span: ppf.span });
    }
    let clean = clean::clean(&ppf.body, times);
    let mut punts: Vec<Obstacle> = Vec::new();
    for (block, unchanged) in ppf.body.blocks.iter().zip(clean) {
        for (index, inst) in block.insts.iter().enumerate() {
            let Some(reason) = limits.refusal(ppf, inst) else { continue };
            let obstacle = Obstacle { reason, span: inst.span };
            if unchanged.is_none_or(|unchanged| index > unchanged) {
                return Stage::Cannot(obstacle);
            }
            if !punts.contains(&obstacle) {
                punts.push(obstacle);
            }
            // What follows does not run.
            break;
        }
    }
    // Its first operation on all paths: nothing would be gained.
    let entry = &ppf.body.blocks[0];
    match entry.insts.iter().find_map(|inst| limits.refusal(ppf, inst).map(|reason| (reason, inst.span))) {
        Some((reason, span)) => Stage::Cannot(Obstacle { reason, span }),
        None => Stage::Kernel(punts),
    }
}

fn contradiction(ppf: &Ppf, stage: &Stage) -> Option<Diagnostic> {
    let (Some(Pin::Kernel), Some(span)) = (ppf.pin, ppf.span) else { return None };
    let error = Diagnostic::new("cannot-be-pinned", span, format!("`{}` cannot run in the kernel", ppf.name));
    let error = error.label("pinned to the kernel");
    Some(match stage {
        Stage::Kernel(_) | Stage::Pinned => return None,
        Stage::Cannot(Obstacle { reason, span }) => error.also(span.unwrap_or(ppf.span?), reason.clone()),
        Stage::Behind => error.hint("packets come to it from workers only, and do not go back to the kernel"),
    })
}
