//! The control socket: whatever a client sends, each reply is a line of JSON, and the next client is served.

use std::io::{ErrorKind, Read, Write};
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, OnceLock};
use std::thread;
use std::time::Duration;

use control::application::Registry;
use control::entries::{Notation, PortNames};
use control::socket::{About, Claim, Client, Overview, Request, Server, Service, Shown, Status};
use dataplane::ports::{Driver, MemPort};
use dataplane::{EngineKind, Instance, Options, PortConfig};
use serde_json::Value as Json;

use super::switch;

/// Pieces of requests.
pub const WORDS: &[&str] = &[
    "{\"request\": \"",
    "table_get",
    "table_set",
    "table_load",
    "\"entries\": [",
    "table_del",
    "table_dump",
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
    let (program, config) = (switch::program(), switch::config());
    let ports: Vec<_> = config
        .ports
        .iter()
        .map(|port| PortConfig::new(&port.name, port.number, Driver::Mem(MemPort::default())))
        .collect();
    let options = Options { engine: EngineKind::Interp, ..Options::default() };
    let prepared = Instance::prepare(program.clone(), &options, &ports).unwrap_or_else(|error| panic!("{error}"));
    config.fill(program, &mut prepared.tables()).unwrap_or_else(|error| panic!("{error}"));
    let instance = prepared.run().unwrap_or_else(|error| panic!("{error}"));
    let number = NUMBER.fetch_add(1, Ordering::Relaxed);
    let socket = std::env::temp_dir().join(format!("millrace-fuzz-{}-{number}.sock", std::process::id()));
    let claim = Claim::at(&socket, "fuzz", None).unwrap_or_else(|error| panic!("{error}"));
    let about = About {
        instance: "fuzz".into(),
        version: "0".into(),
        pid: std::process::id(),
        program: "l3switch".into(),
        engine: "interp".into(),
        workers: 1,
        mode: "interrupt".into(),
        cpus: Vec::new(),
        frames: options.frames.count,
        uptime_ms: 0,
        ports: Default::default(),
        timers: Default::default(),
        controllers: Default::default(),
        holders: Default::default(),
    };
    let notation = Notation::new(program.clone(), PortNames::new(&ports));
    // Being told to stop changes nothing here: it is not looked at.
    let stop = Arc::new(AtomicBool::new(false));
    let reload = Box::new(|| Err("its configuration is in no file".to_owned()));
    let shown = Shown::new(program.clone(), notation, instance.tables());
    let overview = Arc::new(Overview::new(about, shown, instance.observer(), Registry::default()));
    let service = Service::new(overview, stop, reload);
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
