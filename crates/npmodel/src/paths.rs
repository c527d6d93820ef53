//! The execution paths that the packets of a trace take through a program, each with its micro-operations.
//!
//! The interpreter runs every packet, so what a packet does is the program's meaning and nothing else. Packets that
//! executed the same operations on the same places share one sequence of micro-operations.

use std::collections::HashMap;
use std::sync::Arc;

use baker::ir::interp::{End, Execution, Machine};
use baker::ir::{DropId, Op, Program};
use baker::opt::{Level, optimise};

use crate::micro::MicroOp;
use crate::platform::{Memory, Platform};
use crate::sequence::{Lowering, Micro};

/// Bytes of the frame check sequence, which captures leave out and the line carries.
const FRAME_CHECK: u64 = 4;

/// Packets after which progress is told of.
const STRIDE: u64 = 4096;

/// An execution path.
#[derive(Clone, Debug)]
pub struct ExecutionPath {
    /// What the engines execute.
    pub sequence: Vec<Micro>,
    /// Bytes of the received frame.
    pub received: u32,
    /// Bytes of each frame that leaves by `tx`.
    pub sent: Vec<u32>,
    /// Packets for the host or a controller.
    pub handed: u32,
    /// Why it was dropped, or a copy of it was.
    pub drop: Option<DropId>,
    /// Packets of the trace that took it.
    pub packets: u64,
}

impl ExecutionPath {
    /// Bits on the line.
    pub fn bits(&self) -> u64 {
        (u64::from(self.received) + FRAME_CHECK) * 8
    }
}

/// Accesses to one memory and their bytes, per packet.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Traffic {
    /// Commands.
    pub accesses: f64,
    /// Bytes.
    pub bytes: f64,
}

/// A trace, run through a program at one level.
#[derive(Clone, Debug)]
pub struct Traced {
    /// The level.
    pub level: Level,
    /// The program at that level.
    pub program: Arc<Program>,
    /// All execution paths, in the order in which they were first taken.
    pub paths: Vec<ExecutionPath>,
    /// The execution path of each packet.
    pub packets: Vec<u32>,
    /// Instructions in the code of each PPF.
    pub code: Vec<u32>,
}

/// Runs a trace, port numbers and frames. `fill` sets up tables; its error is the result. `progress` is told now
/// and then how many more packets were run.
pub fn trace<E>(
    program: &Program,
    level: Level,
    platform: &Platform,
    packets: &[(u8, Vec<u8>)],
    fill: impl Fn(&mut Machine) -> Result<(), E>,
    progress: &dyn Fn(u64),
) -> Result<Traced, E> {
    let program = Arc::new(optimise(program, level));
    let mut machine = Machine::new(Arc::clone(&program));
    fill(&mut machine)?;
    let lowering = Lowering::new(&program, level, platform);
    let mut execution = Execution::default();
    let mut known: HashMap<(u64, u32, Vec<u32>), u32> = HashMap::new();
    let mut paths: Vec<ExecutionPath> = Vec::new();
    let mut taken = Vec::with_capacity(packets.len());
    for (index, (port, frame)) in packets.iter().enumerate() {
        let outputs = machine.receive_noted(*port, frame, &mut execution);
        let sent: Vec<u32> = outputs.iter().filter(|o| o.end == End::Tx).map(|o| o.packet.len() as u32).collect();
        let handed = (outputs.len() - sent.len()) as u32;
        let key = (execution.fingerprint(), frame.len() as u32, sent);
        let path = match known.get(&key) {
            Some(path) => *path,
            None => {
                let (received, sent) = (key.1, key.2.clone());
                let drop = dropped(&program, &execution);
                paths.push(ExecutionPath {
                    sequence: lowering.sequence(&execution),
                    received,
                    sent,
                    handed,
                    drop,
                    packets: 0,
                });
                known.insert(key, paths.len() as u32 - 1);
                paths.len() as u32 - 1
            }
        };
        paths[path as usize].packets += 1;
        taken.push(path);
        if index as u64 % STRIDE == STRIDE - 1 {
            progress(STRIDE);
        }
    }
    progress(packets.len() as u64 % STRIDE);
    let code = (0..program.ppfs.len()).map(|ppf| lowering.code_size(ppf)).collect();
    Ok(Traced { level, paths, packets: taken, code, program: Arc::clone(&program) })
}

/// Why a packet was dropped.
fn dropped(program: &Program, execution: &Execution) -> Option<DropId> {
    let Some(_) = execution.entry else { return Some(DropId::TRUNCATED) };
    execution.executed.iter().find_map(|executed| match executed.inst(program)?.op {
        Op::Drop { reason, .. } => Some(reason),
        _ => None,
    })
}

impl Traced {
    /// The mean over all packets of what an execution path has.
    pub fn mean(&self, of: impl Fn(&ExecutionPath) -> f64) -> f64 {
        let sum: f64 = self.paths.iter().map(|path| of(path) * path.packets as f64).sum();
        sum / self.packets.len().max(1) as f64
    }

    /// Instructions per packet.
    pub fn instructions(&self) -> f64 {
        self.mean(|path| path.sequence.iter().map(|micro| f64::from(micro.op.instructions())).sum())
    }

    /// Accesses to a memory per packet, by the program itself.
    pub fn traffic(&self, of: Memory) -> Traffic {
        let sum = |count: fn(u32) -> f64| {
            self.mean(|path| {
                let bytes = path.sequence.iter().filter_map(|micro| match micro.op {
                    MicroOp::Access { memory, bytes, .. } if memory == of => Some(bytes),
                    _ => None,
                });
                bytes.map(count).sum()
            })
        };
        Traffic { accesses: sum(|_| 1.0), bytes: sum(f64::from) }
    }

    /// Share of the packets that left by `tx`.
    pub fn forwarded(&self) -> f64 {
        self.mean(|path| f64::from(u8::from(!path.sent.is_empty())))
    }

    /// Packets that left by any end.
    pub fn left(&self) -> u64 {
        self.paths.iter().filter(|path| !path.sent.is_empty() || path.handed > 0).map(|path| path.packets).sum()
    }
}
