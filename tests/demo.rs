//! `millrace demo`: works as root and without, and leaves nothing behind, whenever and however it is ended.
//!
//! These tests need root, or `unshare --user --map-root-user`, and fail without.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use lab::{Namespace, Running, Signal};

use process::{Scratch, without_privileges};

// Not all of it is used here.
#[allow(dead_code)]
#[path = "support/process.rs"]
mod process;

/// Long enough for a loaded machine; nothing waits this long when all is well.
const PATIENCE: Duration = Duration::from_secs(60);

/// A demo that runs, in a network namespace of the test, with an own directory for temporary files.
struct Demo {
    running: Running,
    _ns: Namespace,
    temporary: Scratch,
    _program: Scratch,
}

impl Demo {
    /// Starts `PREFIX millrace demo ARGUMENTS`.
    fn start(prefix: &[&str], arguments: &[&str]) -> Demo {
        let (program, temporary) = (Scratch::new(), Scratch::new());
        let millrace = program.millrace();
        let line = [prefix, &[&millrace, "demo"], arguments].concat();
        let ns = Namespace::new("outside").unwrap_or_else(|error| panic!("{error}"));
        let command = ns.command(line[0]).args(&line[1..]).env("TMPDIR", temporary.path(""));
        let running = command.spawn().unwrap_or_else(|error| panic!("{error}"));
        Demo { running, _ns: ns, temporary, _program: program }
    }

    fn assert_no_files(&self) {
        let left: Vec<_> = fs::read_dir(self.temporary.path("")).unwrap().map(|entry| entry.unwrap().path()).collect();
        assert!(left.is_empty(), "left behind: {left:?}");
    }
}

/// The command line of an ordinary user who makes a user namespace with unshare(1).
fn in_user_namespace() -> Vec<&'static str> {
    [&without_privileges()[..], &["unshare", "--user", "--map-root-user", "--net", "--mount"]].concat()
}

/// Runs the demo to its end; what it printed.
fn succeeds(prefix: &[&str]) -> String {
    let mut demo = Demo::start(prefix, &["--seconds", "1", "--megabytes", "8"]);
    let output = demo.running.wait(PATIENCE).unwrap_or_else(|error| panic!("{error}"));
    assert!(output.status.success() && output.stderr.is_empty(), "{output}");
    demo.assert_no_files();
    let text = output.text();
    let parts = [
        "\n1. compiled apps/l3switch/l3switch.baker: 10 PPFs checked in ",
        "\n2. ping\n",
        "\n3. curl: 8 MB from h3 to h1, routed\n",
        "SHA-256 equal on both sides: ",
        "\n4. blast: 64-byte UDP packets from h1",
        " ns per packet with AF_PACKET in and out; ",
        "\n5. everything that happened",
        "\n6. the same blast with the kernel engine",
        "What to try next:",
    ];
    let mut rest = text.as_str();
    for part in parts {
        rest = rest.split_once(part).unwrap_or_else(|| panic!("{part:?} is missing, or not in order: {text}")).1;
    }
    // On a machine that stands still for a moment `ping` sends one more.
    assert_eq!(text.lines().filter(|line| line.contains(" answered, ") && line.contains(" 5/")).count(), 4, "{text}");
    // The blast got through: the rate of what was forwarded is not 0.
    for forwarded in text.lines().filter_map(|line| line.trim().strip_prefix("forwarded")) {
        let count: String = forwarded.split("  ").map(str::trim).find(|cell| !cell.is_empty()).unwrap().into();
        assert!(count.replace(' ', "").parse::<u64>().unwrap() > 1000, "{text}");
    }
    text
}

#[test]
fn works_as_root() {
    let text = succeeds(&[]);
    assert!(!text.contains("not root"), "{text}");
    let blasts =
        [text.matches("  forwarded ").count(), text.matches(" times the rate of workers with AF_PACKET").count()];
    assert_eq!(blasts, [2, 1], "{text}");
    assert!(text.contains("  xdp: 8 of 10 PPFs run in the kernel"), "{text}");
}

#[test]
fn works_in_a_user_namespace() {
    let text = succeeds(&in_user_namespace());
    assert!(!text.contains("not root"), "{text}");
    // The kernel loads nothing there, which is said.
    assert!(text.matches("  forwarded ").count() == 1 && text.contains("\n  not here: "), "{text}");
}

