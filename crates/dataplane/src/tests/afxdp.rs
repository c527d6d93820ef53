//! What holds for AF_XDP ports alone, on live veth pairs.

use std::time::{Duration, Instant};

use baker::opt::Level;
use codegen::OptLevel;

use super::live::{self, AFXDP, Host, eventually, in_namespace, ip, pair, start, start_with, try_start};
use crate::testing::{forward_program, frame};
use crate::xdp::{Attached, Netlink, Redirect};
use crate::{EngineKind, FrameConfig, Instance, Options, PollMode, PortConfig, Prepared, sys};

fn options() -> Options {
    Options { engine: EngineKind::Native(OptLevel::O0, Level::Base), ..Options::default() }
}

fn prepare(ports: &[&str], options: &Options) -> Prepared {
    let port = |(number, name): (u8, &&str)| PortConfig::new(name, number, AFXDP(name));
    let ports: Vec<_> = (0..).zip(ports).map(port).collect();
    Instance::prepare(forward_program(), options, &ports).unwrap_or_else(|error| panic!("{error}"))
}

fn error(options: Options) -> String {
    try_start(AFXDP, options).expect_err("refused").to_string()
}

fn index(interface: &str) -> i32 {
    sys::interface(&sys::inet_socket().unwrap(), interface).unwrap().index
}

fn whole(instance: Instance) -> crate::Snapshot {
    let report = instance.stop();
    assert_eq!((report.errors, report.free_frames), (Vec::new(), report.frames));
    report.snapshot
}

