//! What it costs to look at a splicer with 100 000 connections, all of which have had a response: a scrape, and
//! `millrace top`. Clients and servers forget connections that are idle, and the splicer hears nothing of it, so their
//! number is not that of the files that a process may have.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4, TcpStream};
use std::ops::Range;
use std::os::fd::{AsRawFd, OwnedFd};
use std::time::{Duration, Instant};

use lab::{Namespace, Running};
use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::socket::{AddressFamily, SockFlag, SockType, SockaddrIn, bind, connect, socket};
use nix::sys::time::TimeValLike;

use super::watchers::ask;
use super::{METRICS, SYSTEM};
use crate::Effort;
use crate::results::Results;
use crate::splice::systems::{Placement, System};
use crate::text;
use crate::web::line::Scratch;
use crate::web::network::{Links, Network, VIRTUAL};
use crate::web::server::forget;

/// Connections from one address, of whose ports they take part.
const FROM_ONE: usize = 25_000;
const FIRST_PORT: u16 = 20_000;
const PATIENCE: Duration = Duration::from_secs(30);
const SCRAPES: usize = 21;
/// Connections that there are at a time before they are forgotten.
const AT_A_TIME: usize = 4000;
/// Until all that was sent is acknowledged.
const QUIET: Duration = Duration::from_millis(300);

/// Opens the connections, and measures.
pub fn measure(effort: Effort, results: &mut Results) -> Result<(), String> {
    let (all, watched): (usize, u32) = if effort.quick { (1000, 2) } else { (100_000, 20) };
    let case = format!("{all} sessions");
    let system = System::Millrace(Placement::TrafficControl);
    let network = Network::new(system.middle(), Links::Offloads)?;
    let addresses: Vec<Ipv4Addr> =
        (0..all.div_ceil(FROM_ONE)).map(|n| Ipv4Addr::new(10, 0, 1, 101 + n as u8)).collect();
    for address in &addresses {
        network.client.check(&["ip", "addr", "add", &format!("{address}/24"), "dev", "eth0"]).map_err(text)?;
    }
    let scratch = Scratch::new()?;
    let (instance, socket) = start(&network.middle, &scratch, &system.config().unwrap_or_default())?;
    for first in (0..all).step_by(AT_A_TIME) {
        let numbers = first..all.min(first + AT_A_TIME);
        let sessions = network.client.enter(|| open(&addresses, numbers)).map_err(text)??;
        std::thread::sleep(QUIET);
        sessions.into_iter().try_for_each(forget)?;
        network.server.leave()?;
    }
    let counted = value(&scrape(&network.middle)?, "millrace_splice_service_connections_now{")?;
    if counted != all as f64 {
        return Err(format!("{counted} connections are counted of {all}"));
    }
    let times = (0..SCRAPES).map(|_| {
        let begun = Instant::now();
        scrape(&network.middle)?;
        Ok(begun.elapsed().as_secs_f64() * 1e3)
    });
    results.add(&case, SYSTEM, "scrape_ms", "ms", times.collect::<Result<_, String>>()?);
    results.add(&case, SYSTEM, "top_cpu_percent", "percent of a CPU", vec![top(&network.middle, &socket, watched)?]);
    drop(instance);
    Ok(())
}

/// The splicer with room for the connections, and its control socket.
fn start(middle: &Namespace, scratch: &Scratch, config: &str) -> Result<(Running, String), String> {
    let config = config
        .replace("connections = 65536", "connections = 120000")
        .replace("keep_alive = \"60s\"", "keep_alive = \"1h\"");
    let config = scratch.write("sessions.toml", &format!("{config}\n[metrics]\nlisten = {METRICS}\n"))?;
    let socket = scratch.0.join("sessions.sock").display().to_string();
    let arguments = ["run", "splice", "-c", &config, "--socket", &socket];
    let mut instance = middle.command(&crate::millrace_beside()?).args(arguments).spawn().map_err(text)?;
    instance.wait_for_start(PATIENCE).map_err(text)?;
    Ok((instance, socket))
}

/// The connections with these numbers, each with a response, that stay.
fn open(addresses: &[Ipv4Addr], numbers: Range<usize>) -> Result<Vec<TcpStream>, String> {
    let mut streams = Vec::with_capacity(numbers.len());
    for number in numbers {
        // The kernel would give a port once more that it has forgotten, and the splicer has not.
        let port = FIRST_PORT + (number % FROM_ONE) as u16;
        let from = SockaddrIn::from(SocketAddrV4::new(addresses[number / FROM_ONE], port));
        let own: OwnedFd = socket(AddressFamily::Inet, SockType::Stream, SockFlag::SOCK_CLOEXEC, None).map_err(text)?;
        bind(own.as_raw_fd(), &from).map_err(text)?;
        connect(own.as_raw_fd(), &SockaddrIn::from(VIRTUAL))
            .map_err(|error| format!("connection {number}: {error}"))?;
        let mut stream = TcpStream::from(own);
        stream.set_read_timeout(Some(PATIENCE)).map_err(text)?;
        stream.write_all(b"GET /1 HTTP/1.1\r\nHost: www.example\r\n\r\n").map_err(text)?;
        let mut response = Vec::new();
        // A head, and a body of one byte.
        while response.windows(4).rev().nth(1).is_none_or(|end| end != b"\r\n\r\n") {
            let mut some = [0; 1024];
            let count = stream.read(&mut some).map_err(|error| format!("response {number}: {error}"))?;
            if count == 0 {
                return Err(format!("connection {number} has ended"));
            }
            response.extend_from_slice(&some[..count]);
        }
        if !response.starts_with(b"HTTP/1.1 200 ") {
            return Err(format!("response {number}: {}", String::from_utf8_lossy(&response)));
        }
        streams.push(stream);
    }
    Ok(streams)
}

/// All figures, as a monitoring system gets them.
fn scrape(middle: &Namespace) -> Result<String, String> {
    let address = SocketAddr::from((Ipv4Addr::LOCALHOST, METRICS));
    let mut stream = middle.enter(|| TcpStream::connect(address)).map_err(text)?.map_err(text)?;
    ask(&mut stream, "/metrics")?;
    let mut found = String::new();
    stream.read_to_string(&mut found).map_err(text)?;
    if found.starts_with("HTTP/1.1 200 ") { Ok(found) } else { Err(format!("a scrape: {found:.200}")) }
}

/// The sum of the samples that begin so.
fn value(found: &str, start: &str) -> Result<f64, String> {
    let samples = found.lines().filter(|line| line.starts_with(start));
    samples.map(|line| line.rsplit(' ').next().unwrap_or_default().parse::<f64>().map_err(text)).sum()
}

/// CPU time of `millrace top` on a terminal in so many seconds, in percent.
fn top(middle: &Namespace, socket: &str, seconds: u32) -> Result<f64, String> {
    let program = crate::millrace_beside()?;
    // It ends as it is told to.
    let command = format!("timeout --foreground -s INT {seconds} {program} top --socket {socket}");
    let before = children_cpu()?;
    let mut running = middle.command("script").args(["-qec", &command, "/dev/null"]).spawn().map_err(text)?;
    running.wait(PATIENCE + Duration::from_secs(seconds.into())).map_err(text)?;
    Ok((children_cpu()? - before) * 100.0 / f64::from(seconds))
}

/// CPU seconds of children that have ended.
fn children_cpu() -> Result<f64, String> {
    let used = getrusage(UsageWho::RUSAGE_CHILDREN).map_err(text)?;
    Ok((used.user_time().num_microseconds() + used.system_time().num_microseconds()) as f64 / 1e6)
}
