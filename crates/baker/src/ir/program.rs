//! A whole program: protocols, metadata, tables, counters, drop reasons, channels and PPFs.

use std::borrow::Cow;

use super::inst::{Body, Inst, Op, Ty};
use super::meter::MeterRate;
use super::tables::TableStore;
use crate::source::Span;

/// Index into [`Program::protocols`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ProtocolId(pub u32);
/// Index into [`Program::metadata`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct MetaId(pub u32);
/// Index into [`Program::layouts`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct LayoutId(pub u32);
/// Index into [`Program::tables`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct TableId(pub u32);
/// Index into [`Program::counters`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct CounterId(pub u32);
/// Index into [`Program::drop_reasons`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct DropId(pub u32);
/// Index into [`Program::channels`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ChannelId(pub u32);
/// Index into [`Program::externs`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ExternId(pub u32);
/// Index into [`Program::controllers`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ControllerId(pub u32);
/// Index into [`Program::timers`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct TimerId(pub u32);
/// Index into [`Program::queues`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct QueueId(pub u32);
/// Index into [`Program::ppfs`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct PpfId(pub u32);

/// A compiled Baker program, before code generation.
#[derive(Clone, Debug, Hash)]
pub struct Program {
    /// Name of the program: the stem of its source file.
    pub name: String,
    /// Protocols that handles can have.
    pub protocols: Vec<Protocol>,
    /// Per-packet metadata. The first two are always `rx.port` and `tx.port`; see [`Program::RX_PORT`].
    pub metadata: Vec<MetaField>,
    /// Bytes of metadata per packet; all zero at `rx` but for `rx.port`.
    pub metadata_size: u32,
    /// Memory layouts of table keys and values.
    pub layouts: Vec<Layout>,
    /// Tables.
    pub tables: Vec<Table>,
    /// User counters.
    pub counters: Vec<Counter>,
    /// Drop reasons; the first ones are those of [`BUILTIN_DROP_REASONS`], in that order.
    pub drop_reasons: Vec<DropReason>,
    /// Controllers that it exchanges packets with.
    pub controllers: Vec<Controller>,
    /// Channels, each wired to one target. Channel 0 is `rx`.
    pub channels: Vec<Channel>,
    /// Packet processing functions.
    pub ppfs: Vec<Ppf>,
    /// Functions that controllers have.
    pub externs: Vec<Extern>,
    /// What runs without a packet.
    pub timers: Vec<Timer>,
    /// Where packets wait for their time.
    pub queues: Vec<Queue>,
    /// Static bounds that an engine sizes its resources by.
    pub limits: Limits,
    /// How it keeps checksums that cover pseudo headers.
    pub sums: Sums,
    /// Whether it measures how long packets are in each PPF: see [`crate::opt::timing`].
    pub timed: bool,
}

/// How a program's checksums that cover pseudo headers, which hosts leave to devices to compute, come out of the
/// lowering.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub enum Sums {
    /// As arithmetic and stores, which every optimisation knows.
    #[default]
    Arithmetic,
    /// Changes as [`Op::Checksum`], which says of what they are.
    Operations {
        /// What asks for more than changes, and so for a checksum that is there: the first place of each PPF.
        whole: Vec<(PpfId, Option<Span>)>,
    },
}

/// The table of what ports send at most, by number: an array of [`PORTS`] numbers of 32 bits, in bytes behind the
/// Ethernet header. A program that asks for an MTU has it. The data plane fills it; tables that a program
/// declares have a `.` in their names.
pub const PORT_MTU: &str = "port_mtu";
/// The type of its values, which no program can name.
pub const PORT_MTU_TYPE: &str = "u32 bytes";
/// Numbers that ports can have, with 0, which is no port's.
pub const PORTS: u32 = 256;
/// The MTU of Ethernet, in bytes (RFC 894): that of ports of which nothing else is known.
pub const DEFAULT_MTU: u32 = 1500;

impl Program {
    /// The table [`PORT_MTU`], where there is one.
    pub fn port_mtus(&self) -> Option<TableId> {
        (0..).map(TableId).zip(&self.tables).find(|(_, table)| table.is_of_language()).map(|(id, _)| id)
    }

