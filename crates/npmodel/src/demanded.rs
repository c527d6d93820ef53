//! Which 32-bit words of a value exist on an engine: those that are demanded, and that may be other than zero.
//!
//! ```text
//! v1: u128 = zext v0 (u16)      one word may be other than zero
//! v2: u128 = shl v1, 96         … the highest: a renaming, no instruction
//! v3: u128 = or v2, v4          one instruction, where v4's highest word is other than zero; else none
//! v5: u32  = trunc (v3 >> 96)   asks for v3's highest word alone: the others are never computed
//! ```
//!
//! So wide values, in which the optimiser holds headers, cost what they cost a compiler that splits them into
//! registers.

use baker::ir::analysis::Definitions;
use baker::ir::{BinOp, Block, Body, CastOp, Op, Terminator, Ty, Value};

/// Words, the lowest in bit 0.
pub type Words = u8;

/// For each value of a body.
#[derive(Clone, Debug)]
pub struct Analysis {
    demanded: Vec<Words>,
    nonzero: Vec<Words>,
    constants: Vec<Option<u128>>,
    uses: Vec<u32>,
}

/// All words of so many bits.
pub fn all(width: u32) -> Words {
    ((1u16 << width.div_ceil(32).min(4)) - 1) as Words
}

/// Bits of a value; entries and packets are a register.
pub fn width(body: &Body, value: Value) -> u32 {
    match body.ty(value) {
        Ty::Int(width) => width,
        Ty::Entry(_) | Ty::Packet(_) => 32,
    }
}

/// Words that bits of `words` come to when shifted left by `by`.
fn left(words: Words, by: u128) -> Words {
    if by >= 128 {
        return 0;
    }
    let (whole, rest) = (by / 32, by % 32);
    let moved = (u16::from(words) << whole) as Words & 0xf;
    if rest == 0 { moved } else { (moved | moved << 1) & 0xf }
}

/// Words that bits of `words` come to when shifted right by `by`.
fn right(words: Words, by: u128) -> Words {
    if by >= 128 {
        return 0;
    }
    let (whole, rest) = (by / 32, by % 32);
    let moved = words >> whole;
    if rest == 0 { moved } else { moved | moved >> 1 }
}

/// All words up to the highest one: carries go upwards.
fn below(words: Words) -> Words {
    all(32 * (8 - words.leading_zeros()))
}

fn words_of(number: u128) -> Words {
    (0..4).map(|word| Words::from((number >> (32 * word)) as u32 != 0) << word).sum()
}

impl Analysis {
    /// Looks through a body.
    pub fn new(body: &Body) -> Analysis {
        let count = body.values.len();
        let definitions = Definitions::new(body);
        let constants = (0..count as u32).map(|value| definitions.constant(Value(value))).collect();
        let mut found = Analysis { demanded: vec![0; count], nonzero: vec![0; count], constants, uses: vec![0; count] };
        // Both only grow, by at most four words a value, so this ends.
        while found.grow_nonzero(body) {}
        while found.grow_demanded(body) {}
        for value in body.blocks.iter().flat_map(Block::uses) {
            found.uses[value.0 as usize] += 1;
        }
        found
    }

    /// Words of a value that have to be computed.
    pub fn needed(&self, value: Value) -> Words {
        self.demanded[value.0 as usize] & self.nonzero[value.0 as usize]
    }

    /// Words that may be other than zero.
    pub fn nonzero(&self, value: Value) -> Words {
        self.nonzero[value.0 as usize]
    }

    /// A constant's number.
    pub fn constant(&self, value: Value) -> Option<u128> {
        self.constants[value.0 as usize]
    }

    /// Whether nothing but one branch looks at it, so that condition codes are enough.
    pub fn is_condition(&self, body: &Body, block: usize, value: Value) -> bool {
        self.uses[value.0 as usize] == 1
            && matches!(body.blocks[block].term, Terminator::Branch(condition, ..) if condition == value)
    }

    fn grow_nonzero(&mut self, body: &Body) -> bool {
        let mut grown = false;
        for block in &body.blocks {
            for inst in &block.insts {
                let Some(result) = inst.result else { continue };
                let words = self.result_words(&inst.op) & all(width(body, result));
                grown |= grow(&mut self.nonzero[result.0 as usize], words);
            }
            for dest in block.term.dests() {
                for (param, arg) in body.passed(dest) {
                    let words = self.nonzero[arg.0 as usize];
                    grown |= grow(&mut self.nonzero[param.0 as usize], words);
                }
            }
            // A packet, or a timer's key.
            if std::ptr::eq(block, &body.blocks[0]) {
                for param in &block.params {
                    grown |= grow(&mut self.nonzero[param.0 as usize], all(width(body, *param)));
                }
            }
        }
        grown
    }

