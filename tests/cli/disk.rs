//! A disk that is full under the state (`--state`).

use std::fs;
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::process::Command;
use std::time::{Duration, Instant};

use lab::{Namespace, RawPort, Running, Signal};

use crate::frames::{ETH_EXPERIMENT, ethernet};
use crate::instance::Runtime;
use crate::process::run;
use crate::run::network;

const PATIENCE: Duration = Duration::from_secs(20);
/// More than fits into what a full disk has left in the pages of the database.
const ENTRIES: u32 = 4000;

const PROGRAM: &str = "import \"net/ether\";
module m {
    in ether input; out ether output;
    hash<u32, u32> numbers[8192];
    ppf p(ether_packet_t *pkt) from input {
        pkt->metadata.tx.port = 3 - pkt->metadata.rx.port;
        u32 *number = numbers[7];
        if (number != null && *number == 0) { packet_drop(pkt, malformed); return; }
        channel_put(output, pkt);
    }
}
program { rx -> m.input; m.output -> tx; }
";

/// Millrace in a mount namespace with a small disk at `DIR/state`, which stays as long as the first process.
struct Rig {
    runtime: Runtime,
    box_: Namespace,
    disk: Running,
    program: String,
}

impl Rig {
    fn new(box_: Namespace) -> Rig {
        let runtime = Runtime::new();
        let (state, program) = (runtime.path("state"), runtime.write("sw.baker", PROGRAM));
        fs::create_dir(&state).unwrap();
        let mount = format!("mount -t tmpfs -o size=6m,mode=700 disk {state} && echo mounted && exec sleep 300");
        let mut disk = box_.command("unshare").args(["--mount", "sh", "-c", &mount]).spawn().unwrap();
        disk.wait_for_text("mounted", PATIENCE).unwrap_or_else(|error| panic!("{error}"));
        Rig { runtime, box_, disk, program }
    }

    fn start(&self) -> Running {
        let (state, socket) = (self.runtime.path("state"), self.runtime.path("sock"));
        let namespace = format!("--mount=/proc/{}/ns/mnt", self.disk.id());
        let millrace = self.box_.command("nsenter").args([&namespace, env!("CARGO_BIN_EXE_millrace"), "run"]);
        let millrace = millrace.args([&self.program, "--state", &state, "--socket", &socket]);
        let mut running = millrace.args(["--port", "l=afpacket:left", "--port", "r=afpacket:right"]).spawn().unwrap();
        running.wait_for_text("running on 2 ports", PATIENCE).unwrap_or_else(|error| panic!("{error}"));
        running
    }

    fn ask(&self, arguments: &[&str]) -> String {
        self.runtime.millrace(&[arguments, &["--socket", &self.runtime.path("sock")]].concat()).ok()
    }

    /// Sets as many entries to a value.
    fn load(&self, value: u32) {
        let entries: Vec<_> = (0..ENTRIES).map(|key| format!("{{\"key\": {key}, \"value\": {value}}}")).collect();
        let file = self.runtime.write("entries.json", &format!("[{}]", entries.join(",")));
        self.ask(&["table", "load", "m.numbers", &file]);
    }

    /// A file on the disk.
    fn file(&self, name: &str) -> String {
        format!("/proc/{}/root{}/{name}", self.disk.id(), self.runtime.path("state"))
    }

    /// Leaves no room.
    fn fill(&self) {
        let mut file = fs::File::create(self.file("full")).unwrap();
        while file.write_all(&[1; 4096]).is_ok() {}
    }
}

fn passes(wires: &mut [RawPort; 2]) {
    for (from, to) in [(0, 1), (1, 0)] {
        let frame = ethernet([2; 6], [4; 6], ETH_EXPERIMENT, &[7; 60]);
        wires[from].send(&frame).unwrap();
        assert_eq!(wires[to].recv(PATIENCE).unwrap(), Some(frame));
    }
}

/// Waits until it has logged this; how often it has.
fn logged(millrace: &Running, text: &str) -> usize {
    let start = Instant::now();
    loop {
        let count = millrace.both().matches(text).count();
        if count > 0 {
            return count;
        }
        assert!(start.elapsed() < PATIENCE, "not logged: {text}\n{}", millrace.both());
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn a_full_disk_is_said_once_and_state_is_kept_again_when_there_is_room() {
    let (box_, hosts) = network();
    let mut wires = [0, 1].map(|i| RawPort::open(&hosts[i], "eth0").unwrap());
    let rig = Rig::new(box_);
    let mut millrace = rig.start();
    passes(&mut wires);
    rig.fill();
    const FAILED: &str = "tables are not kept until it can be written again";
    for value in 1..4 {
        rig.load(value);
        passes(&mut wires);
        logged(&millrace, FAILED);
    }
    let text = millrace.both();
    assert!(text.contains("No space left on device"), "{text}");
    assert_eq!(text.matches("WARN").count(), 1, "{text}");
    fs::remove_file(rig.file("full")).unwrap();
    assert_eq!(logged(&millrace, "is written again, with all tables"), 1);
    passes(&mut wires);
    // From here on changes are kept as ever.
    rig.ask(&["table", "set", "m.numbers", "9", "99"]);
    std::thread::sleep(Duration::from_millis(500));
    millrace.signal(Signal::SIGKILL).unwrap();
    let text = millrace.wait(PATIENCE).unwrap().both();
    assert_eq!((text.matches(FAILED).count(), text.matches("WARN").count()), (1, 2), "{text}");
    let mut millrace = rig.start();
    assert_eq!(["8", "9"].map(|key| rig.ask(&["table", "get", "m.numbers", key])), ["3\n", "99\n"]);
    passes(&mut wires);
    // A disk that is full at the end, and at the next start.
    rig.fill();
    millrace.signal(Signal::SIGKILL).unwrap();
    millrace.wait(PATIENCE).unwrap();
    let mut millrace = rig.start();
    assert_eq!(rig.ask(&["table", "get", "m.numbers", "9"]), "99\n");
    millrace.signal(Signal::SIGTERM).unwrap();
    millrace.wait(PATIENCE).unwrap();
}

#[test]
fn what_is_kept_nobody_else_may_read_whatever_the_umask() {
    let mode = |path: &str| fs::metadata(path).unwrap().permissions().mode() & 0o7777;
    for (umask, before) in [("000", None), ("022", None), ("777", None), ("000", Some(0o755))] {
        let runtime = Runtime::new();
        let (state, program) = (runtime.path("a/state"), runtime.write("sw.baker", PROGRAM));
        let tables = format!("{state}/tables.redb");
        if let Some(mode) = before {
            // As a service manager or an older Millrace has made them.
            fs::create_dir_all(&state).unwrap();
            fs::set_permissions(&state, fs::Permissions::from_mode(mode)).unwrap();
            fs::write(&tables, "").unwrap();
            fs::set_permissions(&tables, fs::Permissions::from_mode(0o644)).unwrap();
        } else {
            fs::create_dir(runtime.path("a")).unwrap();
        }
        let line = format!("umask {umask}; exec \"$@\"");
        let mut command = Command::new("sh");
        command.args(["-c", &line, "sh", env!("CARGO_BIN_EXE_millrace"), "run", &program, "--state", &state]);
        command.args(["--no-socket", "--port", "l=mem:", "--port", "r=mem:", "--duration", "0.1"]);
        run(command).ok();
        assert_eq!((mode(&state), mode(&tables)), (before.unwrap_or(0o700), 0o600), "umask {umask}");
    }
}
