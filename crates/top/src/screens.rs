//! Screens of looks that are made up.

use std::time::{Duration, Instant};

use control::socket::{
    ControllerState, Counters, PortState, Status, TableInfo, TimeBucket, TimerState, Times, WorkerState,
};
use indexmap::IndexMap;
use ratatui::Terminal;
use ratatui::backend::TestBackend;
use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use ratatui::style::Color;
use serde_json::json;

use crate::asker::Said;
use crate::columns::Theme;
use crate::draw::draw;
use crate::look::{Detail, Look, Topic};
use crate::model::Model;
use crate::views::View;

const PLAIN: Theme = Theme { has_colours: false };
const SIZES: [(u16, u16); 2] = [(80, 24), (160, 50)];

fn topic(query: &str) -> Topic {
    Topic { controller: "splice".into(), query: query.into() }
}

/// A look after so many seconds, in which so many packets came each second.
fn look(start: Instant, seconds: u64, per_second: u64) -> Look {
    let count = |share: u64| seconds * per_second * share / 100;
    let port = |number: u8, rx: u64, tx: u64| PortState {
        number,
        device: format!("xdp:eth{number}"),
        rx_packets: count(rx),
        rx_bytes: count(rx) * 1000,
        tx_packets: count(tx),
        tx_bytes: count(tx) * 1000,
        tx_failed: if number == 2 { count(1) } else { 0 },
        ..PortState::default()
    };
    let ports = [("clients", port(1, 100, 30)), ("servers", port(2, 40, 90)), ("idle", port(3, 0, 0))];
    let ppfs =
        ["classify.classify", "accept.segment", "accept.syn", "splice.to_server", "splice.to_client", "arp.reply"];
    let counters = Counters {
        ports: ports.map(|(name, port)| (name.to_owned(), port)).into(),
        ppfs: ppfs
            .iter()
            .zip([140, 100, 5, 90, 40, 0])
            .map(|(name, share)| ((*name).to_owned(), count(share)))
            .collect(),
        channels: IndexMap::from([("classify.to_tcp".to_owned(), count(100))]),
        drops: [("no_port", 0), ("bad_checksum", 1), ("no_flow", 9)].map(|(why, n)| (why.to_owned(), count(n))).into(),
        ended: 3,
        tables_full: IndexMap::from([("splice.flows".to_owned(), count(2))]),
        counters: IndexMap::from([
            ("accept.bytes".to_owned(), vec![count(100) * 1000]),
            ("splice.kinds".to_owned(), vec![count(3), 7]),
        ]),
        timers: IndexMap::from([(
            "splice.age".to_owned(),
            TimerState {
                table: Some("splice.flows".into()),
                runs: seconds,
                entries: seconds * 10,
                ..Default::default()
            },
        )]),
        // A fifth of a CPU, and a half.
        workers: [200, 500].map(|ms| WorkerState { cpu_ns: seconds * ms * 1_000_000, ..WorkerState::default() }).into(),
        ..Counters::default()
    };
    let controller = |state: &str, error: Option<&str>| ControllerState {
        state: state.into(),
        failures: u64::from(error.is_some()),
        in_a_row: u32::from(error.is_some()),
        error: error.map(str::to_owned),
        wakes: seconds * 20,
        wake: Times {
            count: seconds * 20,
            buckets: vec![TimeBucket { below_ns: 1 << 16, count: seconds * 20 }],
            ..Times::default()
        },
        ..ControllerState::default()
    };
    let status = Status {
        instance: "edge".into(),
        program: "splice".into(),
        engine: "native".into(),
        workers: 2,
        mode: "interrupt".into(),
        pid: 4711,
        uptime_ms: 7_500_000 + seconds * 1000,
        controllers: IndexMap::from([
            ("splice".to_owned(), controller("running", None)),
            ("routes".to_owned(), controller("failed", Some("netlink: no buffer space\navailable"))),
        ]),
        ..Status::default()
    };
    let at = start + Duration::from_secs(seconds);
    Look { at, status, counters, topics: vec![topic("servers"), topic("sessions")] }
}

/// After two looks, 2 s from each other.
fn model() -> Model {
    let mut model = Model::new(Duration::from_secs(1));
    let start = Instant::now();
    for seconds in [10, 12] {
        model.take(Said::Look(Box::new(look(start, seconds, 1_234_500))));
    }
    model
}

fn screen(model: &mut Model, (width, height): (u16, u16)) -> String {
    let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
    terminal.draw(|frame| draw(frame, model, PLAIN)).unwrap();
    let text = terminal.backend().to_string();
    text.lines().map(|line| line.trim_matches('"').trim_end().to_owned() + "\n").collect()
}

fn press(model: &mut Model, keys: &[KeyCode]) -> bool {
    keys.iter().all(|code| model.key(KeyEvent::new(*code, KeyModifiers::NONE)))
}

