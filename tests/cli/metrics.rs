//! What monitoring systems read of a running instance.

use std::fmt::Write;
use std::net::TcpListener;
use std::time::{Duration, Instant};

use control::application::metrics::{Family, Kind};
use figures::registry::FIGURES;
use serde_json::Value as Json;

use crate::exposition::{Scrape, get, scrape};
use crate::instance::{Instance, Runtime};
use crate::process::ROOT;
use crate::{FIRST, PATCH};

/// Where an instance says that its figures are.
fn address(instance: &Instance) -> String {
    let line = instance.stdout().lines().find_map(|line| line.strip_prefix("metrics: http://").map(str::to_owned));
    line.and_then(|line| line.strip_suffix("/metrics").map(str::to_owned))
        .unwrap_or_else(|| panic!("{}", instance.stdout()))
}

#[test]
fn values_are_those_of_the_packets_that_came() {
    let runtime = Runtime::new();
    let (out, left) = (runtime.path("out.pcap"), format!("left=pcap:{FIRST}"));
    let right = format!("right=pcap:,{out}");
    let instance = runtime.start(&[PATCH, "--port", &left, "--port", &right, "--metrics", "0"]);
    let address = address(&instance);
    let of = |name: &str, labels: &str| format!("millrace_{name}{{instance=\"patch\",{labels}}}");
    // The capture has six packets, of which two are too short and one has lived too long.
    let received = of("port_receive_packets_total", "port=\"left\"");
    let start = Instant::now();
    let found = loop {
        let found = scrape(&address);
        if found.value(&received) == "6" {
            break found;
        }
        assert!(start.elapsed() < Duration::from_secs(20), "{found:?}");
    };
    for (name, labels, value) in [
        ("port_transmit_packets_total", "port=\"right\"", "3"),
        ("port_receive_packets_total", "port=\"right\"", "0"),
        ("dropped_packets_total", "reason=\"truncated\"", "2"),
        ("dropped_packets_total", "reason=\"ttl_expired\"", "1"),
        ("dropped_packets_total", "reason=\"no_port\"", "0"),
        // One is too short for the program to see it.
        ("channel_packets_total", "channel=\"rx\"", "5"),
        ("port_up", "port=\"left\"", "1"),
    ] {
        assert_eq!(found.value(&of(name, labels)), value, "{name} {labels}");
    }
    assert_eq!(found.value("millrace_workers{instance=\"patch\"}"), "1");
    // All that `millrace counters` shows is there, with the same numbers, and nothing else under these names.
    let counters = runtime.json(&["counters"]);
    for (name, label, section) in [
        ("ppf_packets_total", "ppf", "ppfs"),
        ("channel_packets_total", "channel", "channels"),
        ("dropped_packets_total", "reason", "drops"),
        ("table_refused_insertions_total", "table", "tables_full"),
    ] {
        let shown = counters[section].as_object().unwrap();
        for (own, count) in shown {
            let sample = of(name, &format!("{label}=\"{own}\""));
            assert_eq!(found.value(&sample), count.to_string(), "{sample}");
        }
        let start = format!("millrace_{name}{{");
        assert_eq!(found.samples.keys().filter(|sample| sample.starts_with(&start)).count(), shown.len(), "{name}");
    }
    let bytes = counters["ports"]["left"]["rx_bytes"].to_string();
    assert_eq!(found.value(&of("port_receive_bytes_total", "port=\"left\"")), bytes);
    let worker = |name: &str| found.value(&of(&format!("worker_{name}_total"), "worker=\"0\"")).parse::<f64>().unwrap();
    assert_eq!(worker("packets").to_string(), counters["ports"]["left"]["rx_packets"].to_string());
    assert!(worker("rounds") > worker("idle_rounds"), "{found:?}");
    // It says so ten times a second.
    let start = Instant::now();
    while runtime.json(&["counters"])["workers"][0]["cpu_ns"] == 0 {
        assert!(start.elapsed() < Duration::from_secs(20));
    }
    // The same without HTTP.
    let written = Scrape::read(&runtime.millrace(&["metrics", "--openmetrics"]).ok());
    let all = |own: &Scrape| {
        // What changes by itself.
        let changes = |name: &str| ["_uptime_", "_frames{", "_worker_"].iter().any(|part| name.contains(part));
        let same = own.samples.iter().filter(|(name, _)| !changes(name));
        same.map(|(name, value)| format!("{name} {value}")).collect::<Vec<_>>()
    };
    assert_eq!(all(&written), all(&found));
    assert_eq!(written.families, found.families);
    runtime.millrace(&["stop"]).ok();
    instance.end().ok();
}

