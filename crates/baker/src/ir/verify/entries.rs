//! Entry pointers are used only where they cannot be null.
//!
//! ```text
//!   v1: entry<u32> = lookup fib(v0)
//!   v2: u1 = is_null v1
//!   br v2, b1(), b2()
//! b2():
//!   v3: u32 = entry_load v1.0          v1 is not null here
//! ```
//!
//! A forward dataflow: the pointers known not to be null at each point, and, for each truth value, the pointers that
//! are known not to be null where it is 1 and where it is 0. So a test may be kept in a variable, negated or combined.
//! All sets start full and shrink until nothing changes. Known pointers are those of a look-up in an array at an index
//! that is always in range, those behind a test, and those chosen among known ones.

use smallvec::{SmallVec, smallvec};

use super::{Analyses, Errors};
use crate::ir::analysis::Definition;
use crate::ir::arith::mask;
use crate::ir::*;

pub(super) fn check(program: &Program, body: &Body, analyses: &Analyses, errors: &mut Errors) {
    let pointers = Pointers::of(body);
    if pointers.values.is_empty() {
        return;
    }
    let mut flow = Flow::new(program, body, analyses, pointers);
    while flow.pass() {}
    for &id in &analyses.cfg.order {
        let mut known = flow.starts[id.0 as usize].clone();
        for inst in &body.blocks[id.0 as usize].insts {
            if let Op::EntryLoad { entry, .. }
            | Op::EntryStore { entry, .. }
            | Op::Lock { entry }
            | Op::Take { entry, .. } = inst.op
                && !flow.is_known(&known, entry)
            {
                errors.at(id, format!("v{} is used where it may be null", entry.0));
            }
            flow.step(&mut known, inst);
        }
    }
}

/// The values of a body that are entry pointers, which are few: sets are of their numbers.
struct Pointers {
    values: Vec<Value>,
    /// Of each value, the number that it has among them.
    numbers: Vec<Option<usize>>,
}

impl Pointers {
    fn of(body: &Body) -> Pointers {
        let mut values = Vec::new();
        let number = |(index, ty): (u32, &Ty)| {
            matches!(ty, Ty::Entry(_)).then(|| {
                values.push(Value(index));
                values.len() - 1
            })
        };
        let numbers = (0..).zip(&body.values).map(number).collect();
        Pointers { values, numbers }
    }

    fn number(&self, value: Value) -> Option<usize> {
        self.numbers[value.0 as usize]
    }
}

/// A set of pointers, one bit each. There are many sets, and few bodies have more than 128 pointers.
#[derive(Clone, PartialEq)]
struct Set(SmallVec<[u64; 2]>);

impl Set {
    fn empty(pointers: usize) -> Set {
        Set(smallvec![0; pointers.div_ceil(64)])
    }

    /// Everything: what holds where nothing comes by.
    fn full(pointers: usize) -> Set {
        Set(smallvec![u64::MAX; pointers.div_ceil(64)])
    }

    fn has(&self, number: usize) -> bool {
        self.0[number / 64] >> (number % 64) & 1 == 1
    }

    fn set(&mut self, number: usize, present: bool) {
        let (word, bit) = (&mut self.0[number / 64], 1 << (number % 64));
        *word = if present { *word | bit } else { *word & !bit };
    }

    /// Takes out what is not in the other.
    fn keep(&mut self, other: &Set) {
        self.0.iter_mut().zip(&other.0).for_each(|(a, b)| *a &= b);
    }

    fn and(mut self, other: &Set) -> Set {
        self.keep(other);
        self
    }

    fn or(mut self, other: &Set) -> Set {
        self.0.iter_mut().zip(&other.0).for_each(|(a, b)| *a |= b);
        self
    }
}

/// What a truth value implies: pointers not null where it is 0, and where it is 1.
type Implied = [Set; 2];

struct Flow<'a> {
    program: &'a Program,
    body: &'a Body,
    analyses: &'a Analyses<'a>,
    pointers: Pointers,
    /// Pointers known not to be null at the start of each block.
    starts: Vec<Set>,
    /// For each value of 1 bit.
    implied: Vec<Option<Implied>>,
    /// Of each block that has truth values as parameters: the pointers defined above it.
    above: Vec<Option<Set>>,
}

