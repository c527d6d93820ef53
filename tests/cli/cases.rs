//! `millrace test`: cases of any program on all engines, what a failure shows, and case files that are rewritten.

use std::fs;
use std::process::Command;

use serde_json::Value as Json;

use crate::PATCH;
use crate::process::{Done, Scratch, millrace, run, without_privileges};

/// `examples/cases/patch/patch.toml`.
const CASE: &str = include_str!("../../examples/cases/patch/patch.toml");
/// All variants where the kernel takes programs.
const VARIANTS: [&str; 5] = ["interp", "worker, copy", "worker, in-place", "worker, header-copy", "xdp"];

/// `examples/patch.baker` in a directory of its own, with one case.
fn patch(case: &str) -> (Scratch, String) {
    let scratch = Scratch::new();
    let program = scratch.write("patch.baker", fs::read(PATCH).unwrap());
    fs::create_dir(scratch.path("cases")).unwrap();
    scratch.write("cases/patch.toml", case);
    (scratch, program)
}

/// The case with one part changed.
fn changed(from: &str, to: &str) -> String {
    assert_eq!(CASE.matches(from).count(), 1, "{from}");
    CASE.replace(from, to)
}

/// It ran all that it was asked, and cases failed; what it printed.
fn cases_failed(done: Done, cases: &str) -> String {
    assert_eq!((done.status, done.stderr.trim_end()), (Some(1), format!("error: {cases} cases failed").as_str()));
    done.stdout
}

fn json(text: &str) -> Json {
    serde_json::from_str(text).unwrap_or_else(|error| panic!("{error}: {text}"))
}

#[test]
fn the_example_passes_on_all_engines() {
    let text = millrace(&["test", PATCH]).ok();
    assert!(text.lines().next().unwrap().ends_with(&format!("patch.baker: 1 case, run by: {}", VARIANTS.join("; "))));
    assert!(text.contains("\n  ok      patch  what comes in at one side goes out"), "{text}");
    assert!(text.contains("\n1 case: 1 passed, 0 failed; 5 runs in "), "{text}");
    let found = json(&millrace(&["test", PATCH, "--json"]).ok());
    assert_eq!(found["variants"], serde_json::json!(VARIANTS));
    assert_eq!((&found["passed"], &found["failed"], &found["not_run"]), (&1.into(), &0.into(), &Json::Null));
    assert_eq!(found["cases"][0]["runs"].as_array().unwrap().len(), 5);
    // Engines alone, and the list.
    let text = millrace(&["test", PATCH, "--engine", "interp,xdp"]).ok();
    assert!(text.contains("run by: interp; xdp\n"), "{text}");
    let text = millrace(&["test", PATCH, "--engine", "tc,worker"]).ok();
    assert!(text.contains("run by: worker, copy; worker, in-place; worker, header-copy; tc\n"), "{text}");
    let text = millrace(&["test", PATCH, "--list"]).ok();
    assert_eq!(
        text,
        "patch  what comes in at one side goes out at the other; an IPv4 packet has one hop less to live\n"
    );
}

/// The first case of docs/testing.md is one that passes.
#[test]
fn the_documented_case_passes() {
    let document = include_str!("../../docs/testing.md");
    let case = document.split("```toml\n").nth(1).unwrap().split("```").next().unwrap();
    assert!(case.contains("description = ") && case.contains("[after.counters]"), "{case}");
    let (_scratch, program) = patch(case);
    millrace(&["test", &program, "--engine", "interp,worker"]).ok();
}

#[test]
fn applications_have_their_cases_with_them() {
    let listed = json(&millrace(&["test", "l3switch", "--list", "--json"]).ok());
    let folder = fs::read_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/../../apps/l3switch/cases")).unwrap();
    assert_eq!(listed.as_array().unwrap().len(), folder.count());
    let text = millrace(&["test", "l3switch", "--case", "route*ttl", "--case", "no_dom", "--engine", "worker"]).ok();
    assert!(
        text.contains("\n2 cases: 2 passed, 0 failed; 6 runs in ") && text.contains("  ok      no_domain"),
        "{text}"
    );
    let text = millrace(&["test", "l3switch", "--case", "routes"]).failed(1);
    assert!(
        text.starts_with("error: --case routes: no case is called so\n  cases: arp_learning_is_careful, "),
        "{text}"
    );
    let text = millrace(&["test", "l3switch", "--update"]).failed_in_one_line(1);
    assert!(text.contains("is built in: give the directory of its sources"), "{text}");
}

