//! Each definition dominates its uses.

use super::{Analyses, Errors, blocks};
use crate::ir::analysis::Definition;
use crate::ir::*;

/// Every use in a reachable block lies behind its definition on every path.
pub(super) fn check(body: &Body, analyses: &Analyses, errors: &mut Errors) {
    for (id, block) in blocks(body).filter(|(id, _)| analyses.cfg.is_reachable(*id)) {
        let mut use_at = |value: Value, position: usize| {
            let reaches = |definition: Definition| match definition {
                Definition::Param(block, _) if block == id => true,
                Definition::Inst(block, index) if block == id => index < position,
                _ => analyses.dominators.dominates(definition.block(), id),
            };
            match analyses.definitions.of(value) {
                None => errors.at(id, format!("v{} is used but nothing defines it", value.0)),
                Some(definition) if !reaches(definition) => {
                    errors.at(id, format!("v{} is used where its definition may not have been passed", value.0))
                }
                Some(_) => {}
            }
        };
        for (i, inst) in block.insts.iter().enumerate() {
            inst.op.operands().into_iter().for_each(|value| use_at(value, i));
        }
        block.term.uses().for_each(|value| use_at(value, block.insts.len()));
    }
}
