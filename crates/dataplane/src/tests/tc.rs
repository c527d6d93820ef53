//! Ports at traffic control's ingress: what is theirs alone.

use std::os::fd::{FromRawFd, OwnedFd};
use std::sync::Arc;
use std::time::Duration;

use codegen::kernel::Hook;

use super::hosts::{BYTES, Hosts, both_have_all};
use super::live::{Host, TC, eventually, gro, in_namespace, ip, run};
use super::segments::Unfinisher;
use super::super_packet::Super;
use super::xdp::prepare_at;
use crate::ports::Driver;
use crate::sys;
use crate::testing::{compiled, frame};
use crate::xdp::{Attached, FastPath};
use crate::{Instance, Options, PortConfig};

/// From one port to the other; ARP goes to the host, and one kind is a worker's.
const FORWARD: &str = "import \"net/ether\";
module m {
    in ether input; out ether output; out ether for_host; channel ether own;
    ppf forward(ether_packet_t *pkt) from input {
        pkt->metadata.tx.port = 3 - pkt->metadata.rx.port;
        if (pkt->type == 0x0806) channel_put(for_host, pkt);
        else if (pkt->type == 0x88b7) channel_put(own, pkt);
        else channel_put(output, pkt);
    }
    @worker ppf second(ether_packet_t *pkt) from own { channel_put(output, pkt); }
}
program { rx -> m.input; m.output -> tx; m.for_host -> host; }";

/// A host's question for the address of a, and where in the answer that is.
pub fn question() -> Vec<u8> {
    let mut packet = frame(0x0806, 0, 60);
    packet[..6].fill(0xff);
    let body = [&[0, 1, 8, 0, 6, 4, 0, 1][..], &packet[6..12], &[10, 9, 0, 2], &[0; 6], &[10, 9, 0, 1]].concat();
    packet[14..14 + body.len()].copy_from_slice(&body);
    packet
}

pub fn whole(instance: Instance) -> crate::Snapshot {
    let report = instance.stop();
    assert_eq!((report.errors, report.free_frames), (Vec::new(), report.frames));
    report.snapshot
}

#[test]
fn the_kernel_has_what_is_for_the_host_and_interfaces_count() {
    in_namespace(1, || {
        gro(&["left", "a", "b", "right"]);
        ip("addr add 10.9.0.1/24 dev a");
        let (left, right) = (Host::on("left"), Host::on("right"));
        let prepared = prepare_at(TC, &compiled(FORWARD), 1);
        let notes = prepared.notes().join("\n");
        assert!(notes.contains("a: traffic control; what is handed over comes by the workers' rings"), "{notes}");
        let instance = prepared.run().unwrap();
        left.send(&question());
        let (answer, _) = left.receive().expect("the kernel's answer");
        assert_eq!((&answer[12..14], &answer[20..22], &answer[28..32]), (&[8, 6][..], &[0, 2][..], &[10, 9, 0, 1][..]));
        for number in 0..1000 {
            let packet = frame(if number % 2 == 0 { 0x88b6 } else { 0x88b7 }, number, 60 + number as usize);
            left.send(&packet);
            right.expect(&packet);
        }
        let snapshot = whole(instance);
        let port = |name| snapshot.port(name).unwrap();
        assert_eq!((snapshot.channel("rx"), snapshot.channel("m.for_host"), snapshot.channel("m.own")), (1001, 1, 500));
        assert_eq!((port("a").rx_packets, port("a").tx_packets, port("b").tx_packets), (1001, 1, 1000));
        assert_eq!((snapshot.dropped("no_worker"), snapshot.dropped("tx_failed")), (0, 0));
    });
}

/// A program of another owner at an interface's ingress, which drops all that comes to it.
fn dropping(interface: &str) -> OwnedFd {
    // `r0 = TC_ACT_SHOT`, `exit`
    let code: [u8; 16] = [0xb7, 0, 0, 0, 2, 0, 0, 0, 0x95, 0, 0, 0, 0, 0, 0, 0];
    let license = c"GPL";
    let load = [(3u64 | 2 << 32), code.as_ptr() as u64, license.as_ptr() as u64, 0, 0, 0, 0, 0];
    let bpf = |command: i32, attributes: &[u64]| {
        // SAFETY: the pointers in it lead to what lives through the call.
        let result = unsafe { libc::syscall(libc::SYS_bpf, command, attributes.as_ptr(), size_of_val(attributes)) };
        sys::check(result as i32).unwrap()
    };
    let program = bpf(5, &load);
    let index = sys::interface(&sys::inet_socket().unwrap(), interface).unwrap().index;
    let link = bpf(28, &[program as u64 | (index as u64) << 32, 46, 0, 0]);
    // SAFETY: both were just made.
    unsafe {
        drop(OwnedFd::from_raw_fd(program));
        OwnedFd::from_raw_fd(link)
    }
}

