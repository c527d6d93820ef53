//! What is cached, and where.

use std::collections::BTreeSet;

use crate::ir::*;

/// What is cached.
#[derive(Clone, Debug)]
pub struct CacheOptions {
    /// Metadata, too; else only headers and heads.
    pub(super) metadata: bool,
    /// Bodies that packets enter from `rx` only, so that their metadata is zero but for `rx.port`.
    pub(super) fresh: BTreeSet<PpfId>,
    /// Loads all headers at once where a packet is long enough for them; else each where the program has found it.
    pub(super) ahead: bool,
    /// The PPFs to optimise; `None`: all.
    pub(super) only: Option<BTreeSet<PpfId>>,
}

impl CacheOptions {
    /// Each PPF for itself.
    pub fn ppf() -> CacheOptions {
        CacheOptions { metadata: false, fresh: BTreeSet::new(), ahead: false, only: None }
    }

    /// Whole aggregates of a program that was aggregated.
    pub fn aggregate(program: &Program) -> CacheOptions {
        let reached = program.reached_ppfs().into_iter().zip(0..);
        let roots = reached.filter(|(reached, _)| *reached).map(|(_, ppf)| PpfId(ppf)).collect();
        let puts = |to: PpfId| {
            let channels = || program.channels.iter().enumerate().filter(move |(_, c)| c.target == Target::Ppf(to));
            let put = |id: usize| {
                program
                    .bodies()
                    .flat_map(|body| &body.blocks)
                    .flat_map(|block| &block.insts)
                    .any(|inst| matches!(inst.op, Op::Put { channel, .. } if channel.0 as usize == id))
            };
            // What a controller injects has metadata of any kind.
            let others = channels().filter(|(id, _)| *id != Program::RX.0 as usize);
            others.into_iter().any(|(id, channel)| channel.from.is_some() || put(id))
        };
        let fresh = match program.channels[Program::RX.0 as usize].target {
            Target::Ppf(first) if !puts(first) => [first].into(),
            _ => BTreeSet::new(),
        };
        CacheOptions { metadata: true, fresh, ahead: true, only: Some(roots) }
    }
}
