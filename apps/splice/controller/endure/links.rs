//! Random connections over links that lose, double, delay and reorder.

use std::time::Duration;

use lab::{Distribution, Impairments, Jitter, Loss, Reorder};

use crate::network::{PATIENCE, SERVERS, Splice, must};
use crate::random::Random;
use crate::web::{Client, Server, pattern, sum};
use crate::{connect, each, memory, scale, start, wait_until_up};

/// Links of different kinds: bad in every way, hardly bad, and slow with much loss.
fn links() -> [Impairments; 3] {
    let milliseconds = Duration::from_millis;
    [
        Impairments {
            loss: Loss::Random(0.02),
            duplicate: 0.02,
            delay: milliseconds(10),
            reorder: Reorder { probability: 0.05, gap: 3, hold: milliseconds(5) },
            ..Impairments::default()
        },
        Impairments { loss: Loss::Random(0.01), delay: milliseconds(2), ..Impairments::default() },
        Impairments {
            loss: Loss::Random(0.05),
            duplicate: 0.01,
            delay: milliseconds(50),
            jitter: Jitter { spread: milliseconds(50), distribution: Distribution::Uniform, overtake: true },
            ..Impairments::default()
        },
    ]
}

/// Requests on one connection: some of random kinds and sizes, each after the response before or all at once.
fn exchange(number: usize) -> std::io::Result<()> {
    let mut random = Random(number as u64);
    let stream = connect(number)?;
    // What was written may take longer than that to arrive: chunks behind a gap are sent again, one loss after the
    // other.
    stream.set_read_timeout(Some(PATIENCE * 4))?;
    let mut client = Client::of(stream);
    // Sizes of all orders of magnitude.
    let mut size = || {
        let most = [10, 100, 1000, 10_000, 100_000, 1_000_000][random.below(6)];
        1 + random.below(most)
    };
    let sizes: Vec<usize> = (0..1 + number % 4).map(|_| size()).collect();
    let kind = |at: usize| ["bytes", "chunked"][(number + at) % 2];
    if number.is_multiple_of(5) {
        // Pipelined.
        let one = |(at, size): (usize, &usize)| format!("GET /{}/{size} HTTP/1.1\r\nHost: x\r\n\r\n", kind(at));
        client.send(sizes.iter().enumerate().map(one).collect::<String>().as_bytes())?;
        for size in &sizes {
            let response = client.receive("GET")?;
            assert!(response.status == 200 && response.body == pattern(*size), "{number}: {size}");
        }
        return Ok(());
    }
    for (at, size) in sizes.iter().enumerate() {
        let expected = pattern(*size);
        if (number + at).is_multiple_of(3) {
            let response = client.put("/sum", &expected, random.below(2) == 0)?;
            assert_eq!(String::from_utf8_lossy(&response.body), format!("{size} {:x}", sum(&expected)), "{number}");
        } else {
            let response = client.get(&format!("/{}/{size}", kind(at)))?;
            assert!(response.status == 200 && response.body == expected, "{number}: {size}");
        }
    }
    match number % 3 {
        0 => client.reset(),
        1 => {
            let response = client.get(&format!("/close/{}", sizes[0]))?;
            assert!(response.body == pattern(sizes[0]) && client.is_closed(), "{number}: close");
        }
        _ => {}
    }
    Ok(())
}

/// All send smaller packets over IPv4 from now on, on connections that are there, too.
fn shrink(splice: &Splice, mtu: &str) {
    for (host, network) in [(&*splice.client, "10.0.1.0/24"), (&splice.servers, "10.0.2.0/24")] {
        let src = if network == "10.0.1.0/24" { "10.0.1.11" } else { "10.0.2.11" };
        must(host.check(&["ip", "route", "change", network, "dev", "eth0", "src", src, "mtu", mtu]));
    }
}

#[test]
fn links_of_all_kinds() {
    let count = std::env::var("ENDURE_LINKS").map_or(scale(10_000, 15), |text| text.parse().unwrap());
    let kinds = scale(3, 1);
    for (kind, impairments) in links().into_iter().take(kinds).enumerate() {
        // Of three SYNs to a server, which are all of a second, one in a thousand times none comes back over the worst
        // links.
        let splice = start(&[("connect = \"1s\"", "connect = \"8s\"")], Some(impairments));
        let _servers = SERVERS.map(|address| Server::start(&splice.servers, address, "s"));
        wait_until_up(&splice);
        let (before, each_kind) = (memory(&splice), count / kinds);
        // Most of the time all of them wait for the links.
        let time = each(&splice, scale(512, 32), each_kind, "links", |number| {
            if number == each_kind / 2 {
                shrink(&splice, "1300");
            }
            exchange(number).unwrap_or_else(|error| panic!("{number}: {error}: {}", splice.counters()));
        });
        println!(
            "links: kind {kind}: {each_kind} connections in {time:.1?}; memory {before} KiB before, {} KiB after",
            memory(&splice)
        );
        splice.stop();
    }
}
