//! `millrace demo splice`: clients, three web servers, and the splicer between them; a server is drained, one is
//! killed, SYNs flood in.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use baker::ir::Program;
use cli::failure::Failure;
use cli::linked::Scene;
use cli::output::print;
use cli::report::{self, grouped};
use cli::say;
use control::application::Registry;
use control::application::metrics::Family;
use control::applications::Applications;
use control::config::Config;
use dataplane::ports::{Driver, PortSpec};
use dataplane::{Instance, Options};
use lab::{LinkConfig, Mac, Namespace, RawPort, WebServer, veth};
use serde::de::DeserializeOwned;
use serde_json::{Value as Json, json};

use crate::SpliceApplication;
use crate::admin::queries::ServerState;
use crate::admin::sessions::Listed;

/// What the program needs.
const SPLICE: Applications = Applications::new(&[&SpliceApplication]);

const PICTURE: &str = "
                                                        ┌ a 10.0.2.11
  clients 10.0.1.11 ── apps/splice, in Baker ───────────┼ b 10.0.2.12
                       virtual address 10.0.1.80        └ c 10.0.2.13
";

const SERVERS: [(&str, &str); 3] = [("a", "10.0.2.11:80"), ("b", "10.0.2.12:80"), ("c", "10.0.2.13:80")];
const VIRTUAL: ([u8; 4], u16) = ([10, 0, 1, 80], 80);
const GATEWAY: Mac = [2, 0, 0, 0, 1, 0xfe];
/// Clients at a time.
const CLIENTS: usize = 4;
/// How long anything may take that takes a moment on a quiet machine.
const PATIENCE: Duration = Duration::from_secs(20);

/// What the clients have seen.
#[derive(Debug, Default)]
struct Seen {
    stop: AtomicBool,
    good: AtomicU64,
    bad: AtomicU64,
}

/// What it is to `millrace demo`.
pub const SCENE: Scene = Scene { about: "The splicer in front of web servers", run };

/// Runs it for about so long.
fn run(program: &Arc<Program>, length: Duration) -> Result<(), Failure> {
    say!("Millrace demo: one virtual address in front of three web servers\n{PICTURE}");
    let config = Config::parse("splice.toml", include_str!("demo.toml"), program, SPLICE)
        .map_err(|errors| Failure::wrong(errors[0].to_string()))?;
    let (ns, clients, servers) = network().map_err(Failure::refused)?;
    let (instance, registry) = start(program, &config, &ns)?;
    let demo = Demo { registry, clients: &clients, seen: Seen::default(), phase: length / 5 };
    let web = |at: usize| {
        let address: SocketAddr = SERVERS[at].1.parse().expect("an address of ours");
        WebServer::start(Some(&servers), address, SERVERS[at].0).map_err(Failure::refused)
    };
    let mut webs = [Some(web(0)?), Some(web(1)?), Some(web(2)?)];
    demo.wait_until_up(3)?;
    let shown = thread::scope(|scope| {
        for number in 0..CLIENTS {
            let demo = &demo;
            scope.spawn(move || demo.client(number));
        }
        let shown = demo.show(&mut webs, web);
        demo.seen.stop.store(true, Ordering::Relaxed);
        shown
    });
    shown?;
    say!("\n6. what was counted");
    let families: Vec<Family> = demo.ask("metrics", Json::Null)?;
    let mut out = String::new();
    for name in ["service_requests", "service_retries", "service_bytes", "service_connect_us", "service_first_byte_us"]
    {
        families.iter().filter(|family| family.name == name).for_each(|family| cli::metrics::show(family, &mut out));
    }
    print(format_args!("{}", out.trim_start_matches('\n')));
    let done = instance.stop();
    let (good, bad) = (demo.seen.good.load(Ordering::Relaxed), demo.seen.bad.load(Ordering::Relaxed));
    say!("\n{} requests were answered, {} were not", grouped(good), grouped(bad));
    if !done.errors.is_empty() || done.free_frames != done.frames {
        return Err(Failure::refused(format!("frames are missing; {}", done.errors.join("; "))));
    }
    // A response that a killed server has begun can't be saved: one for each client.
    if good == 0 || bad > CLIENTS as u64 {
        return Err(Failure::refused("too many requests failed"));
    }
    Ok(())
}

/// Millrace's namespace, the clients' and the servers'.
fn network() -> lab::Result<(Namespace, Namespace, Namespace)> {
    let (ns, clients, servers) = (Namespace::new("splice")?, Namespace::new("clients")?, Namespace::new("servers")?);
    for (host, port) in [(&clients, "clients"), (&servers, "servers")] {
        veth(host, "eth0", &ns, port)?;
        ns.configure(port, &LinkConfig::port())?;
    }
    clients.configure("eth0", &LinkConfig::host().address("10.0.1.11/24"))?;
    let three = ["10.0.2.11/24", "10.0.2.12/24", "10.0.2.13/24"];
    servers.configure("eth0", &three.into_iter().fold(LinkConfig::host(), |config, own| config.address(own)))?;
    for (host, device) in [(&ns, "clients"), (&ns, "servers"), (&clients, "eth0"), (&servers, "eth0")] {
        host.wait_running(device, PATIENCE)?;
    }
    Ok((ns, clients, servers))
}

