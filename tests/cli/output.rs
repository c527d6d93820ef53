//! Standard output that goes away, or that takes nothing.

use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::process::{Command, Stdio};

use crate::process::{Scratch, millrace, wait};
use crate::{FIRST, PATCH};

/// What prints something, one command line of each subcommand.
const COMMANDS: [&[&str]; 5] = [
    &["check", "l3switch"],
    &["emit", "l3switch", "--target", "asm"],
    &["replay", PATCH, "--in", FIRST],
    &["run", PATCH, "--port", "a=mem:", "--duration", "0.1"],
    &["--help"],
];

#[test]
fn a_reader_that_stops_early_is_no_error() {
    for arguments in COMMANDS {
        for lines in [0, 1] {
            let mut command = Command::new(env!("CARGO_BIN_EXE_millrace"));
            command.args(arguments).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
            let mut child = command.spawn().unwrap();
            let mut reader = BufReader::with_capacity(16, child.stdout.take().unwrap());
            for _ in 0..lines {
                assert!(reader.read_line(&mut String::new()).unwrap() > 0);
            }
            drop(reader);
            assert_eq!(wait(&mut child), Some(0), "{arguments:?}");
            let mut stderr = String::new();
            child.stderr.take().unwrap().read_to_string(&mut stderr).unwrap();
            assert_eq!(stderr, "", "{arguments:?}");
        }
    }
}

#[test]
fn nobody_reads_the_errors() {
    let mut command = Command::new(env!("CARGO_BIN_EXE_millrace"));
    let mut child = command.args(["check", "nosuch"]).stdin(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    drop(child.stderr.take());
    assert_eq!(wait(&mut child), Some(1));
}

#[test]
fn a_full_disk_is_an_error() {
    for arguments in &COMMANDS[..4] {
        let mut command = Command::new(env!("CARGO_BIN_EXE_millrace"));
        let full = File::create("/dev/full").unwrap();
        command.args(*arguments).stdin(Stdio::null()).stdout(full).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        assert_eq!(wait(&mut child), Some(2), "{arguments:?}");
        let mut stderr = String::new();
        child.stderr.take().unwrap().read_to_string(&mut stderr).unwrap();
        assert_eq!(stderr, "error: standard output: No space left on device (os error 28)\n", "{arguments:?}");
    }
    let text = millrace(&["replay", PATCH, "--in", FIRST, "--out", "/dev/full"]).failed_in_one_line(1);
    assert!(text.contains("/dev/full: cannot be written: No space left"), "{text}");
}

#[test]
fn shells_and_manual_pages_know_all_commands() {
    let scratch = Scratch::new();
    for shell in ["bash", "zsh", "fish"] {
        let script = millrace(&["completions", shell]).ok();
        for word in ["drops", "servers", "openmetrics"] {
            assert!(script.contains(word), "{shell}: {word}");
        }
    }
    let script = scratch.write("millrace.bash", millrace(&["completions", "bash"]).ok());
    // What bash offers behind `millrace table d`.
    let offered = "COMP_WORDS=(millrace table d); COMP_CWORD=2; _millrace millrace d table; echo ${COMPREPLY[*]}";
    let mut command = std::process::Command::new("bash");
    command.args(["-c", &format!("source {script}; {offered}")]);
    assert_eq!(crate::process::run(command).ok(), "del dump\n");
    assert!(millrace(&["completions", "csh"]).failed(1).contains("bash"));
    let pages = scratch.path("man");
    millrace(&["man", &pages]).ok();
    for (page, word) in [
        ("millrace.1", "counters"),
        ("millrace-table-set.1", "MODULE.TABLE"),
        ("millrace-servers-drain.1", "POOL/NAME"),
    ] {
        let text = std::fs::read_to_string(format!("{pages}/{page}")).unwrap();
        assert!(text.contains(".TH") && text.contains(word), "{page}: {text}");
    }
}
