//! Settings without packets: those that are refused, and flow keys by what is configured.

use std::net::Ipv4Addr;

use control::config::Config;
use splice::SpliceApplication;
use splice::cluster::Cluster;
use wire::flow_key::FlowKey;

use super::world;

/// The example with a line of its text replaced.
fn configured(from: &str, to: &str) -> Result<Config, String> {
    let text = include_str!("../../../splice.toml");
    assert!(text.contains(from), "{from}");
    Config::parse("t.toml", &text.replacen(from, to, 1), &world::program(), world::SPLICE)
        .map_err(|errors| format!("{errors:?}"))
}

#[test]
fn settings_that_mean_nothing_are_refused() {
    let pool = "[controllers.splice.pools.web]\n";
    let limits = "[controllers.splice.limits]\n";
    let servers = "[controllers.splice.interfaces.servers]\n";
    for (table, line, why) in [
        (pool, "addressing = \"nat\"", "full_nat"),
        (pool, "reuse = \"sometimes\"", "always"),
        (pool, "preconnect = 257", "256"),
        (pool, "preconnect = 1\naddressing = \"transparent\"", "no request could use such connections"),
        (pool, "preconnect = 1\nreuse = \"never\"", "no request could use such connections"),
        (limits, "when_full = \"wait\"", "oldest_idle"),
        (limits, "request_body = -1", "request_body"),
        (servers, "ports = \"2000-1000\"", "1024-65535"),
        (servers, "ports = \"0-1000\"", "1024-65535"),
        (servers, "ports = \"1000\"", "1024-65535"),
    ] {
        let problem = configured(table, &format!("{table}{line}\n")).map(|_| ()).unwrap_err();
        assert!(problem.contains(why), "{line}: {problem}");
    }
}

fn cluster(from: &str, to: &str) -> Cluster {
    let config = configured(from, to).unwrap();
    Cluster::new(config.settings::<SpliceApplication>().unwrap(), 0)
}

#[test]
fn own_ports_and_addresses_come_by_turns() {
    let own = "addresses = [\"10.0.2.254/24\"";
    let mut cluster = cluster(own, "ports = \"2000-2002\"\naddresses = [\"10.0.2.254/24\", \"10.0.2.253/24\"");
    let mut used: Vec<_> = (0..6).map(|_| cluster.flow_key(0, None, |_| true).unwrap()).collect();
    // The seventh is the first again.
    assert_eq!(cluster.flow_key(0, None, |_| true), Some(used[0]));
    // Those that are in use are passed over; where all are, there is none.
    assert_eq!(cluster.flow_key(0, None, |flow_key| *flow_key == used[4]), Some(used[4]));
    assert_eq!(cluster.flow_key(0, None, |_| false), None);
    used.sort_by_key(|flow_key| (flow_key.dst, flow_key.dst_port));
    used.dedup();
    let found: Vec<_> =
        used.iter().map(|flow_key| (flow_key.dst.to_ipv4_mapped().unwrap().octets()[3], flow_key.dst_port)).collect();
    assert_eq!(found, [(253, 2000), (253, 2001), (253, 2002), (254, 2000), (254, 2001), (254, 2002)]);
}

#[test]
fn servers_see_clients_that_they_reach_by_way_of_millrace() {
    let pool = "[controllers.splice.pools.web]\n";
    let mut cluster = cluster(pool, &format!("{pool}addressing = \"transparent\"\n"));
    let web = cluster.servers.iter().position(|own| own.pool.name == "web").unwrap();
    let client = |last: [u8; 2], src_port| FlowKey {
        src: Ipv4Addr::new(10, 0, last[0], last[1]).to_ipv6_mapped(),
        dst: Ipv4Addr::new(10, 0, 1, 80).to_ipv6_mapped(),
        src_port,
        dst_port: 80,
    };
    let far = client([1, 11], 5000);
    assert_eq!(cluster.seen(web, &far), Some((far.src, 5000)));
    assert_eq!(cluster.seen(web, &client([2, 11], 5000)), None, "the server itself, or its neighbour");
    let seen = cluster.seen(web, &far);
    let flow_key = cluster.flow_key(web, seen, |_| true).unwrap();
    assert_eq!((flow_key.dst, flow_key.dst_port), (far.src, 5000));
    // Another port where that one is in use.
    let other = cluster.flow_key(web, seen, |flow_key| flow_key.dst_port != 5000).unwrap();
    assert_eq!(other.dst, far.src);
}
