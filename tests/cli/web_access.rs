//! Who may use the HTTP API of a running instance, where it is, and what is done about those who ill-treat it.

use std::io::Write;
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt;
use std::thread;
use std::time::{Duration, Instant};

use serde_json::{Value as Json, json};

use crate::PATCH;
use crate::http::{ask, connect, raw};
use crate::instance::Runtime;
use crate::web::{LIMIT, TOKEN, address, get, switch, token_file, with_token};

#[test]
fn who_has_the_token_may_change_something() {
    let runtime = Runtime::new();
    let (instance, _) = switch(&runtime, &format!("listen = 0\ntoken_file = \"{}\"", token_file(&runtime)));
    let address = address(&instance);
    let entry = "/api/v1/tables/l3_forward.fib/entries/10.9.0.0%2F16";
    let set = |value: Json| with_token(&address, "PUT", entry, &json!({ "value": value }));
    assert_eq!(set(json!(1)).ok(), json!({ "key": "10.9.0.0/16", "value": 1 }));
    assert_eq!(runtime.json(&["table", "get", "l3_forward.fib", "10.9.8.7"])["value"], 1);
    assert_eq!(set(json!(3)).refused(422), "bad_value");
    assert_eq!(with_token(&address, "DELETE", entry, &Json::Null).ok(), json!({}));
    assert_eq!(with_token(&address, "DELETE", entry, &Json::Null).refused(404), "not_found");
    let all = "/api/v1/tables/l3_forward.fib/entries";
    let two = json!([{ "key": "10.8.0.0/16", "value": 1 }, { "key": "10.9.0.0/16", "value": 2 }]);
    assert_eq!(with_token(&address, "POST", all, &two).ok(), json!({ "entries": 2 }));
    assert_eq!(get(&address, entry).ok()["value"], 2);
    // Who asked is logged, the token is not.
    let log = instance.stderr();
    assert!(log.contains("table entry set") && log.contains("address=127.0.0.1:"), "{log}");
    assert!(!log.contains(TOKEN));
    let bearer = format!("Authorization: Bearer {TOKEN}\r\n");
    // What a page of somebody else can send by itself: no field, or a form.
    let form = format!("{bearer}Content-Type: text/plain\r\n");
    assert_eq!(ask(&address, "PUT", entry, &form, "{\"value\":1}").refused(415), "bad_request");
    let json = format!("{bearer}Content-Type: application/json\r\n");
    for foreign in ["Origin: http://evil.example\r\n", "Origin: null\r\n", "Sec-Fetch-Site: cross-site\r\n"] {
        let answer = ask(&address, "PUT", entry, &format!("{json}{foreign}"), "{\"value\":1}");
        assert_eq!(answer.refused(403), "forbidden", "{foreign}");
        assert_eq!(ask(&address, "GET", "/api/v1/live", foreign, "").refused(403), "forbidden", "{foreign}");
    }
    let own = format!("{json}Origin: http://{address}\r\nSec-Fetch-Site: same-origin\r\n");
    assert_eq!(ask(&address, "PUT", entry, &own, "{\"value\":1}").ok()["value"], 1);
    for wrong in [format!("Bearer {TOKEN}0"), "Bearer ".into(), format!("Basic {TOKEN}"), TOKEN.into()] {
        let fields = format!("Authorization: {wrong}\r\nContent-Type: application/json\r\n");
        let answer = ask(&address, "PUT", entry, &fields, "{\"value\":2}");
        assert_eq!(answer.refused(401), "unauthorized", "{wrong}");
        assert!(answer.head.contains("www-authenticate: Bearer"), "{answer:?}");
    }
    assert_eq!(ask(&address, "POST", "/api/v1/stop", "", "").refused(401), "unauthorized");
    assert_eq!(get(&address, entry).ok()["value"], 1);
    for body in ["", "{", "{\"value\":1,\"more\":2}", "[]", "\u{0}"] {
        assert_eq!(ask(&address, "PUT", entry, &json, body).refused(400), "bad_request", "{body}");
    }
    assert_eq!(with_token(&address, "POST", "/api/v1/stop", &Json::Null).ok(), json!({}));
    assert_eq!(instance.end().status, Some(0));
}

