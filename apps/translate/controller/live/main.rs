//! Streams translated to HTTP on live network namespaces: ordinary clients, of which every byte is compared.
//!
//! They need root, and fail without.

mod host;
mod network;
#[path = "../../../media/controller/tests/support/origin.rs"]
mod origin;
mod outlast;
mod requests;
mod rtsp;
mod sender;

#[allow(dead_code)]
#[path = "../../../../tests/support/instance.rs"]
mod instance;
#[allow(dead_code)]
#[path = "../../../../tests/support/process.rs"]
mod process;

use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::atomic::{AtomicBool, Ordering};

use network::{PROXIES, Proxy, must};
use sender::{Sender, compare};

/// A client of the kernel's TCP.
struct Client(TcpStream);

impl Client {
    fn connect(proxy: &Proxy, address: &str) -> Client {
        let stream = must(proxy.viewers.enter(|| TcpStream::connect(address))).expect("a connection");
        stream.set_read_timeout(Some(network::START)).unwrap();
        Client(stream)
    }

    fn ask(proxy: &Proxy, address: &str, target: &str) -> Client {
        let mut own = Client::connect(proxy, address);
        let fields = "Host: proxy\r\nUser-Agent: test\r\nConnection: close";
        write!(own.0, "GET {target} HTTP/1.1\r\n{fields}\r\n\r\n").unwrap();
        own
    }

    /// The head of the answer.
    fn head(&mut self) -> String {
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            let mut byte = [0];
            self.0.read_exact(&mut byte).unwrap_or_else(|error| panic!("{error} behind {head:?}"));
            head.extend(byte);
        }
        String::from_utf8(head).unwrap()
    }

    fn take(&mut self, bytes: usize) -> Vec<u8> {
        let mut taken = vec![0; bytes];
        self.0.read_exact(&mut taken).unwrap();
        taken
    }

    /// Whole packets up to the end of the connection, whatever that is.
    fn all(mut self) -> Vec<u8> {
        let (mut all, mut some) = (Vec::new(), [0; 65536]);
        while let Ok(bytes @ 1..) = self.0.read(&mut some) {
            all.extend(&some[..bytes]);
        }
        all.truncate(all.len() / sender::PACKET * sender::PACKET);
        all
    }

    /// All up to the end of the connection.
    fn rest(mut self) -> String {
        let mut all = Vec::new();
        self.0.read_to_end(&mut all).unwrap();
        String::from_utf8_lossy(&all).into_owned()
    }
}

/// Has a sender send as long as something else goes on.
fn during<T: Send>(sender: &mut Sender, what: impl FnOnce() -> T + Send) -> T {
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let sending = scope.spawn(|| {
            while !done.load(Ordering::Relaxed) {
                sender.send(1);
            }
        });
        let result = std::panic::catch_unwind(std::panic::AssertUnwindSafe(what));
        done.store(true, Ordering::Relaxed);
        sending.join().unwrap();
        result.unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}

const BYTES: usize = 1316 * 200;

/// Each kind of source and URL, over both versions of IP.
fn sources(driver: &str) {
    let proxy = Proxy::start(driver, &[]);
    for (client, (from, to, target)) in PROXIES.into_iter().cycle().zip([
        ("10.0.2.11:7100", "239.1.2.3:5004", "/tower"),
        ("10.0.2.11:7101", "239.1.2.4:5006", "/rtp/239.1.2.4:5006"),
        ("[2001:db8:2::11]:7102", "[ff15::5]:5008", "/rtp/[2001:db8:2::11]@[ff15::5]:5008"),
        ("10.0.2.11:7103", "10.0.2.1:5010", "/udp/10.0.2.1:5010"),
    ]) {
        let mut sender = Sender::new(&proxy, from, to, false);
        let taken = during(&mut sender, || {
            let mut client = Client::ask(&proxy, client, target);
            let head = client.head();
            assert!(head.starts_with("HTTP/1.1 200 OK\r\nContent-Type: video/mp2t\r\n"), "{head}");
            client.take(BYTES)
        });
        compare(&taken, &sender.payloads, 0);
    }
    // Without RTP.
    let mut sender = Sender::new(&proxy, "10.0.2.11:7104", "239.1.2.5:5012", true);
    let taken = during(&mut sender, || {
        let mut client = Client::ask(&proxy, PROXIES[0], "/udp/239.1.2.5:5012");
        client.head();
        client.take(BYTES)
    });
    compare(&taken, &sender.payloads, 0);
    proxy.wait("something is left", |proxy| {
        proxy.metric("translate_connections") == 0 && proxy.metric("translate_streams") == 0
    });
    proxy.stop();
}

#[test]
fn streams_of_all_kinds_pass_in_the_kernel() {
    sources("xdp");
}

#[test]
fn streams_of_all_kinds_pass_on_workers() {
    sources("afpacket");
}

