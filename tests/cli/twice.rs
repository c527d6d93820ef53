//! Two instances at one interface.

use std::time::Duration;

use lab::{Namespace, Running, Signal};

use crate::PATCH;
use crate::instance::Runtime;
use crate::run::network;

const PATIENCE: Duration = Duration::from_secs(20);

fn millrace<'n>(ns: &'n Namespace, runtime: &Runtime, ports: [&str; 2], more: &[&str]) -> lab::Command<'n> {
    let command = ns.command(env!("CARGO_BIN_EXE_millrace")).args(["run", PATCH]).args(more);
    let command = command.env("MILLRACE_RUNTIME_DIR", runtime.path("run"));
    command.args(["--port", &format!("l={}", ports[0]), "--port", &format!("r={}", ports[1])])
}

fn start(ns: &Namespace, runtime: &Runtime, ports: [&str; 2], more: &[&str]) -> Running {
    let mut running = millrace(ns, runtime, ports, more).spawn().unwrap();
    running.wait_for_text("running on 2 ports", PATIENCE).unwrap_or_else(|error| panic!("{error}"));
    running
}

#[test]
fn a_second_instance_on_an_interface_is_refused_and_told_whose_it_is() {
    let ((box_, _hosts), (other, _others)) = (network(), network());
    let runtime = Runtime::new();
    for driver in ["afpacket", "afxdp", "tc", "auto"] {
        let [left, right] = ["left", "right"].map(|device| format!("{driver}:{device}"));
        let mut first = start(&box_, &runtime, [&left, &right], &["--instance", "edge"]);
        let others = if driver == "afpacket" { &["afpacket", "afxdp", "xdp", "tc", "auto"][..] } else { &["auto"] };
        for second in others {
            let port = format!("{second}:right");
            let refused = millrace(&box_, &runtime, ["mem:", &port], &["--replace-xdp"]).run().unwrap();
            let expected = format!(
                "error: port r: right: is a port of the instance edge already (process {}): stop that, or use another \
                 interface, for two would each pass every packet on\n",
                first.id()
            );
            assert_eq!((refused.status.code(), refused.both()), (Some(2), expected), "{driver} {second}");
        }
        // One that names no instance has its program's name; and it is not another network namespace's.
        let mut elsewhere = start(&other, &runtime, [&left, &right], &["--no-socket"]);
        runtime.millrace(&["reload", "--instance", "edge"]).ok();
        // What is killed keeps no process out, and need not even be waited for.
        for running in [&mut first, &mut elsewhere] {
            running.signal(Signal::SIGKILL).unwrap();
        }
        let mut next = start(&box_, &runtime, [&left, &right], &["--no-socket"]);
        let refused = millrace(&box_, &runtime, ["mem:", &right], &["--no-socket"]).run().unwrap();
        assert!(refused.both().contains("is a port of the instance patch already"), "{refused}");
        next.signal(Signal::SIGTERM).unwrap();
        assert!(next.wait(PATIENCE).unwrap().status.success());
    }
    // Nor may one instance have it twice.
    let refused = millrace(&box_, &runtime, ["afpacket:left", "auto:left"], &["--instance", "x"]).run().unwrap();
    assert!(refused.both().contains("error: port r: left: is a port of the instance x already"), "{refused}");
}
