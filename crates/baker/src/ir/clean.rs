//! Tidies a body: removes unreachable blocks, block parameters that always carry one value, instructions whose results
//! nobody uses and that have no effect, and values that are gone.

use std::collections::HashSet;

use super::inst::*;

impl Op {
    /// The values that it uses.
    pub fn operands(&self) -> Vec<Value> {
        let mut copy = self.clone();
        let mut values = Vec::new();
        copy.operands_mut(|v| values.push(*v));
        values
    }

    /// Visits the values that it uses, to change them.
    pub fn operands_mut(&mut self, mut visit: impl FnMut(&mut Value)) {
        match self {
            Op::Const(_) | Op::Now | Op::Create => {}
            Op::Cast(_, a) | Op::IsNull(a) => visit(a),
            Op::Bin(_, a, b) | Op::Cmp(_, a, b) => {
                visit(a);
                visit(b);
            }
            Op::Select(a, b, c) => {
                visit(a);
                visit(b);
                visit(c);
            }
            Op::Load { packet, .. }
            | Op::Len { packet }
            | Op::Push { packet, .. }
            | Op::Copy { packet }
            | Op::MetaLoad { packet, .. }
            | Op::Put { packet, .. }
            | Op::Drop { packet, .. } => visit(packet),
            Op::Has { packet, bytes }
            | Op::Pull { packet, bytes }
            | Op::Trim { packet, bytes }
            | Op::Grow { packet, bytes, .. } => {
                visit(packet);
                visit(bytes);
            }
            Op::Store { packet, value, .. } | Op::MetaStore { packet, value, .. } => {
                visit(packet);
                visit(value);
            }
            Op::LoadAt { packet, offset, .. } => {
                visit(packet);
                visit(offset);
            }
            Op::StoreAt { packet, offset, value, .. } => {
                visit(packet);
                visit(offset);
                visit(value);
            }
            Op::Sum { packet, offset, bytes } => {
                visit(packet);
                visit(offset);
                visit(bytes);
            }
            Op::EntryLoad { entry, .. } => visit(entry),
            Op::EntryStore { entry, value, .. } => {
                visit(entry);
                visit(value);
            }
            Op::Lookup { key: values, .. } | Op::Remove { key: values, .. } | Op::Extern { args: values, .. } => {
                values.iter_mut().for_each(visit)
            }
            Op::Insert { key, value, .. } => key.iter_mut().chain(value).for_each(visit),
            Op::Count { index, amount, .. } => {
                visit(index);
                visit(amount);
            }
        }
    }

    /// Whether it does nothing but compute its result, so that it may go when the result is not used.
    pub fn is_pure(&self) -> bool {
        match self {
            Op::Const(_)
            | Op::Now
            | Op::Bin(..)
            | Op::Cmp(..)
            | Op::Cast(..)
            | Op::Select(..)
            | Op::Load { .. }
            | Op::LoadAt { .. }
            | Op::Sum { .. }
            | Op::Has { .. }
            | Op::Len { .. }
            | Op::MetaLoad { .. }
            | Op::Lookup { .. }
            | Op::IsNull(_)
            | Op::EntryLoad { .. } => true,
            Op::Store { .. }
            | Op::StoreAt { .. }
            | Op::Trim { .. }
            | Op::Grow { .. }
            | Op::Create
            | Op::Pull { .. }
            | Op::Push { .. }
            | Op::Copy { .. }
            | Op::MetaStore { .. }
            | Op::Put { .. }
            | Op::Drop { .. }
            | Op::EntryStore { .. }
            | Op::Insert { .. }
            | Op::Remove { .. }
            | Op::Extern { .. }
            | Op::Count { .. } => false,
        }
    }
}

/// Removes what has no effect. The meaning stays the same.
pub fn tidy(body: &mut Body) {
    remove_unreachable(body);
    remove_redundant_params(body);
    remove_unused(body);
    renumber(body);
}

fn remove_unreachable(body: &mut Body) {
    let mut new_index = vec![None; body.blocks.len()];
    let mut order = vec![BlockId(0)];
    new_index[0] = Some(0u32);
    let mut next = 0;
    while next < order.len() {
        for dest in body.blocks[order[next].0 as usize].term.dests() {
            if new_index[dest.block.0 as usize].is_none() {
                new_index[dest.block.0 as usize] = Some(order.len() as u32);
                order.push(dest.block);
            }
        }
        next += 1;
    }
    let mut old: Vec<Option<Block>> = std::mem::take(&mut body.blocks).into_iter().map(Some).collect();
    for id in order {
        let mut block = old[id.0 as usize].take().expect("each block is listed once");
        for dest in block.term.dests_mut() {
            dest.block = BlockId(new_index[dest.block.0 as usize].expect("destinations are reachable"));
        }
        body.blocks.push(block);
    }
}