    /// The metadata field `rx.port`, 8 bits: the number of the port the packet came in on.
    pub const RX_PORT: MetaId = MetaId(0);
    /// The metadata field `tx.port`, 8 bits: the number of the port that `tx` sends the packet to.
    pub const TX_PORT: MetaId = MetaId(1);
    /// The channel that received frames enter by.
    pub const RX: ChannelId = ChannelId(0);

    /// The metadata fields with the line (32 bits) and the time (64 bits) of packets that go into a queue: the last two
    /// of programs that have queues.
    pub fn queue_fields(&self) -> Option<[MetaId; 2]> {
        let count = self.metadata.len() as u32;
        (!self.queues.is_empty()).then(|| [MetaId(count - 2), MetaId(count - 1)])
    }

    /// The metadata fields with the group, the member's number in it, and the mark of the table ([`Table::mark`]), 32
    /// bits each, of programs that have groups. The first two are known to programs.
    pub fn group_fields(&self) -> Option<[MetaId; 3]> {
        let field = |name: &str| self.metadata.iter().position(|field| field.name == name).map(|id| MetaId(id as u32));
        let [group, member, table] = GROUP_FIELDS.map(field);
        self.tables.iter().any(|table| table.group.is_some()).then_some([group?, member?, table?])
    }

    /// The layout of a table's values without the fields that programs and the control plane do not see.
    pub fn shown_value(&self, table: &Table) -> Cow<'_, Layout> {
        let layout = &self.layouts[table.value.0 as usize];
        let shown = self.shown_fields(table);
        if shown == layout.fields.len() {
            return Cow::Borrowed(layout);
        }
        Cow::Owned(Layout { fields: layout.fields[..shown].to_vec(), ..layout.clone() })
    }

    /// How many fields of a table's values programs and the control plane see; further ones come behind them.
    pub fn shown_fields(&self, table: &Table) -> usize {
        self.layouts[table.value.0 as usize].fields.len() - table.hidden_fields()
    }

    /// The code of all PPFs and timers.
    pub fn bodies(&self) -> impl Iterator<Item = &Body> {
        self.ppfs.iter().map(|ppf| &ppf.body).chain(self.timers.iter().map(|timer| &timer.body))
    }

    /// The drop reason that a value of the type `drop_reason` stands for, if it is one of the program's.
    pub fn reason_of(&self, value: u128) -> Option<DropId> {
        let found = self.drop_reasons.iter().position(|reason| u128::from(reason.value()) == value);
        found.map(|index| DropId(index as u32))
    }

    /// The channels by which packets enter: `rx`, then those that others inject into, in order.
    pub fn entries(&self) -> impl Iterator<Item = ChannelId> + '_ {
        let injected = |(_, channel): &(u32, &Channel)| channel.from.is_some();
        let channels = (0u32..).zip(&self.channels).filter(injected);
        std::iter::once(Program::RX).chain(channels.map(|(index, _)| ChannelId(index)))
    }

    /// The controller that a channel's packets go to.
    pub fn controller(&self, channel: ChannelId) -> Option<&Controller> {
        match self.channels.get(channel.0 as usize)?.target {
            Target::Controller(id) => self.controllers.get(id.0 as usize),
            _ => None,
        }
    }

    /// For each PPF, whether packets come to it: from an entry, or by a put of a timer or of a PPF that packets come
    /// to.
    pub fn reached_ppfs(&self) -> Vec<bool> {
        self.reached_from(self.entries().chain(self.timers.iter().flat_map(|timer| timer.body.puts())))
    }

    /// For each PPF, whether packets of these channels come to it.
    pub fn reached_from(&self, channels: impl IntoIterator<Item = ChannelId>) -> Vec<bool> {
        let mut reached = vec![false; self.ppfs.len()];
        let mut work: Vec<ChannelId> = channels.into_iter().collect();
        while let Some(channel) = work.pop() {
            let Some(Target::Ppf(ppf)) = self.channels.get(channel.0 as usize).map(|channel| channel.target) else {
                continue;
            };
            match reached.get_mut(ppf.0 as usize) {
                Some(seen @ false) => *seen = true,
                _ => continue,
            }
            work.extend(self.ppfs[ppf.0 as usize].body.puts());
        }
        reached
    }

    /// The timer that runs at the deadlines of a table's entries; only then they have any.
    pub fn deadline_timer(&self, table: TableId) -> Option<TimerId> {
        let found = self.timers.iter().position(|timer| timer.is_at_deadline() && timer.table == Some(table));
        found.map(|index| TimerId(index as u32))
    }

    /// The timers that run at deadlines of entries.
    pub fn deadline_timers(&self) -> impl Iterator<Item = (TimerId, TableId)> {
        let timers = (0..).map(TimerId).zip(&self.timers).filter(|(_, timer)| timer.is_at_deadline());
        timers.filter_map(|(id, timer)| Some((id, timer.table?)))
    }

    /// The instructions of all PPFs.
    pub fn insts(&self) -> impl Iterator<Item = &Inst> {
        self.ppfs.iter().flat_map(|ppf| &ppf.body.blocks).flat_map(|block| &block.insts)
    }

    /// Whether PPFs of the kernel's part of a program write into the rings of workers: copies, or that they have set a
    /// deadline.
    pub fn uses_rings(&self) -> bool {
        let reached = self.ppfs.iter().zip(self.reached_from([Program::RX])).filter(|(_, reached)| *reached);
        let mut insts = reached.flat_map(|(ppf, _)| &ppf.body.blocks).flat_map(|block| &block.insts);
        insts.any(|inst| matches!(inst.op, Op::Tap { .. } | Op::SetDeadline { .. }))
    }

    /// Whether what it does depends on the time.
    pub fn uses_time(&self) -> bool {
        let mut blocks = self.bodies().flat_map(|body| &body.blocks);
        blocks.any(|block| {
            block.insts.iter().any(|inst| {
                let op = &inst.op;
                matches!(op, Op::Now | Op::Take { .. } | Op::SetDeadline { .. } | Op::TakeDeadline { .. })
            })
        })
    }
}

