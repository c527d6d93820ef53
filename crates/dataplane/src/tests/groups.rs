//! Packets to all members of a group: each gets a packet of its own, in order, once, on each engine; while members come
//! and go, on several workers, and while programs take over.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use baker::ir::{CounterSlots, DropId, Program, TableError, TableId, TableStore};
use baker::opt::Level;
use codegen::OptLevel;

use super::controllers::{controller, until, whole};
use crate::controller::{Event, Group, NamedTables};
use crate::ports::{Driver, MemPort};
use crate::step::Stepper;
use crate::testing::{SplitMix64, compiled};
use crate::{Access, EngineKind, FrameConfig, Instance, Options, PollMode, PortConfig};

const ENGINES: [EngineKind; 3] =
    [EngineKind::Interp, EngineKind::Native(OptLevel::O0, Level::Base), EngineKind::NATIVE];

/// `type` says the group. A packet for a member says which it is, and what its value is.
pub(super) fn program(groups: u32, members: u32) -> Arc<Program> {
    compiled(&format!(
        "import \"net/ether\";
        drop_reason has_left;
        struct viewer_t {{ port : port_t; mac : mac_addr_t; }}
        module m {{
            in  ether input;
            out ether output;
            channel ether to_viewer;
            group<viewer_t> viewers[{groups}] of {members};
            ppf p(ether_packet_t *pkt) from input {{
                channel_put_all(to_viewer, viewers[pkt->type], pkt);
            }}
            ppf one(ether_packet_t *pkt) from to_viewer {{
                viewer_t *viewer = group_member(viewers, pkt);
                packet_require(viewer != null, has_left);
                pkt->dst = viewer->mac;
                pkt->type = (u16) pkt->metadata.member;
                pkt->metadata.tx.port = viewer->port;
                channel_put(output, pkt);
            }}
        }}
        program {{ rx -> m.input; m.output -> tx; }}"
    ))
}

/// A packet to a group, with a number.
pub(super) fn packet(group: u16, number: u64, len: usize) -> Vec<u8> {
    let mut packet = vec![0; 6];
    packet.extend(&number.to_be_bytes()[2..]);
    packet.extend(group.to_be_bytes());
    packet.extend((14..len).map(|at| (number as usize * 31 + at) as u8));
    packet
}

fn number(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0, |number, byte| number << 8 | u64::from(*byte))
}

fn reason(program: &Program, name: &str) -> usize {
    let index = program.drop_reasons.iter().position(|reason| reason.name == name).unwrap();
    CounterSlots::new(program).drop(DropId(index as u32))
}

#[test]
fn each_member_gets_a_packet_of_its_own() {
    const GROUPS: u32 = 5;
    let program = program(GROUPS, 300);
    for seed in 0..4 {
        for engine in ENGINES {
            let mut random = SplitMix64(seed);
            let mut stepper = Stepper::new(program.clone(), engine).unwrap();
            let mut group: Group<(u8, u64)> =
                NamedTables::new(program.clone(), stepper.tables()).group("m.viewers").unwrap();
            let mut model: BTreeMap<(u32, u32), (u8, u64)> = BTreeMap::new();
            let (mut none, mut copies) = (0, 0);
            for step in 0..1500 {
                let of = random.below(u64::from(GROUPS)) as u32;
                match random.below(6) {
                    0..3 => {
                        let value = (random.below(200) as u8, random.below(1 << 48));
                        let free = (0..).find(|member| !model.contains_key(&(of, *member))).unwrap();
                        let wanted = if model.len() < 300 { Ok(free) } else { Err(TableError::Full) };
                        assert_eq!(group.join(of, &value), wanted);
                        wanted.into_iter().for_each(|member| _ = model.insert((of, member), value));
                    }
                    3 => {
                        let member = random.below(150) as u32;
                        assert_eq!(group.leave(of, member), model.remove(&(of, member)).is_some());
                    }
                    4 => {
                        let (member, value) = (random.below(60) as u32, (7, random.below(1 << 48)));
                        if model.contains_key(&(of, member)) {
                            group.set(of, member, &value).unwrap();
                            model.insert((of, member), value);
                        }
                        assert_eq!(group.get(of, member), model.get(&(of, member)).copied());
                    }
                    _ => {
                        // One group there is not.
                        let of = if random.below(20) == 0 { GROUPS } else { of };
                        let len = 60 + random.below(1300) as usize;
                        let sent = packet(of as u16, step, len);
                        let members = model.range((of, 0)..=(of, u32::MAX));
                        let wanted: Vec<(u8, Vec<u8>)> = members
                            .map(|((_, member), (port, mac))| {
                                let mut bytes = sent.clone();
                                bytes[..6].copy_from_slice(&mac.to_be_bytes()[2..]);
                                bytes[12..14].copy_from_slice(&(*member as u16).to_be_bytes());
                                (*port, bytes)
                            })
                            .collect();
                        none += u64::from(wanted.is_empty());
                        copies += wanted.len();
                        stepper.set_access(Access::ALL[random.below(3) as usize]);
                        let found = stepper.receive(1, &sent).into_iter();
                        let found: Vec<_> = found.map(|output| (output.metadata[1] as u8, output.bytes)).collect();
                        assert!(found == wanted, "{engine:?} seed {seed} step {step}");
                    }
                }
                assert_eq!(group.len(), model.len());
            }
            let members = model.range((1, 0)..(2, 0)).map(|((_, member), value)| (*member, *value));
            assert!(group.members(1).into_iter().eq(members));
            assert_eq!(stepper.counters()[reason(&program, "no_member")], none, "{engine:?}");
            assert!(copies > 1000 && none > 0, "{copies} {none}");
            stepper.check_frames().unwrap();
        }
    }
}

