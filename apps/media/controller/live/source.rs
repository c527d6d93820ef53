//! Sources without RTSP, and a server that sends to a group: every byte is known, and members are the kernel's to tell.

use std::net::{SocketAddr, UdpSocket};
use std::thread;
use std::time::Duration;

use crate::network::{Media, must};
use crate::origin::Options;
use crate::server::{Sent, Server};
use crate::viewer::{Viewer, compare};
use crate::{ORIGINS, PROXIES, viewer};

/// Who sends RTP, or a transport stream without it, to a place.
pub struct Sender {
    socket: UdpSocket,
    to: SocketAddr,
    bare: bool,
    next: u16,
    pub sent: Sent,
    /// What was sent, in order.
    payloads: Vec<Vec<u8>>,
}

impl Sender {
    pub fn new(media: &Media, from: &str, to: &str, bare: bool) -> Sender {
        let from: SocketAddr = from.parse().unwrap();
        let socket = media.servers.enter(|| UdpSocket::bind(from)).unwrap().unwrap();
        Sender { socket, to: to.parse().unwrap(), bare, next: from.port(), sent: Sent::new(), payloads: Vec::new() }
    }

    /// What was sent behind so many others.
    pub fn payload(&self, at: u16) -> &[u8] {
        &self.payloads[usize::from(at)]
    }

    /// How many were sent.
    pub fn count(&self) -> u16 {
        self.payloads.len() as u16
    }

    pub fn send(&mut self, count: u16) {
        self.send_at(count, 1);
    }

    /// Sends so many packets, so many of them in a millisecond.
    pub fn send_at(&mut self, count: u16, rate: u16) {
        for at in 1..=count {
            self.next = self.next.wrapping_add(1);
            let (sequence, timestamp) = (self.next, u32::from(self.next) * 90);
            let byte = |at: u32| ((at * u32::from(sequence)) >> 3) as u8 ^ at as u8;
            let mut payload: Vec<u8> = (0..1316u32).map(|at| if at % 188 == 0 { 0x47 } else { byte(at) }).collect();
            // Else each would be as the one 2048 before it. At the end of a packet they mean nothing to anybody.
            payload[1314..].copy_from_slice(&sequence.to_be_bytes());
            let mut packet = Vec::new();
            if !self.bare {
                packet.extend([0x80, 33]);
                packet.extend(sequence.to_be_bytes());
                packet.extend(timestamp.to_be_bytes());
                packet.extend([7; 4]);
            }
            packet.extend(&payload);
            self.socket.send_to(&packet, self.to).unwrap();
            self.sent.insert(sequence, (timestamp, payload.clone()));
            self.payloads.push(payload);
            if at % rate == 0 {
                thread::sleep(Duration::from_millis(1));
            }
        }
    }

    /// Sends until the proxy knows who sends. Behind an `afpacket` port the first packet may come by both ways.
    pub fn begin(&mut self, media: &Media) {
        self.send(1);
        let own = self.socket.local_addr().unwrap().to_string();
        media.wait("the sender is not heard", |media| {
            let streams = media.json(&["media", "streams"]);
            streams.as_array().unwrap().iter().any(|stream| stream["tracks"][0]["from"] == own)
        });
    }
}

pub fn start(driver: &str) -> Media {
    let section = "[controllers.media.limits]";
    let stream = |name: &str, keys: &str| format!("[controllers.media.streams.{name}]\n{keys}\n\n");
    let streams = [
        stream("hall", "url = \"rtp://239.1.2.3:5004\"\npayload = \"mp2t\"\ninterface = \"servers\""),
        stream(
            "garden",
            "url = \"rtp://[ff35::1:3]:5006\"\npayload = \"mp2t\"\nsource = \"2001:db8:2::11\"\ninterface = \"servers\"",
        ),
        stream("bare", "url = \"udp://@239.1.2.4:5008\"\ninterface = \"servers\""),
        stream("own", "url = \"rtp://10.0.2.1:5010\"\npayload = \"mp2t\""),
    ];
    let media = Media::start(driver, &[(section, &(streams.concat() + section))]);
    must(media.servers.check(&["ip", "route", "add", "239.0.0.0/8", "dev", "eth0"]));
    must(media.servers.check(&["ip", "address", "add", "10.0.2.12/24", "dev", "eth0"]));
    media
}

