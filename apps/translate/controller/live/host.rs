//! What servers of the host have: other paths, WebSocket, TLS.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};

use crate::Client;
use crate::network::{PROXIES, Proxy, must};

/// A head, without what is behind it.
fn head(stream: &mut TcpStream) -> String {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        let mut byte = [0];
        stream.read_exact(&mut byte).unwrap();
        head.extend(byte);
    }
    String::from_utf8(head).unwrap()
}

/// Says what it hears, up to its end.
fn echo(mut stream: TcpStream) {
    let mut buffer = vec![0; 10_000];
    loop {
        let count = stream.read(&mut buffer).unwrap();
        if count == 0 {
            return stream.shutdown(Shutdown::Write).unwrap();
        }
        stream.write_all(&buffer[..count]).unwrap();
    }
}

/// Has a client send bytes and then their end, and compares what comes back.
fn there_and_back(client: &mut Client, bytes: &[u8]) {
    let mut sending = client.0.try_clone().unwrap();
    std::thread::scope(|scope| {
        scope.spawn(move || {
            sending.write_all(bytes).unwrap();
            sending.shutdown(Shutdown::Write).unwrap();
        });
        assert!(client.take(bytes.len()) == bytes, "its bytes, exactly");
        assert_eq!(client.0.read(&mut [0]).unwrap(), 0, "and the end");
    });
}

#[test]
fn other_paths_and_protocols_are_the_host_s_own_servers() {
    let proxy = Proxy::start(
        "xdp",
        &[
            ("# http_server = \"127.0.0.1:80\"", "http_server = \"10.0.2.11:80\""),
            ("# https_server = \"127.0.0.1:443\"", "https_server = \"10.0.2.11:443\""),
        ],
    );
    let listen = |address: &str| must(proxy.servers.enter(|| TcpListener::bind(address))).unwrap();
    let (plain, secure) = (listen("10.0.2.11:80"), listen("10.0.2.11:443"));
    let body: Vec<u8> = (0..300_000u32).map(|at| (at / 7) as u8).collect();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for path in ["/page?x", "/page?y", "/chat"] {
                let (mut stream, _) = plain.accept().unwrap();
                let asked = head(&mut stream);
                assert!(asked.starts_with(&format!("GET {path} HTTP/1.1\r\n")), "{asked}");
                if path == "/chat" {
                    write!(stream, "HTTP/1.1 101 Yes\r\nUpgrade: websocket\r\nConnection: upgrade\r\n\r\n").unwrap();
                    echo(stream);
                } else {
                    write!(stream, "HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n", body.len()).unwrap();
                    stream.write_all(&body).unwrap();
                }
            }
        });
        scope.spawn(|| {
            for _ in PROXIES {
                echo(secure.accept().unwrap().0);
            }
        });
        // All on one connection, which then is WebSocket's.
        let mut client = Client::connect(&proxy, PROXIES[0]);
        for path in ["/page?x", "/page?y"] {
            write!(client.0, "GET {path} HTTP/1.1\r\nHost: proxy\r\n\r\n").unwrap();
            let head = client.head();
            assert!(head.starts_with("HTTP/1.1 200 OK\r\n") && head.contains("Connection: keep-alive"), "{head}");
            assert!(client.take(body.len()) == body, "its bytes, exactly");
        }
        let fields = "Host: proxy\r\nUpgrade: websocket\r\nConnection: upgrade\r\n";
        write!(client.0, "GET /chat HTTP/1.1\r\n{fields}\r\n").unwrap();
        assert!(client.head().starts_with("HTTP/1.1 101 Yes\r\n"));
        there_and_back(&mut client, &body[..100_000]);
        for address in PROXIES {
            let mut client = Client::connect(&proxy, address);
            there_and_back(&mut client, &[b"\x16\x03\x01", &body[..]].concat());
        }
    });
    proxy.wait("something is left", |proxy| proxy.metric("translate_connections") == 0);
    assert_eq!(proxy.metric("translate_tunnels_total"), 3);
    proxy.stop();
}