#[test]
fn who_is_no_member_is_refused() {
    let program = program(4, 10);
    for engine in ENGINES {
        let mut stepper = Stepper::new(program.clone(), engine).unwrap();
        let mut entry = |group: u128, member: u128| {
            let entry = baker::ir::TableEntry { key: vec![group, member], prefix_len: None, value: vec![1, 2] };
            stepper.insert(TableId(0), &entry)
        };
        assert_eq!(entry(4, 0), Err(TableError::OutOfRange));
        assert_eq!(entry(0, 10), Err(TableError::OutOfRange));
        assert_eq!(entry(3, 9), Ok(()));
        let mut group: Group<(u8, u64)> =
            NamedTables::new(program.clone(), stepper.tables()).group("m.viewers").unwrap();
        assert!(!group.leave(4, 0) && !group.leave(3, 10) && !group.leave(3, 8));
        assert_eq!(group.join(4, &(1, 1)), Err(TableError::OutOfRange));
        assert!((0..9).all(|member| group.join(3, &(1, 1)) == Ok(member)));
        assert_eq!(group.join(3, &(1, 1)), Err(TableError::Full));
        assert_eq!(group.join(0, &(1, 1)), Err(TableError::Full));
        let found = stepper.receive(1, &packet(3, 1, 60));
        assert!(found.iter().map(|output| number(&output.bytes[12..14])).eq(0..10));
    }
}

#[test]
fn what_is_behind_a_group_may_wait_again() {
    let program = compiled(
        "import \"net/ether\";
        module m {
            in  ether input;
            out ether output, all;
            channel ether first, second, paced;
            group<u16> outer[2] of 50;
            group<u32> inner of 50;
            queue line of 500;
            ppf p(ether_packet_t *pkt) from input {
                ether_packet_t *copy = packet_copy(pkt);
                channel_put_all(first, outer[pkt->type], pkt);
                channel_put_all(all, inner, copy);
            }
            ppf one(ether_packet_t *pkt) from first {
                u16 *of = group_member(outer, pkt);
                u32 *other = group_member(inner, pkt);
                if (other != null || of == null) { packet_drop(pkt, malformed); return; }
                pkt->type = *of;
                channel_put_all(second, inner, pkt);
            }
            ppf two(ether_packet_t *pkt) from second {
                u32 *of = group_member(inner, pkt);
                u16 *other = group_member(outer, pkt);
                if (other != null || of == null) { packet_drop(pkt, malformed); return; }
                pkt->dst = *of;
                channel_put_at(paced, line, pkt, now_ns() + 1ms);
            }
            ppf three(ether_packet_t *pkt) from paced {
                u32 *of = group_member(inner, pkt);
                pkt->src = of != null ? *of + pkt->metadata.group : 0;
                channel_put(output, pkt);
            }
        }
        program { rx -> m.input; m.output -> tx; m.all -> host; }",
    );
    for engine in ENGINES {
        let mut stepper = Stepper::new(program.clone(), engine).unwrap();
        let tables = NamedTables::new(program.clone(), stepper.tables());
        let (outer, mut inner) = (tables.group::<u16>("m.outer").unwrap(), tables.group::<u32>("m.inner").unwrap());
        (0..3).for_each(|n| assert_eq!(outer.join(1, &(n + 100)), Ok(u32::from(n))));
        (0..4).for_each(|n| assert_eq!(inner.join(0, &(n + 1000)), Ok(n)));
        let now = stepper.receive(1, &packet(1, 77, 1000));
        assert!(now.iter().all(|output| output.bytes == packet(1, 77, 1000)));
        assert_eq!(now.len(), 4, "what goes to no PPF leaves");
        inner.leave(0, 2);
        let later = stepper.advance(1_000_000);
        let found: Vec<_> =
            later.iter().map(|output| [12..14, 0..6, 6..12].map(|bytes| number(&output.bytes[bytes]))).collect();
        let wanted = (100..103)
            .flat_map(|first| (1000..1004).map(move |second| [first, second, if second == 1002 { 0 } else { second }]));
        assert_eq!(found, wanted.collect::<Vec<_>>(), "{engine:?}");
        stepper.check_frames().unwrap();
    }
}

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
