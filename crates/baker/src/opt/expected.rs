//! The expected value of a number computed from header fields: what a profile found it to be most often, else what it
//! is when the fields have their defaults.
//!
//! A protocol's defaults are what `packet_encap` writes, so they describe its plainest header: `ihl : 4 = 5` says that
//! an IPv4 header has no options. The optimiser tests a computed header length for this value and goes on with a
//! constant.

use crate::ir::analysis::Definitions;
use crate::ir::*;

/// Deepest expression that is looked into.
const DEPTH: usize = 16;
/// A packet's length, where a header's is compared with it.
const LONG: u128 = 65_535;

/// Where values of a body come from.
pub(super) struct Expected<'p> {
    program: &'p Program,
    body: &'p Body,
    definitions: Definitions<'p>,
}

impl<'p> Expected<'p> {
    pub fn new(program: &'p Program, body: &'p Body) -> Self {
        Expected { program, body, definitions: Definitions::new(body) }
    }

    /// The instruction that makes a value.
    pub fn inst(&self, value: Value) -> Option<&'p Inst> {
        self.definitions.inst(value)
    }

    /// The expected value of a value.
    pub fn of(&self, value: Value) -> Option<u128> {
        self.eval(value, DEPTH)
    }

    fn eval(&self, value: Value, depth: usize) -> Option<u128> {
        let depth = depth.checked_sub(1)?;
        if let Some(number) = self.body.usage.as_ref().and_then(|usage| usage.expected.get(&value)) {
            return Some(*number);
        }
        let width = |value: Value| match self.body.ty(value) {
            Ty::Int(width) => Some(width),
            _ => None,
        };
        let number = |value| Some((width(value)?, self.eval(value, depth)?));
        match self.inst(value)?.op {
            // Packets are usually longer than what is asked of their headers.
            Op::Len { .. } => Some(LONG),
            Op::Load { packet, bits } => {
                let Ty::Packet(protocol) = self.body.ty(packet) else { return None };
                let fields = &self.program.protocols[protocol.0 as usize].fields;
                let default = fields.iter().find(|field| field.bits == bits)?.default;
                (default != 0).then_some(default)
            }
            ref op => op.fold(width(value)?, number),
        }
    }
}
