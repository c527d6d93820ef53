//! Workers that fan packets out to the members of groups: while members come and go, while programs take over, where too
//! many packets wait, where a port is slow, over interfaces, and where the kernel hands packets over.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use baker::ir::{Program, TableId, TableStore};

use super::controllers::{controller, until, whole};
use super::groups::{number, packet, program};
use super::live::{self, Host, Make, XDP, in_namespace, over_both};
use crate::controller::{Event, Group};
use crate::ports::{Driver, MemPort};
use crate::testing::{SplitMix64, compiled};
use crate::{EngineKind, FrameConfig, Instance, Options, PollMode, PortConfig};

fn options(workers: usize, frames: u32) -> Options {
    let frames = FrameConfig { count: frames, ..FrameConfig::default() };
    Options { engine: EngineKind::NATIVE, workers, poll: PollMode::Interrupt, frames, ..Options::default() }
}

/// What a member got: its packets, as group and number.
type Got = HashMap<u64, Vec<(u16, u64)>>;

/// By the member's address.
fn by_member(sent: &[Vec<u8>]) -> Got {
    let mut got = Got::new();
    for packet in sent {
        // The group lies in the payload, too.
        let of = u16::from_be_bytes([packet[20], packet[21]]);
        got.entry(number(&packet[..6])).or_default().push((of, number(&packet[6..12])));
    }
    got
}

/// As [`packet`], with the group in the payload, too.
fn marked(group: u16, number: u64, len: usize) -> Vec<u8> {
    let mut packet = packet(group, number, len);
    packet[20..22].copy_from_slice(&group.to_be_bytes());
    packet
}

/// Who stays gets every packet of the group once, in the worker's order; who comes or goes gets some of them, each once,
/// in order. Each frame comes back, and each packet is counted.
#[test]
fn members_come_and_go_while_packets_are_fanned_out() {
    const GROUPS: u16 = 8;
    const PACKETS: u64 = 4000;
    const STAY: u64 = 40;
    let program = program(GROUPS.into(), 2000);
    for workers in [1, 2] {
        let packets = (0..PACKETS).map(|n| marked((n % u64::from(GROUPS)) as u16, n, 60 + n as usize % 900)).collect();
        let (b, sent) = MemPort::default().collect();
        let ports = [
            PortConfig::new("a", 1, Driver::Mem(MemPort::generator(packets, PACKETS))),
            PortConfig::new("b", 2, Driver::Mem(b)),
        ];
        let prepared = Instance::prepare(program.clone(), &options(workers, 16384), &ports).unwrap();
        let group: Group<(u8, u64)> = prepared.named_tables().group("m.viewers").unwrap();
        // An address is the group and a number: of those who stay below 1000.
        let address = |of: u16, number: u64| u64::from(of) << 32 | number;
        for of in 0..GROUPS {
            for stays in 0..STAY {
                group.join(of.into(), &(2, address(of, stays))).unwrap();
            }
        }
        let instance = prepared.run().unwrap();
        let done = AtomicBool::new(false);
        let joined = std::thread::scope(|scope| {
            let (mut group, done) = (group.clone(), &done);
            let churn = scope.spawn(move || {
                let (mut random, mut there, mut joined) = (SplitMix64(workers as u64), Vec::new(), 0u64);
                while !done.load(Ordering::Relaxed) || joined < 500 {
                    let of = random.below(u64::from(GROUPS)) as u16;
                    if random.below(2) == 0 {
                        let value = (2, address(of, 1000 + joined));
                        there.push((of, group.join(of.into(), &value).unwrap()));
                        joined += 1;
                    }
                    if there.len() > 300 || random.below(2) == 0 && !there.is_empty() {
                        let (of, member) = there.swap_remove(random.below(there.len() as u64) as usize);
                        assert!(group.leave(of.into(), member));
                    }
                }
                joined
            });
            let observer = instance.observer();
            until("all packets are fanned out", || {
                let holders = observer.frames();
                observer.snapshot().channel("rx") == PACKETS && (holders.groups, holders.passing) == (0, 0)
            });
            done.store(true, Ordering::Relaxed);
            churn.join().unwrap()
        });
        let report = instance.stop();
        assert_eq!((report.errors, report.free_frames), (Vec::new(), report.frames));
        let sent = sent.lock().unwrap();
        for packet in sent.iter() {
            let of = u16::from_be_bytes([packet[20], packet[21]]);
            let n = number(&packet[6..12]);
            let mut wanted = marked(of, n, 60 + n as usize % 900);
            wanted[..6].copy_from_slice(&packet[..6]);
            wanted[12..14].copy_from_slice(&packet[12..14]);
            assert!(*packet == wanted, "what is shared is what was received");
        }
        let got = by_member(&sent);
        let full = report.snapshot.dropped("group_full");
        let mut late = 0;
        for (member, packets) in &got {
            let (of, number) = ((member >> 32) as u16, member & 0xffff_ffff);
            assert!(packets.iter().all(|(group, _)| *group == of), "packets of another group");
            for worker in 0..workers as u64 {
                let own: Vec<u64> = packets.iter().map(|(_, n)| *n).filter(|n| n % workers as u64 == worker).collect();
                assert!(own.is_sorted_by(|a, b| a < b), "member {number} of {of}: in order, none twice");
            }
            late += u64::from(number >= 1000);
        }
        let sorted = |member: u64| {
            let mut packets: Vec<u64> = got[&member].iter().map(|(_, n)| *n).collect();
            packets.sort_unstable();
            packets
        };
        for of in 0..GROUPS {
            assert!((1..STAY).all(|stays| sorted(address(of, stays)) == sorted(address(of, 0))), "each gets all");
        }
        let all: u64 = (0..GROUPS).map(|of| got[&address(of, 0)].len() as u64).sum();
        assert_eq!(all + full, PACKETS, "none is lost");
        assert!(late > 100 && joined >= 500, "{late} of {joined} who came got packets");
        let copies = report.snapshot.channel("m.viewers -> m.to_viewer");
        assert_eq!(copies, sent.len() as u64 + report.snapshot.dropped("has_left"));
    }
}

