//! What operators see and do: metrics, sessions, servers, the access log.

use std::os::fd::AsRawFd;
use std::time::{Duration, Instant};

use serde_json::Value as Json;

use crate::network::{PATIENCE, Splice};
use crate::web::{Client, Server, pattern};
use crate::{VIRTUAL, names, wait_until_up};

/// Both servers, on both versions.
fn servers(splice: &Splice) -> Vec<Server> {
    crate::servers(splice).into()
}

impl Splice {
    /// The metrics of a family whose labels have all of these values.
    pub fn metric(&self, family: &str, labels: &[&str]) -> u64 {
        let all = self.json(&["metrics", family]);
        let families = all["splice"].as_array().unwrap();
        let family = families.iter().find(|own| own["name"] == family).unwrap_or_else(|| panic!("{family}: {all}"));
        let fits = |sample: &&Json| {
            let own: Vec<_> = sample["labels"].as_object().unwrap().values().collect();
            labels.iter().all(|label| own.iter().any(|value| value.as_str() == Some(label)))
        };
        let value = |sample: &Json| sample["value"].as_u64().or(sample["value"]["count"].as_u64()).unwrap();
        family["samples"].as_array().unwrap().iter().filter(fits).map(value).sum()
    }

    fn sessions(&self, arguments: &[&str]) -> Vec<Json> {
        self.json(&[&["sessions"], arguments].concat())["sessions"].as_array().unwrap().clone()
    }

    pub fn server(&self, name: &str) -> Json {
        let all = self.json(&["servers"]);
        let is_it =
            |own: &&Json| format!("{}/{}", own["pool"].as_str().unwrap(), own["name"].as_str().unwrap()) == name;
        all.as_array().unwrap().iter().find(is_it).unwrap_or_else(|| panic!("{all}")).clone()
    }
}

#[test]
fn figures_say_what_has_passed() {
    for driver in ["afpacket", "xdp"] {
        let splice = Splice::start(driver, &[], None);
        let _servers = servers(&splice);
        wait_until_up(&splice);
        let metrics = |splice: &Splice| {
            let of = |family, label| splice.metric(family, &["www", label]);
            [
                of("service_requests", "complete"),
                of("service_responses", "2xx"),
                of("service_bytes", "up"),
                of("service_bytes", "down"),
                of("service_first_byte_us", "www"),
                splice.metric("service_answers", &["400"]),
            ]
        };
        splice.wait("the first ones are over", |splice| {
            splice.metric("service_requests", &["complete"]) >= 4 && splice.metric("service_connections_now", &[]) == 0
                || splice.sessions(&[]).iter().all(|own| own["state"] == "closed" || own["state"] == "idle")
        });
        let before = metrics(&splice);
        let served = splice.metric("server_bytes", &["down"]);
        let mut client = Client::connect(&splice.client, VIRTUAL).unwrap();
        let request = "GET /bytes/3000000 HTTP/1.1\r\nHost: www.example\r\n\r\n";
        client.send(request.as_bytes()).unwrap();
        assert_eq!(client.receive("GET").unwrap().body, pattern(3_000_000));
        let head = "HTTP/1.1 200 OK\r\nX-Server: a\r\nContent-Length: 3000000\r\n\r\n".len() as u64;
        // Nothing more comes: a look tells that it has ended.
        splice.wait("the end is not seen", |splice| metrics(splice)[0] == before[0] + 1);
        let after = metrics(&splice);
        let grown: Vec<u64> = before.iter().zip(after).map(|(before, after)| after - before).collect();
        assert_eq!(grown, [1, 1, request.len() as u64, 3_000_000 + head, 1, 0]);
        client.send(b"nonsense\r\n\r\n").unwrap();
        assert_eq!(client.receive("GET").unwrap().status, 400);
        assert_eq!(metrics(&splice)[5], before[5] + 1);
        let own = metrics(&splice)[3] - after[3];
        assert!((100..200).contains(&own), "{own}");
        let down = metrics(&splice)[3];
        // Until the connection ends: the data path alone carries it.
        let mut client = Client::connect(&splice.client, VIRTUAL).unwrap();
        assert_eq!(client.get("/close/500000").unwrap().body, pattern(500_000));
        drop(client);
        splice.wait("the end is not seen", |splice| metrics(splice)[0] == before[0] + 2);
        let head = "HTTP/1.1 200 OK\r\nX-Server: a\r\nConnection: close\r\n\r\n".len() as u64;
        assert_eq!(metrics(&splice)[3] - down, 500_000 + head);
        // By server, the same in all, but for what Millrace said itself.
        let of_servers = splice.metric("server_bytes", &["down"]) - served;
        assert_eq!(of_servers + own, metrics(&splice)[3] - before[3]);
        assert!(splice.metric("server_up", &["web", "a"]) == 1 && splice.server("web/a")["why"] == "checks succeed");
        splice.stop();
    }
}