/// Metadata of programs with groups: see [`Program::group_fields`].
pub const GROUP_FIELDS: [&str; 3] = ["group", "member", "group.table"];

/// Drop reasons that every program has, in the order of their ids.
pub const BUILTIN_DROP_REASONS: [(&str, &str); 13] = [
    ("truncated", "the packet is shorter than the fixed header of the protocol"),
    ("malformed", "a header's own length is below its fixed header or beyond the packet's end"),
    ("no_port", "metadata.tx.port names no port"),
    ("no_host", "the port the packet came in on has no host port"),
    ("tx_failed", "the port could not send: its queue was full or the frame too long"),
    ("controller_busy", "the controller had as many packets as it may have"),
    ("controller_gone", "the controller was no longer there, or never"),
    ("table_busy", "in the kernel, which cannot wait: a table or an entry stayed locked by another processor"),
    ("no_worker", "in the kernel: no worker takes what it does not finish from this queue of the port"),
    ("no_reason", "the program gave a drop reason that is none, such as one that was never set"),
    ("ended", "no drop: the program was done with the packet (`packet_end`)"),
    ("tap_full", "in the kernel: a copy for workers or a controller found no place in their ring"),
    ("deadline_late", "no drop: in the kernel, a deadline found no place in a worker's ring, and was looked for"),
];

impl DropId {
    /// `truncated`: shorter than the fixed header.
    pub const TRUNCATED: DropId = DropId(0);
    /// `malformed`: a demux below the fixed header or beyond the packet's end.
    pub const MALFORMED: DropId = DropId(1);
    /// `no_port`: `tx.port` names no port.
    pub const NO_PORT: DropId = DropId(2);
    /// `no_host`: no host port belongs to the port of entry.
    pub const NO_HOST: DropId = DropId(3);
    /// `tx_failed`: the port could not send.
    pub const TX_FAILED: DropId = DropId(4);
    /// `controller_busy`: the controller has as many packets as it may have.
    pub const CONTROLLER_BUSY: DropId = DropId(5);
    /// `controller_gone`: the controller is not there.
    pub const CONTROLLER_GONE: DropId = DropId(6);
    /// `table_busy`: the kernel could not wait for a lock.
    pub const TABLE_BUSY: DropId = DropId(7);
    /// `no_worker`: no worker takes what the kernel does not finish.
    pub const NO_WORKER: DropId = DropId(8);
    /// `no_reason`: the value of a `drop_reason` that was never set.
    pub const NO_REASON: DropId = DropId(9);
    /// `ended`: what `packet_end` counts. It is shown apart from drops.
    pub const ENDED: DropId = DropId(10);
    /// `tap_full`: there was no place for a copy that the kernel has made.
    pub const TAP_FULL: DropId = DropId(11);
    /// `deadline_late`: a worker was not told of a deadline that the kernel has set, and has to look for it.
    pub const DEADLINE_LATE: DropId = DropId(12);
}

