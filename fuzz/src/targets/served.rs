//! A running L3 switch, for those who ask it.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use control::entries::{Notation, PortNames};
use control::exits::Exits;
use control::socket::{About, Graph, Overview, Service, Shown};
use dataplane::ports::{Driver, MemPort};
use dataplane::{EngineKind, Instance, Options, PortConfig};

use super::switch;

/// An instance that never ends, and what answers for it.
pub fn start() -> (Arc<Service>, Instance) {
    let (program, config) = (switch::program(), switch::config());
    let ports: Vec<_> = config
        .ports
        .iter()
        .map(|port| PortConfig::new(&port.name, port.number, Driver::Mem(MemPort::default())))
        .collect();
    let options = Options { engine: EngineKind::Interp, ..Options::default() };
    let prepared = Instance::prepare(program.clone(), &options, &ports).unwrap_or_else(|error| panic!("{error}"));
    config.fill(program, &mut prepared.tables()).unwrap_or_else(|error| panic!("{error}"));
    let instance = prepared.run().unwrap_or_else(|error| panic!("{error}"));
    let about = About {
        instance: "fuzz".into(),
        version: "0".into(),
        pid: std::process::id(),
        program: "l3switch".into(),
        engine: "interp".into(),
        workers: 1,
        mode: "interrupt".into(),
        frames: options.frames.count,
        ..About::default()
    };
    let notation = Notation::new(program.clone(), PortNames::new(&ports));
    // Being told to stop changes nothing here: it is not looked at.
    let stop = Arc::new(AtomicBool::new(false));
    let reload = Box::new(|| Err("its configuration is in no file".to_owned()));
    let time = Box::new(|_| Err("the interpreter measures no times".to_owned()));
    let graph = Graph::new(program, |_| "interp");
    let shown = Shown::new(program.clone(), (graph, Exits::new(&ports)), notation, instance.tables());
    let overview = Arc::new(Overview::new(about, shown, instance.observer(), Default::default()));
    (Arc::new(Service::new(overview, stop, reload, time)), instance)
}
