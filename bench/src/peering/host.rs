//! Traffic to the host itself: TCP to the address of an interface whose packets the kernel gets before Millrace does
//! anything with them (`own = "kernel"`), against the kernel without Millrace.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use dataplane::ports::{Driver, OwnAddresses};
use dataplane::{Access, Instance, Options, PollMode, PortConfig};
use lab::{LinkConfig, Namespace, veth};

use crate::results::Results;
use crate::veth::PORTS;
use crate::{Effort, text};

const CASE: &str = "to the host, TCP";
const HOST: &str = "10.9.0.1";
const PATCH: &str = include_str!("../../../examples/patch.baker");
const PATIENCE: Duration = Duration::from_secs(5);

/// The receiver of the packets.
#[derive(Clone, Copy)]
enum System {
    Kernel,
    /// With a port of this driver at the interface.
    Millrace(Access, fn(String) -> (Driver, OwnAddresses)),
}

fn told_apart(interface: String) -> (Driver, OwnAddresses) {
    (Driver::AfXdp { interface }, OwnAddresses::Kernel)
}

/// The kernel sees all packets itself, and the port copies of them.
fn beside(interface: String) -> (Driver, OwnAddresses) {
    (Driver::AfPacket { interface }, OwnAddresses::Program)
}

/// Measures all systems in turn.
pub fn measure(effort: Effort, results: &mut Results) -> Result<(), String> {
    if !lab::has_privileges().map_err(text)? {
        results.note(format!("{CASE}: not measured, it needs root"));
        return Ok(());
    }
    let (runs, window) = if effort.quick { (1, 300) } else { (7, 2000) };
    let afxdp = Access::ALL.map(|access| (access.name().to_owned(), System::Millrace(access, told_apart)));
    let systems: Vec<_> = [("kernel".to_owned(), System::Kernel)]
        .into_iter()
        .chain(afxdp)
        .chain(Access::ALL.map(|access| (format!("{access}, afpacket"), System::Millrace(access, beside))))
        .collect();
    let mut rates: Vec<Vec<f64>> = vec![Vec::new(); systems.len()];
    for _ in 0..runs {
        for ((name, system), rates) in systems.iter().zip(&mut rates) {
            rates.push(one(*system, Duration::from_millis(window)).map_err(|e| format!("{CASE}: {name}: {e}"))?);
        }
    }
    for ((name, _), rates) in systems.iter().zip(rates) {
        results.add(CASE, name, "gbps", "Gbit/s of data", rates);
    }
    let kernel = results.median(CASE, "kernel", "gbps").unwrap_or(f64::NAN);
    for (name, _) in &systems[1..] {
        let share = results.median(CASE, name, "gbps").unwrap_or(f64::NAN) / kernel;
        results.note(format!("{CASE}: {name} has {:.0} % of the kernel's rate alone", share * 100.0));
    }
    Ok(())
}

/// Gbit/s from a sender to the host.
fn one(system: System, window: Duration) -> Result<f64, String> {
    let namespace = |label| Namespace::new(label).map_err(text);
    let (source, host, sink) = (namespace("source")?, namespace("system")?, namespace("sink")?);
    veth(&source, "eth0", &host, PORTS[0]).map_err(text)?;
    veth(&sink, "eth0", &host, PORTS[1]).map_err(text)?;
    source.configure("eth0", &LinkConfig::host().address("10.9.0.11/24")).map_err(text)?;
    host.configure(PORTS[0], &LinkConfig::host().address(format!("{HOST}/24"))).map_err(text)?;
    host.configure(PORTS[1], &LinkConfig::port()).map_err(text)?;
    sink.configure("eth0", &LinkConfig::port()).map_err(text)?;
    source.wait_running("eth0", PATIENCE).map_err(text)?;
    let _instance = match system {
        System::Kernel => None,
        System::Millrace(access, port) => Some(instance(&host, access, port)?),
    };
    let listener = host.enter(|| TcpListener::bind((HOST, 5001))).map_err(text)?.map_err(text)?;
    let to = listener.local_addr().map_err(text)?;
    let mut sender = source.enter(|| TcpStream::connect_timeout(&to, PATIENCE)).map_err(text)?.map_err(text)?;
    let (mut receiver, _) = listener.accept().map_err(text)?;
    let (received, done) = (Arc::new(AtomicU64::new(0)), AtomicBool::new(false));
    for stream in [&sender, &receiver] {
        stream.set_read_timeout(Some(PATIENCE)).map_err(text)?;
        stream.set_write_timeout(Some(PATIENCE)).map_err(text)?;
    }
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let block = vec![0x5a; 1 << 16];
            while !done.load(Ordering::Relaxed) {
                if sender.write_all(&block).is_err() {
                    break;
                }
            }
            // Ends the other side.
            let _ = sender.shutdown(std::net::Shutdown::Both);
        });
        scope.spawn(|| {
            let mut block = vec![0; 1 << 18];
            while let Ok(bytes) = receiver.read(&mut block) {
                if bytes == 0 {
                    return;
                }
                received.fetch_add(bytes as u64, Ordering::Relaxed);
            }
        });
        std::thread::sleep(window / 4);
        let (before, start) = (received.load(Ordering::Relaxed), Instant::now());
        std::thread::sleep(window);
        let (bytes, time) = (received.load(Ordering::Relaxed) - before, start.elapsed());
        done.store(true, Ordering::Relaxed);
        if bytes == 0 { Err("nothing arrived".to_owned()) } else { Ok(bytes as f64 * 8.0 / time.as_secs_f64() / 1e9) }
    })
}

/// A patch cable from the interface on.
fn instance(host: &Namespace, access: Access, port: fn(String) -> (Driver, OwnAddresses)) -> Result<Instance, String> {
    let program = Arc::new(crate::compile::program("patch.baker", PATCH)?);
    let options = Options { poll: PollMode::Interrupt, ..Options::default() };
    let (driver, own) = port(PORTS[0].to_owned());
    let ports = [
        PortConfig { access, own, ..PortConfig::new(PORTS[0], 1, driver) },
        PortConfig { access, ..PortConfig::new(PORTS[1], 2, port(PORTS[1].to_owned()).0) },
    ];
    let prepare = || Instance::prepare(program, &options, &ports);
    host.enter(prepare).map_err(text)?.map_err(text)?.run().map_err(text)
}