/// A protocol's fixed header.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Protocol {
    /// Its name, such as `ipv4`.
    pub name: String,
    /// Bytes of the fixed header: what a handle of this protocol promises.
    pub size: u32,
    /// Its fields, in order, without gaps.
    pub fields: Vec<Field>,
    /// The Internet checksum (RFC 1071) that the header holds, if one is declared.
    pub checksum: Option<Checksum>,
    /// Fields that checksums of the headers behind this one cover, as parts of a pseudo header.
    pub pseudo: Vec<usize>,
}

impl Protocol {
    /// The field of a checksum that covers the header with its options and nothing else.
    pub fn header_checksum(&self) -> Option<usize> {
        self.checksum.filter(|c| !c.payload && !c.pseudo).map(|c| c.field)
    }
}

/// A declared checksum. It covers the header, from the head to the demux.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Checksum {
    /// Index of the field, 16 bits at an even byte.
    pub field: usize,
    /// It covers what follows the header, to the packet's end.
    pub payload: bool,
    /// It covers a pseudo header: words that are not in the header or behind it (RFC 793, RFC 8200 section 8.1).
    pub pseudo: bool,
    /// A checksum of 0 means that there is none, and a computed 0 is written as 0xffff (RFC 768).
    pub optional: bool,
}

/// A field of a protocol.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Field {
    /// Its name.
    pub name: String,
    /// Name of the type it was declared with, such as `mac_addr_t`, or `u13` for a bare width.
    pub type_name: String,
    /// Where it lies.
    pub bits: BitRange,
    /// The value that `packet_encap` gives it.
    pub default: u128,
}

/// Bits of a header in network order: bit 0 is the most significant bit of byte 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct BitRange {
    /// First bit, counted from the start of the header.
    pub offset: u32,
    /// Number of bits, 1 to 128.
    pub width: u32,
}

impl BitRange {
    /// First byte touched.
    pub fn first_byte(self) -> u32 {
        self.offset / 8
    }

    /// Byte after the last byte touched.
    pub fn end_byte(self) -> u32 {
        (self.offset + self.width).div_ceil(8)
    }
}

/// A field of the per-packet metadata, stored in host byte order.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct MetaField {
    /// Its name, such as `rx.port` or `next_hop`.
    pub name: String,
    /// Name of its declared type.
    pub type_name: String,
    /// Bits of its value, 1 to 128.
    pub width: u32,
    /// Byte offset in the metadata, a multiple of its storage size.
    pub offset: u32,
}

/// Bytes in which a value of `width` bits is stored in metadata and tables: the next power of two, 1 to 16.
#[inline]
pub fn storage_size(width: u32) -> u32 {
    width.div_ceil(8).next_power_of_two()
}

/// What the offset of such a number in a table is a multiple of: its size, but 8 for the widest, which no processor
/// reads at once.
pub fn storage_align(width: u32) -> u32 {
    storage_size(width).min(8)
}

/// How a table's key or value lies in memory: C rules, host byte order, padding zero.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Layout {
    /// Name of the struct or scalar type.
    pub name: String,
    /// Its fields; a scalar has one with an empty name.
    pub fields: Vec<LayoutField>,
    /// Bytes, a multiple of `align`.
    pub size: u32,
    /// Alignment in bytes.
    pub align: u32,
}

/// A field of a [`Layout`]. Its storage is [`storage_size`] of its width, aligned to [`storage_align`]; unused bits are
/// zero.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct LayoutField {
    /// Its name; empty for a scalar.
    pub name: String,
    /// Name of its declared type, such as `mac_addr_t`.
    pub type_name: String,
    /// Bits of its value, 1 to 128.
    pub width: u32,
    /// Whether the control plane shows and accepts negative numbers.
    pub signed: bool,
    /// Names for values, for a field of an enum type.
    pub names: Vec<(String, u128)>,
    /// Byte offset.
    pub offset: u32,
}

impl LayoutField {
    /// Whether it holds a drop reason: one of its names, and no other number.
    pub fn is_reason(&self) -> bool {
        self.type_name == DropReason::TYPE
    }
}

/// Kind of a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum TableKind {
    /// Indexed 0 to capacity − 1; every entry exists and is zero at first.
    Array,
    /// Exact match.
    Hash,
    /// Longest prefix match on a key of one field.
    Lpm,
}

