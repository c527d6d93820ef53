//! What is refused because it is too much.

use crate::network::Splice;
use crate::web::{Client, sum};
use crate::{VIRTUAL, VIRTUAL6, servers, wait_until_up};

const SELDOM: (&str, &str) = ("interval = \"1s\", timeout", "interval = \"1h\", timeout");

#[test]
fn a_body_that_is_too_long_is_refused() {
    let splice = Splice::start("afpacket", &[("connections = 65536", "request_body = 20000")], None);
    let _servers = servers(&splice);
    wait_until_up(&splice);
    for address in [VIRTUAL, VIRTUAL6] {
        let mut client = Client::connect(&splice.client, address).unwrap();
        for chunked in [false, true] {
            let body = vec![7; 20_000];
            assert_eq!(
                client.put("/sum", &body, chunked).unwrap().body,
                format!("20000 {:x}", sum(&body)).into_bytes()
            );
        }
        client.send(b"PUT /sum HTTP/1.1\r\nHost: x\r\nContent-Length: 20001\r\n\r\n").unwrap();
        assert_eq!(client.receive("PUT").unwrap().status, 413);
        assert!(client.is_closed());
        // In chunks it is known as soon as one says so, by then the server has some.
        let mut client = Client::connect(&splice.client, address).unwrap();
        let chunk = [b"1000\r\n", &[7; 4096][..], b"\r\n"].concat();
        client.send(b"PUT /sum HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n").unwrap();
        for _ in 0..5 {
            client.send(&chunk).unwrap();
            std::thread::sleep(std::time::Duration::from_millis(20));
        }
        assert_eq!(client.receive("PUT").unwrap().status, 413);
        assert!(client.is_closed());
    }
    splice.stop();
}

/// Clients that stay after a request, and how many of them were served.
fn stay(splice: &Splice, count: usize) -> Vec<std::io::Result<Client>> {
    let one = |_| {
        let mut client = Client::connect(&splice.client, VIRTUAL)?;
        let response = client.get("/x")?;
        if response.status == 200 { Ok(client) } else { Err(std::io::Error::other(response.status.to_string())) }
    };
    (0..count).map(one).collect()
}

/// The connections of the beginning are gone.
fn wait_until_empty(splice: &Splice) {
    std::thread::sleep(std::time::Duration::from_millis(500));
    assert!(Client::connect(&splice.client, VIRTUAL).and_then(|mut client| client.get("/x")).is_ok());
    std::thread::sleep(std::time::Duration::from_millis(500));
}

#[test]
fn a_full_table_refuses_more() {
    let splice = Splice::start("afpacket", &[SELDOM, ("connections = 65536", "connections = 4")], None);
    let _servers = servers(&splice);
    wait_until_up(&splice);
    wait_until_empty(&splice);
    let mut clients = stay(&splice, 6);
    let served: Vec<bool> = clients.iter().map(Result::is_ok).collect();
    assert_eq!(served, [true, true, true, true, false, false]);
    // Those that have a place keep it.
    clients[..4].iter_mut().for_each(|client| assert_eq!(client.as_mut().unwrap().get("/y").unwrap().status, 200));
    splice.stop();
}

#[test]
fn a_full_table_makes_room() {
    let changes = [SELDOM, ("connections = 65536", "connections = 4\nwhen_full = \"oldest_idle\"")];
    let splice = Splice::start("afpacket", &changes, None);
    let _servers = servers(&splice);
    wait_until_up(&splice);
    wait_until_empty(&splice);
    let mut clients = stay(&splice, 4);
    // They are idle since different seconds.
    std::thread::sleep(std::time::Duration::from_millis(1100));
    for client in &mut clients[..2] {
        assert_eq!(client.as_mut().unwrap().get("/y").unwrap().status, 200);
    }
    std::thread::sleep(std::time::Duration::from_millis(1100));
    let more = stay(&splice, 2);
    assert!(more.iter().all(Result::is_ok));
    for (number, client) in clients.iter_mut().enumerate() {
        let client = client.as_mut().unwrap();
        match number {
            0 | 1 => assert_eq!(client.get("/z").unwrap().status, 200),
            _ => assert!(client.is_closed(), "{number}"),
        }
    }
    splice.stop();
}

/// Each own address has as many ports towards each server as the configuration says.
#[test]
fn ports_are_used_up_and_addresses_make_more() {
    for (addresses, most) in [("\"10.0.2.254/24\"", 8), ("\"10.0.2.254/24\", \"10.0.2.253/24\"", 16)] {
        let ports = format!("ports = \"40000-40003\"\naddresses = [{addresses}");
        let changes = [SELDOM, ("addresses = [\"10.0.2.254/24\"", &ports), ("balance", "reuse = \"never\"\nbalance")];
        let images = (
            "[controllers.splice.pools.images]\n",
            "[controllers.splice.pools.images]\ncheck = { interval = \"1h\" }\n",
        );
        let splice = Splice::start("afpacket", &[&changes[..], &[images]].concat(), None);
        let _servers = servers(&splice);
        // The checks alone have used ports so far, and those are free again.
        splice.wait("no server is up", |splice| splice.said().matches("up=true").count() >= 6);
        let clients = stay(&splice, most + 2);
        let served = clients.iter().filter(|client| client.is_ok()).count();
        assert_eq!(served, most, "{}", splice.said());
        let refused = clients.last().unwrap().as_ref().err().map(ToString::to_string);
        assert_eq!(refused.as_deref(), Some("503"));
        splice.stop();
    }
}
