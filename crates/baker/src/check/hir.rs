//! The typed program: what the checker makes of a syntax tree and what [`crate::ir::lower`] takes.
//!
//! Every name is resolved, every conversion is explicit, every handle and pointer has been proved to be used rightly.

use crate::builtin::Function as Builtin;
use crate::ir::{
    BinOp, Channel, ChannelId, Controller, Counter, CounterId, DropReason, Extern, ExternId, Layout, LayoutId,
    MetaField, MetaId, Pin, Protocol, ProtocolId, Queue, QueueId, Table, TableId,
};
use crate::source::Span;

/// Index into [`Program::functions`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FunctionId(pub u32);
/// Index into [`Code::locals`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct LocalId(pub u32);
/// Index into [`Program::structs`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct StructId(pub u32);

/// A field of a header that the compiler writes a length into.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Counts {
    /// Which one it is.
    pub field: u32,
    /// Bytes of the fixed header that it does not count: all or none.
    pub but: u32,
    /// Its name in the declaration.
    pub span: Span,
}

/// A checked program.
#[derive(Clone, Debug)]
pub struct Program {
    /// Stem of the source file's name.
    pub name: String,
    /// Protocols.
    pub protocols: Vec<Protocol>,
    /// The demux of each protocol: header bytes, 32 bits, over [`ExprKind::Local`] 0, the packet.
    pub demux: Vec<Expr>,
    /// The length of each protocol that says one: bytes from its header to the end of what it holds, as `demux`.
    pub length: Vec<Option<Expr>>,
    /// The declared length of each protocol that has one.
    pub counts: Vec<Option<Counts>>,
    /// Metadata fields.
    pub metadata: Vec<MetaField>,
    /// Bytes of metadata.
    pub metadata_size: u32,
    /// Structs.
    pub structs: Vec<Struct>,
    /// Layouts of table keys and values.
    pub layouts: Vec<Layout>,
    /// Tables.
    pub tables: Vec<Table>,
    /// Counters.
    pub counters: Vec<Counter>,
    /// Drop reasons, the built-in ones first.
    pub reasons: Vec<DropReason>,
    /// Controllers.
    pub controllers: Vec<Controller>,
    /// Functions that controllers have.
    pub externs: Vec<Extern>,
    /// Channels with their targets; channel 0 is `rx`.
    pub channels: Vec<Channel>,
    /// PPFs, in the order of their ids.
    pub ppfs: Vec<Ppf>,
    /// Timers, in the order of their ids.
    pub timers: Vec<Timer>,
    /// Queues, in the order of their ids.
    pub queues: Vec<Queue>,
    /// Functions.
    pub functions: Vec<Function>,
    /// Packets made for one that enters, or in one call of a timer, at most.
    pub copies: u32,
    /// Bytes that come to lie in front of a received packet at most.
    pub headroom: u32,
    /// Bytes that `packet_encap` puts in front of a packet that was grown at its head, at most.
    pub encap: u32,
    /// Bytes that are put in front of a packet that was received, at most.
    pub front: u32,
}

impl Program {
    /// The code of all PPFs, timers and functions.
    pub fn bodies(&self) -> impl Iterator<Item = &Code> {
        let timers = self.timers.iter().map(|timer| &timer.code);
        let functions = self.functions.iter().map(|function| &function.code);
        self.ppfs.iter().map(|ppf| &ppf.code).chain(timers).chain(functions)
    }
}

/// A struct: named scalar fields.
#[derive(Clone, Debug)]
pub struct Struct {
    /// Its name.
    pub name: String,
    /// Names and types of its fields. Each element of an array is a field of its own: `x[0]`, `x[1]`, …
    pub fields: Vec<(String, Type)>,
    /// Its arrays by their names. The struct that a variable is which is an array has one without a name.
    pub arrays: Vec<(String, Elements)>,
    /// How it lies in a table; of a variable that is an array, no layout at all.
    pub layout: LayoutId,
}

/// The fields that are the elements of an array.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Elements {
    /// The first of them.
    pub first: u32,
    /// How many there are.
    pub count: u32,
}

