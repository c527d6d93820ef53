//! A timer at deadlines counts as often as it runs, not as often as it is called for an entry.

use std::sync::Arc;

use baker::check::check;
use baker::diag::render;
use baker::ir::{CounterId, CounterSlots, TimerId};
use baker::library::Library;
use baker::opt::Level;
use codegen::OptLevel;
use dataplane::EngineKind;
use dataplane::step::Stepper;

/// A frame sets the deadline of its source's entry, in as many milliseconds as its type says.
const PROGRAM: &str = "import \"net/ether\";
module m {
    in  ether input;
    out ether output;
    hash<mac_addr_t, u64> flows[40] idle 10ms;
    counter ran;
    ppf set(ether_packet_t *pkt) from input {
        flows[pkt->src] = 0;
        if (timer_set(flows[pkt->src], now_ns() + 1ms * pkt->type))
            pkt->metadata.tx.port = 1;
        channel_put(output, pkt);
    }
    timer act(mac_addr_t source, u64 *value) over flows at deadline { counter_add(ran, 1); }
}
program { rx -> m.input; m.output -> tx; }
";

const MS: u64 = 1_000_000;

#[test]
fn an_entry_that_is_too_old_does_not_count() {
    let compilation = check("timer_runs.baker", PROGRAM, &Library);
    let Some(program) = &compilation.program else {
        panic!("{}", render(&compilation.diagnostics, &compilation.sources, false));
    };
    let program = Arc::new(baker::ir::lower(program));
    for engine in [EngineKind::Interp, EngineKind::Native(OptLevel::O0, Level::Base), EngineKind::NATIVE] {
        let mut stepper = Stepper::new(program.clone(), engine).expect("an engine");
        // The entries of the last two are too old by then.
        for (source, ms) in [(1, 2), (2, 5), (3, 15), (4, 30)] {
            let mut frame = [0; 60];
            (frame[11], frame[13]) = (source, ms);
            assert_eq!(stepper.receive(1, &frame)[0].metadata[1], 1, "{engine:?}: set");
        }
        stepper.advance(100 * MS);
        let (slots, counters) = (CounterSlots::new(&program), stepper.counters());
        let [runs, entries] =
            [slots.timer_runs(TimerId(0)), slots.timer_entries(TimerId(0))].map(|slot| counters[slot]);
        assert_eq!([runs, entries, counters[slots.user(CounterId(0))]], [2, 2, 2], "{engine:?}");
    }
}
