//! `millrace top` on a terminal.

use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::instance::Runtime;
use crate::screen::Terminal;
use crate::{FIRST, PATCH};

/// A terminal of the size that all have at least.
const SIZE: (u16, u16) = (24, 80);

fn patch<'r>(runtime: &'r Runtime) -> crate::instance::Instance<'r> {
    runtime.start(&[PATCH, "--port", &format!("left=pcap:{FIRST}"), "--port", "right=mem:"])
}

#[test]
fn it_shows_what_runs_and_connects_again() {
    let runtime = Runtime::new();
    let first = patch(&runtime);
    let mut top = Terminal::start(&runtime.command(&["top", "--interval", "0.25"]), SIZE);
    let text = top.wait_for(&format!("pid {}", first.id()));
    assert!(text.contains("1 overview  2 ports  3 PPFs  4 drops  5 tables  6 counters"), "{text}");
    top.wait_for("ttl_expired");
    top.type_in("4");
    let text = top.wait_for("packets↓");
    assert!(text.find("truncated") < text.find("ttl_expired"), "2 before 1: {text}");
    top.type_in("/ttl\r");
    let text = top.wait_for("rows 1 to 1 of 1");
    assert!(text.contains("ttl_expired") && !text.contains("truncated"), "{text}");
    top.type_in("\u{1b}");
    top.wait_for("truncated");
    drop(first);
    top.wait_for("connecting again");
    let second = patch(&runtime);
    top.wait_for(&format!("pid {}", second.id()));
    // Little of a processor, though it looks four times a second and not once.
    let (start, before) = (Instant::now(), processor_time(top.id()));
    std::thread::sleep(Duration::from_secs(3));
    let used = (processor_time(top.id()) - before).as_secs_f64() / start.elapsed().as_secs_f64();
    assert!(used < 0.05, "{used}");
    top.type_in("q");
    assert_eq!(top.end(), Some(0));
}

/// How long a process has run.
fn processor_time(pid: u32) -> Duration {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    let fields: Vec<&str> = stat.rsplit(')').next().unwrap().split_whitespace().collect();
    let ticks: u64 = [fields[11], fields[12]].iter().map(|field| field.parse::<u64>().unwrap()).sum();
    let per_second = nix::unistd::sysconf(nix::unistd::SysconfVar::CLK_TCK).unwrap().unwrap();
    Duration::from_secs_f64(ticks as f64 / per_second as f64)
}

#[test]
fn the_terminal_is_given_back() {
    let runtime = Runtime::new();
    let _instance = patch(&runtime);
    let signals = [Signal::SIGTERM, Signal::SIGINT, Signal::SIGHUP].map(Some);
    for signal in signals.into_iter().chain([None]) {
        let mut top = Terminal::start(&runtime.command(&["top"]), SIZE);
        let before = top.settings();
        top.wait_for("1 overview");
        assert_eq!(top.is_taken(), (true, false));
        assert_ne!(top.settings(), before, "keys come one by one");
        match signal {
            Some(signal) => kill(Pid::from_raw(top.id() as i32), signal).unwrap(),
            None => top.type_in("\u{3}"),
        }
        assert_eq!(top.end(), Some(0), "{signal:?}");
        assert_eq!(top.settings(), before, "{signal:?}");
        let start = Instant::now();
        while top.is_taken() != (false, true) {
            assert!(start.elapsed() < Duration::from_secs(10), "{signal:?}: {:?}", top.is_taken());
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

/// With the window of a terminal, or the connection to another machine, that it runs on.
#[test]
fn it_ends_with_its_terminal() {
    let runtime = Runtime::new();
    let _instance = patch(&runtime);
    let mut top = Terminal::start(&runtime.command(&["top"]), SIZE);
    top.wait_for("1 overview");
    top.close();
    // By the signal, or as nothing can be read any more.
    let status = top.end();
    assert!(matches!(status, Some(0 | 2)), "{status:?}");
}

#[test]
fn without_a_terminal_or_an_instance_it_says_so() {
    let runtime = Runtime::new();
    let text = runtime.millrace(&["top"]).failed_in_one_line(2);
    assert!(text.contains("no instance is running"), "{text}");
    let _instance = patch(&runtime);
    let text = runtime.millrace(&["top"]).failed_in_one_line(1);
    assert!(text.contains("top takes a terminal") && text.contains("millrace counters --json"), "{text}");
    let small = Terminal::start(&runtime.command(&["top"]), (10, 40));
    small.wait_for("needs 60 columns");
}