/// Waits until an interface has no XDP program: a process that another test has just forked may still have its
/// descriptor.
fn gone(interface: &str) {
    let start = Instant::now();
    while let Err(error) = Attached::check_free(index(interface), &Netlink::new().unwrap()) {
        assert!(start.elapsed() < Duration::from_secs(5), "{interface} {error}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn a_port_says_how_it_works() {
    in_namespace(2, || {
        let prepared = prepare(&["a", "b"], &Options { workers: 2, ..options() });
        let about = |name: &str| {
            format!(
                "port {name}: {name}: native XDP; copy mode, because its driver has no zero-copy; 2 queues for 2 workers"
            )
        };
        // What is likely wrong with the other ends has a test of its own.
        let notes = prepared.notes().iter().filter(|note| !note.contains("its other end"));
        assert_eq!(notes.collect::<Vec<_>>(), [&about("a"), &about("b")]);
    });
}

#[test]
fn as_many_packets_wait_as_there_are_frames_and_the_rest_is_counted() {
    in_namespace(1, || {
        let (left, right) = (Host::on("left"), Host::on("right"));
        // Half of the frames for two ports, three quarters of that to receive into.
        let waiting = FrameConfig::default().count / 4 / 4 * 3;
        let prepared = prepare(&["a", "b"], &options());
        for number in 0..waiting + 100 {
            left.send(&frame(0x88b6, number, 60));
            if number % 100 == 0 {
                // For the softirq that a busy machine puts off; veth itself has room for 256 packets.
                std::thread::sleep(Duration::from_millis(2));
            }
        }
        let instance = prepared.run().unwrap();
        (0..waiting).for_each(|number| right.expect(&frame(0x88b6, number, 60)));
        eventually(&instance, |s| s.port("a").unwrap().rx_dropped == 100);
        // And on it goes.
        for number in 0..5000 {
            left.send(&frame(0x88b6, number, 60));
            right.expect(&frame(0x88b6, number, 60));
        }
        let snapshot = whole(instance);
        assert_eq!(snapshot.port("b").unwrap().tx_packets, u64::from(waiting) + 5000);
    });
}

#[test]
fn other_numbers_of_queues_than_workers() {
    // One worker for two queues; two workers of which one receives nothing; two that send through one queue.
    for (workers, of_a, of_b) in [(1, 2, 2), (2, 1, 1), (2, 2, 1), (2, 1, 2)] {
        in_namespace(1, move || {
            ip("link del dev left");
            ip("link del dev right");
            pair("left", "a", of_a);
            pair("b", "right", of_b);
            live::gro(&["left", "right"]);
            for poll in [PollMode::Interrupt, PollMode::Busy] {
                let (left, right) = (Host::on("left"), Host::on("right"));
                let instance = start(AFXDP, workers, poll);
                // More than there are frames: those that were sent come back to the side that needs them.
                super::fanout::pass_in_order(&left, &right, false, 20);
                super::fanout::pass_in_order(&right, &left, true, 5);
                let snapshot = whole(instance);
                let sent = |port: &str| snapshot.port(port).unwrap().tx_packets;
                assert_eq!((sent("a"), sent("b"), snapshot.dropped("tx_failed")), (10_000, 40_000, 0));
            }
        });
    }
}

#[test]
fn a_driver_that_refuses_gets_generic_xdp() {
    in_namespace(1, || {
        ip("link del dev left");
        // More queues than the driver accepts for XDP at the other end.
        ip("link add dev left numtxqueues 2 type veth peer name a numrxqueues 1");
        for name in ["left", "a"] {
            std::fs::write(format!("/proc/sys/net/ipv6/conf/{name}/disable_ipv6"), "1").unwrap();
            ip(&format!("link set dev {name} up"));
        }
        let (left, right) = (Host::on("left"), Host::on("right"));
        let prepared = prepare(&["a", "b"], &options());
        let note = &prepared.notes()[0];
        assert!(
            note.starts_with("port a: a: generic XDP, which is slower, because its driver refuses native XDP ("),
            "{note}"
        );
        let instance = prepared.run().unwrap();
        for number in 0..500 {
            let packet = frame(0x88b6, number, 60 + number as usize);
            left.send(&packet);
            right.expect(&packet);
            right.send(&packet);
            left.expect(&packet);
        }
        whole(instance);
    });
}

#[test]
fn instances_side_by_side() {
    in_namespace(1, || {
        pair("left2", "a2", 1);
        pair("b2", "right2", 1);
        let hosts = ["left", "right", "left2", "right2"].map(Host::on);
        let first = prepare(&["a", "b"], &options()).run().unwrap();
        let second = prepare(&["a2", "b2"], &options()).run().unwrap();
        for number in 0..500 {
            for (from, to) in [(0, 1), (2, 3), (1, 0), (3, 2)] {
                let packet = frame(0x88b6, number * 4 + from as u32, 100);
                hosts[from].send(&packet);
                hosts[to].expect(&packet);
            }
        }
        let text = error(options());
        assert!(text.starts_with("port a: a: is a port of the instance millrace already (process "), "{text}");
        whole(first);
        // Its interfaces are free, and the other one goes on.
        let third = prepare(&["a", "b"], &options()).run().unwrap();
        for (from, to) in [(0, 1), (2, 3)] {
            let packet = frame(0x88b6, 1, 100);
            hosts[from].send(&packet);
            hosts[to].expect(&packet);
        }
        whole(third);
        whole(second);
    });
}

#[test]
fn a_program_of_somebody_else_stays_unless_it_may_be_replaced() {
    in_namespace(1, || {
        let redirect = Redirect::new(1, None).unwrap();
        let netlink = Netlink::new().unwrap();
        let attached = Attached::new(redirect.program(), index("b"), &netlink).unwrap();
        let text = error(options());
        assert!(text.starts_with("port b: b: has an XDP program (id "), "{text}");
        assert!(text.ends_with("`ip link set dev b xdp off`, or tell Millrace to (`--replace-xdp`)"), "{text}");
        let free = |name| Attached::check_free(index(name), &netlink);
        assert!(free("b").is_err() && free("a").is_ok());
        // It is taken off where that is asked for.
        let instance = start_with(AFXDP, Options { replace_xdp: true, ..options() });
        drop(attached);
        let (left, right) = (Host::on("left"), Host::on("right"));
        left.send(&frame(0x88b6, 1, 60));
        right.expect(&frame(0x88b6, 1, 60));
        whole(instance);
        ["a", "b"].into_iter().for_each(gone);
    });
}

#[test]
fn errors_say_what_to_do() {
    in_namespace(1, || {
        let frames = |count, frame_size| {
            let frames = FrameConfig { count, frame_size, ..FrameConfig::default() };
            Options { frames, ..options() }
        };
        let text = error(frames(8192, 1024));
        assert_eq!(
            text,
            "port a: a: frames of 1024 bytes are too small for AF_XDP: set `size` of [frames] to 2048 or more"
        );
        let text = error(frames(128, 2048));
        assert_eq!(text, "port a: a: 128 frames are too few for 1 queues: raise `count` of [frames]");
        ip("link set dev a down");
        assert_eq!(error(options()), "port a: a: is down: run `ip link set dev a up`");
        ip("link set dev a up");
        ip("link del dev b");
        assert_eq!(error(options()), "port b: b: there is no such interface in this network namespace (see `ip link`)");
        pair("b", "right", 1);
        // From here on this thread, which ends with the test, has fewer rights, by bare system calls.
        live::drop_capability(live::CAP_IPC_LOCK);
        let text = error(frames(65536, 2048));
        assert!(text.starts_with("port a: a: this process may not lock the 131072 KiB of its frames: raise"), "{text}");
        live::drop_capability(live::CAP_BPF);
        live::drop_capability(live::CAP_SYS_ADMIN);
        let text = error(options());
        assert!(
            text.starts_with("port a: a: no permission for AF_XDP: run as root, or with CAP_NET_ADMIN, "),
            "{text}"
        );
        gone("a");
    });
}
