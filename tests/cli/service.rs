//! What a service manager hears, and the unit that ships.

use std::os::unix::net::UnixDatagram;
use std::time::Duration;

use crate::instance::Runtime;

#[test]
fn the_service_manager_hears_that_it_runs_goes_round_and_ends() {
    let runtime = Runtime::new();
    let path = runtime.path("notify");
    let manager = UnixDatagram::bind(&path).unwrap();
    manager.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    let mut command =
        runtime.command(&["run", "l3switch", "--port", "p1=mem:", "--port", "p2=mem:", "--port", "p3=mem:"]);
    command.args(["--port", "p4=mem:", "--port", "svi1p=mem:", "--port", "svi2p=mem:"]);
    command.env("NOTIFY_SOCKET", &path).env("WATCHDOG_USEC", "200000");
    let instance = runtime.start_command(command);
    let hear = || {
        let mut text = [0; 100];
        let len = manager.recv(&mut text).expect("it is told");
        String::from_utf8_lossy(&text[..len]).trim_end().to_owned()
    };
    assert_eq!(hear(), "READY=1");
    assert_eq!([hear(), hear(), hear()], ["WATCHDOG=1"; 3]);
    runtime.millrace(&["stop"]).ok();
    let mut last = hear();
    while last == "WATCHDOG=1" {
        last = hear();
    }
    assert_eq!(last, "STOPPING=1");
    instance.end().ok();
}

#[test]
fn the_unit_says_what_the_command_line_takes() {
    let unit = include_str!("../../systemd/millrace@.service");
    let runtime = Runtime::new();
    for line in ["ExecStart", "ExecReload"] {
        let command = unit.lines().find_map(|found| found.strip_prefix(line)?.strip_prefix('=')).unwrap();
        let mut words: Vec<&str> = command.split(' ').skip(1).collect();
        words.push("--help");
        runtime.millrace(&words).ok();
        // Without `--help` the options are read, too: what is wrong is what they name.
        words.pop();
        let said = runtime.millrace(&words);
        assert!(!said.stderr.contains("unexpected argument") && said.status != Some(0), "{}", said.stderr);
    }
}

#[test]
fn the_unit_lets_the_service_keep_its_state_and_write_the_documented_log() {
    let unit = include_str!("../../systemd/millrace@.service");
    let said = |key: &str| unit.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix('=')).unwrap_or_default();
    assert_eq!((said("ProtectSystem"), said("StateDirectoryMode")), ("strict", "0700"));
    let state = said("ExecStart").split_once("--state ").unwrap().1.split(' ').next().unwrap();
    assert_eq!(state, format!("/var/lib/{}", said("StateDirectory")));
    let splice = include_str!("../../apps/splice/splice.toml");
    let log = splice.lines().find_map(|line| line.strip_prefix("# file = ")).unwrap();
    assert!(log.starts_with(&format!("\"/var/log/{}/", said("LogsDirectory"))), "{log}");
    assert_eq!(said("ReadWritePaths"), "-/sys/fs/bpf");
    // Else the mounts that the service sees are not the host's.
    assert!(!unit.contains("PrivateBPF") && !unit.contains("ProtectKernelTunables"));
}
