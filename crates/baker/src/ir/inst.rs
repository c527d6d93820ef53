//! Instructions, blocks and bodies.

use super::profile::{Counts, Usage};
use super::program::*;
use crate::source::Span;

/// A value in SSA form: index into [`Body::values`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Value(pub u32);

/// Index into [`Body::blocks`]. Block 0 is the entry and has no predecessors.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct BlockId(pub u32);

/// Type of a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Ty {
    /// Bits, 1 to 128; a truth value has 1. Signedness is in the operation.
    Int(u32),
    /// Pointer to a table entry's value with this layout, or null.
    Entry(LayoutId),
    /// Packet whose head is a complete fixed header of this protocol. Unique: consumed exactly once.
    Packet(ProtocolId),
}

/// Binary operations. Both operands and the result have the same integer type. Total: see each.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum BinOp {
    /// Wraps.
    Add,
    /// Wraps.
    Sub,
    /// Wraps.
    Mul,
    /// Unsigned; by zero gives 0.
    UDiv,
    /// Signed, towards zero; by zero gives 0; the least value by −1 wraps to itself.
    SDiv,
    /// Unsigned remainder; by zero gives 0.
    URem,
    /// Signed remainder with the dividend's sign; by zero gives 0; the least value by −1 gives 0.
    SRem,
    /// Bitwise and.
    And,
    /// Bitwise or.
    Or,
    /// Bitwise exclusive or.
    Xor,
    /// Left shift by the right operand, unsigned; by the width or more gives 0.
    Shl,
    /// Logical right shift; by the width or more gives 0.
    LShr,
    /// Arithmetic right shift; by the width or more gives 0.
    AShr,
}

/// Comparisons of two integers of one type; the result has 1 bit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum CmpOp {
    /// Equal.
    Eq,
    /// Not equal.
    Ne,
    /// Unsigned less than.
    Ult,
    /// Unsigned less than or equal.
    Ule,
    /// Signed less than.
    Slt,
    /// Signed less than or equal.
    Sle,
}

/// Changes of width; the result's type is the target.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum CastOp {
    /// Widen with zeros.
    ZExt,
    /// Widen with the sign.
    SExt,
    /// Keep the low bits.
    Trunc,
}

/// An end of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum PacketEnd {
    /// In front of the first byte.
    Head,
    /// Behind the last byte.
    Tail,
}

