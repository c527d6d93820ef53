//! A real Prometheus reads running instances: every family that the alerts and the dashboard of `monitoring/` name is
//! there, their expressions are understood, and no name or value offends its tools. Run by `make compat`.
//!
//! A real collector of sFlow gets samples (`sflow`).
//!
//! Needs root, Prometheus with promtool, curl, nfdump with sfcapd, and Go for Grafana's schema (`tools/setup compat`
//! installs them), and fails without.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use lab::{Namespace, Running};
use serde_json::{Value as Json, json};

#[allow(dead_code)]
#[path = "../support/process.rs"]
mod process;
mod sflow;

use process::{Done, ROOT, Scratch, run, run_with_input};

/// Nothing takes so long when all is well.
const LIMIT: Duration = Duration::from_secs(60);
const MILLRACE: &str = env!("CARGO_BIN_EXE_millrace");
/// Where Prometheus answers, in the test's network namespace.
const PROMETHEUS: &str = "127.0.0.1:9090";

/// Applications and where they are, with their ports. Each listens for scrapes from 9464 on.
const INSTANCES: [(&str, &str, &[&str]); 4] = [
    ("router", "examples", &["a", "b", "c"]),
    ("splice", "apps", &["clients", "servers"]),
    ("media", "apps", &["viewers", "servers"]),
    ("translate", "apps", &["viewers", "servers"]),
];
/// What their examples' configurations get, so that there is all that can be counted.
const COLLECTORS: &str = "\n[sflow]\ncollectors = [\"127.0.0.1\"]\n\n[ipfix]\ncollectors = [\"127.0.0.1\"]\n";

fn must<T, E: std::fmt::Display>(result: Result<T, E>) -> T {
    result.unwrap_or_else(|error| panic!("{error}"))
}

fn promtool(arguments: &[&str], input: &[u8]) -> Done {
    let mut command = Command::new("promtool");
    command.args(arguments).current_dir(Path::new(ROOT).join("monitoring"));
    run_with_input(command, input)
}

#[track_caller]
fn passes(done: &Done) {
    assert_eq!(done.status, Some(0), "{}{}", done.stdout, done.stderr);
}

/// A network namespace with all applications and a Prometheus that reads them.
struct Site {
    // Ended before the namespace is.
    _running: Vec<Running>,
    scratch: Scratch,
    ns: Namespace,
}

impl Site {
    fn start() -> Site {
        let (scratch, ns) = (Scratch::new(), must(Namespace::new("site")));
        // What the applications' examples listen on.
        for address in ["10.0.1.1/24", "10.0.2.1/24", "2001:db8:1::1/64"] {
            must(ns.check(&["ip", "address", "add", address, "dev", "lo"]));
        }
        let mut running = Vec::new();
        let mut targets = Vec::new();
        for (number, (name, folder, ports)) in INSTANCES.into_iter().enumerate() {
            let (listen, program) = ((9464 + number).to_string(), format!("{folder}/{name}"));
            let config = std::fs::read_to_string(format!("{ROOT}/{program}/{name}.toml")).unwrap() + COLLECTORS;
            let config = scratch.write(&format!("{name}.toml"), &config);
            let mut command = ns.command(MILLRACE).args(["run", &program, "-c", &config]);
            command = command.args(["--engine", "worker", "--instance", name]);
            command = command.args(["--metrics", &listen]).current_dir(ROOT);
            for port in ports {
                command = command.args(["--port", &format!("{port}=mem:")]);
            }
            let mut instance = must(command.env("MILLRACE_RUNTIME_DIR", scratch.path("run")).spawn());
            must(instance.wait_for_start(LIMIT));
            running.push(instance);
            targets.push(format!("\"127.0.0.1:{listen}\""));
        }
        // The file as it ships, with these targets, and quicker.
        let config = std::fs::read_to_string(format!("{ROOT}/monitoring/prometheus.yml")).unwrap();
        let config = config.replace("\"127.0.0.1:9464\"", &targets.join(", ")).replace("15s", "1s");
        let config = config.replace("alerts.yml", &format!("{ROOT}/monitoring/alerts.yml"));
        let file = scratch.write("prometheus.yml", &config);
        passes(&promtool(&["check", "config", &file], b""));
        let data = scratch.path("data");
        let prometheus = ns.command("prometheus").args([
            format!("--config.file={file}"),
            format!("--storage.tsdb.path={data}"),
            format!("--web.listen-address={PROMETHEUS}"),
        ]);
        running.push(must(prometheus.output_to(Stdio::null()).spawn()));
        let site = Site { _running: running, scratch, ns };
        site.wait_until_all_are_up();
        site
    }

