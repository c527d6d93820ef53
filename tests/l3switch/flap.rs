//! Ports that go down, come up, are removed and made again under traffic.

use std::thread;
use std::time::{Duration, Instant};

use lab::{Host, LinkConfig, veth};

use crate::stream::Stream;
use crate::switch::{PATIENCE, Switch, over_both};

over_both!(
    a_link_that_flaps_costs_only_its_own_packets_and_each_is_counted,
    a_port_that_is_removed_and_made_again_is_used_again
);

const RATE: u64 = 2000;

/// A switch that knows all hosts.
fn ready(driver: &str) -> Switch {
    let switch = Switch::start(driver);
    let mut wires = switch.wires();
    (1..=4).for_each(|host| wires.announce(host));
    switch
}

/// Waits until the switch says this of a port, or nothing any more.
fn says(switch: &Switch, port: &str, wanted: Option<&str>) {
    let start = Instant::now();
    loop {
        let state = switch.ask_json(&["ports"]);
        if state[port]["error"].as_str() == wanted {
            return;
        }
        assert!(start.elapsed() < PATIENCE, "{port} should be {wanted:?}: {state}");
        thread::sleep(Duration::from_millis(20));
    }
}

fn failed(switch: &Switch) -> u64 {
    switch.ask_json(&["drops"])["tx_failed"].as_u64().unwrap()
}

fn a_link_that_flaps_costs_only_its_own_packets_and_each_is_counted(driver: &str) {
    let mut switch = ready(driver);
    let network = &switch.network;
    let (flapping, other) = (Stream::start(network, 1, 3, &[60], RATE), Stream::start(network, 2, 4, &[60], RATE));
    for _ in 0..3 {
        assert!(flapping.goes_on(PATIENCE) && other.goes_on(PATIENCE));
        let before = failed(&switch);
        network.switch.down("p3").unwrap();
        says(&switch, "p3", Some("p3: went down: run `ip link set dev p3 up`"));
        assert!(other.goes_on(PATIENCE));
        let start = Instant::now();
        while failed(&switch) == before {
            assert!(start.elapsed() < PATIENCE, "packets to a port that is down are not counted");
        }
        network.switch.check(&["ip", "link", "set", "dev", "p3", "up"]).unwrap();
        says(&switch, "p3", None);
    }
    assert!(flapping.goes_on(PATIENCE));
    let (sent, received) = flapping.stop();
    assert!(other.stop_whole().packets > RATE / 10);
    switch.logged(&["p3: went down", "p3: works again"]);
    let report = switch.stop();
    let lost = received.lost(&sent);
    // What the kernel had taken when the link went down it did not deliver: a few at each flap.
    let failed = report.dropped("tx_failed");
    // While the port is down its packets come to a worker, which a busy machine may not run soon enough.
    let counted = failed + report.port("p1", "lost in kernel");
    assert!(failed > 0 && counted <= lost && lost - counted < 100, "{lost} lost, {counted} counted: {report:?}");
    assert_eq!(received.duplicated, 0, "{received:?}");
    // What such a worker still has when the link is up again the kernel overtakes.
    assert!(received.reordered == 0 || driver != "afpacket" && received.reordered < counted, "{received:?}");
    assert_eq!(report.port("p3", "failed"), failed, "{report:?}");
}

fn a_port_that_is_removed_and_made_again_is_used_again(driver: &str) {
    let mut switch = ready(driver);
    let network = &switch.network;
    let (from, other) = (Stream::start(network, 1, 3, &[60], RATE), Stream::start(network, 2, 4, &[60], RATE));
    let h3 = &network.host(3).ns;
    assert!(from.goes_on(PATIENCE) && other.goes_on(PATIENCE));
    // The other end goes with it.
    h3.check(&["ip", "link", "del", "dev", Host::DEVICE]).unwrap();
    says(&switch, "p3", Some("p3: was removed"));
    assert!(other.goes_on(PATIENCE));
    drop(from);
    veth(h3, Host::DEVICE, &network.switch, "p3").unwrap();
    h3.configure(Host::DEVICE, &LinkConfig::host().mac(network.host(3).mac).address("10.0.2.13/24")).unwrap();
    network.switch.configure("p3", &LinkConfig::port()).unwrap();
    h3.wait_running(Host::DEVICE, PATIENCE).unwrap();
    says(&switch, "p3", None);
    let stream = Stream::start(network, 1, 3, &[60, 1514], RATE);
    assert!(stream.goes_on(PATIENCE));
    assert!(stream.stop_whole().packets >= 10);
    assert!(network.host(3).ns.ping("10.0.2.14", PATIENCE).unwrap(), "the new port receives, too");
    assert!(other.stop_whole().packets > RATE / 10);
    // What is logged depends on when it was looked at; the socket has told each state above.
    switch.logged(&[]);
    let report = switch.stop();
    assert!(report.dropped("tx_failed") > 0, "{report:?}");
}
