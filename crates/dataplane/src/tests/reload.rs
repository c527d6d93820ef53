//! Programs that take over from each other under traffic: nothing is lost, doubled or reordered, and tables and
//! counters go on.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::Duration;

use baker::ir::{Program, TableEntry, TableId, TableStore};
use baker::opt::Level;
use codegen::OptLevel;
use codegen::kernel::{self, Hook};

use super::fanout::pass_in_order;
use super::live::{AFPACKET, AFXDP, Host, Make, TC, XDP, eventually, gro, in_namespace};
use crate::controller::{Controller, Event, Link, Named};
use crate::ports::{Driver, MemPort};
use crate::testing::{TO_HOST, compiled, frame};
use crate::xdp::FastPath;
use crate::{Access, Carried, EngineKind, FrameConfig, Instance, Options, PollMode, PortConfig, ReloadError};

/// Counts each flow where it comes in; every second one goes on at a worker, which has some work with it. With a number
/// of its own.
fn program(number: u32, work: u32) -> Arc<Program> {
    // Numbers of channels, counters and tables are different each time.
    let more = |text: &str, count: u32| (0..count).map(|n| text.replace('N', &n.to_string())).collect::<String>();
    let channels = more("channel ether extra_N; ", number % 3);
    let ppfs = more("ppf pass_N(ether_packet_t *pkt) from extra_N { channel_put(output, pkt); }\n", number % 3);
    let detour = if number.is_multiple_of(3) { "output" } else { "extra_0" };
    let counters = more("counter unused_N; ", number % 4);
    let tables = more("array<u32, u32> more_N[16]; ", 0) + &more("hash<u32, u64> own_N[100]; ", number % 2);
    compiled(&format!(
        "import \"net/ether\";
        metadata {{ mark : u64; }}
        module m {{
            in ether input; out ether output; {channels} channel ether own;
            {counters} counter seen; {tables}
            hash<u16, u64> flows[512];
            ppf first(ether_packet_t *pkt) from input {{
                pkt->metadata.tx.port = 3 - pkt->metadata.rx.port;
                pkt->metadata.mark = {number};
                u16 flow = (u16) pkt->src;
                u64 *count = flows[flow];
                if (count == null) {{ if (!table_insert(flows, flow, 1)) {{ packet_drop(pkt, malformed); return; }} }}
                else *count = *count + 1;
                if ((pkt->src & 1) == 1) channel_put(own, pkt);
                else channel_put({detour}, pkt);
            }}
            @worker ppf second(ether_packet_t *pkt) from own {{
                counter_add(seen, 1);
                u64 sum = 1;
                for (u32 j = 0; j < 4; j++) for (u32 i = 0; i < {work}; i++) sum = sum * 31 + i;
                if (pkt->metadata.mark != {number} || sum == 0) {{ packet_drop(pkt, malformed); return; }}
                channel_put(output, pkt);
            }}
            {ppfs}
        }}
        program {{ rx -> m.input; m.output -> tx; }}"
    ))
}

fn start(program: &Arc<Program>, driver: Make, workers: usize, access: Access) -> Instance {
    let engine = EngineKind::Native(OptLevel::O0, Level::Cgpc);
    let frames = FrameConfig { count: 32768 * workers as u32, ..FrameConfig::default() };
    let mut options = Options { engine, workers, frames, ..Options::default() };
    let mut program = program.clone();
    if let Some(hook) = driver("a").hook() {
        let compiled = kernel::Options { hook, ..Default::default() };
        let (of_workers, path) =
            FastPath::new(&program, Level::Cgpc, compiled).unwrap().expect("some of it runs in the kernel");
        (program, options.fast_path) = (of_workers, Some(Arc::new(path)));
    }
    let port = |(name, number)| PortConfig { access, ..PortConfig::new(name, number, driver(name)) };
    let ports = [("a", 1), ("b", 2)].map(port);
    Instance::start(program, &options, &ports).unwrap_or_else(|error| panic!("{error}"))
}

/// How often, unless `RELOADS` says so.
fn times(usual: u32) -> u32 {
    std::env::var("RELOADS").ok().and_then(|text| text.parse().ok()).unwrap_or(usual)
}

fn reload(instance: &mut Instance, program: &Program) -> Vec<Carried> {
    let next = instance.next(program, Vec::new()).unwrap_or_else(|error| panic!("{error}"));
    instance.copy(&next, |_, _| true).unwrap();
    let carried = next.carried().to_vec();
    assert_eq!(instance.take_over(next), [""; 0]);
    carried
}

