//! What runs at the ports until the kernel has verified a program, and after that.

use std::sync::{Arc, PoisonError};
use std::time::{Duration, Instant};

use baker::ir::{CounterSlots, Program, TableId, TableStore};
use baker::opt::Level;
use codegen::OptLevel;
use codegen::kernel::{Hook, Options as KernelOptions};

use crate::testing::{compiled, frame};
use crate::tests::live::{Host, Make, TC, XDP, eventually, gro, in_namespace};
use crate::xdp::{FastPath, Progress, partition};
use crate::{EngineKind, Instance, Options, PortConfig};

/// Counts flows in a table. The kernel does all of it.
const COUNTING: &str = "import \"net/ether\";
module m {
    in ether input; out ether output; hash<u16, u64> flows[512]; counter seen;
    ppf first(ether_packet_t *pkt) from input {
        pkt->metadata.tx.port = 3 - pkt->metadata.rx.port;
        u16 flow = (u16) pkt->src;
        u64 *count = flows[flow];
        counter_add(seen, 1);
        if (count == null) { if (!table_insert(flows, flow, 1)) { packet_drop(pkt, malformed); return; } }
        else *count = *count + 1;
        channel_put(output, pkt);
    }
}
program { rx -> m.input; m.output -> tx; }";
/// Packets of a burst.
const BURST: u32 = 50;

/// A program's stand-in, and the instance that is started with it.
fn start(driver: Make, path: impl FnOnce(&mut FastPath)) -> (Arc<FastPath>, impl FnOnce() -> Instance) {
    let options = KernelOptions { hook: driver("a").hook().unwrap_or(Hook::Xdp), ..KernelOptions::default() };
    let partitioned = partition(&compiled(COUNTING), Level::Cgpc, options).unwrap();
    let (memory, _) = partitioned.made.expect("the kernel takes it");
    let mut stand_in = FastPath::with_stand_in(&partitioned.split, memory, Level::Cgpc, options).unwrap();
    path(&mut stand_in);
    let stand_in = Arc::new(stand_in);
    let engine = EngineKind::Native(OptLevel::O0, Level::Cgpc);
    let instance = Options { engine, fast_path: Some(stand_in.clone()), ..Options::default() };
    let program = Arc::new(partitioned.split.workers);
    let ports = [("a", 1), ("b", 2)].map(|(name, number)| PortConfig::new(name, number, driver(name)));
    (stand_in, move || Instance::start(program, &instance, &ports).unwrap_or_else(|error| panic!("{error}")))
}

fn wait_for(path: &FastPath, wanted: impl Fn(&Progress) -> bool) {
    let end = Instant::now() + Duration::from_secs(20);
    while !wanted(&path.progress()) {
        assert!(Instant::now() < end, "{:?}", path.progress());
        std::thread::sleep(Duration::from_millis(5));
    }
}

fn pass(from: &Host, to: &Host, round: u32) {
    let burst: Vec<_> = (0..BURST).map(|number| frame(0x88b6, round * BURST + number, 100)).collect();
    burst.iter().for_each(|packet| from.send(packet));
    burst.iter().for_each(|packet| to.expect(packet));
}

/// Packets that the kernel's part of the program had.
fn in_kernel(path: &FastPath) -> u64 {
    let part = path.part();
    part.counter(CounterSlots::new(part.program()).channel(Program::RX))
}

fn takes_the_place(driver: Make) {
    in_namespace(1, move || {
        gro(&["left", "a", "b", "right"]);
        let (left, right) = (Host::on("left"), Host::on("right"));
        let (path, start) = start(driver, |_| ());
        let held = path.awaited.lock().unwrap_or_else(PoisonError::into_inner);
        let instance = start();
        assert_eq!(path.progress(), Progress::Loading);
        pass(&left, &right, 0);
        pass(&right, &left, 1);
        let all = u64::from(2 * BURST);
        eventually(&instance, |s| s.channel("rx") == all && s.channel("m.output") == all);
        assert_eq!(in_kernel(&path), 0);
        drop(held);
        wait_for(&path, |progress| *progress == Progress::Loaded);
        pass(&left, &right, 2);
        pass(&right, &left, 3);
        let all = 2 * all;
        let seen = |s: &crate::Snapshot| s.user.iter().find(|(name, _)| name == "m.seen").expect("it counts").1[0];
        eventually(&instance, |s| (s.channel("rx"), s.channel("m.output"), seen(s)) == (all, all, all));
        assert_eq!(in_kernel(&path), all / 2);
        let flows = instance.tables().dump(TableId(0));
        assert_eq!(flows.iter().map(|entry| entry.value[0]).sum::<u128>(), all.into());
        let report = instance.stop();
        assert_eq!((report.errors, report.free_frames), (Vec::new(), report.frames));
    });
}

#[test]
fn the_program_takes_the_place_of_its_stand_in() {
    takes_the_place(XDP);
}

#[test]
fn the_program_takes_the_place_of_its_stand_in_at_tc() {
    takes_the_place(TC);
}

#[test]
fn a_program_that_takes_over_waits_for_it() {
    in_namespace(1, || {
        gro(&["left", "a", "b", "right"]);
        let (left, right) = (Host::on("left"), Host::on("right"));
        let (path, start) = start(TC, |_| ());
        let mut instance = start();
        let next = instance.next(&compiled(COUNTING), Vec::new()).unwrap();
        assert_eq!(path.progress(), Progress::Loaded);
        assert_eq!(instance.take_over(next), [""; 0]);
        pass(&left, &right, 0);
        eventually(&instance, |s| s.channel("m.output") == u64::from(BURST));
        assert_eq!(in_kernel(&path), u64::from(BURST));
        instance.stop();
    });
}

/// Stopped meanwhile, it does not come to the ports any more.
#[test]
fn an_instance_ends_while_it_waits() {
    in_namespace(1, || {
        let (path, start) = start(TC, |_| ());
        let held = path.awaited.lock().unwrap_or_else(PoisonError::into_inner);
        let report = start().stop();
        assert_eq!((report.errors, report.free_frames), (Vec::new(), report.frames));
        drop(held);
        wait_for(&path, |progress| *progress == Progress::Loaded);
        assert!(!path.has_ports());
    });
}

#[test]
fn workers_go_on_where_the_kernel_refuses_it() {
    in_namespace(1, || {
        gro(&["left", "a", "b", "right"]);
        let (left, right) = (Host::on("left"), Host::on("right"));
        let copies = compiled(
            "import \"net/ether\";
            module m {
                in ether input; out ether output;
                ppf first(ether_packet_t *pkt) from input {
                    ether_packet_t *copy = packet_copy(pkt);
                    channel_put(output, copy);
                    channel_put(output, pkt);
                }
            }
            program { rx -> m.input; m.output -> tx; }",
        );
        let (path, start) = start(XDP, |path| {
            let awaited = path.awaited.get_mut().unwrap_or_else(PoisonError::into_inner);
            awaited.as_mut().expect("it is awaited").kernel = (*copies).clone();
        });
        let instance = start();
        wait_for(&path, |progress| matches!(progress, Progress::Refused(_)));
        pass(&left, &right, 0);
        eventually(&instance, |s| s.channel("m.output") == u64::from(BURST));
        assert_eq!(in_kernel(&path), 0);
        instance.stop();
    });
}