/// What a controller injects goes to all viewers, who note what they get.
fn counted(groups: &str, more: &str) -> Arc<Program> {
    compiled(&format!(
        "import \"net/ether\";
        {more}
        module m {{
            in  ether input, sent;
            out ether output;
            channel ether to_viewer;
            {groups}
            array<u32> got[20000];
            array<u64> last[20000];
            counter disorder;
            ppf idle(ether_packet_t *pkt) from input {{ packet_end(pkt); }}
            ppf p(ether_packet_t *pkt) from sent {{
                channel_put_all(to_viewer, viewers[pkt->type], pkt);
            }}
            ppf one(ether_packet_t *pkt) from to_viewer {{
                u32 *viewer = group_member(viewers, pkt);
                if (viewer == null) {{ packet_drop(pkt, malformed); return; }}
                u64 *before = last[*viewer];
                if (before != null) {{
                    if (pkt->src <= *before)
                        counter_add(disorder, 1);
                    *before = pkt->src;
                }}
                u32 *count = got[*viewer];
                if (count != null)
                    *count += 1;
                pkt->metadata.tx.port = 2;
                channel_put(output, pkt);
            }}
        }}
        program {{ rx -> m.input; controller c -> m.sent; m.output -> tx; }}"
    ))
}

fn without_groups() -> Arc<Program> {
    compiled(
        "import \"net/ether\";
        module m { in ether input, sent; out ether output; ppf a(ether_packet_t *pkt) from input { channel_put(output, pkt); }
        ppf b(ether_packet_t *pkt) from sent { channel_put(output, pkt); } }
        program { rx -> m.input; controller c -> m.sent; m.output -> tx; }",
    )
}

const VIEWERS: &str = "group<u32> viewers[4] of 20000;";
const MEMBERS: u32 = 20_000;
const INJECTED: u32 = 100;

