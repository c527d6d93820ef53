//! Flows that a collector of IPFIX gets. Messages are read here by RFC 7011, not by what wrote them, and figures are
//! compared with those that curl has counted.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, UdpSocket};
use std::time::{Duration, Instant, SystemTime};

use crate::network::{PATIENCE, SERVERS, Splice, must};
use crate::{VIRTUAL, VIRTUAL6, servers, wait_until_up};

/// A record: its fields by information element.
type Record = BTreeMap<u16, Vec<u8>>;

/// What a collector has.
#[derive(Default)]
struct Collected {
    /// Elements and lengths, by template.
    templates: BTreeMap<u16, Vec<(u16, usize)>>,
    records: Vec<Record>,
    /// Records that came before, as the last message says.
    sent: Option<u32>,
}

fn short(bytes: &[u8], at: usize) -> u16 {
    u16::from_be_bytes([bytes[at], bytes[at + 1]])
}

impl Collected {
    fn take(&mut self, message: &[u8]) {
        assert_eq!((short(message, 0), usize::from(short(message, 2))), (10, message.len()));
        let word = |at: usize| u32::from_be_bytes(message[at..at + 4].try_into().unwrap());
        assert_eq!(word(12), 7, "the domain");
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap().as_secs();
        assert!(now.abs_diff(word(4).into()) < 30);
        assert!(self.sent.is_none_or(|sent| sent == word(8)), "{} behind {:?}", word(8), self.sent);
        let known = self.records.len();
        let mut at = 16;
        while at < message.len() {
            let (set, length) = (short(message, at), usize::from(short(message, at + 2)));
            let body = &message[at + 4..at + length];
            match set {
                2 => self.learn(body),
                _ => self.read(set, body),
            }
            at += length;
        }
        self.sent = Some(word(8) + (self.records.len() - known) as u32);
    }

    fn learn(&mut self, mut set: &[u8]) {
        while !set.is_empty() {
            let (template, fields) = (short(set, 0), short(set, 2));
            set = &set[4..];
            let mut all = Vec::new();
            for _ in 0..fields {
                let element = short(set, 0);
                all.push((element, usize::from(short(set, 2))));
                set = &set[4..];
                if element >= 0x8000 {
                    // Of the other direction (RFC 5103).
                    assert_eq!(set[..4], 29_305u32.to_be_bytes());
                    set = &set[4..];
                }
            }
            self.templates.insert(template, all);
        }
    }

    fn read(&mut self, template: u16, mut set: &[u8]) {
        let fields = self.templates.get(&template).unwrap_or_else(|| panic!("no template {template}"));
        while !set.is_empty() {
            let mut record = Record::new();
            for (element, length) in fields {
                let length = match *length {
                    65_535 => {
                        let length = usize::from(set[0]);
                        set = &set[1..];
                        length
                    }
                    length => length,
                };
                record.insert(*element, set[..length].to_vec());
                set = &set[length..];
            }
            self.records.push(record);
        }
    }
}

fn number(record: &Record, element: u16) -> u64 {
    record[&element].iter().fold(0, |number, byte| number << 8 | u64::from(*byte))
}

fn address(record: &Record, elements: [u16; 2]) -> IpAddr {
    let [v4, v6] = elements.map(|element| record.get(&element).map(Vec::as_slice));
    match (v4, v6) {
        (Some(bytes), _) => Ipv4Addr::from(<[u8; 4]>::try_from(bytes).unwrap()).into(),
        (_, Some(bytes)) => Ipv6Addr::from(<[u8; 16]>::try_from(bytes).unwrap()).into(),
        _ => panic!("{record:?}"),
    }
}

#[test]
fn a_collector_gets_requests_as_flows() {
    let ipfix = "[ipfix]\ncollectors = [\"127.0.0.1\"]\ntemplates = \"1s\"\ndomain = 7\n\n[controllers.splice.limits]";
    let changes = [("[controllers.splice.limits]", ipfix)];
    let splice = Splice::start("xdp", &changes, None);
    let collector = must(splice.host().enter(|| UdpSocket::bind("127.0.0.1:4739").unwrap()));
    collector.set_read_timeout(Some(Duration::from_millis(50))).unwrap();
    assert!(splice.said().contains("ipfix: flows that are over to 127.0.0.1:4739, of domain 7"), "{}", splice.said());
    let _servers = servers(&splice);
    wait_until_up(&splice);
    let mut seen = Collected::default();
    let mut buffer = [0; 2048];
    let mut receive = |seen: &mut Collected| {
        if let Ok(length) = collector.recv(&mut buffer) {
            // Records before the first templates can't be read.
            if !seen.templates.is_empty() || short(&buffer, 16) == 2 {
                seen.take(&buffer[..length]);
            }
        }
    };
    let end = Instant::now() + PATIENCE;
    while seen.templates.is_empty() && Instant::now() < end {
        receive(&mut seen);
    }
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
        let find = |seen: &Collected| {
            let mut own = seen.records.iter();
            own.find(|own| number(own, 7) == port && address(own, [8, 27]) == client).cloned()
        };
        let end = Instant::now() + PATIENCE;
        while find(&seen).is_none() {
            assert!(Instant::now() < end, "{port}: {:?}", seen.records);
            receive(&mut seen);
        }
        let record = find(&seen).unwrap();
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
