//! What a case file may say, and what a case that fails shows.

#[path = "../../../tests/support/compile.rs"]
mod common;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use baker::ir::Program;
use baker::opt::Level;
use codegen::OptLevel;
use control::applications::Applications;
use control::cases::{self, Case, LoadError};
use dataplane::EngineKind;
use dataplane::step::Compiled;

const CONFIG: &str = "
[ports.a]
number = 1
[ports.b]
number = 2
[tables.bounce.twins]
a = true
[tables.bounce.seen]
1 = 7
";

fn program() -> Arc<Program> {
    common::compile(Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/common/bounce.baker")))
}

/// A folder with `bounce.toml` and `cases/case.toml` that goes away with it.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str, case: &str) -> Self {
        let folder = std::env::temp_dir().join(format!("millrace-cases-{}-{name}", std::process::id()));
        std::fs::create_dir_all(folder.join("cases")).unwrap();
        std::fs::write(folder.join("bounce.toml"), CONFIG).unwrap();
        std::fs::write(folder.join("cases/case.toml"), case).unwrap();
        Folder(folder)
    }

    fn load(&self) -> Result<Case, LoadError> {
        cases::load(&self.0.join("cases/case.toml"), &program(), Applications::NONE)
    }

    /// A message without the folder's name.
    fn strip(&self, message: &str) -> String {
        message.replace(&format!("{}/", self.0.display()), "")
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        std::fs::remove_dir_all(&self.0).unwrap();
    }
}

/// Every engine must say the same of a case.
fn outcome(name: &str, case: &str) -> Result<(), String> {
    let folder = Folder::new(name, case);
    let case = folder.load().unwrap_or_else(|error| panic!("{error}"));
    let engines = [EngineKind::Interp, EngineKind::Native(OptLevel::O0, Level::Base), EngineKind::NATIVE];
    let outcomes = engines.map(|engine| {
        cases::run(&Compiled::new(program(), engine).unwrap(), &case).map_err(|failure| {
            assert_eq!(failure.engine, engine);
            folder.strip(&failure.to_string()).replace(&format!("{engine:?}"), "E")
        })
    });
    assert!(outcomes.iter().all(|outcome| *outcome == outcomes[0]), "{outcomes:#?}");
    outcomes.into_iter().next().unwrap()
}

const RIGHT: &str = r#"
description = "twins"
[define]
eth = "ether(src=1, dst=2, type=7)"
[[step]]
in = { port = "a", packet = "eth/hex(01)" }
out = [{ port = "a", packet = "eth/hex(01)" }, { port = "host", packet = "ether(src=2, dst=1, type=7)/hex(01)" }]
[[step]]
note = "no twin on b"
in = { port = "b", packet = "eth" }
drops = { odd = 1 }
[after.tables.bounce.seen]
1 = 8
2 = 1
3 = 0
[after.entries]
bounce.seen = 2
"#;

#[test]
fn a_right_case_passes() {
    assert_eq!(outcome("right", RIGHT), Ok(()));
}

/// The message of [`RIGHT`] with one thing changed.
fn failure(name: &str, from: &str, to: &str) -> String {
    assert_eq!(RIGHT.matches(from).count(), 1, "{from}");
    outcome(name, &RIGHT.replace(from, to)).unwrap_err()
}

#[test]
fn other_bytes_are_shown_by_field_and_byte() {
    let message = failure("bytes", "ether(src=2, dst=1, type=7)/hex(01)", "ether(src=2, dst=1, type=8)/hex(02)");
    let expected = r#"cases/case.toml:5: twins (engine E)
  in: a: ether(dst=00:00:00:00:00:02, src=00:00:00:00:00:01, type=0x0007)/hex(01)
  out[1]:
  expected  host: ether(dst=00:00:00:00:00:01, src=00:00:00:00:00:02, type=0x0008)/hex(02)
  found     host: ether(dst=00:00:00:00:00:01, src=00:00:00:00:00:02, type=0x0007)/hex(01)
  ether.type: expected 0x0008, found 0x0007
  0000  expected  00 00 00 00 00 01 00 00 00 00 00 02 00 08 02
        found     00 00 00 00 00 01 00 00 00 00 00 02 00 07 01
                                                         ^^ ^^
  found is
  ether: dst 00:00:00:00:00:01, src 00:00:00:00:00:02, type 0x0007
  15 bytes, 1 after these headers
  0000  00 00 00 00 00 01 00 00 00 00 00 02 00 07 01
"#;
    assert_eq!(message, expected);
}

#[test]
fn another_port_number_of_packets_drop_or_entry_fails() {
    let port = failure(
        "port",
        "{ port = \"a\", packet = \"eth/hex(01)\" }, {",
        "{ port = \"b\", packet = \"eth/hex(01)\" }, {",
    );
    assert!(port.contains("  out[0]:\n  port: expected b, found a\n"), "{port}");

    let fewer = failure("fewer", "{ port = \"a\", packet = \"eth/hex(01)\" }, {", "{");
    assert!(fewer.contains("  expected 1 packet, found 2\n  expected  host: ether(dst"), "{fewer}");
    assert!(fewer.contains("\n  found     a: ether(dst=00:00:00:00:00:02"), "{fewer}");

    let missing = failure("drop", "drops = { odd = 1 }", "drops = { truncated = 1 }");
    let expected = "cases/case.toml:8: twins: no twin on b (engine E)\n  in: b: ether(dst=00:00:00:00:00:02, \
                    src=00:00:00:00:00:01, type=0x0007)\n  dropped as truncated: expected 1, found 0\n  \
                    dropped as odd: expected 0, found 1\n";
    assert_eq!(missing, expected);

    let entry = failure("entry", "1 = 8", "1 = 9");
    let expected = "cases/case.toml: twins (engine E)\n  table bounce.seen at 0x1: expected [0x9,], found [0x8,]\n";
    assert_eq!(entry, expected);
    let size = failure("size", "seen = 2", "seen = 3");
    assert_eq!(size, "cases/case.toml: twins (engine E)\n  table bounce.seen: expected 3 entries, found 2\n");
    let absent = failure("absent", "3 = 0", "3 = 1");
    assert!(absent.ends_with("  table bounce.seen at 0x3: expected [0x1,], found [0x0,]\n"), "{absent}");
}