fn reloads_under_traffic(driver: Make, queues: u32, workers: usize, reloads: u32, work: u32) {
    reloads_with_access(driver, queues, workers, reloads, work, Access::default());
}

fn reloads_with_access(driver: Make, queues: u32, workers: usize, reloads: u32, work: u32, access: Access) {
    in_namespace(queues, move || {
        gro(&["left", "right"]);
        if driver("a").hook() == Some(Hook::Tc) {
            gro(&["a", "b"]);
        }
        let (left, right) = (Host::on("left"), Host::on("right"));
        let programs: Vec<_> = (0..12).map(|number| program(number, work)).collect();
        let mut instance = start(&programs[0], driver, workers, access);
        let done = Arc::new(AtomicBool::new(false));
        let stop = done.clone();
        let traffic = std::thread::spawn(move || {
            let mut rounds = 0;
            while !stop.load(Ordering::Relaxed) || rounds < 4 {
                pass_in_order(&left, &right, rounds % 2 == 1, 1);
                rounds += 1;
            }
            rounds
        });
        for number in 1..=reloads {
            let carried = reload(&mut instance, &programs[number as usize % programs.len()]);
            assert!(matches!(carried.last(), Some(Carried::Kept(_))), "{carried:?}");
        }
        done.store(true, Ordering::Relaxed);
        let packets = 2000 * traffic.join().expect("all packets in order");
        eventually(&instance, |s| s.channel("rx") == packets);
        let flows = TableId(programs[reloads as usize % programs.len()].tables.len() as u32 - 1);
        let counts = instance.tables().dump(flows);
        let report = instance.stop();
        assert_eq!((report.errors, report.free_frames), (Vec::new(), report.frames));
        let snapshot = report.snapshot;
        assert_eq!(counts.iter().map(|entry| entry.value[0]).sum::<u128>(), packets.into(), "of 200 flows");
        assert_eq!((snapshot.channel("m.output"), snapshot.dropped("malformed")), (packets, 0));
        assert_eq!(snapshot.user.iter().find(|(name, _)| name == "m.seen").unwrap().1, [packets / 2]);
        assert_eq!(snapshot.ppfs.iter().find(|(name, _)| name == "m.first").unwrap().1, packets);
        assert_eq!(snapshot.port("b").unwrap().tx_packets, packets);
    });
}

#[test]
fn in_the_kernel() {
    reloads_under_traffic(XDP, 1, 1, times(40), 1);
}

#[test]
fn at_traffic_control() {
    reloads_under_traffic(TC, 1, 1, times(40), 1);
}

#[test]
fn at_traffic_control_with_two_workers() {
    reloads_under_traffic(TC, 2, 2, times(20), 1);
}

#[test]
fn in_the_kernel_with_two_workers() {
    reloads_under_traffic(XDP, 2, 2, times(20), 1);
}

/// What the old program has handed over lies in the rings for longer than it takes to replace it.
#[test]
fn in_the_kernel_with_a_slow_worker() {
    reloads_under_traffic(XDP, 1, 1, 12, 4000);
}

#[test]
fn on_workers_with_af_xdp() {
    reloads_under_traffic(AFXDP, 2, 2, times(40), 1);
}

#[test]
fn on_workers_that_copy_packets() {
    reloads_with_access(AFXDP, 2, 2, times(20), 1, Access::Copy);
}

#[test]
fn on_workers_that_copy_headers() {
    reloads_with_access(AFXDP, 1, 1, times(20), 1, Access::HeaderCopy);
}

#[test]
fn on_workers_with_af_packet() {
    reloads_under_traffic(AFPACKET, 1, 1, times(40), 1);
}

/// A controller that sends everything back, with the number of its runs.
struct Mirror(Arc<AtomicU32>);

impl Controller for Mirror {
    fn run(&mut self, link: &mut Link) -> Result<(), String> {
        self.0.fetch_add(1, Ordering::Relaxed);
        let text = |error| format!("{error}");
        let back = link.input("m.back").map_err(text)?;
        let mut seen = link.tables().table::<u32, u32>("m.seen").map_err(text)?;
        loop {
            match link.receive(Duration::from_secs(1)) {
                Event::Packet(packet) => {
                    let number = u32::from_be_bytes(packet.bytes()[8..12].try_into().expect("it is a frame"));
                    seen.set(&(number % 64), &(seen.get(&(number % 64)).unwrap_or(0) + 1))
                        .map_err(|e| e.to_string())?;
                    while link.inject(back, packet.bytes(), &[]).is_err() {
                        std::thread::yield_now();
                    }
                }
                Event::Room | Event::Timer(_) | Event::Idle => {}
                Event::Stop => return Ok(()),
            }
        }
    }
}