#[test]
fn nothing_listens_unless_it_is_told_to() {
    let runtime = Runtime::new();
    let instance = runtime.start(&[PATCH, "--port", "a=mem:"]);
    assert!(!instance.stdout().contains("metrics"), "{}", instance.stdout());
    let sockets = std::fs::read_to_string(format!("/proc/{}/net/tcp", instance.id())).unwrap();
    let own: Vec<String> = std::fs::read_dir(format!("/proc/{}/fd", instance.id()))
        .unwrap()
        .filter_map(|fd| std::fs::read_link(fd.unwrap().path()).ok()?.to_str().map(str::to_owned))
        .filter_map(|to| Some(to.strip_prefix("socket:[")?.strip_suffix(']')?.to_owned()))
        .collect();
    let inode = |line: &str| line.split_whitespace().nth(9).unwrap_or_default().to_owned();
    assert!(sockets.lines().all(|line| !own.contains(&inode(line))), "{sockets}");
}

#[test]
fn an_address_in_use_is_told_before_anything_runs() {
    let runtime = Runtime::new();
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap();
    let config = runtime.write("m.toml", &format!("[metrics]\nlisten = \"{address}\"\n"));
    let said = runtime.millrace(&["run", PATCH, "-c", &config, "--port", "a=mem:"]).failed_in_one_line(2);
    assert!(
        said.contains(&format!("metrics: cannot listen on {address}: another program, or another instance")),
        "{said}"
    );
    // The command line comes first.
    let run = ["run", PATCH, "-c", &config, "--port", "a=mem:", "--duration", "0", "--metrics", "127.0.0.1:0"];
    assert!(runtime.millrace(&run).ok().contains("metrics: http://127.0.0.1:"));
    for wrong in ["localhost:9464", "127.0.0.1", "70000", ""] {
        let said = runtime.millrace(&["run", PATCH, "--port", "a=mem:", "--metrics", wrong]).failed(1);
        assert!(said.contains("accepted: an address and port such as"), "{said}");
    }
}

#[test]
fn a_reload_changes_where_figures_are() {
    let runtime = Runtime::new();
    let ports = "[ports.a]\nnumber = 1\ndevice = \"mem:\"\n";
    let write = |metrics: &str| runtime.write("m.toml", &format!("{ports}{metrics}"));
    let config = write("");
    let _instance = runtime.start(&[PATCH, "-c", &config]);
    let place = |reloaded: &Json| {
        let url = reloaded["metrics"].as_str().unwrap_or_else(|| panic!("{reloaded}")).to_owned();
        url.strip_prefix("http://").unwrap().strip_suffix("/metrics").unwrap().to_owned()
    };
    write("[metrics]\nlisten = 0\n");
    let first = place(&runtime.json(&["reload"]));
    scrape(&first);
    assert_eq!(get(&first, "/metrics", "Host: x\r\n").0.lines().next(), Some("HTTP/1.1 400 Bad Request"));
    assert_eq!(runtime.millrace(&["reload"]).ok(), "nothing has changed\n");
    // What can't be had changes nothing, of the rest of the file either.
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let busy = taken.local_addr().unwrap();
    write(&format!("[metrics]\nlisten = \"{busy}\"\n"));
    let said = runtime.millrace(&["reload"]).failed_in_one_line(1);
    assert!(said.contains(&format!("metrics: cannot listen on {busy}")), "{said}");
    scrape(&first);
    drop(taken);
    let said = runtime.millrace(&["reload"]).ok();
    assert_eq!(said, format!("in force: metrics: http://{busy}/metrics\n"));
    scrape(&busy.to_string());
    assert!(std::net::TcpStream::connect(&first).is_err(), "no one listens there any more");
    write("");
    assert_eq!(runtime.millrace(&["reload"]).ok(), "in force: metrics: nowhere\n");
    assert!(std::net::TcpStream::connect(busy).is_err());
}

/// Each owner of figures, and how an instance is started that has them.
const OWNERS: [(&str, &[&str]); 5] = [
    ("instance", &[PATCH, "--engine", "interp", "--port", "a=mem:"]),
    ("routes", &["examples/router", "--engine", "interp", "--port", "a=mem:", "--port", "b=mem:", "--port", "c=mem:"]),
    ("splice", &["splice", "--engine", "interp", "--port", "clients=mem:", "--port", "servers=mem:"]),
    ("media", &["media", "--engine", "interp", "--port", "viewers=mem:", "--port", "servers=mem:"]),
    ("translate", &["translate", "--engine", "interp", "--port", "viewers=mem:", "--port", "servers=mem:"]),
];

