//! Requests and replies, as JSON has them.
//!
//! A request is one line: `{"request": "table_get", "table": "l3_forward.fib", "key": "10.0.1.0/24"}`. Its reply ends
//! with one line that holds either `ok` or `error`; before it, `table_dump` sends a line with `entry` for each entry.

use std::fmt;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use collectors::sockets::Sent;
use collectors::{ipfix, sflow};
use dataplane::controller::{ControllerSnapshot, PaceSnapshot, TimesSnapshot};
use dataplane::xdp::Progress;
use dataplane::{Snapshot, TimerSnapshot, WorkerSnapshot};
use indexmap::IndexMap;
use serde::{Deserialize, Serialize};
use serde_json::Value as Json;
use utoipa::ToSchema;

use super::times::Times;

/// What may be asked.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "request", rename_all = "snake_case", deny_unknown_fields)]
pub enum Request {
    /// What runs: [`Status`].
    Status,
    /// All counters: [`Counters`].
    Counters,
    /// The tables: a list of [`TableInfo`].
    Tables,
    /// One entry: [`Entry`].
    TableGet {
        /// `MODULE.TABLE`.
        table: String,
        /// Its key, as in the configuration.
        key: Json,
    },
    /// Inserts an entry or replaces its value: [`Entry`].
    TableSet {
        /// `MODULE.TABLE`.
        table: String,
        /// Its key, as in the configuration.
        key: Json,
        /// Its value, as in the configuration.
        value: Json,
    },
    /// Inserts entries or replaces their values, in order up to one that is refused: their number as `entries`. Where
    /// one can't be read nothing changes.
    TableLoad {
        /// `MODULE.TABLE`.
        table: String,
        /// As in the configuration.
        entries: Vec<Entry>,
    },
    /// Removes an entry; sets that of an array to zero: an empty object.
    TableDel {
        /// `MODULE.TABLE`.
        table: String,
        /// Its key, as in the configuration.
        key: Json,
    },
    /// All entries, then their number as `entries`.
    TableDump {
        /// `MODULE.TABLE`.
        table: String,
    },
    /// Some entries, in the order of their keys: [`Found`].
    TableFind {
        /// `MODULE.TABLE`.
        table: String,
        /// What their keys or values, as they are typed, have in them, in capital or small letters; otherwise all.
        #[serde(default)]
        search: String,
        /// The key behind which they are; otherwise from the first on.
        #[serde(default)]
        after: Option<Json>,
        /// How many at most, up to [`MAX_FOUND`].
        #[serde(default = "some")]
        limit: usize,
    },
    /// How the program is wired: [`Graph`](super::Graph).
    Graph,
    /// Traces packets from now on, and forgets those that were traced before: an empty object.
    TraceAdd {
        /// How many, up to [`MAX_TRACES`](super::MAX_TRACES).
        packets: u32,
        /// The port where they come in; otherwise any.
        #[serde(default)]
        port: Option<String>,
        /// Only those that are dropped.
        #[serde(default)]
        drops_only: bool,
        /// Of those that are dropped for the same reason only the first; only those that are dropped.
        #[serde(default)]
        per_reason: bool,
        /// Only those of which all of these hold, such as `ipv4.dst == 10.0.1.80 && udp`.
        #[serde(default, rename = "where")]
        conditions: Vec<String>,
    },
    /// What was traced: [`Traces`](super::Traces).
    TraceShow,
    /// What accesses to packets cost in each PPF, measured with the packets that were traced:
    /// [`PacketCosts`](super::PacketCosts).
    Costs,
    /// Traces no more packets: an empty object.
    TraceStop,
    /// Measures from now on how long packets are in PPFs, and forgets what was measured before: an empty object, when
    /// it is measured.
    TimingStart {
        /// For how long, up to [`MAX_TIMING`](super::MAX_TIMING).
        seconds: u32,
    },
    /// How long packets were in PPFs: [`Timing`](super::Timing).
    TimingShow,
    /// Measures it no more, from soon on: an empty object.
    TimingStop,
    /// What the program's controllers can be asked: a list of [`Offered`](crate::application::Offered).
    Queries,
    /// Asks a controller: what it answers.
    Query {
        /// The controller.
        controller: String,
        /// The name of the query.
        query: String,
        /// Its arguments.
        #[serde(default)]
        with: Json,
    },
    /// Reads the configuration again and puts the settings of its controllers in force: [`Reloaded`].
    Reload,
    /// Ends the instance as SIGTERM does: an empty object. The connection is closed when it has ended.
    Stop,
}