#[test]
fn controllers_go_on_with_what_they_have() {
    let program = |number: u32| {
        let before = if number == 1 { "channel ether other;" } else { "" };
        let ppf = if number == 1 { "ppf o(ether_packet_t *pkt) from other { channel_put(output, pkt); }" } else { "" };
        let to = if number == 1 { "other" } else { "output" };
        compiled(&format!(
            "import \"net/ether\";
            module m {{
                in ether input, back; {before} out ether output, punt;
                array<u32> seen[64];
                ppf sort(ether_packet_t *pkt) from input {{
                    pkt->metadata.tx.port = 2;
                    if (pkt->type == {TO_HOST}) channel_put(punt, pkt); else channel_put(output, pkt);
                }}
                ppf again(ether_packet_t *pkt) from back {{ pkt->metadata.tx.port = 2; channel_put({to}, pkt); }}
                {ppf}
            }}
            program {{ rx -> m.input; m.output -> tx; m.punt -> controller c; controller c -> m.back; }}"
        ))
    };
    let runs = Arc::new(AtomicU32::new(0));
    let given = |runs: &Arc<AtomicU32>| -> Vec<Named> { vec![("c".into(), Box::new(Mirror(runs.clone())))] };
    let programs = [program(0), program(1)];
    in_namespace(1, move || {
        let (left, right) = (Host::on("left"), Host::on("right"));
        let frames = FrameConfig { count: 16384, ..FrameConfig::default() };
        let ports = [("a", 1), ("b", 2)].map(|(name, number)| PortConfig::new(name, number, AFPACKET(name)));
        let options = Options { frames, poll: PollMode::Interrupt, ..Options::default() };
        let prepared = Instance::prepare_with(programs[0].clone(), &options, &ports, given(&runs)).unwrap();
        let mut instance = prepared.run().unwrap();
        let done = Arc::new(AtomicBool::new(false));
        let stop = done.clone();
        let traffic = std::thread::spawn(move || {
            let mut sent = 0;
            while !stop.load(Ordering::Relaxed) || sent < 500 {
                // Fewer than a controller may have.
                let burst: Vec<_> = (sent..sent + 100).map(|n| frame(TO_HOST, n, 60)).collect();
                burst.iter().for_each(|packet| left.send(packet));
                burst.iter().for_each(|packet| right.expect(packet));
                sent += 100;
            }
            sent
        });
        const RELOADS: u32 = 30;
        for number in 1..=RELOADS {
            // The one given here is not used.
            let unused = Arc::new(AtomicU32::new(0));
            let next = instance.next(&programs[number as usize % 2], given(&unused)).unwrap();
            assert_eq!(instance.take_over(next), [""; 0]);
            assert_eq!(unused.load(Ordering::Relaxed), 0);
        }
        done.store(true, Ordering::Relaxed);
        let sent = u64::from(traffic.join().expect("all packets in order"));
        assert_eq!(runs.load(Ordering::Relaxed), RELOADS + 1);
        let seen = instance.tables().dump(TableId(0));
        assert_eq!(seen.iter().map(|entry| entry.value[0]).sum::<u128>(), sent.into());
        let report = instance.stop();
        assert_eq!((report.errors, report.free_frames), (Vec::new(), report.frames));
        assert_eq!((report.snapshot.channel("m.punt"), report.snapshot.channel("m.output")), (sent, sent));
        assert_eq!(report.snapshot.drops.iter().map(|(_, count)| count).sum::<u64>(), 0);
    });
}

/// A program of tables that packets do not change, but for `flows`.
fn tables(declared: &str) -> Arc<Program> {
    compiled(&format!(
        "import \"net/ether\";
        struct hop_t {{ port : u8; mac : mac_addr_t; }}
        struct other_t {{ port : u8; mac : mac_addr_t; more : u8; }}
        module m {{
            in ether input; out ether output;
            {declared}
            ppf p(ether_packet_t *pkt) from input {{
                u16 key = pkt->type;
                if (flows[key] == null && !table_insert(flows, key, 1)) {{ packet_drop(pkt, malformed); return; }}
                channel_put(output, pkt);
            }}
        }}
        program {{ rx -> m.input; m.output -> tx; }}"
    ))
}

fn memory(program: &Arc<Program>, engine: EngineKind) -> Instance {
    let ports = [("a", 0), ("b", 1)].map(|(name, n)| PortConfig::new(name, n, Driver::Mem(MemPort::default())));
    Instance::start(program.clone(), &Options { engine, ..Options::default() }, &ports).unwrap()
}

