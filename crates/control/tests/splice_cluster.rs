//! Which server gets a request, and when one is taken to work: exact over many requests.

use std::collections::HashMap;
use std::net::{Ipv4Addr, Ipv6Addr};
use std::sync::Arc;

use control::controllers::splice::cluster::{Admin, Agreed, Cluster};
use control::controllers::splice::settings::{
    Addressing, Balance, Check, Pool, Reuse, Server, Settings, Timeouts, WhenFull,
};

const CLIENT: Agreed = Agreed { mss: 1460, scale: None, sack: false, times: false };

fn server(number: usize, weight: u32) -> Server {
    let address = Ipv4Addr::new(10, 0, (number >> 8) as u8, number as u8).to_ipv6_mapped();
    let sources = vec![Ipv4Addr::new(10, 9, 9, 9).to_ipv6_mapped()];
    Server { name: format!("s{number}"), address, port: 80, weight, interface: 0, next_hop: address, sources }
}

fn settings(balance: Balance, servers: Vec<Server>, rise: u32, fall: u32) -> Arc<Settings> {
    let check = Check { http: None, interval: 1, timeout: 1, rise, fall };
    let (addressing, reuse) = (Addressing::FullNat, Reuse::Safe);
    let pools = vec![Pool { name: "p".into(), balance, servers, check, addressing, reuse, warm: 0 }];
    let timeouts = Timeouts { request: 1, connect: 1, response: 1, keep_alive: 1, idle: 1, warm: 1 };
    let (interfaces, services) = (Vec::new(), Vec::new());
    Arc::new(Settings {
        interfaces,
        pools,
        services,
        timeouts,
        request_head: 1024,
        request_body: 1024,
        connections: 10,
        when_full: WhenFull::Refuse,
        log: None,
    })
}

/// A cluster whose servers have these weights, all of them up and found.
fn cluster(balance: Balance, weights: &[u32]) -> Cluster {
    let servers = weights.iter().enumerate().map(|(number, weight)| server(number, *weight)).collect();
    let mut cluster = Cluster::new(settings(balance, servers, 1, 1), 0);
    all_up(&mut cluster);
    cluster
}

fn all_up(cluster: &mut Cluster) {
    for number in 0..cluster.servers.len() {
        cluster.servers[number].mac = Some([2; 6]);
        cluster.checked(number, Ok(()), 0);
    }
}

fn client(number: u32) -> Ipv6Addr {
    Ipv4Addr::from(0x0a10_0000 + number).to_ipv6_mapped()
}

fn chosen(cluster: &mut Cluster, number: u32) -> usize {
    cluster.choose(0, client(number), &CLIENT, &[]).expect("one is up")
}

#[test]
fn the_weighted_round_is_exact_and_even() {
    for weights in [&[1, 1, 1][..], &[5, 1, 1], &[3, 2], &[1, 1000], &[7, 0, 2]] {
        let mut cluster = cluster(Balance::RoundRobin, weights);
        let round: u32 = weights.iter().sum();
        for _ in 0..3 {
            let picks: Vec<usize> = (0..round).map(|number| chosen(&mut cluster, number)).collect();
            for (server, weight) in weights.iter().enumerate() {
                let count = picks.iter().filter(|own| **own == server).count();
                assert_eq!(count, *weight as usize, "{weights:?}: {picks:?}");
            }
            // Nobody gets all of its requests in a row where others are due between them.
            let first: Vec<usize> = (0..picks.len()).filter(|at| picks[*at] == 0).collect();
            if weights == [5, 1, 1] {
                assert_ne!(first, [0, 1, 2, 3, 4], "{picks:?}");
            }
        }
    }
}

#[test]
fn the_round_goes_on_without_those_that_are_down() {
    let mut cluster = cluster(Balance::RoundRobin, &[2, 1, 1]);
    cluster.checked(0, Err("gone".into()), 7);
    assert_eq!((cluster.servers[0].up, cluster.servers[0].since, &*cluster.servers[0].why), (false, 7, "gone"));
    let picks: Vec<usize> = (0..10).map(|number| chosen(&mut cluster, number)).collect();
    assert_eq!([1, 2].map(|server| picks.iter().filter(|own| **own == server).count()), [5, 5]);
    cluster.servers[1].admin = Admin::Drain;
    cluster.servers[2].admin = Admin::Down;
    assert_eq!(cluster.choose(0, client(0), &CLIENT, &[]), None);
    // What operators have said stays, whatever the configuration says.
    cluster.configure(settings(Balance::RoundRobin, vec![server(1, 9), server(2, 1)], 1, 1), 9);
    assert_eq!((cluster.servers[1].admin, cluster.servers[1].server.weight), (Admin::Drain, 9));
    cluster.servers[1].admin = Admin::Ready;
    assert_eq!(chosen(&mut cluster, 0), 1);
    // Those that were tried are left out.
    assert_eq!(cluster.choose(0, client(0), &CLIENT, &[1]), None);
}