#[test]
fn without_a_token_it_only_reads() {
    let runtime = Runtime::new();
    let (instance, _) = switch(&runtime, "listen = 0");
    let address = address(&instance);
    assert_eq!(get(&address, "/api/v1/access").ok(), json!({ "read": true, "write": false, "token": false }));
    let entry = "/api/v1/tables/l3_forward.fib/entries/10.9.0.0%2F16";
    for (method, path) in [("PUT", entry), ("DELETE", entry), ("POST", "/api/v1/reload"), ("POST", "/api/v1/stop")] {
        assert_eq!(with_token(&address, method, path, &json!({ "value": 1 })).refused(403), "forbidden", "{path}");
    }
    for host in ["evil.example", "localhost.evil.example"] {
        let fields = format!("Host: {host}\r\n");
        for path in ["/", "/api/v1/status", "/api/v1/live"] {
            assert_eq!(ask(&address, "GET", path, &fields, "").refused(421), "bad_request", "{host} {path}");
        }
    }
    assert_eq!(ask(&address, "GET", "/", "Host: localhost\r\n", "").status, 200);
}

#[test]
fn readers_need_the_token_where_that_is_told() {
    let runtime = Runtime::new();
    let web = format!("listen = 0\nreaders = \"token\"\ntoken_file = \"{}\"", token_file(&runtime));
    let (instance, _) = switch(&runtime, &web);
    let address = address(&instance);
    for path in ["status", "counters", "graph", "history", "live", "tables", "queries", "tables/l3_forward.fib/entries"]
    {
        assert_eq!(get(&address, &format!("/api/v1/{path}")).refused(401), "unauthorized", "{path}");
    }
    assert_eq!(get(&address, "/api/v1/access").ok(), json!({ "read": false, "write": false, "token": true }));
    assert_eq!(get(&address, "/").status, 200, "the page asks for the token");
    with_token(&address, "GET", "/api/v1/status", &Json::Null).ok();
}

#[test]
fn a_reload_changes_where_and_for_whom_it_is() {
    let runtime = Runtime::new();
    let token = token_file(&runtime);
    let ports = "[ports.a]\nnumber = 1\ndevice = \"mem:\"\n";
    let write = |web: &str| runtime.write("w.toml", &format!("{ports}{web}"));
    let config = write("");
    let instance = runtime.start(&[PATCH, "-c", &config]);
    assert!(!instance.stdout().contains("web: "), "{}", instance.stdout());
    write(&format!("[web]\nlisten = 0\ntoken_file = \"{token}\"\n"));
    let place = |reloaded: &Json| {
        let url = reloaded["web"].as_str().unwrap_or_else(|| panic!("{reloaded}")).to_owned();
        url.strip_prefix("http://").unwrap().strip_suffix('/').unwrap().to_owned()
    };
    let first = place(&runtime.json(&["reload"]));
    get(&first, "/api/v1/status").ok();
    assert_eq!(runtime.millrace(&["reload"]).ok(), "nothing has changed\n");
    // Another token in the same file; by the API itself.
    std::fs::write(&token, "another-token-of-some-length").unwrap();
    let reloaded = with_token(&first, "POST", "/api/v1/reload", &Json::Null).ok();
    assert_eq!(place(&reloaded), first);
    assert_eq!(with_token(&first, "POST", "/api/v1/reload", &Json::Null).refused(401), "unauthorized");
    std::fs::write(&token, TOKEN).unwrap();
    runtime.millrace(&["reload"]).ok();
    // Another address: who asked for it is answered by the one that goes.
    let free = TcpListener::bind("127.0.0.1:0").unwrap();
    let second = free.local_addr().unwrap().to_string();
    drop(free);
    write(&format!("[web]\nlisten = \"{second}\"\ntoken_file = \"{token}\"\n"));
    assert_eq!(place(&with_token(&first, "POST", "/api/v1/reload", &Json::Null).ok()), second);
    assert!(std::net::TcpStream::connect(&first).is_err(), "no one listens there any more");
    get(&second, "/api/v1/status").ok();
    // What is wrong changes nothing.
    std::fs::set_permissions(&token, PermissionsExt::from_mode(0o644)).unwrap();
    let said = runtime.millrace(&["reload"]).failed_in_one_line(1);
    assert!(said.contains("others than its owner may use it (mode 644)"), "{said}");
    get(&second, "/api/v1/status").ok();
    write("");
    assert_eq!(runtime.millrace(&["reload"]).ok(), "in force: web: nowhere\n");
    assert!(std::net::TcpStream::connect(&second).is_err());
}