#[test]
fn what_is_declared_the_same_is_kept_and_for_the_rest_there_is_a_reason() {
    let before = tables(
        "array<hop_t> hops[16]; lpm<u32, u32> fib[100]; hash<u32, u32> sized[100]; set<u32> gone[4];
        hash<u16, u32> flows[64] idle 10s; array<hop_t> typed[4]; hash<u32, u32> keyed[8]; array<u32> turned[8];
        meter rate[2] rate 10 burst 10;",
    );
    let after = tables(
        "hash<u16, u32> flows[128] idle 10s; array<hop_t> hops[16]; hash<u32, u32> sized[50]; lpm<u32, u32> fib[100];
        set<u32> fresh[4]; array<other_t> typed[4]; hash<u16, u32> keyed[8]; hash<u32, u32> turned[8];
        meter rate[2] rate 20 burst 10;",
    );
    let mut instance = memory(&before, EngineKind::NATIVE);
    let entry =
        |key: u128, prefix_len, value: &[u128]| TableEntry { key: vec![key], prefix_len, value: value.to_vec() };
    let id = |program: &Program, name: &str| {
        TableId(program.tables.iter().position(|table| table.name == format!("m.{name}")).unwrap() as u32)
    };
    let mut old = instance.tables();
    old.insert(id(&before, "hops"), &entry(3, None, &[7, 0xaabb])).unwrap();
    old.insert(id(&before, "fib"), &entry(0x0a00_0000, Some(8), &[9])).unwrap();
    (0..50).for_each(|key| old.insert(id(&before, "sized"), &entry(key, None, &[key + 1])).unwrap());
    let carried = reload(&mut instance, &after);
    let said: Vec<_> =
        after.tables.iter().zip(&carried).map(|(table, carried)| format!("{}: {carried}", table.name)).collect();
    assert_eq!(
        said,
        [
            "m.flows: empty, because its size was changed from 64 to 128, and packets change its entries",
            "m.hops: kept",
            "m.sized: copied, because its size was changed from 100 to 50",
            "m.fib: kept",
            "m.fresh: new",
            "m.typed: empty, because its value was changed",
            "m.keyed: empty, because its key was changed",
            "m.turned: empty, because it was an array and is a hash now",
            "m.rate: empty, because its rate was changed",
        ]
    );
    let new = instance.tables();
    assert_eq!(new.get(id(&after, "hops"), &[3], None), Ok(vec![7, 0xaabb]));
    assert_eq!(new.get(id(&after, "fib"), &[0x0a00_0000], Some(8)), Ok(vec![9]));
    assert_eq!(new.count(id(&after, "sized")), 50);
    // The next one has more than fits.
    let mut tables = instance.tables();
    assert!(tables.insert(id(&after, "sized"), &entry(99, None, &[1])).is_err());
    let mut smaller = (*after).clone();
    smaller.tables[2].capacity = 49;
    let next = instance.next(&smaller, Vec::new()).unwrap();
    let refused = instance.copy(&next, |_, _| true).unwrap_err();
    assert_eq!(refused.to_string(), "table m.sized: its entries cannot be copied: the table is full");
    assert_eq!(instance.tables().count(id(&after, "sized")), 50, "the one that runs goes on");
    instance.stop();
}

#[test]
fn what_cannot_take_over_says_why() {
    let small = tables("hash<u16, u32> flows[64];");
    let interpreter = memory(&small, EngineKind::Interp);
    assert!(matches!(interpreter.next(&small, Vec::new()).map(|_| ()), Err(ReloadError::Interpreter)));
    let instance = memory(&small, EngineKind::NATIVE);
    let refused = |program: &Program| instance.next(program, Vec::new()).map(|_| ()).unwrap_err().to_string();
    let metadata = compiled(
        "import \"net/ether\"; metadata { a : u128; b : u128; c : u128; d : u128; }
        module m { in ether input; out ether output; ppf p(ether_packet_t *pkt) from input { channel_put(output, pkt); } }
        program { rx -> m.input; m.output -> tx; }",
    );
    assert!(refused(&metadata).starts_with("its metadata takes "), "{}", refused(&metadata));
    let wired = compiled(
        "import \"net/ether\"; module m { in ether input; out ether output;
        ppf p(ether_packet_t *pkt) from input { channel_put(output, pkt); } }
        program { rx -> m.input; m.output -> controller c; }",
    );
    assert_eq!(refused(&wired), "the program is wired to a controller c, which is not there");
}