/// What a hold table keeps.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Hold {
    /// What its packets begin with.
    pub protocol: ProtocolId,
    /// Packets at most.
    pub packets: u32,
}

/// What a number of groups share, whose members are the entries of a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Group {
    /// How many groups there are.
    pub groups: u32,
    /// Why packets are dropped that find no room to wait.
    pub full: DropId,
    /// Why packets are dropped that find no member.
    pub none: DropId,
}

impl Group {
    /// Why packets are dropped that find no room to wait.
    pub const FULL: &str = "group_full";
    /// Why packets are dropped that find no member.
    pub const NONE: &str = "no_member";
    /// Packets that wait at most, for all groups of a program on one worker.
    pub const WAITING: u32 = 512;
    /// Those of them that wait for one group.
    pub const WAITING_FOR_ONE: u32 = 256;
    /// Packets that each member gets in a row at most.
    pub const IN_A_ROW: u32 = 16;

    /// Whether a key, a group and a member's number, is one that the groups of a table of this size may have.
    pub fn has(&self, capacity: u32, key: &[u128]) -> bool {
        matches!(key, [group, member] if *group < self.groups.into() && *member < capacity.into())
    }
}

/// A table.
#[derive(Clone, Debug, Hash)]
pub struct Table {
    /// Full name: `module.table`.
    pub name: String,
    /// Its kind.
    pub kind: TableKind,
    /// Whether it is a `set`: a hash table whose values are `true`.
    pub is_set: bool,
    /// Of a hash table: after how many nanoseconds without a look-up an entry is gone. The first hidden field of the
    /// value's layout, 64 bits, is then the time of the last one; 0 for an entry that stays, as those of the control
    /// plane do.
    pub idle: Option<u64>,
    /// Of meters: what each cell of an array has at first, and what a hash table's has that a packet begins. The first
    /// fields of the values are rate and burst, the last one is the time at which the bucket is full again (see
    /// [`super::meter`]); 64 bits each, one behind the other in memory.
    pub meter: Option<MeterRate>,
    /// Of a hold table, which is an array: what it keeps. Its keys and values are not used.
    pub hold: Option<Hold>,
    /// Of groups, which are a hash table: how many. A key is a group and a member's number in it, 32 bits each, the
    /// number below the capacity.
    pub group: Option<Group>,
    /// Whether its entries can be locked. The last field of the value's layout, 32 bits, is then the lock of
    /// [`Op::Lock`]: 0 where it is free.
    pub locked: bool,
    /// The table whose keys its values are: the control plane sets only those that are there.
    pub into: Option<TableId>,
    /// Layout of the key. For an array: one 32-bit scalar.
    pub key: LayoutId,
    /// Layout of the value.
    pub value: LayoutId,
    /// Number of entries at most.
    pub capacity: u32,
    /// Where it is declared.
    pub span: Option<Span>,
}

impl Table {
    /// What metadata say of packets behind this table's groups: a hash of its name, so that it means the same in a
    /// program that takes over.
    pub fn mark(&self) -> u32 {
        fnv(&self.name)
    }

    /// Whether it is [`PORT_MTU`], which is no business of the control plane's.
    pub fn is_of_language(&self) -> bool {
        self.name == PORT_MTU
    }

    /// Whether the control plane can set its entries.
    pub fn is_settable(&self) -> bool {
        !self.is_of_language() && self.hold.is_none()
    }

    /// Fields at the end of its values that only the language itself uses.
    pub fn hidden_fields(&self) -> usize {
        [self.idle.is_some(), self.meter.is_some(), self.locked].into_iter().map(usize::from).sum()
    }
}

/// A user counter, or an array of them.
#[derive(Clone, Debug, Hash)]
pub struct Counter {
    /// Full name: `module.counter`.
    pub name: String,
    /// Number of cells; 1 for a plain counter.
    pub size: u32,
}

/// A reason for dropping packets.
#[derive(Clone, Debug, Hash)]
pub struct DropReason {
    /// Its name: the same in explain, trace, counters and metrics.
    pub name: String,
}

impl DropReason {
    /// Name of the type whose values are reasons.
    pub const TYPE: &str = "drop_reason";
    /// Bits of such a value.
    pub const WIDTH: u32 = 32;

