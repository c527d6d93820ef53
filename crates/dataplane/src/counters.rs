//! Counters: one block per worker that only it writes, and the sums by name that everybody else reads.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::controller::{ControllerSnapshot, ExternTable, Roster};
use crate::ports::Count;
use crate::xdp::{FastPath, KernelPart};
use baker::ir::{ChannelId, CounterId, CounterSlots, DropId, Program, Source, TableId, Target, TimerId};

#[repr(align(64))]
#[derive(Debug, Default)]
struct Line([AtomicU64; 8]);

/// A worker's counters, in the order of `CounterSlots`, in cache lines of their own.
#[derive(Debug)]
pub struct CounterBlock {
    lines: Box<[Line]>,
}

impl CounterBlock {
    /// `len` counters, all zero.
    pub fn new(len: usize) -> Self {
        CounterBlock { lines: (0..len.div_ceil(8).max(1)).map(|_| Line::default()).collect() }
    }

    /// The block as generated code writes it.
    pub(crate) fn as_ptr(&self) -> *mut u64 {
        self.lines.as_ptr().cast::<u64>().cast_mut()
    }

    /// A counter's value.
    pub fn get(&self, slot: usize) -> u64 {
        self.lines[slot / 8].0[slot % 8].load(Ordering::Relaxed)
    }

    /// Adds to a counter. Only the worker that the block belongs to may call it.
    pub(crate) fn add(&self, slot: usize, amount: u64) {
        // One writer, so no read-modify-write instruction is needed.
        let cell = &self.lines[slot / 8].0[slot % 8];
        cell.store(cell.load(Ordering::Relaxed).wrapping_add(amount), Ordering::Relaxed);
    }
}

/// What one worker's queue of a port did. Written by that worker once per batch, in cache lines of its own.
#[derive(Debug, Default)]
#[repr(align(64))]
pub struct PortCounters {
    /// Packets received. This and the three below are 0 of a port with a fast path, where the interface counts.
    pub rx_packets: AtomicU64,
    /// Bytes received, from the Ethernet header on.
    pub rx_bytes: AtomicU64,
    /// Packets sent.
    pub tx_packets: AtomicU64,
    /// Bytes sent.
    pub tx_bytes: AtomicU64,
    /// Packets that could not be sent; also counted as drop reason `tx_failed`.
    pub tx_failed: AtomicU64,
    /// Packets that the kernel dropped before they were received: its ring was full.
    pub rx_dropped: AtomicU64,
    /// Packets received that were longer than a frame can hold.
    pub oversize: AtomicU64,
    /// Packets received whose checksum, or division into segments, was left to hardware that is not there; where the driver can tell.
    pub unfinished: AtomicU64,
    /// The last error of the driver while running.
    error: Mutex<Option<String>>,
}

impl PortCounters {
    /// Keeps the driver's error for whoever looks, or that there is none any more.
    pub fn set_error(&self, error: Option<impl ToString>) {
        *self.error.lock().expect("no panic under this lock") = error.map(|error| error.to_string());
    }

    /// What is wrong at the port now, in the driver's words.
    pub fn error(&self) -> Option<String> {
        self.error.lock().expect("no panic under this lock").clone()
    }
}

/// A port's counters at one time. Packets and bytes since the start.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PortSnapshot {
    /// The port's name.
    pub name: String,
    /// Its number, as in `rx.port` and `tx.port`.
    pub number: u8,
    /// `DRIVER:DEVICE`.
    pub device: String,
    /// See [`PortCounters`].
    pub rx_packets: u64,
    /// See [`PortCounters`].
    pub rx_bytes: u64,
    /// See [`PortCounters`].
    pub tx_packets: u64,
    /// See [`PortCounters`].
    pub tx_bytes: u64,
    /// See [`PortCounters`].
    pub tx_failed: u64,
    /// See [`PortCounters`].
    pub rx_dropped: u64,
    /// See [`PortCounters`].
    pub oversize: u64,
    /// See [`PortCounters`].
    pub unfinished: u64,
    /// What is wrong at the port now.
    pub error: Option<String>,
}

/// What a timer did since the start.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TimerSnapshot {
    /// Its full name.
    pub name: String,
    /// The table that it goes over.
    pub table: Option<String>,
    /// Nanoseconds from one start to the next.
    pub period: u64,
    /// How often it began to run.
    pub runs: u64,
    /// Entries that it ran for; 0 where it goes over no table. One that is removed at that moment is counted, too.
    pub entries: u64,
}