/// A parameter is redundant where every edge passes one and the same value, or the parameter itself.
fn remove_redundant_params(body: &mut Body) {
    let mut replaced: Vec<Value> = (0..body.values.len() as u32).map(Value).collect();
    fn find(replaced: &[Value], mut value: Value) -> Value {
        while replaced[value.0 as usize] != value {
            value = replaced[value.0 as usize];
        }
        value
    }
    loop {
        let mut only: Vec<Vec<Option<Option<Value>>>> =
            body.blocks.iter().map(|b| vec![None; b.params.len()]).collect();
        for block in &body.blocks {
            for dest in block.term.dests() {
                for (i, &arg) in dest.args.iter().enumerate() {
                    let (param, arg) = (body.blocks[dest.block.0 as usize].params[i], find(&replaced, arg));
                    if arg != param {
                        let seen = &mut only[dest.block.0 as usize][i];
                        *seen = match *seen {
                            None => Some(Some(arg)),
                            Some(Some(other)) if other == arg => Some(Some(arg)),
                            Some(_) => Some(None),
                        };
                    }
                }
            }
        }
        let mut changed = false;
        for (index, seen) in only.iter().enumerate().skip(1) {
            for i in (0..seen.len()).rev() {
                if let Some(Some(value)) = seen[i] {
                    let param = body.blocks[index].params.remove(i);
                    replaced[param.0 as usize] = value;
                    for block in &mut body.blocks {
                        for dest in block.term.dests_mut() {
                            if dest.block.0 as usize == index {
                                dest.args.remove(i);
                            }
                        }
                    }
                    changed = true;
                }
            }
            if changed {
                break;
            }
        }
        if !changed {
            break;
        }
    }
    for block in &mut body.blocks {
        for inst in &mut block.insts {
            inst.op.operands_mut(|v| *v = find(&replaced, *v));
        }
        if let Terminator::Branch(condition, ..) = &mut block.term {
            *condition = find(&replaced, *condition);
        }
        for dest in block.term.dests_mut() {
            for arg in &mut dest.args {
                *arg = find(&replaced, *arg);
            }
        }
    }
}

fn remove_unused(body: &mut Body) {
    loop {
        let mut used = HashSet::new();
        for block in &body.blocks {
            for inst in &block.insts {
                used.extend(inst.op.operands());
            }
            if let Terminator::Branch(condition, ..) = &block.term {
                used.insert(*condition);
            }
            used.extend(block.term.dests().into_iter().flat_map(|d| d.args.iter().copied()));
        }
        let mut changed = false;
        for block in &mut body.blocks {
            let before = block.insts.len();
            block.insts.retain(|i| !i.op.is_pure() || i.result.is_some_and(|r| used.contains(&r)));
            changed |= block.insts.len() != before;
        }
        for index in 1..body.blocks.len() {
            for i in (0..body.blocks[index].params.len()).rev() {
                let param = body.blocks[index].params[i];
                // A packet is consumed by being passed, so its parameter stays.
                if used.contains(&param) || matches!(body.ty(param), Ty::Packet(_)) {
                    continue;
                }
                body.blocks[index].params.remove(i);
                for block in &mut body.blocks {
                    for dest in block.term.dests_mut() {
                        if dest.block.0 as usize == index {
                            dest.args.remove(i);
                        }
                    }
                }
                changed = true;
            }
        }
        if !changed {
            break;
        }
    }
}

/// Numbers values in the order of their definitions.
fn renumber(body: &mut Body) {
    let mut new = vec![None; body.values.len()];
    let mut types = Vec::new();
    for block in &mut body.blocks {
        let results = block.insts.iter_mut().filter_map(|i| i.result.as_mut());
        for value in block.params.iter_mut().chain(results) {
            new[value.0 as usize] = Some(Value(types.len() as u32));
            types.push(body.values[value.0 as usize]);
            *value = Value(types.len() as u32 - 1);
        }
    }
    let mapped = |v: &mut Value| *v = new[v.0 as usize].expect("a used value is defined");
    for block in &mut body.blocks {
        for inst in &mut block.insts {
            inst.op.operands_mut(mapped);
        }
        if let Terminator::Branch(condition, ..) = &mut block.term {
            mapped(condition);
        }
        for dest in block.term.dests_mut() {
            dest.args.iter_mut().for_each(mapped);
        }
    }
    body.values = types;
}
