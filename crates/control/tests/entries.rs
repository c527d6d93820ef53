//! Keys and values as a running instance shows and takes them: one notation with the configuration.

#[path = "../../../tests/support/compile.rs"]
mod common;

use std::path::Path;
use std::sync::Arc;

use baker::ir::arith::mask;
use baker::ir::{Layout, LayoutField, Program, TableEntry, TableError, TableId, TableKind, prefix_mask};
use control::applications::Applications;
use control::config::Config;
use control::entries::{EntryFault, Notation, PortNames, text, typed};
use proptest::prelude::*;
use serde_json::{Value as Json, json};

const PORTS: &str = "[ports.p1]\nnumber = 1\n[ports.p2]\nnumber = 2\nhost = \"p1\"\n[ports.p63]\nnumber = 63\n";

fn program() -> Arc<Program> {
    common::compile(Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/common/every.baker")))
}

fn ports(program: &Program) -> PortNames {
    Config::parse("t.toml", PORTS, program, Applications::NONE).unwrap().port_names()
}

fn notation() -> Notation {
    let program = program();
    Notation::new(program.clone(), ports(&program))
}

/// Reads an entry as typed on the command line, and shows it.
fn shown(table: &str, key: &str, value: &str) -> Result<(String, String), String> {
    let notation = notation();
    let id = notation.table(table).map_err(|error| error.to_string())?;
    let (key, value) = (typed(key), typed(value));
    let (numbers, prefix_len) = notation.key(id, &key).map_err(|error| error.to_string())?;
    let numbers_of_value = notation.value(id, &key, &value).map_err(|error| error.to_string())?;
    let entry = TableEntry { key: numbers, prefix_len, value: numbers_of_value };
    Ok((text(&notation.show_key(id, &entry)), text(&notation.show_value(id, &entry.value))))
}

#[test]
fn natural_notation() {
    let same = |table: &str, key: &str, value: &str| {
        assert_eq!(shown(table, key, value), Ok((key.to_owned(), value.to_owned())), "{table}");
    };
    same("m.fib", "10.0.1.0/24", "7");
    same("m.fib", "0.0.0.0/0", "0");
    same("m.fib6", "2001:db8::/32", "7");
    same("m.members", "02:00:00:00:00:01", "true");
    same("m.stations", "02:00:00:00:00:01", "3");
    same("m.six", "2001:db8::1", "true");
    same("m.colors", "green", "-128");
    same("m.limits", "3", "{ rate = 1000000, burst = 1500 }");
    same("m.flows", "{ src = \"10.0.0.1\", port = 2 }", "5");
    same("m.verdicts", "no_route", "{ why = \"no_reason\", count = 3 }");
    let action = "{ color = \"blue\", delta = -3, on = false, mac = \"02:00:00:00:00:01\", mask = 6 }";
    same("m.actions", "15", action);
    let history = "{ seen = [1, 2, 65535], colors = [\"red\", \"blue\"], total = 7, last = [\"02:00:00:00:00:01\"] }";
    same("m.histories", "9", history);
    // Names, lists and other ways to write a number.
    let other = |table: &str, key: &str, value: &str| shown(table, key, value).unwrap();
    assert_eq!(other("m.stations", "0x020000000001", "p63"), ("02:00:00:00:00:01".into(), "63".into()));
    assert_eq!(other("m.actions", "p1", &action.replace("6 }", "[\"p1\", 2] }")).1, action);
    assert_eq!(other("m.fib", " 10.0.1.0/24 ", "1_000").1, "1000");
    assert_eq!(other("m.six", "1", "true").0, "::1");
    let most = other("m.actions", "1", &action.replace("mask = 6", "mask = \"0xffffffffffffffff\"")).1;
    assert!(most.ends_with("mask = 18446744073709551615 }"), "{most}");
}

#[test]
fn mistakes_name_the_table_the_key_and_what_is_accepted() {
    let wrong = |table: &str, key: &str, value: &str| shown(table, key, value).unwrap_err();
    assert!(wrong("m.fob", "1", "1").starts_with("there is no table \"m.fob\"; did you mean `m.fib`?; accepted: m."));
    assert_eq!(
        wrong("m.fib", "10.0.1.1/24", "1"),
        "table m.fib: key 10.0.1.1/24: not a prefix: bits beyond its length are set; did you mean \"10.0.1.0/24\"?; \
         accepted: \"ADDRESS/LENGTH\" such as \"10.0.1.0/24\", \"0.0.0.0/0\" for all addresses"
    );
    assert_eq!(
        wrong("m.stations", "02:00:00:00:00:01", "256"),
        "table m.stations: key 02:00:00:00:00:01: value 256: 256 is out of range; \
         accepted: an integer from 0 to 255, or the name of a port"
    );
    let history = |seen: &str| {
        let value = format!("{{ seen = {seen}, colors = [1, 9], total = 7, last = [1] }}");
        wrong("m.histories", "9", &value)
    };
    assert!(history("[1, 2]").contains("value.seen: this is 2 elements; accepted: a list of 3: […], each"));
    assert!(history("1").contains("value.seen: this is an integer; accepted: a list of 3"), "{}", history("1"));
    assert!(history("[1, 65536, 3]").contains("seen[1]: 65536 is out of range"), "{}", history("[1, 65536, 3]"));
    let text = wrong("m.histories", "9", "{ seen = [1, 2, 3], colors = [1, 1] }");
    assert!(text.contains("accepted: { seen = […], colors = […], total = …, last = […] }"), "{text}");
    let text = wrong("m.limits", "0", "{ rate = 1 }");
    assert!(text.contains("burst of meter is missing"), "{text}");
    assert!(wrong("m.limits", "4", "{ rate = 1, burst = 1 }").contains("beyond the end"));
    let text = wrong("m.flows", "{ src = \"10.0.0\", port = 2 }", "1");
    assert!(text.starts_with("table m.flows: key.src: \"10.0.0\" is not a value of `ipv4_addr_t`"), "{text}");
    let text = wrong("m.flows", "{ src = 1 }", "1");
    assert!(text.contains("key { src = 1 }: port of flow_t is missing; accepted: { src = …, port = … }"), "{text}");
    assert!(wrong("m.small", "300", "1").contains("accepted: an index from 0 to 299"));
    assert!(wrong("m.small", "1.5", "1").contains("\"1.5\" is not a value of"));
    assert!(wrong("m.small", "1", "1\nx = 2").contains("is not a value of"), "no second key sneaks in");
    // A drop reason is one of the program's, by name.
    let text = wrong("m.verdicts", "truncated", "{ why = \"no_rute\", count = 1 }");
    assert!(text.contains("\"no_rute\" is not a value of `drop_reason`; did you mean `no_route`?"), "{text}");
    assert!(text.contains("accepted: one of truncated, malformed, "), "{text}");
    assert!(
        wrong("m.verdicts", "7", "{ why = \"no_route\", count = 1 }").contains("7 is no drop reason of the program")
    );
    let notation = notation();
    let id = notation.table("m.flows").unwrap();
    for json in [json!(null), json!([null]), json!({"src": null, "port": 1})] {
        let error = notation.key(id, &json).unwrap_err();
        assert_eq!(error.fault, EntryFault::Key);
        assert!(error.to_string().contains("null means nothing here"), "{error}");
    }
    let full = notation.refused(id, &json!({"src": "10.0.0.1", "port": 2}), TableError::Full);
    assert_eq!(full.fault, EntryFault::Full);
    assert_eq!(
        full.to_string(),
        "table m.flows: key { src = \"10.0.0.1\", port = 2 }: the table is full; it is declared with 2 entries"
    );
    let gone = notation.refused(id, &json!(1), TableError::NotFound);
    assert_eq!(
        (gone.fault, gone.to_string().as_str()),
        (EntryFault::NotFound, "table m.flows: key 1: there is no such entry")
    );
}

/// JSON of every form, nested.
fn any_json() -> impl Strategy<Value = Json> {
    let leaf = prop_oneof![
        Just(Json::Null),
        any::<bool>().prop_map(Json::from),
        any::<i64>().prop_map(Json::from),
        any::<u64>().prop_map(Json::from),
        any::<f64>().prop_map(Json::from),
        any::<String>().prop_map(Json::from),
        "[0-9./:a-f\"'\\\\\\n]{0,12}".prop_map(Json::from),
    ];
    leaf.prop_recursive(3, 16, 4, |inner| {
        let name = prop_oneof![any::<String>(), Just("src".to_owned()), Just("port".to_owned())];
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Json::from),
            prop::collection::vec((name, inner), 0..4).prop_map(|fields| Json::Object(fields.into_iter().collect())),
        ]
    })
}