/// Groups that the proxy's host is a member of.
pub fn groups(media: &Media) -> String {
    must(media.proxy.check(&["ip", "maddress", "show", "dev", "servers"])).text().to_owned()
}

fn sources(driver: &str) {
    let media = start(driver);
    assert!(!groups(&media).contains("239.1.2.3"));
    for (name, from, to) in [
        ("hall", "10.0.2.11:7100", "239.1.2.3:5004"),
        ("garden", "[2001:db8:2::11]:7100", "[ff35::1:3]:5006"),
        ("own", "10.0.2.11:7102", "10.0.2.1:5010"),
    ] {
        let mut sender = Sender::new(&media, from, to, false);
        let mut first = viewer(&media, PROXIES[0], name, 1);
        first.play();
        sender.begin(&media);
        let passed = || {
            (
                ["forward4.shared", "forward6.shared"].map(|own| media.channel(own)),
                media.metric("media_packets_tapped_total"),
            )
        };
        let before = passed();
        sender.send(100);
        assert_eq!(compare(&first.receive(0, 100), &sender.sent), 0, "{name}");
        if driver == "xdp" {
            assert_eq!(passed(), before, "neither a worker nor the controller sees any");
        }
        // A second one of the other version of IP, and a third on its connection.
        let mut second = viewer(&media, PROXIES[1], name, 1);
        second.play();
        let mut third = Viewer::connect(&media.viewers, PROXIES[0].0, name);
        third.set_up_interleaved(0);
        third.play();
        sender.send(100);
        for own in [&mut first, &mut second, &mut third] {
            assert_eq!(compare(&own.receive(0, 100), &sender.sent), 0, "{name}");
        }
        // A stranger disturbs nobody. Where the source is named the kernel does not even hand on what it sends.
        let host = if name == "garden" { "[2001:db8:2::99]" } else { "10.0.2.12" };
        if name == "garden" {
            must(media.servers.check(&["ip", "address", "add", "2001:db8:2::99/64", "dev", "eth0", "nodad"]));
        }
        let before = media.metric("media_datagrams_foreign_total");
        let mut stranger = Sender::new(&media, &format!("{host}:7200"), to, false);
        stranger.send(20);
        sender.send(50);
        assert_eq!(compare(&first.receive(0, 50), &sender.sent), 0);
        let foreign = media.metric("media_datagrams_foreign_total") - before;
        assert_eq!(foreign, if name == "garden" { 0 } else { 20 }, "{name}");
        if name == "garden" {
            let filters = must(media.proxy.check(&["cat", "/proc/net/mcfilter6"])).text().to_owned();
            assert!(filters.contains("20010db8000200000000000000000011"), "{filters}");
        }
        for own in [first, second, third] {
            let mut own = own;
            own.good("TEARDOWN", &own.url.clone(), &[]);
        }
        media.wait("the group is not left", |media| !groups(media).contains(to.split(['[', ']']).nth(1).unwrap_or(to)));
    }
    media.wait("something is left", |media| media.json(&["media", "streams"]).as_array().unwrap().is_empty());
    media.stop();
}

#[test]
fn sources_without_rtsp_pass_in_the_kernel() {
    sources("xdp");
}

#[test]
fn sources_without_rtsp_pass_on_workers() {
    sources("afpacket");
}