#[test]
fn a_program_of_somebody_else_gets_what_is_left_to_the_kernel() {
    in_namespace(1, || {
        gro(&["left", "a", "b", "right"]);
        ip("addr add 10.9.0.1/24 dev a");
        let other = dropping("a");
        let (left, right) = (Host::on("left"), Host::on("right"));
        let prepared = prepare_at(TC, &compiled(FORWARD), 1);
        let notes = prepared.notes().join("\n");
        assert!(notes.contains("a: traffic control, in front of 1 program of other owners;"), "{notes}");
        let instance = prepared.run().unwrap();
        let packet = frame(0x88b6, 1, 60);
        left.send(&question());
        left.send(&packet);
        right.expect(&packet);
        right.send(&packet);
        // Nothing came in between: the question was dropped.
        left.expect(&packet);
        drop(other);
        left.send(&question());
        left.receive().expect("the kernel's answer");
        assert_eq!(whole(instance).channel("m.for_host"), 2);
    });
}

#[test]
fn an_interface_of_another_instance_is_refused() {
    in_namespace(1, || {
        let instance = prepare_at(TC, &compiled(FORWARD), 1).run().unwrap();
        let port = PortConfig::new("c", 1, Driver::AfPacket { interface: "a".into() });
        let error = Instance::start(compiled(FORWARD), &Options::default(), &[port]).map(drop).unwrap_err().to_string();
        assert!(error.contains("a: is a port of the instance millrace already"), "{error}");
        whole(instance);
    });
}

#[test]
fn errors_say_what_to_do() {
    in_namespace(1, || {
        let error = |driver: Driver, options: &Options| {
            let result = Instance::start(compiled(FORWARD), options, &[PortConfig::new("p", 1, driver)]);
            result.map(drop).unwrap_err().to_string()
        };
        let found = error(TC("a"), &Options::default());
        assert!(
            found.contains("a: tc takes a program that runs in the kernel, at traffic control, and this one does not")
        );
        let compiled_for = |hook| {
            let options = codegen::kernel::Options { hook, ..Default::default() };
            let (_, path) = FastPath::new(&compiled(FORWARD), baker::opt::Level::Cgpc, options).unwrap().unwrap();
            Options { fast_path: Some(Arc::new(path)), ..Options::default() }
        };
        let at_xdp = compiled_for(Hook::Xdp);
        assert!(error(TC("a"), &at_xdp).contains("a: tc takes a program that runs in the kernel, at traffic control"));
        let at_tc = compiled_for(Hook::Tc);
        assert!(error(Driver::Xdp { interface: "a".into() }, &at_tc).contains("a: xdp takes a program that runs in"));
        assert!(error(TC("nothing"), &at_tc).contains("nothing: there is no such interface"));
        assert!(error(TC("lo"), &at_tc).contains("lo: is down: run `ip link set dev lo up`"));
        ip("link set lo up");
        assert!(error(TC("lo"), &at_tc).contains("lo: its packets have no Ethernet header"));
    });
}

/// What is longer than a port sends goes to a worker, which counts it; not into a queue whose device would drop it.
#[test]
fn packets_that_a_port_does_not_send_are_counted() {
    in_namespace(1, || {
        gro(&["left", "a", "b", "right"]);
        let (left, right) = (Host::on("left"), Host::on("right"));
        let instance = prepare_at(TC, &compiled(FORWARD), 1).run().unwrap();
        ip("link set dev b mtu 700");
        let (short, long) = (frame(0x88b6, 1, 714), frame(0x88b6, 2, 715));
        left.send(&long);
        left.send(&short);
        right.expect(&short);
        let counts = |s: &crate::Snapshot| (s.dropped("tx_failed"), s.port("b").unwrap().tx_failed);
        eventually(&instance, |s| counts(s) == (1, 1));
        // A tag of a VLAN does not count.
        let mut tagged = frame(0x8100, 3, 718);
        tagged[14..18].copy_from_slice(&[0, 7, 0x88, 0xb6]);
        left.send(&tagged);
        assert_eq!(right.receive().expect("the packet").1, Some(7));
        assert_eq!(counts(&whole(instance)), (1, 1));
    });
}

