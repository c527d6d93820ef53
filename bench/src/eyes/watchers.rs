//! Who looks at the instance: a monitoring system, a page, and somebody who traces packets.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use control::socket::{Client, Request, Traces};
use lab::Namespace;
use serde_json::Value as Json;

use crate::text;

/// Longest wait for an answer.
const PATIENCE: Duration = Duration::from_secs(10);
/// Between two scrapes.
const SCRAPE: Duration = Duration::from_secs(1);

/// Threads that look.
pub struct Watchers {
    stop: Arc<AtomicBool>,
    threads: Vec<JoinHandle<Result<(), String>>>,
}

/// Asks for something, after which the other side ends.
pub fn ask(stream: &mut TcpStream, path: &str) -> Result<(), String> {
    stream.set_read_timeout(Some(Duration::from_millis(1500))).map_err(text)?;
    write!(stream, "GET {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n").map_err(text)
}

impl Watchers {
    /// Scrapes each second, and holds the page's stream of events open, until they are told to stop.
    pub fn start(system: &Namespace, metrics: u16, web: u16) -> Result<Watchers, String> {
        let stop = Arc::new(AtomicBool::new(false));
        let connect = |port: u16| {
            let stream = system.enter(|| TcpStream::connect((Ipv4Addr::LOCALHOST, port))).map_err(text)?;
            stream.map_err(|error| format!("port {port}: {error}"))
        };
        // The sockets are of the namespace, the threads need not be.
        let scrapes: Vec<TcpStream> = (0..8).map(|_| connect(metrics)).collect::<Result<_, _>>()?;
        let mut events = connect(web)?;
        ask(&mut events, "/api/v1/live")?;
        let ended = stop.clone();
        let page = thread::spawn(move || {
            let (mut buffer, mut came) = ([0; 65536], 0);
            while !ended.load(Ordering::Relaxed) {
                match events.read(&mut buffer) {
                    Ok(0) => return Err("the page's events have ended".into()),
                    Ok(count) => came += count,
                    Err(error) => return Err(format!("the page's events: {error}")),
                }
            }
            if came < 100 { Err(format!("{came} bytes of events")) } else { Ok(()) }
        });
        let ended = stop.clone();
        let monitoring = thread::spawn(move || {
            let mut text_of_one = Vec::new();
            for mut stream in scrapes {
                let next = Instant::now() + SCRAPE;
                ask(&mut stream, "/metrics")?;
                text_of_one.clear();
                stream.read_to_end(&mut text_of_one).map_err(|error| format!("a scrape: {error}"))?;
                if !text_of_one.starts_with(b"HTTP/1.1 200") {
                    return Err("a scrape was refused".into());
                }
                while Instant::now() < next {
                    if ended.load(Ordering::Relaxed) {
                        return Ok(());
                    }
                    thread::sleep(Duration::from_millis(20));
                }
            }
            Ok(())
        });
        Ok(Watchers { stop, threads: vec![page, monitoring] })
    }

    /// Ends them; what went wrong with one.
    pub fn stop(self) -> Result<(), String> {
        self.stop.store(true, Ordering::Relaxed);
        self.threads.into_iter().try_for_each(|own| own.join().map_err(|_| "a watcher has panicked".to_owned())?)
    }
}

/// Has packets traced.
pub fn trace(client: &mut Client, packets: u32) -> Result<(), String> {
    let request =
        Request::TraceAdd { packets, port: None, drops_only: false, per_reason: false, conditions: Vec::new() };
    client.ask::<Json>(&request).map(drop).map_err(text)
}

/// How many were traced, as soon as no more are waited for.
pub fn traced(client: &mut Client) -> Result<f64, String> {
    let end = Instant::now() + PATIENCE;
    loop {
        let found: Traces = client.ask(&Request::TraceShow).map_err(text)?;
        let wrong = found.traces.iter().find(|trace| trace.dropped.is_some() || trace.steps.len() < 10);
        if let Some(trace) = wrong {
            return Err(format!("a trace of a packet that was forwarded: {trace:?}"));
        }
        if found.wanted == 0 || Instant::now() > end {
            return Ok(found.traces.len() as f64);
        }
        thread::sleep(Duration::from_millis(50));
    }
}
