//! Very many connections at once.

use std::process::Command;
use std::sync::Mutex;

use crate::network::must;
use crate::server::Servers;
use crate::web::Client;
use crate::{connect, each, memory, no_sessions, nothing_is_left, scale, sessions, start, wait_until_up};

/// Lets this process have so many files, where it may not yet. Beyond the hard limit only root may go, and not everywhere.
fn raise_files(count: u64) {
    let limits = std::fs::read_to_string("/proc/self/limits").unwrap();
    let line = limits.lines().find_map(|line| line.strip_prefix("Max open files")).unwrap();
    if line.split_whitespace().next().is_some_and(|soft| soft.parse().is_ok_and(|soft: u64| soft >= count)) {
        return;
    }
    let limit = format!("--nofile={count}:{count}");
    let done = Command::new("prlimit").args(["--pid", &std::process::id().to_string(), &limit]).status().unwrap();
    assert!(done.success(), "prlimit {limit}: {done}; ENDURE_HELD=N holds fewer connections, of two files each");
}

#[test]
fn held() {
    let count = std::env::var("ENDURE_HELD").map_or(scale(100_000, 500), |text| text.parse().unwrap());
    // Both ends of all connections are here.
    raise_files(2 * count as u64 + 1000);
    let splice = start(&[], None);
    let _servers = Servers::start(&splice.servers);
    must(splice.servers.check(&["sysctl", "-qw", "net.core.somaxconn=65535"]));
    wait_until_up(&splice);
    let before = memory(&splice);
    let clients: Vec<Mutex<Option<Client>>> = (0..count).map(|_| Mutex::new(None)).collect();
    let ask = |number: usize, client: &mut Client| {
        let response = client.get(&format!("/{number}")).unwrap_or_else(|error| panic!("{number}: {error}"));
        assert_eq!((response.status, response.body), (200, format!("/{number}").into_bytes()));
    };
    let made = each(&splice, 16, count, "held: made", |number| {
        let mut client = Client::of(connect(number).unwrap_or_else(|error| panic!("{number}: {error}")));
        ask(number, &mut client);
        *clients[number].lock().unwrap() = Some(client);
    });
    println!(
        "held: {count} connections made in {made:.1?}; {} are there, with {} control blocks; memory {before} KiB before, {} KiB now",
        sessions(&splice),
        splice.entries("spliced.blocks"),
        memory(&splice)
    );
    assert_eq!(sessions(&splice), count);
    let used = each(&splice, 16, count, "held: used again", |number| {
        ask(number, clients[number].lock().unwrap().as_mut().unwrap());
    });
    println!("held: all {count} used again in {used:.1?}; memory {} KiB", memory(&splice));
    drop(clients);
    no_sessions(&splice);
    if scale(1, 0) == 1 {
        nothing_is_left(&splice, "held");
    }
    splice.stop();
}
