//! Channels between PPFs form no cycle, so that every packet ends.

use super::Errors;
use crate::ir::*;

pub(super) fn check(program: &Program, errors: &mut Errors) {
    let successors: Vec<Vec<usize>> = program.ppfs.iter().map(|ppf| targets(program, &ppf.body)).collect();
    #[derive(Clone, Copy, PartialEq)]
    enum Mark {
        New,
        Open,
        Done,
    }
    let mut marks = vec![Mark::New; program.ppfs.len()];
    for start in 0..program.ppfs.len() {
        if marks[start] != Mark::New {
            continue;
        }
        // The path from `start`: PPFs, and how many of their targets were visited.
        let mut path = vec![(start, 0)];
        marks[start] = Mark::Open;
        while let Some((ppf, next)) = path.pop() {
            let Some(&to) = successors[ppf].get(next) else {
                marks[ppf] = Mark::Done;
                continue;
            };
            path.push((ppf, next + 1));
            match marks[to] {
                Mark::Done => {}
                Mark::New => {
                    marks[to] = Mark::Open;
                    path.push((to, 0));
                }
                Mark::Open => {
                    let names = path.iter().map(|(i, _)| *i).skip_while(|i| *i != to).chain([to]);
                    let names: Vec<&str> = names.map(|i| program.ppfs[i].name.as_str()).collect();
                    errors.add(format!("packets can run in a circle: {}", names.join(" -> ")));
                }
            }
        }
    }
}

/// The PPFs that a body puts packets into.
fn targets(program: &Program, body: &Body) -> Vec<usize> {
    let insts = body.blocks.iter().flat_map(|block| &block.insts);
    let mut targets: Vec<usize> = insts
        .filter_map(|inst| match inst.op {
            Op::Put { channel, .. } => Some(program.channels[channel.0 as usize].target),
            _ => None,
        })
        .filter_map(|target| match target {
            Target::Ppf(id) => Some(id.0 as usize),
            Target::Queue(_, on) | Target::Group(_, on) => {
                match program.channels.get(on.0 as usize).map(|on| on.target) {
                    Some(Target::Ppf(id)) => Some(id.0 as usize),
                    _ => None,
                }
            }
            Target::Tx | Target::Host | Target::Controller(_) => None,
        })
        .collect();
    targets.sort_unstable();
    targets.dedup();
    targets
}
