//! Floods of segments that no TCP has sent: clients with connections, and those that want one, do not notice.

use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use lab::RawPort;

use crate::network::Splice;
use crate::random::Random;
use crate::segments::{ACK, CLIENTS, FIN, RST, SERVERS, SYN, Segment};
use crate::stop::Stop;
use crate::web::{Client, pattern};
use crate::{VIRTUAL, VIRTUAL6, servers, wait_until_up};

/// A SYN from one of many addresses and ports.
fn syn(number: u32) -> Vec<u8> {
    let [.., a, b] = (0x0200 + number % 0xfd00).to_be_bytes();
    let port = 1024 + (number / 0xfd00) as u16;
    let flow_key: (SocketAddr, SocketAddr) = match number % 2 {
        0 => ((Ipv4Addr::new(10, 0, a, b), port).into(), VIRTUAL.parse().unwrap()),
        _ => ((Ipv6Addr::new(0x2001, 0xdb8, 9, 0, 0, 0, a.into(), b.into()), port).into(), VIRTUAL6.parse().unwrap()),
    };
    Segment { flow_key, seq: number.wrapping_mul(2_654_435_761), ack: 0, flags: SYN, window: 65535, payload: &[] }
        .frame(CLIENTS)
}

/// Sends frames until it is to stop: so many, and as many again after a pause. How many they were.
fn flood(wire: &RawPort, stop: &AtomicBool, burst: u32, pause: Duration, mut frame: impl FnMut(u32) -> Vec<u8>) -> u32 {
    let mut sent = 0;
    while !stop.load(Ordering::Relaxed) {
        for _ in 0..burst {
            // The device may be full.
            let _ = wire.send(&frame(sent));
            sent = sent.wrapping_add(1);
        }
        thread::sleep(pause);
    }
    sent
}

/// On workers a flood shares a queue with all other traffic, as on any link, and here everywhere a CPU with the good
/// clients, so it leaves room.
#[test]
fn a_flood_of_syns_leaves_good_clients_served() {
    for driver in ["afpacket", "xdp", "tc"] {
        let pause = Duration::from_millis(2);
        let splice = Splice::start(driver, &[], None);
        let _servers = servers(&splice);
        wait_until_up(&splice);
        let before = splice.entries("spliced.flows");
        let cookies = || splice.counters()["counters"]["accept.cookies_sent"][0].as_u64().unwrap();
        let sent = cookies();
        let wire = RawPort::open(&splice.client, "eth0").unwrap();
        let stop = AtomicBool::new(false);
        thread::scope(|scope| {
            let stopping = Stop(&stop);
            let flood = scope.spawn(|| flood(&wire, &stop, 100, pause, syn));
            for round in 0..20 {
                let address = [VIRTUAL, VIRTUAL6][round % 2];
                let mut client = Client::connect(&splice.client, address)
                    .unwrap_or_else(|error| panic!("{driver} {round}: {error}: {}", splice.counters()));
                assert_eq!(client.get("/bytes/20000").unwrap().body, pattern(20_000));
            }
            splice.wait("no flood", |_| cookies() - sent > 20_000);
            drop(stopping);
            assert!(flood.join().unwrap() > 20_000);
        });
        // It has left nothing behind.
        assert!(splice.entries("spliced.flows") < before + 100, "{}", splice.entries("spliced.flows"));
        splice.stop();
    }
}

/// A segment of a connection that there is not: with any flags and numbers, and perhaps data.
fn stray(random: &mut Random, (src, dst): (SocketAddr, SocketAddr)) -> Segment<'static> {
    const PAYLOADS: [&[u8]; 3] = [b"", b"GET /evil HTTP/1.1\r\nHost: x\r\n\r\n", &[b'e'; 1400]];
    let flags = [RST, RST | ACK, FIN | ACK, ACK, SYN | ACK, random.next() as u8][random.below(6)];
    let (seq, ack, window) = (random.next() as u32, random.next() as u32, random.next() as u16);
    Segment { flow_key: (src, dst), seq, ack, flags, window, payload: PAYLOADS[random.below(PAYLOADS.len())] }
}

#[test]
fn segments_of_no_connection_do_not_disturb_others() {
    const SIZE: usize = 10_000_000;
    let splice = Splice::start("xdp", &[], None);
    let _servers = servers(&splice);
    wait_until_up(&splice);
    let wires = [(&*splice.client, CLIENTS), (&splice.servers, SERVERS)].map(|(host, router)| {
        let wire = RawPort::open(host, "eth0").unwrap();
        (wire, router)
    });
    let before = splice.entries("spliced.flows");
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        let stopping = Stop(&stop);
        let floods = [1, 2].map(|seed| {
            let ((wire, router), stop) = (&wires[seed - 1], &stop);
            scope.spawn(move || {
                let mut random = Random(seed as u64);
                flood(wire, stop, 50, Duration::from_millis(1), |number| {
                    let port = 1024 + (number % 60_000) as u16;
                    let (src, src_port, dst) = match (seed, number % 2) {
                        // Of clients, none of which is there;
                        (1, 0) => ("10.0.1.77", port, VIRTUAL.to_owned()),
                        (1, _) => ("2001:db8:1::77", port, VIRTUAL6.to_owned()),
                        // and of a server, from a port that is not asked.
                        (_, 0) => ("10.0.2.11", 81, format!("10.0.2.254:{port}")),
                        _ => ("2001:db8:2::11", 81, format!("[2001:db8:2::254]:{port}")),
                    };
                    let flow_key = (SocketAddr::new(src.parse().unwrap(), src_port), dst.parse().unwrap());
                    stray(&mut random, flow_key).frame(*router)
                })
            })
        });
        for address in [VIRTUAL, VIRTUAL6] {
            let mut client = Client::connect(&splice.client, address).unwrap();
            for _ in 0..2 {
                let response = client.get(&format!("/bytes/{SIZE}")).unwrap();
                assert!(response.body == pattern(SIZE), "{address}: {}", response.body.len());
                assert_eq!(client.get("/after").unwrap().body, b"/after");
            }
        }
        thread::sleep(Duration::from_millis(500));
        drop(stopping);
        floods.into_iter().for_each(|own| assert!(own.join().unwrap() > 2000));
    });
    // None of them had a cookie.
    assert!(splice.entries("spliced.flows") < before + 20, "{}", splice.entries("spliced.flows"));
    splice.stop();
}