#[test]
fn a_failure_shows_fields_bytes_drops_and_counters() {
    let (scratch, program) = patch(&changed("ttl=63, protocol=253", "ttl=62, protocol=254"));
    let text = cases_failed(millrace(&["test", &program]), "1 of 1");
    let place = scratch.path("cases/patch.toml");
    let line = 1 + CASE.lines().position(|line| line == "[[step]]").unwrap();
    for part in [
        "\n  FAILED  patch  what comes in".to_owned(),
        format!("\nFAILED {place}:{line}: what comes in"),
        "\n  in: left: ether(dst=02:00:00:00:00:02".to_owned(),
        "\n  ipv4.ttl: expected 62, found 63\n  ipv4.protocol: expected 254, found 253\n".to_owned(),
        "\n  0010  expected  00 1c 00 00 00 00 3e fe ".to_owned(),
        "\n        found     00 1c 00 00 00 00 3f fd ".to_owned(),
        "\n1 case: 0 passed, 1 failed; 5 runs in ".to_owned(),
    ] {
        assert!(text.contains(&part), "{part}\n{text}");
    }
    // The same for all, said once; and to machines for each.
    assert_eq!(text.matches("ipv4.ttl: expected").count(), 1, "{text}");
    let junit = scratch.path("junit.xml");
    let found = json(&cases_failed(millrace(&["test", &program, "--json", "--junit", &junit]), "1 of 1"));
    let runs = found["cases"][0]["runs"].as_array().unwrap();
    assert!(runs.iter().all(|run| run["line"] == line && run["passed"] == false), "{found}");
    assert!(runs[4]["problems"].as_array().unwrap().iter().any(|line| line == "ipv4.ttl: expected 62, found 63"));
    let junit = fs::read_to_string(junit).unwrap();
    assert_eq!(junit.matches("failures=\"1\"").count(), 5, "{junit}");
    assert!(
        junit.contains("<testcase classname=\"patch\" name=\"patch\" file=\"") && junit.contains("<failure message=\"")
    );

    let (_scratch, program) = patch(&changed("drops = { ttl_expired = 1 }", "drops = { no_port = 1 }"));
    let text = cases_failed(millrace(&["test", &program]), "1 of 1");
    assert!(
        text.contains("  dropped as no_port: expected 1, found 0\n  dropped as ttl_expired: expected 0, found 1\n")
    );

    let (_scratch, program) = patch(&changed("patch.bytes = 101", "patch.bytes = 102"));
    let text = cases_failed(millrace(&["test", &program]), "1 of 1");
    assert!(text.contains("\n  counter patch.bytes: expected 102, found 101\n"), "{text}");
}

#[test]
fn wrong_files_are_told_with_their_lines() {
    let (scratch, program) = patch(&changed(
        "port = \"right\", packet = \"ether(dst=a, src=b, type=0x0800)",
        "port = \"rihgt\", packet = \"ether(dts=a)",
    ));
    let file = scratch.path("cases/patch.toml");
    scratch.write("cases/other.toml", "description = \"x\"\n[ports.left]\n[after.counters]\npatch.byte = 1\nstep = 1");
    let text = millrace(&["test", &program]).failed(1);
    let other = scratch.path("cases/other.toml");
    let expected = [
        format!(
            "error: {other}:2: ports.left: there is no such port; accepted: nothing; or a new one: {{ number = 1 }}"
        ),
        format!("error: {other}:1: step: there is no step"),
        format!(
            "error: {other}:4: after.counters.patch.byte: there is no counter patch.byte; did you mean `patch.bytes`?"
        ),
        format!(
            "error: {file}:20: step[1].in.port: there is no port \"rihgt\"; did you mean `right`?; accepted: one of left, right"
        ),
        format!("error: {file}:20: step[1].in.packet: column 7: ether has no field `dts`; did you mean `dst`?"),
    ];
    for line in &expected {
        assert!(text.contains(line), "{line}\n{text}");
    }
    // Files and directories of the command line.
    let text = millrace(&["test", &program, &other]).failed(1);
    assert!(!text.contains("patch.toml"), "{text}");
    let text = millrace(&["test", &program, &scratch.path("no.toml")]).failed_in_one_line(1);
    assert!(text.contains("no.toml: No such file"), "{text}");
    fs::create_dir(scratch.path("empty")).unwrap();
    let text = millrace(&["test", &program, &scratch.path("empty")]).failed_in_one_line(1);
    assert!(text.contains("empty: holds no case: no file in it ends with .toml"), "{text}");
    let alone = Scratch::new();
    let program = alone.write("patch.baker", fs::read(PATCH).unwrap());
    let text = millrace(&["test", &program]).failed_in_one_line(1);
    assert!(text.ends_with(&format!("there are no cases: no .toml file is in {}\n", alone.path("cases"))), "{text}");
}