/// All counters at one time, summed over the workers, by name, in the program's order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Snapshot {
    /// Packets put to each channel; the first is `rx`.
    pub channels: Vec<(String, u64)>,
    /// Packets that entered each PPF: the sum of the channels that lead to it.
    pub ppfs: Vec<(String, u64)>,
    /// Packets dropped, by reason.
    pub drops: Vec<(String, u64)>,
    /// Insertions that a full table refused.
    pub tables_full: Vec<(String, u64)>,
    /// Cells of the program's own counters.
    pub user: Vec<(String, Vec<u64>)>,
    /// Timers.
    pub timers: Vec<TimerSnapshot>,
    /// Calls of functions of controllers that failed and gave 0.
    pub externs_failed: Vec<(String, u64)>,
    /// Controllers.
    pub controllers: Vec<ControllerSnapshot>,
    /// Ports.
    pub ports: Vec<PortSnapshot>,
}

impl Snapshot {
    /// Packets dropped for a reason; 0 where there is no such reason.
    pub fn dropped(&self, reason: &str) -> u64 {
        self.drops.iter().find(|(name, _)| name == reason).map_or(0, |(_, count)| *count)
    }

    /// Packets put to a channel; 0 where there is no such channel.
    pub fn channel(&self, channel: &str) -> u64 {
        self.channels.iter().find(|(name, _)| name == channel).map_or(0, |(_, count)| *count)
    }

    /// Adds what another program counted under the same names. Functions of controllers count through.
    fn add(&mut self, other: &Snapshot) {
        let add = |mine: &mut Vec<(String, u64)>, others: &[(String, u64)]| {
            for (name, count) in mine {
                let other = others.iter().find(|(other, _)| other == name);
                *count = other.map_or(*count, |(_, more)| count.wrapping_add(*more));
            }
        };
        add(&mut self.channels, &other.channels);
        add(&mut self.ppfs, &other.ppfs);
        add(&mut self.drops, &other.drops);
        add(&mut self.tables_full, &other.tables_full);
        for (name, cells) in &mut self.user {
            let other = other.user.iter().find(|(other, _)| other == name);
            for (cell, more) in cells.iter_mut().zip(other.iter().flat_map(|(_, cells)| cells)) {
                *cell = cell.wrapping_add(*more);
            }
        }
        for timer in &mut self.timers {
            let other = other.timers.iter().find(|other| other.name == timer.name);
            timer.runs = timer.runs.wrapping_add(other.map_or(0, |other| other.runs));
            timer.entries = timer.entries.wrapping_add(other.map_or(0, |other| other.entries));
        }
    }

    /// A port by name.
    pub fn port(&self, name: &str) -> Option<&PortSnapshot> {
        self.ports.iter().find(|port| port.name == name)
    }
}

/// Reads an instance's counters from any thread, while it runs and after. It follows the instance from program to program.
#[derive(Clone, Debug)]
pub struct Observer {
    ports: Arc<Vec<ObservedPort>>,
    fast_path: Option<Arc<FastPath>>,
    controllers: Roster,
    now: Arc<Mutex<Arc<Observed>>>,
}

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

/// A port, for whoever looks.
#[derive(Clone, Debug)]
pub(crate) struct ObservedPort {
    pub name: String,
    pub number: u8,
    pub device: String,
    /// One per worker.
    pub counters: Vec<Arc<PortCounters>>,
    /// Who counts packets and bytes where workers do not see them all.
    pub count: Option<Arc<Count>>,
}

impl ObservedPort {
    fn error(&self) -> Option<String> {
        self.counters.iter().find_map(|counters| counters.error())
    }
}

impl Observer {
    pub(crate) fn new(observed: Observed, ports: Vec<ObservedPort>, fast_path: Option<Arc<FastPath>>) -> Self {
        let (controllers, now) = (Roster::default(), Arc::new(Mutex::new(Arc::new(observed))));
        Observer { ports: Arc::new(ports), fast_path, controllers, now }
    }

    /// Of a worker without ports.
    pub(crate) fn of_block(program: &Arc<Program>, block: Arc<CounterBlock>) -> Self {
        let observed = Observed {
            program: program.clone(),
            blocks: vec![block],
            kernel: None,
            externs: None,
            before: Mutex::default(),
        };
        Observer::new(observed, Vec::new(), None)
    }

    /// A program takes over from the one that is there, which may still have packets to finish.
    pub(crate) fn take_over(&self, observed: Observed) {
        let mut now = self.now.lock().unwrap_or_else(PoisonError::into_inner);
        *observed.before.lock().unwrap_or_else(PoisonError::into_inner) = Before::Finishing(now.clone());
        *now = Arc::new(observed);
    }

    /// It has no more.
    pub(crate) fn finished(&self) {
        self.now().finished();
    }

