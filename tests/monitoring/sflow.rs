//! nfdump's collector gets the samples of a running instance, and takes them for the traffic that there was.

use std::time::Duration;

use lab::{LinkConfig, Namespace, Signal, veth};
use serde_json::Value as Json;

use crate::process::{ROOT, Scratch, run};
use crate::{LIMIT, MILLRACE, must};

#[test]
fn a_collector_takes_samples_for_the_traffic() {
    const PINGS: u64 = 1000;
    const ONE_IN: u64 = 5;
    let scratch = Scratch::new();
    let [client, router, server] = ["client", "router", "server"].map(|name| must(Namespace::new(name)));
    for (host, port, network) in [(&client, "a", 1), (&server, "b", 2)] {
        must(veth(host, "eth0", &router, port));
        must(host.configure("eth0", &LinkConfig::host().address(format!("10.0.{network}.11/24"))));
        must(router.configure(port, &LinkConfig::host().address(format!("10.0.{network}.1/24"))));
        must(host.check(&["ip", "route", "add", "default", "via", &format!("10.0.{network}.1")]));
    }
    must(router.set_sysctl("net.ipv4.ip_forward", "1"));
    // Neighbours are known before anything is sampled.
    must(client.check(&["ping", "-q", "-c", "1", "-W", "5", "10.0.2.11"]));
    let flows = scratch.path("flows");
    std::fs::create_dir(&flows).unwrap();
    let mut collector = must(router.command("sfcapd").args(["-l", &flows, "-b", "127.0.0.1"]).spawn());
    let config = format!(
        "[ports]\na = {{ number = 1, device = \"tc:a\" }}\nb = {{ number = 2, device = \"tc:b\" }}\n\
         [sflow]\ncollectors = [\"127.0.0.1\"]\none_in = {ONE_IN}\npoll = \"1s\"\n"
    );
    let config = scratch.write("router.toml", &config);
    let millrace = router.command(MILLRACE).args(["run", "examples/router", "-c", &config, "--no-socket"]);
    let mut millrace = must(millrace.current_dir(ROOT).spawn());
    must(millrace.wait_for_start(LIMIT));
    std::thread::sleep(Duration::from_millis(300));
    let ping = ["ping", "-q", "-i", "0.002", "-s", "200", "-c", &PINGS.to_string(), "10.0.2.11"];
    must(client.check(&ping));
    // Samples are sent twice a second, and what is left at the end.
    for process in [&mut millrace, &mut collector] {
        std::thread::sleep(Duration::from_secs(1));
        must(process.signal(Signal::SIGINT));
        let output = must(process.wait(LIMIT));
        assert_eq!(output.status.code(), Some(0), "{output}");
        let said = output.both();
        assert!(!said.contains("Bad Packets") || said.contains("Sequence Errors: 0, Bad Packets: 0"), "{said}");
    }
    let mut nfdump = std::process::Command::new("nfdump");
    nfdump.args(["-R", &flows, "-q", "-N", "-o", "fmt:%sa %in %out %pkt"]);
    let found = run(nfdump).ok();
    let flows: Vec<Vec<&str>> = found.lines().map(|line| line.split_whitespace().collect()).collect();
    let index = |port: &str| {
        let shown: Json =
            serde_json::from_str(&must(router.check(&["ip", "-j", "link", "show", port])).text()).unwrap();
        shown[0]["ifindex"].to_string()
    };
    let [a, b] = ["a", "b"].map(index);
    for (host, way) in [("10.0.1.11", [&a, &b]), ("10.0.2.11", [&b, &a])] {
        let own = flows.iter().filter(|flow| flow.first() == Some(&host)).map(|flow| {
            let [_, from, to, packets] = flow[..] else { panic!("{flow:?}") };
            assert_eq!([from, to], way, "{found}");
            packets.parse::<u64>().unwrap()
        });
        let packets: u64 = own.sum();
        // Of 1000 packets one in 5, each for 5: a standard deviation of 63.
        assert!(packets.abs_diff(PINGS) < 400, "{host}: {packets}\n{found}");
        assert_eq!(packets % ONE_IN, 0);
    }
}
