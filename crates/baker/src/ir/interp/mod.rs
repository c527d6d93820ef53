//! The reference interpreter: what a program means. Every other engine must give the same packets, counters and tables.
//!
//! Clarity comes first, but it is also one column of the benchmarks: values live in one flat stack of registers and
//! nothing is looked up by name.

mod bits;
mod costs;
mod exec;
mod execution;
mod hold;
mod packet;
mod record;
mod tables;
mod walk;

use std::sync::Arc;

pub use bits::{load_bits, store_bits};
pub(crate) use costs::in_line;
pub use costs::{Costs, Metered, Step};
pub use execution::{Code, Executed, Execution, Touched};
pub use packet::FrameLayout;
pub use record::Recording;
pub use walk::{TableSource, Walk, WalkStep};

use self::exec::Call;
use self::packet::Packet;
use self::tables::Store;
use super::arith::mask;
use super::verify::verify;
use super::{
    ChannelId, CounterSlots, DropId, ExternId, Program, ProtocolId, Table, TableEntry, TableError, TableId, TableStore,
    TimerId,
};

/// Instructions that one received packet may take. The checker bounds every loop, so only a faulty compiler gets here.
const STEP_LIMIT: u64 = 10_000_000;

/// Where a packet leaves the program.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum End {
    /// Out of the port that the metadata `tx.port` names.
    Tx,
    /// To the kernel's own stack.
    Host,
    /// To the controller, the queue or the group that this channel leads to.
    Controller(ChannelId),
}

/// The functions that controllers have.
pub trait Externs: std::fmt::Debug + Send + Sync {
    /// Calls one, which the program declares, with one number per argument. Bits of the result beyond the declared
    /// width are left out.
    fn call(&self, function: ExternId, arguments: &[u128]) -> u128;
}

/// A packet that left the program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Output {
    /// Where to.
    pub end: End,
    /// Its bytes, from the head to the end.
    pub packet: Vec<u8>,
    /// One number per field of [`Program::metadata`].
    pub metadata: Vec<u128>,
}

/// A fault of the compiler that the verifier cannot see. What the packet did before it stays done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RunError {
    /// A loop without a bound.
    StepLimit {
        /// The PPF that was running.
        ppf: String,
    },
    /// A header access or `pull` beyond the packet's end: a missing test with `has`.
    BeyondEnd {
        /// The PPF that was running.
        ppf: String,
    },
    /// Use of a null entry pointer.
    NullEntry {
        /// The PPF that was running.
        ppf: String,
    },
    /// Call of a function of a controller before [`Machine::set_externs`].
    NoExterns {
        /// The PPF that was running.
        ppf: String,
    },
}

impl std::fmt::Display for RunError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            RunError::StepLimit { ppf } => {
                write!(f, "internal error: ppf {ppf} did not end within {STEP_LIMIT} instructions")
            }
            RunError::BeyondEnd { ppf } => write!(f, "internal error: ppf {ppf} reaches beyond the packet's end"),
            RunError::NullEntry { ppf } => write!(f, "internal error: ppf {ppf} uses a null entry pointer"),
            RunError::NoExterns { ppf } => write!(f, "internal error: ppf {ppf} calls a controller that is not there"),
        }
    }
}

impl std::error::Error for RunError {}

/// A running program: its tables and counters.
///
/// As a [`TableStore`] it answers `OutOfRange` also to numbers that do not fit their fields, or the wrong count of
/// them.
#[derive(Clone, Debug)]
pub struct Machine {
    program: Arc<Program>,
    slots: CounterSlots,
    layout: FrameLayout,
    counters: Vec<u64>,
    tables: Vec<Store>,
    /// By table, of those that hold packets.
    holds: Vec<Option<hold::Held>>,
    /// The packets of the received packet under way; the first `packets_used` are in use. The buffers are kept.
    packets: Vec<Packet>,
    packets_used: usize,
    registers: Vec<u128>,
    /// Calls that go on when the one under way is done, innermost last.
    calls: Vec<Call>,
    /// Room for the operands of one jump or table operation.
    arguments: Vec<u128>,
    outputs: Vec<Output>,
    now: u64,
    externs: Option<Arc<dyn Externs>>,
    /// Where costs are counted.
    meter: Option<costs::Meter>,
    /// Where the execution paths of packets are recorded.
    recording: Option<Box<Recording>>,
    /// Where it is noted what a packet executes.
    execution: Option<Execution>,
    /// Where the steps of a packet are noted.
    walking: Option<Box<Walk>>,
    /// Where entries are that its tables have not yet.
    source: Option<Arc<dyn TableSource>>,
}

