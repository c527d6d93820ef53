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
//!
//! A copy is such an operation, unless all that it goes through is the workers' or a controller's: then it leaves the
//! kernel by a ring ([`Tap`]), and the packet stays.

mod clean;
mod split;
mod taps;

pub use split::{Split, split};
pub use taps::Tap;

/// A deadline of a table's entries that the kernel sets: a worker is told by a ring, and runs its timer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Deadline {
    /// The table.
    pub table: TableId,
    /// Where it is set.
    pub span: Option<Span>,
}

use std::collections::BTreeMap;

use crate::diag::Diagnostic;
use crate::ir::{ChannelId, Inst, Op, Pin, Ppf, PpfId, Program, TableId, Target, Times};
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
    /// By PPF: the copies that leave it by a ring, where it runs in the kernel.
    pub taps: Vec<Vec<Tap>>,
    /// By PPF: where it sets deadlines, where it runs in the kernel.
    pub deadlines: Vec<Vec<Deadline>>,
    /// Channels from the kernel to workers.
    pub cuts: Vec<ChannelId>,
}

impl Placement {
    /// Places a program as it was lowered, before packet accesses are optimised. The errors: a PPF that is pinned to
    /// the kernel cannot run there.
    pub fn new(program: &Program, limits: &Limits) -> Result<Placement, Vec<Diagnostic>> {
        let mut placer = Placer::new(program, limits);
        let mut ppfs = vec![Placed::workers(Stage::Behind); program.ppfs.len()];
        let mut cuts = Vec::new();
        let mut work = vec![Program::RX];
        while let Some(channel) = work.pop() {
            let Target::Ppf(PpfId(ppf)) = program.channels[channel.0 as usize].target else { continue };
            let placed = &mut ppfs[ppf as usize];
            if placed.stage == Stage::Behind {
                *placed = placer.stage(PpfId(ppf)).clone();
                if placed.is_kernel() {
                    work.extend(program.ppfs[ppf as usize].body.puts());
                }
            }
            if !placed.is_kernel() && !cuts.contains(&channel) {
                cuts.push(channel);
            }
        }
        cuts.sort();
        let mut placement = Placement { stages: Vec::new(), taps: Vec::new(), deadlines: Vec::new(), cuts };
        for Placed { stage, taps, deadlines } in ppfs {
            placement.stages.push(stage);
            placement.taps.push(taps);
            placement.deadlines.push(deadlines);
        }
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

/// Where a PPF runs, and what leaves it by a ring where that is the kernel.
#[derive(Clone)]
struct Placed {
    stage: Stage,
    taps: Vec<Tap>,
    deadlines: Vec<Deadline>,
}

impl Placed {
    fn workers(stage: Stage) -> Self {
        Placed { stage, taps: Vec::new(), deadlines: Vec::new() }
    }

    fn is_kernel(&self) -> bool {
        matches!(self.stage, Stage::Kernel(_))
    }
}

/// Where PPFs run that packets come to in the kernel.
struct Placer<'p> {
    program: &'p Program,
    limits: &'p Limits<'p>,
    times: Times,
    /// As far as it was asked.
    known: Vec<Option<Placed>>,
}

impl<'p> Placer<'p> {
    fn new(program: &'p Program, limits: &'p Limits<'p>) -> Self {
        Placer { program, limits, times: Times::new(program), known: vec![None; program.ppfs.len()] }
    }

    /// Of one.
    fn stage(&mut self, id: PpfId) -> &Placed {
        if self.known[id.0 as usize].is_none() {
            let found = self.own_stage(id);
            self.known[id.0 as usize] = Some(found);
        }
        self.known[id.0 as usize].as_ref().expect("it was found")
    }

    /// Whether a copy that is put to a channel has nothing more to do with the kernel.
    fn leads_out(&mut self, channel: ChannelId) -> bool {
        match self.program.channels[channel.0 as usize].target {
            Target::Controller(_) | Target::Queue(..) | Target::Group(..) => true,
            Target::Tx | Target::Host => false,
            // Channels make no cycle.
            Target::Ppf(ppf) => !self.stage(ppf).is_kernel(),
        }
    }

    fn own_stage(&mut self, id: PpfId) -> Placed {
        let (program, limits) = (self.program, self.limits);
        let ppf = &program.ppfs[id.0 as usize];
        if ppf.pin == Some(Pin::Worker) {
            return Placed::workers(Stage::Pinned);
        }
        if let Some(reason) = limits.whole.first().or_else(|| limits.ppfs.get(&id)) {
            return Placed::workers(Stage::Cannot(Obstacle { reason: reason.clone(), span: ppf.span }));
        }
        let clean = clean::clean(&ppf.body, &self.times);
        let (mut punts, mut taps, mut deadlines) = (Vec::<Obstacle>::new(), Vec::new(), Vec::new());
        for (index, (block, unchanged)) in ppf.body.blocks.iter().zip(clean).enumerate() {
            let tapped = taps::of_block(&block.insts, |channel| self.leads_out(channel));
            let refusal = |(at, inst): (usize, &Inst)| {
                let is_tap = tapped.iter().any(|tap| tap.copy == at);
                limits.refusal(ppf, inst).filter(|_| !is_tap).map(|reason| (at, Obstacle { reason, span: inst.span }))
            };
            let refused = block.insts.iter().enumerate().find_map(refusal);
            // What follows does not run.
            let end = refused.as_ref().map_or(block.insts.len(), |(at, _)| *at);
            let before = tapped.iter().filter(|tap| tap.put < end);
            taps.extend(before.map(|tap| Tap { channel: tap.channel, span: block.insts[tap.copy].span }));
            deadlines.extend(block.insts[..end].iter().filter_map(|inst| match inst.op {
                Op::SetDeadline { table, .. } => Some(Deadline { table, span: inst.span }),
                _ => None,
            }));
            let Some((at, obstacle)) = refused else { continue };
            // Behind a change it can't be begun again; as the first operation on all paths nothing would be gained.
            if index == 0 || unchanged.is_none_or(|unchanged| at > unchanged) {
                return Placed::workers(Stage::Cannot(obstacle));
            }
            if !punts.contains(&obstacle) {
                punts.push(obstacle);
            }
        }
        Placed { stage: Stage::Kernel(punts), taps, deadlines }
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
