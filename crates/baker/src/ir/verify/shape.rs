//! The shape of a body: ids in range, each value defined once, blocks called with as many arguments as they take.

use super::{Errors, blocks};
use crate::ir::*;

pub(super) fn check(program: &Program, body: &Body, params: &[Ty], errors: &mut Errors) {
    for (i, ty) in body.values.iter().enumerate() {
        let known = match *ty {
            Ty::Int(width) => (1..=128).contains(&width),
            Ty::Entry(layout) => (layout.0 as usize) < program.layouts.len(),
            Ty::Packet(protocol) => (protocol.0 as usize) < program.protocols.len(),
        };
        if !known {
            errors.add(format!("v{i} has a type that is not one: {ty:?}"));
        }
    }
    let Some(entry) = body.blocks.first() else {
        errors.add("it has no entry block".into());
        return;
    };
    let known = |value: &Value| (value.0 as usize) < body.values.len();
    let given = entry.params.iter().map(|param| known(param).then(|| body.ty(*param)));
    if !given.eq(params.iter().copied().map(Some)) {
        let what = match params {
            [Ty::Packet(_)] => "one packet of the ppf's protocol",
            _ => "the fields of the timer's keys",
        };
        errors.at(BlockId(0), format!("the entry block does not take {what}"));
    }
    let mut defined = vec![false; body.values.len()];
    for (id, block) in blocks(body) {
        let results = block.insts.iter().filter_map(|inst| inst.result.as_ref());
        for value in block.params.iter().chain(results) {
            match defined.get_mut(value.0 as usize) {
                None => errors.at(id, format!("v{} is not in the list of values", value.0)),
                Some(true) => errors.at(id, format!("v{} is defined a second time", value.0)),
                Some(seen) => *seen = true,
            }
        }
        for value in block.uses() {
            if !known(&value) {
                errors.at(id, format!("v{} is not in the list of values", value.0));
            }
        }
        for dest in block.term.dests() {
            match body.blocks.get(dest.block.0 as usize) {
                None => errors.at(id, format!("there is no block b{}", dest.block.0)),
                Some(_) if dest.block.0 == 0 => errors.at(id, "the entry block has a predecessor".into()),
                Some(to) if to.params.len() != dest.args.len() => errors
                    .at(id, format!("b{} takes {} values and gets {}", dest.block.0, to.params.len(), dest.args.len())),
                Some(_) => {}
            }
        }
    }
}
