//! Tidies a body: removes unreachable blocks, block parameters that always carry one value, instructions whose results
//! nothing uses and that have no effect, and values that are gone.

use super::analysis::{Definitions, Passed};
use super::inst::*;

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
    /// What the edges pass to a parameter.
    #[derive(Clone, Copy, PartialEq)]
    enum Arguments {
        Nothing,
        One(Value),
        Several,
    }
    loop {
        let mut passed = vec![Arguments::Nothing; body.values.len()];
        for (param, arg) in body.all_passed() {
            let arg = find(&replaced, arg);
            let seen = &mut passed[param.0 as usize];
            if arg != param && *seen != Arguments::One(arg) {
                *seen = if *seen == Arguments::Nothing { Arguments::One(arg) } else { Arguments::Several };
            }
        }
        let mut changed = false;
        for param in body.blocks.iter().skip(1).flat_map(|block| &block.params) {
            if let Arguments::One(value) = passed[param.0 as usize]
                && replaced[param.0 as usize] == *param
            {
                // The value may have been replaced by this very parameter in this round.
                let value = find(&replaced, value);
                if value != *param {
                    replaced[param.0 as usize] = value;
                    changed = true;
                }
            }
        }
        if !changed {
            break;
        }
    }
    retain_params(body, |param| replaced[param.0 as usize] == param);
    for block in &mut body.blocks {
        block.uses_mut(|value| *value = find(&replaced, *value));
    }
    body.rename_expected(|value| Some(find(&replaced, value)));
}

/// Keeps the parameters that `keep` says, with their arguments. Those of the entry stay.
fn retain_params(body: &mut Body, keep: impl Fn(Value) -> bool) {
    let kept: Vec<Vec<bool>> = body
        .blocks
        .iter()
        .enumerate()
        .map(|(index, block)| block.params.iter().map(|&param| index == 0 || keep(param)).collect())
        .collect();
    for (block, kept_here) in body.blocks.iter_mut().zip(&kept) {
        let mut keep = kept_here.iter();
        block.params.retain(|_| *keep.next().expect("one for each"));
        for dest in block.term.dests_mut() {
            let mut keep = kept[dest.block.0 as usize].iter();
            dest.args.retain(|_| *keep.next().expect("one for each"));
        }
    }
}

/// Keeps what operations with an effect, branches and packets need, and what those values need in turn.
fn remove_unused(body: &mut Body) {
    let (definitions, passed) = (Definitions::new(body), Passed::new(body));
    let mut needed = vec![false; body.values.len()];
    let mut work = Vec::new();
    for block in &body.blocks {
        // A packet is consumed by being passed, so its parameter stays.
        work.extend(block.params.iter().filter(|param| matches!(body.ty(**param), Ty::Packet(_))));
        for inst in block.insts.iter().filter(|inst| !inst.op.is_pure()) {
            work.extend(inst.op.operands());
            work.extend(inst.result);
        }
        if let Terminator::Branch(condition, ..) = block.term {
            work.push(condition);
        }
    }
    while let Some(value) = work.pop() {
        if std::mem::replace(&mut needed[value.0 as usize], true) {
            continue;
        }
        match definitions.op(value) {
            Some(op) => work.extend(op.operands()),
            None => work.extend(passed.to(value)),
        }
    }
    for block in &mut body.blocks {
        block.insts.retain(|inst| !inst.op.is_pure() || inst.result.is_some_and(|r| needed[r.0 as usize]));
    }
    retain_params(body, |param| needed[param.0 as usize]);
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
    for block in &mut body.blocks {
        block.uses_mut(|value| *value = new[value.0 as usize].expect("a used value is defined"));
    }
    body.values = types;
    body.rename_expected(|value| new[value.0 as usize]);
}