/// What an interface drops, here because its other end takes no packets as long, it counts; packets behind it pass.
/// First the kernel sends them, then a worker.
#[test]
fn what_an_interface_drops_is_counted_once_and_others_pass() {
    in_namespace(1, || {
        gro(&["left", "a", "b", "right"]);
        let (left, right) = (Host::on("left"), Host::on("right"));
        let instance = prepare_at(TC, &compiled(FORWARD), 1).run().unwrap();
        run("tc", "qdisc replace dev b root noqueue");
        ip("link set dev right mtu 600");
        for (round, kind) in [(1, 0x88b6), (2, 0x88b7)] {
            let short: Vec<_> = (0..200).map(|number| frame(kind, number, 600)).collect();
            for (number, packet) in short.iter().enumerate() {
                left.send(&frame(kind, number as u32, 1000));
                left.send(packet);
            }
            short.iter().for_each(|packet| right.expect(packet));
            let counts = |s: &crate::Snapshot| (s.dropped("tx_failed"), s.port("b").unwrap().tx_failed);
            eventually(&instance, |s| counts(s) == (200 * round, 200 * round));
        }
        whole(instance);
    });
}

/// As `tc` says it.
fn dropped_by_queue(interface: &str) -> u64 {
    let output = std::process::Command::new("tc").args(["-s", "qdisc", "show", "dev", interface]).output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    let (_, rest) = text.split_once("dropped ").expect("its statistics");
    rest[..rest.find(',').unwrap()].parse().unwrap()
}

#[test]
fn what_a_queueing_discipline_drops_is_counted() {
    in_namespace(1, || {
        gro(&["left", "a", "b", "right"]);
        let left = Host::on("left");
        let instance = prepare_at(TC, &compiled(FORWARD), 1).run().unwrap();
        let mut before = 0;
        for kind in [0x88b6, 0x88b7] {
            // A further one begins at 0.
            run("tc", "qdisc replace dev b root pfifo");
            run("tc", "qdisc replace dev b root tbf rate 8kbit burst 1600 limit 3000");
            (0..50).for_each(|number| left.send(&frame(kind, number, 1000)));
            let counts = |s: &crate::Snapshot| (s.dropped("tx_failed"), s.port("b").unwrap().tx_failed);
            let snapshot = eventually(&instance, |s| counts(s).0 >= before + 40);
            std::thread::sleep(Duration::from_millis(50));
            let all = before + dropped_by_queue("b");
            assert_eq!(counts(&instance.snapshot()), (all, all), "{snapshot:#?}");
            before = all;
        }
        whole(instance);
    });
}

#[test]
fn the_longest_super_packets_are_handed_over() {
    in_namespace(1, || {
        // Workers send super-packets, too, which are divided here and not put together again.
        run("ethtool", "-K b tx off tso off");
        run("ethtool", "-K right gro off");
        let (sender, right) = (Unfinisher::on("left"), Host::on("right"));
        let program = compiled(&BY_WORKERS.replace("HANDED_OVER", "pkt->type == 0x0800"));
        let instance = prepare_at(TC, &program, 1).run().unwrap();
        for bytes in [65_535 - 100, 65_535] {
            let packet = Super::new(false, true, bytes - 20 - 32);
            assert_eq!(packet.bytes().len(), bytes + 14);
            sender.send(&packet, 1000);
            let mut payload = Vec::<u8>::new();
            while payload.len() < packet.payload.len() {
                let (segment, _) = right.receive().expect("a segment arrives");
                assert!(packet.is_right(&segment));
                payload.extend(&segment[packet.headers()..]);
            }
            assert!(payload == packet.payload);
        }
        assert_eq!(whole(instance).dropped("no_worker"), 0);
    });
}

#[test]
fn an_interface_with_as_many_programs_as_there_may_be_says_so() {
    in_namespace(1, || {
        let mut others: Vec<OwnedFd> = (0..63).map(|_| dropping("a")).collect();
        let start = || {
            let options = codegen::kernel::Options { hook: Hook::Tc, ..Default::default() };
            let (program, path) = FastPath::new(&compiled(FORWARD), baker::opt::Level::Cgpc, options).unwrap().unwrap();
            let options = Options { fast_path: Some(Arc::new(path)), ..Options::default() };
            Instance::start(program, &options, &[PortConfig::new("p", 1, TC("a"))])
        };
        let error = start().map(drop).unwrap_err().to_string();
        let expected =
            "a: takes no program at traffic control's ingress, which has as many of other owners as there may be";
        assert!(error.contains(expected), "{error}");
        others.pop();
        whole(start().unwrap());
    });
}

