//! Pins: where PPFs have to run.

use super::names::Checker;
use crate::diag::Diagnostic;
use crate::ir::{Pin, PpfId, Program, Target};
use crate::source::FileId;
use crate::syntax::ast;

impl Checker<'_> {
    /// The pin of a PPF, if it has one.
    pub(super) fn pin(&mut self, file: FileId, ppf: &ast::Ppf) -> Option<Pin> {
        let targets: Vec<ast::Name> = ppf.pins().filter_map(|pin| pin.target()).collect();
        let target = targets.first()?;
        if let Some(second) = targets.get(1) {
            self.error(
                Diagnostic::new("two-pins", second.span(file), "a PPF has one pin")
                    .label("another pin")
                    .also(target.span(file), "the first one"),
            );
        }
        let pin = Pin::ALL.into_iter().find(|(_, name)| *name == target.text()).map(|(pin, _)| pin);
        if pin.is_none() {
            let title = format!("there is no pin `@{}`", target.text());
            self.error(
                Diagnostic::new("unknown-pin", target.span(file), title)
                    .label("not a place where PPFs run")
                    .hint("`@kernel` keeps a PPF in the kernel's XDP hook, `@worker` on workers"),
            );
        }
        pin
    }

    /// Reports PPFs that are to run in the kernel and that packets come to from workers only: they do not go back.
    pub(super) fn check_pins(&mut self) {
        let edges = self.edges();
        let Target::Ppf(root) = self.hir.channels[Program::RX.0 as usize].target else { return };
        let is_pinned = |ppf: PpfId, pin| self.hir.ppfs[ppf.0 as usize].pin == Some(pin);
        let mut seen = vec![false; edges.len()];
        let mut work = vec![root];
        while let Some(ppf) = work.pop() {
            if !is_pinned(ppf, Pin::Worker) && !std::mem::replace(&mut seen[ppf.0 as usize], true) {
                work.extend(edges[ppf.0 as usize].iter().map(|(next, _)| *next));
            }
        }
        let on_workers = |ppf: &PpfId| is_pinned(*ppf, Pin::Kernel) && !seen[ppf.0 as usize];
        let behind: Vec<PpfId> = (0..edges.len() as u32).map(PpfId).filter(on_workers).collect();
        for ppf in behind {
            let ppf = &self.hir.ppfs[ppf.0 as usize];
            // In each instance of a module again.
            if self.errors.iter().any(|error| error.primary.span == ppf.span) {
                continue;
            }
            let title = format!("`{}` cannot run in the kernel", ppf.name);
            let mut error = Diagnostic::new("pins-contradict", ppf.span, title)
                .label("pinned to the kernel, but packets come to it from workers only")
                .hint("a packet that has gone to a worker does not go back to the kernel's fast path");
            if let Some(worker) = self.hir.ppfs.iter().find(|ppf| ppf.pin == Some(Pin::Worker)) {
                error = error.also(worker.span, "pinned to workers");
            }
            self.error(error);
        }
    }
}
