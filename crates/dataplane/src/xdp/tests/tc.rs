//! Programs at traffic control as they run at interfaces: what they return, what they hand over, and hosts whose
//! offloads are on, between which they translate addresses.

use std::sync::atomic::AtomicBool;
use std::time::Duration;

use baker::place::{Placement, Split, split};
use codegen::kernel::{Hook, Tap};

use super::super::sys;
use super::*;
use crate::tests::hosts::{BYTES, Hosts, both_have_all};
use crate::tests::super_packet::Super;
use crate::xdp::TapRing;

/// `TC_ACT_UNSPEC`, `TC_ACT_SHOT`, `TC_ACT_REDIRECT`
const NEXT: u32 = u32::MAX;
const SHOT: u32 = 2;
const REDIRECT: u32 = 7;

struct AtTc {
    split: Split,
    memory: SharedMemory,
    loaded: Loaded,
}

impl AtTc {
    fn new(text: &str, options: Options) -> AtTc {
        let checked = baker::check::check("t.baker", text, &baker::library::Library);
        let Some(typed) = checked.program else {
            panic!("{}", baker::diag::render(&checked.diagnostics, &checked.sources, false));
        };
        let program = baker::ir::lower_with_operations(&typed);
        let limits = bpf::limits_at(&program, Hook::Tc);
        let placement = Placement::new(&program, &limits).unwrap();
        let split = split(&program, &placement, &limits);
        let memory = SharedMemory::new(&split.workers).unwrap();
        let options = Options { hook: Hook::Tc, ..options };
        let loaded = Loaded::compile(&split.kernel, Level::Cgpc, &memory, options).unwrap();
        AtTc { split, memory, loaded }
    }

    fn counter(&self, name: &str) -> u64 {
        let id = self.split.workers.counters.iter().position(|counter| counter.name == name).unwrap();
        self.memory.counter(CounterSlots::new(&self.split.workers).user(CounterId(id as u32)))
    }

    fn dropped(&self, reason: DropId) -> u64 {
        self.memory.counter(CounterSlots::new(&self.split.workers).drop(reason))
    }
}

/// By the type: to the host, dropped, out, to a controller with a header less.
const WAYS: &str = "protocol ether { dst : u48; src : u48; type : u16; demux { 14 }; }
    protocol inner { first : u8; second : u8; demux { 2 }; }
    metadata { note : u32; }
    module m { in ether input; out ether output, up; out inner asked;
        ppf p(ether_packet_t *pkt) from input {
            if (pkt->type == 1) { channel_put(up, pkt); return; }
            if (pkt->type == 2) { packet_drop(pkt, malformed); return; }
            pkt->metadata.note = 0x01020304;
            if (pkt->type == 3) {
                inner_packet_t *inner = packet_decap(pkt);
                inner->second = 9;
                channel_put(asked, inner);
                return;
            }
            pkt->src = 5;
            pkt->metadata.tx.port = 7;
            channel_put(output, pkt);
        } }
    program { rx -> m.input; m.output -> tx; m.up -> host; m.asked -> controller c; }";

