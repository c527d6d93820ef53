//! Programs are bounded in time, captured, and end with their guard or their namespace.

use std::time::{Duration, Instant};

use crate::common::{PATIENCE, eventually, is_alive};
use lab::{Error, Namespace, Signal};

#[test]
fn output_and_status_are_captured() {
    let ns = Namespace::new("x").unwrap();
    let script = "read line; echo \"got $line $WORD\"; echo oops >&2; exit 3";
    let output = ns.command("sh").args(["-c", script]).input("this\n").env("WORD", "and more").run().unwrap();
    assert_eq!(output.status.code(), Some(3));
    assert_eq!(output.text(), "got this and more\n");
    assert_eq!(output.stderr, b"oops\n");

    let error = ns.check(&["sh", "-c", script]).unwrap_err();
    assert!(matches!(error, Error::Failed { .. }));
    let text = error.to_string();
    assert!(text.contains("exit status: 3") && text.contains("oops") && text.contains(ns.name()), "{text}");
}

#[test]
fn much_output_does_not_block() {
    let ns = Namespace::new("x").unwrap();
    let output = ns.check(&["head", "-c", "3000000", "/dev/zero"]).unwrap();
    assert_eq!(output.stdout.len(), 3_000_000);
}

#[test]
fn unknown_programs_are_named() {
    let error = Namespace::new("x").unwrap().run(&["no-such-program"]).unwrap_err();
    assert!(matches!(&error, Error::NotInstalled { program } if program == "no-such-program"), "{error}");
    assert!(matches!(Namespace::new("x").unwrap().run(&[]), Err(Error::Invalid(_))));
}

#[test]
fn a_program_is_killed_at_its_time_limit() {
    let ns = Namespace::new("x").unwrap();
    let start = Instant::now();
    let error = ns
        .command("sh")
        .args(["-c", "echo started; sleep 1000 & echo $! >&2; wait"])
        .limit(Duration::from_millis(300))
        .run()
        .unwrap_err();
    assert!(start.elapsed() >= Duration::from_millis(300));
    let Error::Timeout { output, .. } = error else { panic!("{error}") };
    let grandchild = output.strip_prefix("started\n").unwrap().trim().parse().unwrap();
    eventually("the program's own child is killed", || !is_alive(grandchild));
}

#[test]
fn a_background_program_ends_with_its_guard() {
    let ns = Namespace::new("x").unwrap();
    let mut running = ns.command("sh").args(["-c", "sleep 1000 & echo pid $!; wait"]).spawn().unwrap();
    running.wait_for_text("\n", PATIENCE).unwrap();
    assert!(running.ended().unwrap().is_none());
    let text = running.both();
    let grandchild = text.strip_prefix("pid ").unwrap().trim().parse().unwrap();
    let child = running.id();
    assert!(is_alive(child) && is_alive(grandchild));
    drop(running);
    assert!(!is_alive(child));
    eventually("its own child is killed", || !is_alive(grandchild));
}

#[test]
fn a_background_program_ends_with_its_namespace() {
    let ns = Namespace::new("x").unwrap();
    let mut running = ns.command("sleep").arg("1000").spawn().unwrap();
    drop(ns);
    let output = running.wait(PATIENCE).unwrap();
    assert!(!output.status.success());
}

#[test]
fn a_background_program_takes_signals() {
    let ns = Namespace::new("x").unwrap();
    let script = "trap 'echo caught; exit 7' INT; echo set; while :; do sleep 0.01; done";
    let mut running = ns.command("sh").args(["-c", script]).spawn().unwrap();
    running.wait_for_text("set", PATIENCE).unwrap();
    running.signal(Signal::SIGINT).unwrap();
    let output = running.wait(PATIENCE).unwrap();
    assert_eq!((output.status.code(), output.text().as_str()), (Some(7), "set\ncaught\n"));
    running.signal(Signal::SIGINT).unwrap();
}

#[test]
fn waiting_for_text_ends_with_the_program_or_the_limit() {
    let ns = Namespace::new("x").unwrap();
    let mut short = ns.command("sh").args(["-c", "echo last words; exit 1"]).spawn().unwrap();
    let error = short.wait_for_text("ready", PATIENCE).unwrap_err();
    assert!(matches!(error, Error::Failed { .. }), "{error}");
    short.wait_for_text("last words", PATIENCE).unwrap();

    let mut long = ns.command("sleep").arg("1000").spawn().unwrap();
    let error = long.wait_for_text("ready", Duration::from_millis(50)).unwrap_err();
    assert!(matches!(error, Error::Timeout { .. }), "{error}");
}