fn type_in(model: &mut Model, text: &str) -> bool {
    text.chars().all(|c| press(model, &[KeyCode::Char(c)]))
}

/// The views that need no more than a look, in both sizes.
#[test]
fn views() {
    let mut model = model();
    for (key, name) in
        [('1', "overview"), ('2', "ports"), ('3', "ppfs"), ('4', "drops"), ('6', "counters"), ('?', "help")]
    {
        type_in(&mut model, &key.to_string());
        for size in SIZES {
            insta::assert_snapshot!(format!("{name}_{}x{}", size.0, size.1), screen(&mut model, size));
        }
    }
}

#[test]
fn tables() {
    let mut model = model();
    type_in(&mut model, "5");
    assert_eq!(model.wanted().view, View::Tables);
    assert!(screen(&mut model, SIZES[0]).contains("asked for"));
    let table = |name: &str, kind: &str, entries: usize, capacity: u32| TableInfo {
        name: name.into(),
        kind: kind.into(),
        key: "u32".into(),
        value: "u32".into(),
        entries,
        capacity,
    };
    let all = vec![table("splice.flows", "hash", 65536, 65536), table("routes.routes4", "lpm", 1000, 1 << 20)];
    model.take(Said::Detail(Detail::Tables(all)));
    SIZES.iter().for_each(|size| insta::assert_snapshot!(format!("tables_{}", size.0), screen(&mut model, *size)));
}

#[test]
fn what_controllers_answer() {
    let mut model = model();
    type_in(&mut model, "8");
    assert_eq!(model.wanted().view, View::Topic(topic("sessions")));
    let session = |id: u64, path: &str| {
        json!({
            "id": id, "client": format!("192.0.2.{id}:40000"), "address": "198.51.100.1:80", "service": "web",
            "server": "pool/a", "state": "serving", "modes": ["held", "open"], "age_ms": 1234 * id, "idle_ms": 10,
            "up": 3000, "down": 1_000_000 / id, "requests": 1,
            "request": {"method": "GET", "host": "h", "path": path, "status": null, "age_ms": 1200},
        })
    };
    let answer = json!({"sessions": [session(1, "/a\u{1b}[2J"), session(2, "/b")], "fit": 2, "all": 300});
    // One that was asked for before.
    model.take(Said::Detail(Detail::Answer(topic("servers"), Ok(json!([])))));
    assert!(screen(&mut model, SIZES[0]).contains("asked for"));
    model.take(Said::Detail(Detail::Answer(topic("sessions"), Ok(answer))));
    SIZES.iter().for_each(|size| insta::assert_snapshot!(format!("sessions_{}", size.0), screen(&mut model, *size)));
    // Columns that find no room come when they are chosen.
    press(&mut model, &[KeyCode::Right; 11]);
    let narrow = screen(&mut model, SIZES[0]);
    assert!(narrow.contains("down↓") && !narrow.contains("client"), "{narrow}");
    assert!(narrow.find("1 000 000") < narrow.find("500 000"), "{narrow}");
    model.take(Said::Detail(Detail::Answer(topic("sessions"), Err("controller splice does not answer".into()))));
    assert!(screen(&mut model, SIZES[0]).contains("controller splice does not answer"));
}

#[test]
fn rows_are_sorted_and_filtered_by_keys() {
    let mut model = model();
    type_in(&mut model, "3");
    let names = |model: &mut Model| -> Vec<String> {
        let screen = screen(model, (80, 24));
        let names = screen.lines().filter_map(|line| line.split_whitespace().next()).filter(|word| word.contains('.'));
        names.map(str::to_owned).collect()
    };
    let as_they_came = names(&mut model);
    assert_eq!(as_they_came[..2], ["classify.classify", "accept.segment"]);
    press(&mut model, &[KeyCode::Right]);
    assert_eq!(names(&mut model)[..2], ["accept.segment", "accept.syn"]);
    press(&mut model, &[KeyCode::Right]);
    assert_eq!(names(&mut model)[..2], ["classify.classify", "accept.segment"]);
    type_in(&mut model, "r");
    assert_eq!(names(&mut model)[0], "arp.reply");
    press(&mut model, &[KeyCode::Left, KeyCode::Left, KeyCode::Left]);
    assert_eq!(names(&mut model), as_they_came);
    // Keys go into the filter until it is kept.
    type_in(&mut model, "/ACCEPTq");
    press(&mut model, &[KeyCode::Backspace]);
    assert_eq!(names(&mut model), ["accept.segment", "accept.syn"]);
    press(&mut model, &[KeyCode::Enter]);
    assert!(screen(&mut model, SIZES[0]).contains("filter: ACCEPT"));
    press(&mut model, &[KeyCode::Esc]);
    assert_eq!(names(&mut model), as_they_came);
}

