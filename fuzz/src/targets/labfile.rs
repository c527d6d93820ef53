//! Files of labs: what is accepted can be built, as far as that shows without privileges; what is not is told with its
//! place.

use labfile::{End, Plan};

use super::told;

/// Pieces of labs.
pub const WORDS: &[&str] = &[
    "[hosts.a]\n",
    "[hosts.a.devices.eth0]\n",
    "devices.eth0 = { ",
    "addresses = [\"10.0.1.11/24\"]",
    "mac = \"02:00:00:00:00:11\"",
    "port = true",
    "routes = { default = \"10.0.1.1\" }",
    "sysctls = { \"net.ipv4.ip_forward\" = \"1\" }",
    "forwarding = true\n",
    "[[hosts.a.commands]]\n",
    "run = \"sleep '1'\"\n",
    "ready = \"on\"\n",
    "wait = true\n",
    "within = \"30 s\"\n",
    "log = \"a.log\"\n",
    "[[links]]\n",
    "ends = [\"a:eth0\", \"b:eth0\"]\n",
    "\"a:eth0\"",
    "mtu = 9000\n",
    "rate = \"100 Mbit/s\"\n",
    "queue = 200\n",
    "delay = \"20 ms\"\n",
    "jitter = \"2 ms\"\n",
    "jitter_distribution = \"normal\"\n",
    "overtake = true\n",
    "loss = \"0.1 %\"\n",
    "burst_loss = { to_bad = 0.01, to_good = 0.3, bad_loss = 0.5 }\n",
    "reorder = 0.01\n",
    "reorder_gap = 3\n",
    "reorder_hold = \"10 ms\"\n",
    "forward = { loss = 0 }\n",
    "backward = { ",
    "[[captures]]\n",
    "file = \"a.pcapng\"\n",
    "devices = [",
    "emulator_cpu = 1\n",
    "seed = 7\n",
    "name = \"edge\"\n",
    "9999999999999999999",
    "1e400",
    "nan",
    "%",
    "\\\"",
];

/// Takes one file.
pub fn run(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    let plan = match Plan::parse("fuzz.toml", &text) {
        Ok(plan) => plan,
        Err(errors) => return told(&errors, &text),
    };
    assert!(!plan.hosts.is_empty() && plan.name.as_deref().is_none_or(labfile::is_name));
    let mut ends: Vec<&End> = plan.links.iter().flat_map(|link| &link.ends).collect();
    let is_end = |end: &End| ends.contains(&end);
    for end in &ends {
        let host = plan.hosts.get(end.host).expect("the host of an end is there");
        assert_eq!(end.show(&plan.hosts), format!("{}:{}", host.name, end.device));
        assert!((1..=15).contains(&end.device.len()), "the kernel takes no such name: {:?}", end.device);
    }
    for (index, host) in plan.hosts.iter().enumerate() {
        for device in &host.devices {
            assert!(is_end(&End { host: index, device: device.name.clone() }), "{}: no link", device.name);
            assert!(!device.port || device.addresses.is_empty(), "{}: a port has no addresses", device.name);
        }
        assert!(host.commands.iter().all(|command| !command.words.is_empty()), "{}: nothing to run", host.name);
    }
    for tap in plan.captures.iter().flat_map(|capture| &capture.taps) {
        assert!(is_end(tap), "{tap:?}: no link");
    }
    for link in &plan.links {
        assert!((68..=65535).contains(&link.mtu));
        for way in &link.impairments {
            way.validate().unwrap_or_else(|error| panic!("accepted, but {error}"));
        }
    }
    let count = ends.len();
    ends.sort_by_key(|end| (end.host, &end.device));
    ends.dedup();
    assert_eq!(ends.len(), count, "a device is the end of two links");
}