#[test]
fn the_fewest_connections_for_the_weight_win() {
    let mut cluster = cluster(Balance::LeastConnections, &[1, 3]);
    for _ in 0..400 {
        let server = chosen(&mut cluster, 0);
        cluster.servers[server].active += 1;
    }
    assert_eq!([cluster.servers[0].active, cluster.servers[1].active], [100, 300]);
    // Those that end make room.
    (0..60).for_each(|_| cluster.left(0));
    let next: Vec<usize> = (0..60)
        .map(|_| {
            let server = chosen(&mut cluster, 0);
            cluster.servers[server].active += 1;
            server
        })
        .collect();
    let of_first = next.iter().filter(|own| **own == 0).count();
    assert!(of_first >= 45, "{of_first}");
}

/// By which server each of many clients is served.
fn map(cluster: &mut Cluster) -> Vec<usize> {
    (0..20_000).map(|number| chosen(cluster, number)).collect()
}

fn shares(map: &[usize]) -> HashMap<usize, usize> {
    let mut shares = HashMap::new();
    map.iter().for_each(|server| *shares.entry(*server).or_default() += 1);
    shares
}

#[test]
fn maglev_is_even_and_moves_few() {
    let mut cluster = cluster(Balance::Source, &[1; 20]);
    let before = map(&mut cluster);
    assert_eq!(before, map(&mut cluster), "the same client has the same server");
    for (server, share) in shares(&before) {
        assert!((800..1200).contains(&share), "server {server} has {share} of 20000 clients, not 1000");
    }
    // One goes: its clients are spread, and hardly any other moves.
    cluster.checked(7, Err("gone".into()), 0);
    let without = map(&mut cluster);
    let moved = before.iter().zip(&without).filter(|(old, new)| **old != 7 && old != new).count();
    assert!(moved < 20_000 / 50, "{moved} clients of others have moved");
    assert!(shares(&without).len() == 19 && !without.contains(&7));
    let orphans: Vec<usize> = before.iter().zip(&without).filter(|(old, _)| **old == 7).map(|(_, new)| *new).collect();
    assert!(shares(&orphans).len() == 19, "{:?}", shares(&orphans));
    // It is back: all is as it was.
    cluster.checked(7, Ok(()), 0);
    assert_eq!(map(&mut cluster), before);
}

#[test]
fn maglev_follows_weights() {
    let mut cluster = cluster(Balance::Source, &[1, 1, 2]);
    let shares = shares(&map(&mut cluster));
    assert!((9_000..11_000).contains(&shares[&2]) && (4_400..5_600).contains(&shares[&0]), "{shares:?}");
}

#[test]
fn checks_in_a_row_decide() {
    let mut cluster = Cluster::new(settings(Balance::RoundRobin, vec![server(0, 1)], 3, 2), 5);
    let fail = || Err("refused".to_owned());
    let own = |cluster: &Cluster| (cluster.servers[0].up, cluster.servers[0].since);
    assert_eq!((own(&cluster), &*cluster.servers[0].why), ((false, 5), "not checked yet"));
    // Two are too few, and a failure begins anew.
    let found = [Ok(()), Ok(()), fail(), Ok(()), Ok(()), Ok(())];
    let changed: Vec<bool> = (10..).zip(found).map(|(now, found)| cluster.checked(0, found, now)).collect();
    assert_eq!(changed, [false, false, false, false, false, true]);
    assert_eq!((own(&cluster), &*cluster.servers[0].why), ((true, 15), "checks succeed"));
    let found = [fail(), Ok(()), fail(), fail(), fail()];
    let changed: Vec<bool> = (20..).zip(found).map(|(now, found)| cluster.checked(0, found, now)).collect();
    assert_eq!(changed, [false, false, false, true, false]);
    assert_eq!((own(&cluster), &*cluster.servers[0].why), ((false, 23), "refused"));
}
