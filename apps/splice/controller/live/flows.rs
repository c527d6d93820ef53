//! Flows that a collector of IPFIX gets, against the figures that curl has counted.

use std::net::{IpAddr, UdpSocket};
use std::time::SystemTime;

use crate::ipfix::{Collected, Record, address, number};
use crate::network::{PATIENCE, SERVERS, Splice, must};
use crate::{VIRTUAL, VIRTUAL6, servers, wait_until_up};

#[test]
fn a_collector_gets_requests_as_flows() {
    let ipfix = "[ipfix]\ncollectors = [\"127.0.0.1\"]\ntemplates = \"1s\"\ndomain = 7\n\n[controllers.splice.limits]";
    let changes = [("[controllers.splice.limits]", ipfix)];
    let splice = Splice::start("xdp", &changes, None);
    let collector = must(splice.host().enter(|| UdpSocket::bind("127.0.0.1:4739").unwrap()));
    assert!(splice.said().contains("ipfix: flows that are over to 127.0.0.1:4739, of domain 7"), "{}", splice.said());
    let _servers = servers(&splice);
    wait_until_up(&splice);
    let mut seen = Collected::default();
    seen.learn_templates(&collector, PATIENCE);
    let ms = |time: SystemTime| time.duration_since(SystemTime::UNIX_EPOCH).unwrap().as_millis() as u64;
    let began = ms(SystemTime::now());
    let mut asked = Vec::new();
    for (virtual_address, size) in [(VIRTUAL, 100), (VIRTUAL6, 5000), (VIRTUAL, 3_000_000), (VIRTUAL6, 0)] {
        let url = format!("http://{virtual_address}/bytes/{size}");
        let told = "%{local_ip} %{local_port} %{size_request} %{size_header} %{size_download}";
        let words = ["curl", "--silent", "--globoff", "--output", "/dev/null", "--write-out", told];
        let counted =
            must(splice.client.check(&[&words[..], &["--header", "Host: www.example", &url]].concat())).text();
        let words: Vec<&str> = counted.split(' ').collect();
        let figure = |at: usize| words[at].trim().parse::<u64>().unwrap();
        assert_eq!(figure(4), size, "{counted}");
        asked.push((virtual_address, words[0].parse::<IpAddr>().unwrap(), figure(1), figure(2), figure(3) + size));
    }
    for (virtual_address, client, port, up, down) in asked {
        let is_it = |own: &Record| number(own, 7) == port && address(own, [8, 27]) == client;
        let record = seen.find(&collector, PATIENCE, is_it);
        let end_of = |address: IpAddr, port: u64| std::net::SocketAddr::new(address, port as u16).to_string();
        assert_eq!(end_of(address(&record, [12, 28]), number(&record, 11)), virtual_address);
        let chosen = end_of(address(&record, [226, 282]), number(&record, 228));
        assert!(SERVERS.contains(&&*chosen), "{chosen}");
        for [own, reverse] in [[231, 232], [1, 0x8001]] {
            assert_eq!((number(&record, own), number(&record, reverse)), (up, down), "{record:?}");
        }
        assert_eq!([4, 136, 457].map(|element| number(&record, element)), [6, 3, 200]);
        assert_eq!(record[&96], b"www");
        let [first, last] = [152, 153].map(|element| number(&record, element));
        assert!(began <= first + 50 && first <= last && last <= ms(SystemTime::now()) + 50, "{began} {first} {last}");
    }
    let state = splice.json(&["status"])[0]["ipfix"].clone();
    assert_eq!((&state["lost"], &state["failed"]), (&0.into(), &0.into()), "{state}");
    assert!(state["flows"].as_u64().unwrap() >= 4, "{state}");
    let shown = splice.millrace(&["status"]).ok();
    assert!(shown.contains("ipfix: flows that are over to 127.0.0.1:4739, of domain 7, "), "{shown}");
    let reloaded = splice.reload(&[(ipfix, "[controllers.splice.limits]")]);
    assert_eq!(reloaded["ipfix"], "nowhere", "{reloaded}");
    assert!(splice.json(&["status"])[0].get("ipfix").is_none());
    splice.stop();
}