#[test]
fn viewers_share_a_stream_and_leave_it() {
    let proxy = Proxy::start("xdp", &[("reorder = \"0ms\"", "reorder = \"20ms\"")]);
    let mut sender = Sender::new(&proxy, "10.0.2.11:7100", "239.1.2.3:5004", false);
    // Where packets come in another order, workers put them right.
    sender.swaps = 20;
    assert!(!proxy.groups().contains("239.1.2.3"));
    // The first one never stops reading: one that lags behind loses packets.
    let (first, second) = during(&mut sender, || {
        std::thread::scope(|scope| {
            let mut first = Client::ask(&proxy, PROXIES[0], "/tower");
            first.head();
            let first = scope.spawn(move || first.all());
            proxy.wait("nothing goes straight", |proxy| proxy.counter("only.sent") >= 150);
            let copies = proxy.json(&["counters"])["channels"]["kernel -> only.keep"].clone();
            assert!(copies.as_u64() >= Some(100), "{copies} copies have come from the kernel");
            let mut second = Client::ask(&proxy, PROXIES[1], "/tower");
            second.head();
            let shared = proxy.counter("only.sent");
            let taken = second.take(BYTES);
            assert_eq!(proxy.counter("only.sent"), shared, "two have it");
            let shown = proxy.json(&["translate", "streams"]);
            assert_eq!((&shown[0]["stream"], &shown[0]["viewers"]), (&"tower".into(), &2.into()), "{shown}");
            drop(second);
            proxy.wait("it has not left", |proxy| proxy.metric("translate_connections") == 1);
            // Nobody else notices.
            proxy.wait("nothing goes straight again", |proxy| proxy.counter("only.sent") >= shared + 150);
            assert!(proxy.groups().contains("239.1.2.3"));
            // One that an operator ends.
            let sessions = proxy.json(&["translate", "sessions"]);
            assert_eq!(
                (&sessions[0]["state"], &sessions[0]["user_agent"]),
                (&"plays".into(), &"test".into()),
                "{sessions}"
            );
            proxy.millrace(&["translate", "kick", &sessions[0]["id"].to_string()]);
            proxy.wait("it is still there", |proxy| proxy.metric("translate_connections") == 0);
            (first.join().unwrap(), taken)
        })
    });
    assert!(first.len() > 2 * BYTES, "{} bytes", first.len());
    compare(&first, &sender.payloads, 0);
    compare(&second, &sender.payloads, 0);
    proxy.wait("the group is not left", |proxy| !proxy.groups().contains("239.1.2.3"));
    proxy.stop();
}

#[test]
fn a_source_that_is_silent_is_told() {
    let proxy = Proxy::start("xdp", &[("first = \"10s\"", "first = \"1s\"")]);
    let said = Client::ask(&proxy, PROXIES[0], "/tower").rest();
    assert!(said.starts_with("HTTP/1.1 503 Service Unavailable\r\n"), "{said}");
    assert!(said.ends_with("Nothing comes from the stream's source.\n"), "{said}");
    proxy.stop();
}

#[test]
fn streams_of_servers_pass() {
    let proxy = Proxy::start("xdp", &[]);
    rtsp::streams(&proxy, false);
    assert_eq!(proxy.metric("translate_packets_relayed_total"), 0);
    proxy.stop();
}

#[test]
fn streams_of_servers_pass_on_their_connections() {
    let proxy = Proxy::start("xdp", &[]);
    rtsp::streams(&proxy, true);
    assert!(proxy.metric("translate_packets_relayed_total") >= 200);
    assert_eq!(proxy.metric("translate_packets_malformed_total"), 0);
    proxy.stop();
}

#[test]
fn a_reload_disturbs_nobody() {
    let proxy = Proxy::start("xdp", &[]);
    let mut sender = Sender::new(&proxy, "10.0.2.11:7100", "239.1.2.3:5004", false);
    let taken = during(&mut sender, || {
        let mut client = Client::ask(&proxy, PROXIES[0], "/tower");
        client.head();
        let before = client.take(BYTES);
        // Other settings, and a program that takes over.
        proxy.reload("first = \"10s\"", "first = \"11s\"");
        [before, client.take(BYTES)].concat()
    });
    compare(&taken, &sender.payloads, 0);
    proxy.stop();
}

#[test]
fn lost_segments_are_sent_again() {
    let proxy = Proxy::start("xdp", &[]);
    let mut sender = Sender::new(&proxy, "10.0.2.11:7100", "239.1.2.3:5004", false);
    proxy.lose(2);
    let taken = during(&mut sender, || {
        let mut client = Client::ask(&proxy, PROXIES[0], "/tower");
        client.head();
        let taken = client.take(1316 * 1000);
        let sessions = proxy.json(&["translate", "sessions"]);
        assert!(sessions[0]["again"].as_u64().unwrap() > 0, "{sessions}");
        taken
    });
    // The original has come in time, each time; where the rate is too low for the stream, packets of it are left out.
    compare(&taken, &sender.payloads, 1000);
    proxy.stop();
}

/// curl is people's own client.
#[test]
fn curl_reads_a_stream() {
    let proxy = Proxy::start("xdp", &[]);
    let mut sender = Sender::new(&proxy, "10.0.2.11:7100", "239.1.2.3:5004", false);
    let taken = during(&mut sender, || {
        let command = proxy.viewers.command("curl").args(["-sS", "--max-time", "3", "http://10.0.1.1:8080/tower"]);
        must(command.run()).stdout
    });
    assert!(taken.len() > BYTES, "{} bytes", taken.len());
    compare(&taken[..taken.len() / 1316 * 1316], &sender.payloads, 0);
    proxy.stop();
}
