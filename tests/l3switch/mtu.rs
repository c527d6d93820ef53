//! Packets that are too big for their way out: real hosts find the path's MTU through the switch (RFC 1191), or get
//! fragments.

use std::io::{Read, Write};
use std::time::{Duration, Instant};

use lab::{Host, L3Options};

use crate::hosts::offloads_on;
use crate::random::Random;
use crate::switch::{Network, PATIENCE, Switch, over_both};
use crate::transfer::{BYTES, connect, listen};

over_both!(hosts_find_the_mtu_of_a_path_that_becomes_narrower);

/// IPv4 total lengths around the MTU of Ethernet. XDP alone would send up to 1504 bytes, which leaves room for a VLAN
/// tag.
const LENGTHS: std::ops::RangeInclusive<u32> = 1499..=1506;

mod at_traffic_control {
    use super::*;

    #[test]
    fn hosts_find_the_mtu_of_a_path_that_becomes_narrower() {
        super::hosts_find_the_mtu_of_a_path_that_becomes_narrower("tc");
    }

    /// Super-packets whose packets do not fit.
    #[test]
    fn transfers_find_it_with_offloads_on() {
        let options = L3Options { mtu: 2000, ..L3Options::default() };
        let switch = Switch::start_in("tc", &Network { options, changes: &[("size = 2048 ", "size = 4096 ")] });
        let network = &switch.network;
        let (h1, h3) = (network.host(1), network.host(3));
        [h1, h3].into_iter().for_each(offloads_on);
        // h3 still offers segments of the wide path.
        make_narrower(&switch);
        let listener = listen(h3, 5000);
        let to = listener.local_addr().unwrap();
        let sent = Random(7).bytes(BYTES);
        let received = std::thread::scope(|scope| {
            let receiver = scope.spawn(|| {
                let (mut stream, mut received) = (listener.accept().unwrap().0, Vec::new());
                stream.set_read_timeout(Some(PATIENCE)).unwrap();
                stream.read_to_end(&mut received).unwrap();
                received
            });
            connect(h1, to).write_all(&sent).unwrap();
            receiver.join().unwrap()
        });
        assert!(received == sent, "{} of {} bytes, or others", received.len(), sent.len());
        let learnt = h1.ns.check(&["ip", "route", "get", "10.0.2.13"]).unwrap().text();
        assert!(learnt.contains("mtu 1500"), "{learnt}");
        let report = switch.stop();
        // Those that fit went whole, in the kernel.
        assert!(report.port("p1", "bytes received") > 1514 * report.ppf("l3_switch.l2_clsfr"), "{report:?}");
        assert_eq!((report.dropped("tx_failed"), report.dropped("malformed")), (0, 0), "{report:?}");
    }
}

/// The subnet of h3 becomes narrower; the kernel's interface there is a part of it.
fn make_narrower(switch: &Switch) {
    for device in ["p3", "p4", "svi2", "svi2p"] {
        switch.network.switch.check(&["ip", "link", "set", "dev", device, "mtu", "1500"]).unwrap();
    }
    let start = Instant::now();
    while switch.ask(&["table", "get", "port_mtu", "p3"]).ok() != "1500\n" {
        assert!(start.elapsed() < PATIENCE, "the port's MTU stays as it was");
        std::thread::sleep(Duration::from_millis(20));
    }
}

fn hosts_find_the_mtu_of_a_path_that_becomes_narrower(driver: &str) {
    let options = L3Options { mtu: 2000, ..L3Options::default() };
    let switch = Switch::start_in(driver, &Network { options, changes: &[("size = 2048 ", "size = 4096 ")] });
    let network = &switch.network;
    let (h1, h3) = (&network.host(1).ns, &network.host(3).ns);
    let ping = |length: u32, fragments: &str| {
        // What was found out before does not count.
        h1.check(&["ip", "route", "flush", "cache"]).unwrap();
        let size = (length - 28).to_string();
        let words = ["-n", "-c", "1", "-W", "10", "-M", fragments, "-s", &size, "10.0.2.13"];
        h1.command("ping").args(words).limit(PATIENCE).run().unwrap().text()
    };
    assert!(h1.ping("10.0.2.13", PATIENCE).unwrap());
    for length in LENGTHS {
        assert!(ping(length, "do").contains(" 0% packet loss"), "{length} bytes do not pass the wide path");
    }
    make_narrower(&switch);
    h3.check(&["ip", "link", "set", "dev", Host::DEVICE, "mtu", "1500"]).unwrap();
    for length in LENGTHS {
        let said = ping(length, "do");
        match length <= 1500 {
            true => assert!(said.contains(" 0% packet loss"), "{length}: {said}"),
            // RFC 1191: the router says what the next hop takes.
            false => assert!(said.contains("From 10.0.1.1") && said.contains("mtu = 1500"), "{length}: {said}"),
        }
        assert!(ping(length, "dont").contains(" 0% packet loss"), "{length} bytes are not fragmented");
    }
    let report = switch.stop();
    assert_eq!((report.dropped("tx_failed"), report.dropped("too_big")), (0, 0), "{report:?}");
    assert_eq!(report.port("p3", "failed"), 0, "{report:?}");
}
