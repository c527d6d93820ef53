//! Builds SSA form from reads and writes of variables, block by block.
//!
//! Braun, Buchwald, Hack, Leißa, Mallon, Zwinkau: "Simple and Efficient Construction of Static Single Assignment Form"
//! (CC 2013), with block parameters in place of phi instructions. Redundant parameters are removed at the end.

use std::collections::HashMap;

use super::inst::*;
use super::profile::Counts;
use crate::source::Span;

/// A variable of the source program.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Var(pub u32);

/// Builds one body.
#[derive(Debug, Default)]
pub struct Builder {
    body: Body,
    current: Option<BlockId>,
    var_types: Vec<Ty>,
    definitions: HashMap<(Var, BlockId), Value>,
    constants: HashMap<Value, u128>,
    shared: HashMap<(u32, u128), Value>,
    /// What parameters are passed, and which parameters a value is passed to.
    brought: HashMap<Value, Vec<Value>>,
    users: HashMap<Value, Vec<Value>>,
    /// Parameters that turned out redundant, and the one value that all paths bring.
    redundant: HashMap<Value, Value>,
    predecessors: Vec<Vec<BlockId>>,
    sealed: Vec<bool>,
    /// Parameters of unsealed blocks whose arguments are not known yet.
    pending: Vec<Vec<(Var, Value)>>,
    /// Whether the block's terminator is set.
    ended: Vec<bool>,
    /// Source location given to the instructions that follow.
    pub span: Option<Span>,
}

impl Builder {
    /// Declares a variable.
    pub fn var(&mut self, ty: Ty) -> Var {
        self.var_types.push(ty);
        Var(self.var_types.len() as u32 - 1)
    }

    /// A new block. Seal it once all its predecessors have ended.
    pub fn block(&mut self) -> BlockId {
        self.predecessors.push(Vec::new());
        self.sealed.push(false);
        self.pending.push(Vec::new());
        self.ended.push(false);
        self.body.block()
    }

    /// Instructions that follow go into this block.
    pub fn switch_to(&mut self, block: BlockId) {
        self.current = Some(block);
    }

    /// The block that instructions go into.
    pub fn current(&self) -> BlockId {
        self.current.expect("a block is current")
    }

    /// Whether the current block has ended, so that what follows cannot be reached.
    pub fn unreachable(&self) -> bool {
        self.ended[self.current().0 as usize]
    }

    /// Type of a value.
    pub fn ty(&self, value: Value) -> Ty {
        self.body.ty(value)
    }

    /// Adds a parameter to a block; for the entry block.
    pub fn param(&mut self, block: BlockId, ty: Ty) -> Value {
        let value = self.body.value(ty);
        self.body.blocks[block.0 as usize].params.push(value);
        value
    }

    /// Appends an instruction with a result.
    pub fn push(&mut self, ty: Ty, op: Op) -> Value {
        let (block, span) = (self.current(), self.span);
        self.body.push(block, ty, op, span)
    }

    /// Appends an instruction without a result.
    pub fn effect(&mut self, op: Op) {
        let (block, span) = (self.current(), self.span);
        self.body.effect(block, op, span);
    }

    /// A constant of `width` bits.
    pub fn constant(&mut self, width: u32, value: u128) -> Value {
        let result = self.push(Ty::Int(width), Op::Const(value));
        self.constants.insert(result, value);
        result
    }

    /// The constant that a value is, where it is one.
    pub fn as_constant(&self, value: Value) -> Option<u128> {
        self.constants.get(&self.resolved(value)).copied()
    }

    /// Arithmetic on two values of one type.
    pub fn binary(&mut self, op: BinOp, a: Value, b: Value) -> Value {
        self.push(self.ty(a), Op::Bin(op, a, b))
    }

    /// Ends the current block with a jump.
    pub fn jump(&mut self, to: BlockId) {
        self.end(Terminator::Jump(Dest { block: to, args: Vec::new() }));
    }

    /// Ends the current block with a branch.
    pub fn branch(&mut self, condition: Value, then: BlockId, other: BlockId) {
        let dest = |block| Dest { block, args: Vec::new() };
        self.end(Terminator::Branch(condition, dest(then), dest(other)));
    }

    /// Ends the current block and the PPF.
    pub fn ret(&mut self) {
        self.end(Terminator::Return);
    }

    fn end(&mut self, term: Terminator) {
        let block = self.current();
        if std::mem::replace(&mut self.ended[block.0 as usize], true) {
            return;
        }
        for dest in term.dests() {
            self.predecessors[dest.block.0 as usize].push(block);
        }
        self.body.blocks[block.0 as usize].term = term;
    }

