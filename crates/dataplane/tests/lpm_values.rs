//! A program changes values of routes through pointers, on every engine: each route's own value, also where others have
//! an equal one.

use std::sync::Arc;

use baker::ir::{self, TableEntry, TableId, TableStore};
use baker::opt::Level;
use codegen::OptLevel;
use dataplane::EngineKind;
use dataplane::step::Stepper;

/// Counts packets in the route that they take. `a` has routes of the form for 32 bits, `b` of the one for other widths.
const PROGRAM: &str = r#"
    import "net/ether";
    struct route_t { next : u8; packets : u32; }
    module m {
        in ether input;
        out ether output;
        lpm<u32, route_t> a[64];
        lpm<u48, u64> b[64];
        ppf count(ether_packet_t *pkt) from input {
            route_t *route = a[(u32) pkt->dst];
            if (route != null) {
                route->packets += 1;
                pkt->src = route->next;
            }
            u64 *passed = b[pkt->dst];
            if (passed != null)
                *passed += 1;
            channel_put(output, pkt);
        }
    }
    program { rx -> m.input; m.output -> host; }
"#;

const A: TableId = TableId(0);
const B: TableId = TableId(1);

fn frame(dst: u64) -> Vec<u8> {
    let mut frame = vec![0; 60];
    frame[..6].copy_from_slice(&dst.to_be_bytes()[2..]);
    frame
}

fn route(key: u128, prefix_len: u32, value: &[u128]) -> TableEntry {
    TableEntry { key: vec![key], prefix_len: Some(prefix_len), value: value.to_vec() }
}

#[test]
fn each_route_counts_for_itself() {
    let compilation = baker::check::check("t.baker", PROGRAM, &baker::library::Library);
    let program = Arc::new(ir::lower(&compilation.program.expect("nothing is wrong")));
    // In either copy of what is read alone equal routes of one length would share an entry.
    assert_eq!(program.written_tables(), [true, true]);
    let native = Level::ALL.map(|level| EngineKind::Native(OptLevel::O3, level));
    let kernel = Level::ALL.map(EngineKind::Kernel);
    for engine in [EngineKind::Interp].into_iter().chain(native).chain(kernel) {
        let mut stepper = Stepper::new(program.clone(), engine).unwrap();
        // Four routes of one length and value, one nested in another, and a default route.
        let prefixes: [(u128, u32); 6] =
            [(0, 0), (0x0a00_0000, 24), (0x0a00_0100, 24), (0x0a00_0200, 24), (0x0a00_0300, 24), (0x0a00_0107, 32)];
        for (prefix, len) in prefixes {
            stepper.insert(A, &route(prefix, len, &[5, 0])).unwrap();
            stepper.insert(B, &route(prefix, if len == 0 { 0 } else { len + 16 }, &[0])).unwrap();
        }
        let sent: [(u64, usize); 6] = [
            (0x0b00_0000, 1),
            (0x0a00_0001, 2),
            (0x0a00_0101, 3),
            (0x0a00_0201, 0),
            (0x0a00_0301, 5),
            (0x0a00_0107, 7),
        ];
        for (dst, times) in sent {
            for _ in 0..times {
                let out = stepper.receive(1, &frame(dst));
                assert_eq!(out[0].bytes[6..12], [0, 0, 0, 0, 0, 5], "{engine:?}");
            }
        }
        let counted = |stepper: &Stepper| {
            prefixes.map(|(prefix, len)| {
                let a = stepper.get(A, &[prefix], Some(len)).unwrap();
                let b = stepper.get(B, &[prefix], Some(if len == 0 { 0 } else { len + 16 })).unwrap();
                assert_eq!((a[0], a[1]), (5, b[0]), "{engine:?}");
                a[1]
            })
        };
        assert_eq!(counted(&stepper), [1, 2, 3, 0, 5, 7], "{engine:?}");
        // What the control plane sets is a new value; the others stay.
        stepper.insert(A, &route(0x0a00_0100, 24, &[5, 100])).unwrap();
        stepper.insert(B, &route(0x0a00_0100, 40, &[100])).unwrap();
        stepper.receive(1, &frame(0x0a00_0101));
        assert_eq!(counted(&stepper), [1, 2, 101, 0, 5, 7], "{engine:?}");
        // Where the nested route is gone, its packets count for the one around it.
        stepper.remove(A, &[0x0a00_0107], Some(32)).unwrap();
        stepper.remove(B, &[0x0a00_0107], Some(48)).unwrap();
        stepper.receive(1, &frame(0x0a00_0107));
        assert_eq!(stepper.get(A, &[0x0a00_0100], Some(24)).unwrap(), [5, 102], "{engine:?}");
        assert_eq!(stepper.get(B, &[0x0a00_0100], Some(40)).unwrap(), [102], "{engine:?}");
    }
}
