//! Interfaces that the kernel has, too: addresses and routes are the kernel's, and so is all that is not the splicer's.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpStream, UdpSocket};
use std::time::Duration;

use lab::Namespace;

use crate::network::{PATIENCE, SERVERS, Splice, must};
use crate::outlast::{make_patient, under_load};
use crate::web::{Client, Listener, Server, pattern};
use crate::{VIRTUAL, VIRTUAL6, servers, wait_until_up};

/// The example without what the kernel knows.
const SHARED: [(&str, &str); 3] = [
    ("mac = \"02:00:00:00:01:fe\"\n", ""),
    ("mac = \"02:00:00:00:02:fe\"\n", ""),
    ("addresses = [\"10.0.2.254/24\", \"2001:db8:2::254/64\"]\n", ""),
];
/// The host's addresses, of which one of each version is virtual, too.
const ADDRESSES: [(&str, &str); 4] = [
    ("clients", "10.0.1.80/24"),
    ("clients", "2001:db8:1::80/64"),
    ("servers", "10.0.2.254/24"),
    ("servers", "2001:db8:2::254/64"),
];

fn ip(host: &Namespace, command: &str) {
    must(host.check(&std::iter::once("ip").chain(command.split(' ')).collect::<Vec<_>>()));
}

/// Gives the host its addresses; Millrace runs already.
fn address(host: &Namespace) {
    for port in ["clients", "servers"] {
        ip(host, &format!("link set dev {port} arp on"));
        must(host.set_sysctl(&format!("net/ipv6/conf/{port}/disable_ipv6"), "0"));
    }
    for (port, address) in ADDRESSES {
        let nodad = if address.contains(':') { " nodad" } else { "" };
        ip(host, &format!("address add {address} dev {port}{nodad}"));
    }
}

fn start() -> (Splice, [Server; 4]) {
    let splice = Splice::start("xdp", &SHARED, None);
    let servers = servers(&splice);
    // As long as the kernel has no route nobody is up, and it is said why.
    splice.wait("the kernel's routes are not asked for", |splice| {
        splice.millrace(&["servers"]).stdout.contains("the kernel has no route to it")
    });
    address(splice.host());
    wait_until_up(&splice);
    (splice, servers)
}

/// What the kernel does at the same addresses while the splicer works there.
fn kernel_serves(splice: &Splice) {
    let host = splice.host();
    for address in ["10.0.1.80", "2001:db8:1::80"] {
        assert!(splice.client.ping(address, PATIENCE).unwrap(), "{address}");
    }
    assert!(splice.servers.ping("10.0.2.254", PATIENCE).unwrap());
    // A server of the kernel's at a virtual address.
    let _listener = Listener::start(host, "10.0.1.80:8080", |mut stream| stream.write_all(b"the kernel's"));
    let mut stream = splice.client.enter(|| TcpStream::connect("10.0.1.80:8080")).unwrap().unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    let mut text = String::new();
    stream.read_to_string(&mut text).unwrap();
    assert_eq!(text, "the kernel's");
    // A port where nobody listens: the kernel refuses.
    let refused = splice.client.enter(|| TcpStream::connect("10.0.1.80:8081")).unwrap();
    assert_eq!(refused.unwrap_err().kind(), std::io::ErrorKind::ConnectionRefused);
    // A connection of the kernel's to a server of the splicer's.
    let mut client = Client::connect(host, SERVERS[0]).unwrap();
    assert_eq!(client.get("/bytes/100000").unwrap().body, pattern(100_000));
    // UDP, both ways.
    let (own, other) =
        (host.enter(|| UdpSocket::bind("10.0.1.80:5000")), splice.client.enter(|| UdpSocket::bind("10.0.1.11:5001")));
    let (own, other) = (own.unwrap().unwrap(), other.unwrap().unwrap());
    own.set_read_timeout(Some(PATIENCE)).unwrap();
    other.set_read_timeout(Some(PATIENCE)).unwrap();
    let mut buffer = [0; 100];
    other.send_to(b"question", "10.0.1.80:5000").unwrap();
    let (length, from) = own.recv_from(&mut buffer).unwrap();
    assert_eq!((&buffer[..length], from.ip()), (&b"question"[..], Ipv4Addr::new(10, 0, 1, 11).into()));
    own.send_to(b"answer", from).unwrap();
    let length = other.recv(&mut buffer).unwrap();
    assert_eq!(&buffer[..length], b"answer");
}