fn start(program: &Arc<Program>, config: &Config, ns: &Namespace) -> Result<(Instance, Registry), Failure> {
    let devices = ["clients", "servers"]
        .map(|name| PortSpec { name: name.to_owned(), driver: Driver::AfPacket { interface: name.to_owned() } });
    let ports = config.port_configs(&devices).map_err(|errors| Failure::several(&errors))?;
    let needed = SPLICE.of_program(program).map_err(|error| Failure::wrong(error.to_string()))?;
    needed.begin(&config.controllers).map_err(Failure::refused)?;
    let (frames, controller_frames) = (config.frames, config.controller_frames.clone());
    let options = Options { frames, controller_frames, ..Options::default() };
    let prepared = ns.enter(|| Instance::prepare_with(program.clone(), &options, &ports, needed.controllers));
    let prepared = prepared.map_err(Failure::refused)?.map_err(Failure::refused)?;
    config.fill(program, &mut prepared.tables()).map_err(Failure::wrong)?;
    Ok((prepared.run().map_err(Failure::refused)?, Registry::new(needed.query_targets)))
}

struct Demo<'d> {
    registry: Registry,
    clients: &'d Namespace,
    seen: Seen,
    /// How long each thing is shown.
    phase: Duration,
}

impl Demo<'_> {
    fn ask<T: DeserializeOwned>(&self, query: &str, with: Json) -> Result<T, Failure> {
        let (_, queries) = self.registry.find("splice", query).map_err(Failure::refused)?;
        let answer = queries.ask(query, with).ok_or_else(|| Failure::refused("the splicer does not answer"))?;
        serde_json::from_value(answer.map_err(Failure::refused)?).map_err(Failure::refused)
    }

    fn servers(&self) -> Result<Vec<ServerState>, Failure> {
        self.ask("servers", Json::Null)
    }

    fn wait_until_up(&self, count: usize) -> Result<(), Failure> {
        let start = Instant::now();
        while self.servers()?.iter().filter(|server| server.up).count() != count {
            if start.elapsed() > PATIENCE {
                return Err(Failure::refused(format!("there are not {count} servers up after {PATIENCE:?}")));
            }
            thread::sleep(Duration::from_millis(50));
        }
        Ok(())
    }

    /// Everything, one after the other.
    fn show<W>(&self, webs: &mut [Option<WebServer>; 3], web: W) -> Result<(), Failure>
    where
        W: Fn(usize) -> Result<WebServer, Failure>,
    {
        say!("1. {CLIENTS} clients ask, three servers answer");
        self.watch()?;
        let listed: Listed = self.ask("sessions", json!({ "limit": 3 }))?;
        say!("   `millrace sessions` lists {} connections, such as", listed.all);
        for own in &listed.sessions {
            let request = own.request.as_ref().map(|request| format!("{} {}", request.method, request.path));
            let server = own.server.as_deref().unwrap_or("-");
            say!("   {}  {}  {server}  {}", own.client, own.state, request.unwrap_or_default());
        }
        say!("\n2. b is drained: `millrace servers drain web/b`");
        let _: ServerState = self.ask("server", json!({ "server": "web/b", "state": "drain" }))?;
        self.watch()?;
        let _: ServerState = self.ask("server", json!({ "server": "web/b", "state": "ready" }))?;
        say!("\n3. a is killed, with all its connections; b is ready again");
        webs[0] = None;
        self.watch()?;
        say!("\n4. a is back");
        webs[0] = Some(web(0)?);
        self.wait_until_up(3)?;
        self.watch()?;
        say!("\n5. a flood of SYNs from addresses that no host has; they leave nothing behind");
        let stop = AtomicBool::new(false);
        let wire = RawPort::open(self.clients, "eth0").map_err(Failure::refused)?;
        let (sent, watched) = thread::scope(|scope| {
            let flood = scope.spawn(|| flood(&wire, &stop));
            let watched = self.watch();
            stop.store(true, Ordering::Relaxed);
            (flood.join().unwrap_or(0), watched)
        });
        watched?;
        say!("   {} SYNs", grouped(sent));
        Ok(())
    }

    /// Shows what happens for the length of a phase.
    fn watch(&self) -> Result<(), Failure> {
        let (start, before, good) = (Instant::now(), self.servers()?, self.seen.good.load(Ordering::Relaxed));
        let bad = self.seen.bad.load(Ordering::Relaxed);
        thread::sleep(self.phase);
        let (after, time) = (self.servers()?, start.elapsed().as_secs_f64());
        let row = |(old, new): (&ServerState, &ServerState)| {
            let state = if new.admin == "ready" { if new.up { "up" } else { "down" } } else { &*new.admin };
            let rate = report::rate((new.requests - old.requests) as f64 / time);
            vec![new.name.clone(), state.to_owned(), rate, new.active.to_string(), new.why.clone()]
        };
        let mut out = String::new();
        let rows = before.iter().zip(&after).map(row).collect();
        report::table(&mut out, &["server", "state", "requests/s", "connections", "because"], rows);
        print(format_args!("{out}"));
        let answered = self.seen.good.load(Ordering::Relaxed) - good;
        let failed = self.seen.bad.load(Ordering::Relaxed) - bad;
        say!("  the clients: {} answers a second, {failed} requests without one", report::rate(answered as f64 / time));
        Ok(())
    }

    /// A client: connections of some requests each, of two sizes.
    fn client(&self, number: usize) {
        let mut count = number;
        while !self.seen.stop.load(Ordering::Relaxed) {
            let connected = self.clients.enter(|| {
                let address = SocketAddr::from(VIRTUAL);
                let stream = TcpStream::connect_timeout(&address, PATIENCE)?;
                stream.set_read_timeout(Some(PATIENCE))?;
                stream.set_nodelay(true)?;
                Ok::<_, std::io::Error>(BufReader::new(stream))
            });
            let Ok(Ok(mut stream)) = connected else {
                self.seen.bad.fetch_add(1, Ordering::Relaxed);
                continue;
            };
            for _ in 0..10 {
                count += 1;
                let target = if count.is_multiple_of(3) { "/bytes/20000" } else { "/" };
                let answered = get(&mut stream, target).is_ok_and(|status| status == 200);
                let counter = if answered { &self.seen.good } else { &self.seen.bad };
                counter.fetch_add(1, Ordering::Relaxed);
                if !answered {
                    break;
                }
                // A person, not a benchmark.
                thread::sleep(Duration::from_millis(2));
            }
        }
    }
}

