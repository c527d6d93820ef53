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

/// The responder of the examples with a program that has none of the tables that it needs: it fails whenever it is
/// started.
const BROKEN: &str = "import \"net/ether\";
import \"net/ipv4\";
struct host_t { address : ipv4_addr_t; port : u8; requests : u32; }
module responder {
    in ether input, answers; out ether arp_requests, output;
    ppf sort(ether_packet_t *pkt) from input { channel_put(arp_requests, pkt); }
    ppf answer(ether_packet_t *pkt) from answers { channel_put(output, pkt); }
}
program {
    rx -> responder.input;
    responder.arp_requests -> controller responder;
    controller responder -> responder.answers;
    responder.output -> tx;
}
";

#[test]
fn a_controller_that_fails_is_seen_everywhere_until_it_runs() {
    let runtime = Runtime::new();
    let (path, program) = (runtime.path("notify"), runtime.write("answers.baker", BROKEN));
    let manager = UnixDatagram::bind(&path).unwrap();
    manager.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    let mut command = runtime.command(&["run", &program, "--port", "a=mem:", "--log-format", "json"]);
    command.env("NOTIFY_SOCKET", &path).env("WATCHDOG_USEC", "200000");
    let instance = runtime.start_command(command);
    let hear = || {
        let mut text = [0; 300];
        let len = manager.recv(&mut text).expect("it is told");
        String::from_utf8_lossy(&text[..len]).trim_end().to_owned()
    };
    let why = "there is no table responder.addresses; there is none";
    let status = |times: u32| format!("STATUS=controller responder has failed {times} times in a row: {why}");
    // The manager hears of the failures, from the fifth in a row on of nothing else.
    let all: Vec<String> = std::iter::repeat_with(hear).take_while(|heard| *heard != status(5)).collect();
    assert!(all.contains(&"READY=1".to_owned()) && all.contains(&status(3)), "{all:?}");
    assert_eq!([hear(), hear()], [status(6), status(7)]);
    // The operator sees it, with the reason.
    let shown = runtime.json(&["status"]);
    let shown = &shown[0]["controllers"]["responder"];
    assert_eq!((&shown["state"], &shown["error"]), (&"failed".into(), &why.into()));
    assert!(shown["failures"].as_u64() >= Some(7), "{shown}");
    let text = runtime.millrace(&["status"]).ok();
    assert!(text.contains("responder failed") && text.contains(why), "{text}");
    assert!(runtime.json(&["counters"])["controllers_failed"]["responder"].as_u64() >= Some(7));
    let log = instance.stderr();
    let lines = log.lines().filter(|line| line.contains(&format!("controller responder has failed: {why}")));
    assert!(lines.count() >= 7 && log.contains("controller responder fails again and again"), "{log}");
    // Another program is what it needs: it does not wait for the end of its pause, and all is well.
    let tables = "hash<ipv4_addr_t, mac_addr_t> addresses[64]; hash<mac_addr_t, host_t> hosts[64];\n    ppf sort";
    runtime.write("answers.baker", &BROKEN.replacen("ppf sort", tables, 1));
    runtime.millrace(&["reload"]).ok();
    let shown = runtime.json(&["status"]);
    assert_eq!(shown[0]["controllers"]["responder"]["state"], "running");
    let fed = std::iter::repeat_with(hear).find(|heard| !heard.starts_with("STATUS=")).unwrap();
    assert_eq!(fed, "WATCHDOG=1");
    runtime.millrace(&["stop"]).ok();
    let done = instance.end();
    assert!(done.status == Some(0) && done.stdout.contains("failures of controllers"), "{done:?}");
}

#[test]
fn a_controller_without_the_settings_that_it_needs_does_not_start() {
    let runtime = Runtime::new();
    let config = runtime.write("s.toml", "[ports.clients]\nnumber = 1\ndevice = \"mem:\"\n");
    let error = runtime.millrace(&["run", "splice", "-c", &config]).failed_in_one_line(1);
    assert!(error.contains("there is no [controllers.splice] in the configuration"), "{error}");
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
    // Of what the host has mounted the service sees its part, and owns it.
    assert_eq!(said("BindPaths"), "-/sys/fs/bpf/millrace");
    assert_eq!((said("User"), said("Group")), ("millrace", "millrace"));
    assert!(unit.contains("/bin/chown -R millrace:millrace /sys/fs/bpf/millrace\n"));
    assert!(!unit.contains("PrivateBPF") && !unit.contains("ProtectKernelTunables"));
    // Else TAP interfaces can't be opened.
    assert!(!unit.contains("PrivateDevices") && !unit.contains("ProtectClock") && !unit.contains("DevicePolicy"));
}