#[test]
fn what_cannot_be_used_is_told_before_anything_runs() {
    let runtime = Runtime::new();
    let run = |web: &str, more: &[&str]| {
        let config = runtime.write("w.toml", &format!("[web]\n{web}\n"));
        runtime.millrace(&[&["run", PATCH, "-c", &config, "--port", "a=mem:", "--duration", "0"], more].concat())
    };
    let said = run("listen = \"0.0.0.0:0\"", &[]).failed(1);
    assert!(said.contains("web: other machines can connect to 0.0.0.0:0"), "{said}");
    let open = runtime.write("open", TOKEN);
    std::fs::set_permissions(&open, PermissionsExt::from_mode(0o640)).unwrap();
    let said = run(&format!("listen = 0\ntoken_file = \"{open}\""), &[]).failed_in_one_line(2);
    assert!(said.contains("others than its owner may use it (mode 640); chmod 600 it"), "{said}");
    let said = run("listen = 0\ntoken_file = \"/nowhere\"", &[]).failed_in_one_line(2);
    assert!(said.contains("web: token file /nowhere: No such file"), "{said}");
    let said = run(&format!("listen = 0\ncertificate = \"{open}\"\nkey = \"{open}\""), &[]).failed_in_one_line(2);
    assert!(said.contains("there is no certificate in it"), "{said}");
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let busy = taken.local_addr().unwrap().to_string();
    let said = run(&format!("listen = \"{busy}\""), &[]).failed_in_one_line(2);
    assert!(said.contains(&format!("web: cannot listen on {busy}: another program")), "{said}");
    // The command line's address comes first, with the rest of the section.
    assert!(run(&format!("listen = \"{busy}\""), &["--web", "0"]).ok().contains("web: http://127.0.0.1:"));
    let said = run("listen = 0", &["--web", "0.0.0.0:0"]).failed_in_one_line(2);
    assert!(said.contains("[web] needs `token_file`, or `readers = \"all\"`"), "{said}");
    assert!(run("listen = 0\nreaders = \"all\"", &["--web", "0.0.0.0:0"]).ok().contains("web: http://0.0.0.0:"));
}