/// A request; the status of its response.
fn get(stream: &mut BufReader<TcpStream>, target: &str) -> std::io::Result<u16> {
    let text = format!("GET {target} HTTP/1.1\r\nHost: www.example\r\n\r\n");
    stream.get_mut().write_all(text.as_bytes())?;
    let mut line = String::new();
    stream.read_line(&mut line)?;
    let status = line.split(' ').nth(1).and_then(|status| status.parse().ok());
    let status = status.ok_or(std::io::ErrorKind::UnexpectedEof)?;
    let mut length = 0;
    loop {
        line.clear();
        stream.read_line(&mut line)?;
        let Some((name, value)) = line.trim_end().split_once(':') else { break };
        if name.eq_ignore_ascii_case("content-length") {
            length = value.trim().parse().map_err(std::io::Error::other)?;
        }
    }
    let read = std::io::copy(&mut stream.take(length), &mut std::io::sink())?;
    if read == length { Ok(status) } else { Err(std::io::ErrorKind::UnexpectedEof.into()) }
}

/// Sends SYNs until it is stopped; how many.
fn flood(wire: &RawPort, stop: &AtomicBool) -> u64 {
    let mut sent = 0u64;
    while !stop.load(Ordering::Relaxed) {
        for _ in 0..200 {
            // What finds no room in the device's queue is not sent.
            sent += u64::from(wire.send(&syn(sent)).is_ok());
        }
        // The link is shared with the clients.
        thread::sleep(Duration::from_millis(1));
    }
    sent
}

/// A SYN from an address and port that the number says: RFC 9293 section 3.1 in IPv4 in Ethernet.
fn syn(number: u64) -> Vec<u8> {
    let [.., high, middle, low] = number.to_be_bytes();
    let source = [10, 0, 128 | high & 0x7f, middle];
    let port = 1024 + u16::from(low);
    let mut tcp = [&port.to_be_bytes()[..], &VIRTUAL.1.to_be_bytes(), &(number as u32).to_be_bytes(), &[0; 4]].concat();
    tcp.extend([0x50, 2, 0xff, 0xff, 0, 0, 0, 0]);
    let mut ip = vec![0x45, 0, 0, 40, 0, 0, 0, 0, 64, 6, 0, 0];
    ip.extend([source, VIRTUAL.0].concat());
    let sum = ip.chunks_exact(2).map(|word| u32::from(u16::from_be_bytes([word[0], word[1]]))).sum::<u32>();
    let folded = (sum & 0xffff) + (sum >> 16);
    ip[10..12].copy_from_slice(&(!(folded as u16)).to_be_bytes());
    [&GATEWAY[..], &[2, 0, 0, 0, 1, 0x11], &[8, 0], &ip, &tcp].concat()
}