#[test]
fn sessions_are_listed_and_ended() {
    let splice = Splice::start("afpacket", &[], None);
    let _servers = servers(&splice);
    wait_until_up(&splice);
    let mut quiet = Client::connect(&splice.client, VIRTUAL).unwrap();
    assert_eq!(quiet.get("/images/x?y").unwrap().status, 200);
    // One whose response is not read.
    let mut busy = Client::connect(&splice.client, VIRTUAL).unwrap();
    busy.send(b"GET /bytes/100000000 HTTP/1.1\r\nHost: www.example\r\n\r\n").unwrap();
    let is_busy = |own: &Json| own["request"]["path"] == "/bytes/100000000" && own["request"]["status"] == 200;
    splice.wait("it is not listed", |splice| splice.sessions(&[]).iter().any(is_busy));
    let all = splice.sessions(&[]);
    let own = all.iter().find(|own| is_busy(own)).unwrap();
    assert_eq!((&own["state"], &own["service"], &own["requests"]), (&"serving".into(), &"www".into(), &1.into()));
    assert!(own["down"].as_u64().unwrap() > 1000 && own["down"].as_u64().unwrap() < 100_000_000, "{own}");
    let server = own["server"].as_str().unwrap();
    assert!(splice.sessions(&["--server", server]).contains(own) || splice.sessions(&["--server", server]).len() == 1);
    assert_eq!(splice.sessions(&["--client", "10.0.1.99"]), Vec::<Json>::new());
    assert_eq!(splice.sessions(&["--client", "10.0.1.11", "--service", "www", "--limit", "1"]).len(), 1);
    let idle = splice.sessions(&["--server", "images/b"]);
    let ports: Vec<_> = idle.iter().filter(|own| own["state"] == "idle").collect();
    assert_eq!(ports.len(), 1, "{idle:?}");
    // In the middle of a response: the client sees a reset, and so does the server.
    let id = own["id"].to_string();
    splice.millrace(&["sessions", "kill", &id]).ok();
    let error = busy.receive("GET").map(|own| own.body.len()).unwrap_err();
    assert_eq!(error.kind(), std::io::ErrorKind::ConnectionReset);
    let established = || {
        let done = splice.servers.check(&["ss", "-Htn", "state", "established"]).unwrap().text();
        done.lines().count()
    };
    splice.wait("the server goes on", |_| established() <= 1);
    // Between requests.
    let client = ports[0]["client"].as_str().unwrap();
    assert_eq!(splice.millrace(&["sessions", "kill", "--client", client]).ok(), "ended: 1\n");
    assert_eq!(quiet.receive("GET").map(|own| own.body.len()).unwrap_err().kind(), std::io::ErrorKind::ConnectionReset);
    splice.wait("the server goes on", |_| established() == 0);
    assert_eq!(splice.metric("service_requests", &["killed"]), 1);
    splice.millrace(&["sessions", "kill", "--client", "10.0.1.11"]).ok();
    splice.millrace(&["sessions", "kill", "--service", "www"]).ok();
    splice.wait("they are still there", |splice| splice.sessions(&[]).is_empty());
    // What is not there, or no such thing.
    for (arguments, message) in [
        (&["sessions", "kill", "77777"][..], "there is no connection 77777"),
        (&["sessions", "kill", "--client", "x"], "\"x\" is no client; accepted: an address, with a port or without"),
        (&["sessions", "--service", "ww"], "there is no service \"ww\"; did you mean `www`?; accepted: www"),
        (&["servers", "drain", "web/c"], "there is no server \"web/c\"; did you mean `web/a`?"),
    ] {
        let done = splice.millrace(arguments);
        assert_eq!(done.status, Some(1), "{done:?}");
        assert!(done.stderr.contains(message), "{done:?}");
    }
    splice.stop();
}

