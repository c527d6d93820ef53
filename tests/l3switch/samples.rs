//! Samples and counters that a collector of sFlow gets while packets are forwarded. Datagrams are read here by the
//! specification (sFlow version 5), not by what wrote them.

use std::collections::BTreeMap;
use std::net::UdpSocket;
use std::time::{Duration, Instant};

use serde_json::Value as Json;

use crate::eventually::eventually;
use crate::frames::{BROADCAST, Ipv4};
use crate::switch::{GATEWAY, IP, MAC, Network, PATIENCE, ROUTER, Switch, over_both};

over_both!(a_collector_gets_samples_and_counters);

mod at_traffic_control {
    #[test]
    fn a_collector_gets_samples_and_counters() {
        super::a_collector_gets_samples_and_counters("tc");
    }
}

/// One packet in 4, so that their number says something.
const SAMPLED: (&str, &str) = (
    "[frames]",
    "[sflow]\ncollectors = [\"127.0.0.1\"]\nagent = \"192.0.2.9\"\none_in = 4\nheader = 64\npoll = \"1s\"\n[frames]",
);

/// A text of numbers of 4 bytes, and bytes up to a multiple of that.
struct Reader<'b>(&'b [u8]);

impl<'b> Reader<'b> {
    fn word(&mut self) -> u32 {
        let (word, rest) = self.0.split_at(4);
        self.0 = rest;
        u32::from_be_bytes(word.try_into().unwrap())
    }

    fn words<const N: usize>(&mut self) -> [u32; N] {
        [(); N].map(|()| self.word())
    }

    fn long(&mut self) -> u64 {
        u64::from(self.word()) << 32 | u64::from(self.word())
    }

    fn opaque(&mut self) -> &'b [u8] {
        let length = self.word() as usize;
        let (bytes, rest) = self.0.split_at(length.next_multiple_of(4));
        self.0 = rest;
        &bytes[..length]
    }
}

/// In place of an interface: to the machine itself; dropped for a reason without a number.
const OWN: u32 = 0x3fff_ffff;
const DROPPED: u32 = 0x4000_0100;

/// What a collector has.
#[derive(Default)]
struct Collected {
    /// Packets of the test with their outputs, and of how many of each that was told.
    sent: Vec<(Vec<u8>, u32, u32)>,
    datagrams: u32,
    /// By interface: samples, and the last one's pool.
    samples: BTreeMap<u32, (u32, u32)>,
    /// Of the first of these, by interface.
    own: BTreeMap<u32, u64>,
    /// By interface: packets and bytes in, packets and bytes out.
    counters: BTreeMap<u32, [u64; 4]>,
}

impl Collected {
    fn take(&mut self, datagram: &[u8]) {
        let mut reader = Reader(datagram);
        let [version, kind, address, sub_agent, number, _uptime, samples] = reader.words();
        assert_eq!((version, kind, address, sub_agent), (5, 1, 0xc000_0209, 0));
        // Those before the collector was there are not known.
        assert!(self.datagrams == 0 || number == self.datagrams + 1, "{number} behind {}", self.datagrams);
        self.datagrams = number;
        for _ in 0..samples {
            let format = reader.word();
            let mut sample = Reader(reader.opaque());
            match format {
                1 => self.flow(&mut sample),
                2 => self.count(&mut sample),
                other => panic!("a sample of format {other}"),
            }
            assert!(sample.0.is_empty(), "{:?}", sample.0);
        }
        assert!(reader.0.is_empty(), "{:?}", reader.0);
    }

    fn flow(&mut self, sample: &mut Reader) {
        let [number, source, rate, pool, drops, input, output, records, format] = sample.words();
        let of = self.samples.entry(source).or_default();
        assert!(of.0 == 0 || number == of.0 + 1, "{number} behind {}", of.0);
        assert_eq!((rate, drops, input, records, format), (4, 0, source, 1, 1));
        assert!(pool >= of.1, "{pool} {}", of.1);
        *of = (number, pool);
        let mut record = Reader(sample.opaque());
        let [protocol, length, stripped] = record.words();
        let header = record.opaque();
        assert_eq!((protocol, stripped, record.0), (1, 4, &[][..]));
        let found = self.sent.iter_mut().enumerate().find(|(_, (frame, ..))| header == &frame[..frame.len().min(64)]);
        if let Some((place, (frame, expected, count))) = found {
            assert_eq!(length as usize, frame.len() + 4, "of frame {place}");
            // On a busy machine there is no time for all of them.
            assert!(output == *expected || output == 0, "of frame {place}: {output:#x}");
            *count += u32::from(output == *expected);
            *self.own.entry(source).or_default() += u64::from(place == 0);
        }
    }

    fn count(&mut self, sample: &mut Reader) {
        let [_number, source, records, format] = sample.words();
        assert_eq!((records, format), (1, 1));
        let mut record = Reader(sample.opaque());
        let [interface, kind] = record.words();
        // A veth link calls itself one of 10 Gbit/s.
        assert_eq!((interface, kind, record.long()), (source, 6, 10_000_000_000));
        let [direction, status] = record.words();
        assert_eq!((direction, status), (1, 3));
        let bytes_in = record.long();
        let [packets_in, ..] = record.words::<6>();
        let bytes_out = record.long();
        let [packets_out, ..] = record.words::<6>();
        assert!(record.0.is_empty(), "{:?}", record.0);
        self.counters.insert(source, [packets_in.into(), bytes_in, packets_out.into(), bytes_out]);
    }
}

