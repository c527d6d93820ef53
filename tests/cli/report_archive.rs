//! `millrace report`: what is in it, and what is not.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::process::Command;

use serde_json::Value as Json;

use crate::PATCH;
use crate::instance::Runtime;
use crate::process::{ROOT, run};

/// Stands in each secret, and nowhere else.
const PLANTED: &str = "planted";

/// A configuration of the media proxy with secrets in all places.
fn configuration() -> String {
    let own = fs::read_to_string(format!("{ROOT}/apps/media/media.toml")).unwrap();
    let door = "url = \"rtsp://10.0.2.11:8554/door\"\n";
    assert!(own.contains(door));
    let with = "url = \"rtsp://10.0.2.11:8554/door\"\nuser = \"viewer\"\npassword = \"planted-door\"\n";
    let users = "[controllers.media.users]\nalice = \"planted-alice\"\n[controllers.media.viewers]\nusers = \
                 [\"alice\"]\ntokens = [\"planted-one-of-16-letters\"]\n# token = \"planted-comment\"\n";
    own.replace(door, with) + users
}

/// The files of an archive, by name.
fn unpack(runtime: &Runtime, archive: &str) -> BTreeMap<String, String> {
    let folder = runtime.path("unpacked");
    // That of an archive before.
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir(&folder).unwrap();
    let mut command = Command::new("tar");
    command.args(["--extract", "--gzip", "--file", archive, "--directory", &folder]);
    assert_eq!(run(command).ok(), "");
    let mut files = BTreeMap::new();
    let mut folders = vec![format!("{folder}/millrace-report")];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            match path.is_dir() {
                true => folders.push(path.display().to_string()),
                false => drop(files.insert(
                    path.strip_prefix(runtime.path("unpacked/millrace-report")).unwrap().display().to_string(),
                    fs::read_to_string(&path).unwrap(),
                )),
            }
        }
    }
    files
}

#[test]
fn a_report_has_all_but_secrets() {
    let runtime = Runtime::new();
    let config = runtime.write("edge.toml", &configuration());
    let ports = ["--port", "viewers=mem:", "--port", "servers=mem:"];
    let media = runtime.start(&[&["media", "-c", &config, "--instance", "edge"], &ports[..]].concat());
    let _other = runtime.start(&[PATCH, "--port", "a=mem:"]);
    assert_eq!(runtime.json(&["status", "--instance", "edge"])[0]["config"], config);
    let archive = runtime.path("edge.tar.gz");
    let said = runtime.millrace(&["report", &archive]).ok();
    assert!(said.contains("edge.tar.gz: a report of edge, patch\n") && said.contains("look through it"), "{said}");
    assert_eq!(fs::metadata(&archive).unwrap().permissions().mode() & 0o777, 0o600);
    let files = unpack(&runtime, &archive);
    for (name, has) in [
        ("version.txt", "millrace "),
        ("host/kernel.txt", "Linux version"),
        ("host/cpu.txt", "processor"),
        ("host/interfaces.txt", "lo"),
        ("edge/status.json", "\"instance\": \"edge\""),
        ("edge/counters.json", "\"viewers\""),
        ("edge/tables.json", "\"capacity\""),
        ("edge/queries.json", "\"streams\""),
        ("edge/metrics.txt", "millrace_instance_info"),
        ("edge/configuration.toml", "10.0.2.11:8554/door"),
        ("edge/program.txt", "media.baker"),
        ("edge/process_status.txt", &format!("Pid:\t{}", media.id())),
        ("edge/command.txt", "run media -c"),
        ("patch/status.json", "patch.baker"),
        ("patch/program.txt", "patch.baker"),
        // It has no configuration; and with `mem` there is no interface that could be asked.
        ("missing.txt", "patch/configuration.toml: the instance has none"),
    ] {
        let text = files.get(name).unwrap_or_else(|| panic!("{name} is none of {:?}", files.keys()));
        assert!(text.contains(has), "{name}: {text}");
        assert!(said.contains(name), "{name}: {said}");
    }
    let found: Vec<_> = files.iter().filter(|(_, text)| text.contains(PLANTED)).collect();
    assert!(found.is_empty(), "{found:?}");
    let configuration = &files["edge/configuration.toml"];
    assert_eq!(configuration.matches("(left out)").count(), 3, "{configuration}");
    // What is JSON is so still.
    for (name, text) in files.iter().filter(|(name, _)| name.ends_with(".json")) {
        serde_json::from_str::<Json>(text).unwrap_or_else(|error| panic!("{name}: {error}"));
    }
    // Another one has another name.
    let text = runtime.millrace(&["report", &archive]).failed_in_one_line(1);
    assert!(text.contains("edge.tar.gz: there is such a file"), "{text}");
    assert!(runtime.millrace(&["report", &runtime.path("no/such.tar.gz")]).failed_in_one_line(2).contains("no/such"));
    let one = runtime.path("one.tar.gz");
    runtime.millrace(&["report", &one, "--instance", "edge"]).ok();
    assert!(unpack(&runtime, &one).keys().all(|name| !name.starts_with("patch")));
}

#[test]
fn where_nothing_runs_there_is_the_log() {
    let runtime = Runtime::new();
    let journal = "#!/bin/sh\necho \"$@\"\necho 'origin rtsp://u:planted@10.0.2.11/ failed, password=planted'\n";
    fs::create_dir(runtime.path("bin")).unwrap();
    let program = runtime.write("bin/journalctl", journal);
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
    let path = format!("{}:{}", runtime.path("bin"), std::env::var("PATH").unwrap());
    let report = |arguments: &[&str], path: &str| {
        let archive = runtime.path("report.tar.gz");
        // That of the one before.
        let _ = fs::remove_file(&archive);
        let mut command = runtime.command(&[&["report", &archive], arguments].concat());
        command.env("PATH", path);
        run(command).ok();
        unpack(&runtime, &archive)
    };
    let files = report(&[], &path);
    assert!(files["missing.txt"].contains("instances: none is running"), "{files:?}");
    let log = &files["log.txt"];
    assert!(log.contains("--unit millrace@* --lines 500") && !log.contains(PLANTED), "{log}");
    assert!(log.contains("rtsp://(left out)@10.0.2.11/ failed, password=(left out)"), "{log}");
    let files = report(&["--instance", "edge"], &path);
    assert!(files["missing.txt"].contains("no instance is running here"), "{files:?}");
    assert!(files["edge/log.txt"].contains("--unit millrace@edge"), "{files:?}");
    // Without any program of the system what they would have said is missing, and nothing else.
    let files = report(&[], &runtime.path("nowhere"));
    assert!(files["missing.txt"].contains("log.txt: there is no program `journalctl`"), "{files:?}");
    assert!(files["host/interfaces.txt"].contains("lo: address 00:00:00:00:00:00"), "{files:?}");
}