#[test]
fn rows_are_scrolled() {
    let mut model = model();
    let start = Instant::now();
    let mut long = look(start, 14, 1);
    long.counters.ppfs.extend((0..100).map(|n| (format!("many.p{n}"), n)));
    model.take(Said::Look(Box::new(long)));
    type_in(&mut model, "3");
    let first = screen(&mut model, (80, 24));
    assert!(first.contains("rows 1 to 19 of 106") && first.contains("classify.classify"), "{first}");
    press(&mut model, &[KeyCode::PageDown, KeyCode::Down, KeyCode::Down, KeyCode::Up]);
    let next = screen(&mut model, (80, 24));
    assert!(next.contains("rows 21 to 39 of 106") && !next.contains("classify.classify"), "{next}");
    press(&mut model, &[KeyCode::End]);
    assert!(screen(&mut model, (80, 24)).contains("rows 88 to 106 of 106"));
    // A larger screen, and fewer rows.
    assert!(screen(&mut model, (80, 50)).contains("rows 62 to 106 of 106"));
    type_in(&mut model, "/p99");
    assert!(screen(&mut model, (80, 50)).contains("rows 1 to 1 of 1"));
    type_in(&mut model, "x");
    assert!(screen(&mut model, (80, 50)).contains("rows 0 to 0 of 0"));
}

#[test]
fn the_interval_and_pauses() {
    let mut model = model();
    let every = |model: &Model| model.wanted().every.map(|every| every.as_millis());
    assert_eq!(every(&model), Some(1000));
    type_in(&mut model, "+");
    assert_eq!(every(&model), Some(2000));
    type_in(&mut model, "--------");
    assert_eq!(every(&model), Some(250));
    type_in(&mut model, " ");
    assert_eq!(every(&model), None);
    assert!(screen(&mut model, SIZES[0]).contains("PAUSED"));
    type_in(&mut model, " ++++++++++");
    assert_eq!(every(&model), Some(30_000));
}

#[test]
fn an_instance_that_ends_and_another_one() {
    let mut model = model();
    let before = screen(&mut model, SIZES[0]);
    assert!(before.contains("1.73 Mpkt/s"), "{before}");
    model.take(Said::Gone("edge.sock: no instance is running here".into()));
    let gone = screen(&mut model, SIZES[0]);
    assert!(gone.contains("connecting again: edge.sock: no instance is running here"), "{gone}");
    let mut new = look(Instant::now(), 13, 5);
    new.status.pid += 1;
    model.take(Said::Look(Box::new(new.clone())));
    let back = screen(&mut model, SIZES[0]);
    assert!(back.contains("the instance was started again") && back.contains("pid 4712"), "{back}");
    assert!(back.contains("rx - -"), "of another process there are no rates yet: {back}");
    // Its controllers answer nothing that is shown.
    type_in(&mut model, "8");
    new.topics.clear();
    model.take(Said::Look(Box::new(new)));
    assert_eq!((&model.view, model.is_new), (&View::Overview, false));
}

#[test]
fn keys_that_quit() {
    let control = |c: char| KeyEvent::new(KeyCode::Char(c), KeyModifiers::CONTROL);
    assert!(!type_in(&mut model(), "q") && !model().key(control('c')) && !type_in(&mut model(), "?q"));
    let mut typing = model();
    assert!(type_in(&mut typing, "/q") && !typing.key(control('c')));
    assert!(press(&mut model(), &[KeyCode::F(1), KeyCode::Insert, KeyCode::Char('z')]));
}

#[test]
fn any_size_is_drawn() {
    let mut model = model();
    let small = screen(&mut model, (50, 20));
    assert!(small.starts_with("millrace top needs 60 columns and 12 lines; here\nare 50 and 20."), "{small}");
    type_in(&mut model, "/a");
    for view in 0..8 {
        press(&mut model, &[KeyCode::Enter, KeyCode::Tab]);
        for size in [(1, 1), (1, 100), (300, 1), (59, 12), (60, 11), (60, 12), (61, 13), (79, 24), (300, 100)] {
            assert_eq!(screen(&mut model, size).lines().count(), usize::from(size.1), "{view} {size:?}");
        }
    }
    // Nothing has answered yet.
    assert!(screen(&mut Model::new(Duration::from_secs(1)), SIZES[0]).contains("has not answered yet"));
}

#[test]
fn without_colours_there_are_none() {
    for has_colours in [false, true] {
        let mut terminal = Terminal::new(TestBackend::new(80, 24)).unwrap();
        terminal.draw(|frame| draw(frame, &mut model(), Theme { has_colours })).unwrap();
        let cells = &terminal.backend().buffer().content;
        let is_coloured = cells.iter().any(|cell| (cell.fg, cell.bg) != (Color::Reset, Color::Reset));
        assert_eq!(is_coloured, has_colours);
    }
}