#[test]
fn every_family_is_documented() {
    let path = format!("{ROOT}/docs/metrics.md");
    let mut document = std::fs::read_to_string(&path).unwrap();
    for (owner, run) in OWNERS {
        let runtime = Runtime::new();
        // Controllers ask the kernel of this network namespace for routes, and listen there.
        let mut command = std::process::Command::new("unshare");
        command.args(["--net", env!("CARGO_BIN_EXE_millrace"), "run"]).args(run).current_dir(ROOT);
        command.env("MILLRACE_RUNTIME_DIR", runtime.path("run"));
        let _instance = runtime.start_command(command);
        let found = Scrape::read(&runtime.millrace(&["metrics", "--openmetrics"]).ok());
        assert!(!found.samples.keys().any(|name| name.contains("session=")), "of single sessions nothing is told");
        let table = table(owner, &found);
        let (begin, end) = (format!("<!-- figures of {owner} -->\n"), "<!-- end -->");
        let (before, rest) = document.split_once(&begin).unwrap_or_else(|| panic!("{path}: there is no {begin}"));
        let (written, after) = rest.split_once(end).unwrap();
        if std::env::var_os("UPDATE_DOCUMENTS").is_some() {
            document = format!("{before}{begin}{table}{end}{after}");
            std::fs::write(&path, &document).unwrap();
        } else {
            assert_eq!(written, table, "UPDATE_DOCUMENTS=1 writes {path}");
        }
    }
}

#[test]
fn alerts_and_dashboard_name_what_there_is() {
    let document = std::fs::read_to_string(format!("{ROOT}/docs/metrics.md")).unwrap();
    let mut names = 0;
    for file in ["alerts.yml", "alerts_test.yml", "dashboard.json"] {
        let text = std::fs::read_to_string(format!("{ROOT}/monitoring/{file}")).unwrap();
        let words = text.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
        for name in words.filter(|word| word.starts_with("millrace_")) {
            // Of a histogram there are several.
            let family = name.trim_end_matches("_bucket");
            assert!(document.contains(&format!("| `{family}` |")), "{file}: {name}");
            names += 1;
        }
    }
    assert!(names > 60, "{names}");
    let text = std::fs::read_to_string(format!("{ROOT}/monitoring/dashboard.json")).unwrap();
    let dashboard: Json = serde_json::from_str(&text).unwrap();
    let panels = dashboard["panels"].as_array().unwrap();
    let place = |panel: &Json, key: &str| panel["gridPos"][key].as_u64().unwrap();
    for (index, panel) in panels.iter().enumerate() {
        let is_row = panel["type"] == "row";
        assert!(is_row || !panel["targets"].as_array().unwrap().is_empty(), "{panel}");
        let [x, y, w, h] = ["x", "y", "w", "h"].map(|key| place(panel, key));
        assert!(x + w <= 24 && h > 0, "{panel}");
        for other in &panels[index + 1..] {
            let [ox, oy, ow, oh] = ["x", "y", "w", "h"].map(|key| place(other, key));
            assert!(ox >= x + w || x >= ox + ow || oy >= y + h || y >= oy + oh, "{panel} lies over {other}");
            assert_ne!(panel["id"], other["id"]);
        }
    }
}

/// The figures of an owner, as the document has them.
fn table(owner: &str, found: &Scrape) -> String {
    let own = |name: &str| FIGURES.iter().find(|figure| exported(figure.name, figure.kind) == name);
    let mut table = String::from("\n| family | kind | unit | labels | meaning |\n|---|---|---|---|---|\n");
    let start = format!("millrace_{owner}_");
    for (name, family) in &found.families {
        let figure = own(name);
        let is_of = if owner == "instance" { figure.is_some() } else { figure.is_none() && name.starts_with(&start) };
        if !is_of {
            continue;
        }
        let end = if family.kind == "counter" { "_total" } else { "" };
        let labels = figure.map_or_else(|| labels(found, name), |figure| figure.labels.join(", "));
        let (kind, unit, about) = (&family.kind, &family.unit, &family.about);
        writeln!(table, "| `{name}{end}` | {kind} | {unit} | {labels} | {about} |").unwrap();
    }
    assert!(table.lines().count() > 8, "{owner}: {found:?}");
    table + "\n"
}

/// A figure's name as a family's.
fn exported(name: &str, kind: Kind) -> String {
    let family = Family::new(kind, name, "");
    let (stem, unit, _) = family.in_base_unit();
    format!("millrace_{stem}{}", unit.map_or(String::new(), |unit| format!("_{unit}")))
}

/// Labels of a controller's samples, where there are any.
fn labels(found: &Scrape, name: &str) -> String {
    let of = |sample: &&String| {
        let rest = sample.strip_prefix(name).unwrap_or_default();
        ["{", "_total{", "_count{"].iter().any(|start| rest.starts_with(start))
    };
    let Some(sample) = found.samples.keys().find(of) else { return String::new() };
    let (_, labels) = sample.split_once('{').unwrap();
    let names = labels.trim_end_matches('}').split("\",").filter_map(|label| Some(label.split_once("=\"")?.0));
    names.filter(|name| *name != "instance").collect::<Vec<_>>().join(", ")
}