impl Machine {
    /// A program with empty tables and zero counters.
    ///
    /// # Panics
    /// Where [`verify`] refuses the program: a fault of the compiler, not of its source.
    pub fn new(program: impl Into<Arc<Program>>) -> Machine {
        Self::with_stores(program.into(), Store::new)
    }

    fn with_stores(program: Arc<Program>, store: impl Fn(&Program, &Table) -> Store) -> Machine {
        if let Err(errors) = verify(&program) {
            let text: Vec<String> = errors.iter().map(ToString::to_string).collect();
            panic!("internal error: the program does not verify:\n{}", text.join("\n"));
        }
        let slots = CounterSlots::new(&program);
        let headroom = program.limits.created_at().max(256);
        Machine {
            layout: FrameLayout { headroom, frame_size: (headroom + 1792).next_power_of_two() },
            counters: vec![0; slots.len()],
            tables: program.tables.iter().map(|table| store(&program, table)).collect(),
            holds: program.tables.iter().map(hold::Held::new).collect(),
            slots,
            program,
            packets: Vec::new(),
            packets_used: 0,
            registers: Vec::new(),
            calls: Vec::new(),
            arguments: Vec::new(),
            outputs: Vec::new(),
            now: 0,
            externs: None,
            meter: None,
            recording: None,
            execution: None,
            walking: None,
            source: None,
        }
    }

    /// Where packets lie in frames, so that they can grow as far as in another engine. At first a headroom of 256 bytes
    /// in frames of 2048 bytes, or what the program needs.
    pub fn set_frame_layout(&mut self, layout: FrameLayout) {
        self.layout = layout;
    }

    /// The program.
    pub fn program(&self) -> &Program {
        &self.program
    }

    /// Which counter is where.
    pub fn slots(&self) -> &CounterSlots {
        &self.slots
    }

    /// The counters, in the order of [`CounterSlots`].
    pub fn counters(&self) -> &[u64] {
        &self.counters
    }

    /// Sets the time that programs see, in nanoseconds. It does not run by itself and must not run backwards.
    pub fn set_now(&mut self, now: u64) {
        self.now = now;
    }

    /// Gives it the functions of controllers that the program declares.
    pub fn set_externs(&mut self, externs: Arc<dyn Externs>) {
        self.externs = Some(externs);
    }

    /// Removes the entries of tables that have not been used for longer than their idle time.
    pub fn expire(&mut self, now: u64) {
        let program = Arc::clone(&self.program);
        for (store, table) in self.tables.iter_mut().zip(&program.tables) {
            if let Some(idle) = table.idle {
                store.expire(now, idle);
            }
        }
    }

    /// As [`Machine::receive`]; gives what it cost, and the packet's execution path. `bursts`: accesses to bytes that
    /// follow each other count as one.
    pub fn receive_metered(&mut self, port: u8, frame: &[u8], bursts: bool) -> Metered {
        self.meter = Some(costs::Meter::new(bursts, self.program.ppfs.len()));
        self.receive(port, frame);
        self.meter.take().unwrap_or_default().found
    }

    /// As [`Machine::receive`]; also notes what the packet executes, in place of what `execution` held.
    pub fn receive_noted(&mut self, port: u8, frame: &[u8], execution: &mut Execution) -> Vec<Output> {
        execution.clear();
        self.execution = Some(std::mem::take(execution));
        let outputs = self.receive(port, frame);
        *execution = self.execution.take().unwrap_or_default();
        outputs
    }

    /// Records the execution paths of packets from now on, until [`Machine::recorded`].
    pub fn record(&mut self) {
        self.recording = Some(Box::new(Recording::new(&self.program)));
    }