/// A type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Type {
    /// Nothing.
    Void,
    /// Truth value.
    Bool,
    /// Integer.
    Int {
        /// Bits, 1 to 128.
        width: u32,
        /// Two's complement.
        signed: bool,
    },
    /// A drop reason.
    Reason,
    /// Struct value.
    Struct(StructId),
    /// Handle of a packet.
    Packet(ProtocolId),
    /// Pointer to the value of a table entry.
    Pointer(LayoutId),
    /// Bytes of a packet that were loaded from it, or null where they are beyond its end.
    Loaded {
        /// Bits, 8 to 128, whole bytes.
        width: u32,
        /// Two's complement.
        signed: bool,
    },
    /// Type of `null`.
    Null,
    /// Type of something already reported; accepted everywhere.
    Error,
}

/// A PPF.
#[derive(Clone, Debug)]
pub struct Ppf {
    /// Full name.
    pub name: String,
    /// Protocol of its packets.
    pub protocol: ProtocolId,
    /// Where it has to run.
    pub pin: Option<Pin>,
    /// Its code; local 0 is the packet.
    pub code: Code,
    /// Where its name is declared.
    pub span: Span,
}

/// A timer.
#[derive(Clone, Debug)]
pub struct Timer {
    /// Full name.
    pub name: String,
    /// The table that it goes over.
    pub table: Option<TableId>,
    /// Nanoseconds from one start to the next; 0 where it runs at the deadlines of the table's entries.
    pub period: u64,
    /// Calls at most that are made one after the other.
    pub slice: u32,
    /// Number of parameters: the first locals, which are the key and, unless the table is a set, its entry.
    pub params: u32,
    /// Its code.
    pub code: Code,
    /// Where its name is declared.
    pub span: Span,
}

/// A function. It is inlined where it is called.
#[derive(Clone, Debug)]
pub struct Function {
    /// Its name.
    pub name: String,
    /// Number of parameters: the first locals. A packet is lent: the function cannot consume it.
    pub params: u32,
    /// What it returns.
    pub result: Type,
    /// Its code.
    pub code: Code,
}

/// Locals and statements.
#[derive(Clone, Debug, Default)]
pub struct Code {
    /// Parameters, then variables.
    pub locals: Vec<Local>,
    /// Statements.
    pub body: Vec<Stmt>,
    /// The closing brace.
    pub end: Option<Span>,
    /// What `switch`es without `default` look at, where they have no label for some values, and which these are.
    pub unlabelled: Vec<(Span, String)>,
}

/// A parameter or variable.
#[derive(Clone, Debug)]
pub struct Local {
    /// Its name.
    pub name: String,
    /// Its type.
    pub ty: Type,
    /// Where it is declared.
    pub span: Span,
}

/// A statement.
#[derive(Clone, Debug)]
pub struct Stmt {
    /// What it does.
    pub kind: StmtKind,
    /// Where it stands.
    pub span: Span,
}

/// Kinds of statements.
#[derive(Clone, Debug)]
pub enum StmtKind {
    /// Declares a variable; zero or null without a value.
    Let(LocalId, Option<Expr>),
    /// Sets a variable.
    SetLocal(LocalId, Expr),
    /// Sets a field of a struct variable.
    SetLocalField(LocalId, u32, Expr),
    /// Sets a header field.
    SetField(LocalId, u32, Expr),
    /// Sets metadata.
    SetMeta(LocalId, MetaId, Expr),
    /// Sets a field through a pointer known not to be null.
    SetEntryField(Expr, u32, Expr),
    /// Sets the whole value through a pointer known not to be null.
    SetEntry(Expr, Expr),
    /// Sets one field of an array's entry; ignored where the index is out of range.
    SetArrayField(TableId, Expr, u32, Expr),
    /// Sets an element of an array, by an index known at run time only: of a variable, of an array's entry, or through
    /// a pointer known not to be null; ignored beyond the end.
    SetElement(Expr, Elements, Expr, Expr),
    /// `channel_put`.
    Put(ChannelId, Expr),
    /// `channel_put_at`: the channel, the queue, the packet, the line, the time.
    PutAt(ChannelId, QueueId, Expr, Expr, Expr),
    /// `channel_put_all`: the channel, the groups, the packet, which of them.
    PutAll(ChannelId, TableId, Expr, Expr),
    /// `packet_drop`: the packet and the reason, which is computed first.
    Drop(Expr, Expr),
    /// `hold_put`: table, number, packet.
    HoldPut(TableId, Expr, Expr),
    /// `packet_require`: where the condition does not hold, all packets are dropped for the reason and the PPF ends.
    Require(Expr, Expr),
    /// `fence`.
    Fence,
    /// `counter_add`: counter, cell, amount.
    Count(CounterId, Expr, Expr),
    /// An expression for its effect.
    Expr(Expr),
    /// `if`.
    If(Expr, Vec<Stmt>, Vec<Stmt>),
    /// `switch`: the value, the arms, what is done for all other values.
    Switch(Expr, Vec<Arm>, Vec<Stmt>),
    /// `critical`: the entry behind a pointer known not to be null is locked meanwhile.
    Critical(Expr, Vec<Stmt>),
    /// `for`. The initial statement stands before it.
    For(Box<For>),
    /// `return`.
    Return(Option<Expr>),
    /// `break`.
    Break,
    /// `continue`.
    Continue,
    /// Statements with a scope of their own.
    Block(Vec<Stmt>),
}