/// Numbers that fit a layout, out of any numbers.
fn fit(layout: &Layout, numbers: &[u128]) -> Vec<u128> {
    let fit = |(field, number): (&LayoutField, &u128)| match field.is_reason() {
        true => field.names[*number as usize % field.names.len()].1,
        false => number & mask(field.width),
    };
    layout.fields.iter().zip(numbers).map(fit).collect()
}

proptest! {
    /// What is shown, typed again or sent again, is the same entry.
    #[test]
    fn what_is_shown_is_understood(numbers in prop::collection::vec(any::<u128>(), 16), small in any::<bool>(), len: u8) {
        let (program, notation) = (program(), notation());
        let numbers: Vec<u128> = numbers.into_iter().map(|n| if small { n % 12 } else { n }).collect();
        for (index, table) in program.tables.iter().enumerate() {
            let id = TableId(index as u32);
            let layout = |id: baker::ir::LayoutId| &program.layouts[id.0 as usize];
            let (mut key, value) = (fit(layout(table.key), &numbers), fit(&program.shown_value(table), &numbers[8..]));
            let mut prefix_len = None;
            match table.kind {
                TableKind::Array => key[0] %= u128::from(table.capacity),
                TableKind::Lpm => {
                    let (width, len) = (layout(table.key).fields[0].width, u32::from(len));
                    let len = len % (width + 1);
                    prefix_len = Some(len);
                    key[0] &= prefix_mask(width, len).unwrap();
                }
                TableKind::Hash => {}
            }
            let entry = TableEntry { key, prefix_len, value };
            let (key, value) = (notation.show_key(id, &entry), notation.show_value(id, &entry.value));
            for (key, value) in [(key.clone(), value.clone()), (typed(&text(&key)), typed(&text(&value)))] {
                prop_assert_eq!(notation.key(id, &key), Ok((entry.key.clone(), entry.prefix_len)), "{} {}", table.name, key);
                prop_assert_eq!(notation.value(id, &key, &value), Ok(entry.value.clone()), "{} {}", table.name, value);
            }
        }
    }

    /// Whatever is sent is an entry or an error of one line.
    #[test]
    fn any_json_is_answered(key in any_json(), value in any_json()) {
        let (program, notation) = (program(), notation());
        for index in 0..program.tables.len() {
            let id = TableId(index as u32);
            let errors = [notation.key(id, &key).err(), notation.value(id, &key, &value).err()];
            for error in errors.into_iter().flatten() {
                let error = error.to_string();
                prop_assert!(error.starts_with("table m.") && error.lines().count() == 1, "{error}");
            }
        }
        prop_assert!(!text(&key).is_empty() || key == "");
    }
}
