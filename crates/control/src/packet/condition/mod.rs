//! Conditions on fields of packets, in Baker's own expressions: `ipv4.dst == 10.0.1.80 && tcp.dst_port < 1024`.
//!
//! A packet may have several headers of a protocol. A comparison holds where it does for one of them, and does not
//! where there is none. The name of a protocol alone holds where there is such a header.

mod read;

use baker::ir::Program;
use baker::syntax::ast::BinaryOp;

use super::dissect::{Layer, dissect};

/// What a packet is asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Condition(Test);

#[derive(Clone, Debug, PartialEq, Eq)]
enum Test {
    /// There is a header of this protocol.
    Has(String),
    Not(Box<Test>),
    Both(Box<[Test; 2]>),
    Either(Box<[Test; 2]>),
    /// A comparison, with the protocols whose fields are in it.
    Compared {
        op: BinaryOp,
        sides: [Number; 2],
        protocols: Vec<String>,
    },
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Number {
    Constant(u128),
    Field { protocol: String, field: String, width: u32 },
    Combined(BinaryOp, Box<[Number; 2]>),
}

impl Condition {
    /// Of text, with names of the program. `=` is taken for `==`.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn read(program: &Program, text: &str) -> Result<Condition, String> {
        read::test(program, text).map(Condition)
    }

    /// Whether it holds of a packet.
    pub fn holds(&self, program: &Program, packet: &[u8]) -> bool {
        self.0.holds(&Headers { program, layers: &dissect(program, packet) })
    }
}

/// The headers of a packet.
struct Headers<'p> {
    program: &'p Program,
    layers: &'p [Layer],
}

impl<'p> Headers<'p> {
    fn of(&self, protocol: &str) -> impl Iterator<Item = &'p Layer> {
        self.layers.iter().filter(move |layer| self.program.protocols[layer.protocol].name == protocol)
    }
}

impl Test {
    fn holds(&self, headers: &Headers) -> bool {
        match self {
            Test::Has(protocol) => headers.of(protocol).next().is_some(),
            Test::Not(test) => !test.holds(headers),
            Test::Both(tests) => tests.iter().all(|test| test.holds(headers)),
            Test::Either(tests) => tests.iter().any(|test| test.holds(headers)),
            Test::Compared { op, sides, protocols } => {
                let compared = |chosen: &Chosen| {
                    let [left, right] = sides.each_ref().map(|side| side.value(chosen));
                    left.zip(right).is_some_and(|(left, right)| holds(*op, left, right))
                };
                any(headers, protocols, &mut Vec::new(), &compared)
            }
        }
    }
}

/// A header of each protocol.
type Chosen<'p> = [(&'p str, &'p Layer)];

/// Whether something holds for one header of each protocol.
fn any<'p>(
    headers: &Headers<'p>,
    protocols: &'p [String],
    chosen: &mut Vec<(&'p str, &'p Layer)>,
    holds: &dyn Fn(&Chosen) -> bool,
) -> bool {
    let Some((first, rest)) = protocols.split_first() else { return holds(chosen) };
    headers.of(first).any(|layer| {
        chosen.push((first, layer));
        let found = any(headers, rest, chosen, holds);
        chosen.pop();
        found
    })
}

fn holds(op: BinaryOp, left: u128, right: u128) -> bool {
    match op {
        BinaryOp::Eq => left == right,
        BinaryOp::Ne => left != right,
        BinaryOp::Lt => left < right,
        BinaryOp::Le => left <= right,
        BinaryOp::Gt => left > right,
        BinaryOp::Ge => left >= right,
        _ => false,
    }
}

impl Number {
    /// With one header of each protocol; none where it has no value, such as of a division by zero.
    fn value(&self, chosen: &Chosen) -> Option<u128> {
        match self {
            Number::Constant(value) => Some(*value),
            Number::Field { protocol, field, .. } => {
                let (_, layer) = chosen.iter().find(|(name, _)| name == protocol)?;
                layer.fields.iter().find(|own| own.name == *field).map(|own| own.value)
            }
            Number::Combined(op, sides) => {
                let [left, right] = sides.each_ref().map(|side| side.value(chosen));
                combined(*op, left?, right?)
            }
        }
    }
}

/// As Baker computes it, in 128 bits.
fn combined(op: BinaryOp, left: u128, right: u128) -> Option<u128> {
    let places = u32::try_from(right).unwrap_or(u32::MAX);
    match op {
        BinaryOp::BitOr => Some(left | right),
        BinaryOp::BitXor => Some(left ^ right),
        BinaryOp::BitAnd => Some(left & right),
        BinaryOp::Shl => Some(left.checked_shl(places).unwrap_or(0)),
        BinaryOp::Shr => Some(left.checked_shr(places).unwrap_or(0)),
        BinaryOp::Add => Some(left.wrapping_add(right)),
        BinaryOp::Sub => Some(left.wrapping_sub(right)),
        BinaryOp::Mul => Some(left.wrapping_mul(right)),
        BinaryOp::Div => left.checked_div(right),
        BinaryOp::Rem => left.checked_rem(right),
        _ => None,
    }
}
