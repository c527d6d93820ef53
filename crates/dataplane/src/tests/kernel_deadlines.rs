//! Deadlines that the kernel sets at live veth pairs, while workers sleep and programs take over from each other.

use std::sync::Arc;

use baker::ir::Program;
use baker::opt::Level;
use codegen::OptLevel;

use super::live::{Host, XDP, eventually, gro, in_namespace};
use crate::testing::{compiled, frame};
use crate::xdp::FastPath;
use crate::{EngineKind, FrameConfig, Instance, Options, PollMode, PortConfig, Snapshot};

/// A packet sets the deadline of its source, once, to so many milliseconds from now as its type says, and goes out of
/// the other port. Where there is `more` tables have other numbers.
fn program(more: &str) -> Arc<Program> {
    compiled(&format!(
        "import \"net/ether\";
        struct flow_t {{ due : u64; runs : u32; }}
        module m {{
            in ether input; out ether output; {more}
            hash<u48, flow_t> flows[4096];
            counter ran;
            counter again;
            counter early;
            timer act(u48 key, flow_t *flow) over flows at deadline {{
                counter_add(ran, 1);
                flow->runs += 1;
                if (flow->runs > 1)
                    counter_add(again, 1);
                if (now_ns() < flow->due)
                    counter_add(early, 1);
            }}
            ppf p(ether_packet_t *pkt) from input {{
                if (flows[pkt->src] == null) {{
                    u64 due = now_ns() + (u64) pkt->type * 1ms;
                    flows[pkt->src] = flow_t {{ due: due, runs: 0 }};
                    timer_set(flows[pkt->src], due);
                }}
                pkt->metadata.tx.port = 3 - pkt->metadata.rx.port;
                channel_put(output, pkt);
            }}
        }}
        program {{ rx -> m.input; m.output -> tx; }}"
    ))
}

#[test]
fn timers_run_for_deadlines_of_the_kernel() {
    const FLOWS: u64 = 400;
    in_namespace(2, || {
        gro(&["left", "right"]);
        let (left, right) = (Host::on("left"), Host::on("right"));
        let path = FastPath::new(&program(""), Level::Cgpc, Default::default()).unwrap_or_else(|e| panic!("{e}"));
        let (first, path) = path.expect("all of it runs in the kernel");
        let engine = EngineKind::Native(OptLevel::O0, Level::Base);
        let frames = FrameConfig { count: 16384, ..FrameConfig::default() };
        let options = Options {
            engine,
            workers: 2,
            poll: PollMode::Interrupt,
            frames,
            fast_path: Some(Arc::new(path)),
            ..Options::default()
        };
        let ports = [("a", 1), ("b", 2)].map(|(name, number)| PortConfig::new(name, number, XDP(name)));
        let mut instance = Instance::start(first, &options, &ports).unwrap_or_else(|error| panic!("{error}"));
        let counted = |snapshot: &Snapshot, name: &str| {
            snapshot.user.iter().find(|(other, _)| other == name).map_or(0, |(_, cells)| cells.iter().sum::<u64>())
        };
        // The first half is due at once or soon, the second one when another program runs.
        for n in 0..FLOWS {
            let ms = if n < FLOWS / 2 { n % 40 } else { 500 };
            let packet = frame(ms as u16, n as u32, 60);
            left.send(&packet);
            right.expect(&packet);
        }
        eventually(&instance, |snapshot| counted(snapshot, "m.ran") >= FLOWS / 2);
        let next = instance.next(&program("array<u32> more[4]; timer of_more() every 1s { more[0] = 1; }"), Vec::new());
        assert_eq!(instance.take_over(next.unwrap_or_else(|error| panic!("{error}"))), [""; 0]);
        let snapshot = eventually(&instance, |snapshot| counted(snapshot, "m.ran") >= FLOWS);
        let counts = ["m.ran", "m.again", "m.early"].map(|name| counted(&snapshot, name));
        assert_eq!(counts, [FLOWS, 0, 0]);
        assert_eq!(["rx", "m.output"].map(|name| snapshot.channel(name)), [FLOWS; 2], "no worker had a packet");
        assert_eq!(["deadline_late", "no_worker"].map(|name| snapshot.dropped(name)), [0; 2]);
        let report = instance.stop();
        assert_eq!((report.errors, report.free_frames), (Vec::new(), report.frames));
    });
}