#[test]
fn verdicts_and_what_is_handed_over() {
    for (spill, apart) in [(false, false), (true, false), (false, true)] {
        let at_tc = AtTc::new(WAYS, Options { spill, apart, generation: 5, ..Options::default() });
        at_tc.memory.set_port(LOOPBACK, PORT, None, true);
        let packet = |kind: u8| [&[1; 12][..], &[0, kind], &(0..40).collect::<Vec<u8>>()].concat();
        let run = |kind| at_tc.loaded.run(&packet(kind)).unwrap();
        assert_eq!((run(1).verdict, run(1).packet), (NEXT, packet(1)));
        assert_eq!((run(2).verdict, at_tc.dropped(DropId::MALFORMED)), (SHOT, 1));
        // Without a ring there is no worker.
        assert_eq!((run(3).verdict, run(4).verdict, at_tc.dropped(DropId::NO_WORKER)), (SHOT, SHOT, 2));
        let ring = TapRing::new("test").unwrap();
        at_tc.loaded.ports().set_rings([&ring]).unwrap();
        let handed = |kind| {
            assert_eq!(run(kind).verdict, SHOT);
            let mut found = Vec::new();
            ring.take(|record| {
                let (punt, metadata, packet) = Punt::read(&at_tc.split.kernel, Tap::read(record).unwrap()).unwrap();
                assert_eq!((punt.generation, &record[4..8]), (5, &[0; 4][..]), "no super-packet");
                let channel = at_tc.split.kernel.channels[usize::from(punt.channel)].name.clone();
                found.push((channel, punt.head, metadata.to_vec(), packet.to_vec()));
                true
            });
            found
        };
        let mut asked = packet(3)[14..].to_vec();
        asked[1] = 9;
        let note = at_tc.split.kernel.metadata.iter().find(|field| field.name == "note").unwrap().offset as usize;
        let [(channel, 14, metadata, found)] = &handed(3)[..] else { panic!("one, behind its header") };
        assert_eq!((&channel[..], &metadata[note..note + 4], found), ("m.asked", &[4, 3, 2, 1][..], &asked));
        let mut sent = packet(4);
        sent[6..12].copy_from_slice(&[0, 0, 0, 0, 0, 5]);
        let [(channel, 0, metadata, found)] = &handed(4)[..] else { panic!("one, as it is") };
        assert_eq!((&channel[..], &metadata[..2], found), ("m.output", &[PORT, 7][..], &sent));
        // With an interface it leaves by that, until it has none any more.
        at_tc.loaded.ports().set_device(7, Some(LOOPBACK)).unwrap();
        assert_eq!((run(4).verdict, run(4).packet), (REDIRECT, sent));
        at_tc.loaded.ports().set_device(7, None).unwrap();
        assert_eq!((handed(4).len(), at_tc.dropped(DropId::NO_WORKER)), (1, 2));
    }
}

/// A client asks for 10.7.0.9:8080, and gets 10.7.0.2:9090.
const TRANSLATE: &str = "import \"net/ipv4\"; import \"net/tcp\";
    drop_reason other;
    module m { in ether input; out ether output; counter packets; counter longer;
        ppf p(ether_packet_t *pkt) from input {
            packet_require(pkt->type == ETH_TYPE_IPV4, other);
            ipv4_packet_t *ip = packet_peek(pkt);
            packet_require(ip->protocol == IP_PROTO_TCP, other);
            tcp_packet_t *tcp = packet_peek(ip);
            counter_add(packets, 1);
            if (ip->total_length > 1500) counter_add(longer, 1);
            ip->ttl = ip->ttl - 1;
            if (pkt->metadata.rx.port == 1) {
                ip->dst = 0x0a070002;
                tcp->dst_port = 9090;
                pkt->metadata.tx.port = 2;
            } else {
                ip->src = 0x0a070009;
                tcp->src_port = 8080;
                pkt->metadata.tx.port = 1;
            }
            channel_put(output, pkt);
        } }
    program { rx -> m.input; m.output -> tx; }";

/// Segments whose checksum is right: by all of their bytes, and those without data by their headers alone.
const CHECKED: &str = "import \"net/ipv4\"; import \"net/tcp\";
    drop_reason wrong, wrong_bare;
    module m { in ether input; out ether output;
        ppf p(ether_packet_t *pkt) from input {
            ipv4_packet_t *ip = packet_peek(pkt);
            tcp_packet_t *tcp = packet_peek(ip, 20);
            u32 length = ip->total_length - 20;
            u32 sum = ipv4_pseudo_sum(ip->src, ip->dst, IP_PROTO_TCP, length);
            if (!checksum_ok(tcp, sum)) { packet_drop(pkt, wrong); return; }
            if (length == (u32) tcp->data_offset << 2 && !tcp_bare_checksum_ok(tcp, sum)) {
                packet_drop(pkt, wrong_bare);
                return;
            }
            if (!checksum_ok(tcp, sum, length)) { packet_drop(pkt, malformed); return; }
            channel_put(output, pkt);
        } }
    program { rx -> m.input; m.output -> host; }";