/// Most entries that one [`Request::TableFind`] gives.
pub const MAX_FOUND: usize = 1000;

/// How many it gives where it is not said.
pub const USUALLY_FOUND: usize = 100;

fn some() -> usize {
    USUALLY_FOUND
}

/// A line of a reply.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Reply<T> {
    /// One of several results; more lines follow.
    Entry(Entry),
    /// The result, and the end of the reply.
    Ok(T),
    /// There is none, and why.
    Error(Refusal),
}

/// Why a request was refused.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Refusal {
    /// For programs.
    pub code: Code,
    /// For people: one line that says what is accepted.
    pub message: String,
}

/// Kinds of refusals.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum Code {
    /// Not a request of this protocol.
    BadRequest,
    /// No such table.
    UnknownTable,
    /// No such controller, or not such a query of it.
    UnknownQuery,
    /// Not a key of this table.
    BadKey,
    /// Not a value of this table.
    BadValue,
    /// No such entry, or nothing that a query could be about.
    NotFound,
    /// The table has no room.
    TableFull,
    /// The configuration is wrong, or can't be put in force; all is as it was.
    BadConfiguration,
    /// Ask again later.
    Busy,
    /// By HTTP: the token is missing, or is another one.
    Unauthorized,
    /// By HTTP: nobody may do this, or not from there.
    Forbidden,
}

/// An entry of a table, in the notation of the configuration.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Entry {
    /// Its key.
    pub key: Json,
    /// Its value.
    pub value: Json,
}

/// Entries of a table that were looked for.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Found {
    /// In the order of their keys.
    pub entries: Vec<Entry>,
    /// Whether there are more behind them.
    pub more: bool,
}

/// What a reload did.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Reloaded {
    /// Whether another program took over.
    pub replaced: bool,
    /// If so, what each of its tables has of those before, by name.
    pub tables: IndexMap<String, String>,
    /// Where its PPFs run, if that was chosen.
    pub engine: Option<String>,
    /// Entries of tables that were set because the configuration has them and had them not, or otherwise.
    pub set: usize,
    /// Entries that were removed because the configuration has them no more.
    pub removed: usize,
    /// The controllers whose settings are in force, by name.
    pub controllers: Vec<String>,
    /// Where monitoring systems read what is counted, if that changed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub metrics: Option<String>,
    /// Where the web page and the HTTP API are, if that changed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub web: Option<String>,
    /// Where samples and counters are sent, if that changed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sflow: Option<String>,
    /// Where flows are sent, if that changed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ipfix: Option<String>,
    /// What is accepted but can hardly be meant, or goes on without the new program, a line each.
    pub warnings: Vec<String>,
}

/// What runs.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Status {
    /// Name of the instance.
    pub instance: String,
    /// Version of Millrace.
    pub version: String,
    /// Process id.
    pub pid: u32,
    /// The program's source, as it was named.
    pub program: String,
    /// The configuration's file, from the root on; none where it is built in, or there is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>)]
    pub config: Option<PathBuf>,
    /// What runs the program: `worker`; `interp`; or `xdp` or `tc`, the kernel as far as it can.
    pub engine: String,
    /// What of the program runs in the kernel, where the engine is one of the kernel's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kernel: Option<KernelState>,
    /// What is sent to collectors of sFlow, where there are any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sflow: Option<SflowState>,
    /// What is sent to collectors of IPFIX, where there are any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ipfix: Option<IpfixState>,
    /// What was compiled, and verified by the kernel, since the process began.
    #[serde(default)]
    pub code: CodeState,
    /// Number of workers.
    pub workers: usize,
    /// `busy` or `interrupt`.
    pub mode: String,
    /// CPUs that the workers are pinned to, one each; empty: they are not pinned.
    pub cpus: Vec<usize>,
    /// Number of frames.
    pub frames: u32,
    /// Their holder: `pool`, `workers`, `ports`, `hold tables`, `controllers`, and `passing`, those of packets that
    /// are under way between these.
    #[serde(default)]
    pub holders: IndexMap<String, u32>,
    /// Milliseconds since it started.
    pub uptime_ms: u64,
    /// Device by port.
    pub ports: IndexMap<String, String>,
    /// Timers of the program.
    #[serde(default)]
    pub timers: IndexMap<String, TimerState>,
    /// Controllers of the program.
    #[serde(default)]
    pub controllers: IndexMap<String, ControllerState>,
}