impl<'a> Flow<'a> {
    fn new(program: &'a Program, body: &'a Body, analyses: &'a Analyses, pointers: Pointers) -> Flow<'a> {
        let count = pointers.values.len();
        let full = || Set::full(count);
        let mut starts = vec![full(); body.blocks.len()];
        starts[0] = Set::empty(count);
        let truth = |value: &Value| body.ty(*value) == Ty::Int(1);
        let implied = body.values.iter().map(|ty| (*ty == Ty::Int(1)).then(|| [full(), full()])).collect();
        let above = |(index, block): (usize, &Block)| {
            let id = BlockId(index as u32);
            block.params.iter().any(truth).then(|| defined_above(&pointers, analyses, id))
        };
        let above = body.blocks.iter().enumerate().map(above).collect();
        Flow { program, body, analyses, pointers, starts, implied, above }
    }

    /// Whether a pointer is in a set.
    fn is_known(&self, known: &Set, pointer: Value) -> bool {
        self.pointers.number(pointer).is_some_and(|number| known.has(number))
    }

    fn none(&self) -> Set {
        Set::empty(self.pointers.values.len())
    }

    fn all(&self) -> Set {
        Set::full(self.pointers.values.len())
    }

    /// Goes over all blocks once; whether anything changed.
    fn pass(&mut self) -> bool {
        let full = self.all();
        // What the edges into each block say; these replace the old sets at the end.
        let mut starts = vec![full.clone(); self.starts.len()];
        starts[0] = self.none();
        let mut implied = self.implied.clone();
        for block in &self.body.blocks[1..] {
            for param in &block.params {
                implied[param.0 as usize] =
                    self.implied[param.0 as usize].as_ref().map(|_| [full.clone(), full.clone()]);
            }
        }
        for &id in &self.analyses.cfg.order {
            let block = &self.body.blocks[id.0 as usize];
            let mut known = self.starts[id.0 as usize].clone();
            for inst in &block.insts {
                self.step(&mut known, inst);
                if let Some(result) = inst.result.filter(|v| self.body.ty(*v) == Ty::Int(1)) {
                    let implied_here = self.implied_by(inst);
                    implied[result.0 as usize] = Some(implied_here.clone());
                    self.implied[result.0 as usize] = Some(implied_here);
                }
            }
            match &block.term {
                Terminator::Return => {}
                Terminator::Jump(dest) => self.edge(&known, dest, &mut starts, &mut implied),
                Terminator::Branch(condition, then, other) => {
                    let [if_0, if_1] = self.implied(*condition);
                    self.edge(&known.clone().or(&if_1), then, &mut starts, &mut implied);
                    self.edge(&known.or(&if_0), other, &mut starts, &mut implied);
                }
            }
        }
        let changed = self.starts != starts || self.implied != implied;
        (self.starts, self.implied) = (starts, implied);
        changed
    }

    /// An instruction's effect on the known pointers. A value defined anew is known only by its new definition.
    fn step(&self, known: &mut Set, inst: &Inst) {
        let Some(number) = inst.result.and_then(|result| self.pointers.number(result)) else { return };
        let not_null = match &inst.op {
            Op::Lookup { table, key } => {
                let table = &self.program.tables[table.0 as usize];
                table.kind == TableKind::Array && self.at_most(key[0]) < table.capacity as u128
            }
            Op::Select(_, a, b) => self.is_known(known, *a) && self.is_known(known, *b),
            _ => false,
        };
        known.set(number, not_null);
    }

    /// Adds what an edge with these known pointers says to the block it leads to.
    fn edge(&self, known: &Set, dest: &Dest, starts: &mut [Set], implied: &mut [Option<Implied>]) {
        let mut start = known.clone();
        for (param, arg) in self.body.passed(dest) {
            if let Some(number) = self.pointers.number(param) {
                start.set(number, self.is_known(known, arg));
            }
            if let Some([if_0, if_1]) = &mut implied[param.0 as usize] {
                // Only pointers from above the block: one from inside a loop may be another by the time it is used.
                let above = self.above[dest.block.0 as usize].as_ref().expect("the block has such a parameter");
                let [arg_0, arg_1] = self.implied(arg);
                if_0.keep(&arg_0.or(known).and(above));
                if_1.keep(&arg_1.or(known).and(above));
            }
        }
        let block = dest.block.0 as usize;
        starts[block].keep(&start);
    }

    fn implied(&self, condition: Value) -> Implied {
        self.implied[condition.0 as usize].clone().unwrap_or_else(|| [self.none(), self.none()])
    }

    /// What the 1-bit result of an instruction implies.
    fn implied_by(&self, inst: &Inst) -> Implied {
        let nothing = || [self.none(), self.none()];
        let negated = |[if_0, if_1]: Implied| [if_1, if_0];
        // A truth value compared with (or exclusive-or'd to) a constant: itself or its negation.
        let with_constant = |a: Value, b: Value, negate_on: u128| {
            let (value, constant) = match (self.analyses.definitions.constant(a), self.analyses.definitions.constant(b))
            {
                (_, Some(constant)) => (a, constant),
                (Some(constant), None) => (b, constant),
                (None, None) => return nothing(),
            };
            match self.truth_value(value) {
                Some(truth) if constant == negate_on => negated(self.implied(truth)),
                Some(truth) if constant == 1 - negate_on => self.implied(truth),
                _ => nothing(),
            }
        };
        match &inst.op {
            Op::IsNull(entry) => {
                let [mut if_0, if_1] = nothing();
                if let Some(number) = self.pointers.number(*entry) {
                    if_0.set(number, true);
                }
                [if_0, if_1]
            }
            // It is never the other value, so whatever would follow from that holds.
            Op::Const(0) => [self.none(), self.all()],
            Op::Const(_) => [self.all(), self.none()],
            Op::Bin(BinOp::Xor, a, b) => with_constant(*a, *b, 1),
            Op::Cmp(CmpOp::Ne, a, b) => with_constant(*a, *b, 1),
            Op::Cmp(CmpOp::Eq, a, b) => with_constant(*a, *b, 0),
            Op::Bin(BinOp::And, a, b) => {
                let ([a_0, a_1], [b_0, b_1]) = (self.implied(*a), self.implied(*b));
                [a_0.and(&b_0), a_1.or(&b_1)]
            }
            Op::Bin(BinOp::Or, a, b) => {
                let ([a_0, a_1], [b_0, b_1]) = (self.implied(*a), self.implied(*b));
                [a_0.or(&b_0), a_1.and(&b_1)]
            }
            Op::Select(condition, a, b) => {
                let [if_0, if_1] = self.implied(*condition);
                let ([a_0, a_1], [b_0, b_1]) = (self.implied(*a), self.implied(*b));
                [a_0.or(&if_1).and(&b_0.or(&if_0)), a_1.or(&if_1).and(&b_1.or(&if_0))]
            }
            _ => nothing(),
        }
    }

    /// The truth value that this is, perhaps widened: conditions of the source are compared as wider integers.
    fn truth_value(&self, value: Value) -> Option<Value> {
        match self.analyses.definitions.op(value) {
            Some(Op::Cast(CastOp::ZExt, narrow)) => self.truth_value(*narrow),
            _ => (self.body.ty(value) == Ty::Int(1)).then_some(value),
        }
    }

    /// A bound of an integer: its constant, or what its bits before widening can hold.
    fn at_most(&self, value: Value) -> u128 {
        let width = |value| match self.body.ty(value) {
            Ty::Int(width) => width,
            Ty::Entry(_) | Ty::Packet(_) => 128,
        };
        match self.analyses.definitions.op(value) {
            Some(Op::Const(constant)) => *constant,
            Some(Op::Cast(CastOp::ZExt, narrow)) => mask(width(*narrow)),
            _ => mask(width(value)),
        }
    }
}

/// The pointers that are defined above a block.
fn defined_above(pointers: &Pointers, analyses: &Analyses, block: BlockId) -> Set {
    let mut above = Set::empty(pointers.values.len());
    for (number, value) in pointers.values.iter().enumerate() {
        let defined = analyses.definitions.of(*value).map(Definition::block);
        above.set(number, defined.is_some_and(|at| at != block && analyses.dominators.dominates(at, block)));
    }
    above
}