#[test]
fn servers_are_drained_and_taken_down() {
    let splice = Splice::start("afpacket", &[], None);
    let _servers = servers(&splice);
    wait_until_up(&splice);
    // A response under way, and a connection that waits.
    let mut live = Client::connect(&splice.client, VIRTUAL).unwrap();
    live.send(b"GET /images/x HTTP/1.1\r\nHost: x\r\n\r\n").unwrap();
    assert_eq!(live.receive("GET").unwrap().server, "b");
    let mut slow = Client::connect(&splice.client, VIRTUAL).unwrap();
    let mut on_b = 0;
    while on_b == 0 {
        slow.send(b"GET /bytes/20000000 HTTP/1.1\r\nHost: www.example\r\n\r\n").unwrap();
        splice.wait("it is not served", |splice| !splice.sessions(&["--service", "www"]).is_empty());
        let serving = |own: &Json| own["state"] == "serving" && own["server"] == "web/b";
        on_b = splice.sessions(&[]).iter().filter(|own| serving(own)).count();
        if on_b == 0 {
            assert_eq!(slow.receive("GET").unwrap().body, pattern(20_000_000));
            slow = Client::connect(&splice.client, VIRTUAL).unwrap();
        }
    }
    assert_eq!(splice.millrace(&["servers", "drain", "web/b"]).status, Some(0));
    assert!(names(&splice, 6).iter().all(|name| name == "a"));
    assert_eq!(splice.server("web/b")["admin"], "drain");
    // The pool of images has it still.
    assert_eq!(live.get("/images/y").unwrap().server, "b");
    // What it serves it serves to the end; the next request of the connection goes elsewhere.
    let response = slow.receive("GET").unwrap();
    assert_eq!((response.body, &*response.server), (pattern(20_000_000), "b"));
    assert_eq!(slow.get("/x").unwrap().server, "a");
    // A reload of the same configuration changes nothing of it.
    splice.millrace(&["reload"]).ok();
    assert_eq!(splice.server("web/b")["admin"], "drain");
    assert!(names(&splice, 4).iter().all(|name| name == "a"));
    splice.millrace(&["servers", "ready", "web/b"]).ok();
    assert!(names(&splice, 8).iter().any(|name| name == "b"));
    // Down: what is under way ends at once, what waits does not.
    slow.send(b"GET /bytes/100000000 HTTP/1.1\r\nHost: www.example\r\n\r\n").unwrap();
    splice.wait("it is not served", |splice| {
        let begun = |own: &Json| own["request"]["path"] == "/bytes/100000000" && own["request"]["status"] == 200;
        splice.sessions(&[]).iter().any(begun)
    });
    let on = |splice: &Splice| {
        let all = splice.sessions(&[]);
        all.iter().find(|own| own["request"]["path"] == "/bytes/100000000").unwrap()["server"].clone()
    };
    let name = on(&splice).as_str().unwrap().to_owned();
    splice.millrace(&["servers", "down", &name]).ok();
    assert_eq!(slow.receive("GET").map(|own| own.body.len()).unwrap_err().kind(), std::io::ErrorKind::ConnectionReset);
    splice.millrace(&["servers", "down", "images/b"]).ok();
    // The connection that waits goes on; its pool has no other.
    assert!(["a", "b"].contains(&&*live.get("/other").unwrap().server));
    assert_eq!(live.get("/images/z").unwrap().status, 503);
    let listed = splice.millrace(&["servers"]).ok();
    assert!(listed.contains("up, taken down"), "{listed}");
    splice.stop();
}