/// An operation.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Op {
    /// A constant of the result's integer type; bits above the width are zero. Of an entry type: 0, null.
    Const(u128),
    /// Arithmetic.
    Bin(BinOp, Value, Value),
    /// Comparison.
    Cmp(CmpOp, Value, Value),
    /// Change of width.
    Cast(CastOp, Value),
    /// The second operand where the first (1 bit) is 1, else the third. Integers or entries.
    Select(Value, Value, Value),

    /// The time in nanoseconds since a moment before the program started; 64 bits, the same for a whole batch.
    Now,

    /// Bits of the packet's header as an integer of `bits.width`. They lie within the protocol's fixed header.
    Load {
        /// The packet.
        packet: Value,
        /// The bits, counted from the head.
        bits: BitRange,
    },
    /// Stores an integer of `bits.width` into the packet's header; other bits keep their values.
    Store {
        /// The packet.
        packet: Value,
        /// The bits, counted from the head.
        bits: BitRange,
        /// The new value.
        value: Value,
    },
    /// Whether the packet has at least `bytes` (32 bits) bytes from its head; 1 bit.
    Has {
        /// The packet.
        packet: Value,
        /// Number of bytes.
        bytes: Value,
    },
    /// Bytes from the packet's head to its end; 32 bits.
    Len {
        /// The packet.
        packet: Value,
    },
    /// Moves the head `bytes` (32 bits) towards the end. Consumes the packet; the result's type is the new protocol.
    /// The program has tested with `Has` that the bytes and then the new protocol's fixed header are there.
    Pull {
        /// The packet.
        packet: Value,
        /// Number of bytes.
        bytes: Value,
    },
    /// Puts `bytes` zero bytes in front of the head. Consumes the packet; the result's type is the new protocol.
    Push {
        /// The packet.
        packet: Value,
        /// Number of bytes: the fixed header's size of the new protocol.
        bytes: u32,
    },
    /// Moves the head `by` bytes: towards the end, or, where negative, to the front, where bytes of unknown value then
    /// are. Consumes the packet; the result's type is the new protocol. Only the optimiser makes it, in place of `Pull`
    /// and `Push`.
    Move {
        /// The packet.
        packet: Value,
        /// Number of bytes.
        by: i32,
    },
    /// A new packet with the same bytes from the head on and the same metadata. Does not consume.
    Copy {
        /// The packet.
        packet: Value,
    },
    /// As `Load`, but the bits are counted from a place found at run time. The program has tested that they lie within
    /// the packet.
    LoadAt {
        /// The packet.
        packet: Value,
        /// Bytes (32 bits) from the head to where `bits` counts from.
        offset: Value,
        /// The bits.
        bits: BitRange,
    },
    /// As `Store`, at a place found at run time. The program has tested that the bits lie within the packet.
    StoreAt {
        /// The packet.
        packet: Value,
        /// Bytes (32 bits) from the head to where `bits` counts from.
        offset: Value,
        /// The bits.
        bits: BitRange,
        /// The new value.
        value: Value,
    },
    /// Ones' complement sum (RFC 1071) of some bytes; 16 bits. Words lie at even distances from the head, a byte whose
    /// partner is outside counts with a partner of 0, and the sum is 0 only where all bytes are. The program has tested
    /// that the bytes lie within the packet.
    Sum {
        /// The packet.
        packet: Value,
        /// Bytes (32 bits) from the head to the first one.
        offset: Value,
        /// Number of bytes (32 bits).
        bytes: Value,
    },
    /// Brings a checksum up to date with changes of what it covers, and of the pseudo header in front: sums of ~m + m'
    /// (RFC 1624 equation 3), 32 bits each. Where both are 0 it stays as it is. Only [`super::Sums::Operations`] has
    /// it. Where a device is still to compute the checksum, the field has the sum of the pseudo header, so that a code
    /// generator has to know which is which. The program has tested that the field lies within the packet.
    Checksum {
        /// The packet.
        packet: Value,
        /// Bytes (32 bits) from the head to the field, which has 16 bits.
        at: Value,
        /// Of covered bytes.
        covered: Value,
        /// Of the pseudo header.
        pseudo: Value,
        /// A checksum of 0 means that there is none, and a computed 0 is written as 0xffff.
        optional: bool,
    },
    /// Takes bytes off the packet's end. Does not consume. The program has tested that the fixed header stays.
    Trim {
        /// The packet.
        packet: Value,
        /// Number of bytes (32 bits).
        bytes: Value,
    },
    /// Adds zero bytes where the frame has room for them; 1 where it had, else the packet stays as it is. Does not
    /// consume. In front, [`Limits::encap`] bytes are kept free for `Push`.
    Grow {
        /// The packet.
        packet: Value,
        /// Number of bytes (32 bits).
        bytes: Value,
        /// Which end of the packet.
        end: PacketEnd,
    },
    /// A new packet: a fixed header of zeros, all metadata zero.
    Create,
    /// Metadata of the packet.
    MetaLoad {
        /// The packet.
        packet: Value,
        /// The field.
        field: MetaId,
    },
    /// Sets metadata of the packet.
    MetaStore {
        /// The packet.
        packet: Value,
        /// The field.
        field: MetaId,
        /// The new value.
        value: Value,
    },
    /// Hands the packet to a channel. Consumes it. A PPF at the other end runs before the next instruction.
    Put {
        /// The packet.
        packet: Value,
        /// The channel.
        channel: ChannelId,
    },
    /// Puts a copy of the packet to a channel: its bytes from `skip` behind the head on, and its metadata but for
    /// fields that the copy has other values of. Does not consume. Only the placer makes it, for the kernel, which
    /// cannot have the copy as a packet: the channel leads out of it.
    Tap {
        /// The packet.
        packet: Value,
        /// Bytes (32 bits) from its head to that of the copy. They are there, and the channel's protocol behind them.
        skip: Value,
        /// The copy's own metadata.
        metadata: Vec<(MetaId, Value)>,
        /// The channel.
        channel: ChannelId,
    },
    /// Counts a packet on a channel whose PPF follows here, in the same body. Only the optimiser makes it.
    Pass {
        /// The channel.
        channel: ChannelId,
    },
    /// From here on time is spent in a PPF: only where time is measured ([`crate::opt::timing`]).
    Time {
        /// The PPF.
        ppf: PpfId,
    },
    /// Drops the packet, counted under the reason. Consumes it.
    Drop {
        /// The packet.
        packet: Value,
        /// The reason.
        reason: DropId,
    },

    /// Gives back what [`Op::HoldGet`] has put in place of a packet. Consumes it.
    Discard {
        /// The packet.
        packet: Value,
    },
    /// Holds the packet under a number (64 bits), in place of one that was, and of the one in the same place, which is
    /// the number modulo the table's size. Where the table then has more packets than it may, the one that was put
    /// there first goes, which is counted as one that a full table refuses. Consumes the packet.
    HoldPut {
        /// The packet.
        packet: Value,
        /// The hold table.
        table: TableId,
        /// The number.
        key: Value,
    },
    /// A copy of the packet that is held under a number (64 bits). Where there is none: a packet of 0 bytes, which is
    /// asked for its length and given back, and nothing else. Its head is as far in its frame as it was, but no nearer
    /// to the frame's begin than that of a packet that was received.
    HoldGet {
        /// The hold table.
        table: TableId,
        /// The number.
        key: Value,
    },

    /// Looks a key up; the result is a pointer to the value, or null. An array index at or above the capacity gives
    /// null.
    Lookup {
        /// The table.
        table: TableId,
        /// One value per field of the key's layout.
        key: Vec<Value>,
    },
    /// A look-up in the table has given this pointer, which is counted where the program is measured. A note, as
    /// [`Op::Time`] is.
    Found {
        /// The table.
        table: TableId,
        /// The pointer.
        entry: Value,
    },
    /// Whether an entry pointer is null; 1 bit.
    IsNull(Value),
    /// A field of an entry. The pointer is not null.
    EntryLoad {
        /// The entry.
        entry: Value,
        /// Index of the field in the entry's layout.
        field: u32,
    },
    /// Sets a field of an entry. The pointer is not null.
    EntryStore {
        /// The entry.
        entry: Value,
        /// Index of the field in the entry's layout.
        field: u32,
        /// The new value.
        value: Value,
    },
    /// Locks an entry against other `Lock`s of it, on all workers, and waits for that if need be. The pointer is not
    /// null, and leads into tables whose entries can be locked. No other entry is locked, and until the `Unlock`, which
    /// all paths come to, no table is looked up or changed and no packet made, moved, resized or consumed.
    Lock {
        /// The entry.
        entry: Value,
    },
    /// What was stored in entries before is seen by all before anything is loaded from tables behind it.
    Fence,
    /// Ends what [`Op::Lock`] began.
    Unlock {
        /// The entry.
        entry: Value,
    },
    /// Inserts or replaces; 1 where the entry is now there, 0 where the table was full (counted under the table).
    /// For an array: 0 where the index is at or above the capacity. Not for lpm. Where only a `new` entry is wanted, 0,
    /// without a count, where there is one, which stays as it is; only for hash.
    Insert {
        /// The table.
        table: TableId,
        /// One value per field of the key's layout.
        key: Vec<Value>,
        /// One value per field of the value's layout but for the lock.
        value: Vec<Value>,
        /// Whether an entry that is there stays as it is.
        new: bool,
    },
    /// Removes a hash entry; 1 where it was there. Only for hash. A pointer to the entry still reads and writes its
    /// value until the packet is done; no look-up finds it any more, also where the key is inserted again.
    Remove {
        /// The table.
        table: TableId,
        /// One value per field of the key's layout.
        key: Vec<Value>,
    },
    /// Sets the deadline of an entry to `at` (64 bits, nanoseconds as [`Op::Now`], but see [`super::deadline`]), or to
    /// none where that is 0; 1 where there is such an entry. Only of a table that a timer goes over at deadlines.
    SetDeadline {
        /// The table.
        table: TableId,
        /// One value per field of the key's layout.
        key: Vec<Value>,
        /// The time.
        at: Value,
    },
    /// 1 where there is such an entry and it has a deadline that is not later than the present time; then it has none
    /// any more. Of all workers that try one gets it.
    TakeDeadline {
        /// The table.
        table: TableId,
        /// One value per field of the key's layout.
        key: Vec<Value>,
    },
    /// Calls a function of a controller. The result is there where the function has one.
    Extern {
        /// The function.
        function: ExternId,
        /// One value per argument.
        args: Vec<Value>,
    },
    /// Takes `amount` (64 bits) tokens from a meter (see [`super::meter`]); 1 where it held them, 0 and nothing taken
    /// where it did not.
    Take {
        /// The entry that is the meter.
        entry: Value,
        /// Number of tokens.
        amount: Value,
    },
    /// Adds `amount` (64 bits) to cell `index` (32 bits) of a counter; ignored where the index is at or above its size.
    Count {
        /// The counter.
        counter: CounterId,
        /// The cell.
        index: Value,
        /// What to add.
        amount: Value,
    },
}

