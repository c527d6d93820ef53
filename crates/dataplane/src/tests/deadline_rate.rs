//! Measurements, not tests: how late timers at deadlines are with a million armed and a hundred thousand a second, and
//! packets of a thousand paced flows. Run them by name, with `--ignored --nocapture`.

use std::time::Duration;

use baker::ir::{TableEntry, TableId, TableStore};

use crate::ports::{Driver, MemPort};
use crate::testing::{compiled, frame};
use crate::{EngineKind, FrameConfig, Instance, Options, PollMode, PortConfig};

const ARMED: u64 = 1_000_000;
/// Nanoseconds between two timers: all of them in ten seconds.
const APART: u64 = 10_000;
const TIME: Duration = Duration::from_secs(8);
/// Nanoseconds of a counter's cell.
const CELL: u64 = 2000;
const CELLS: usize = 8192;

/// CPU time of the process.
fn used() -> Duration {
    // SAFETY: rusage is plain data for which zero is valid; the call writes one.
    let usage = unsafe {
        let mut usage: libc::rusage = std::mem::zeroed();
        libc::getrusage(libc::RUSAGE_SELF, &raw mut usage);
        usage
    };
    let time = |time: libc::timeval| Duration::new(time.tv_sec as u64, time.tv_usec as u32 * 1000);
    time(usage.ru_utime) + time(usage.ru_stime)
}

fn measure(what: &str, loaded: bool, poll: PollMode) {
    let program = compiled(&format!(
        "import \"net/ether\";
        drop_reason done;
        struct flow_t {{ due : u64; }}
        module m {{
            in  ether input;
            out ether output;
            hash<u32, flow_t> flows[{ARMED}];
            hash<mac_addr_t, u32> places[65536];
            array<u64> worst[1];
            counter late[{CELLS}];
            counter armed;
            timer act(u32 key, flow_t *flow) over flows at deadline {{
                u64 late_ns = now_ns() - flow->due;
                counter_add(late[(u32) (late_ns / {CELL})], 1);
                u64 *most = worst[0];
                if (most != null && late_ns > *most)
                    *most = late_ns;
                flow->due += {ARMED} * {APART};
                timer_set(flows[key], flow->due);
            }}
            ppf p(ether_packet_t *pkt) from input {{
                if (pkt->type != 0x88b5) {{
                    u32 *place = places[pkt->dst];
                    if (place == null)
                        places[pkt->dst] = 1;
                    else
                        *place += 1;
                    pkt->metadata.tx.port = 2;
                    channel_put(output, pkt);
                    return;
                }}
                for (u32 i = 0; i < 1000; i++) {{
                    u32 key = (u32) pkt->src * 1000 + i;
                    u64 due = now_ns() + 1s + ((u64) key * 7919 % {ARMED}) * {APART};
                    flows[key] = flow_t {{ due: due }};
                    timer_set(flows[key], due);
                }}
                counter_add(armed, 1000);
                packet_drop(pkt, done);
            }}
        }}
        program {{ rx -> m.input; m.output -> tx; }}"
    ));
    let arm = |number: u64| {
        let mut packet = frame(0x88b5, 0, 60);
        packet[6..12].copy_from_slice(&number.to_be_bytes()[2..]);
        packet
    };
    let arming = Driver::Mem(MemPort::generator((0..ARMED / 1000).map(arm).collect(), ARMED / 1000));
    let traffic = (0..4096).map(|flow| frame(0x0800, flow, 60)).collect();
    let traffic = Driver::Mem(MemPort::generator(traffic, if loaded { u64::MAX / 2 } else { 0 }));
    let ports = [PortConfig::new("a", 1, arming), PortConfig::new("b", 2, traffic)];
    let frames = FrameConfig { count: 4096, ..FrameConfig::default() };
    let options = Options { engine: EngineKind::NATIVE, workers: 1, poll, frames, ..Options::default() };
    let instance = Instance::start(program, &options, &ports).unwrap();
    let (mut tables, observer) = (instance.tables(), instance.observer());
    let user = |name: &str| {
        let snapshot = observer.snapshot();
        snapshot.user.into_iter().find(|(other, _)| other == name).map(|(_, cells)| cells).unwrap_or_default()
    };
    while user("m.armed")[0] < ARMED {
        std::thread::sleep(Duration::from_millis(10));
    }
    std::thread::sleep(Duration::from_millis(1500));
    let none = TableEntry { key: vec![0], prefix_len: None, value: vec![0] };
    tables.insert(TableId(2), &none).unwrap();
    let (before, cpu, forwarded) = (user("m.late"), used(), observer.snapshot().channel("m.output"));
    std::thread::sleep(TIME);
    let (after, cpu) = (user("m.late"), used() - cpu);
    let forwarded = observer.snapshot().channel("m.output") - forwarded;
    let worst = tables.get(TableId(2), &[0], None).unwrap()[0];
    report(what, &before, &after, worst as u64, cpu, forwarded);
    instance.stop();
}

