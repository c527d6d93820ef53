//! Mistakes in a lab's file: each is told with file, line and key, and what is accepted.

use crate::process::{ROOT, Scratch, millrace};

#[test]
fn the_examples_are_right() {
    for (file, size) in [
        ("examples/lab.toml", "5 hosts, 6 links"),
        ("examples/nat44/lab.toml", "3 hosts, 2 links"),
        ("examples/dual_stack/lab.toml", "4 hosts, 3 links"),
        ("apps/firewall/lab.toml", "3 hosts, 2 links"),
        ("apps/splice/lab.toml", "3 hosts, 2 links"),
        ("apps/mpls/lab/lab.toml", "5 hosts, 10 links"),
    ] {
        let path = format!("{ROOT}/{file}");
        assert_eq!(millrace(&["lab", "--check", &path]).ok(), format!("{path}: {size}\n"));
        assert_eq!(millrace(&["lab", "--check", "--json", &path]).ok(), "");
    }
}

/// A lab of two hosts and a link, and more.
fn with(more: &str) -> String {
    format!("[hosts.a]\n[hosts.b]\n[[links]]\nends = [\"a:eth0\", \"b:eth0\"]\n{more}")
}

#[test]
fn mistakes_are_told_with_file_line_and_key() {
    let scratch = Scratch::new();
    let expect = |text: &str, parts: &[(usize, &str, &str)]| {
        let path = scratch.write("bad.toml", text);
        let said = millrace(&["lab", "--check", &path]).failed(1);
        let lines: Vec<_> = said.lines().collect();
        assert_eq!(lines.len(), parts.len(), "{text}\n{said}");
        for (line, (number, key, problem)) in lines.iter().zip(parts) {
            let start = if key.is_empty() { String::new() } else { format!("{key}: ") };
            let start = format!("error: {path}:{number}: {start}");
            assert!(line.starts_with(&start) && line.contains(problem), "{line:?} should be {start:?} … {problem:?}");
        }
    };
    expect("hosts = [", &[(1, "", "not TOML")]);
    expect("", &[(1, "", "there are no hosts; accepted: [hosts.NAME]")]);
    expect("host = 1\n[hosts.a]", &[(1, "host", "did you mean `hosts`?")]);
    expect("name = \"../x\"\nseed = -1\n[hosts.a]", &[(1, "name", "is not a name"), (2, "seed", "out of range")]);
    expect("[hosts.\"a b\"]", &[(1, "hosts.\"a b\"", "not a name for a host")]);
    expect("[hosts.a]\nforwarding = 1", &[(2, "hosts.a.forwarding", "accepted: true or false")]);
    expect(
        "[hosts.a]\ndevices.eth0 = { addresses = [\"10.0.0.1\"] }",
        &[
            (2, "hosts.a.devices.eth0", "no link has this device; accepted: a link with the end \"a:eth0\""),
            (2, "hosts.a.devices.eth0.addresses[0]", "\"10.0.0.1\" is not an address with its length"),
        ],
    );
    for (mac, problem) in [("01:00:00:00:00:01", "not such"), ("02:00", "not such"), ("02:00:00:00:00:0g", "not such")]
    {
        let text = format!("{}[hosts.a.devices]\neth0 = {{ mac = \"{mac}\" }}", with(""));
        expect(&text, &[(6, "hosts.a.devices.eth0.mac", problem)]);
    }
    let text = with("[hosts.a.devices]\neth0 = { port = true, addresses = [\"10.0.0.1/24\"] }");
    expect(&text, &[(6, "hosts.a.devices.eth0.port", "has addresses")]);
    expect(
        "[hosts.a.routes]\ndefault = \"x\"\n\"10.0.0.0/40\" = \"10.0.0.1\"\n\"fd00::/8\" = \"10.0.0.1\"",
        &[
            (2, "hosts.a.routes.default", "\"x\" is not an address"),
            (3, "hosts.a.routes.\"10.0.0.0/40\"", "not a destination"),
            (4, "hosts.a.routes.\"fd00::/8\"", "two versions of IP"),
        ],
    );
    expect(
        "[hosts.a.sysctls]\n\"kernel.panic\" = \"1\"",
        &[(2, "hosts.a.sysctls.\"kernel.panic\"", "network namespace")],
    );
    expect(
        "[[hosts.a.commands]]\n[[hosts.a.commands]]\nrun = \"'\"\n[[hosts.a.commands]]\nrun = \"x\"\nready = \"\"\nwait = true",
        &[
            (1, "hosts.a.commands[0]", "`run` is missing"),
            (3, "hosts.a.commands[1].run", "not a command line"),
            (6, "hosts.a.commands[2].ready", "empty"),
            (6, "hosts.a.commands[2].ready", "`wait` is given, too"),
        ],
    );
    expect("[hosts.a]\n[[links]]\nends = [\"a:x\"]", &[(3, "links[0].ends", "two ends")]);
    expect(
        "[hosts.a]\n[[links]]\nmtu = 10",
        &[(2, "links[0]", "`ends` is missing"), (3, "links[0].mtu", "68 to 65535")],
    );
    expect(
        "[hosts.alpha]\n[[links]]\nends = [\"alpa:x\", \"alpha\"]",
        &[(3, "links[0].ends[0]", "did you mean `alpha`?"), (3, "links[0].ends[1]", "names no device")],
    );
    expect(
        "[hosts.a]\n[[links]]\nends = [\"a:sixteen-letters-\", \"a:lo\"]",
        &[(3, "links[0].ends[0]", "1 to 15 letters"), (3, "links[0].ends[1]", "\"lo\" is not a name")],
    );
    expect(&with("[[links]]\nends = [\"a:eth0\", \"b:eth1\"]"), &[(5, "links[1].ends", "a:eth0 is an end already")]);
    expect("[hosts.a]\n[[links]]\nends = [\"a:x\", \"a:x\"]", &[(2, "links[0].ends", "a:x is an end already")]);
    expect(
        &with("rate = \"fast\"\ndelay = \"2 min\"\nloss = 1.5\nqueue = 0\ncorrupt = \"101 %\"\nreorder_gap = 0"),
        &[
            (5, "links[0].rate", "\"fast\" cannot be read; accepted: a rate such as"),
            (6, "links[0].delay", "\"2 min\" cannot be read"),
            (7, "links[0].loss", "out of range; accepted: a share from 0 to 1"),
            (8, "links[0].queue", "from 1 to"),
            (9, "links[0].corrupt", "out of range"),
            (10, "links[0].reorder_gap", "from 1 to 10000"),
        ],
    );
    expect(
        &with("rate = \"1 bit/s\"\ndelay = \"61 s\"\njitter = \"inf s\"\njitter_distribution = \"pareto\""),
        &[
            (5, "links[0].rate", "out of range"),
            (6, "links[0].delay", "at most 60s"),
            (7, "links[0].jitter", "cannot be read"),
            (8, "links[0].jitter_distribution", "\"uniform\" or \"normal\""),
        ],
    );
    expect(
        &with("loss = 0.1\nburst_loss = { to_bad = 0.1 }\nforward = { ends = 1 }"),
        &[
            (6, "links[0].burst_loss", "`loss` is given, too"),
            (6, "links[0].burst_loss", "`to_good` is missing"),
            (7, "links[0].forward.ends", "unknown key"),
        ],
    );
    expect(
        &with(
            "[[captures]]\n[[captures]]\nfile = \"x\"\ndevices = [\"a:eth1\"]\n[[captures]]\nfile = \"x\"\ndevices = []",
        ),
        &[
            (5, "captures[0]", "`file` is missing"),
            (5, "captures[0]", "`devices` is missing"),
            (8, "captures[1].devices[0]", "no link has this device; accepted: a:eth0, b:eth0"),
            (10, "captures[2].file", "another capture"),
            (11, "captures[2].devices", "there is no device"),
        ],
    );
}

#[test]
fn a_file_that_is_not_there_or_has_no_name_for_a_lab() {
    let scratch = Scratch::new();
    let said = millrace(&["lab", &scratch.path("none.toml")]).failed_in_one_line(1);
    assert!(said.contains("none.toml"), "{said}");
    let path = scratch.write("a b.toml", "[hosts.a]");
    let said = millrace(&["lab", &path]).failed_in_one_line(1);
    assert!(said.contains("\"a b\"") && said.contains("write name ="), "{said}");
}