#[test]
fn an_update_writes_what_all_engines_found_and_leaves_the_rest() {
    // Another packet, a missing one, a drop too many, one too few, in both notations of steps.
    let case = changed("ttl=63,", "ttl=1,")
        .replace("out = [{ port = \"left\", packet = \"ether(dst=a, src=b, type=0x88b5)/hex(01 02 03)\" }]\n", "")
        .replace("drops = { ttl_expired = 1 }", "drops = { no_port = 1 }");
    let (scratch, program) = patch(&case);
    let done = millrace(&["test", &program, "--update"]);
    assert_eq!((done.status, done.stderr.as_str()), (Some(0), ""), "{done:?}");
    let file = scratch.path("cases/patch.toml");
    assert!(done.stdout.contains("1 case: 0 passed, 1 failed"), "{done:?}");
    assert!(done.stdout.ends_with(&format!("\nupdated: {file}\n")), "{done:?}");
    let new = fs::read_to_string(&file).unwrap();
    let differing: Vec<_> = new.lines().filter(|line| !case.lines().any(|old| old == *line)).collect();
    assert_eq!(
        differing,
        [
            "out = [{ port = \"right\", packet = \"ether(dst=02:00:00:00:00:02, src=02:00:00:00:00:01, \
             type=0x0800)/ipv4(total_length=28, ttl=63, protocol=253, src=10.0.0.1, \
             dst=10.0.0.2)/hex(65 69 67 68 74 20 62 79)\" }]",
            "drops = { ttl_expired = 1 }",
            "out = [{ port = \"left\", packet = \"ether(dst=02:00:00:00:00:01, src=02:00:00:00:00:02, \
             type=0x88b5)/hex(01 02 03)\" }]",
        ]
    );
    millrace(&["test", &program]).ok();
    // What it does not write: tables and counters at the end, and a case that is right.
    scratch.write("cases/patch.toml", changed("= 101", "= 1"));
    let done = millrace(&["test", &program, "--update"]);
    assert!(done.stdout.contains("not updated: ") && done.stdout.contains("what fails is in [after]"), "{done:?}");
    assert_eq!((done.status, fs::read_to_string(&file).unwrap()), (Some(1), changed("= 101", "= 1")));
    scratch.write("cases/patch.toml", CASE);
    millrace(&["test", &program, "--update"]).ok();
    assert_eq!(fs::read_to_string(&file).unwrap(), CASE);
    let inline = "description = \"inline\"\nports = { a = { number = 1 }, b = { number = 2 } }\n\
                  step = [{ in = { port = \"a\", packet = \"hex(00)\" }, note = \"short\" },\n\
                  { in = { port = \"a\", packet = \"ether(type=7)\" } }]\n";
    scratch.write("cases/patch.toml", inline);
    millrace(&["test", &program, "--update"]);
    let new = fs::read_to_string(&file).unwrap();
    assert!(new.contains("\"hex(00)\" }, drops = { truncated = 1 }, note"), "{new}");
    assert!(new.contains("\"ether(type=7)\" }, out = [{ port = \"b\", packet = \"ether(type=0x0007)\" }] }]"), "{new}");
    millrace(&["test", &program]).ok();
}

#[test]
fn without_rights_the_kernel_is_told_to_have_run_nothing() {
    let (scratch, program) = patch(CASE);
    let millrace = scratch.millrace();
    let unprivileged = |arguments: &[&str]| {
        let words = without_privileges();
        let mut command = Command::new(words[0]);
        command.args(&words[1..]).args([&millrace, "test", &program]).args(arguments);
        run(command)
    };
    let text = unprivileged(&[]).ok();
    let told = "\nNOT RUN: xdp: the kernel lets this process make no BPF maps";
    assert!(text.contains(told) && text.contains("its code ran on Millrace's own BPF machine instead"), "{text}");
    assert!(text.contains("; bpf machine\n") && text.contains("; 5 runs in "), "{text}");
    let done = unprivileged(&["--engine", "xdp"]);
    assert_eq!(done.status, Some(2), "{done:?}");
    assert!(
        done.stderr.starts_with("error: --engine xdp: was not run: the kernel lets this process make no"),
        "{done:?}"
    );
    let junit = scratch.path("junit.xml");
    scratch.write("junit.xml", "");
    fs::set_permissions(&junit, std::os::unix::fs::PermissionsExt::from_mode(0o666)).unwrap();
    unprivileged(&["--junit", &junit]).ok();
    let junit = fs::read_to_string(junit).unwrap();
    assert!(junit.contains("<testsuite name=\"xdp\" tests=\"1\" failures=\"0\" skipped=\"1\""), "{junit}");
}

#[test]
fn a_program_of_which_nothing_can_run_in_the_kernel() {
    let (scratch, program) = patch(CASE);
    let text = fs::read_to_string(PATCH).unwrap().replace("    ppf classify(", "    @worker\n    ppf classify(");
    scratch.write("patch.baker", text);
    let text = millrace(&["test", &program]).ok();
    let why = "nothing of the program can run in the kernel: patch.classify is pinned to workers";
    assert!(text.contains(&format!("\nNOT RUN: xdp: {why}\n")) && text.contains("; 4 runs in "), "{text}");
    let done = millrace(&["test", &program, "--engine", "xdp,interp"]);
    assert_eq!((done.status, done.stderr), (Some(1), format!("error: --engine xdp: was not run: {why}\n")));
}
