//! How many packets wait at a port.

use std::sync::Arc;
use std::time::{Duration, Instant};

use baker::ir::CounterSlots;
use baker::opt::Level;
use codegen::OptLevel;

use super::live::{self, Host, Make, eventually, over_both, start_with};
use crate::counters::CounterBlock;
use crate::packets::{FramePool, Received, RxBatch, WorkerContext};
use crate::ports::{self, Common, Extras};
use crate::testing::{forward_program, frame};
use crate::xdp::PortRole;
use crate::{EngineKind, FrameConfig, Options};

/// More than one batch takes.
const PACKETS: u32 = 100;

over_both!(1: what_waits_is_counted, places_are_those_of_all_workers);

fn what_waits_is_counted(driver: Make) {
    let program = forward_program();
    let pool = Arc::new(FramePool::new(&program, FrameConfig::default()).unwrap());
    let driver = driver("a");
    let common = Common::new(1, &pool, None, false, "test", std::iter::once(&driver));
    let mut opened = ports::open(&driver, PortRole { number: 0, host: None }, Extras::default(), &common).unwrap();
    let mut queue = opened.queues.pop().unwrap();
    let empty = queue.depth();
    assert_eq!((empty.rx, empty.tx), (0, 0));
    assert!(empty.rx_places >= PACKETS && empty.tx_places >= PACKETS, "{empty:?}");
    let left = Host::on("left");
    (0..PACKETS).for_each(|number| left.send(&frame(0x88b6, number, 60)));
    let began = Instant::now();
    while queue.depth().rx < PACKETS {
        assert!(began.elapsed() < Duration::from_secs(5), "{:?}", queue.depth());
        std::thread::sleep(Duration::from_millis(1));
    }
    let counters = Arc::new(CounterBlock::new(CounterSlots::new(&program).len()));
    let mut context = WorkerContext::new(&program, pool, None, counters).unwrap();
    let mut left_over = PACKETS;
    while left_over > 0 {
        assert_eq!(queue.depth(), ports::Depth { rx: left_over, ..empty });
        let mut received = Received::default();
        let mut batch = RxBatch::new(&mut context, &mut received, 0);
        queue.receive(&mut batch);
        let (packets, ..) = batch.totals();
        assert!((1..=u64::from(left_over)).contains(&packets), "{packets} of {left_over}");
        left_over -= packets as u32;
    }
    assert_eq!(queue.depth(), empty);
}

fn places_are_those_of_all_workers(driver: Make) {
    let places = |workers| {
        let engine = EngineKind::Native(OptLevel::O0, Level::Base);
        let instance = start_with(driver, Options { engine, workers, ..Options::default() });
        eventually(&instance, |seen| seen.ports.iter().all(|port| port.tx_places > 0));
        let report = instance.stop();
        let port = report.snapshot.port("a").unwrap().clone();
        assert_eq!((port.rx_queued, port.tx_queued), (0, 0));
        (port.rx_places, port.tx_places)
    };
    let (one, two) = (places(1), places(2));
    // AF_XDP divides its frames among the queues of interfaces, of which there is one here.
    assert!(one.0 > 0 && two.0 >= one.0 && two.1 >= one.1, "{one:?} {two:?}");
}
