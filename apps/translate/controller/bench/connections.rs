//! Many connections at once: how fast they are set up, and what each takes in memory.

use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use baker::ir::{Layout, Program, Table, TableKind};
use nix::sys::epoll::{Epoll, EpollCreateFlags, EpollEvent, EpollFlags};

use super::millrace::{Millrace, Start};
use super::source::{BYTES, PORT, Source};
use crate::apps::case::App;
use crate::media::network::{ENDS_CPU, HOST_CPU, Network};
use crate::results::Results;
use crate::stream::stay;
use crate::{Effort, text};

/// Connections, and those of a smoke run.
const CONNECTIONS: usize = 10_000;
const SMOKE: usize = 200;
/// bit/s: two packets a second to each.
const RATE: u64 = 2 * 8 * BYTES as u64;
/// bit/s before there are any, and for how long: until each frame has been in use, as only what was touched counts as
/// the process's memory.
const WARMING: u64 = 400_000_000;
const WARM: Duration = Duration::from_secs(6);
/// How long they are kept.
const KEPT: Duration = Duration::from_secs(20);
/// Open files beside theirs.
const OTHERS: u64 = 500;
const PATIENCE: Duration = Duration::from_secs(20);
/// Tables that have something for each connection; all else is there once, or for each stream.
const TABLES: [&str; 8] = [
    "sender.connections",
    "sender.segments",
    "sender.chain",
    "sender.rates",
    "sender.totals",
    "documents.lengths",
    "clients.flows",
    "ring.viewers",
];

/// All of it.
pub fn measure(effort: Effort, results: &mut Results) -> Result<(), String> {
    let (count, kept) = if effort.quick { (SMOKE, Duration::from_secs(3)) } else { (CONNECTIONS, KEPT) };
    let case = format!("{count} connections");
    let program = App::new("translate")?.program;
    let mut all = 0.0;
    for name in TABLES {
        let table = program.tables.iter().find(|table| table.name == name).ok_or(format!("there is no {name}"))?;
        let bytes = bytes_of_connection(&program, table)?;
        all += bytes;
        results.add(&case, name, "bytes_per_connection", "bytes of the table", vec![bytes]);
    }
    results.add(&case, "all tables", "bytes_per_connection", "bytes of the tables", vec![all]);
    let files = crate::media::open_files()?;
    if files < count as u64 + OTHERS {
        results.note(format!("{case}: not made, a process may have {files} open files only"));
        return Ok(());
    }
    let network = Network::new()?;
    let mut millrace = Millrace::start(&network.proxy, Start { cpu: Some(HOST_CPU), ..Start::default() })?;
    millrace.wait()?;
    // The first one joins the stream, and what there is once only.
    let source = network.servers.enter(|| Source::start(WARMING)).map_err(text)??;
    let first = network.viewers.enter(client).map_err(text)??;
    std::thread::sleep(WARM);
    drop(source);
    let _source = network.servers.enter(|| Source::start(RATE)).map_err(text)??;
    let work = || {
        stay(ENDS_CPU, false)?;
        let empty = millrace.memory()?;
        let start = Instant::now();
        let mut clients = (0..count).map(|_| client()).collect::<Result<Vec<_>, _>>()?;
        let set_up = start.elapsed();
        let came = read_all(&mut clients, kept)?;
        let full = millrace.memory()?;
        drop(first);
        Ok::<_, String>((set_up, empty, full, came))
    };
    let (set_up, empty, full, came) = network.viewers.enter(work).map_err(text)??;
    let sent = kept.as_secs_f64() * RATE as f64 / 8.0;
    if let Some(silent) = came.iter().position(|bytes| *bytes == 0) {
        return Err(format!("client {silent} has got nothing"));
    }
    // What came while others were set up waited in the kernel.
    let few = came.iter().filter(|bytes| (**bytes as f64) < 0.9 * sent).count();
    results.add(&case, "millrace", "late_clients", "clients with less than 90 % of the stream", vec![few as f64]);
    let unit = "connections/s, by one client that waits for each answer";
    results.add(&case, "millrace", "set_up_per_second", unit, vec![count as f64 / set_up.as_secs_f64()]);
    let each = (full - empty) / count as f64;
    results.add(&case, "millrace", "process_bytes_per_connection", "bytes of the process's own", vec![each]);
    millrace.end()
}

/// A connection with the head of its answer.
fn client() -> Result<TcpStream, String> {
    let mut stream = TcpStream::connect(Millrace::place()).map_err(text)?;
    stream.set_read_timeout(Some(PATIENCE)).map_err(text)?;
    let request = format!("GET {} HTTP/1.1\r\nHost: stream\r\n\r\n", Millrace::path(PORT));
    stream.write_all(request.as_bytes()).map_err(text)?;
    let mut head = [0; 15];
    stream.read_exact(&mut head).map_err(text)?;
    match head == *b"HTTP/1.1 200 OK" {
        true => Ok(stream),
        false => Err(String::from_utf8_lossy(&head).into_owned()),
    }
}

/// Reads of all for a while; how much of each.
fn read_all(clients: &mut [TcpStream], time: Duration) -> Result<Vec<u64>, String> {
    let epoll = Epoll::new(EpollCreateFlags::EPOLL_CLOEXEC).map_err(text)?;
    for (number, client) in clients.iter().enumerate() {
        client.set_nonblocking(true).map_err(text)?;
        epoll.add(client, EpollEvent::new(EpollFlags::EPOLLIN, number as u64)).map_err(text)?;
    }
    let (mut came, mut buffer) = (vec![0; clients.len()], vec![0; 65536]);
    let mut events = [EpollEvent::empty(); 256];
    let start = Instant::now();
    while start.elapsed() < time {
        let count = epoll.wait(&mut events, 100u16).map_err(text)?;
        for event in &events[..count] {
            let number = event.data() as usize;
            match clients[number].read(&mut buffer) {
                Ok(0) => return Err(format!("connection {number} has ended")),
                Ok(count) => came[number] += count as u64,
                Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                Err(error) => return Err(format!("connection {number}: {error}")),
            }
        }
    }
    Ok(came)
}

/// What a connection has of a table: as many entries as there are connections for each.
fn bytes_of_connection(program: &Program, table: &Table) -> Result<f64, String> {
    let layout = |index: u32| -> &Layout { &program.layouts[index as usize] };
    let connections = program.tables.iter().find(|own| own.name == TABLES[0]).map_or(1, |own| own.capacity);
    let entry = match table.kind {
        TableKind::Array => f64::from(layout(table.value.0).size),
        TableKind::Hash => dataplane::bytes_of_entry(program, table),
        TableKind::Lpm => return Err(format!("{} has prefixes", table.name)),
    };
    // Of a group each connection is a member once.
    let each = if table.group.is_some() { 1.0 } else { f64::from(table.capacity) / f64::from(connections) };
    Ok(entry * each)
}