/// A number further away from another one than any window reaches, also after what the test sends.
fn far(random: &mut Random, number: u32) -> u32 {
    const AWAY: u32 = 1 << 26;
    number.wrapping_add(AWAY).wrapping_add(random.below((u32::MAX - 2 * AWAY) as usize) as u32)
}

/// The address and port that a flow entry has in `part`, under the names that begin with `side`.
fn endpoint(part: &serde_json::Value, side: &str) -> SocketAddr {
    let address = part[side].as_str().unwrap_or_else(|| panic!("{side}: {part}"));
    let address = address.trim_start_matches("::ffff:").parse().unwrap();
    SocketAddr::new(address, part[format!("{side}_port")].as_u64().unwrap() as u16)
}

/// The flow entries of a client's connection: of its own segments, and of the server's.
fn flows(splice: &Splice, client: SocketAddr) -> [serde_json::Value; 2] {
    let all = splice.flows();
    [("key", "src"), ("value", "dst")].map(|(part, side)| {
        let mut own = all.as_array().unwrap().iter();
        own.find(|own| endpoint(&own[part], side) == client).unwrap_or_else(|| panic!("{client}: {all}")).clone()
    })
}

/// An attacker that knows the four numbers of a connection, and not its sequence numbers, sends in the name of both
/// sides while the client fetches something large: it gets every byte, and its next requests are served.
#[test]
fn guessed_segments_do_not_disturb_a_connection() {
    const SIZE: usize = 20_000_000;
    for driver in ["afpacket", "xdp"] {
        let splice = Splice::start(driver, &[], None);
        let _servers = servers(&splice);
        wait_until_up(&splice);
        for address in [VIRTUAL, VIRTUAL6] {
            let mut client = Client::connect(&splice.client, address).unwrap();
            assert_eq!(client.get("/hello").unwrap().status, 200);
            client.send(format!("GET /bytes/{SIZE} HTTP/1.1\r\nHost: x\r\n\r\n").as_bytes()).unwrap();
            // What is not read waits: the response has begun, and has not ended.
            thread::sleep(Duration::from_millis(100));
            let [up, down] = flows(&splice, client.own_address().parse().unwrap());
            let wires = [(&*splice.client, &up, &down, CLIENTS), (&splice.servers, &down, &up, SERVERS)];
            let stop = AtomicBool::new(false);
            thread::scope(|scope| {
                let stopping = Stop(&stop);
                let floods: Vec<_> = (1..)
                    .zip(wires)
                    .map(|(seed, (host, own, other, router))| {
                        let (wire, stop) = (RawPort::open(host, "eth0").unwrap(), &stop);
                        let flow_key = (endpoint(&own["key"], "src"), endpoint(&own["key"], "dst"));
                        let number = |name: &str, of: &serde_json::Value| of["value"][name].as_u64().unwrap() as u32;
                        // What the other side acknowledges are the numbers of this one, moved.
                        let seq = number("acked", other).wrapping_add(number("ack", other));
                        let ack = number("acked", own);
                        scope.spawn(move || {
                            let mut random = Random(seed);
                            flood(&wire, stop, 50, Duration::from_millis(2), |_| {
                                let (seq, ack) = (far(&mut random, seq), far(&mut random, ack));
                                Segment { seq, ack, ..stray(&mut random, flow_key) }.frame(router)
                            })
                        })
                    })
                    .collect();
                let response = client.receive("GET").unwrap_or_else(|error| panic!("{error}: {}", splice.counters()));
                assert!(response.body == pattern(SIZE), "{driver} {address}: {}", response.body.len());
                thread::sleep(Duration::from_millis(500));
                for _ in 0..3 {
                    let response = client.get("/meanwhile").unwrap();
                    assert_eq!((response.status, &*response.body), (200, &b"/meanwhile"[..]), "{driver} {address}");
                }
                drop(stopping);
                floods.into_iter().for_each(|own| assert!(own.join().unwrap() > 1000));
            });
            assert_eq!(client.get("/after").unwrap().body, b"/after", "{driver} {address}");
        }
        // The flood has come to the controller, too.
        assert!(splice.metric("service_invalid_ack", &[]) > 100);
        splice.stop();
    }
}
