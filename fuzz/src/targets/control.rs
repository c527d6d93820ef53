//! The control socket: whatever a client sends, each reply is a line of JSON, and the next client is served.

use std::io::{ErrorKind, Read, Write};
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use std::time::Duration;

use control::socket::{Claim, Client, Request, Server, Status};
use dataplane::Instance;
use serde_json::Value as Json;

use super::served;

/// Pieces of requests.
pub const WORDS: &[&str] = &[
    "{\"request\": \"",
    "table_get",
    "table_set",
    "table_load",
    "\"entries\": [",
    "table_del",
    "table_dump",
    "table_find",
    "\"after\": ",
    "graph",
    "status",
    "\"table\": \"",
    "\"key\": ",
    "\"value\": ",
    "l3_forward.fib",
    "l3_forward.next_hops",
    "l2_bridge.stations",
    "l3_switch.domains",
    "10.0.0.0/8",
    "null",
    "1e999",
    "-0",
    "\\u0000",
    "\\ud800",
    "[[[[[[[[",
    "{}",
    "}\n",
    "\n\n",
    "0x1",
    "\"02:00:00:00:00:01\"",
    "18446744073709551616",
    "true",
];

/// Longer than any reply takes.
const PATIENCE: Duration = Duration::from_secs(20);

/// An instance that never ends, with its socket.
struct Running {
    socket: PathBuf,
    _server: Server,
    _instance: Instance,
}

fn start() -> Running {
    static NUMBER: AtomicU32 = AtomicU32::new(0);
    let (service, instance) = served::start();
    let number = NUMBER.fetch_add(1, Ordering::Relaxed);
    let socket = std::env::temp_dir().join(format!("millrace-fuzz-{}-{number}.sock", std::process::id()));
    let claim = Claim::at(&socket, "fuzz", None).unwrap_or_else(|error| panic!("{error}"));
    let server = Server::start(claim, service).unwrap_or_else(|error| panic!("{error}"));
    Running { socket, _server: server, _instance: instance }
}

/// Takes what a client sends.
pub fn run(data: &[u8]) {
    static RUNNING: OnceLock<Running> = OnceLock::new();
    let running = RUNNING.get_or_init(start);
    let mut stream = UnixStream::connect(&running.socket).unwrap_or_else(|error| panic!("{error}"));
    stream.set_read_timeout(Some(PATIENCE)).unwrap_or_else(|error| panic!("{error}"));
    stream.set_write_timeout(Some(PATIENCE)).unwrap_or_else(|error| panic!("{error}"));
    let mut replies = Vec::new();
    thread::scope(|scope| {
        let mut writer = stream.try_clone().unwrap_or_else(|error| panic!("{error}"));
        scope.spawn(move || {
            // It closes the connection where a request is too long, and what is on its way then is refused.
            let _ = writer.write_all(data);
            let _ = writer.shutdown(Shutdown::Write);
        });
        match stream.read_to_end(&mut replies) {
            Ok(_) => {}
            Err(error) if error.kind() == ErrorKind::ConnectionReset => {}
            Err(error) => panic!("no end of the replies: {error}"),
        }
    });
    let lines = String::from_utf8(replies).unwrap_or_else(|error| panic!("a reply is not text: {error}"));
    for line in lines.lines() {
        let reply: Json = serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}"));
        assert!(["ok", "error", "entry"].iter().any(|key| reply.get(key).is_some()), "{line}");
    }
    // A reply for each whole line at most, but for the entries of dumps.
    let requests = data.iter().filter(|&&byte| byte == b'\n').count();
    let answers = lines.lines().filter(|line| !line.starts_with("{\"entry\"")).count();
    assert!(answers <= requests + 1, "{answers} answers to {requests} requests");
    let mut client = Client::connect(&running.socket).unwrap_or_else(|error| panic!("{error}"));
    let status: Status = client.ask(&Request::Status).unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(status.instance, "fuzz");
}