    /// What was seen since [`Machine::record`].
    pub fn recorded(&mut self) -> Option<Recording> {
        self.recording.take().map(|recording| *recording)
    }

    /// Runs a frame that came in on a port through the program. Gives what left it, in order.
    ///
    /// # Panics
    /// On a [`RunError`], which no program from the compiler can have.
    pub fn receive(&mut self, port: u8, frame: &[u8]) -> Vec<Output> {
        self.try_receive(port, frame).unwrap_or_else(|error| panic!("{error}"))
    }

    /// As [`Machine::receive`], for IR that was made by hand or is under test.
    pub fn try_receive(&mut self, port: u8, frame: &[u8]) -> Result<Vec<Output>, RunError> {
        self.enter(Program::RX, frame, &[port.into()])
    }

    /// Runs a packet that a controller injects into a channel, one of [`Program::entries`]. One number per field of the
    /// metadata; those left out are 0. Gives what left the program, in order.
    ///
    /// # Panics
    /// As [`Machine::receive`].
    pub fn inject(&mut self, channel: ChannelId, packet: &[u8], metadata: &[u128]) -> Vec<Output> {
        self.enter(channel, packet, metadata).unwrap_or_else(|error| panic!("{error}"))
    }

    fn enter(&mut self, channel: ChannelId, frame: &[u8], metadata: &[u128]) -> Result<Vec<Output>, RunError> {
        self.begin();
        let program = Arc::clone(&self.program);
        let protocol = program.channels[channel.0 as usize].protocol;
        if frame.len() < program.protocols[protocol.0 as usize].size as usize {
            self.counters[self.slots.drop(DropId::TRUNCATED)] += 1;
            self.note(|_| WalkStep::Dropped { packet: 0, reason: DropId::TRUNCATED });
            return Ok(Vec::new());
        }
        let id = self.new_packet();
        let packet = &mut self.packets[id];
        packet.fill(self.layout.headroom as usize, frame, program.metadata.len());
        for ((to, given), field) in packet.metadata.iter_mut().zip(metadata).zip(&program.metadata) {
            *to = given & mask(field.width);
        }
        if let Some(execution) = &mut self.execution {
            execution.entry = Some(channel);
        }
        self.run(&program, channel, id)?;
        Ok(std::mem::take(&mut self.outputs))
    }

    /// Runs a timer once for one key of its table, or for none. Gives what left the program, in order.
    ///
    /// # Panics
    /// As [`Machine::receive`].
    pub fn timer(&mut self, timer: TimerId, key: &[u128]) -> Vec<Output> {
        self.begin();
        let program = Arc::clone(&self.program);
        self.run_timer(&program, timer, key).unwrap_or_else(|error| panic!("{error}"));
        std::mem::take(&mut self.outputs)
    }

    /// What a packet's look-up finds: one number per field of the value that the control plane sees.
    pub fn find(&self, table: TableId, key: &[u128]) -> Option<Vec<u128>> {
        let store = self.table(table).ok()?;
        store.shown_values(store.lookup(key)?.0)
    }

    /// The first member of a group of a table from a number on.
    pub fn next_member(&self, table: TableId, group: u32, from: u32) -> Option<u32> {
        self.table(table).ok()?.next_member(group, from)
    }

    /// Adds a member with this value to a group of a table, under the least number that is free there; which.
    pub fn join(&mut self, table: TableId, group: u32, value: &[u128]) -> Result<u32, TableError> {
        self.table_mut(table)?.join(group, value)
    }

    /// The time of the first deadline of a table's entries for which no timer was called yet.
    pub fn next_deadline(&self, table: TableId) -> Option<u64> {
        self.tables.get(table.0 as usize)?.next_deadline()
    }

    /// The key of an entry whose deadline has come at this time, for its timer to be called: the first one by time and
    /// key.
    pub fn due(&mut self, table: TableId, now: u64) -> Option<Box<[u128]>> {
        self.tables.get_mut(table.0 as usize)?.due(now)
    }

