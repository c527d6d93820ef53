//! `millrace reload`: a running instance takes over another program and configuration.

use serde_json::json;

use crate::instance::{Instance, Runtime};

const PROGRAM: &str = "import \"net/ether\";
module m {
    in ether input; out ether output;
    hash<mac_addr_t, u32> stations[64];
    array<u32> limits[8];
    counter seen;
    ppf p(ether_packet_t *pkt) from input {
        counter_add(seen, 1);
        u32 *known = stations[pkt->src];
        if (known != null) pkt->metadata.tx.port = 2;
        channel_put(output, pkt);
    }
}
program { rx -> m.input; m.output -> tx; }
";

const CONFIG: &str = "[ports.a]
number = 1
device = \"mem:\"
[ports.b]
number = 2
device = \"mem:\"
[tables.m.stations]
\"02:00:00:00:00:01\" = 1
\"02:00:00:00:00:02\" = 2
[tables.m.limits]
3 = 30
";

struct Rig {
    runtime: Runtime,
    file: String,
}

impl Rig {
    fn new() -> Rig {
        let runtime = Runtime::new();
        let file = runtime.write("sw.baker", PROGRAM);
        runtime.write("sw.toml", CONFIG);
        Rig { runtime, file }
    }

    fn start(&self, more: &[&str]) -> Instance<'_> {
        self.runtime.start(&[&[self.file.as_str()], more].concat())
    }

    fn reload(&self, program: &str, config: &str) -> crate::process::Done {
        self.runtime.write("sw.baker", program);
        self.runtime.write("sw.toml", config);
        self.runtime.millrace(&["reload"])
    }

    fn dump(&self, table: &str) -> String {
        self.runtime.millrace(&["table", "dump", table]).ok()
    }

    fn end(&self, instance: Instance) {
        self.runtime.millrace(&["stop"]).ok();
        instance.end().ok();
    }
}

#[test]
fn entries_of_the_configuration_change_and_others_stay() {
    let rig = Rig::new();
    let instance = rig.start(&[]);
    assert_eq!(rig.reload(PROGRAM, CONFIG).ok(), "nothing has changed\n");
    rig.runtime.millrace(&["table", "set", "m.stations", "02:00:00:00:00:09", "9"]).ok();
    let config = CONFIG.replace(":02\" = 2", ":03\" = 3").replace("3 = 30", "3 = 31");
    assert_eq!(rig.reload(PROGRAM, &config).ok(), "in force: 2 entries of tables set, 1 removed\n");
    assert_eq!(rig.dump("m.stations"), "02:00:00:00:00:01 = 1\n02:00:00:00:00:03 = 3\n02:00:00:00:00:09 = 9\n");
    assert_eq!(rig.dump("m.limits"), "3 = 31\n");
    // What does not fit changes nothing.
    let many: String = (16..90).map(|n| format!("\"02:00:00:00:01:{n:02}\" = 1\n")).collect();
    let config = config.replace("[tables.m.stations]\n", &format!("[tables.m.stations]\n{many}"));
    let error = rig.reload(PROGRAM, &config.replace("3 = 31", "3 = 32")).failed_in_one_line(1);
    assert!(error.contains("m.stations"), "{error}");
    assert_eq!(rig.dump("m.limits"), "3 = 31\n");
    assert_eq!(rig.dump("m.stations").lines().count(), 3);
    rig.end(instance);
}

#[test]
fn another_program_takes_over_with_tables_and_counters() {
    let rig = Rig::new();
    let instance = rig.start(&[]);
    rig.runtime.millrace(&["table", "set", "m.stations", "02:00:00:00:00:09", "9"]).ok();
    let program = PROGRAM
        .replace("counter seen;", "counter seen; counter more; hash<u32, u32> fresh[16];")
        .replace("limits[8]", "limits[16]")
        .replace("port = 2;", "port = 1;");
    let config = format!("{CONFIG}9 = 90\n[tables.m.fresh]\n1 = 11\n");
    let said = rig.reload(&program, &config).ok();
    assert_eq!(
        said,
        "in force: the program as it is now\n\
         tables: 1 of 3 are kept with their entries\n\
         table m.limits: copied, because its size was changed from 8 to 16\n\
         table m.fresh: new\n\
         in force: 2 entries of tables set, 0 removed\n"
    );
    assert_eq!(rig.dump("m.stations").lines().count(), 3);
    assert_eq!((rig.dump("m.limits"), rig.dump("m.fresh")), ("3 = 30\n9 = 90\n".into(), "1 = 11\n".into()));
    let counters = rig.runtime.json(&["counters"]);
    assert!(counters.to_string().contains("m.more"), "{counters}");
    // And back, as JSON.
    rig.runtime.write("sw.baker", PROGRAM);
    rig.runtime.write("sw.toml", CONFIG);
    let reloaded = rig.runtime.json(&["reload"]);
    assert_eq!((&reloaded["replaced"], &reloaded["set"], &reloaded["removed"]), (&json!(true), &json!(0), &json!(1)));
    let why = "copied, because its size was changed from 16 to 8";
    assert_eq!(reloaded["tables"], json!({"m.stations": "kept", "m.limits": why}));
    assert_eq!(rig.dump("m.limits"), "3 = 30\n");
    rig.end(instance);
}

