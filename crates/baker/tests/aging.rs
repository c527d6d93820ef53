//! Tables with an idle time: entries go when no packet asks for them, and their places become free.

use std::sync::Arc;

use baker::check::check;
use baker::diag::render;
use baker::ir::interp::Machine;
use baker::ir::{TableEntry, TableId, TableStore};
use baker::library::Library;

/// Passes frames of sources that it knows; frames of an unknown source to port 1 make it known, as far as there is
/// room.
const PROGRAM: &str = "import \"net/ether\";
drop_reason noted, full, unknown;
struct station_t { port : u8; frames : u128; }
module m {
    in ether input;
    out ether output;
    hash<mac_addr_t, station_t> stations[2] idle 10s;
    ppf work(ether_packet_t *pkt) from input {
        station_t *station = stations[pkt->src];
        if (station != null) {
            station->frames += 1;
            channel_put(output, pkt);
        } else if (pkt->metadata.rx.port != 1) {
            packet_drop(pkt, unknown);
        } else if (table_insert(stations, pkt->src, station_t { port: 1, frames: 0 })) {
            packet_drop(pkt, noted);
        } else {
            packet_drop(pkt, full);
        }
    }
}
program { rx -> m.input; m.output -> host; }
";

const STATIONS: TableId = TableId(0);

struct Switch(Machine);

impl Switch {
    fn new() -> Switch {
        let compilation = check("aging.baker", PROGRAM, &Library);
        let rendered = render(&compilation.diagnostics, &compilation.sources, false);
        assert!(rendered.is_empty(), "{rendered}");
        Switch(Machine::new(Arc::new(baker::ir::lower(compilation.program.as_ref().unwrap()))))
    }

    /// What becomes of a frame: `passed`, or the drop reason.
    fn at(&mut self, second: u64, port: u8, source: u8) -> String {
        let machine = &mut self.0;
        machine.set_now(second * 1_000_000_000);
        let before = machine.counters().to_vec();
        let mut frame = [0; 60];
        frame[11] = source;
        if !machine.receive(port, &frame).is_empty() {
            return "passed".into();
        }
        let slot = |reason: usize| machine.slots().drop(baker::ir::DropId(reason as u32));
        let mut reasons = machine.program().drop_reasons.iter().enumerate();
        let found = reasons.find(|(index, _)| machine.counters()[slot(*index)] > before[slot(*index)]);
        found.expect("dropped").1.name.clone()
    }
}

#[test]
fn an_entry_lives_as_long_as_it_is_used() {
    let mut switch = Switch::new();
    assert_eq!([switch.at(100, 2, 7), switch.at(100, 1, 7)], ["unknown", "noted"]);
    assert_eq!([switch.at(110, 2, 7), switch.at(120, 2, 7), switch.at(130, 2, 7)], ["passed"; 3]);
    // The look-up that finds it too old removes it.
    assert_eq!([switch.at(141, 2, 7), switch.at(141, 2, 7)], ["unknown"; 2]);
    assert_eq!(switch.0.dump(STATIONS), []);
    assert_eq!([switch.at(142, 1, 7), switch.at(143, 2, 7)], ["noted", "passed"]);
}

#[test]
fn expiry_makes_room() {
    let mut switch = Switch::new();
    assert_eq!([switch.at(1, 1, 1), switch.at(6, 1, 2), switch.at(12, 1, 3)], ["noted", "noted", "full"]);
    switch.0.expire(12_000_000_000);
    let keys: Vec<_> = switch.0.dump(STATIONS).into_iter().map(|entry| entry.key).collect();
    assert_eq!(keys, [[2]], "1 is gone, 2 is young");
    assert_eq!([switch.at(12, 1, 3), switch.at(12, 1, 4)], ["noted", "full"]);
}

#[test]
fn entries_of_the_control_plane_stay() {
    let mut switch = Switch::new();
    let entry = TableEntry { key: vec![9], prefix_len: None, value: vec![3, 0] };
    switch.0.insert(STATIONS, &entry).unwrap();
    assert_eq!(switch.at(1_000_000, 2, 9), "passed");
    switch.0.expire(u64::MAX / 2);
    assert_eq!(switch.at(2_000_000, 2, 9), "passed");
    // The time of use is the program's business alone.
    assert_eq!(switch.0.dump(STATIONS), [TableEntry { value: vec![3, 2], ..entry.clone() }]);
    assert_eq!(switch.0.get(STATIONS, &[9], None), Ok(vec![3, 2]));
    let wide = TableEntry { value: vec![3, 0, 5, 5], ..entry };
    assert!(switch.0.insert(STATIONS, &wide).is_err());
}