/// An arm of a `switch`.
#[derive(Clone, Debug)]
pub struct Arm {
    /// The values it stands for, of the type of the switch's value; each stands in one arm only.
    pub values: Vec<u128>,
    /// The statements.
    pub body: Vec<Stmt>,
}

/// A loop with a constant bound.
#[derive(Clone, Debug)]
pub struct For {
    /// Goes on while this is true.
    pub condition: Expr,
    /// Done after each trip.
    pub step: Vec<Stmt>,
    /// The statements.
    pub body: Vec<Stmt>,
    /// Trips at most.
    pub trips: u32,
}

/// An expression.
#[derive(Clone, Debug)]
pub struct Expr {
    /// What it computes.
    pub kind: ExprKind,
    /// Its type.
    pub ty: Type,
    /// Where it stands.
    pub span: Span,
}

/// Comparison operators on two operands of one type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Comparison {
    /// `==`
    Eq,
    /// `!=`
    Ne,
    /// `<`
    Lt,
    /// `<=`
    Le,
    /// `>`
    Gt,
    /// `>=`
    Ge,
}

/// Kinds of expressions.
#[derive(Clone, Debug)]
pub enum ExprKind {
    /// A constant of the expression's integer or bool type, or null.
    Const(u128),
    /// A variable. Of a packet type: moves the handle, or lends it as an argument.
    Local(LocalId),
    /// A field of a struct value.
    StructField(Box<Expr>, u32),
    /// A header field.
    Field(LocalId, u32),
    /// Metadata.
    Meta(LocalId, MetaId),
    /// `now_ns`.
    Now,
    /// `packet_length`.
    Length(LocalId),
    /// Arithmetic.
    Binary(BinOp, Box<Expr>, Box<Expr>),
    /// Comparison of integers, bools, or pointers with null.
    Compare(Comparison, Box<Expr>, Box<Expr>),
    /// `&&`, operands bool.
    And(Box<Expr>, Box<Expr>),
    /// `||`, operands bool.
    Or(Box<Expr>, Box<Expr>),
    /// `!`, operand bool.
    Not(Box<Expr>),
    /// `?:`, condition bool.
    Ternary(Box<Expr>, Box<Expr>, Box<Expr>),
    /// Change of integer type: truncates, or widens by the operand's sign. From bool: 0 or 1.
    Cast(Box<Expr>),
    /// Call of a function.
    Call(FunctionId, Vec<Expr>),
    /// Call of a function that a controller has.
    Extern(ExternId, Vec<Expr>),
    /// Look-up; pointer or null.
    Lookup(TableId, Vec<Expr>),
    /// Value of an array's entry; zero where the index is out of range.
    ArrayValue(TableId, Box<Expr>),
    /// A field through a pointer known not to be null.
    EntryField(Box<Expr>, u32),
    /// The whole value through a pointer known not to be null.
    Entry(Box<Expr>),
    /// An element of an array, by an index known at run time only, of a struct value or through a pointer known not to
    /// be null; zero beyond the end.
    Element(Box<Expr>, Elements, Box<Expr>),
    /// A struct value, one expression per field.
    Struct(Vec<Expr>),
    /// `table_insert` or `table[key] = value`: true where the entry is now there.
    Insert(TableId, Vec<Expr>, Box<Expr>, bool),
    /// `table_remove`: true where the entry was there.
    Remove(TableId, Vec<Expr>),
    /// `timer_set`: the table, the key, the time; true where the entry is there. `timer_cancel`: the time is 0.
    SetDeadline(TableId, Vec<Expr>, Box<Expr>),
    /// `meter_take`: the meter, which of its cells, how many tokens.
    Take(TableId, Box<Expr>, Box<Expr>),
    /// `packet_copy`: from the handle's header on.
    Copy(LocalId),
    /// `hold_get`: a copy of what is held under a number, or null. Only a variable is declared with it, and the next
    /// statement tests it.
    HoldGet(TableId, Box<Expr>),
    /// `group_member`: the member that a packet was copied for; pointer or null.
    Member(TableId, LocalId),
    /// `packet_create` of the expression's protocol.
    Create,
    /// `packet_decap` to the expression's protocol; the header's bytes where they are not its demux.
    Decap(LocalId, Option<Box<Expr>>),
    /// `packet_peek` at the expression's protocol, as `Decap` but for what it leaves: only a variable is declared with
    /// it.
    Peek(LocalId, Option<Box<Expr>>),
    /// `packet_encap` with the expression's protocol.
    Encap(LocalId),
    /// `packet_replace` by the expression's protocol. Of a handle that looks into a packet, only a variable is declared
    /// with it.
    Replace(LocalId),
    /// Another function of the language on a packet, with its further arguments.
    Packet(Builtin, LocalId, Vec<Expr>),
}