#[test]
fn works_without_privileges() {
    let text = succeeds(&without_privileges());
    assert!(text.starts_with("not root: running as root of a user namespace of its own\n"), "{text}");
}

/// The processes with this parent, their children, and so on.
fn descendants(process: u32) -> BTreeSet<u32> {
    let mut parents = Vec::new();
    for entry in fs::read_dir("/proc").unwrap().flatten() {
        let Ok(id) = entry.file_name().to_string_lossy().parse::<u32>() else { continue };
        // proc(5): PID (COMMAND) STATE PARENT …; the command may hold anything.
        let Ok(stat) = fs::read_to_string(entry.path().join("stat")) else { continue };
        let after = stat.rsplit_once(") ").unwrap().1;
        parents.push((id, after.split(' ').nth(1).unwrap().parse::<u32>().unwrap()));
    }
    let mut found = BTreeSet::from([process]);
    loop {
        let more: Vec<u32> = parents.iter().filter(|(_, parent)| found.contains(parent)).map(|(id, _)| *id).collect();
        let before = found.len();
        found.extend(more);
        if found.len() == before {
            found.remove(&process);
            return found;
        }
    }
}

/// The network namespaces that a process's threads are in, as `net:[NUMBER]`.
fn namespaces(process: &Path) -> BTreeSet<String> {
    let tasks = fs::read_dir(process.join("task")).into_iter().flatten().flatten();
    tasks
        .filter_map(|task| Some(fs::read_link(task.path().join("ns/net")).ok()?.to_string_lossy().into_owned()))
        .collect()
}

/// The network namespaces with processes in them.
fn all_namespaces() -> BTreeSet<String> {
    fs::read_dir("/proc").unwrap().flatten().flat_map(|entry| namespaces(&entry.path())).collect()
}

fn eventually(what: &str, mut condition: impl FnMut() -> bool) {
    let start = Instant::now();
    while !condition() {
        assert!(start.elapsed() < PATIENCE, "still not so: {what}");
        thread::sleep(Duration::from_millis(5));
    }
}

/// Ends the demo by a signal once it has printed `text`, when it has a child if `child`: nothing of it may be left.
fn ended_leaves_nothing(prefix: &[&str], text: &str, child: bool, signal: Signal) {
    // The transfer is long where the demo is to be ended in it, else short.
    let megabytes = if child { "4000" } else { "1" };
    let mut demo = Demo::start(prefix, &["--seconds", "100", "--megabytes", megabytes]);
    let id = demo.running.id();
    demo.running.wait_for_text(text, PATIENCE).unwrap_or_else(|error| panic!("{error}"));
    let mut children = descendants(id);
    if child {
        eventually("a program runs in the demo's network", || {
            children = descendants(id);
            !children.is_empty()
        });
    } else {
        thread::sleep(Duration::from_millis(300));
    }
    // The demo was started in a namespace of the test.
    let test = namespaces(Path::new("/proc/self"));
    let own: BTreeSet<_> = namespaces(Path::new(&format!("/proc/{id}"))).difference(&test).cloned().collect();
    assert!(own.len() >= 5, "the demo has a namespace for the switch and each host: {own:?}");

    let start = Instant::now();
    demo.running.signal(signal).unwrap();
    let output = demo.running.wait(PATIENCE).unwrap_or_else(|error| panic!("{error}"));
    assert!(start.elapsed() < Duration::from_secs(10), "{signal} ended it only after {:?}", start.elapsed());
    assert!(!output.status.success(), "{output}");
    assert!(!output.both().contains("5. everything"), "{output}");
    for child in children {
        eventually("the program in the demo's network is gone", || !fs::exists(format!("/proc/{child}")).unwrap());
    }
    eventually("the demo's namespaces are gone", || all_namespaces().is_disjoint(&own));
    demo.assert_no_files();
}

#[test]
fn interrupted_while_it_pings_it_leaves_nothing() {
    ended_leaves_nothing(&[], "\n2. ping\n", true, Signal::SIGINT);
}

#[test]
fn interrupted_while_it_fetches_it_leaves_nothing() {
    ended_leaves_nothing(&[], "\n3. curl", true, Signal::SIGTERM);
}

fn blast(prefix: &[&str], signal: Signal) {
    ended_leaves_nothing(prefix, "\n4. blast", false, signal);
}

