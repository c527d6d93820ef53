//! Examples of commands, by command. Those of applications stand beside their commands.

use cli::examples::Examples;

/// All of them, in the order of the help.
pub const ALL: &[Examples] = &[
    of(
        "",
        &["millrace check l3switch", "millrace run l3switch --port p1=auto:eth1 --port p2=auto:eth2", "millrace top"],
    ),
    of("check", &["millrace check l3switch", "millrace check examples/patch.baker"]),
    of("fmt", &["millrace fmt examples/patch.baker", "millrace fmt --check apps lib"]),
    of("lsp", &["millrace lsp"]),
    of(
        "test",
        &[
            "millrace test examples/patch.baker",
            "millrace test l3switch --engine interp --case '*ttl*'",
            "millrace test examples/nat44 --junit result.xml",
        ],
    ),
    of(
        "emit",
        &[
            "millrace emit l3switch --target asm -o l3switch.s",
            "millrace emit examples/patch.baker --target ir --opt base",
            "millrace emit l3switch --target dot | dot -Tsvg > channels.svg",
        ],
    ),
    of("explain", &["millrace explain l3switch", "millrace explain l3switch --profile packets.pcap --port p1"]),
    of(
        "sim",
        &[
            "millrace sim l3switch --engines 1..8 --plot rates.svg",
            "millrace sim l3switch --platform ixp1200 --offered 1",
            "millrace sim --platform pci33",
        ],
    ),
    of(
        "run",
        &[
            "millrace run examples/patch.baker --port left=auto:eth1 --port right=auto:eth2",
            "millrace run splice -c edge.toml --state /var/lib/millrace --metrics 9464",
            "millrace run l3switch -c switch.toml --workers 2 --cpu 2 --cpu 3 --busy",
        ],
    ),
    of("status", &["millrace status", "millrace status --instance edge --json"]),
    of("top", &["millrace top", "millrace top --instance edge --interval 0.5"]),
    of(
        "table",
        &["millrace table ls", "millrace table set l3_forward.fib 10.9.0.0/16 3", "millrace table dump l3_forward.fib"],
    ),
    of("table ls", &["millrace table ls", "millrace table ls --json"]),
    of("table get", &["millrace table get l3_forward.fib 10.9.8.7", "millrace table get l3_switch.domains p1"]),
    of(
        "table set",
        &[
            "millrace table set l3_forward.fib 10.9.0.0/16 3",
            "millrace table set l3_forward.neighbours 10.0.2.13 '{ mac = \"02:00:00:00:00:13\", heard = 0 }'",
        ],
    ),
    of(
        "table load",
        &["millrace table load l3_forward.fib routes.json", "millrace table load l3_forward.fib - < routes.json"],
    ),
    of("table del", &["millrace table del l3_forward.fib 10.9.0.0/16"]),
    of(
        "table dump",
        &["millrace table dump l3_forward.fib", "millrace table dump l3_forward.fib --json > routes.json"],
    ),
    of("table find", &["millrace table find l3_forward.fib 10.9", "millrace table find l3_forward.fib 10.9 --json"]),
    of("counters", &["millrace counters", "millrace counters --instance edge --json"]),
    of("drops", &["millrace drops", "millrace drops --watch --examples", "millrace drops --watch --count 10 --json"]),
    of("trace", &["millrace trace add 10", "millrace trace show"]),
    of(
        "trace add",
        &[
            "millrace trace add 10",
            "millrace trace add 5 --drops-only --wait 30",
            "millrace trace add 100 --port p1 --where 'ipv4.dst == 10.0.2.13 && ipv4.ttl < 5'",
        ],
    ),
    of("trace show", &["millrace trace show", "millrace trace show --pcap traced.pcapng"]),
    of("trace stop", &["millrace trace stop"]),
    of("timing", &["millrace timing", "millrace timing --for 60 --ppf l3_forward.route"]),
    of("graph", &["millrace graph", "millrace graph --json"]),
    of("ports", &["millrace ports", "millrace ports --json"]),
    of(
        "metrics",
        &[
            "millrace metrics",
            "millrace metrics service_requests --label service=www",
            "millrace metrics --openmetrics > millrace.prom",
        ],
    ),
    of("report", &["millrace report", "millrace report --instance edge edge.tar.gz"]),
    of("reload", &["millrace reload", "millrace reload --instance edge"]),
    of("stop", &["millrace stop", "millrace stop --instance edge"]),
    of(
        "replay",
        &[
            "millrace replay examples/patch.baker --in examples/first.pcap --out out.pcap",
            "millrace replay l3switch --port p1=clients.pcap --port p3=servers.pcap --out-dir sent",
        ],
    ),
    of("demo", &["millrace demo", "millrace demo splice --seconds 20"]),
    of("lab", &["millrace lab examples/lab.toml", "millrace lab --check examples/lab.toml"]),
    of(
        "lab exec",
        &["millrace lab exec near -- ping -c 3 10.0.2.13", "millrace lab exec --lab lab server -- iperf3 -s"],
    ),
    of("lab serve", &["millrace lab serve a 10.0.2.11:80 [2001:db8:2::11]:80"]),
    of(
        "completions",
        &[
            "millrace completions bash > /etc/bash_completion.d/millrace",
            "millrace completions fish > ~/.config/fish/completions/millrace.fish",
        ],
    ),
    of("man", &["millrace man /usr/local/share/man/man1"]),
];

const fn of(command: &'static str, lines: &'static [&'static str]) -> Examples {
    Examples { command, lines }
}