/// What of a program runs in the kernel.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct KernelState {
    /// `running`; `loading`: it is verified, and until then workers have all packets; `refused`: the kernel does not
    /// take it, so workers have all packets.
    pub state: String,
    /// Why it is refused.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// What was compiled, and verified by the kernel.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct CodeState {
    /// Parts of programs that were compiled: one is a program's machine code, or its code for the kernel.
    pub compiled: u64,
    /// Parts that were taken from disk, as they were compiled before.
    pub taken: u64,
    /// Milliseconds that both took.
    pub compile_ms: u64,
    /// Programs that the kernel has verified, those among them that it did not take.
    pub verified: u64,
    /// Milliseconds that it took.
    pub verify_ms: u64,
}

impl CodeState {
    /// Of this process.
    pub(super) fn now() -> CodeState {
        let milliseconds = |time: Duration| u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
        let (activity, verification) = (codegen::cache::activity(), dataplane::xdp::verification());
        CodeState {
            compiled: activity.compiled,
            taken: activity.taken,
            compile_ms: milliseconds(activity.time),
            verified: verification.programs,
            verify_ms: milliseconds(verification.time),
        }
    }
}

/// What was sent to collectors.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct SentState {
    /// Where they listen.
    pub collectors: Vec<String>,
    /// Datagrams that were sent, to all collectors together.
    pub datagrams: u64,
    /// Datagrams that could not be sent.
    pub failed: u64,
    /// Samples or flows for which there was no room.
    pub lost: u64,
    /// What is wrong now.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

impl SentState {
    fn new(collectors: &[SocketAddr], lost: u64, sent: Sent) -> Self {
        let collectors = collectors.iter().map(ToString::to_string).collect();
        SentState { collectors, datagrams: sent.datagrams, failed: sent.failed, lost, error: sent.error }
    }
}

/// What is sent to collectors of sFlow.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct SflowState {
    /// By which address they know this machine.
    pub agent: String,
    /// One of so many packets is sampled, on average.
    pub one_in: u32,
    /// Packets that were sampled.
    pub samples: u64,
    /// Where they were sent.
    #[serde(flatten)]
    pub sent: SentState,
}

impl From<(sflow::Settings, sflow::State)> for SflowState {
    fn from((settings, state): (sflow::Settings, sflow::State)) -> Self {
        let sflow::State { agent, samples, lost, error, sent } = state;
        let sent = Sent { error: error.or(sent.error), ..sent };
        let sent = SentState::new(&settings.collectors, lost, sent);
        SflowState { agent: agent.to_string(), one_in: settings.one_in, samples, sent }
    }
}

impl fmt::Display for SflowState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "one packet in {} to {}, as {}", self.one_in, self.sent.collectors.join(", "), self.agent)
    }
}

/// What is sent to collectors of IPFIX.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct IpfixState {
    /// By which number they tell this instance from others of the same machine.
    pub domain: u32,
    /// Flows that are over.
    pub flows: u64,
    /// Where they were sent.
    #[serde(flatten)]
    pub sent: SentState,
}

impl From<(ipfix::Settings, ipfix::State)> for IpfixState {
    fn from((settings, state): (ipfix::Settings, ipfix::State)) -> Self {
        let ipfix::State { flows, lost, sent } = state;
        let sent = SentState::new(&settings.collectors, lost, sent);
        IpfixState { domain: settings.domain, flows, sent }
    }
}

impl fmt::Display for IpfixState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "flows that are over to {}, of domain {}", self.sent.collectors.join(", "), self.domain)
    }
}

impl From<Progress> for KernelState {
    fn from(progress: Progress) -> Self {
        let (state, reason) = match progress {
            Progress::Loaded => ("running", None),
            Progress::Loading => ("loading", None),
            Progress::Refused(why) => ("refused", Some(why)),
        };
        KernelState { state: state.into(), reason }
    }
}