#[test]
fn interrupted_while_it_blasts_it_leaves_nothing() {
    blast(&[], Signal::SIGINT);
}

#[test]
fn interrupted_without_privileges_it_leaves_nothing() {
    blast(&without_privileges(), Signal::SIGINT);
}

#[test]
fn killed_in_a_user_namespace_it_leaves_nothing() {
    blast(&in_user_namespace(), Signal::SIGKILL);
}

/// The splicer's demo, to its end.
fn splicer_succeeds(prefix: &[&str]) {
    let mut demo = Demo::start(prefix, &["splice", "--seconds", "3"]);
    let output = demo.running.wait(PATIENCE).unwrap_or_else(|error| panic!("{error}"));
    assert!(output.status.success(), "{output}");
    demo.assert_no_files();
    let text = output.text();
    let parts = [
        "one virtual address in front of three web servers",
        "\n1. 4 clients ask, three servers answer\n",
        "`millrace sessions` lists ",
        "\n2. b is drained",
        "drain",
        "\n3. a is killed",
        "\n4. a is back\n",
        "\n5. a flood of SYNs",
        " SYNs\n",
        "\n6. what was counted\n",
        "service_requests",
        " requests were answered, ",
    ];
    let mut rest = text.as_str();
    for part in parts {
        rest = rest.split_once(part).unwrap_or_else(|| panic!("{part:?} is missing, or not in order: {text}")).1;
    }
}

#[test]
fn the_splicer_works_as_root() {
    splicer_succeeds(&[]);
}

#[test]
fn the_splicer_works_without_privileges() {
    splicer_succeeds(&without_privileges());
}

#[test]
fn the_splicer_leaves_nothing_when_it_is_interrupted() {
    let mut demo = Demo::start(&[], &["splice", "--seconds", "100"]);
    let id = demo.running.id();
    demo.running.wait_for_text("\n1. 4 clients", PATIENCE).unwrap_or_else(|error| panic!("{error}"));
    let test = namespaces(Path::new("/proc/self"));
    let own: BTreeSet<_> = namespaces(Path::new(&format!("/proc/{id}"))).difference(&test).cloned().collect();
    assert!(own.len() >= 3, "{own:?}");
    demo.running.signal(Signal::SIGTERM).unwrap();
    let output = demo.running.wait(PATIENCE).unwrap_or_else(|error| panic!("{error}"));
    assert!(!output.status.success(), "{output}");
    eventually("the demo's namespaces are gone", || all_namespaces().is_disjoint(&own));
    demo.assert_no_files();
}

/// Programs that the media proxy's demo takes are named where they are not there.
#[test]
fn the_media_proxy_says_what_is_missing() {
    let mut demo = Demo::start(&["env", "PATH=/nowhere"], &["media"]);
    let output = demo.running.wait(PATIENCE).unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(output.status.code(), Some(2), "{output}");
    let text = output.both();
    assert!(text.contains("missing: ffmpeg") && text.contains("apt install ffmpeg python3-gi"), "{text}");
    demo.assert_no_files();
}

/// The demo of streams for HTTP clients, to its end.
fn translation_succeeds(prefix: &[&str]) {
    let mut demo = Demo::start(prefix, &["translate", "--seconds", "4"]);
    let output = demo.running.wait(PATIENCE).unwrap_or_else(|error| panic!("{error}"));
    assert!(output.status.success(), "{output}");
    demo.assert_no_files();
    let text = output.text();
    let parts = [
        "live streams for HTTP clients",
        "\n1. 4 seconds at 1.2 Mbit/s",
        "`millrace translate sessions`: ",
        "\n   translated: Mbit/s in each tenth of a second\n",
        "█",
        "\n   TCP from end to end: Mbit/s in each tenth of a second\n",
        "█",
        "\n2. what a player with a buffer of one second shows of it\n",
        "   translated: ",
        "   TCP from end to end: ",
    ];
    let mut rest = text.as_str();
    for part in parts {
        rest = rest.split_once(part).unwrap_or_else(|| panic!("{part:?} is missing, or not in order: {text}")).1;
    }
}

#[test]
fn the_translation_works_as_root() {
    translation_succeeds(&[]);
}

#[test]
fn the_translation_works_without_privileges() {
    translation_succeeds(&without_privileges());
}