    fn wait_until_all_are_up(&self) {
        let start = Instant::now();
        loop {
            let up = self.curl(&[
                "--get",
                &format!("http://{PROMETHEUS}/api/v1/query"),
                "--data-urlencode",
                "query=sum(up)",
            ]);
            let answer: Json = serde_json::from_str(&up.stdout).unwrap_or_default();
            if answer["data"]["result"][0]["value"][1] == json!(INSTANCES.len().to_string()) {
                return;
            }
            let targets = self.curl(&[&format!("http://{PROMETHEUS}/api/v1/targets")]);
            assert!(start.elapsed() < LIMIT, "{answer}\n{}{}", targets.stdout, targets.stderr);
            sleep(Duration::from_millis(200));
        }
    }

    fn curl(&self, arguments: &[&str]) -> Done {
        let mut command = Command::new("nsenter");
        command.arg(format!("--net={}", self.ns.path())).args(["curl", "--silent", "--show-error"]).args(arguments);
        run(command)
    }

    /// What Prometheus says, which must be a success.
    #[track_caller]
    fn api(&self, path: &str, fields: &[String]) -> Json {
        let url = format!("http://{PROMETHEUS}/api/v1/{path}");
        let mut arguments = vec!["--get", &url];
        fields.iter().for_each(|field| arguments.extend(["--data-urlencode", field]));
        let answer: Json = serde_json::from_str(&self.curl(&arguments).ok()).unwrap();
        assert_eq!(answer["status"], "success", "{fields:?}: {answer}");
        answer["data"].clone()
    }

    fn query(&self, expression: &str) -> Json {
        self.api("query", &[format!("query={expression}")])["result"].clone()
    }
}

/// Expressions of the dashboard's panels, as they are with a choice of instances and of a range.
fn dashboard() -> Vec<String> {
    let text = std::fs::read_to_string(format!("{ROOT}/monitoring/dashboard.json")).unwrap();
    let dashboard: Json = serde_json::from_str(&text).unwrap();
    let panels = dashboard["panels"].as_array().unwrap().iter();
    let targets = panels.flat_map(|panel| panel["targets"].as_array().into_iter().flatten());
    let filled =
        |own: &Json| own["expr"].as_str().unwrap().replace("$instance", ".*").replace("$__rate_interval", "5m");
    targets.map(filled).collect()
}

/// Families that expressions name.
fn names<'t>(texts: impl Iterator<Item = &'t str>) -> BTreeSet<String> {
    let is_part = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let words = texts.flat_map(|text| text.split(move |c| !is_part(c)));
    words.filter(|word| word.starts_with("millrace_")).map(str::to_owned).collect()
}