fn a_collector_gets_samples_and_counters(driver: &str) {
    const PACKETS: u64 = 4000;
    let switch = Switch::start_in(driver, &Network { changes: &[SAMPLED], ..Network::default() });
    let collector = switch.network.switch.enter(|| UdpSocket::bind("127.0.0.1:6343").unwrap());
    let collector = collector.unwrap_or_else(|error| panic!("{error}"));
    collector.set_read_timeout(Some(Duration::from_millis(50))).unwrap();
    assert!(switch.said().contains("sflow: one packet in 4 to 127.0.0.1:6343, as 192.0.2.9"), "{}", switch.said());
    let link = |name: &str| -> u32 {
        let shown = switch.network.switch.check(&["ip", "-j", "link", "show", name]).unwrap_or_else(|e| panic!("{e}"));
        let shown: Json = serde_json::from_str(&shown.text()).unwrap();
        shown[0]["ifindex"].as_u64().unwrap() as u32
    };
    let (p1, p2, p3) = (link("p1"), link("p2"), link("p3"));
    let mut wires = switch.wires();
    wires.announce(1);
    wires.announce(3);
    let frame = Ipv4::new(IP[0], IP[2], &[7; 400]).frame(ROUTER[0], MAC[0]);
    // It may take a moment until the kernel's part copies packets.
    let to_many = Ipv4::new(IP[0], [10, 0, 1, 255], &[7; 400]).frame(BROADCAST, MAC[0]);
    let to_router = Ipv4::new(IP[0], GATEWAY[0], &[7; 400]).frame(ROUTER[0], MAC[0]);
    // What is longer than a sample may be dropped for what is not in it.
    let wrong = |payload| Ipv4::new(IP[0], IP[2], payload).frame(ROUTER[0], [3, 0, 0, 0, 0, 1]);
    let others = [(to_many, p2), (to_router, OWN), (wrong(&[7; 20]), DROPPED), (wrong(&[7; 400]), 0)];
    let sent = [(frame.clone(), p3)].into_iter().chain(others.clone());
    let mut seen = Collected { sent: sent.map(|(frame, output)| (frame, output, 0)).collect(), ..Collected::default() };
    let mut buffer = [0; 2048];
    let mut receive = |seen: &mut Collected| {
        if let Ok(length) = collector.recv(&mut buffer) {
            seen.take(&buffer[..length]);
        }
    };
    std::thread::sleep(Duration::from_millis(300));
    for batch in 0..PACKETS / 50 {
        (0..50).for_each(|_| wires.send(1, &frame));
        receive(&mut seen);
        if batch % 4 == 3 {
            others.iter().for_each(|(other, _)| (0..5).for_each(|_| wires.send(1, other)));
            wires.settle();
        }
    }
    let end = Instant::now() + PATIENCE;
    // A second look at counters is behind all packets.
    while Instant::now() < end && seen.counters.get(&p3).is_none_or(|own| own[2] < PACKETS) {
        receive(&mut seen);
    }
    // It is known of each kind of packets where they go.
    assert!(seen.sent.iter().all(|(.., count)| *count > 0), "{:?}", seen.sent);
    let own = seen.own[&p1];
    // Of 4000 one in 4: 1000, with a standard deviation of 27; six of them never happen.
    assert!(own.abs_diff(PACKETS / 4) <= 165, "{own} samples");
    assert_eq!(seen.own.keys().collect::<Vec<_>>(), [&p1]);
    let port = |name: &str| switch.ask_json(&["counters"])["ports"][name].clone();
    let [packets_in, bytes_in, ..] = seen.counters[&p1];
    let [.., packets_out, bytes_out] = seen.counters[&p3];
    // A veth interface with XDP counts what comes in without the Ethernet header.
    let least = PACKETS * (frame.len() - 14) as u64;
    assert!(packets_in >= PACKETS && bytes_in >= least, "{packets_in} {bytes_in}");
    assert!(packets_out >= PACKETS && bytes_out >= least, "{packets_out} {bytes_out}");
    assert!(port("p1")["rx_packets"].as_u64().unwrap() >= packets_in);
    assert!(u64::from(seen.samples[&p1].1) <= packets_in + 100, "{:?}", seen.samples);

    // What it has done is told everywhere.
    let state = switch.ask_json(&["status"])[0]["sflow"].clone();
    assert_eq!((&state["one_in"], &state["lost"], &state["failed"]), (&4.into(), &0.into(), &0.into()), "{state}");
    assert!(state["samples"].as_u64().unwrap() >= own);
    let shown = switch.ask(&["status"]).ok();
    assert!(shown.contains("sflow: one packet in 4 to 127.0.0.1:6343, as 192.0.2.9, "), "{shown}");

    // A trace has its copies beside.
    switch.ask(&["trace", "add", "1", "--port", "p1"]).ok();
    let before = switch.ask_json(&["status"])[0]["sflow"]["samples"].as_u64().unwrap();
    std::thread::sleep(Duration::from_millis(300));
    (0..200).for_each(|_| wires.send(1, &frame));
    wires.settle();
    let traced = || switch.ask_json(&["trace", "show"]);
    eventually("no trace", || (traced()["wanted"] == 0).then_some(()));
    assert_eq!(traced()["traces"][0]["bytes"], frame.len());
    let samples = || switch.ask_json(&["status"])[0]["sflow"]["samples"].as_u64().unwrap();
    eventually("no samples beside traces", || (samples() > before + 20).then_some(()));

    // Without the section nothing is sampled.
    let said = switch.reload(&[]).ok();
    assert!(said.contains("in force: sflow: nowhere"), "{said}");
    assert!(switch.ask_json(&["status"])[0].get("sflow").is_none());
    wires.send(1, &frame);
    let after = Ipv4 { ttl: 63, ..Ipv4::new(IP[0], IP[2], &[7; 400]) }.frame(MAC[2], ROUTER[1]);
    wires.settle().only(&after, [false, false, true, false]);
    switch.stop();
}
