//! The reference interpreter as an engine.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use baker::ir::interp::{self, End, FrameLayout, Machine};
use baker::ir::{ChannelId, Program, TimerId, storage_size};
use codegen::abi::{self, END_CHANNEL, END_HOST, END_TX, Output, read_field, write_field};

use super::interface::Engine;
use crate::packets::WorkerContext;

/// The machine, whatever became of a thread that had it.
pub(super) fn lock(machine: &Mutex<Machine>) -> MutexGuard<'_, Machine> {
    machine.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The reference interpreter, with tables of its own. It is an oracle and a baseline: it allocates per packet.
#[derive(Debug)]
pub struct InterpEngine {
    machine: Arc<Mutex<Machine>>,
    /// The machine's counters before the batch; the difference goes into the worker's block.
    counted: Vec<u64>,
    /// Where packets lie in frames, if not as in the context's.
    layout: Option<FrameLayout>,
}

impl InterpEngine {
    /// An engine over a machine, which the control plane may share to reach its tables.
    pub fn new(machine: Arc<Mutex<Machine>>) -> Self {
        let counted = lock(&machine).counters().to_vec();
        InterpEngine { machine, counted, layout: None }
    }

    /// With room in front of packets and behind them as in another engine's frames.
    pub fn with_layout(mut self, layout: FrameLayout) -> Self {
        self.layout = Some(layout);
        self
    }
}

impl InterpEngine {
    /// Runs something on the machine and counts what it counted.
    fn counting(&mut self, context: &mut WorkerContext, run: impl FnOnce(&mut Machine, &mut WorkerContext)) {
        let mut machine = lock(&self.machine);
        machine.set_now(context.now());
        // Other workers may have run since the last batch.
        self.counted.copy_from_slice(machine.counters());
        let pool = context.pool();
        let layout = FrameLayout { headroom: pool.headroom(), frame_size: pool.frame_size() };
        machine.set_frame_layout(self.layout.unwrap_or(layout));
        run(&mut machine, context);
        for (slot, (&now, &before)) in machine.counters().iter().zip(&self.counted).enumerate() {
            if now != before {
                context.counters().add(slot, now.wrapping_sub(before));
            }
        }
    }
}

/// Puts what left the machine into frames and lists it.
fn list(machine: &Machine, context: &mut WorkerContext, outputs: Vec<interp::Output>) {
    let pool = context.pool().clone();
    for output in outputs {
        let frame = context.pop().expect("frames for limits.copies are reserved");
        let end = match output.end {
            End::Tx => END_TX,
            End::Host => END_HOST,
            End::Controller(channel) => END_CHANNEL + channel.0,
        };
        // No packet outgrows its frame; where it lies there no longer matters.
        let room = (pool.frame_size() as usize).checked_sub(output.packet.len());
        let offset = room.expect("no more than limits.headroom is pushed").min(pool.headroom() as usize);
        // SAFETY: the frame was just taken, so it is ours. The packet ends within the frame. Metadata fields lie within
        // the metadata.
        unsafe {
            pool.place(frame, offset, output.packet.len()).copy_from_slice(&output.packet);
            for (field, &value) in machine.program().metadata.iter().zip(&output.metadata) {
                let at = pool.metadata(frame).add(field.offset as usize);
                let bytes = std::slice::from_raw_parts_mut(at, storage_size(field.width) as usize);
                write_field(bytes, field.width, value);
            }
        }
        context.output(Output { frame, end });
    }
}

impl Engine for InterpEngine {
    unsafe fn run(&mut self, context: &mut WorkerContext, frames: &[u32]) {
        // SAFETY: promised by the caller.
        unsafe { self.inject(Program::RX, context, frames) }
    }

    unsafe fn inject(&mut self, channel: ChannelId, context: &mut WorkerContext, frames: &[u32]) {
        self.counting(context, |machine, context| {
            let pool = context.pool().clone();
            for &frame in frames {
                // SAFETY: the frame is the caller's and holds a packet with metadata. The borrow ends before the frame
                // is written.
                let outputs = unsafe {
                    let stored = |field: &baker::ir::MetaField| {
                        let at = pool.metadata(frame).add(field.offset as usize);
                        read_field(std::slice::from_raw_parts(at, storage_size(field.width) as usize), field.width)
                    };
                    let metadata: Vec<u128> = machine.program().metadata.iter().map(stored).collect();
                    machine.inject(channel, pool.packet(frame), &metadata)
                };
                context.push(frame);
                list(machine, context, outputs);
            }
        });
    }

    unsafe fn timer(&mut self, timer: TimerId, context: &mut WorkerContext, keys: &[u64], calls: u32) {
        self.counting(context, |machine, context| {
            let program = machine.program();
            let table = program.timers[timer.0 as usize].table;
            let key = table.map(|table| program.layouts[program.tables[table.0 as usize].key.0 as usize].clone());
            let words = key.as_ref().map_or(0, abi::key_words);
            for call in 0..calls as usize {
                let packed = &keys[call * words..(call + 1) * words];
                let fields = key.as_ref().map(|key| abi::unpack_key(key, packed)).unwrap_or_default();
                let outputs = machine.timer(timer, &fields);
                list(machine, context, outputs);
            }
        });
    }
}