#[test]
fn prometheus_knows_all_that_alerts_and_dashboard_name() {
    let site = Site::start();
    let rules = site.api("rules", &[]);
    let rules: Vec<&Json> =
        rules["groups"].as_array().unwrap().iter().flat_map(|own| own["rules"].as_array().unwrap()).collect();
    assert!(rules.len() > 15, "{rules:?}");
    let alerts: Vec<String> = rules.iter().map(|rule| rule["query"].as_str().unwrap().to_owned()).collect();
    let panels = dashboard();
    // What it understands it answers, maybe with nothing.
    alerts.iter().chain(&panels).for_each(|expression| drop(site.query(expression)));
    let known = site.api("metadata", &[]);
    let all = names(alerts.iter().chain(&panels).map(String::as_str));
    assert!(all.len() > 40, "{all:?}");
    for name in &all {
        let ends = ["_total", "_bucket", "_sum", "_count"];
        let family = ends.iter().find_map(|end| name.strip_suffix(end)).unwrap_or(name);
        let about = known.get(family).or_else(|| known.get(name)).unwrap_or_else(|| panic!("{name} is not known"));
        assert!(!about[0]["help"].as_str().unwrap().is_empty() && about[0]["type"] != "unknown", "{name}: {about}");
    }
    // Figures of instances and of their controllers, under the instances' names.
    for (expression, value) in [
        ("millrace_workers{instance=\"splice\"}", "1"),
        ("count(millrace_instance_info)", "4"),
        ("sum(millrace_port_up{instance=\"router\"})", "3"),
        ("sum(millrace_controller_answers)", "6"),
        ("count(count by (server) (millrace_splice_server_up{pool=\"web\"})) > bool 1", "1"),
        ("millrace_media_sessions{instance=\"media\"}", "0"),
        ("millrace_translate_streams{instance=\"translate\"}", "0"),
    ] {
        let found = site.query(expression);
        assert_eq!(found[0]["value"][1], value, "{expression}: {found}");
    }
    // Servers of the splicer are nowhere, so an alert waits for its time.
    let pending = site.query("ALERTS{alertname=\"MillraceSpliceNoServer\"}");
    assert!(!pending.as_array().unwrap().is_empty(), "{pending}");
}

#[test]
fn no_name_offends_its_tools() {
    let site = Site::start();
    for (number, (name, ..)) in INSTANCES.into_iter().enumerate() {
        let text = site.curl(&[&format!("http://127.0.0.1:{}/metrics", 9464 + number)]).ok();
        let done = promtool(&["check", "metrics"], text.as_bytes());
        assert_eq!((done.status, done.stdout.as_str(), done.stderr.as_str()), (Some(0), "", ""), "{name}");
    }
    passes(&promtool(&["check", "rules", "alerts.yml"], b""));
    passes(&promtool(&["test", "rules", "alerts_test.yml"], b""));
    // The dashboard's expressions, as rules.
    let rules: Vec<Json> =
        dashboard().iter().enumerate().map(|(n, e)| json!({ "record": format!("r{n}"), "expr": e })).collect();
    let file =
        site.scratch.write("panels.yml", &json!({ "groups": [{ "name": "panels", "rules": rules }] }).to_string());
    passes(&promtool(&["check", "rules", &file], b""));
}

/// What Grafana's schema has against a dashboard; nothing where it is as that has it.
fn against_schema(path: &str) -> Done {
    let mut command = Command::new("go");
    command.args(["run", ".", path]).current_dir(format!("{ROOT}/tests/monitoring/schema"));
    run(command)
}

#[test]
fn the_dashboard_is_as_grafanas_schema_has_it() {
    let (path, scratch) = (format!("{ROOT}/monitoring/dashboard.json"), Scratch::new());
    passes(&against_schema(&path));
    // A field that there is not, one that is missing, and a value of another type.
    let text = must(std::fs::read_to_string(&path));
    for (now, then) in
        [("\"fillOpacity\"", "\"opacity\""), ("\"calcs\"", "\"calculations\""), ("\"w\": 8", "\"w\": \"8\"")]
    {
        let changed = scratch.write("changed.json", text.replacen(now, then, 1));
        let done = against_schema(&changed);
        assert_eq!(done.status, Some(1), "{now}: {}", done.stderr);
        assert!(done.stderr.contains("panels["), "{}", done.stderr);
    }
}
