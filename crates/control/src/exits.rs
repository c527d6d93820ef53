//! Ends of packets outside of the program: which port sends them, and why none does.

use std::collections::HashSet;

use baker::ir::{DropId, Program};
use dataplane::PortConfig;

use crate::walk::{Step, What};

/// What becomes of packets that leave a program.
#[derive(Clone, Debug, Default)]
pub struct Exits {
    /// Name, number, and number of the host port.
    ports: Vec<(String, u8, Option<u8>)>,
}

impl Exits {
    /// Of an instance's ports.
    pub fn new(ports: &[PortConfig]) -> Exits {
        Exits { ports: ports.iter().map(|port| (port.spec.name.clone(), port.number, port.host)).collect() }
    }

    /// The steps of a packet that came in on a port, with what becomes of it, and of what was made of it, where they
    /// leave. The kernel's part of a program gives packets for the host to the kernel's own stack; workers to the host
    /// port of the port of entry, and drop them where it has none.
    pub fn follow(&self, program: &Program, port: u8, steps: Vec<Step>) -> Vec<Step> {
        let host = self.ports.iter().find(|(_, number, _)| *number == port).and_then(|(.., host)| *host);
        let host = host.and_then(|host| self.ports.iter().find(|(_, number, _)| *number == host));
        let dropped = |reason: DropId| What::Dropped { reason: program.drop_reasons[reason.0 as usize].name.clone() };
        // Packets that a worker has: what the kernel once hands over does not come back.
        let mut of_workers = HashSet::new();
        let mut found = Vec::with_capacity(steps.len());
        for mut step in steps {
            let mut end = None;
            match &mut step.what {
                What::Enter { engine: Some(engine), .. } if !matches!(&**engine, "xdp" | "tc") => {
                    of_workers.insert(step.packet);
                }
                What::Made { of } if of_workers.contains(&of.unwrap_or(0)) => {
                    of_workers.insert(step.packet);
                }
                What::Left { to, .. } if to == "host" && of_workers.contains(&step.packet) => match host {
                    Some((name, ..)) => *to = format!("port {name}"),
                    None => end = Some(dropped(DropId::NO_HOST)),
                },
                What::Left { to, .. } => {
                    let is_known = |name: &str| self.ports.iter().any(|(known, ..)| known == name);
                    if to.strip_prefix("port ").is_some_and(|name| !is_known(name)) {
                        end = Some(dropped(DropId::NO_PORT));
                    }
                }
                _ => {}
            }
            let packet = step.packet;
            found.push(step);
            found.extend(end.map(|what| Step { packet, what }));
        }
        found
    }
}

#[cfg(test)]
mod tests {
    use dataplane::ports::{Driver, MemPort};

    use super::*;

    fn step(packet: u32, what: What) -> Step {
        Step { packet, what }
    }

    fn enter(packet: u32, engine: &str) -> Step {
        let (ppf, channel) = ("m.p".to_owned(), Some("rx".to_owned()));
        step(packet, What::Enter { ppf, channel, engine: Some(engine.into()), bytes: 60, usual_ns: None })
    }

    fn left(packet: u32, to: &str) -> Step {
        step(packet, What::Left { channel: None, to: to.into() })
    }

    #[test]
    fn ports_say_what_becomes_of_packets() {
        let text = "import \"net/ether\"; module m { in ether input; out ether output; \
                    ppf p(ether_packet_t *pkt) from input { channel_put(output, pkt); } } \
                    program { rx -> m.input; m.output -> tx; }";
        let program = baker::check::check("test.baker", text, &baker::library::Library);
        let program = baker::ir::lower(&program.program.unwrap_or_else(|| panic!("{:?}", program.diagnostics)));
        let port = |name: &str, number, host| PortConfig {
            host,
            ..PortConfig::new(name, number, Driver::Mem(MemPort::default()))
        };
        let exits = Exits::new(&[port("a", 1, Some(3)), port("b", 2, None), port("c", 3, None)]);
        let why = |reason: &str, packet| step(packet, What::Dropped { reason: reason.into() });
        let found = |port, steps: &[Step]| exits.follow(&program, port, steps.to_vec());
        // On workers.
        assert_eq!(found(1, &[enter(0, "worker"), left(0, "host")])[1..], [left(0, "port c")]);
        assert_eq!(found(2, &[enter(0, "worker"), left(0, "host")])[1..], [left(0, "host"), why("no_host", 0)]);
        assert_eq!(found(2, &[enter(0, "interp"), left(0, "port 9")])[1..], [left(0, "port 9"), why("no_port", 0)]);
        assert_eq!(found(2, &[enter(0, "worker"), left(0, "port b")])[1..], [left(0, "port b")]);
        assert_eq!(found(2, &[enter(0, "worker"), left(0, "controller c")])[1..], [left(0, "controller c")]);
        // In the kernel, and handed over by it.
        assert_eq!(found(2, &[enter(0, "tc"), left(0, "host")])[1..], [left(0, "host")]);
        let handed = [enter(0, "xdp"), enter(0, "worker"), step(1, What::Made { of: Some(0) }), left(1, "host")];
        assert_eq!(found(2, &handed)[3..], [left(1, "host"), why("no_host", 1)]);
        assert_eq!(found(2, &[enter(0, "xdp"), left(0, "port 9")])[1..], [left(0, "port 9"), why("no_port", 0)]);
    }
}