#[test]
fn a_packet_that_no_frame_holds_fails() {
    let long = failure("long", "packet = \"eth\" }", "packet = \"eth/zero(60000)\" }");
    assert!(long.contains("the packet has 60014 bytes, but a frame holds "), "{long}");
}

#[test]
fn tables_of_the_case_come_after_those_of_the_configuration() {
    let case = RIGHT.replace("[define]", "[tables.bounce.seen]\n1 = 20\n[define]").replace("1 = 8", "1 = 21");
    assert_eq!(outcome("tables", &case), Ok(()));
}

#[test]
fn errors_of_case_files() {
    let text = r#"
descripton = "x"
[define]
ether = "hex(00)"
"a b" = "hex(00)"
n = 1
[tables.bounce.twins]
c = true
[[step]]
in = { port = "host", packet = "ehter()" }
out = [{ port = "hots", packet = "hex(0)" }, { packet = "hex(00)" }]
drops = { oddd = 1, odd = 0 }
[[step]]
on = {}
[after.table]
[after.entries]
bounce.saen = 1
bounce.seen = 5
"#;
    let folder = Folder::new("errors", text);
    let message = folder.strip(&folder.load().unwrap_err().to_string());
    let names = "ether, hex, text, zero, pad";
    let expected = [
        "1: description: is missing; accepted: a sentence that says what the case shows",
        "2: descripton: unknown key; did you mean `description`?; accepted: description, config, define, externs, controllers, ports, tables, step, after",
        "4: define.ether: this is the name of a protocol; accepted: another name",
        "5: define.\"a b\": packet text can't name this; accepted: letters, digits and `_`, no digit first",
        "6: define.n: this is an integer; accepted: packet text, or a value of a field",
        "8: tables.bounce.twins.c: \"c\" is not a value of `u32`; accepted: an index from 0 to 3, or the name of a port",
        "10: step[0].in.port: there is no port \"host\"; accepted: one of a, b",
        "10: step[0].in.packet: column 1: there is no layer `ehter`; did you mean `ether`?; there are NAMES",
        "11: step[0].out[0].port: there is no port \"hots\"; did you mean `host`?; accepted: one of a, b, host",
        "11: step[0].out[0].packet: column 5: expected two hexadecimal digits for each byte",
        "11: step[0].out[1]: `port` is missing; accepted: port and packet",
        "12: step[0].drops.oddd: there is no such drop reason; did you mean `odd`?; accepted: truncated, malformed, no_port, no_host, tx_failed, controller_busy, controller_gone, table_busy, no_worker, no_reason, ended, tap_full, deadline_late, odd",
        "12: step[0].drops.odd: 0 is out of range; accepted: an integer from 1 to 4294967295",
        "13: step[1]: `in` is missing; accepted: in = { port = \"…\", packet = \"…\" }, or wait = \"30s\"",
        "14: step[1].on: unknown key; did you mean `in`?; accepted: note, in, wait, out, drops",
        "15: after.table: unknown key; did you mean `tables`?; accepted: tables, entries, counters",
        "17: after.entries.bounce.saen: there is no table bounce.saen; did you mean `bounce.seen`?; accepted: bounce.twins, bounce.seen",
        "18: after.entries.bounce.seen: 5 is out of range; accepted: an integer from 0 to 4",
    ];
    let expected = expected.map(|line| format!("cases/case.toml:{}", line.replace("NAMES", names)));
    let found: Vec<&str> = message.lines().collect();
    assert_eq!(found, expected);
}

#[test]
fn the_configuration_must_be_there_and_right() {
    let folder = Folder::new("config", "description = \"x\"\nconfig = \"none.toml\"\n[[step]]");
    let message = folder.strip(&folder.load().unwrap_err().to_string());
    assert!(message.starts_with("cases/none.toml: "), "{message}");
    std::fs::write(folder.0.join("cases/none.toml"), "[ports.a]\nnumber = 0").unwrap();
    let message = folder.strip(&folder.load().unwrap_err().to_string());
    assert_eq!(message, "cases/none.toml:2: ports.a.number: 0 is out of range; accepted: an integer from 1 to 255");
}

#[test]
fn no_steps_are_no_case() {
    let folder = Folder::new("empty", "description = \"x\"");
    let message = folder.strip(&folder.load().unwrap_err().to_string());
    assert_eq!(
        message,
        "cases/case.toml:1: step: there is no step; accepted: at least one [[step]] with `in` or `wait`"
    );
}

#[test]
fn files_are_found_in_order() {
    let folder = Folder::new("files", "");
    for name in ["b.toml", "a.toml", "notes.md"] {
        std::fs::write(folder.0.join("cases").join(name), "").unwrap();
    }
    let files = cases::files(&folder.0.join("cases")).unwrap();
    let names: Vec<_> = files.iter().map(|file| file.file_name().unwrap().to_str().unwrap()).collect();
    assert_eq!(names, ["a.toml", "b.toml", "case.toml"]);
    assert!(matches!(cases::files(&folder.0.join("none")), Err(LoadError::Read { .. })));
}
