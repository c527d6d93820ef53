//! Records the execution paths of packets through a program, how long they are, and which places in them are found at
//! run time.

use std::collections::{BTreeMap, HashMap};

use super::super::{Block, Body, Counts, Inst, Op, Ppf, PpfId, Program, Usage, Value};

/// Lengths from which on packets are not told apart, in bytes: farther from the head nothing is held in registers.
const LONG: usize = 256;
/// Different numbers that are counted for one value.
const NUMBERS: usize = 64;

/// What was seen of a program while it was recorded.
#[derive(Clone, Debug)]
pub struct Recording {
    ppfs: Vec<Recorded>,
}

/// Of one PPF.
#[derive(Clone, Debug)]
struct Recorded {
    /// Packets that entered, by length.
    lengths: [u64; LONG + 1],
    blocks: Vec<Counts>,
    numbers: HashMap<Value, HashMap<u128, u64>>,
}

impl Recording {
    pub(super) fn new(program: &Program) -> Recording {
        let recorded = |ppf: &Ppf| Recorded {
            lengths: [0; LONG + 1],
            blocks: vec![Counts::default(); ppf.body.blocks.len()],
            numbers: HashMap::new(),
        };
        Recording { ppfs: program.ppfs.iter().map(recorded).collect() }
    }

    fn of(&mut self, ppf: PpfId) -> &mut Recorded {
        &mut self.ppfs[ppf.0 as usize]
    }

    pub(super) fn enter(&mut self, ppf: PpfId, length: usize) {
        self.of(ppf).lengths[length.min(LONG)] += 1;
    }

    pub(super) fn block(&mut self, ppf: PpfId, block: usize) {
        self.of(ppf).blocks[block].runs += 1;
    }

    pub(super) fn branch(&mut self, ppf: PpfId, block: usize, edge: usize) {
        self.of(ppf).blocks[block].taken[edge] += 1;
    }

    pub(super) fn inst(&mut self, ppf: PpfId, op: &Op, get: impl Fn(Value) -> u128) {
        for value in op.dynamic_offsets() {
            let numbers = self.of(ppf).numbers.entry(value).or_default();
            let known = numbers.len() < NUMBERS || numbers.contains_key(&get(value));
            if known {
                *numbers.entry(get(value)).or_default() += 1;
            }
        }
    }

    /// The program with what was seen of it beside its code.
    pub fn beside(&self, program: &Program) -> Program {
        let mut program = program.clone();
        for (ppf, recorded) in program.ppfs.iter_mut().zip(&self.ppfs) {
            let constants = constants(&ppf.body);
            ppf.body.usage = recorded.usage(|value| constants[value.0 as usize]);
            for (block, counts) in ppf.body.blocks.iter_mut().zip(&recorded.blocks) {
                block.counts = Some(*counts);
            }
        }
        program
    }
}

impl Recorded {
    /// `None` where no packet came.
    fn usage(&self, is_constant: impl Fn(Value) -> bool) -> Option<Usage> {
        let lengths = (0..).zip(self.lengths).filter(|(_, packets)| *packets > 0).collect::<BTreeMap<u32, u64>>();
        let expected = |(value, numbers): (&Value, &HashMap<u128, u64>)| {
            let (number, count) = numbers.iter().max_by_key(|(number, count)| (**count, **number))?;
            (count * 2 > numbers.values().sum() && !is_constant(*value)).then_some((*value, *number))
        };
        let expected = self.numbers.iter().filter_map(expected).collect();
        (!lengths.is_empty()).then_some(Usage { lengths, expected })
    }
}

/// Which values are constants.
fn constants(body: &Body) -> Vec<bool> {
    let mut constants = vec![false; body.values.len()];
    for Inst { result, op, .. } in body.blocks.iter().flat_map(|block: &Block| &block.insts) {
        if let (Some(result), Op::Const(_)) = (result, op) {
            constants[result.0 as usize] = true;
        }
    }
    constants
}
