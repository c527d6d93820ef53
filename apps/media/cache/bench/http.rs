//! Segments of a recording by HTTP, as players fetch them: by the proxy, and by nginx with `sendfile` from the same
//! files. Servers are on one CPU, clients on the other; each connection asks for one segment after the other.

use std::net::TcpStream;
use std::thread;
use std::time::{Duration, Instant};

use lab::Running;

use super::Directory;
use super::client::{Client, segments};
use super::cost::{self, Cost, Meter};
use crate::media::network::{ENDS_CPU, HOST_CPU, Network};
use crate::media::systems::Millrace;
use crate::results::Results;
use crate::stream::stay;
use crate::translate::source::Source;
use crate::{Effort, text};

const SYSTEMS: [&str; 2] = ["millrace", "nginx"];
/// At the host between.
const MILLRACE: &str = "10.0.1.1:8080";
const NGINX: &str = "10.0.1.1:8081";
/// bit/s of the recording, and how long it is: more than the proxy keeps in memory.
const RATE: u64 = 80_000_000;
const RECORDED: [Duration; 2] = [Duration::from_secs(10), Duration::from_secs(5)];
/// Connections at one time.
const CONNECTIONS: [usize; 2] = [1, 16];
const WINDOW: [Duration; 2] = [Duration::from_secs(5), Duration::from_millis(500)];
const PATIENCE: Duration = Duration::from_secs(20);

/// Both systems by turns.
pub fn measure(effort: Effort, results: &mut Results) -> Result<(), String> {
    let quick = usize::from(effort.quick);
    let runs = if effort.quick { 1 } else { 5 };
    let network = Network::new()?;
    if network.proxy.check(&["nginx", "-v"]).is_err() {
        results.note("http: not measured, nginx is not installed");
        return Ok(());
    }
    let directory = Directory::new("http")?;
    let folder = std::path::absolute(directory.path()).map_err(text)?;
    let more = format!(
        "\n[controllers.media.cache]\ndirectory = \"{}/cache\"\nfree = \"0 B\"\nsegment = \"1s\"\n\n\
         [controllers.media.http]\nlisten = \"{MILLRACE}\"\n\n\
         [controllers.media.streams.bench]\nurl = \"rtp://10.0.2.1:5004\"\npayload = \"mp2t\"\nrecord = \"always\"\n",
        folder.display()
    );
    let millrace = Millrace::start(&network, false, &more)?;
    let source = network.servers.enter(|| Source::start(RATE)).map_err(text)??;
    thread::sleep(RECORDED[quick]);
    drop(source);
    // The recording ends when nothing has come for a while; whole segments are all that is asked for.
    thread::sleep(Duration::from_secs(2));
    let segments = network.viewers.enter(|| segments(MILLRACE, "bench")).map_err(text)??;
    let nginx = Nginx::start(&network, &folder)?;
    // The same files under the same names.
    let root = folder.join("root");
    for (uri, body) in &segments {
        let path = root.join(uri.trim_start_matches('/'));
        std::fs::create_dir_all(path.parent().unwrap_or(&root)).map_err(text)?;
        std::fs::write(&path, body).map_err(text)?;
    }
    let systems = [(MILLRACE, millrace.id()), (NGINX, nginx.0.id())];
    for connections in CONNECTIONS {
        let case = format!("{} MB by HTTP, {connections} at one time", RATE * RECORDED[quick].as_secs() / 8_000_000);
        let mut all: [Vec<Cost>; 2] = Default::default();
        for _ in 0..runs {
            for ((place, id), all) in systems.iter().zip(&mut all) {
                let cost = || cost(place, *id, &segments, connections, WINDOW[quick]);
                all.push(network.viewers.enter(cost).map_err(text)??);
            }
        }
        for (name, all) in SYSTEMS.iter().zip(&all) {
            cost::add(results, &case, name, "bodies", all);
        }
    }
    millrace.end()
}

/// nginx in the foreground.
struct Nginx(Running);

impl Nginx {
    fn start(network: &Network, folder: &std::path::Path) -> Result<Nginx, String> {
        let (root, config) = (folder.join("root"), folder.join("nginx.conf"));
        std::fs::create_dir_all(&root).map_err(text)?;
        let at = folder.display();
        let temporary: String = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"]
            .map(|kind| format!("{kind}_temp_path {at}/{kind}; "))
            .concat();
        let own = format!(
            "daemon off; master_process off; worker_processes 1; pid {at}/nginx.pid; error_log stderr crit;\n\
             events {{ worker_connections 1000; }}\n\
             http {{ access_log off; {temporary} keepalive_requests 1000000000; sendfile on; tcp_nopush on;\n\
             open_file_cache max=1000;\n\
             server {{ listen {NGINX}; root {}; }} }}\n",
            root.display()
        );
        std::fs::write(&config, own).map_err(text)?;
        let command =
            network.proxy.command("taskset").args(["-c", &HOST_CPU.to_string(), "nginx", "-e", "stderr", "-p"]);
        let running = command.arg(folder).arg("-c").arg(&config).spawn().map_err(text)?;
        let start = Instant::now();
        while network.viewers.enter(|| TcpStream::connect(NGINX)).map_err(text)?.is_err() {
            if start.elapsed() > PATIENCE {
                return Err(format!("nginx takes no connections: {}", running.both()));
            }
            thread::sleep(Duration::from_millis(20));
        }
        Ok(Nginx(running))
    }
}

/// Some connections for a while.
fn cost(
    place: &str,
    id: u32,
    segments: &[(String, Vec<u8>)],
    connections: usize,
    window: Duration,
) -> Result<Cost, String> {
    // One round that compares every byte.
    let (mut client, mut body) = (Client::new(place)?, Vec::new());
    for (uri, expected) in segments {
        let (status, _) = client.get(uri, &mut body)?;
        if status != 200 || body != *expected {
            return Err(format!("{place}{uri}: {status}, {} bytes are not as they must be", body.len()));
        }
    }
    drop(client);
    let meter = Meter::start(id)?;
    let start = Instant::now();
    let client = |number: usize| {
        stay(ENDS_CPU, false)?;
        let (mut client, mut body, mut bytes) = (Client::new(place)?, Vec::new(), 0u64);
        for (uri, expected) in segments.iter().cycle().skip(number * segments.len() / connections) {
            if start.elapsed() > window {
                break;
            }
            let (status, _) = client.get(uri, &mut body)?;
            if status != 200 || body.len() != expected.len() {
                return Err(format!("{place}{uri}: {status}"));
            }
            bytes += body.len() as u64;
        }
        Ok::<_, String>(bytes)
    };
    let bytes = thread::scope(|scope| {
        let all: Vec<_> = (0..connections).map(|number| scope.spawn(move || client(number))).collect();
        all.into_iter().map(|own| own.join().map_err(|_| "a client has panicked")?).sum::<Result<u64, String>>()
    })?;
    meter.cost(bytes)
}