    /// What counts for the program that runs.
    pub(crate) fn now(&self) -> Arc<Observed> {
        self.now.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The latest error of each port that has one, by name.
    pub fn port_errors(&self) -> Vec<(String, String)> {
        self.ports.iter().filter_map(|port| Some((port.name.clone(), port.error()?))).collect()
    }

    /// Each port's name, and how many packets came in there unfinished and longer than a frame ([`PortCounters`]).
    pub fn misshapen(&self) -> impl Iterator<Item = (&str, u64, u64)> {
        let sum = |port: &ObservedPort, counter: fn(&PortCounters) -> &AtomicU64| -> u64 {
            port.counters.iter().map(|worker| counter(worker).load(Ordering::Relaxed)).sum()
        };
        let one = move |port: &ObservedPort| (sum(port, |c| &c.unfinished), sum(port, |c| &c.oversize));
        self.ports.iter().map(move |port| (&*port.name, one(port).0, one(port).1))
    }

    /// Where controllers are known that are started.
    pub(crate) fn roster(&self) -> Roster {
        self.controllers.clone()
    }

    /// The controllers that there are.
    pub fn controllers(&self) -> Vec<ControllerSnapshot> {
        self.controllers.snapshot()
    }

    /// The counters now. What is no more counted is left out.
    pub fn snapshot(&self) -> Snapshot {
        let kernel = self.fast_path.as_ref().map(|path| path.part());
        let failed = |port: u8| kernel.as_ref().map_or(0, |part| part.failed(port));
        let mut snapshot = self.now().snapshot();
        let unsent: u64 = (0..=u8::MAX).map(failed).sum();
        if let Some((_, drops)) = snapshot.drops.get_mut(DropId::TX_FAILED.0 as usize) {
            *drops = drops.wrapping_add(unsent);
        }
        snapshot.controllers = self.controllers();
        snapshot.ports = self.ports.iter().map(|of| port(of, failed(of.number))).collect();
        snapshot
    }
}

impl Observed {
    fn before(&self) -> MutexGuard<'_, Before> {
        self.before.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn finished(&self) {
        let mut before = self.before();
        if let Before::Finishing(last) = &*before {
            *before = Before::Finished(Box::new(last.snapshot()));
        }
    }

    /// All but ports.
    fn snapshot(&self) -> Snapshot {
        let mut snapshot = self.own();
        match &*self.before() {
            Before::Finishing(last) => snapshot.add(&last.snapshot()),
            Before::Finished(all) => snapshot.add(all),
        }
        snapshot
    }

    /// What this program counted.
    fn own(&self) -> Snapshot {
        let program = &self.program;
        let slots = CounterSlots::new(program);
        let sum = |slot: usize| {
            let kernel = self.kernel.as_ref().map_or(0, |part| part.counter(slot));
            self.blocks.iter().fold(kernel, |sum, block| sum.wrapping_add(block.get(slot)))
        };
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
        let drops = program.drop_reasons.iter().enumerate();
        let tables = program.tables.iter().enumerate();
        Snapshot {
            channels: channels.map(|(i, c)| (c.name.clone(), channel(i))).collect(),
            ppfs: ppfs.map(|(i, p)| (p.name.clone(), into_ppf(i))).collect(),
            drops: drops.map(|(i, d)| (d.name.clone(), sum(slots.drop(DropId(i as u32))))).collect(),
            tables_full: tables.map(|(i, t)| (t.name.clone(), sum(slots.table_full(TableId(i as u32))))).collect(),
            user: program.counters.iter().enumerate().map(user).collect(),
            timers: (0..).zip(&program.timers).map(timer).collect(),
            externs_failed: self.externs.iter().flat_map(|t| t.failed()).map(|(n, c)| (n.to_owned(), c)).collect(),
            controllers: Vec::new(),
            ports: Vec::new(),
        }
    }
}

/// A port's counters; the kernel could not send `failed` packets there.
fn port(port: &ObservedPort, failed: u64) -> PortSnapshot {
    let sum = |counter: fn(&PortCounters) -> &AtomicU64| {
        port.counters.iter().fold(0u64, |sum, worker| sum.wrapping_add(counter(worker).load(Ordering::Relaxed)))
    };
    let counted = port.count.as_ref().map(|count| count.read()).unwrap_or_default();
    PortSnapshot {
        name: port.name.clone(),
        number: port.number,
        device: port.device.clone(),
        rx_packets: counted.rx_packets + sum(|worker| &worker.rx_packets),
        rx_bytes: counted.rx_bytes + sum(|worker| &worker.rx_bytes),
        tx_packets: counted.tx_packets + sum(|worker| &worker.tx_packets),
        tx_bytes: counted.tx_bytes + sum(|worker| &worker.tx_bytes),
        tx_failed: failed + sum(|worker| &worker.tx_failed),
        rx_dropped: sum(|worker| &worker.rx_dropped),
        oversize: sum(|worker| &worker.oversize),
        unfinished: sum(|worker| &worker.unfinished),
        error: port.error(),
    }
}
