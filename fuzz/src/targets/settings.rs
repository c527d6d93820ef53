//! Configuration of the L3 switch: what is accepted can be put into its tables, what is not is told with its place.

use std::cell::RefCell;

use baker::ir::{TableId, TableStore};
use control::applications::Applications;
use control::config::Config;
use dataplane::EngineKind;
use dataplane::step::Stepper;

use super::{switch, told};

/// Pieces of configurations.
pub const WORDS: &[&str] = &[
    "[tables.l3_forward.fib]\n",
    "[[tables.l2_bridge.stations]]\n",
    "[ports.",
    "number = ",
    "device = \"",
    "afpacket:",
    "afxdp:",
    "tap:",
    "\"10.0.0.0/8\" = ",
    "\"02:00:00:00:00:01\"",
    "0x",
    "0b1",
    "-1",
    "340282366920938463463374607431768211456",
    "[\"p1\"]",
    "{ ",
    " }",
    "key = ",
    "value = ",
    "true",
    "1e9",
    "2026-01-01",
    "\"\"\"",
    "'",
    "domain = ",
    "gateway = ",
    "/33",
    "count = ",
    "\\u0000",
];

/// Takes one file.
pub fn run(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    let program = switch::program();
    let config = match Config::parse("fuzz.toml", &text, program, Applications::NONE) {
        Ok(config) => config,
        Err(errors) => return told(&errors, &text),
    };
    thread_local! {
        static STORE: RefCell<Stepper> = RefCell::new(Stepper::new(switch::program().clone(), EngineKind::Interp).unwrap_or_else(|e| panic!("{e}")));
    }
    STORE.with_borrow_mut(|store| {
        // The parser counts entries, so they fit; and what was put there is there.
        config.fill(program, store).unwrap_or_else(|error| panic!("accepted, but {error}"));
        for (table, entry) in &config.entries {
            let found = store.get(*table, &entry.key, entry.prefix_len);
            assert_eq!(found.as_ref(), Ok(&entry.value), "table {}", program.tables[table.0 as usize].name);
        }
        for table in (0..program.tables.len() as u32).map(TableId) {
            for entry in store.dump(table) {
                store.remove(table, &entry.key, entry.prefix_len).unwrap_or_else(|error| panic!("{error}"));
            }
        }
    });
    // Devices are not opened here; all that can be wrong without them is said.
    let _ = config.port_configs(&[]);
}
