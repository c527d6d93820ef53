//! Critical sections: which tables get a lock, and that it is not seen from outside.

use std::sync::Arc;

use baker::check::check;
use baker::diag::render;
use baker::ir::interp::Machine;
use baker::ir::{Program, TableEntry, TableId, TableStore, lower, print, verify};
use baker::library::Library;

fn compile(items: &str) -> Arc<Program> {
    let source = format!(
        "import \"net/ether\";
struct state_t {{ frames : u32; bytes : u64; }}
module m {{
    in ether input;
    out ether output;
{items}
}}
program {{ rx -> m.input; m.output -> host; }}
"
    );
    let compilation = check("critical.baker", &source, &Library);
    let rendered = render(&compilation.diagnostics, &compilation.sources, false);
    assert!(rendered.is_empty(), "{rendered}");
    let program = lower(compilation.program.as_ref().unwrap());
    assert_eq!(verify(&program), Ok(()), "{}", print(&program));
    Arc::new(program)
}

/// Names of the tables whose entries have a lock.
fn locked(program: &Program) -> Vec<&str> {
    program.tables.iter().filter(|table| table.locked).map(|table| table.name.as_str()).collect()
}

#[test]
fn only_tables_of_which_an_entry_is_locked_have_locks() {
    let program = compile(
        "    array<state_t> ports[4];
    array<state_t> others[4];
    hash<mac_addr_t, state_t> stations[8] idle 60s;
    hash<mac_addr_t, state_t> either[8] idle 60s;
    hash<mac_addr_t, u32> plain[8];
    array<u32> numbers[8];
    u32 least(u32 a, u32 b) { return a < b ? a : b; }
    ppf count(ether_packet_t *pkt) from input {
        state_t *port = ports[3];
        critical (port) {
            port->frames += least(1, 5);
            port->bytes += packet_length(pkt);
        }
        state_t *other = others[2];
        other->frames += 1;
        state_t *station = stations[pkt->src];
        state_t *second = either[pkt->dst];
        if (station == null)
            station = second;
        if (station != null) {
            state_t *same = pkt->type == 5 ? station : station;
            critical (station) {
                for (u32 i = 0; i < 4; i++) {
                    if (station->frames == i)
                        break;
                    station->bytes += station->frames;
                }
            }
            pkt->type = (u16) (pkt->type == 6 ? station : station)->frames;
            if (same != null)
                pkt->type = (u16) same->bytes;
        }
        u32 *n = plain[pkt->src];
        if (n != null)
            *n += 1;
        critical (numbers[7]) { pkt->type = pkt->type + 1; }
        channel_put(output, pkt);
    }",
    );
    assert_eq!(locked(&program), ["m.ports", "m.stations", "m.either", "m.numbers"]);
    // The lock lies behind what else is in the value, and the control plane sees none of it.
    for table in &program.tables {
        let fields = &program.layouts[table.value.0 as usize].fields;
        let names: Vec<&str> = fields.iter().map(|field| field.name.as_str()).collect();
        let wanted: &[&str] = match table.name.as_str() {
            "m.ports" => &["frames", "bytes", "lock"],
            "m.stations" | "m.either" => &["frames", "bytes", "last_used", "lock"],
            "m.others" => &["frames", "bytes"],
            "m.numbers" => &["", "lock"],
            _ => &[""],
        };
        assert_eq!(names, wanted, "{}", table.name);
        assert!(program.shown_value(table).fields.len() <= 2);
    }
}

#[test]
fn instances_lock_their_own_entries() {
    let source = "import \"net/ether\";
module count {
    in ether input;
    out ether output;
    array<u32> seen[4];
    ppf count(ether_packet_t *pkt) from input {
        u32 *n = seen[1];
        critical (n) { *n += 1; }
        channel_put(output, pkt);
    }
}
module look {
    in ether input;
    out ether output;
    array<u32> mine[4];
    ppf look(ether_packet_t *pkt) from input {
        u32 *n = left.seen[1];
        pkt->type = (u16) *n;
        mine[2] = *n;
        channel_put(output, pkt);
    }
}
program { count left, right; rx -> left.input; left.output -> right.input; right.output -> look.input; look.output -> host; }
";
    let compilation = check("critical.baker", source, &Library);
    let program = lower(compilation.program.as_ref().expect("nothing is wrong"));
    assert_eq!(verify(&program), Ok(()));
    assert_eq!(locked(&program), ["left.seen", "right.seen"]);
}

#[test]
fn entries_with_a_lock_are_as_others() {
    let program = compile(
        "    hash<mac_addr_t, state_t> stations[2];
    array<state_t> ports[4];
    ppf count(ether_packet_t *pkt) from input {
        state_t *station = stations[pkt->src];
        if (station == null) {
            if (!table_insert(stations, pkt->src, state_t { frames: 1, bytes: packet_length(pkt) })) pkt->type = 7;
        } else {
            critical (station) { station->frames += 1; station->bytes += packet_length(pkt); }
            table_remove(stations, pkt->dst);
        }
        state_t *port = ports[1];
        critical (port) { *port = state_t { frames: port->frames + 1, bytes: port->bytes + packet_length(pkt) }; }
        ports[2] = *port;
        channel_put(output, pkt);
    }",
    );
    let mut machine = Machine::new(program);
    let frame = |dst: u8, src: u8| {
        let mut frame = [0; 60];
        (frame[5], frame[11]) = (dst, src);
        frame
    };
    let dump = |machine: &Machine, table: u32| -> Vec<(u128, Vec<u128>)> {
        machine.dump(TableId(table)).into_iter().map(|entry| (entry.key[0], entry.value)).collect()
    };
    for (dst, src) in [(9, 1), (9, 1), (9, 2), (9, 3)] {
        machine.receive(1, &frame(dst, src));
    }
    assert_eq!(dump(&machine, 0), [(1, vec![2, 120]), (2, vec![1, 60])], "full");
    machine.receive(1, &frame(2, 1));
    assert_eq!(dump(&machine, 0), [(1, vec![3, 180])], "removed");
    assert_eq!(dump(&machine, 1), [(1, vec![5, 300]), (2, vec![5, 300])]);
    let entry = TableEntry { key: vec![1], prefix_len: None, value: vec![10, 20] };
    machine.insert(TableId(0), &entry).unwrap();
    machine.insert(TableId(1), &entry).unwrap();
    machine.receive(1, &frame(9, 1));
    assert_eq!(dump(&machine, 0), [(1, vec![11, 80])]);
    assert_eq!(dump(&machine, 1), [(1, vec![11, 80]), (2, vec![11, 80])]);
    let wrong = TableEntry { value: vec![10, 20, 0], ..entry };
    assert!(machine.insert(TableId(0), &wrong).is_err(), "the lock can't be set");
}