/// An instance with as many members of group 2 as there may be, whose controller injects packets when it is told to.
fn injecting(program: &Arc<Program>, go: &Arc<AtomicBool>) -> (Instance, [PortConfig; 2]) {
    let ports = [
        PortConfig::new("a", 1, Driver::Mem(MemPort::default())),
        PortConfig::new("b", 2, Driver::Mem(MemPort::default())),
    ];
    let (go, mut sent) = (go.clone(), 0);
    let inject = controller(move |link| {
        let input = link.input("m.sent").map_err(|error| error.to_string())?;
        loop {
            while go.load(Ordering::Relaxed) && sent < INJECTED {
                if link.inject(input, &packet(2, u64::from(sent) + 1, 1328), &[]).is_err() {
                    break;
                }
                sent += 1;
            }
            if let Event::Stop = link.receive(std::time::Duration::from_millis(1)) {
                return Ok(());
            }
        }
    });
    let prepared = Instance::prepare_with(program.clone(), &options(1, 8192), &ports, inject).unwrap();
    let group: Group<u32> = prepared.named_tables().group("m.viewers").unwrap();
    (0..MEMBERS).for_each(|member| assert_eq!(group.join(2, &member), Ok(member)));
    (prepared.run().unwrap(), ports)
}

#[test]
fn another_program_goes_on_in_the_middle() {
    let program = counted(VIEWERS, "");
    let go = Arc::new(AtomicBool::new(false));
    let (mut instance, _ports) = injecting(&program, &go);
    let next = instance.next(&program, controller(|_| Ok(()))).unwrap_or_else(|error| panic!("{error}"));
    go.store(true, Ordering::Relaxed);
    let observer = instance.observer();
    let copies = || observer.snapshot().channel("m.viewers -> m.to_viewer");
    until("it is under way", || copies() > 1000);
    assert_eq!(instance.take_over(next), [""; 0]);
    let then = copies();
    until("all are fanned out", || copies() == u64::from(MEMBERS * INJECTED) && observer.frames().groups == 0);
    assert!(then < u64::from(MEMBERS * INJECTED), "it went on in the middle: {then}");
    let tables = instance.tables();
    let got = tables.dump(TableId(1));
    assert_eq!(got.len() as u32, MEMBERS);
    assert!(got.iter().all(|entry| entry.value == [u128::from(INJECTED)]), "each has got each once");
    let report = instance.stop();
    whole(&report);
    assert_eq!(report.snapshot.user, [("m.disorder".to_string(), vec![0])]);
    assert_eq!(report.snapshot.drops.iter().map(|(_, count)| count).sum::<u64>(), 0);
}

#[test]
fn what_another_program_does_not_have_is_dropped() {
    let program = counted(VIEWERS, "");
    for other in
        [counted(VIEWERS, "metadata { more : u32; }"), counted("group<u32> viewers[2] of 20000;", ""), without_groups()]
    {
        let go = Arc::new(AtomicBool::new(false));
        let (mut instance, _ports) = injecting(&program, &go);
        let next = instance.next(&other, controller(|_| Ok(()))).unwrap_or_else(|error| panic!("{error}"));
        go.store(true, Ordering::Relaxed);
        let observer = instance.observer();
        until("it is under way", || observer.snapshot().channel("m.viewers -> m.to_viewer") > 1000);
        assert_eq!(instance.take_over(next), [""; 0]);
        until("none waits", || observer.frames().groups == 0);
        whole(&instance.stop());
    }
}

#[test]
fn too_many_that_wait_are_dropped_and_what_waits_at_the_end_is_given_back() {
    const PACKETS: u64 = 3000;
    let program = program(8, 50_000);
    for groups in [1, 8] {
        let packets = (0..PACKETS).map(|n| packet((n % groups) as u16, n, 1328)).collect();
        let ports = [
            PortConfig::new("a", 1, Driver::Mem(MemPort::generator(packets, PACKETS))),
            PortConfig::new("b", 2, Driver::Mem(MemPort::default())),
        ];
        let prepared = Instance::prepare(program.clone(), &options(1, 4096), &ports).unwrap();
        let group: Group<(u8, u64)> = prepared.named_tables().group("m.viewers").unwrap();
        for of in 0..8 {
            (0..6000).for_each(|_| _ = group.join(of, &(2, 1)).unwrap());
        }
        let instance = prepared.run().unwrap();
        let observer = instance.observer();
        until("all were received", || observer.snapshot().channel("rx") == PACKETS);
        let waiting = observer.frames().groups;
        let report = instance.stop();
        whole(&report);
        let most = if groups == 1 { baker::ir::Group::WAITING_FOR_ONE } else { 512 };
        assert!(waiting <= most, "{waiting}");
        // Those that were not fanned out any more at the end, too.
        let (full, copies) =
            (report.snapshot.dropped("group_full"), report.snapshot.channel("m.viewers -> m.to_viewer"));
        assert!(full > PACKETS / 2 && copies > 0, "{full} {copies}");
        assert!(copies <= (PACKETS - full + u64::from(most)) * 6000);
    }
}