    /// How many deadlines of a table's entries timers have taken: so often one has run.
    pub fn deadlines_taken(&self, table: TableId) -> u64 {
        self.tables.get(table.0 as usize).map_or(0, Store::deadlines_taken)
    }

    /// Nothing of what ran before is under way any more.
    fn begin(&mut self) {
        self.tables.iter_mut().for_each(Store::release_removed);
        self.packets_used = 0;
        self.outputs.clear();
    }

    /// A header of zeros, and zero metadata.
    fn create(&mut self, program: &Program, protocol: ProtocolId) -> usize {
        let id = self.new_packet();
        let size = program.protocols[protocol.0 as usize].size as usize;
        self.packets[id].fill(program.limits.created_at() as usize, &vec![0; size], program.metadata.len());
        id
    }

    /// A copy of what is held, or a packet of 0 bytes.
    fn held(&mut self, program: &Program, table: TableId, key: u64) -> usize {
        let id = self.new_packet();
        let held = self.holds[table.0 as usize].as_ref().and_then(|held| held.get(key));
        match held {
            Some(held) => {
                self.packets[id].copy_from(held);
                self.packets[id].begin_at(self.layout.headroom as usize);
            }
            None => self.packets[id].fill(0, &[], program.metadata.len()),
        }
        id
    }

    /// Holds a packet.
    fn hold(&mut self, table: TableId, key: u64, packet: usize) {
        let layout = self.layout;
        let Some(held) = &mut self.holds[table.0 as usize] else { return };
        let packet = &self.packets[packet];
        // Where it could not be given back with as much room in front of it as it needs, it is not held.
        let fits = packet.extent().0 >= u64::from(layout.headroom)
            || packet.len() + layout.headroom as usize <= layout.frame_size as usize;
        if !fits || held.put(key, packet.clone()) {
            self.count(self.slots.table_full(table), 1);
        }
    }

    /// A packet number that is not in use.
    fn new_packet(&mut self) -> usize {
        if self.packets_used == self.packets.len() {
            self.packets.push(Packet::default());
        }
        self.packets_used += 1;
        self.packets_used - 1
    }

    /// A copy of a packet.
    fn copy_of(&mut self, original: usize) -> usize {
        let copy = self.new_packet();
        let (before, after) = self.packets.split_at_mut(copy);
        after[0].copy_from(&before[original]);
        copy
    }

    fn output(&mut self, end: End, id: usize) {
        let packet = &self.packets[id];
        self.outputs.push(Output { end, packet: packet.data().to_vec(), metadata: packet.metadata.clone() });
    }

    fn count(&mut self, slot: usize, amount: u64) {
        self.counters[slot] = self.counters[slot].wrapping_add(amount);
    }

    fn count_channel(&mut self, channel: ChannelId) {
        if let Some(meter) = &mut self.meter {
            meter.found.steps.push(Step::Channel(channel));
        }
        self.count(self.slots.channel(channel), 1);
    }

    fn table(&self, table: TableId) -> Result<&Store, TableError> {
        self.tables.get(table.0 as usize).ok_or(TableError::NotFound)
    }

    fn table_mut(&mut self, table: TableId) -> Result<&mut Store, TableError> {
        self.tables.get_mut(table.0 as usize).ok_or(TableError::NotFound)
    }
}

impl TableStore for Machine {
    fn insert(&mut self, table: TableId, entry: &TableEntry) -> Result<(), TableError> {
        self.table_mut(table)?.set(&entry.key, entry.prefix_len, &entry.value)
    }

    fn remove(&mut self, table: TableId, key: &[u128], prefix_len: Option<u32>) -> Result<(), TableError> {
        self.table_mut(table)?.remove(key, prefix_len)
    }

    fn get(&self, table: TableId, key: &[u128], prefix_len: Option<u32>) -> Result<Vec<u128>, TableError> {
        self.table(table)?.get(key, prefix_len)
    }

    fn count(&self, table: TableId) -> usize {
        self.table(table).map_or(0, Store::count)
    }

    fn dump(&self, table: TableId) -> Vec<TableEntry> {
        self.table(table).map(Store::dump).unwrap_or_default()
    }
}
