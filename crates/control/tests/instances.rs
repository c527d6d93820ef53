//! Several instances of one module: a configuration fills the tables of each, and each uses its own.

#[path = "../../../tests/support/compile.rs"]
mod common;

use std::path::Path;
use std::sync::Arc;

use baker::ir::{Program, TableEntry, TableId, TableStore};
use baker::opt::Level;
use codegen::OptLevel;
use control::applications::Applications;
use control::config::Config;
use control::entries::Notation;
use dataplane::EngineKind;
use dataplane::step::Stepper;

fn program() -> Arc<Program> {
    common::compile(Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/common/instances.baker")))
}

const CONFIG: &str = r#"
[ports.p1]
number = 1
[ports.p2]
number = 2

[tables.left]
fib = { "10.0.0.0/8" = 3, "0.0.0.0/0" = 4 }
trusted = ["02:00:00:00:00:07"]
taken.1 = { rate = 5, burst = 6 }
[tables.left.outs]
3 = { port = "p1", mac = "02:00:00:00:00:13" }
4 = { port = "p2", mac = "02:00:00:00:00:14" }

[tables.right]
fib = { "10.0.0.0/8" = 3 }
trusted = ["02:00:00:00:00:07", "02:00:00:00:00:08"]
[tables.right.outs]
3 = { port = "p2", mac = "02:00:00:00:00:23" }
"#;

fn table(program: &Program, name: &str) -> TableId {
    let found = program.tables.iter().position(|table| table.name == name);
    TableId(found.unwrap_or_else(|| panic!("no table {name}")) as u32)
}

#[test]
fn each_instance_has_its_own_tables() {
    let program = program();
    let config = Config::parse("instances.toml", CONFIG, &program, Applications::NONE)
        .unwrap_or_else(|errors| panic!("{errors:#?}"));
    for engine in [EngineKind::Interp, EngineKind::Native(OptLevel::O0, Level::Base), EngineKind::NATIVE] {
        let mut stepper = Stepper::new(program.clone(), engine).unwrap();
        config.fill(&program, &mut stepper).unwrap();
        let dump = |name: &str| stepper.dump(table(&program, name));
        let entry = |key: u128, value: &[u128]| TableEntry { key: vec![key], prefix_len: None, value: value.to_vec() };
        assert_eq!(dump("left.outs"), [entry(3, &[1, 0x0200_0000_0013]), entry(4, &[2, 0x0200_0000_0014])]);
        assert_eq!(dump("right.outs"), [entry(3, &[2, 0x0200_0000_0023])]);
        assert_eq!([dump("left.fib").len(), dump("right.fib").len()], [2, 1]);
        assert_eq!([dump("left.trusted").len(), dump("right.trusted").len()], [1, 2]);
        assert_eq!((dump("left.taken"), dump("right.taken")), (vec![entry(1, &[5, 6])], vec![]));

        // The same frames by both ways.
        let mut sent = |rx: u8, dst: u128, src: u128| {
            let address = |mac: u128| mac.to_be_bytes()[10..].to_vec();
            let frame = [address(dst), address(src), vec![0x08, 0x00], vec![0; 46]].concat();
            let outputs = stepper.receive(rx, &frame);
            outputs.first().map(|output| (output.metadata[Program::TX_PORT.0 as usize], output.bytes[5]))
        };
        assert_eq!(sent(1, 0x0200_0a00_0001, 0x0200_0000_0007), Some((1, 0x13)), "{engine:?}");
        assert_eq!(sent(2, 0x0200_0a00_0001, 0x0200_0000_0007), Some((2, 0x23)), "{engine:?}");
        assert_eq!(sent(1, 0x0200_0b00_0001, 0x0200_0000_0007), Some((2, 0x14)), "{engine:?}");
        assert_eq!(sent(2, 0x0200_0b00_0001, 0x0200_0000_0007), None, "{engine:?}");
        assert_eq!(sent(1, 0x0200_0a00_0001, 0x0200_0000_0008), None, "{engine:?}");
        assert_eq!(sent(2, 0x0200_0a00_0001, 0x0200_0000_0008), Some((2, 0x23)), "{engine:?}");
    }
}

#[test]
fn the_module_itself_has_no_tables_then() {
    let program = program();
    let error = |text: &str| {
        let errors = Config::parse("t.toml", text, &program, Applications::NONE).expect_err("it is wrong");
        errors.iter().map(ToString::to_string).collect::<Vec<_>>()
    };
    assert_eq!(
        error("[tables.route]\nfib = {}"),
        ["t.toml:1: tables.route: no module of this name has tables; accepted: left, right"]
    );
    assert_eq!(error("[tables.left]\nfibs = {}").len(), 1);
}

#[test]
fn a_running_instance_knows_them_by_the_same_names() {
    let program = program();
    let notation = Notation::new(Arc::clone(&program), Default::default());
    assert_eq!(notation.table("left.fib").unwrap(), table(&program, "left.fib"));
    assert_eq!(notation.table("right.fib").unwrap(), table(&program, "right.fib"));
    assert!(notation.table("route.fib").unwrap_err().to_string().contains("left.fib"));
}