#[test]
fn what_is_no_request_disturbs_nobody() {
    let runtime = Runtime::new();
    let instance = runtime.start(&[PATCH, "--port", "a=mem:", "--web", "0"]);
    let address = address(&instance);
    let fields = "Content-Type: application/json\r\n";
    let deep = "[".repeat(60_000);
    assert_eq!(ask(&address, "POST", "/api/v1/queries/a/b", fields, &deep).refused(400), "bad_request");
    let long = " ".repeat(100_000);
    assert_eq!(ask(&address, "POST", "/api/v1/queries/a/b", fields, &long).refused(413), "bad_request");
    for request in [
        "\0\x01\x02\r\n\r\n".to_owned(),
        format!("GET /{} HTTP/1.1\r\nHost: localhost\r\n\r\n", "x".repeat(100_000)),
        format!("GET / HTTP/1.1\r\nHost: localhost\r\n{}\r\n", "X: y\r\n".repeat(1000)),
        "GET / HTTP/1.1\r\nHost: localhost\r\nHost: localhost\r\n\r\n".into(),
        "GET / HTTP/1.1\r\n\r\n".into(),
        "GET / HTTP/1.1\r\nHost: \u{e4}\r\n\r\n".into(),
        "POST /api/v1/stop HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n".into(),
        "GET /api/v1/tables/%ff%fe/entries HTTP/1.1\r\nHost: localhost\r\n\r\n".into(),
        "CONNECT a:1 HTTP/1.1\r\nHost: a:1\r\n\r\n".into(),
    ] {
        let answer = raw(&address, request.as_bytes());
        assert!(answer.is_empty() || answer.starts_with("HTTP/1.1 4"), "{request:.80}: {answer}");
    }
    // Slow ones, more than there may be connections: heads that never end, and bodies that do not come.
    let mut slow: Vec<_> = (0..100).map(|_| connect(&address)).collect();
    slow.iter_mut().for_each(|stream| drop(stream.write_all(b"GET /api/v1/sta")));
    let bodies: Vec<_> = (0..20)
        .map(|_| {
            let mut stream = connect(&address);
            let head = format!("POST /api/v1/stop HTTP/1.1\r\nHost: {address}\r\n{fields}Content-Length: 9\r\n\r\n");
            stream.write_all(head.as_bytes()).unwrap();
            stream
        })
        .collect();
    thread::sleep(Duration::from_millis(100));
    let start = Instant::now();
    (0..20).for_each(|_| drop(get(&address, "/api/v1/status").ok()));
    assert!(start.elapsed() < Duration::from_secs(4), "not by the time limit of the others");
    for mut stream in bodies {
        let mut answer = String::new();
        std::io::Read::read_to_string(&mut stream, &mut answer).unwrap();
        assert!(answer.starts_with("HTTP/1.1 408"), "{answer}");
    }
    assert!(start.elapsed() < LIMIT);
}

/// Makes a certificate of this machine, and its key.
fn certify(certificate: &str, key: &str) {
    let mut command = std::process::Command::new("openssl");
    command.args(["req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2"]);
    command.args(["-keyout", key, "-out", certificate, "-subj", "/CN=test", "-addext", "subjectAltName=IP:127.0.0.1"]);
    let done = command.output().unwrap();
    assert!(done.status.success(), "{done:?}");
}

#[test]
fn connections_are_encrypted_where_there_is_a_certificate() {
    let runtime = Runtime::new();
    let [certificate, key, other] = ["cert.pem", "key.pem", "other.pem"].map(|name| runtime.path(name));
    certify(&certificate, &key);
    let web = format!("[web]\nlisten = 0\ncertificate = \"{certificate}\"\nkey = \"{key}\"\n");
    let config = runtime.write("w.toml", &web);
    let instance = runtime.start(&[PATCH, "-c", &config, "--port", "a=mem:"]);
    let url = instance.stdout().lines().find_map(|line| line.strip_prefix("web: ").map(str::to_owned)).unwrap();
    let address = url.strip_prefix("https://").unwrap().trim_end_matches('/').to_owned();
    let curl = |trusted: &str| {
        let mut command = std::process::Command::new("curl");
        command.args(["-sS", "--max-time", "20", "--cacert", trusted, &format!("{url}api/v1/status")]);
        command.output().unwrap()
    };
    let first = runtime.path("first.pem");
    std::fs::copy(&certificate, &first).unwrap();
    let status = curl(&first);
    assert!(status.status.success(), "{status:?}");
    assert_eq!(serde_json::from_slice::<Json>(&status.stdout).unwrap()["instance"], "patch");
    // In clear nothing is answered, and those who say nothing keep nobody out.
    assert!(!raw(&address, b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n").contains("HTTP/1.1"));
    let silent: Vec<_> = (0..100).map(|_| connect(&address)).collect();
    assert!(curl(&first).status.success());
    drop(silent);
    // Another certificate; a key that is not its own changes nothing.
    certify(&certificate, &other);
    let said = runtime.millrace(&["reload"]).failed_in_one_line(1);
    assert!(said.contains(&format!("web: {certificate}: with {key}: ")), "{said}");
    assert!(curl(&first).status.success());
    std::fs::copy(&other, &key).unwrap();
    assert_eq!(runtime.millrace(&["reload"]).ok(), format!("in force: web: {url}\n"));
    assert!(curl(&certificate).status.success() && !curl(&first).status.success());
}