#[test]
fn what_is_wrong_changes_nothing_and_is_said() {
    let rig = Rig::new();
    let instance = rig.start(&[]);
    let refused = |program: &str, config: &str| rig.reload(program, config).failed(1);
    let error = refused(&PROGRAM.replace("counter_add(seen, 1);", "counter_add(sen, 1);"), CONFIG);
    assert!(error.contains("a counter is needed here") && error.contains("sw.baker:8:"), "{error}");
    let error = refused(PROGRAM, &CONFIG.replace("3 = 30", "99 = 30"));
    assert!(error.contains("sw.toml:11"), "{error}");
    for (from, to, section) in [
        ("number = 2", "number = 3", "ports"),
        ("[ports.a]", "[frames]\ncount = 4096\n[ports.a]", "frames"),
        ("[ports.a]", "[workers]\nmode = \"busy\"\n[ports.a]", "workers"),
        ("[ports.a]", "[control]\ninstance = \"other\"\n[ports.a]", "control"),
    ] {
        let error = rig.reload(PROGRAM, &CONFIG.replacen(from, to, 1)).failed_in_one_line(1);
        assert_eq!(error, format!("error: [{section}] of the configuration changed, which takes a restart\n"));
    }
    let error = rig.reload(&PROGRAM.replace("m.output -> tx", "m.output -> controller nobody"), CONFIG).failed(1);
    assert!(error.contains("there is no controller nobody"), "{error}");
    let metadata = format!("metadata {{ a : u128; b : u128; c : u128; d : u128; }}\n{}", &PROGRAM[20..]);
    let error = rig.reload(&format!("import \"net/ether\";\n{metadata}"), CONFIG).failed_in_one_line(1);
    assert!(error.contains("its metadata takes") && error.contains("it takes a restart"), "{error}");
    assert_eq!(rig.reload(PROGRAM, CONFIG).ok(), "nothing has changed\n", "all is as it was");
    rig.end(instance);
    let rig = Rig::new();
    let interpreter = rig.start(&["--engine", "interp"]);
    let error = rig.reload(&PROGRAM.replace("port = 2", "port = 1"), CONFIG).failed_in_one_line(1);
    assert_eq!(error, "error: the interpreter cannot take over another program: it takes a restart\n");
    rig.end(interpreter);
}

#[test]
fn tables_outlast_the_process() {
    let rig = Rig::new();
    let state = rig.runtime.path("state");
    let fill = |key: &str, value: &str| rig.runtime.millrace(&["table", "set", "m.stations", key, value]).ok();
    let first = rig.start(&["--state", &state]);
    assert!(!first.stdout().contains("state:"), "{}", first.stdout());
    fill("02:00:00:00:00:09", "9");
    fill("02:00:00:00:00:02", "22");
    rig.end(first);
    // The file says otherwise now: 1 is no more, 3 is new. What was set by hand stays.
    rig.runtime.write("sw.toml", &CONFIG.replace(":01\" = 1", ":03\" = 3"));
    let second = rig.start(&["--state", &state]);
    let said = "state: 4 entries are there again; the configuration sets 1 and removes 1";
    assert!(second.stdout().contains(said), "{}", second.stdout());
    let stations = "02:00:00:00:00:02 = 22\n02:00:00:00:00:03 = 3\n02:00:00:00:00:09 = 9\n";
    assert_eq!(rig.dump("m.stations"), stations);
    let other = rig.runtime.millrace(&["run", &rig.file, "--state", &state]).failed_in_one_line(2);
    assert!(other.contains("another instance has it"), "{other}");
    // A change is on disk within moments.
    fill("02:00:00:00:00:0a", "10");
    std::thread::sleep(std::time::Duration::from_secs(1));
    second.kill();
    let third = rig.start(&["--state", &state]);
    assert_eq!(rig.dump("m.stations"), format!("{stations}02:00:00:00:00:0a = 10\n"));
    // A program that takes over is kept, too.
    let program = PROGRAM.replace("counter seen;", "counter seen; hash<u32, u32> fresh[16];");
    rig.reload(&program, &format!("{CONFIG}[tables.m.fresh]\n1 = 11\n")).ok();
    rig.end(third);
    let fourth = rig.start(&["--state", &state]);
    assert_eq!(rig.dump("m.fresh"), "1 = 11\n");
    rig.end(fourth);
    let error = rig.runtime.millrace(&["run", &rig.file, "--state", "/dev/null/x"]).failed_in_one_line(2);
    assert!(error.starts_with("error: state in /dev/null/x: "), "{error}");
}

#[test]
fn help_says_what_is_read_again() {
    let help = crate::process::millrace(&["reload", "--help"]).ok();
    assert!(
        help.starts_with("Have a running instance read its program and configuration again and put them in force\n"),
        "{help}"
    );
    assert!(crate::process::millrace(&["--help"]).ok().contains("read its program and configuration again"));
}