    /// Says what a profile says of the current block.
    pub fn set_counts(&mut self, counts: Option<Counts>) {
        let block = self.current();
        self.body.blocks[block.0 as usize].counts = counts;
    }

    /// Sets a variable in the current block.
    pub fn set(&mut self, var: Var, value: Value) {
        self.definitions.insert((var, self.current()), value);
    }

    /// A constant of `width` bits that is one value throughout the body, so that variables that are set to it where
    /// paths part are one value where they meet.
    pub fn shared_constant(&mut self, width: u32, value: u128) -> Value {
        if let Some(&known) = self.shared.get(&(width, value)) {
            return known;
        }
        let constant = self.body.push(BlockId(0), Ty::Int(width), Op::Const(value), None);
        self.constants.insert(constant, value);
        self.shared.insert((width, value), constant);
        constant
    }

    /// What a variable is wherever it was not set.
    pub fn set_at_entry(&mut self, var: Var, constant: Value) {
        self.definitions.insert((var, BlockId(0)), constant);
    }

    /// Value of a variable in the current block.
    pub fn get(&mut self, var: Var) -> Value {
        self.read(var, self.current())
    }

    fn read(&mut self, var: Var, block: BlockId) -> Value {
        if let Some(&value) = self.definitions.get(&(var, block)) {
            return self.resolved(value);
        }
        let index = block.0 as usize;
        let value = if !self.sealed[index] {
            let value = self.param(block, self.var_types[var.0 as usize]);
            self.pending[index].push((var, value));
            value
        } else if let [only] = self.predecessors[index][..] {
            self.read(var, only)
        } else {
            let value = self.param(block, self.var_types[var.0 as usize]);
            self.definitions.insert((var, block), value);
            // Where all paths bring one value it is that one, also for passes that ask whether it is a constant; the
            // parameter is redundant then.
            self.add_arguments(var, value, block).unwrap_or(value)
        };
        self.definitions.insert((var, block), value);
        value
    }

    /// The value that stands for another one.
    fn resolved(&self, mut value: Value) -> Value {
        while let Some(&only) = self.redundant.get(&value) {
            value = only;
        }
        value
    }

    /// Passes the variable from every predecessor, which may reach the block by both edges of a branch. The value that
    /// they all pass, if it is one.
    fn add_arguments(&mut self, var: Var, param: Value, block: BlockId) -> Option<Value> {
        let mut predecessors = self.predecessors[block.0 as usize].clone();
        predecessors.dedup();
        let mut passed = Vec::new();
        for from in predecessors {
            // Reading may add further parameters to this block, so the argument goes to its parameter's position.
            let value = self.read(var, from);
            passed.push(value);
            let params = &self.body.blocks[block.0 as usize].params;
            let position = params.iter().position(|&p| p == param).expect("a parameter of the block");
            for dest in self.body.blocks[from.0 as usize].term.dests_mut() {
                if dest.block == block {
                    dest.args.resize(dest.args.len().max(position + 1), Value(u32::MAX));
                    dest.args[position] = value;
                }
            }
        }
        for &value in &passed {
            self.users.entry(value).or_default().push(param);
        }
        self.brought.insert(param, passed);
        self.remove_redundant(param);
        self.redundant.get(&param).copied()
    }

    /// Finds out whether a parameter is redundant; then others that are passed it may be, too.
    fn remove_redundant(&mut self, param: Value) {
        let mut open = vec![param];
        while let Some(param) = open.pop() {
            let Some(brought) = self.brought.get(&param) else { continue };
            let mut values: Vec<Value> = brought.iter().map(|&value| self.resolved(value)).collect();
            values.retain(|&value| value != param);
            values.sort_unstable();
            values.dedup();
            if let [only] = values[..]
                && !self.redundant.contains_key(&param)
            {
                self.redundant.insert(param, only);
                open.extend(self.users.remove(&param).unwrap_or_default());
            }
        }
    }

    /// Says that all predecessors of the block have ended.
    pub fn seal(&mut self, block: BlockId) {
        self.sealed[block.0 as usize] = true;
        for (var, param) in std::mem::take(&mut self.pending[block.0 as usize]) {
            self.add_arguments(var, param, block);
        }
    }

    /// The finished body, without unreachable blocks and redundant parameters.
    pub fn finish(self) -> Body {
        let mut body = self.body;
        super::clean::tidy(&mut body);
        body
    }
}