    /// The value that stands for it in variables, metadata and tables: 0 for `no_reason`, else a hash of its name
    /// (FNV-1a). So it is the same in all programs, and what a table, a file or a controller holds outlives a change of
    /// the program.
    pub fn value(&self) -> u32 {
        if self.name == BUILTIN_DROP_REASONS[DropId::NO_REASON.0 as usize].0 {
            return 0;
        }
        fnv(&self.name)
    }
}

/// 32-bit FNV-1a (Fowler, Noll, Vo).
fn fnv(name: &str) -> u32 {
    name.bytes().fold(0x811c_9dc5, |hash, byte| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193))
}

/// Where a channel's packets go.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Target {
    /// Into a PPF.
    Ppf(PpfId),
    /// Out of the port that `metadata.tx.port` names.
    Tx,
    /// To the kernel's own stack.
    Host,
    /// To a controller.
    Controller(ControllerId),
    /// To a group: the metadata says which ([`Program::group_fields`]). For each member a copy goes on by the channel.
    Group(TableId, ChannelId),
    /// Into a queue: the metadata has the line and the time ([`Program::queue_fields`]).
    /// When it is time, the packet goes on by the channel.
    Queue(QueueId, ChannelId),
}

/// A number of lines in which packets wait, each for its time and for those in front of it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Queue {
    /// Full name: `module.queue`.
    pub name: String,
    /// Number of lines.
    pub lines: u32,
    /// Packets in a line at most.
    pub depth: u32,
    /// Which packet is dropped where a line is full.
    pub drops: QueueDrops,
    /// Why packets are dropped that find no room.
    pub full: DropId,
    /// Where it is declared.
    pub span: Option<Span>,
}

/// Which packet of a full line, and of the one that finds it full, is dropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum QueueDrops {
    /// The one that comes.
    Newest,
    /// The first in the line.
    Oldest,
    /// The one whose metadata is lowest; of several, the first in the line.
    Lowest(MetaId),
}

impl Queue {
    /// Why packets are dropped that find no room.
    pub const FULL: &str = "queue_full";
    /// Packets that it holds at most.
    pub fn most(&self) -> u32 {
        self.lines.saturating_mul(self.depth)
    }
}

/// A controller.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Controller {
    /// Its name.
    pub name: String,
}

/// A function that a controller has: numbers in, at most one number out.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Extern {
    /// Full name: `module.function`.
    pub name: String,
    /// Bits of each argument, 1 to 128.
    pub params: Vec<u32>,
    /// Bits of the result, if it has one.
    pub result: Option<u32>,
    /// Where it is declared.
    pub span: Option<Span>,
}

impl Extern {
    /// Arguments at most.
    pub const MAX_PARAMS: usize = 16;
}

/// What runs without a packet: every so often, once or for each entry of a table, or at the deadlines of its entries.
#[derive(Clone, Debug, Hash)]
pub struct Timer {
    /// Full name: `module.timer`.
    pub name: String,
    /// The table that it goes over, not an `lpm`: the body runs once for each key.
    pub table: Option<TableId>,
    /// Nanoseconds from one start to the next; 0 where it runs once for each entry at the deadline that was set for it.
    pub period: u64,
    /// Calls at most that are made one after the other, so that no packet waits long.
    pub slice: u32,
    /// Its code. The entry block takes the fields of a key, or nothing.
    pub body: Body,
    /// Where it is declared.
    pub span: Option<Span>,
}

impl Timer {
    /// Whether it runs at the deadlines of a table's entries.
    pub fn is_at_deadline(&self) -> bool {
        self.period == 0
    }

    /// When it runs, as programs write it: `at deadline`, or `every 30s`, in the largest unit that divides the period.
    pub fn when(&self) -> String {
        if self.is_at_deadline() {
            return "at deadline".into();
        }
        const UNITS: [(&str, u64); 6] = [
            ("h", 3_600_000_000_000),
            ("min", 60_000_000_000),
            ("s", 1_000_000_000),
            ("ms", 1_000_000),
            ("us", 1000),
            ("ns", 1),
        ];
        let divides = |(_, ns): &(&str, u64)| self.period.is_multiple_of(*ns);
        let (unit, ns) = UNITS.into_iter().find(divides).unwrap_or(("ns", 1));
        format!("every {}{unit}", self.period / ns)
    }

