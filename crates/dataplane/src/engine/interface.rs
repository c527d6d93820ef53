//! What engines have in common: packets in, by batches, and packets out.

use baker::ir::{ChannelId, TimerId};
use baker::opt::Level;
use baker::opt::reach::Reach;
use codegen::{CodegenError, OptLevel};

use crate::externs::MissingExterns;
use crate::packets::WorkerContext;
use crate::tables::TablesError;

/// Which engine runs the program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EngineKind {
    /// Machine code through LLVM, with packet accesses optimised so far.
    Native(OptLevel, Level),
    /// The reference interpreter.
    Interp,
    /// In the kernel, each packet by itself through its test run, with packet accesses optimised so far: for tests.
    /// Timers and controllers' packets are native code's, on the same tables.
    Kernel(Level),
}

impl EngineKind {
    /// Machine code with all optimisations.
    pub const NATIVE: EngineKind = EngineKind::Native(OptLevel::O3, Level::Cgpc);

    /// Its name on the command line and in reports.
    pub const fn name(self) -> &'static str {
        match self {
            EngineKind::Native(..) => "worker",
            EngineKind::Interp => "interp",
            EngineKind::Kernel(_) => "kernel",
        }
    }
}

/// Why there is no engine.
#[derive(Debug, thiserror::Error)]
pub enum EngineError {
    /// No code.
    #[error(transparent)]
    Codegen(#[from] CodegenError),
    /// No tables.
    #[error(transparent)]
    Tables(#[from] TablesError),
    /// Workers do not run what the kernel runs.
    #[error("the kernel's test run takes one packet at a time, so it is for tests only")]
    OneByOne,
    /// Its tables are not the kernel's.
    #[error("the interpreter has tables of its own, so it cannot go on with packets of the kernel")]
    Unshared,
    /// A function that no controller has.
    #[error(transparent)]
    Externs(#[from] MissingExterns),
}

/// Runs a program over batches.
pub trait Engine: Send {
    /// Processes the packets in `frames`, in order: each leaves as an output of the context, or is dropped and its
    /// frame freed. Counts in the context's counter block.
    ///
    /// # Safety
    /// The frames are at most [`codegen::abi::MAX_BATCH`], belong to the caller, hold packets with metadata set as at
    /// `rx`, and `Limits::copies` free frames per packet are in the context (as [`crate::RxBatch`] sees to). The
    /// context was made for the same program and for the tables that the engine uses.
    unsafe fn run(&mut self, context: &mut WorkerContext, frames: &[u32]);

    /// As [`Engine::run`] for packets that a controller injects into a channel. Engines of programs without such
    /// channels need not have it.
    ///
    /// # Safety
    /// As for [`Engine::run`], but for the metadata, which may be anything that fits; the channel is one of
    /// [`baker::ir::Program::entries`].
    unsafe fn inject(&mut self, channel: ChannelId, _context: &mut WorkerContext, _frames: &[u32]) {
        unreachable!("packets are injected into channel {} of an engine without injection", channel.0)
    }

    /// How far it reaches into packets that were received. What it may not be known to be held to is the whole packet.
    fn reach(&self) -> Reach {
        Reach::WHOLE
    }

    /// How many bytes a copy for a member of a group needs for itself, which enters by this channel; `None`: all.
    fn of_member(&self, _entry: ChannelId) -> Option<u32> {
        None
    }

    /// Runs a timer for each of `calls` packed keys (see [`codegen::abi::TimerFn`]). Engines of programs without timers
    /// need not have it.
    ///
    /// # Safety
    /// `keys` has that many keys, at most [`codegen::abi::MAX_BATCH`]; the context is as for [`Engine::run`], with
    /// `Limits::copies` free frames per call.
    unsafe fn timer(&mut self, timer: TimerId, _context: &mut WorkerContext, _keys: &[u64], _calls: u32) {
        unreachable!("timer {} runs on an engine without timers", timer.0)
    }
}