/// A controller and whether it runs.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ControllerState {
    /// `running`; `failed`: it is started again soon; `draining`: it was told to end, and has asked for time; `ended`:
    /// it has ended by itself.
    pub state: String,
    /// How often it has failed since the start.
    pub failures: u64,
    /// How often in a row, without having run for a minute.
    pub in_a_row: u32,
    /// Why it failed last.
    pub error: Option<String>,
    /// How often it was woken while it waited.
    #[serde(default)]
    pub wakes: u64,
    /// How long it was from then until it ran.
    #[serde(default)]
    pub wake: Times,
    /// How long it went on without waiting.
    #[serde(default)]
    pub busy: Times,
    /// How many milliseconds it may still take to end, where it drains.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub drain_ms: Option<u64>,
}

impl ControllerState {
    /// A controller of a snapshot by its name.
    pub(super) fn named(controller: ControllerSnapshot) -> (String, Self) {
        let ControllerSnapshot { name, state, failures, in_a_row, error, drain, pace, .. } = controller;
        let drain_ms = drain.map(|drain| drain.as_millis() as u64);
        let state = state.name().into();
        let times = |own: TimesSnapshot| Times::new(&own.counts, own.nanoseconds, PaceSnapshot::bound);
        let PaceSnapshot { wakes, wake, busy } = pace;
        let [wake, busy] = [wake, busy].map(times);
        (name, ControllerState { state, failures, in_a_row, error, wakes, wake, busy, drain_ms })
    }
}

/// What a table is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct TableInfo {
    /// `MODULE.TABLE`.
    pub name: String,
    /// Its kind, as programs write it.
    pub kind: String,
    /// Type of its keys.
    pub key: String,
    /// Type of its values.
    pub value: String,
    /// Entries in it; of an array, those that are not all zero.
    pub entries: usize,
    /// Entries that fit.
    pub capacity: u32,
}

impl TableInfo {
    /// Whether all its entries are always there.
    pub fn is_array(&self) -> bool {
        matches!(self.kind.as_str(), "array" | "meter")
    }
}

/// All counters since the start, by name, in the program's order.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Counters {
    /// Ports.
    pub ports: IndexMap<String, PortState>,
    /// Packets that entered each PPF.
    pub ppfs: IndexMap<String, u64>,
    /// Packets put to each channel.
    pub channels: IndexMap<String, u64>,
    /// Packets dropped, by reason.
    pub drops: IndexMap<String, u64>,
    /// Packets that the program was done with (`packet_end`): no drops.
    #[serde(default)]
    pub ended: u64,
    /// Insertions that a full table refused.
    pub tables_full: IndexMap<String, u64>,
    /// Cells of the program's own counters.
    pub counters: IndexMap<String, Vec<u64>>,
    /// Calls of functions of controllers that failed.
    #[serde(default)]
    pub externs_failed: IndexMap<String, u64>,
    /// How often each controller has failed.
    #[serde(default)]
    pub controllers_failed: IndexMap<String, u64>,
    /// Timers.
    #[serde(default)]
    pub timers: IndexMap<String, TimerState>,
    /// Workers, in their order.
    #[serde(default)]
    pub workers: Vec<WorkerState>,
}

/// What a worker did since the start.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct WorkerState {
    /// CPU time of its thread in nanoseconds, by the tenth of a second.
    pub cpu_ns: u64,
    /// Packets that it got from ports and from the kernel's part of the program.
    pub packets: u64,
    /// Times that it looked at all its ports, rings and timers.
    pub rounds: u64,
    /// Those of them that found nothing to do.
    pub idle: u64,
    /// Times that it slept until there was something to do.
    pub sleeps: u64,
    /// Bytes that waited in the ring by which the kernel's part hands packets over, when it was last looked at (some
    /// times a second).
    #[serde(default)]
    pub ring_bytes: u64,
    /// Bytes that can wait there; 0 where there is no such ring.
    #[serde(default)]
    pub ring_size: u64,
}

impl From<WorkerSnapshot> for WorkerState {
    fn from(snapshot: WorkerSnapshot) -> Self {
        let WorkerSnapshot { rounds, idle, sleeps, packets, cpu_ns, ring_bytes, ring_size } = snapshot;
        WorkerState { cpu_ns, packets, rounds, idle, sleeps, ring_bytes, ring_size }
    }
}

