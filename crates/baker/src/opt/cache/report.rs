//! What caching could not do, where, and why.

use std::collections::HashMap;

use crate::ir::PpfId;

/// What was done to a body.
#[derive(Clone, Debug, Default)]
pub struct Report {
    /// Places where packets went back into memory, and why.
    pub fallbacks: Vec<Fallback>,
    /// For each body: how many bytes from the packet's head are loaded at once.
    pub ahead: HashMap<PpfId, u32>,
}

/// A place behind which accesses go to memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fallback {
    /// The PPF (an aggregate's root).
    pub ppf: PpfId,
    /// The operation's source.
    pub span: Option<crate::source::Span>,
    /// Why.
    pub reason: Reason,
}

/// Why packets went back into memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Reason {
    /// The packet's length or head changes by a number found at run time.
    Resized,
    /// A place in the packet that is found at run time.
    ComputedOffset,
    /// A header length that is not the expected one.
    Unexpected,
    /// Bytes farther from the head than is held in registers.
    Far,
    /// A block that is reached with too many different abstract states of its packets.
    Copies,
    /// The packet is shorter than most.
    Short,
}

impl Reason {
    /// For people.
    pub fn text(self) -> &'static str {
        match self {
            Reason::Resized => "the packet is grown or trimmed",
            Reason::ComputedOffset => "an offset in the packet that is known at run time only",
            Reason::Unexpected => "a header length other than the expected one",
            Reason::Far => "farther from the packet's head than headers are cached",
            Reason::Copies => "reached with too many abstract states",
            Reason::Short => "a packet shorter than the headers that most have",
        }
    }
}