#[test]
fn the_program_ends_with_the_instance() {
    in_namespace(1, || {
        let instance = prepare_at(TC, &compiled(FORWARD), 1).run().unwrap();
        let index = sys::interface(&sys::inet_socket().unwrap(), "a").unwrap().index;
        assert_eq!(Attached::all_at_ingress(index).len(), 1);
        whole(instance);
        assert_eq!(Attached::all_at_ingress(index), []);
    });
}

/// All of it goes through a worker, or every second flow; or the first packets of a flow, or the host's.
const BY_WORKERS: &str = "import \"net/ether\";
module m {
    in ether input; out ether output; channel ether own; counter packets; counter longer; counter all; counter wrong;
    ppf first(ether_packet_t *pkt) from input {
        pkt->metadata.tx.port = 3 - pkt->metadata.rx.port;
        counter_add(packets, 1);
        if (packet_length(pkt) > 1514) counter_add(longer, 1);
        if (HANDED_OVER) channel_put(own, pkt);
        else channel_put(output, pkt);
    }
    @worker ppf second(ether_packet_t *pkt) from own {
        counter_add(all, 1);
        if (packet_length(pkt) > 1514) counter_add(wrong, 1);
        channel_put(output, pkt);
    }
}
program { rx -> m.input; m.output -> tx; }";

/// A stream both ways between hosts with all offloads on, of which workers get a part: super-packets, and packets
/// without checksums.
fn exchanged(handed_over: &str, off: &[&str], workers: usize, reloads: u32) -> crate::Snapshot {
    let (text, off) = (BY_WORKERS.replace("HANDED_OVER", handed_over), off.iter().map(|n| n.to_string()).collect());
    let test = move || {
        let off: Vec<String> = off;
        let hosts = Hosts::new(&off);
        let (program, mut reloaded) = (compiled(&text), 0);
        let mut instance = prepare_at(TC, &program, workers).run().unwrap();
        let exchange = hosts.exchange("10.7.0.2:9090");
        while reloaded < reloads {
            let next = instance.next(&program, Vec::new()).unwrap();
            assert_eq!(instance.take_over(next), [""; 0]);
            reloaded += 1;
        }
        both_have_all(exchange).unwrap();
        whole(instance)
    };
    std::thread::spawn(test).join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
}

fn user(snapshot: &crate::Snapshot, name: &str) -> u64 {
    snapshot.user.iter().find(|(known, _)| known == name).unwrap().1[0]
}

#[test]
fn workers_divide_super_packets_and_compute_checksums() {
    for (off, workers) in [(&[][..], 1), (&["left", "right"][..], 1), (&["left"][..], 2)] {
        let snapshot = exchanged("pkt->type == 0x0800", off, workers, 0);
        let [packets, longer, all, wrong] =
            ["packets", "longer", "all", "wrong"].map(|n| user(&snapshot, &format!("m.{n}")));
        let reasons = ["malformed", "no_worker", "tap_full", "tx_failed"].map(|reason| snapshot.dropped(reason));
        assert_eq!((wrong, reasons[0], reasons[2]), (0, 0, 0), "{snapshot:#?}");
        assert!(all as usize > 2 * BYTES / 1500, "segments: {all}");
        let joined = ["a", "b"].map(|name| snapshot.port(name).unwrap().tx_in_super).iter().sum::<u64>();
        assert!(joined > all / 2, "{joined} of {all} left in super-packets");
        // With offloads the kernel has fewer than workers.
        assert_eq!(
            longer > 100 && packets < all,
            off.len() < 2,
            "{packets} packets, {longer} longer, {all} at workers"
        );
    }
}

/// Of one flow packets stay in the kernel and go through workers by turns. TCP copes with their order.
#[test]
fn packets_that_workers_send_are_as_those_that_the_kernel_does() {
    let snapshot = exchanged("packet_length(pkt) % 7 == 0", &[], 1, 0);
    assert!(user(&snapshot, "m.all") > 100 && user(&snapshot, "m.longer") > 100);
    assert_eq!(snapshot.dropped("malformed"), 0);
}

#[test]
fn programs_take_over_from_each_other_under_super_packets() {
    let snapshot = exchanged("pkt->type == 0x0800", &[], 1, 20);
    assert_eq!((snapshot.dropped("malformed"), user(&snapshot, "m.wrong")), (0, 0));
}