/// A configuration with a log.
fn logging(file: &str, format: &str) -> String {
    format!("[controllers.splice.log]\nfile = \"{file}\"\nformat = \"{format}\"\n\n[controllers.splice.limits]")
}

#[test]
fn requests_are_logged() {
    let scratch = crate::process::Scratch::new();
    let (path, moved) = (scratch.path("access.log"), scratch.path("access.log.1"));
    let log = logging(&path, "json");
    let changes = [("[controllers.splice.limits]", &*log), ("request = \"10s\"", "request = \"1s\"")];
    let mut splice = Splice::start("afpacket", &changes, None);
    let lines = |path: &str| -> Vec<Json> {
        let text = std::fs::read_to_string(path).unwrap_or_default();
        text.lines().map(|line| serde_json::from_str(line).unwrap_or_else(|_| panic!("{line}"))).collect()
    };
    let find = |target: &str| -> Option<Json> { lines(&path).into_iter().find(|line| line["target"] == target) };
    let wait = |splice: &Splice, target: &str| -> Json {
        splice.wait(target, |_| find(target).is_some());
        find(target).unwrap()
    };
    splice.wait("it is not offered", |splice| Client::connect(&splice.client, VIRTUAL).is_ok());
    assert_eq!(Client::connect(&splice.client, VIRTUAL).unwrap().get("/nobody").unwrap().status, 503);
    let line = wait(&splice, "/nobody");
    assert_eq!((&line["status"], &line["ended"], &line["server"]), (&503.into(), &"answered".into(), &Json::Null));
    assert_eq!(line["bytes"], "503 Service Unavailable\n".len());
    let _servers = servers(&splice);
    wait_until_up(&splice);
    // Short ones are logged at once, whether anything follows or not.
    let mut client = Client::connect(&splice.client, VIRTUAL).unwrap();
    let request =
        "GET /bytes/100?q=\"\\x HTTP/1.1\r\nHost: www.example\r\nUser-Agent: it \u{e9}\"\r\nReferer: r\r\n\r\n";
    client.send(request.as_bytes()).unwrap();
    let response = client.receive("GET").unwrap();
    let line = wait(&splice, "/bytes/100?q=\"\\x");
    let texts =
        [("method", "GET"), ("version", "HTTP/1.1"), ("host", "www.example"), ("service", "www"), ("pool", "web")];
    let more = [("server", &*response.server), ("address", VIRTUAL), ("referer", "r"), ("user_agent", "it \u{e9}\"")];
    for (key, value) in texts.into_iter().chain(more) {
        assert_eq!(line[key], value, "{key}: {line}");
    }
    assert_eq!((&line["status"], &line["ended"], &line["retries"]), (&200.into(), &"complete".into(), &0.into()));
    assert!(line["client"].as_str().unwrap().starts_with("10.0.1.11:"), "{line}");
    assert!(line["connect_ms"].as_f64().unwrap() <= line["duration_ms"].as_f64().unwrap(), "{line}");
    // The same connection: there is nothing to connect. The server sends the target, as it is no number.
    client.send(b"GET /again HTTP/1.1\r\nHost: www.example\r\n\r\n").unwrap();
    client.receive("GET").unwrap();
    let line = wait(&splice, "/again");
    assert_eq!((&line["connect_ms"], &line["bytes"]), (&Json::Null, &6.into()));
    // One that takes time.
    let mut client = Client::connect(&splice.client, VIRTUAL).unwrap();
    client.send(b"GET /bytes/50000000 HTTP/1.1\r\nHost: www.example\r\n\r\n").unwrap();
    let (start, before) = (Instant::now(), Duration::from_millis(1500));
    std::thread::sleep(before);
    assert_eq!(client.receive("GET").unwrap().body, pattern(50_000_000));
    let took = start.elapsed().as_secs_f64() * 1e3;
    let line = wait(&splice, "/bytes/50000000");
    let duration = line["duration_ms"].as_f64().unwrap();
    assert_eq!(line["bytes"], 50_000_000);
    assert!(duration >= 1500.0 && duration < took * 1.3 + 1000.0, "{duration} of {took}: {line}");
    // A client that goes away, one that is too slow, one that is not understood.
    let mut client = Client::connect(&splice.client, VIRTUAL).unwrap();
    client.send(b"GET /bytes/90000000 HTTP/1.1\r\nHost: www.example\r\n\r\n").unwrap();
    splice.wait("it is not served", |splice| splice.sessions(&[]).iter().any(|own| own["request"]["status"] == 200));
    client.reset();
    let line = wait(&splice, "/bytes/90000000");
    assert_eq!((&line["status"], &line["ended"]), (&200.into(), &"client_aborted".into()));
    assert!(line["bytes"].as_u64().unwrap() < 90_000_000, "{line}");
    for (text, status) in [("GET /late HTTP/1.1\r\nHost: x\r\n", 408), ("BAD \x07/bad\r\n\r\n", 400)] {
        let mut client = Client::connect(&splice.client, VIRTUAL).unwrap();
        client.send(text.as_bytes()).unwrap();
        assert_eq!(client.receive("GET").unwrap().status, status);
        let target = if status == 408 { "/late" } else { "BAD \x07/bad" };
        let line = wait(&splice, target);
        assert_eq!((&line["status"], &line["ended"]), (&status.into(), &"answered".into()), "{line}");
    }
    // Rotation, by a signal and by a reload.
    let known = lines(&path).len();
    std::fs::rename(&path, &moved).unwrap();
    splice.signal(lab::Signal::SIGHUP);
    splice.wait("it is not opened anew", |_| std::path::Path::new(&path).exists());
    names(&splice, 1);
    wait(&splice, "/who");
    assert_eq!(lines(&moved).len(), known);
    std::fs::remove_file(&path).unwrap();
    splice.millrace(&["reload"]).ok();
    splice.wait("it is not opened anew", |_| std::path::Path::new(&path).exists());
    let written = splice.metric("log_lines", &["written"]);
    assert!(written > known as u64, "{written}");
    assert_eq!(splice.metric("log_lines", &["lost"]), 0);
    splice.stop();
}

