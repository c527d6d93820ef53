//! A measurement, not a test: what a copy for a member of a group costs, in memory. Run it by name, with
//! `--ignored --nocapture`.

use std::sync::Arc;
use std::time::Duration;

use baker::ir::CounterSlots;

use super::groups::{packet, program};
use crate::EngineKind;
use crate::controller::{Group, NamedTables};
use crate::counters::CounterBlock;
use crate::engine::Engines;
use crate::packets::{FrameConfig, FramePool, Received, RxBatch, WorkerContext};
use crate::workers::{Groups, NOBODY};

const BYTES: usize = 1328;
/// Packets that wait together.
const BURST: u64 = 16;
const COPIES: u64 = 2_000_000;

/// CPU time of this thread: others use the machine, too.
fn used() -> Duration {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the call writes the time, which is plain data.
    unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &raw mut time) };
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

#[test]
#[ignore = "a measurement"]
fn nanoseconds_per_copy() {
    for members in [1u64, 10, 100, 1000, 10_000] {
        let program = program(1, 10_000);
        let (engines, tables) = Engines::new(&program, EngineKind::NATIVE, None, None).unwrap();
        let mut engine = engines.engine();
        let pool = Arc::new(FramePool::new(&program, FrameConfig::default()).unwrap());
        let counters = Arc::new(CounterBlock::new(CounterSlots::new(&program).len()));
        let mut context = WorkerContext::new(&program, pool.clone(), tables.native().cloned(), counters).unwrap();
        let mut groups = Groups::new(&program, &pool, &tables, |entry| engine.of_member(entry)).unwrap();
        let group: Group<(u8, u64)> = NamedTables::new(program.clone(), tables.clone()).group("m.viewers").unwrap();
        (0..members).for_each(|member| _ = group.join(0, &(1, member)).unwrap());
        let (mut all, mut copies) = (Duration::ZERO, 0);
        while copies < COPIES {
            let mut received = Received::default();
            let mut batch = RxBatch::new(&mut context, &mut received, 1);
            (0..BURST).for_each(|number| batch.push(&[&packet(0, number, BYTES)]));
            // SAFETY: the batch was made over this context, which was made for the engine's program and tables.
            unsafe { engine.run(&mut context, received.frames()) };
            for output in context.outputs().to_vec() {
                groups.put(&mut context, output.frame, baker::ir::ChannelId(output.end - codegen::abi::END_CHANNEL));
            }
            context.clear_outputs();
            let start = used();
            while groups.held() > 0 {
                context.quiescent();
                let most = context.capacity();
                let mut entering = NOBODY;
                let (count, _) = groups.fan_out(&mut context, most, &mut entering);
                let frames: Vec<u32> = entering[..count].iter().map(|(frame, _)| *frame).collect();
                // SAFETY: the frames are the context owner's and hold packets for the channel behind the group.
                unsafe { engine.inject(entering[0].1, &mut context, &frames) };
                copies += context.outputs().len() as u64;
                context.free_outputs();
            }
            all += used() - start;
        }
        let each = |time: Duration| time.as_nanos() as f64 / copies as f64;
        println!("{members:6} members: {:6.1} ns per copy, made, run through the program and let go of", each(all));
    }
}
