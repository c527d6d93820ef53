//! Look-ups in hash tables as generated code does them: in the first bucket in line, else by the runtime.

use std::collections::HashMap;
use std::sync::Arc;

use baker::ir::{self, Program, TableEntry, TableId, TableStore};
use baker::opt::Level;
use codegen::OptLevel;
use dataplane::EngineKind;
use dataplane::step::Stepper;

/// Packets whose source is in the table leave by the port that it says; the key is this wide.
fn program(key: &str, capacity: u32) -> Arc<Program> {
    let source = format!(
        r#"
        import "net/ether";
        drop_reason absent;
        {key}
        module m {{
            in ether input;
            out ether output;
            hash<key_t, u8> ports[{capacity}];
            ppf look(ether_packet_t *pkt) from input {{
                u8 *port = ports[KEY];
                if (port == null) {{ packet_drop(pkt, absent); return; }}
                pkt->metadata.tx.port = *port;
                channel_put(output, pkt);
            }}
        }}
        program {{ rx -> m.input; m.output -> tx; }}
        "#
    );
    let key_expr = if key.starts_with("struct") { "key_t { a: pkt->src, b: pkt->dst, c: 5 }" } else { "pkt->src" };
    let source = source.replace("KEY", key_expr);
    let compilation = baker::check::check("t.baker", &source, &baker::library::Library);
    Arc::new(ir::lower(&compilation.program.unwrap_or_else(|| panic!("{source}"))))
}

fn frame(number: u64) -> Vec<u8> {
    let mut frame = vec![0; 60];
    frame[..6].copy_from_slice(&number.wrapping_mul(7).to_be_bytes()[2..]);
    frame[6..12].copy_from_slice(&number.to_be_bytes()[2..]);
    frame
}

/// Full tables have buckets that spill; tables with removed entries have slots with tags and no entry.
#[test]
fn every_key_is_found_and_no_other() {
    let narrow = "type key_t = u48;";
    let wide = "struct key_t { a : u48; b : u48; c : u8; }";
    for (key, capacity) in [(narrow, 1u32), (narrow, 8), (narrow, 9), (narrow, 200), (narrow, 5000), (wide, 3000)] {
        let program = program(key, capacity);
        let table = program.tables.iter().position(|table| table.name == "m.ports").unwrap();
        let table = TableId(table as u32);
        let fields = |number: u64| -> Vec<u128> {
            let mask = (1 << 48) - 1;
            match key.starts_with("struct") {
                true => vec![number.into(), (number.wrapping_mul(7) & mask).into(), 5],
                false => vec![number.into()],
            }
        };
        for level in [OptLevel::O0, OptLevel::O3] {
            let mut stepper = Stepper::new(program.clone(), EngineKind::Native(level, Level::Cgpc)).unwrap();
            let mut model = HashMap::new();
            for number in 0..u64::from(capacity) {
                let entry = TableEntry { key: fields(number), prefix_len: None, value: vec![(number % 251).into()] };
                stepper.insert(table, &entry).unwrap();
                model.insert(number, (number % 251) as u8);
            }
            for removed in [1, 3] {
                for number in (0..u64::from(capacity) * 2).chain([u64::from(u32::MAX) + 1, 1 << 47]) {
                    let outputs = stepper.receive(1, &frame(number));
                    let port = outputs.first().map(|output| output.metadata[Program::TX_PORT.0 as usize] as u8);
                    assert_eq!(port, model.get(&number).copied(), "{number} of {capacity}, {key}");
                }
                for number in (0..u64::from(capacity)).filter(|number| number % 4 == removed) {
                    stepper.remove(table, &fields(number), None).unwrap();
                    model.remove(&number);
                }
            }
        }
    }
}
