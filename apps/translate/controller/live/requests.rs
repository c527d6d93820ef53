//! Requests that are no streams: refused, or answered by the proxy itself, one behind the other on a connection.

use std::io::Write;
use std::time::Duration;

use crate::Client;
use crate::network::{PROXIES, Proxy, must};

/// Users, and a stream that is for them and for who has the token.
const ACCESS: [(&str, &str); 2] = [
    ("# user = \"viewer\"", "viewers.tokens = [\"a-token-that-is-long\"]\nviewers.users = [\"alice\"]"),
    ("# [controllers.translate.users]\n# alice", "[controllers.translate.users]\nalice"),
];

#[test]
fn requests_are_answered() {
    let proxy = Proxy::start("xdp", &ACCESS);
    for (client, (text, answer)) in PROXIES.into_iter().cycle().zip([
        ("GET /nothing HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n", "404 Not Found"),
        ("GET / HTTP/1.1\r\nHost: a\r\nX: y\r\n z\r\n\r\n", "400 Bad Request"),
        ("POST /tower HTTP/1.0\r\n\r\n", "405 Method Not Allowed"),
        ("GET /hall HTTP/1.0\r\n\r\n", "401 Unauthorized"),
        ("GET /hall?token=wrong HTTP/1.0\r\n\r\n", "403 Forbidden"),
        ("GET /rtp/240.1.1.1:5 HTTP/1.0\r\n\r\n", "403 Forbidden"),
    ]) {
        let mut own = Client::connect(&proxy, client);
        // In pieces.
        for piece in text.as_bytes().chunks(7) {
            own.0.write_all(piece).unwrap();
            std::thread::sleep(Duration::from_millis(2));
        }
        let said = own.rest();
        assert!(said.starts_with(&format!("HTTP/1.1 {answer}\r\n")) && said.contains("Connection: close"), "{said}");
    }
    let list = Client::ask(&proxy, PROXIES[0], "/playlist.m3u").rest();
    assert!(list.ends_with("#EXTINF:-1,The hall\nhttp://proxy/hall\n#EXTINF:-1,tower\nhttp://proxy/tower\n"), "{list}");
    // TLS, where nobody speaks it: a fatal alert.
    let mut own = Client::connect(&proxy, PROXIES[0]);
    own.0.write_all(b"\x16\x03\x01\x02\0\x01\r\n\r\n").unwrap();
    assert_eq!(own.take(7), [21, 3, 3, 0, 2, 2, 40]);
    assert_eq!(own.rest(), "");
    pipelined(&proxy);
    curl(&proxy);
    proxy.wait("something is left", |proxy| proxy.metric("translate_connections") == 0);
    proxy.stop();
}

/// Many at once, and the end of what the client sends behind them; each is answered, in order.
fn pipelined(proxy: &Proxy) {
    let before = proxy.metric("translate_requests_total");
    let mut own = Client::connect(proxy, PROXIES[1]);
    let one = "GET /playlist.m3u HTTP/1.1\r\nHost: a\r\n\r\n";
    let other = "HEAD /nothing HTTP/1.1\r\nHost: a\r\n\r\n";
    own.0.write_all([one, other].concat().repeat(100).as_bytes()).unwrap();
    own.0.shutdown(std::net::Shutdown::Write).unwrap();
    let said = own.rest();
    let statuses: Vec<&str> = said.split("HTTP/1.1 ").skip(1).map(|own| &own[..3]).collect();
    assert_eq!(statuses, ["200", "404"].repeat(100));
    assert_eq!(proxy.metric("translate_requests_total") - before, 200);
}

/// What curl finds: statuses, and connections that each request took.
fn curl(proxy: &Proxy) {
    let run = |arguments: &[&str]| {
        let fixed = ["-sS", "--max-time", "20", "-w", "%{http_code} %{num_connects}\n", "-o", "/dev/null"];
        let is_path = |own: &str| own.starts_with('/') && own != "/dev/null";
        let url = |own: &&str| if is_path(own) { format!("http://10.0.1.1:8080{own}") } else { (*own).to_owned() };
        let arguments: Vec<String> = arguments.iter().map(url).collect();
        must(proxy.viewers.command("curl").args(fixed).args(&arguments).run()).text()
    };
    let outputs = ["-o", "/dev/null", "-o", "/dev/null"];
    let kept = run(&[&["/playlist.m3u", "/status", "/nothing"][..], &outputs].concat());
    assert_eq!(kept, "200 1\n200 0\n404 0\n");
    let old = run(&["-0", "/playlist.m3u", "/status", "-o", "/dev/null"]);
    assert_eq!(old, "200 1\n200 1\n");
    let user = ["-u", "alice:her password", "-I", "/hall"];
    // Without a password in the request before the challenge.
    for scheme in ["--digest", "--anyauth", "--basic"] {
        assert!(run(&[&[scheme], &user[..]].concat()).starts_with("200 "), "{scheme}");
    }
    assert!(run(&["--digest", "-u", "alice:guess", "-I", "/hall"]).starts_with("401 "));
}
