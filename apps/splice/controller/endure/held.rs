//! Very many connections at once.

use std::sync::mpsc;
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use crate::exposition::{Scrape, scrape};
use crate::files::{own_table, room};
use crate::network::{Splice, must};
use crate::server::Servers;
use crate::web::Client;
use crate::{connect, memory, no_sessions, nothing_is_left, scale, sessions, start, wait_until_up};

/// At least so many threads make connections.
const HOLDERS: usize = 16;

/// Holds connections, in the clients' namespace and a table of files of its own. Each time it is told to
/// it sends a request on all of them, and makes those that are not there. When its parent is gone it ends all.
fn hold(connections: impl Iterator<Item = usize>, go: &mpsc::Receiver<()>, done: &mpsc::Sender<()>) {
    own_table(None);
    let mut clients: Vec<(usize, Option<Client>)> = connections.map(|number| (number, None)).collect();
    while go.recv().is_ok() {
        for (number, client) in &mut clients {
            let failed = |error: std::io::Error| -> ! { panic!("{number}: {error}") };
            let client =
                client.get_or_insert_with(|| Client::of(connect(*number).unwrap_or_else(|error| failed(error))));
            let response = client.get(&format!("/{number}")).unwrap_or_else(|error| failed(error));
            assert_eq!((response.status, response.body), (200, format!("/{number}").into_bytes()));
        }
        // Where another holder has failed there is no parent to be told.
        let _ = done.send(());
    }
    // One after the other: were all FINs of a host sent at once, its own queues would lose them again and again.
    for (number, client) in &mut clients {
        assert!(client.as_mut().is_none_or(Client::end), "{number}: not closed");
    }
}

/// A thread that holds connections.
struct Holder {
    go: mpsc::Sender<()>,
    done: mpsc::Receiver<()>,
    thread: JoinHandle<()>,
}

struct Holders(Vec<Holder>);

impl Holders {
    fn start(splice: &Splice, count: usize) -> Holders {
        let holders = HOLDERS.max(count.div_ceil(room()));
        let start = |first: usize| {
            let ((go, told), (tell, done)) = (mpsc::channel(), mpsc::channel());
            let host = splice.client.clone();
            let work = move || hold((first..count).step_by(holders), &told, &tell);
            Holder { go, done, thread: thread::spawn(move || must(host.enter(work))) }
        };
        Holders((0..holders).map(start).collect())
    }

    /// One request on each connection.
    fn ask(&self) -> Duration {
        let start = Instant::now();
        self.0.iter().for_each(|holder| holder.go.send(()).expect("a holder has failed"));
        self.0.iter().for_each(|holder| holder.done.recv().expect("a holder has failed"));
        start.elapsed()
    }

    fn end(self) -> Duration {
        let start = Instant::now();
        let threads: Vec<_> = self.0.into_iter().map(|holder| holder.thread).collect();
        threads.into_iter().for_each(|thread| thread.join().expect("a holder has failed"));
        start.elapsed()
    }
}

/// What a monitoring system reads does not take longer because there are so many.
fn scraped(splice: &Splice, count: usize) {
    let read = || {
        let start = Instant::now();
        let found = must(splice.ns.enter(|| scrape("127.0.0.1:9464")));
        (start.elapsed(), found)
    };
    let all: Vec<_> = (0..10).map(|_| (read(), thread::sleep(Duration::from_millis(150))).0).collect();
    let now = |found: &Scrape| {
        let is_of = |name: &&String| name.starts_with("millrace_splice_service_connections_now{");
        found.samples.keys().filter(is_of).map(|name| found.value(name).parse::<usize>().unwrap()).sum::<usize>()
    };
    let counts: Vec<usize> = all.iter().map(|(_, found)| now(found)).collect();
    assert_eq!(counts, [count; 10]);
    let times: Vec<Duration> = all.iter().map(|(time, _)| *time).collect();
    println!("held: with {count} connections a scrape takes {times:.1?}");
    // Other programs use this machine, too.
    assert!(times.iter().min() < Some(&Duration::from_millis(50)), "{times:?}");
}

#[test]
fn held() {
    let count = std::env::var("ENDURE_HELD").map_or(scale(100_000, 500), |text| text.parse().unwrap());
    // Each has a server's connection of its own.
    let own = ("balance = \"round_robin\"", "balance = \"round_robin\"\nreuse = \"never\"");
    let splice = start(&[own, ("[frames]", "[metrics]\nlisten = 9464\n\n[frames]")], None);
    let _servers = Servers::start(&splice.servers, count);
    wait_until_up(&splice);
    no_sessions(&splice);
    let before = memory(&splice);
    let holders = Holders::start(&splice, count);
    let made = holders.ask();
    println!(
        "held: {count} connections made in {made:.1?}; {} are there, with {} control blocks; memory {before} KiB before, {} KiB now",
        sessions(&splice),
        splice.entries("spliced.flows"),
        memory(&splice)
    );
    assert_eq!(sessions(&splice), count);
    scraped(&splice, count);
    let used = holders.ask();
    println!("held: all {count} used again in {used:.1?}; memory {} KiB", memory(&splice));
    println!("held: all ended in {:.1?}", holders.end());
    no_sessions(&splice);
    if scale(1, 0) == 1 {
        nothing_is_left(&splice, "held");
    }
    splice.stop();
}