#[test]
fn the_kernel_keeps_what_is_its_own() {
    let (splice, _servers) = start();
    kernel_serves(&splice);
    for address in [VIRTUAL, VIRTUAL6] {
        let mut client = Client::connect(&splice.client, address).unwrap();
        for size in [10, 1_000_000] {
            assert_eq!(client.get(&format!("/bytes/{size}")).unwrap().body, pattern(size));
        }
        assert_eq!(client.put("/images/up", &pattern(300_000), true).unwrap().status, 200);
        // Servers see the host's address towards them, and a port that the kernel gives nobody.
        let seen = String::from_utf8(client.get("/peer").unwrap().body).unwrap();
        let (host, port) = seen.rsplit_once(':').unwrap();
        assert!(["10.0.2.254", "[2001:db8:2::254]"].contains(&host), "{seen}");
        assert!((10_000..=32_767).contains(&port.parse::<u16>().unwrap()), "{seen}");
    }
    kernel_serves(&splice);
    let (report, _) = splice.stop();
    // Nothing of the kernel's was dropped.
    assert_eq!(
        [report.dropped("other_address"), report.dropped("other_protocol"), report.dropped("no_interface")],
        [0; 3]
    );
}

#[test]
fn routes_of_the_kernel_are_followed() {
    let (splice, _servers) = start();
    // A server behind a router, which is the other servers' host.
    ip(&splice.servers, "address add 10.0.3.11/32 dev lo");
    must(splice.servers.set_sysctl("net/ipv4/ip_forward", "1"));
    let _far = Server::start(&splice.servers, "10.0.3.11:80", "far");
    splice.reload(&[(
        "{ name = \"b\", address = \"10.0.2.12:80\" }, { name = \"b6\"",
        "{ name = \"far\", address = \"10.0.3.11:80\" }, { name = \"b6\"",
    )]);
    splice.wait("there is no route yet", |splice| {
        splice.millrace(&["servers"]).stdout.contains("the kernel has no route to it")
    });
    ip(splice.host(), "route add 10.0.3.0/24 via 10.0.2.12");
    let far = |splice: &Splice| {
        let mut client = Client::connect(&splice.client, VIRTUAL)?;
        client.get("/images/far").map(|answer| answer.server == "far")
    };
    splice.wait("the server behind the router is not up", |splice| far(splice).is_ok_and(|is_far| is_far));
    // The route leads elsewhere: by the other router. Connections that there are go on.
    let mut client = Client::connect(&splice.client, VIRTUAL).unwrap();
    assert_eq!(client.get("/images/1").unwrap().server, "far");
    ip(splice.host(), "route replace 10.0.3.0/24 via 10.0.2.11");
    std::thread::sleep(Duration::from_secs(3));
    assert_eq!(client.get("/images/2").unwrap().server, "far");
    assert!(far(&splice).unwrap());
    // No route any more: it is said so, and requests are refused.
    ip(splice.host(), "route del 10.0.3.0/24");
    splice.wait("the server is up without a route", |splice| {
        let status = Client::connect(&splice.client, VIRTUAL).and_then(|mut client| client.get("/images/3"));
        status.is_ok_and(|answer| answer.status == 503)
    });
    splice.stop();
}

#[test]
fn connections_outlast_reloads_and_crashes() {
    let (mut splice, _servers) = start();
    make_patient(&splice);
    under_load(&mut splice, [VIRTUAL, VIRTUAL6], 2_000_000, 2, |splice, time| match time {
        0 => _ = splice.reload(&[("path = \"/images/*\"", "path = \"/images/*\" ")]),
        _ => {
            std::thread::sleep(Duration::from_millis(300));
            splice.crash(Duration::from_millis(300));
        }
    });
    kernel_serves(&splice);
    splice.stop();
}