impl ExprKind {
    /// The function of the language that it calls, by name or as an operator.
    pub fn function(&self) -> Option<Builtin> {
        Some(match self {
            ExprKind::Now => Builtin::NowNs,
            ExprKind::Length(_) => Builtin::PacketLength,
            ExprKind::Insert(.., true) => Builtin::TableInsertNew,
            ExprKind::Insert(..) => Builtin::TableInsert,
            ExprKind::Remove(..) => Builtin::TableRemove,
            ExprKind::SetDeadline(..) => Builtin::TimerSet,
            ExprKind::Take(..) => Builtin::MeterTake,
            ExprKind::Copy(_) => Builtin::PacketCopy,
            ExprKind::Create => Builtin::PacketCreate,
            ExprKind::HoldGet(..) => Builtin::HoldGet,
            ExprKind::Member(..) => Builtin::GroupMember,
            ExprKind::Decap(..) => Builtin::PacketDecap,
            ExprKind::Peek(..) => Builtin::PacketPeek,
            ExprKind::Encap(_) => Builtin::PacketEncap,
            ExprKind::Replace(_) => Builtin::PacketReplace,
            ExprKind::Packet(function, ..) => *function,
            _ => return None,
        })
    }

    /// The packet that the function is given.
    pub fn packet(&self) -> Option<LocalId> {
        match self {
            ExprKind::Length(packet)
            | ExprKind::Copy(packet)
            | ExprKind::Member(_, packet)
            | ExprKind::Decap(packet, _)
            | ExprKind::Peek(packet, _)
            | ExprKind::Encap(packet)
            | ExprKind::Replace(packet)
            | ExprKind::Packet(_, packet, _) => Some(*packet),
            _ => None,
        }
    }
}

impl StmtKind {
    /// The function of the language that it calls.
    pub fn function(&self) -> Option<Builtin> {
        Some(match self {
            StmtKind::Put(..) => Builtin::ChannelPut,
            StmtKind::HoldPut(..) => Builtin::HoldPut,
            StmtKind::PutAt(..) => Builtin::ChannelPutAt,
            StmtKind::PutAll(..) => Builtin::ChannelPutAll,
            StmtKind::Drop(..) => Builtin::PacketDrop,
            StmtKind::Require(..) => Builtin::PacketRequire,
            StmtKind::Count(..) => Builtin::CounterAdd,
            StmtKind::Fence => Builtin::Fence,
            _ => return None,
        })
    }
}

impl Expr {
    /// Whether it compares a handle with null: which, and whether it is true where that is null.
    pub fn tests_handle(&self) -> Option<(LocalId, bool)> {
        let ExprKind::Compare(comparison, a, b) = &self.kind else { return None };
        let handle = if b.ty == Type::Null { a } else { b };
        match (&handle.kind, handle.ty) {
            (ExprKind::Local(local), Type::Packet(_)) => Some((*local, *comparison == Comparison::Eq)),
            _ => None,
        }
    }
}
