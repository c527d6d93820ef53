//! Mistakes in `[controllers.splice]`: each is told with file, line, key and what is accepted.

#[path = "../../../../tests/support/compile.rs"]
mod common;

use std::path::Path;

use control::applications::Applications;
use control::config::Config;
use splice::SpliceApplication;

const SPLICE: Applications = Applications::new(&[&SpliceApplication]);

const EXAMPLE: &str = include_str!("../../splice.toml");

/// What is said of the example with some of its text replaced.
fn said(changes: &[(&str, &str)]) -> Vec<String> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../splice.baker");
    let program = common::compile(&path);
    let text = changes.iter().fold(EXAMPLE.to_owned(), |text, (from, to)| {
        let changed = text.replacen(from, to, 1);
        assert_ne!(changed, text, "{from}");
        changed
    });
    match Config::parse("t.toml", &text, &program, SPLICE) {
        Ok(_) => Vec::new(),
        Err(errors) => errors.iter().map(ToString::to_string).collect(),
    }
}

/// A change, and of each mistake that it makes how its line begins and what is said of it.
type Case = (&'static str, &'static str, &'static [(&'static str, &'static str)]);

const CASES: &[Case] = &[
    (
        "request_head = 16384",
        "request_heads = 16384",
        &[("request_heads = 16384             ", "limits.request_heads: unknown key; did you mean `request_head`?")],
    ),
    (
        "request_head = 16384",
        "request_head = 100",
        &[("request_head = 100                ", "limits.request_head: 100 is out of range")],
    ),
    (
        "connections = 65536",
        "connections = \"many\"",
        &[("connections = \"many\"", "limits.connections: this is a string")],
    ),
    (
        "connect = \"1s\"",
        "connect = \"0s\"",
        &[("connect = \"0s\"                    ", "timeouts.connect: \"0s\" is no such time")],
    ),
    (
        "connect = \"1s\"",
        "connect = 1",
        &[("connect = 1                       ", "timeouts.connect: this is an integer")],
    ),
    (
        "connect = \"1s\"",
        "conect = \"1s\"",
        &[("conect = \"1s\"                     ", "timeouts.conect: unknown key; did you mean `connect`?")],
    ),
    (
        "mac = \"02:00:00:00:02:fe\"",
        "mac = \"03:00:00:00:02:fe\"",
        &[("mac = \"03:00:00:00:02:fe\"", "interfaces.servers.mac: \"03:00:00:00:02:fe\" is none")],
    ),
    (
        "[controllers.splice.interfaces.servers]",
        "[controllers.splice.interfaces.server]",
        &[(
            "[controllers.splice.interfaces.ser",
            "interfaces.server: there is no port \"server\" with a number below 64; did you mean `servers`?",
        )],
    ),
    (
        "addresses = [\"10.0.2.254/24\"",
        "addresses = [\"10.0.2.254\"",
        &[("addresses = [\"10.0.2.254\", \"2001:d", "interfaces.servers.addresses[0]: \"10.0.2.254\" is none")],
    ),
    (
        "addresses = [\"10.0.2.254/24\", ",
        "addresses = [",
        &[
            (
                "{ name = \"a\", address = \"10.0.2.11",
                "pools.web.servers[0].address: no interface has an address with this server's prefix, and none a gateway",
            ),
            (
                "{ name = \"b\", address = \"10.0.2.12",
                "pools.web.servers[1].address: no interface has an address with this server's prefix, and none a gateway",
            ),
            (
                "servers = [{ name = \"b\", address =",
                "pools.images.servers[0].address: no interface has an address with this server's prefix, and none a gateway",
            ),
        ],
    ),
    (
        "balance = \"round_robin\"",
        "balance = \"fair\"",
        &[("balance = \"fair\"                 #", "pools.web.balance: \"fair\" is none")],
    ),
    (
        "{ name = \"b\", address = \"10.0.2.12:80\" },",
        "{ name = \"a\", address = \"10.0.2.12:80\" },",
        &[("{ name = \"a\", address = \"10.0.2.12", "pools.web.servers[1]: there are two servers \"a\"")],
    ),
    (
        "\"10.0.2.11:80\"",
        "\"10.0.2.11\"",
        &[("{ name = \"a\", address = \"10.0.2.11", "pools.web.servers[0].address: \"10.0.2.11\" is none")],
    ),
    (
        "\"10.0.2.11:80\"",
        "\"10.0.9.11:80\"",
        &[(
            "{ name = \"a\", address = \"10.0.9.11",
            "pools.web.servers[0].address: no interface has an address with this server's prefix, and none a gateway",
        )],
    ),
    (
        "\"10.0.2.11:80\" }",
        "\"10.0.2.11:80\", weight = 1001 }",
        &[("{ name = \"a\", address = \"10.0.2.11", "pools.web.servers[0].weight: 1001 is out of range")],
    ),
    (
        "\"10.0.2.11:80\" }",
        "\"10.0.2.11:80\", wait = 1 }",
        &[("{ name = \"a\", address = \"10.0.2.11", "pools.web.servers[0].wait: unknown key")],
    ),
    (
        "check = { path = \"/\", status = 200",
        "check = { path = \"x\", status = 200",
        &[("check = { path = \"x\", status = 200", "pools.web.check.path: \"x\" is none")],
    ),
    (
        "check = { path = \"/\", status = 200",
        "check = { status = 200",
        &[("check = { status = 200, interval =", "pools.web.check.status: means nothing without `path`")],
    ),
    (
        "check = { path = \"/\", status = 200",
        "check = { path = \"/\", status = 99",
        &[("check = { path = \"/\", status = 99,", "pools.web.check.status: 99 is out of range")],
    ),
    (
        "rise = 1, fall = 3",
        "rise = 0, fall = 3",
        &[("check = { path = \"/\", status = 200", "pools.web.check.rise: 0 is out of range")],
    ),
    (
        "address = [\"10.0.1.80:80\"",
        "address = [\"10.0.1.80:0\"",
        &[("address = [\"10.0.1.80:0\", \"[2001:d", "services.www.address[0]: \"10.0.1.80:0\" is none")],
    ),
    (
        "address = [\"10.0.1.80:80\", \"[2001:db8:1::80]:80\"]",
        "",
        &[("[controllers.splice.services.www]", "services.www: `address` is missing")],
    ),
    (
        "address = [\"10.0.1.80:80\", ",
        "address = [\"10.0.1.80:80\", \"10.0.1.80:80\", ",
        &[("address = [\"10.0.1.80:80\", \"10.0.1", "services.www.address: 10.0.1.80:80 is there twice")],
    ),
    (
        "path = \"/images/*\"",
        "path = \"/im*ages/*\"",
        &[("{ path = \"/im*ages/*\", method = [\"", "services.www.routes[0].path: \"/im*ages/*\" is none")],
    ),
    (
        "method = [\"GET\", \"HEAD\"]",
        "method = [\"GET\", \"Head\"]",
        &[("{ path = \"/images/*\", method = [\"G", "services.www.routes[0].method[1]: \"Head\" is none")],
    ),
    (
        "pool = \"images\" },\n    {",
        "pool = \"image\" },\n    {",
        &[(
            "{ path = \"/images/*\", method = [\"G",
            "services.www.routes[0].pool: there is no pool \"image\"; did you mean `images`?",
        )],
    ),
    (
        "\"HEAD\"], pool = \"images\" }",
        "\"HEAD\"] }",
        &[("{ path = \"/images/*\", method = [\"G", "services.www.routes[0]: `pool` is missing")],
    ),
    (
        "]\npool = \"web\"",
        "]\npool = \"wep\"",
        &[("pool = \"wep\"", "services.www.pool: there is no pool \"wep\"; did you mean `web`?")],
    ),
    (
        "[controllers.splice.limits]",
        "[controllers.splice.log]\nformat = \"common\"\n[controllers.splice.limits]",
        &[("[controllers.splice.log]", "log: `file` is missing")],
    ),
    (
        "[controllers.splice.limits]",
        "[controllers.splice.log]\nfile = \"x\"\nformat = \"xml\"\n[controllers.splice.limits]",
        &[("format = \"xml\"", "log.format: \"xml\" is none")],
    ),
    (
        "[controllers.splice.limits]",
        "[controllers.splice.log]\nfile = \"\"\n[controllers.splice.limits]",
        &[("file = \"\"", "log.file: this is empty")],
    ),
    (
        "[controllers.splice.timeouts]",
        "[controllers.splice.timeout]",
        &[("[controllers.splice.timeout]", "timeout: unknown key; did you mean `timeouts`?")],
    ),
];

#[test]
fn the_example_is_right() {
    assert_eq!(said(&[]), Vec::<String>::new());
    let log = "[controllers.splice.log]\nfile = \"x\"\nformat = \"combined\"\n[controllers.splice.limits]";
    assert_eq!(said(&[("[controllers.splice.limits]", log)]), Vec::<String>::new());
    // What the kernel knows need not be said.
    let shared = [
        ("mac = \"02:00:00:00:01:fe\"\n", ""),
        ("mac = \"02:00:00:00:02:fe\"\naddresses = [\"10.0.2.254/24\", \"2001:db8:2::254/64\"]\n", ""),
    ];
    assert_eq!(said(&shared), Vec::<String>::new());
}

#[test]
fn each_mistake_is_told_once_where_it_is() {
    for (from, to, expected) in CASES {
        let changed = EXAMPLE.replacen(from, to, 1);
        let take_apart = |message: String| {
            let (line, rest) = message.strip_prefix("t.toml:").unwrap().split_once(": ").unwrap();
            let line = changed.lines().nth(line.parse::<usize>().unwrap() - 1).unwrap().trim().to_owned();
            let (problem, accepted) = rest.split_once("; accepted: ").unwrap_or_else(|| panic!("{message}"));
            assert!(!accepted.is_empty(), "{message}");
            (line, problem.strip_prefix("controllers.splice.").unwrap().to_owned())
        };
        let found: Vec<(String, String)> = said(&[(from, to)]).into_iter().map(take_apart).collect();
        let same = |((line, problem), (start, said)): (&(String, String), &(&str, &str))| {
            line.starts_with(start) && problem == said
        };
        let all = found.len() == expected.len() && found.iter().zip(*expected).all(same);
        assert!(all, "{from:?} → {to:?}: {found:#?}, expected {expected:#?}");
    }
}