/// Prints what was counted in cells of lateness.
fn report(what: &str, before: &[u64], after: &[u64], worst: u64, cpu: Duration, forwarded: u64) {
    let late: Vec<u64> = after.iter().zip(before).map(|(after, before)| after - before).collect();
    let fired: u64 = late.iter().sum();
    let percentile = |part: f64| {
        let (mut left, wanted) = (0, (fired as f64 * part) as u64);
        let cell = late.iter().position(|count| {
            left += count;
            left >= wanted
        });
        cell.map_or(f64::NAN, |cell| (cell as u64 + 1) as f64 * CELL as f64 / 1000.0)
    };
    println!(
        "{what}: {:.0} a second, late by p50 {:.0} µs, p99 {:.0} µs, p99.9 {:.0} µs, max {:.0} µs; \
         {:.1} % of a CPU, {:.2} million other packets/s",
        fired as f64 / TIME.as_secs_f64(),
        percentile(0.5),
        percentile(0.99),
        percentile(0.999),
        worst as f64 / 1000.0,
        100.0 * cpu.as_secs_f64() / TIME.as_secs_f64(),
        forwarded as f64 / TIME.as_secs_f64() / 1e6,
    );
    assert!(fired > 0);
}

/// A thousand flows of 5 Mbit/s in packets of 1328 bytes, each 2.125 ms apart.
fn pace(what: &str) {
    let program = compiled(&format!(
        "import \"net/ether\";
        drop_reason ahead;
        metadata {{ due : u64; }}
        module m {{
            in  ether input;
            out ether output;
            channel ether paced;
            array<u64> next[1000];
            array<u64> worst[1];
            counter late[{CELLS}];
            queue line[1000] of 16;
            ppf p(ether_packet_t *pkt) from input {{
                u32 flow = (u32) pkt->src % 1000;
                u64 due = next[flow];
                if (due > now_ns() + 20ms) {{
                    packet_drop(pkt, ahead);
                    return;
                }}
                if (due < now_ns())
                    due = now_ns() + (u64) flow * 2us;
                next[flow] = due + 2125us;
                pkt->metadata.due = due;
                pkt->metadata.tx.port = 2;
                channel_put_at(paced, line[flow], pkt, due);
            }}
            ppf q(ether_packet_t *pkt) from paced {{
                u64 late_ns = now_ns() - pkt->metadata.due;
                counter_add(late[(u32) (late_ns / {CELL})], 1);
                u64 *most = worst[0];
                if (most != null && late_ns > *most)
                    *most = late_ns;
                channel_put(output, pkt);
            }}
        }}
        program {{ rx -> m.input; m.output -> tx; }}"
    ));
    let packet = |flow: u64| {
        let mut packet = frame(0x0800, 0, 1328);
        packet[6..12].copy_from_slice(&flow.to_be_bytes()[2..]);
        packet
    };
    let traffic = Driver::Mem(MemPort::generator((0..1000).map(packet).collect(), u64::MAX / 2));
    let ports = [PortConfig::new("a", 1, traffic), PortConfig::new("b", 2, Driver::Mem(MemPort::default()))];
    let frames = FrameConfig { count: 16384 + 4096, ..FrameConfig::default() };
    let options =
        Options { engine: EngineKind::NATIVE, workers: 1, poll: PollMode::Interrupt, frames, ..Options::default() };
    let instance = Instance::start(program, &options, &ports).unwrap();
    let (mut tables, observer) = (instance.tables(), instance.observer());
    let user = |name: &str| {
        let snapshot = observer.snapshot();
        snapshot.user.into_iter().find(|(other, _)| other == name).map(|(_, cells)| cells).unwrap_or_default()
    };
    std::thread::sleep(Duration::from_secs(1));
    tables.insert(TableId(1), &TableEntry { key: vec![0], prefix_len: None, value: vec![0] }).unwrap();
    let (before, cpu, dropped) = (user("m.late"), used(), observer.snapshot().dropped("ahead"));
    std::thread::sleep(TIME);
    let (after, cpu, dropped) = (user("m.late"), used() - cpu, observer.snapshot().dropped("ahead") - dropped);
    let worst = tables.get(TableId(1), &[0], None).unwrap()[0];
    report(what, &before, &after, worst as u64, cpu, dropped);
    assert_eq!(observer.snapshot().dropped("queue_full"), 0);
    instance.stop();
}

#[test]
#[ignore = "a measurement"]
fn deviation_of_a_thousand_paced_flows() {
    pace("1000 flows of 5 Mbit/s, full load");
}

#[test]
#[ignore = "a measurement"]
fn lateness_of_a_hundred_thousand_deadlines_a_second() {
    measure("idle", false, PollMode::Interrupt);
    measure("full load", true, PollMode::Interrupt);
}
