//! Programs that run in the kernel at live veth pairs, at the driver and at traffic control, and on workers where the
//! kernel does not finish.

use std::sync::Arc;
use std::time::{Duration, Instant};

use baker::ir::{Program, TableEntry, TableId, TableStore};
use baker::opt::Level;
use codegen::OptLevel;
use codegen::kernel::{self, Hook};

use super::fanout::pass_in_order;
use super::live::{self, Host, Make, TC, XDP, eventually, gro, in_namespace, ip, pair};
use crate::testing::{TO_HOST, compiled, frame};
use crate::xdp::{FastPath, Netlink};
use crate::{EngineKind, FrameConfig, Instance, Options, PortConfig, Prepared};

/// From one port to the other; one kind goes to the host.
const FORWARD: &str = "import \"net/ether\";
module m {
    in ether input; out ether output; out ether for_host;
    ppf forward(ether_packet_t *pkt) from input {
        pkt->metadata.tx.port = 3 - pkt->metadata.rx.port;
        if (pkt->type == 0x0806) channel_put(for_host, pkt);
        else channel_put(output, pkt);
    }
}
program { rx -> m.input; m.output -> tx; m.for_host -> host; }";

/// Between a (number 1) and b (2), in the kernel as far as can be.
pub(super) fn prepare(program: &Arc<Program>, workers: usize) -> Prepared {
    prepare_at(XDP, program, workers)
}

/// As [`prepare`], with a driver that has a part of the program in the kernel.
pub(super) fn prepare_at(driver: Make, program: &Arc<Program>, workers: usize) -> Prepared {
    let ports = [("a", 1), ("b", 2)].map(|(name, number)| PortConfig::new(name, number, driver(name)));
    let hook = driver("a").hook().expect("a driver with a part in the kernel");
    let compiled = kernel::Options { hook, ..crate::ports::kernel_options(ports.iter().map(|port| &port.spec.driver)) };
    let fitted = FastPath::new(program, Level::Cgpc, compiled).unwrap_or_else(|error| panic!("{error}"));
    let (program, path) = fitted.expect("some of it runs in the kernel");
    let engine = EngineKind::Native(OptLevel::O0, Level::Base);
    // As many bytes in all, in frames that hold the ports' packets.
    let (count, frame_size) = if compiled.frags { (4096, 16384) } else { (32768, FrameConfig::default().frame_size) };
    let frames = FrameConfig { count: count * workers as u32, frame_size, ..FrameConfig::default() };
    let options = Options { engine, fast_path: Some(Arc::new(path)), workers, frames, ..Options::default() };
    Instance::prepare(program, &options, &ports).unwrap_or_else(|error| panic!("{error}"))
}

fn start(driver: Make, program: &Arc<Program>) -> Instance {
    prepare_at(driver, program, 1).run().unwrap()
}

/// Lets a test's interfaces take packets from programs, and in order.
fn ready(driver: Make) {
    match driver("a").hook() {
        Some(Hook::Tc) => gro(&["left", "a", "b", "right"]),
        _ => gro(&["left", "right"]),
    }
}

fn whole(instance: Instance) -> crate::Snapshot {
    let report = instance.stop();
    assert_eq!((report.errors, report.free_frames), (Vec::new(), report.frames));
    report.snapshot
}

#[test]
fn forwards_in_the_kernel_or_through_workers() {
    for in_kernel in [true, false] {
        in_namespace(1, move || {
            if in_kernel {
                gro(&["left", "right"]);
            }
            let (left, right) = (Host::on("left"), Host::on("right"));
            let prepared = prepare(&compiled(FORWARD), 1);
            let notes = prepared.notes().join("\n");
            assert!(notes.contains("a: native XDP; what is handed over comes in copy mode"), "{notes}");
            let tells = Netlink::new().unwrap().tells_redirects();
            assert_eq!(!notes.contains("workers send its packets"), in_kernel && tells, "{notes}");
            // Not yet.
            left.send(&frame(0x88b6, 9999, 60));
            let instance = prepared.run().unwrap();
            for number in 0..2000 {
                let packet = frame(0x88b6, number, 60 + number as usize % 1400);
                left.send(&packet);
                right.expect(&packet);
                right.send(&packet);
                left.expect(&packet);
            }
            left.send(&frame(TO_HOST, 1, 60));
            let snapshot = eventually(&instance, |s| s.port("a").unwrap().rx_packets == 2002);
            assert_eq!(snapshot.channel("rx"), 4001);
            let snapshot = whole(instance);
            let port = |name| snapshot.port(name).unwrap();
            assert_eq!((port("a").tx_packets, port("b").tx_packets, port("b").rx_packets), (2000, 2000, 2000));
            assert_eq!((port("a").rx_dropped, snapshot.dropped("no_worker")), (0, 0));
        });
    }
}