#[test]
fn a_log_that_nobody_reads_holds_up_nobody() {
    let scratch = crate::process::Scratch::new();
    let path = scratch.path("pipe");
    nix::unistd::mkfifo(path.as_str(), nix::sys::stat::Mode::S_IRWXU).unwrap();
    // It can be opened, but is full soon.
    let reader = std::fs::OpenOptions::new().read(true).write(true).open(&path).unwrap();
    let log = logging(&path, "combined");
    let splice = Splice::start("afpacket", &[("[controllers.splice.limits]", &log)], None);
    let _servers = servers(&splice);
    wait_until_up(&splice);
    let mut client = Client::connect(&splice.client, VIRTUAL).unwrap();
    let agent = "x".repeat(8000);
    let start = Instant::now();
    let mut asked = 0;
    // More lines than the pipe and the queue have room for would take a while: enough that the pipe is full.
    while asked < 200 {
        let request = format!("GET /x HTTP/1.1\r\nHost: www.example\r\nUser-Agent: {agent}\r\n\r\n");
        client.send(request.as_bytes()).unwrap();
        assert_eq!(client.receive("GET").unwrap().status, 200);
        asked += 1;
    }
    assert!(start.elapsed() < PATIENCE);
    assert!(splice.metric("log_lines", &["written"]) < 200);
    assert!(reader.as_raw_fd() >= 0);
    // Its end is not held up, either.
    splice.stop();
}