    /// Name of the table that it goes over.
    pub fn over<'p>(&self, program: &'p Program) -> Option<&'p str> {
        self.table.map(|table| program.tables[table.0 as usize].name.as_str())
    }

    /// Types of the entry block's parameters. The table exists.
    pub fn params(&self, program: &Program) -> Vec<Ty> {
        let key = self.table.map(|table| program.tables[table.0 as usize].key);
        let fields = key.map(|key| &program.layouts[key.0 as usize].fields);
        fields.into_iter().flatten().map(|field| Ty::Int(field.width)).collect()
    }

    /// The keys that it is called with, in order, for tables that do not change meanwhile: all indices of an array, or
    /// those of the entries there are; one key without fields where it goes over no table.
    pub fn keys(&self, program: &Program, tables: &impl TableStore) -> Box<dyn Iterator<Item = Vec<u128>> + Send> {
        let Some(id) = self.table else { return Box::new(std::iter::once(Vec::new())) };
        let table = &program.tables[id.0 as usize];
        match table.kind {
            TableKind::Array => Box::new((0..table.capacity).map(|index| vec![index.into()])),
            _ => Box::new(tables.dump(id).into_iter().map(|entry| entry.key)),
        }
    }
}

/// A channel: one source, one target, packets of one protocol.
#[derive(Clone, Debug, Hash)]
pub struct Channel {
    /// Full name: `rx`, `module.channel` of the source end, or `controller -> module.channel` where one injects.
    pub name: String,
    /// The controller that injects packets here; no other one does.
    pub from: Option<Source>,
    /// Protocol of its packets.
    pub protocol: ProtocolId,
    /// Where they go.
    pub target: Target,
    /// Where that is a controller: it is not woken for each of them.
    pub batch: Option<Batch>,
}

/// When a controller is woken for the packets of a channel: for so many, or where the first one has waited.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Batch {
    /// Packets.
    pub packets: u32,
    /// Nanoseconds that a packet waits for others at most.
    pub within: u64,
}

impl Batch {
    /// Packets that can be asked for.
    pub const PACKETS: (u32, u32) = (1, 1 << 16);
    /// Nanoseconds that can be asked for: 1 µs to 1 s.
    pub const WITHIN: std::ops::RangeInclusive<u64> = 1_000..=1_000_000_000;
}

/// What injects packets into a channel, beside PPFs and ports.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Source {
    /// A controller.
    Controller(ControllerId),
    /// A group, of copies for its members.
    Group(TableId),
    /// A queue, of packets whose time has come.
    Queue(QueueId),
    /// The kernel's XDP hook, which hands over what it does not finish. Only [`crate::place::split`] makes it.
    Kernel,
}

/// Where a PPF has to run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Pin {
    /// In the kernel's XDP hook (`@kernel`).
    Kernel,
    /// On workers (`@worker`).
    Worker,
}

impl Pin {
    /// All, with how they are written.
    pub const ALL: [(Pin, &str); 2] = [(Pin::Kernel, "kernel"), (Pin::Worker, "worker")];

    /// How it is written behind `@`.
    pub fn name(self) -> &'static str {
        Pin::ALL[self as usize].1
    }
}

/// A packet processing function. Its body's entry block takes the packet as its only parameter.
#[derive(Clone, Debug, Hash)]
pub struct Ppf {
    /// Full name: `module.ppf`.
    pub name: String,
    /// Protocol of its packets.
    pub protocol: ProtocolId,
    /// Where it has to run, if the source says so.
    pub pin: Option<Pin>,
    /// Its code.
    pub body: Body,
    /// Where it is declared.
    pub span: Option<Span>,
}

/// Static bounds over all paths of the (acyclic) program.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Limits {
    /// Bytes that may be pushed in front of a received packet: an engine gives each frame at least this headroom.
    pub headroom: u32,
    /// The same without packets that a program, a controller or a hold table makes: of one that came in by `rx`.
    pub front: u32,
    /// Packets that may be made of or for one received packet, without itself: an engine has this many frames free per
    /// packet before it starts, so that `packet_copy` and `packet_create` cannot fail.
    pub copies: u32,
    /// Bytes that may be pushed in front of a packet whose head was grown: `Op::Grow` keeps them free.
    pub encap: u32,
    /// Bytes of the longest header that a packet is created with.
    pub created: u32,
}

impl Limits {
    /// Bytes of a frame in front of a created packet. No engine has less headroom than that.
    pub fn created_at(&self) -> u32 {
        self.headroom.next_multiple_of(64)
    }
}