/// A timer and what it did since the start.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct TimerState {
    /// The table that it goes over.
    pub table: Option<String>,
    /// Nanoseconds from one start to the next.
    pub period_ns: u64,
    /// How often it began to run.
    pub runs: u64,
    /// Entries that it ran for.
    pub entries: u64,
}

impl TimerState {
    /// A timer of a snapshot by its name.
    pub(super) fn named(timer: TimerSnapshot) -> (String, Self) {
        let TimerSnapshot { name, table, period, runs, entries } = timer;
        (name, TimerState { table, period_ns: period, runs, entries })
    }
}

/// A port and what it did since the start.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct PortState {
    /// Its number, as in `rx.port` and `tx.port`.
    pub number: u8,
    /// `DRIVER:DEVICE`.
    pub device: String,
    /// Packets received.
    pub rx_packets: u64,
    /// Bytes received, from the Ethernet header on.
    pub rx_bytes: u64,
    /// Packets sent.
    pub tx_packets: u64,
    /// Bytes sent.
    pub tx_bytes: u64,
    /// Packets that could not be sent.
    pub tx_failed: u64,
    /// Packets that the kernel dropped before they were received.
    pub rx_dropped: u64,
    /// Packets longer than a frame.
    pub oversize: u64,
    /// Packets received whose checksum or segments were left to hardware, and which could not be finished.
    #[serde(default)]
    pub unfinished: u64,
    /// The same by reason, where there are any.
    #[serde(default)]
    pub unfinished_reasons: IndexMap<String, u64>,
    /// Super-packets received, which were divided.
    #[serde(default)]
    pub rx_super: u64,
    /// Packets that they were divided into.
    #[serde(default)]
    pub rx_in_super: u64,
    /// Super-packets sent, which the kernel or the device divides.
    #[serde(default)]
    pub tx_super: u64,
    /// Packets that were sent in them.
    #[serde(default)]
    pub tx_in_super: u64,
    /// Packets that waited in the rings that its workers receive from, when they were last looked at (some times a
    /// second).
    #[serde(default)]
    pub rx_queued: u64,
    /// Places in these rings; 0 of a driver without any.
    #[serde(default)]
    pub rx_places: u64,
    /// Packets in the rings that its workers send by, which the kernel had not looked at then.
    #[serde(default)]
    pub tx_queued: u64,
    /// Places in these rings; 0 of a driver without any.
    #[serde(default)]
    pub tx_places: u64,
    /// The latest error of its driver.
    pub error: Option<String>,
}

impl From<Snapshot> for Counters {
    fn from(snapshot: Snapshot) -> Self {
        let port = |port: dataplane::PortSnapshot| {
            let state = PortState {
                number: port.number,
                device: port.device,
                rx_packets: port.rx_packets,
                rx_bytes: port.rx_bytes,
                tx_packets: port.tx_packets,
                tx_bytes: port.tx_bytes,
                tx_failed: port.tx_failed,
                rx_dropped: port.rx_dropped,
                oversize: port.oversize,
                unfinished: port.unfinished.iter().map(|(_, count)| count).sum(),
                unfinished_reasons: port.unfinished.into_iter().map(|(why, count)| (why.to_owned(), count)).collect(),
                rx_super: port.rx_super,
                rx_in_super: port.rx_in_super,
                tx_super: port.tx_super,
                tx_in_super: port.tx_in_super,
                rx_queued: port.rx_queued,
                rx_places: port.rx_places,
                tx_queued: port.tx_queued,
                tx_places: port.tx_places,
                error: port.error,
            };
            (port.name, state)
        };
        Counters {
            ports: snapshot.ports.into_iter().map(port).collect(),
            ppfs: snapshot.ppfs.into_iter().collect(),
            channels: snapshot.channels.into_iter().collect(),
            drops: snapshot.drops.into_iter().collect(),
            ended: snapshot.ended,
            tables_full: snapshot.tables_full.into_iter().collect(),
            counters: snapshot.user.into_iter().collect(),
            externs_failed: snapshot.externs_failed.into_iter().collect(),
            controllers_failed: snapshot.controllers.into_iter().map(|own| (own.name, own.failures)).collect(),
            timers: snapshot.timers.into_iter().map(TimerState::named).collect(),
            workers: snapshot.workers.into_iter().map(WorkerState::from).collect(),
        }
    }
}
