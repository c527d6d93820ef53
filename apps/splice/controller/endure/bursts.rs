//! Many requests at the same moment, at servers that have hardly any room for connections that were not accepted yet:
//! then the kernel answers SYNs with cookies, and throws away what ends handshakes. No request stands still for long.

use std::net::{SocketAddr, TcpStream};
use std::sync::Barrier;
use std::thread;
use std::time::{Duration, Instant};

use crate::network::{SERVERS, Splice, must};
use crate::random::Random;
use crate::web::{Client, Server, pattern, sum};
use crate::{VIRTUAL, scale, wait_until_up};

/// A client waits no longer than that for the next byte.
const LIMIT: Duration = Duration::from_secs(30);

/// The splicer in front of servers with a queue of so many connections. A SYN may have to be sent often.
fn start(driver: &str, queue: usize) -> Splice {
    let own = [
        ("connect = \"1s\"", "connect = \"60s\""),
        ("balance = \"round_robin\"", "balance = \"round_robin\"\nreuse = \"never\""),
    ];
    Splice::start_with(driver, &own, None, |_, servers| {
        must(servers.check(&["sysctl", "-qw", &format!("net.core.somaxconn={queue}")]));
        None
    })
}

fn connect(number: usize) -> std::io::Result<Client> {
    let to: SocketAddr = VIRTUAL[usize::from(number % 8 == 7)].parse().unwrap();
    let stream = TcpStream::connect_timeout(&to, LIMIT)?;
    stream.set_read_timeout(Some(LIMIT))?;
    stream.set_write_timeout(Some(LIMIT))?;
    stream.set_nodelay(true)?;
    Ok(Client::of(stream))
}

/// Some requests on a connection, of random sizes and framings, in any pool. The first that is not answered as it
/// should be is told.
fn exchange(number: usize) -> Result<(), String> {
    let mut random = Random(number as u64);
    let mut client = connect(number).map_err(|error| format!("connect: {error}"))?;
    for _ in 0..1 + random.below(6) {
        let most = [10, 100, 1000, 10_000, 100_000, 400_000][random.below(6)];
        let size = random.below(most);
        let (target, upload) = match random.below(6) {
            0 => (format!("/images/{size}"), None),
            1 => (format!("/bytes/{size}"), None),
            2 => (format!("/chunked/{size}"), None),
            3 => (format!("/close/{size}"), None),
            kind => ("/sum".to_owned(), Some(kind == 4)),
        };
        let bytes = pattern(size);
        let response = match upload {
            Some(chunked) => client.put(&target, &bytes, chunked),
            None => client.get(&target),
        };
        let response = response.map_err(|error| format!("{target}, {size}: {error}"))?;
        let expected = match upload {
            Some(_) => format!("{size} {:x}", sum(&bytes)).into_bytes(),
            None if target.starts_with("/images") => target.clone().into_bytes(),
            None => bytes,
        };
        if response.status != 200 || response.body != expected {
            return Err(format!("{target}, {size}: {}, {} bytes", response.status, response.body.len()));
        }
        if target.starts_with("/close") {
            break;
        }
    }
    Ok(())
}

/// One short request on a connection.
fn ask(number: usize) -> Result<(), String> {
    let target = if number.is_multiple_of(3) { format!("/images/{number}") } else { format!("/{number}") };
    let response = connect(number).and_then(|mut client| client.get(&target)).map_err(|error| error.to_string())?;
    let is_right = response.status == 200 && response.body == target.as_bytes();
    is_right.then_some(()).ok_or_else(|| format!("{target}: {}", response.status))
}

/// Does something on so many threads in the clients' namespace, in rounds that all begin at the same moment.
fn rounds(splice: &Splice, what: &str, threads: usize, rounds: usize, work: fn(usize) -> Result<(), String>) {
    let (barrier, start) = (Barrier::new(threads), Instant::now());
    let round = |thread: usize| {
        let mut slowest = Duration::ZERO;
        let mut failed = Vec::new();
        for round in 0..rounds {
            barrier.wait();
            let begin = Instant::now();
            // No thread may miss the others' next round.
            failed.extend(work(thread * rounds + round).err());
            slowest = slowest.max(begin.elapsed());
        }
        (slowest, failed)
    };
    let all: Vec<(Duration, Vec<String>)> = thread::scope(|scope| {
        let begin = |thread| {
            let (host, round) = (splice.client.clone(), &round);
            let work = move || must(host.enter(|| round(thread)));
            thread::Builder::new().stack_size(1 << 18).spawn_scoped(scope, work).unwrap()
        };
        let handles: Vec<_> = (0..threads).map(begin).collect();
        handles.into_iter().map(|handle| handle.join().unwrap()).collect()
    });
    let failed: Vec<&String> = all.iter().flat_map(|(_, failed)| failed).collect();
    let slowest = all.iter().map(|(slowest, _)| *slowest).max().unwrap_or_default();
    println!("bursts: {what}: {rounds} rounds of {threads} in {:.1?}, the slowest took {slowest:.1?}", start.elapsed());
    assert!(failed.is_empty(), "{} failed: {:?}: {}", failed.len(), &failed[..failed.len().min(10)], splice.counters());
}

#[test]
fn bursts() {
    // Connections are set up on workers, or in the kernel as far as that can do it. Where very few have room, all the
    // others' next try is at the same moment again, so that the last ones would have to wait for long.
    let splice = start("afxdp", scale(64, 16));
    let servers = SERVERS.map(|address| Server::start(&splice.servers, address, "s"));
    wait_until_up(&splice);
    rounds(&splice, "short ones, on workers", scale(2000, 200), scale(20, 2), ask);
    drop(servers);
    splice.stop();
    let splice = start("xdp", 2);
    let _servers = SERVERS.map(|address| Server::start(&splice.servers, address, "s"));
    wait_until_up(&splice);
    rounds(&splice, "random ones, in the kernel", 40, scale(300, 10), exchange);
    splice.stop();
}