/// In the kernel's test run checksums that devices are to compute look as on arrival, though the kernel knows of none.
#[test]
fn checksums_are_right_that_devices_are_to_compute() {
    for (spill, apart) in [(false, false), (true, true)] {
        let at_tc = AtTc::new(CHECKED, Options { spill, apart, ..Options::default() });
        let dropped = |name: &str| {
            let id = at_tc.split.workers.drop_reasons.iter().position(|reason| reason.name == name).unwrap();
            at_tc.dropped(DropId(id as u32))
        };
        let mut wrong = 0;
        for payload in [0, 1, 7, 500, 512, 513, 1460] {
            for options in [0, 12] {
                let mut packet = Super::new(false, true, payload);
                packet.tcp_options = options;
                let computed = packet.finished(|_| {});
                for whole in [&computed, &packet.bytes()] {
                    assert_eq!(at_tc.loaded.run(whole).unwrap().verdict, NEXT, "{payload} {options}");
                }
                for damaged in [computed.len() - 1, 14 + 20 + 5, 14 + 12] {
                    let mut computed = computed.clone();
                    computed[damaged] ^= 0x10;
                    wrong += 1;
                    let ran = at_tc.loaded.run(&computed).unwrap();
                    assert_eq!((ran.verdict, dropped("wrong")), (SHOT, wrong), "{payload} {options}: damaged");
                }
            }
        }
        assert_eq!((dropped("wrong_bare"), at_tc.dropped(DropId::MALFORMED)), (0, 0));
    }
}

/// The same stream both ways, while two programs take each other's place every few milliseconds; how many packets
/// there were, and how many of them were super-packets.
fn transfer(off: &[&str], form: Options) -> (u64, u64) {
    let off: Vec<String> = off.iter().map(|name| (*name).to_owned()).collect();
    let test = move || {
        let hosts = Hosts::new(&off);
        let programs = [0, 1].map(|generation| AtTc::new(TRANSLATE, Options { generation, ..form }));
        let ask = crate::sys::inet_socket().unwrap();
        let ports =
            [("a", 1), ("b", 2)].map(|(name, port)| (crate::sys::interface(&ask, name).unwrap().index as u32, port));
        for program in &programs {
            for (interface, port) in ports {
                program.memory.set_port(interface, port, None, true);
                program.loaded.ports().set_device(port, Some(interface)).unwrap();
            }
        }
        let links = ports.map(|(interface, _)| {
            sys::link_create_first(programs[0].loaded.program(), interface as i32).expect("Linux 6.6 or later")
        });

        let exchange = hosts.exchange("10.7.0.9:8080");
        let ended = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let next = programs.iter().cycle().skip(1).take_while(|_| !ended.load(Ordering::Relaxed));
                for program in next {
                    links.iter().for_each(|link| sys::link_update(link, program.loaded.program()).unwrap());
                    std::thread::sleep(Duration::from_millis(3));
                }
            });
            let result = both_have_all(exchange);
            ended.store(true, Ordering::Relaxed);
            result.unwrap();
        });
        let counts = programs.each_ref().map(|program| ["m.packets", "m.longer"].map(|name| program.counter(name)));
        assert!(counts.iter().all(|[packets, _]| *packets > 0), "both ran: {counts:?}");
        (counts[0][0] + counts[1][0], counts[0][1] + counts[1][1])
    };
    std::thread::spawn(test).join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
}

#[test]
fn hosts_with_offloads_exchange_super_packets() {
    for (spill, apart) in [(false, false), (true, true)] {
        let (packets, longer) = transfer(&[], Options { spill, apart, ..Options::default() });
        // Most of it went in packets of many segments, whose checksums nobody has computed.
        assert!(longer > 100 && packets < (2 * BYTES / 2500) as u64, "{packets} packets, {longer} of them longer");
    }
}

/// The kernel divides super-packets behind the program, and computes the checksums of what it makes of them: hosts take
/// these only where the program has left the right sums.
#[test]
fn checksums_are_computed_behind_the_program() {
    let (_, longer) = transfer(&["a", "b"], Options::default());
    assert!(longer > 100, "{longer}");
}

/// And where hosts compute them, those are changed.
#[test]
fn hosts_without_offloads() {
    let (packets, longer) = transfer(&["left", "right"], Options::default());
    assert!(longer == 0 && packets > (2 * BYTES / 1500) as u64, "{packets} packets, {longer} of them longer");
}
