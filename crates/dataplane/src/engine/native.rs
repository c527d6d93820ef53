//! Machine code.

use std::sync::Arc;

use baker::ir::{ChannelId, Program, TimerId};
use baker::opt::Level;
use baker::opt::reach::Reach;
use codegen::abi::{MAX_BATCH, RunFn};
use codegen::{CodegenError, Native, OptLevel};

use super::interface::Engine;
use crate::packets::WorkerContext;
use crate::tables::Tables;

/// Machine code, which several workers share.
#[derive(Clone)]
pub struct NativeEngine {
    native: Arc<Native>,
}

impl NativeEngine {
    /// Compiles a program. The contexts that it runs over need [`Tables`] of the same program.
    pub fn compile(program: &Program, opt: OptLevel, packets: Level) -> Result<Self, CodegenError> {
        Ok(NativeEngine { native: Arc::new(Native::compile(program, opt, packets, &Tables::runtime())?) })
    }
}

impl Engine for NativeEngine {
    unsafe fn run(&mut self, context: &mut WorkerContext, frames: &[u32]) {
        debug_assert!(frames.len() <= MAX_BATCH);
        // SAFETY: promised by the caller.
        unsafe { self.inject(Program::RX, context, frames) }
    }

    unsafe fn inject(&mut self, channel: ChannelId, context: &mut WorkerContext, frames: &[u32]) {
        let run = self.native.run_fn(channel).expect("packets enter by this channel");
        // SAFETY: promised by the caller; the code lives as long as `native`.
        unsafe { run(context.raw(), frames.as_ptr(), frames.len() as u32) }
    }

    fn reach(&self) -> Reach {
        self.native.reach()
    }

    fn of_member(&self, entry: ChannelId) -> Option<u32> {
        self.native.of_member(entry)
    }

    unsafe fn timer(&mut self, timer: TimerId, context: &mut WorkerContext, keys: &[u64], calls: u32) {
        let run = self.native.timer_fn(timer).expect("the program has this timer");
        // SAFETY: promised by the caller; the code lives as long as `native`.
        unsafe { run(context.raw(), keys.as_ptr(), calls) }
    }
}

/// Any function with the generated code's interface.
#[derive(Debug)]
pub struct RunFnEngine(RunFn);

impl RunFnEngine {
    /// # Safety
    /// The function obeys the rules of `codegen::abi` for the program that it will be used for.
    pub unsafe fn new(run: RunFn) -> Self {
        RunFnEngine(run)
    }
}

impl Engine for RunFnEngine {
    unsafe fn run(&mut self, context: &mut WorkerContext, frames: &[u32]) {
        // SAFETY: promised by the caller and at the making of the engine.
        unsafe { (self.0)(context.raw(), frames.as_ptr(), frames.len() as u32) }
    }
}
