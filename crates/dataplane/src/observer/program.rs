//! What counts for one program, and for those that it has taken over from.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use baker::ir::{
    ChannelId, CounterId, CounterSlots, DropId, PpfId, PpfTimes, Program, Source, TableId, TableKind, Target, TimerId,
};

use super::snapshot::{LookUpSnapshot, Snapshot, TimeSnapshot, TimerSnapshot};
use crate::counters::CounterBlock;
use crate::externs::ExternTable;
use crate::xdp::KernelPart;

/// What counts for one program.
#[derive(Debug)]
pub(crate) struct Observed {
    pub program: Arc<Program>,
    pub blocks: Vec<Arc<CounterBlock>>,
    pub kernel: Option<Arc<KernelPart>>,
    pub externs: Option<Arc<ExternTable>>,
    /// What it goes on from.
    pub before: Mutex<Before>,
}

/// What programs counted that were there before.
#[derive(Debug)]
pub(crate) enum Before {
    /// The last one still finishes packets.
    Finishing(Arc<Observed>),
    /// All have finished.
    Finished(Box<Snapshot>),
}

impl Default for Before {
    fn default() -> Self {
        Before::Finished(Box::default())
    }
}

impl Observed {
    fn before(&self) -> MutexGuard<'_, Before> {
        self.before.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What counted for programs before is final.
    pub(super) fn finished(&self) {
        let mut before = self.before();
        if let Before::Finishing(last) = &*before {
            *before = Before::Finished(Box::new(last.snapshot()));
        }
    }

    /// All but ports.
    pub(super) fn snapshot(&self) -> Snapshot {
        let mut snapshot = self.own();
        match &*self.before() {
            Before::Finishing(last) => snapshot.add(&last.snapshot()),
            Before::Finished(all) => snapshot.add(all),
        }
        snapshot
    }

    /// How long packets were in this program's PPFs; empty where it does not measure that.
    pub(super) fn times(&self) -> Vec<TimeSnapshot> {
        let slots = CounterSlots::new(&self.program);
        let Some(times) = slots.times() else { return Vec::new() };
        let of = |(id, ppf): (PpfId, &baker::ir::Ppf)| TimeSnapshot {
            ppf: ppf.name.clone(),
            buckets: (0..PpfTimes::BUCKETS).map(|bucket| self.sum(times.bucket(id, bucket))).collect(),
            nanoseconds: self.sum(times.sum(id)),
        };
        (0..).map(PpfId).zip(&self.program.ppfs).map(of).collect()
    }

    /// Look-ups in this program's tables; empty where they are not counted.
    pub(super) fn look_ups(&self) -> Vec<LookUpSnapshot> {
        let slots = CounterSlots::new(&self.program);
        let of = |(id, table): (TableId, &baker::ir::Table)| {
            let slot = slots.look_ups(id).filter(|_| table.kind != TableKind::Array)?;
            Some(LookUpSnapshot { table: table.name.clone(), count: self.sum(slot), missed: self.sum(slot + 1) })
        };
        (0..).map(TableId).zip(&self.program.tables).filter_map(of).collect()
    }

    /// What a slot has on all workers and in the kernel.
    fn sum(&self, slot: usize) -> u64 {
        let kernel = self.kernel.as_ref().map_or(0, |part| part.counter(slot));
        self.blocks.iter().fold(kernel, |sum, block| sum.wrapping_add(block.get(slot)))
    }

    /// What this program counted.
    fn own(&self) -> Snapshot {
        let program = &self.program;
        let slots = CounterSlots::new(program);
        let sum = |slot: usize| self.sum(slot);
        let channel = |index: usize| sum(slots.channel(ChannelId(index as u32)));
        let into_ppf = |ppf: usize| {
            // What the kernel handed over has entered before.
            let enters = |c: &baker::ir::Channel| {
                c.from != Some(Source::Kernel) && matches!(c.target, Target::Ppf(id) if id.0 as usize == ppf)
            };
            let channels = program.channels.iter().enumerate().filter(|(_, c)| enters(c));
            channels.fold(0u64, |sum, (index, _)| sum.wrapping_add(channel(index)))
        };
        let user = |(index, counter): (usize, &baker::ir::Counter)| {
            let first = slots.user(CounterId(index as u32));
            (counter.name.clone(), (0..counter.size as usize).map(|cell| sum(first + cell)).collect())
        };
        let timer = |(id, timer): (u32, &baker::ir::Timer)| TimerSnapshot {
            name: timer.name.clone(),
            table: timer.over(program).map(str::to_owned),
            period: timer.period,
            runs: sum(slots.timer_runs(TimerId(id))),
            entries: sum(slots.timer_entries(TimerId(id))),
        };
        let channels = program.channels.iter().enumerate();
        let ppfs = program.ppfs.iter().enumerate();
        let drops = (0..).map(DropId).zip(&program.drop_reasons).filter(|(id, _)| *id != DropId::ENDED);
        let tables = program.tables.iter().enumerate();
        Snapshot {
            channels: channels.map(|(i, c)| (c.name.clone(), channel(i))).collect(),
            ppfs: ppfs.map(|(i, p)| (p.name.clone(), into_ppf(i))).collect(),
            drops: drops.map(|(id, reason)| (reason.name.clone(), sum(slots.drop(id)))).collect(),
            ended: sum(slots.drop(DropId::ENDED)),
            tables_full: tables.map(|(i, t)| (t.name.clone(), sum(slots.table_full(TableId(i as u32))))).collect(),
            user: program.counters.iter().enumerate().map(user).collect(),
            timers: (0..).zip(&program.timers).map(timer).collect(),
            externs_failed: self.externs.iter().flat_map(|t| t.failed()).map(|(n, c)| (n.to_owned(), c)).collect(),
            controllers: Vec::new(),
            workers: Vec::new(),
            ports: Vec::new(),
        }
    }
}
