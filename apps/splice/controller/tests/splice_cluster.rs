//! Which server gets a request, and when one is taken to work: exact over many requests.

#[path = "../../../../tests/support/compile.rs"]
mod common;

use std::collections::HashMap;
use std::net::{Ipv4Addr, Ipv6Addr};
use std::path::Path;
use std::sync::{Arc, OnceLock};

use baker::ir::Program;
use control::admin_state::AdminState;
use control::applications::Applications;
use control::config::Config;
use splice::SpliceApplication;
use splice::cluster::{Cluster, NegotiatedOptions};
use splice::settings::Settings;

const SPLICE: Applications = Applications::new(&[&SpliceApplication]);

const CLIENT: NegotiatedOptions = NegotiatedOptions { mss: 1460, scale: None, sack: false, times: false };

/// A server of the configuration.
fn server(number: usize, weight: u32) -> String {
    format!("{{ name = \"s{number}\", address = \"10.0.0.{}:80\", weight = {weight} }}", number + 1)
}

fn settings(balance: &str, servers: &[String], rise: u32, fall: u32) -> Arc<Settings> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../splice.baker");
    let text = format!(
        "[ports.p]\nnumber = 1\n[controllers.splice.interfaces.p]\nmac = \"02:00:00:00:00:01\"\n\
         addresses = [\"10.0.9.9/16\", \"2001:db8::9/64\"]\n[controllers.splice.pools.p]\nbalance = \"{balance}\"\nservers = [{}]\n\
         check = {{ rise = {rise}, fall = {fall} }}\n[controllers.splice.services.s]\naddress = \"10.1.0.1:80\"\n\
         pool = \"p\"\n",
        servers.join(", ")
    );
    static PROGRAM: OnceLock<Arc<Program>> = OnceLock::new();
    let program = PROGRAM.get_or_init(|| common::compile(&path));
    let config = Config::parse("t.toml", &text, program, SPLICE).unwrap_or_else(|errors| panic!("{errors:?}\n{text}"));
    config.settings::<SpliceApplication>().unwrap()
}

/// A cluster whose servers have these weights, all of them up and found.
fn cluster(balance: &str, weights: &[u32]) -> Cluster {
    let servers: Vec<_> = weights.iter().enumerate().map(|(number, weight)| server(number, *weight)).collect();
    let mut cluster = Cluster::new(settings(balance, &servers, 1, 1), 0);
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
        let mut cluster = cluster("round_robin", weights);
        let round: u32 = weights.iter().sum();
        for _ in 0..3 {
            let picks: Vec<usize> = (0..round).map(|number| chosen(&mut cluster, number)).collect();
            for (server, weight) in weights.iter().enumerate() {
                let count = picks.iter().filter(|own| **own == server).count();
                assert_eq!(count, *weight as usize, "{weights:?}: {picks:?}");
            }
            // No server gets all of its requests in a row where others are due between them.
            let first: Vec<usize> = (0..picks.len()).filter(|at| picks[*at] == 0).collect();
            if weights == [5, 1, 1] {
                assert_ne!(first, [0, 1, 2, 3, 4], "{picks:?}");
            }
        }
    }
}

#[test]
fn clients_wait_for_the_first_check_of_a_server_of_their_version() {
    let six = "{ name = \"six\", address = \"[2001:db8::2]:80\" }".to_owned();
    let mut cluster = Cluster::new(settings("round_robin", &[server(0, 1), six], 1, 2), 0);
    let end = cluster.settings.timeouts.request;
    let waits = |cluster: &Cluster, now| {
        [client(0), "2001:db8:1::1".parse().unwrap()].map(|client| cluster.is_undecided(0, client, now))
    };
    assert_eq!(waits(&cluster, 0), [true, true]);
    cluster.servers.iter_mut().for_each(|own| own.mac = Some([2; 6]));
    cluster.checked(0, Ok(()), 1);
    assert_eq!(waits(&cluster, 1), [false, true]);
    assert_eq!(waits(&cluster, end), [false, false], "not for ever");
    cluster.checked(1, Err("late".into()), 2);
    assert_eq!(waits(&cluster, 2), [false, true], "one failure does not decide");
    cluster.checked(1, Err("late".into()), 3);
    assert_eq!(waits(&cluster, 3), [false, false]);
}

#[test]
fn the_round_goes_on_without_those_that_are_down() {
    let mut cluster = cluster("round_robin", &[2, 1, 1]);
    cluster.checked(0, Err("gone".into()), 7);
    assert_eq!((cluster.servers[0].up, cluster.servers[0].since, &*cluster.servers[0].why), (false, 7, "gone"));
    let picks: Vec<usize> = (0..10).map(|number| chosen(&mut cluster, number)).collect();
    assert_eq!([1, 2].map(|server| picks.iter().filter(|own| **own == server).count()), [5, 5]);
    cluster.servers[1].admin = AdminState::Drain;
    cluster.servers[2].admin = AdminState::Down;
    assert_eq!(cluster.choose(0, client(0), &CLIENT, &[]), None);
    // What operators have said stays, whatever the configuration says.
    cluster.configure(settings("round_robin", &[server(1, 9), server(2, 1)], 1, 1), 9);
    assert_eq!((cluster.servers[1].admin, cluster.servers[1].server.weight), (AdminState::Drain, 9));
    cluster.servers[1].admin = AdminState::Ready;
    assert_eq!(chosen(&mut cluster, 0), 1);
    // Those that were tried are left out.
    assert_eq!(cluster.choose(0, client(0), &CLIENT, &[1]), None);
}

#[test]
fn the_fewest_connections_for_the_weight_win() {
    let mut cluster = cluster("least_connections", &[1, 3]);
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
    let mut cluster = cluster("source", &[1; 20]);
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

/// As computed apart from this, by the definitions of Maglev and SipHash-2-4: clients keep their servers through new
/// versions.
#[test]
fn maglev_is_the_same_in_every_version() {
    let mut cluster = cluster("source", &[1, 2, 1]);
    let picks = map(&mut cluster);
    let first: String = picks[..48].iter().map(usize::to_string).collect();
    assert_eq!(first, "202011220110110000121120121121001120011211112121");
    assert_eq!([0, 1, 2].map(|server| shares(&picks[..10_000])[&server]), [2490, 5017, 2493]);
    let sum: usize = picks[..10_000].iter().zip(1..).map(|(server, place)| server * place).sum();
    assert_eq!(sum, 49_725_364);
}

#[test]
fn maglev_follows_weights() {
    let mut cluster = cluster("source", &[1, 1, 2]);
    let shares = shares(&map(&mut cluster));
    assert!((9_000..11_000).contains(&shares[&2]) && (4_400..5_600).contains(&shares[&0]), "{shares:?}");
}

#[test]
fn checks_in_a_row_decide() {
    let mut cluster = Cluster::new(settings("round_robin", &[server(0, 1)], 3, 2), 5);
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