#[test]
fn back_out_of_the_port_that_it_came_in_by() {
    let echo = compiled(&FORWARD.replace("3 - pkt", "pkt"));
    for in_kernel in [true, false] {
        let echo = echo.clone();
        in_namespace(1, move || {
            if in_kernel {
                gro(&["left"]);
            }
            let left = Host::on("left");
            let instance = start(XDP, &echo);
            for number in 0..100 {
                let packet = frame(0x88b6, number, 60);
                left.send(&packet);
                left.expect(&packet);
            }
            assert_eq!(whole(instance).port("a").unwrap().tx_packets, 100);
        });
    }
}

/// Long packets: forwarded in the kernel, or handed over, with their end looked at and changed.
const LONG: &str = "import \"net/ether\";
module m {
    in ether input; out ether output; channel ether own;
    counter seen; counter bad;
    ppf first(ether_packet_t *pkt) from input {
        pkt->metadata.tx.port = 3 - pkt->metadata.rx.port;
        u32 end = packet_length(pkt) - 4;
        u32 *last = packet_load(pkt, end);
        if (last == null || *last != 0x01020304) counter_add(bad, 1);
        if (!packet_store(pkt, end, (u32) 0x05060708)) counter_add(bad, 1);
        if (packet_length(pkt) > 7000 && !packet_trim_tail(pkt, 100)) counter_add(bad, 1);
        if (pkt->type == 0x88b7) channel_put(own, pkt);
        else channel_put(output, pkt);
    }
    @worker ppf second(ether_packet_t *pkt) from own { counter_add(seen, 1); channel_put(output, pkt); }
}
program { rx -> m.input; m.output -> tx; }";

#[test]
fn packets_above_a_page_are_forwarded_natively_and_handed_over() {
    for in_kernel in [true, false] {
        in_namespace(1, move || {
            for device in ["left", "a", "b", "right"] {
                ip(&format!("link set dev {device} mtu 9000"));
            }
            if in_kernel {
                gro(&["left", "right"]);
            }
            let (left, right) = (Host::on("left"), Host::on("right"));
            let prepared = prepare(&compiled(LONG), 1);
            let notes = prepared.notes().join("\n");
            assert!(notes.contains("a: native XDP;") && notes.contains("b: native XDP;"), "{notes}");
            let tells = Netlink::new().unwrap().tells_redirects();
            assert_eq!(!notes.contains("workers send its packets"), in_kernel && tells, "{notes}");
            let instance = prepared.run().unwrap();
            let lens = [60, 1514, 3400, 3500, 3600, 4096, 5000, 7000, 7001, 7100, 8192, 9014];
            for (number, len) in lens.iter().cycle().take(600).enumerate() {
                let kind = if number % 5 == 0 { 0x88b7 } else { 0x88b6 };
                let mut packet = frame(kind, number as u32, *len);
                packet[len - 4..].copy_from_slice(&[1, 2, 3, 4]);
                left.send(&packet);
                packet[len - 4..].copy_from_slice(&[5, 6, 7, 8]);
                packet.truncate(if *len > 7000 { len - 100 } else { *len });
                right.expect(&packet);
            }
            let snapshot = whole(instance);
            let user = |name| snapshot.user.iter().find(|(known, _)| known == name).map(|(_, cells)| cells[0]).unwrap();
            assert_eq!((user("m.bad"), user("m.seen")), (0, 120));
            let port = |name| snapshot.port(name).unwrap();
            assert_eq!((port("a").rx_packets, port("b").tx_packets, port("a").rx_dropped), (600, 600, 0));
        });
    }
}

/// Packets of one kind are marked in the kernel and go on at workers, which copy them; others stay in the kernel.
const HANDED_OVER: &str = "import \"net/ether\";
metadata { mark : u64; }
module m {
    in ether input; out ether output; channel ether own;
    counter seen;
    ppf first(ether_packet_t *pkt) from input {
        pkt->metadata.tx.port = 3 - pkt->metadata.rx.port;
        if (pkt->type == 0x88b7) { pkt->metadata.mark = 0x0123456789abcdef; channel_put(own, pkt); }
        else channel_put(output, pkt);
    }
    ppf second(ether_packet_t *pkt) from own {
        counter_add(seen, 1);
        if (pkt->metadata.mark != 0x0123456789abcdef) { packet_drop(pkt, malformed); return; }
        ether_packet_t *other = packet_copy(pkt);
        other->type = 0x88b8;
        channel_put(output, other);
        channel_put(output, pkt);
    }
}
program { rx -> m.input; m.output -> tx; }";