/// An instruction: an operation, its result if it has one, and where it comes from.
#[derive(Clone, Debug, Hash)]
pub struct Inst {
    /// The result; `None` for stores, puts, drops and counts.
    pub result: Option<Value>,
    /// The operation.
    pub op: Op,
    /// Source location.
    pub span: Option<Span>,
}

/// A jump's destination with the values for its block parameters.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Dest {
    /// The block.
    pub block: BlockId,
    /// One value per parameter of the block.
    pub args: Vec<Value>,
}

/// How a block ends.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub enum Terminator {
    /// To one block.
    Jump(Dest),
    /// To the first where the condition (1 bit) is 1, else to the second.
    Branch(Value, Dest, Dest),
    /// End of the PPF.
    #[default]
    Return,
}

/// A basic block.
#[derive(Clone, Debug, Default, Hash)]
pub struct Block {
    /// Values that its predecessors pass.
    pub params: Vec<Value>,
    /// Instructions.
    pub insts: Vec<Inst>,
    /// How it ends.
    pub term: Terminator,
    /// How often it ran, where a profile says so.
    pub counts: Option<Counts>,
}

/// Code of a PPF or timer. Block 0 is the entry; its parameter is a PPF's packet, or the fields of a timer's key.
#[derive(Clone, Debug, Default, Hash)]
pub struct Body {
    /// Type of each value.
    pub values: Vec<Ty>,
    /// Blocks. Loops are ordinary backward jumps with constant trip bounds, guaranteed by the checker.
    pub blocks: Vec<Block>,
    /// What a profile says of the packets that enter it.
    pub usage: Option<Usage>,
}