    fn result_words(&self, op: &Op) -> Words {
        let nonzero = |value: &Value| self.nonzero[value.0 as usize];
        match op {
            Op::Const(number) => words_of(*number),
            Op::Bin(BinOp::And, a, b) => match (self.constant(*a), self.constant(*b)) {
                (Some(mask), _) => words_of(mask) & nonzero(b),
                (_, Some(mask)) => nonzero(a) & words_of(mask),
                _ => nonzero(a) & nonzero(b),
            },
            Op::Bin(BinOp::Or | BinOp::Xor, a, b) => nonzero(a) | nonzero(b),
            Op::Bin(BinOp::Shl, a, by) => self.constant(*by).map_or(0xf, |by| left(nonzero(a), by)),
            Op::Bin(BinOp::LShr, a, by) => self.constant(*by).map_or(nonzero(a), |by| right(nonzero(a), by)),
            Op::Cast(CastOp::ZExt | CastOp::Trunc, a) => nonzero(a),
            Op::Select(_, a, b) => nonzero(a) | nonzero(b),
            Op::Cmp(..) | Op::IsNull(_) | Op::Has { .. } => 1,
            Op::Load { bits, .. } | Op::LoadAt { bits, .. } => all(bits.width),
            _ => 0xf,
        }
    }

    fn grow_demanded(&mut self, body: &Body) -> bool {
        let mut grown = false;
        for block in body.blocks.iter().rev() {
            if let Terminator::Branch(condition, ..) = &block.term {
                grown |= grow(&mut self.demanded[condition.0 as usize], 1);
            }
            for dest in block.term.dests() {
                for (param, arg) in body.passed(dest) {
                    let words = self.demanded[param.0 as usize];
                    grown |= grow(&mut self.demanded[arg.0 as usize], words);
                }
            }
            for inst in block.insts.iter().rev() {
                let demanded = inst.result.map_or(0xf, |result| self.demanded[result.0 as usize]);
                for (operand, words) in self.operand_words(&inst.op, demanded) {
                    grown |= grow(&mut self.demanded[operand.0 as usize], words & all(width(body, operand)));
                }
            }
        }
        grown
    }

    /// What an operation asks of its operands where `demanded` is asked of its result.
    fn operand_words(&self, op: &Op, demanded: Words) -> Vec<(Value, Words)> {
        let wanted = |words: Words| if demanded == 0 { 0 } else { words };
        match op {
            Op::Bin(BinOp::And, a, b) => {
                let mask = |other: &Value| self.constant(*other).map_or(0xf, words_of);
                vec![(*a, demanded & mask(b)), (*b, demanded & mask(a))]
            }
            Op::Bin(BinOp::Or | BinOp::Xor, a, b) => vec![(*a, demanded), (*b, demanded)],
            Op::Bin(BinOp::Add | BinOp::Sub | BinOp::Mul, a, b) => vec![(*a, below(demanded)), (*b, below(demanded))],
            Op::Bin(BinOp::Shl, a, by) => {
                vec![(*a, self.constant(*by).map_or(wanted(0xf), |by| right(demanded, by))), (*by, wanted(1))]
            }
            Op::Bin(BinOp::LShr, a, by) => {
                vec![(*a, self.constant(*by).map_or(wanted(0xf), |by| left(demanded, by))), (*by, wanted(1))]
            }
            Op::Cast(CastOp::ZExt | CastOp::Trunc, a) => vec![(*a, demanded)],
            Op::Select(condition, a, b) => vec![(*condition, wanted(1)), (*a, demanded), (*b, demanded)],
            Op::Bin(_, a, b) => vec![(*a, wanted(0xf)), (*b, wanted(0xf))],
            // A comparison, and what has an effect or goes to memory, asks for all that its operands are.
            _ => {
                let effect = !matches!(op, Op::Cmp(..) | Op::Cast(..) | Op::IsNull(_));
                let words = if effect { 0xf } else { wanted(0xf) };
                op.operands().into_iter().map(|operand| (operand, words)).collect()
            }
        }
    }
}

fn grow(words: &mut Words, by: Words) -> bool {
    let before = *words;
    *words |= by;
    *words != before
}