#[test]
fn too_few_frames_are_refused() {
    let ports = [PortConfig::new("a", 1, Driver::Mem(MemPort::default()))];
    let error = Instance::start(program(4, 10), &options(2, 1024), &ports).map(|_| ()).unwrap_err();
    assert_eq!(
        error.to_string(),
        "1024 frames, without those that ports need: 1024 are for packets that wait (groups: 1024), and 2 workers need at \
         least 4: use more frames, or declare smaller queues"
    );
}

/// What a port does not take is dropped for its viewers alone.
#[test]
fn a_slow_port_does_not_stop_the_others() {
    const PACKETS: u64 = 200;
    let program = program(1, 100);
    let packets = (0..PACKETS).map(|n| marked(0, n, 1000)).collect();
    let (b, quick) = MemPort::default().collect();
    let ports = [
        PortConfig::new("a", 1, Driver::Mem(MemPort::generator(packets, PACKETS))),
        PortConfig::new("b", 2, Driver::Mem(b)),
        PortConfig::new("c", 3, Driver::Mem(MemPort::default().fail_above(100))),
    ];
    let prepared = Instance::prepare(program, &options(1, 4096), &ports).unwrap();
    let group: Group<(u8, u64)> = prepared.named_tables().group("m.viewers").unwrap();
    (0..100).for_each(|member| _ = group.join(0, &(2 + member as u8 % 2, member)).unwrap());
    let report = prepared.run().unwrap().wait();
    whole(&report);
    let got = by_member(&quick.lock().unwrap());
    assert_eq!(got.len(), 50);
    assert!(got.values().all(|packets| packets.iter().map(|(_, n)| *n).eq(0..PACKETS)));
    assert_eq!(report.snapshot.dropped("tx_failed"), 50 * PACKETS);
}

over_both!(1: viewers_behind_an_interface);

fn viewers_behind_an_interface(driver: Make) {
    relayed(&[("a", 1), ("b", 2)].map(|(name, number)| PortConfig::new(name, number, driver(name))), |ports| {
        Instance::prepare(program(4, 20), &options(1, 8192), ports).unwrap_or_else(|error| panic!("{error}"))
    });
}

/// The put is the kernel's, and the copies are a worker's.
#[test]
fn a_packet_in_the_kernel_is_handed_over() {
    in_namespace(1, || {
        relayed(&[("a", 1), ("b", 2)].map(|(name, number)| PortConfig::new(name, number, XDP(name))), |_| {
            super::xdp::prepare(&program(4, 20), 1)
        });
    });
}

/// What comes in on the left goes to eight viewers on the right.
fn relayed(ports: &[PortConfig], prepare: impl Fn(&[PortConfig]) -> crate::Prepared) {
    let (left, right) = (Host::on("left"), Host::on("right"));
    let prepared = prepare(ports);
    let group: Group<(u8, u64)> = prepared.named_tables().group("m.viewers").unwrap();
    (0..8).for_each(|member| _ = group.join(3, &(2, 0x0200_0000_0000 + member)).unwrap());
    let instance = prepared.run().unwrap();
    for number in 0..50 {
        let sent = packet(3, number, 60 + (number as usize * 97) % 1400);
        left.send(&sent);
        for member in 0..8u64 {
            let mut wanted = sent.clone();
            wanted[..6].copy_from_slice(&(0x0200_0000_0000 + member).to_be_bytes()[2..]);
            wanted[12..14].copy_from_slice(&(member as u16).to_be_bytes());
            right.expect(&wanted);
        }
    }
    let report = instance.stop();
    whole(&report);
    assert_eq!(report.snapshot.channel("m.to_viewer in m.viewers"), 50);
    assert_eq!(report.snapshot.channel("m.viewers -> m.to_viewer"), 400);
    assert_eq!(report.snapshot.drops.iter().map(|(_, count)| count).sum::<u64>(), 0);
}