/// One sender of a group is gone, and another one goes on: viewers' numbers go on, too.
#[test]
fn another_sender_of_a_group_goes_on() {
    let media = start("xdp");
    let mut first = Sender::new(&media, "10.0.2.11:7100", "239.1.2.3:5004", false);
    let mut own = viewer(&media, PROXIES[0], "hall", 1);
    own.play();
    assert!(groups(&media).contains("239.1.2.3"), "{}", groups(&media));
    first.begin(&media);
    first.send(50);
    let before = own.receive(0, 50);
    assert_eq!(compare(&before, &first.sent), 0);
    thread::sleep(Duration::from_millis(2500));
    let mut second = Sender::new(&media, "10.0.2.12:7300", "239.1.2.3:5004", false);
    second.begin(&media);
    second.send(50);
    let mut after = own.receive(0, 50);
    // The first ones come by the controller, which says how numbers go on, and those behind them by the kernel may
    // overtake them.
    after.sort_by_key(|packet| packet.0.wrapping_sub(before[49].0));
    assert_eq!(compare(&after, &second.sent), 0);
    assert_eq!(after[0].0, before[49].0.wrapping_add(1), "numbers go on");
    let gap = after[0].1.wrapping_sub(before[49].1);
    assert!((2 * 90_000..10 * 90_000).contains(&gap), "{gap} ticks of the time that has passed");
    assert_eq!(media.metric("media_senders_changed_total"), 1);
    // What comes now stays in the kernel.
    let direct = media.channel("forward4.output");
    second.send(20);
    assert_eq!(compare(&own.receive(0, 20), &second.sent), 0);
    assert!(media.channel("forward4.output") >= direct + 20);
    media.stop();
}

#[test]
fn bare_transport_streams_are_viewed() {
    let media = start("xdp");
    let mut sender = Sender::new(&media, "10.0.2.11:7100", "239.1.2.4:5008", true);
    let mut own = viewer(&media, PROXIES[1], "bare", 1);
    own.play();
    let mut carried = Viewer::connect(&media.viewers, PROXIES[0].0, "bare");
    carried.set_up_interleaved(0);
    carried.play();
    sender.send(100);
    for viewer in [&mut own, &mut carried] {
        let received = viewer.receive(0, 100);
        let payloads: Vec<_> = received.iter().map(|(.., payload)| payload.clone()).collect();
        assert!(payloads == sender.payloads, "the same in the same order");
        assert!(
            received
                .windows(2)
                .all(|two| two[1].0 == two[0].0.wrapping_add(1) && two[1].1.wrapping_sub(two[0].1) < 90_000)
        );
    }
    assert_eq!(media.metric("media_packets_relayed_total"), 100);
    // What is none is counted.
    sender.socket.send_to(&[0; 188], sender.to).unwrap();
    media.wait("it is not counted", |media| media.metric("media_datagrams_malformed_total") == 1);
    media.stop();
}

#[test]
fn a_server_sends_to_a_group() {
    let media = Media::start("xdp", &[("# transport = \"tcp\"", "transport = \"multicast\"")]);
    must(media.servers.check(&["ip", "route", "add", "239.0.0.0/8", "dev", "eth0"]));
    let options = Options { live: true, tracks: 1, group: Some("239.7.7.7".into()), ..Options::default() };
    let server = Server::start(&media.servers, &ORIGINS, &options);
    let mut own = viewer(&media, PROXIES[0], "door", 1);
    own.play();
    let received = own.receive(0, 100);
    assert!(groups(&media).contains("239.7.7.7"), "{}", groups(&media));
    let sent = server.log.lock().unwrap().sent[&0].clone();
    assert_eq!(compare(&received, &sent), 0);
    let report = wire::rtcp::parse(&own.report(0)).unwrap().senders[0];
    assert_eq!(report.ssrc, own.ssrc(0));
    media.wait("no report to the server", |_| !server.log.lock().unwrap().reports.is_empty());
    own.good("TEARDOWN", &own.url.clone(), &[]);
    media.wait("the group is not left", |media| !groups(media).contains("239.7.7.7"));
    assert_eq!(media.metric("media_packets_tapped_total"), 0);
    media.stop();
}