fn workers_go_on(driver: Make) {
    in_namespace(1, move || {
        ready(driver);
        let (left, right) = (Host::on("left"), Host::on("right"));
        let instance = start(driver, &compiled(HANDED_OVER));
        for number in 0..1000 {
            let (plain, copied) = (frame(0x88b6, number, 60), frame(0x88b7, number, 60 + number as usize));
            left.send(&plain);
            right.expect(&plain);
            left.send(&copied);
            right.expect(&frame(0x88b8, number, 60 + number as usize));
            right.expect(&copied);
        }
        let snapshot = whole(instance);
        let counts = ["rx", "m.own", "kernel -> m.second", "m.output"].map(|channel| snapshot.channel(channel));
        assert_eq!(counts, [2000, 1000, 1000, 3000]);
        assert_eq!(snapshot.ppfs[1], ("m.second".into(), 1000));
        assert_eq!(snapshot.user[0].1, [1000]);
        let port = |name| snapshot.port(name).unwrap();
        assert_eq!((port("a").rx_packets, port("b").tx_packets), (2000, 3000));
    });
}

#[test]
fn workers_go_on_where_the_kernel_hands_over() {
    workers_go_on(XDP);
}

#[test]
fn workers_go_on_where_traffic_control_hands_over() {
    workers_go_on(TC);
}

/// Every second flow goes through a worker.
const BY_FLOW: &str = "import \"net/ether\";
module m {
    in ether input; out ether output; channel ether own;
    ppf first(ether_packet_t *pkt) from input {
        pkt->metadata.tx.port = 3 - pkt->metadata.rx.port;
        if ((pkt->src & 1) == 1) channel_put(own, pkt);
        else channel_put(output, pkt);
    }
    @worker ppf second(ether_packet_t *pkt) from own { channel_put(output, pkt); }
}
program { rx -> m.input; m.output -> tx; }";

fn flows_stay_in_order(driver: Make) {
    for (queues, workers) in [(1, 1), (2, 2)] {
        in_namespace(queues, move || {
            ready(driver);
            let (left, right) = (Host::on("left"), Host::on("right"));
            let instance = prepare_at(driver, &compiled(BY_FLOW), workers).run().unwrap();
            pass_in_order(&left, &right, false, 10);
            pass_in_order(&right, &left, true, 10);
            // What the kernel has handed over when it is told to stop workers finish.
            let burst: Vec<_> = (0..200).map(|number| frame(0x88b6, 2 * number + 1, 60)).collect();
            burst.iter().for_each(|packet| left.send(packet));
            let before = whole(instance);
            let handed = before.channel("kernel -> m.second");
            let at_right = (0..handed - 20_000).filter(|_| right.receive().is_some()).count() as u64;
            assert_eq!(at_right, handed - 20_000);
        });
    }
}

#[test]
fn flows_stay_in_order_on_either_way_and_nothing_is_lost_at_the_end() {
    flows_stay_in_order(XDP);
}

#[test]
fn flows_stay_in_order_at_traffic_control() {
    flows_stay_in_order(TC);
}

fn interfaces_that_go_down(driver: Make) {
    in_namespace(1, move || {
        ready(driver);
        let (left, right) = (Host::on("left"), Host::on("right"));
        let instance = start(driver, &compiled(FORWARD));
        let packet = frame(0x88b6, 1, 60);
        left.send(&packet);
        right.expect(&packet);
        // What the kernel does not send, because it is too long or the interface is down, it counts.
        ip("link set dev b mtu 600");
        left.send(&frame(0x88b6, 1, 1000));
        eventually(&instance, |s| s.dropped("tx_failed") == 1);
        ip("link set dev b down");
        (0..100).for_each(|_| left.send(&packet));
        eventually(&instance, |s| s.dropped("tx_failed") == 101);
        let snapshot = eventually(&instance, |s| s.port("b").unwrap().error.is_some());
        assert_eq!(snapshot.port("b").unwrap().error.as_deref(), Some("b: went down: run `ip link set dev b up`"));
        // By now workers get it, and count it.
        (0..100).for_each(|_| left.send(&packet));
        eventually(&instance, |s| (s.dropped("tx_failed"), s.port("b").unwrap().tx_failed) == (201, 201));
        ip("link set dev b up");
        eventually(&instance, |s| s.port("b").unwrap().error.is_none());
        left.send(&packet);
        right.expect(&packet);
        drop(right);

        ip("link del dev b");
        let snapshot = eventually(&instance, |s| s.port("b").unwrap().error.is_some());
        assert_eq!(snapshot.port("b").unwrap().error.as_deref(), Some("b: was removed"));
        (0..100).for_each(|_| left.send(&packet));
        eventually(&instance, |s| s.dropped("tx_failed") == 301);
        pair("b", "right", 1);
        gro(&["right"]);
        let right = Host::on("right");
        let snapshot = eventually(&instance, |s| s.port("b").unwrap().error.is_none());
        let sent = snapshot.port("b").unwrap().tx_packets;
        for number in 0..100 {
            let packet = frame(0x88b6, number, 60);
            left.send(&packet);
            right.expect(&packet);
            right.send(&packet);
            left.expect(&packet);
        }
        let report = instance.stop();
        assert_eq!(report.free_frames, report.frames);
        let b = report.snapshot.port("b").unwrap().clone();
        assert_eq!((b.tx_packets, b.rx_packets), (sent + 100, 100), "of both interfaces");
    });
}