impl Body {
    /// A new value of this type.
    pub fn value(&mut self, ty: Ty) -> Value {
        self.values.push(ty);
        Value(self.values.len() as u32 - 1)
    }

    /// Its instructions.
    pub fn size(&self) -> usize {
        self.blocks.iter().map(|block| block.insts.len()).sum()
    }

    /// A new empty block that returns.
    pub fn block(&mut self) -> BlockId {
        self.blocks.push(Block::default());
        BlockId(self.blocks.len() as u32 - 1)
    }

    /// Type of a value.
    pub fn ty(&self, value: Value) -> Ty {
        self.values[value.0 as usize]
    }

    /// The channels that it puts packets into, once for each put.
    pub fn puts(&self) -> impl Iterator<Item = ChannelId> + '_ {
        self.blocks.iter().flat_map(|block| &block.insts).filter_map(|inst| match inst.op {
            Op::Put { channel, .. } => Some(channel),
            _ => None,
        })
    }

    /// Appends an instruction with a result.
    pub fn push(&mut self, block: BlockId, ty: Ty, op: Op, span: Option<Span>) -> Value {
        let result = self.value(ty);
        self.blocks[block.0 as usize].insts.push(Inst { result: Some(result), op, span });
        result
    }

    /// Appends an instruction without a result.
    pub fn effect(&mut self, block: BlockId, op: Op, span: Option<Span>) {
        self.blocks[block.0 as usize].insts.push(Inst { result: None, op, span });
    }
}

impl Terminator {
    /// Its destinations.
    pub fn dests(&self) -> Vec<&Dest> {
        match self {
            Terminator::Jump(dest) => vec![dest],
            Terminator::Branch(_, then, other) => vec![then, other],
            Terminator::Return => Vec::new(),
        }
    }

    /// Its destinations, to change them.
    pub fn dests_mut(&mut self) -> Vec<&mut Dest> {
        match self {
            Terminator::Jump(dest) => vec![dest],
            Terminator::Branch(_, then, other) => vec![then, other],
            Terminator::Return => Vec::new(),
        }
    }
}
