//! Packets that are too big for their way out: real hosts find the path's MTU through the switch (RFC 1191), or get
//! fragments.

use std::time::{Duration, Instant};

use lab::{Host, L3Options};

use crate::switch::{Network, PATIENCE, Switch, over_both};

over_both!(hosts_find_the_mtu_of_a_path_that_becomes_narrower);

/// IPv4 total lengths around the MTU of Ethernet. XDP alone would send up to 1504 bytes, which leaves room for a VLAN
/// tag.
const LENGTHS: std::ops::RangeInclusive<u32> = 1499..=1506;

fn hosts_find_the_mtu_of_a_path_that_becomes_narrower(driver: &str) {
    let options = L3Options { mtu: 2000, ..L3Options::default() };
    let switch = Switch::start_in(driver, &Network { options, frame_size: Some(4096) });
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
    // The subnet of h3 becomes narrower; the kernel's interface there is a part of it.
    for device in ["p3", "p4", "svi2", "svi2p"] {
        network.switch.check(&["ip", "link", "set", "dev", device, "mtu", "1500"]).unwrap();
    }
    h3.check(&["ip", "link", "set", "dev", Host::DEVICE, "mtu", "1500"]).unwrap();
    let start = Instant::now();
    while switch.ask(&["table", "get", "port_mtu", "p3"]).ok() != "1500\n" {
        assert!(start.elapsed() < PATIENCE, "the port's MTU stays as it was");
        std::thread::sleep(Duration::from_millis(20));
    }
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