#[test]
fn interfaces_that_go_down_are_removed_and_come_back() {
    interfaces_that_go_down(XDP);
}

#[test]
fn interfaces_at_traffic_control_that_go_down_are_removed_and_come_back() {
    interfaces_that_go_down(TC);
}

#[test]
fn interfaces_that_are_made_again_with_their_index() {
    for driver in [XDP, TC] {
        in_namespace(1, move || {
            ready(driver);
            let left = Host::on("left");
            let instance = start(driver, &compiled(FORWARD));
            live::made_again_with_its_index("b", "right");
            gro(&["right"]);
            live::pass_again(&left, &Host::on("right"));
            whole(instance);
        });
    }
}

/// Both halves of an entry are the same number; the kernel and a worker look at them.
const CHURN: &str = "import \"net/ether\";
struct pair_t { a : u32; b : u32; }
module m {
    in ether input; out ether output; channel ether own;
    lpm<u32, pair_t> routes[100000];
    hash<u32, pair_t> flows[1000];
    counter torn; counter found;
    ppf first(ether_packet_t *pkt) from input {
        pkt->metadata.tx.port = 3 - pkt->metadata.rx.port;
        pair_t *route = routes[(u32) pkt->src];
        if (route != null) { counter_add(found, 1); if (route->a != route->b) counter_add(torn, 1); }
        pair_t *flow = flows[(u32) pkt->src & 255];
        if (flow != null && flow->a != flow->b) counter_add(torn, 1);
        channel_put(own, pkt);
    }
    @worker ppf second(ether_packet_t *pkt) from own {
        pair_t *route = routes[(u32) pkt->src];
        if (route != null && route->a != route->b) counter_add(torn, 1);
        channel_put(output, pkt);
    }
}
program { rx -> m.input; m.output -> tx; }";

#[test]
fn tables_change_while_the_kernel_looks() {
    in_namespace(1, || {
        gro(&["left", "right"]);
        let (left, right) = (Host::on("left"), Host::on("right"));
        let instance = start(XDP, &compiled(CHURN));
        let mut tables = instance.tables();
        let (routes, flows) = (TableId(0), TableId(1));
        let churn = std::thread::spawn(move || {
            let (start, mut changes) = (Instant::now(), 0u32);
            while start.elapsed() < Duration::from_secs(2) {
                let value = u128::from(changes);
                let net = u128::from(changes % 50) << 8;
                let entry = |key, prefix_len| TableEntry { key: vec![key], prefix_len, value: vec![value, value] };
                tables.insert(routes, &entry(net, Some(24 + changes % 9))).unwrap();
                tables.insert(flows, &entry(value % 256, None)).unwrap();
                if changes % 3 == 0 {
                    tables.remove(routes, &[net], Some(24 + changes % 9)).unwrap();
                    tables.remove(flows, &[value % 256], None).unwrap();
                }
                changes += 1;
            }
            changes
        });
        let mut sent = 0;
        while !churn.is_finished() {
            let packets: Vec<_> = (0..100).map(|n| frame(0x88b6, (sent + n) % 15_000, 60)).collect();
            packets.iter().for_each(|packet| left.send(packet));
            packets.iter().for_each(|packet| right.expect(packet));
            sent += 100;
        }
        let changes = churn.join().unwrap();
        let snapshot = whole(instance);
        let user = |name| snapshot.user.iter().find(|(known, _)| known == name).map(|(_, cells)| cells[0]).unwrap();
        assert_eq!(user("m.torn"), 0, "{changes} changes, {sent} packets");
        assert!(user("m.found") > 0 && changes > 1000 && sent > 1000, "{changes} changes, {sent} packets");
    });
}
