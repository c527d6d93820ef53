//! Mistakes in `[controllers.media]`: each is told with file, line, key and what is accepted.

#[path = "../../../../tests/support/compile.rs"]
mod common;

use std::path::Path;

use control::applications::Applications;
use control::config::Config;
use media::MediaApplication;
use routes::RoutesApplication;

const MEDIA: Applications = Applications::new(&[&MediaApplication, &RoutesApplication]);

const EXAMPLE: &str = include_str!("../../media.toml");

#[test]
fn mistakes_are_told() {
    let program = common::compile(&Path::new(env!("CARGO_MANIFEST_DIR")).join("../media.baker"));
    let said = |from: &str, to: &str| -> Vec<String> {
        let text = EXAMPLE.replacen(from, to, 1);
        assert!(from.is_empty() || text != EXAMPLE, "{from}");
        let line = text.lines().position(|line| !to.is_empty() && line.contains(to)).map_or(0, |line| line + 1);
        match Config::parse("t.toml", &text, &program, MEDIA) {
            Ok(_) => Vec::new(),
            Err(errors) => errors
                .iter()
                .map(|error| {
                    assert_eq!(error.line, line, "{error}");
                    error.to_string()
                })
                .collect(),
        }
    };
    assert_eq!(said("", ""), [""; 0]);
    let own = "controllers.media.";
    for (from, to, expected) in [
        ("media_port = 8000", "media_ports = 8000", "media_ports: unknown key; did you mean `media_port`?"),
        ("media_port = 8000", "media_port = 8001", "media_port: this is an odd number"),
        ("media_port = 8000", "media_port = 80", "media_port: 80 is out of range"),
        (
            "media_port = 8000",
            "media_port = 25000",
            "media_port: 25000 and the next port are among the ports of origins",
        ),
        ("media_port = 8000", "at_end = \"kept\"", "at_end: \"kept\" is none"),
        (
            "media_port = 8000",
            "peers = { name = \"e9\", siblings = [{ name = \"e1\", address = \"10.0.2.1\" }] }",
            "peers.siblings: this proxy is none of them",
        ),
        (
            "media_port = 8000",
            "peers = { name = \"e1\", parents = [{ name = \"e1\", address = \"10.0.2.1\" }] }",
            "peers.parents: this proxy is one of them",
        ),
        (
            "media_port = 8000",
            "peers = { parents = [{ name = \"the hub\", address = \"10.0.2.1\" }] }",
            "peers.parents: \"the hub\" can't be the name of a peer",
        ),
        ("media_port = 8000", "peers = { name = \"a b\" }", "peers.name: \"a b\" is none"),
        ("media_port = 8000", "peers = { parent = [] }", "peers.parent: unknown key; did you mean `parents`?"),
        ("media_port = 8000", "peers = { password = \"x\" }", "peers: `user` is missing"),
        (
            "media_port = 8000",
            "peers = { siblings = { etcd = \"http://10.0.0.5\" } }",
            "peers.siblings: this proxy has no name to find itself by",
        ),
        (
            "media_port = 8000",
            "peers = { name = \"e1\", siblings = { etcd = [\"http://10.0.0.5\", \"10.0.0.6:2379\"] } }",
            "peers.siblings.etcd[1]: \"10.0.0.6:2379\" is none",
        ),
        (
            "media_port = 8000",
            "peers = { parents = { etcd = \"http://10.0.0.5/v3\" } }",
            "peers.parents.etcd: \"http://10.0.0.5/v3\" is none",
        ),
        ("media_port = 8000", "peers = { parents = { etcd = [] } }", "peers.parents.etcd: 0 endpoints"),
        (
            "media_port = 8000",
            "peers = { parents = { etcd = \"http://10.0.0.5\", announce = \"h\" } }",
            "peers.parents.announce: unknown key",
        ),
        (
            "media_port = 8000",
            "peers = { parents = { etcd = \"http://10.0.0.5\", prefix = \"/x\" } }",
            "peers.parents.prefix: \"/x\" is none",
        ),
        (
            "media_port = 8000",
            "peers = { parents = { etcd = \"https://10.0.0.5\" } }",
            "peers.parents: `ca` is missing, by which https://10.0.0.5:2379 is checked",
        ),
        (
            "media_port = 8000",
            "peers = { parents = { etcd = \"http://10.0.0.5\", key = \"/k\" } }",
            "peers.parents: `certificate` and `key` belong together",
        ),
        (
            "media_port = 8000",
            "peers = { parents = { etcd = \"http://10.0.0.5\", password = \"x\" } }",
            "peers.parents: `user` is missing",
        ),
        (
            "media_port = 8000",
            "peers = { name = \"e1\", siblings = { etcd = \"http://10.0.0.5\", announce = \"h:0\" } }",
            "peers.siblings.announce: \"h:0\" is none",
        ),
        (
            "media_port = 8000",
            "peers = { name = \"e1\", siblings = { etcd = \"http://10.0.0.5\", announce = \"h\", ttl = \"1s\" } }",
            "peers.siblings.ttl: \"1s\" is none",
        ),
        (
            "media_port = 8000",
            "peers = { name = \"e1\", siblings = { etcd = \"http://10.0.0.5\", weight = 2 } }",
            "peers.siblings: `announce` is missing, which `weight` belongs to",
        ),
        ("media_port = 8000", "peers = { parents = {} }", "peers.parents: nobody is named who knows the servers"),
        ("media_port = 8000", "peers = { parents = \"hub\" }", "peers.parents: this is a string"),
        (
            "media_port = 8000",
            "peers = { parents = { kubernetes = { namespace = \"tv\" } } }",
            "peers.parents.kubernetes: `service` is missing",
        ),
        (
            "media_port = 8000",
            "peers = { parents = { kubernetes = { service = \"a/b\" } } }",
            "peers.parents.kubernetes.service: \"a/b\" is none",
        ),
        (
            "media_port = 8000",
            "pools = { p = { servers = { kubernetes = { service = \"cams\", port = 0 } } } }",
            "pools.p.servers.kubernetes.port: 0 is out of range",
        ),
        ("media_port = 8000", "pools = { p = { servers = 1 } }", "pools.p.servers: this is an integer"),
        ("\"20000-29999\"", "\"29999-20000\"", "ports: \"29999-20000\" is none"),
        ("\"[::]:8554\"", "\"proxy:8554\"", "listen[1]: \"proxy:8554\" is none"),
        ("\"2001:db8:2::/64\"", "\"2001:db8:2::/164\"", "origins[1]: \"2001:db8:2::/164\" is none"),
        (
            "\"rtsp://10.0.2.11:8554/door\"",
            "\"http://10.0.2.11/door\"",
            "streams.door.url: \"http://10.0.2.11/door\" is none",
        ),
        ("# password = \"secret\"", "password = \"secret\"", "streams.door: `user` is missing"),
        ("# live = true ", "live = 1 ", "streams.door.live: this is an integer"),
        ("# live = true ", "cache = true ", "streams.door.cache: there is no cache for what is recorded"),
        ("# live = true ", "record = \"seldom\" ", "streams.door.record: \"seldom\" is none"),
        (
            "# at_end = \"keep\"",
            "cache = { directory = \"/d\", memory = \"1 MiB\", block = \"512 KiB\" }",
            "cache.memory: 2 blocks of 524288 bytes",
        ),
        (
            "# at_end = \"keep\"",
            "http = { listen = \"[::]:8080\" }",
            "http: there is no cache, and what is recorded is served",
        ),
        ("connections = 4096", "connections = 0", "limits.connections: 0 is out of range"),
        ("# bandwidth = \"1 Gbit/s\"", "bandwidth = \"1 Gbit\"", "limits.bandwidth: \"1 Gbit\" is none"),
        ("# client_bandwidth = \"50 Mbit/s\"", "client_bandwidth = 50", "limits.client_bandwidth: this is an integer"),
        ("receivers = 4096", "receivers = 65537", "limits.receivers: 65537 is out of range"),
        ("session = \"60s\"", "session = \"60\"", "timeouts.session: \"60\" is none"),
        ("answer = \"10s\"", "answers = \"10s\"", "timeouts.answers: unknown key; did you mean `answer`?"),
    ] {
        let found = match to {
            // What is missing is told at the table.
            "password = \"secret\"" => {
                let text = EXAMPLE.replacen(from, to, 1);
                let errors = Config::parse("t.toml", &text, &program, MEDIA).map(|_| ()).unwrap_err();
                errors.iter().map(ToString::to_string).collect()
            }
            _ => said(from, to),
        };
        assert_eq!(found.len(), 1, "{to}: {found:?}");
        assert!(found[0].contains(&format!("{own}{expected}")), "{to}: {}", found[0]);
    }
    // Who may view. What is a secret is not repeated.
    for (text, expected) in [
        ("[controllers.media.users]\nal = 7\n", "users.al: this is an integer"),
        ("[controllers.media.users]\n\"a:b\" = \"x\"\n", "users: \"a:b\" can't be a user"),
        ("[controllers.media.viewers]\nuser = \"a\"\n", "viewers.user: unknown key; did you mean `users`?"),
        ("[controllers.media.viewers]\nusers = \"bob\"\n", "viewers.users: \"bob\" is none"),
        ("[controllers.media.viewers]\ntokens = [\"s3cret\"]\n", "viewers.tokens[0]: this is no token"),
        ("[controllers.media.streams.x]\npublish = {}\n", "x.publish: this is empty, and would let anybody publish"),
        ("[controllers.media.streams.x]\npublish.users = []\nurl = \"rtsp://h\"\n", "x.url: unknown key"),
        ("[controllers.media.streams.x]\nurl = \"rtsp://h\"\ntransport = \"sctp\"\n", "x.transport: \"sctp\" is none"),
        (
            "[controllers.media.streams.x]\nurl = \"rtsp://h\"\nviewers.addresses = \"1.2.3.4/33\"\n",
            "x.viewers.addresses: ",
        ),
        ("[controllers.media.streams.x]\nurl = \"rtp://239.1.2.3\"\n", "x.url: \"rtp://239.1.2.3\" is none"),
        ("[controllers.media.streams.x]\nurl = \"rtp://239.1.2.3:5004\"\n", "x: what it sends is not said"),
        ("[controllers.media.streams.x]\nurl = \"rtp://239.1.2.3:5004\"\nuser = \"u\"\n", "x.user: unknown key"),
        ("[controllers.media.streams.x]\nurl = \"udp://127.0.0.1:5004\"\n", "x.url: 127.0.0.1 is nowhere to send"),
        ("[controllers.media.streams.x]\nurl = \"udp://224.0.0.9:5004\"\n", "x.url: 224.0.0.9 is nowhere to send"),
        (
            "[controllers.media.streams.x]\nurl = \"rtp://239.1.2.3:5004\"\nsdp = \"/nowhere/x.sdp\"\n",
            "x.sdp: /nowhere/x.sdp: No such file",
        ),
        (
            "[controllers.media.streams.x]\nurl = \"udp://239.1.2.3:5004\"\nsource = \"::1\"\n",
            "x.source: \"::1\" is none",
        ),
        (
            "[controllers.media.streams.x]\nurl = \"udp://10.0.2.1:5004\"\ninterface = \"a\"\n",
            "x.interface: no group is",
        ),
        (
            "[controllers.media.streams]\nx.url = \"udp://239.1.2.3:5004\"\ny = { url = \"rtp://239.1.2.3:5004\", payload = \"mp2t\" }\n",
            "has port 5004 of 239.1.2.3, too",
        ),
    ] {
        let all = format!("{EXAMPLE}\n{text}");
        let errors = Config::parse("t.toml", &all, &program, MEDIA).map(|_| ()).unwrap_err();
        let errors: Vec<String> = errors.iter().map(ToString::to_string).collect();
        assert!(errors.iter().any(|error| error.contains(expected)), "{text}: {errors:?}");
        assert!(errors.iter().all(|error| !error.contains("s3cret")));
    }
    // What a source sends may be said by a file.
    let file = std::env::temp_dir().join(format!("millrace-media-{}.sdp", std::process::id()));
    let stream = format!("[controllers.media.streams.x]\nurl = \"rtp://239.1.2.3:5004\"\nsdp = {file:?}\n");
    let tracks = "m=video 0 RTP/AVP 96\na=rtpmap:96 H264/90000\nm=audio 6000 RTP/AVP 0\nc=IN IP4 239.1.2.4/8\n";
    for (text, expected) in [
        (format!("v=0\n{tracks}"), ""),
        (format!("v=0\n{}", tracks.replace("RTP/AVP 96", "RTP/SAVP 96")), "not all is RTP"),
        ("nothing".to_owned(), "it is none"),
        (format!("v=0\n{}", tracks.replace("6000", "5004").replace("2.4", "2.3")), "come to one port"),
        (format!("v=0\n{}", tracks.replace("239.1.2.4", "127.0.0.1")), "127.0.0.1 is nowhere"),
    ] {
        std::fs::write(&file, text).unwrap();
        let found = Config::parse("t.toml", &format!("{EXAMPLE}\n{stream}"), &program, MEDIA).map(|_| ());
        match found {
            Ok(()) => assert_eq!(expected, ""),
            Err(errors) => assert!(errors.iter().any(|own| own.to_string().contains(expected)), "{errors:?}"),
        }
    }
    std::fs::remove_file(&file).unwrap();
    // Pools, and streams that come from them.
    let pooled = EXAMPLE.lines().map(|line| {
        let inside = ["# [controllers.media.pools", "# [controllers.media.streams.hall"]
            .iter()
            .any(|start| line.starts_with(start));
        let value = ["# balance", "# servers", "#     {", "# ]", "# check", "# pool", "# path"];
        let there = inside || value.iter().any(|start| line.starts_with(start));
        if there { line.trim_start_matches("# ") } else { line }.to_owned() + "\n"
    });
    let pooled: String = pooled.collect();
    let said = |from: &str, to: &str| -> Vec<String> {
        let text = pooled.replacen(from, to, 1);
        assert!(from.is_empty() || text != pooled, "{from}");
        let errors = Config::parse("t.toml", &text, &program, MEDIA).map(|_| ()).err().unwrap_or_default();
        errors.iter().map(ToString::to_string).collect()
    };
    assert_eq!(said("", ""), [""; 0]);
    for (from, to, expected) in [
        ("balance = \"round_robin\"", "balance = \"source\"", "pools.cameras.balance: \"source\" is none"),
        (
            "address = \"10.0.2.12:8554\"",
            "address = \"10.0.2.11:8554\"",
            "pools.cameras.servers[1]: there are two servers \"b\"",
        ),
        (
            "address = \"10.0.2.12:8554\"",
            "address = \"rtsp://b\"",
            "pools.cameras.servers[1].address: \"rtsp://b\" is none",
        ),
        ("address = \"10.0.2.12:8554\"", "weight = 1", "pools.cameras.servers[1]: `address` is missing"),
        ("fall = 3", "falls = 3", "pools.cameras.check.falls: unknown key"),
        ("path = \"/hall\", interval", "path = \"hall\", interval", "pools.cameras.check.path: \"hall\" is none"),
        ("pool = \"cameras\"", "pool = \"camera\"", "streams.hall.pool: there is no pool \"camera\""),
        ("\npath = \"/hall\"", "\n", "streams.hall: `path` is missing"),
        ("\npath = \"/hall\"", "\npath = \"/hall\"\nurl = \"rtsp://c/\"", "streams.hall.url: unknown key"),
        ("pools.cameras]", "pools.\"a b\"]", "pools.\"a b\": \"a b\" can't be a name"),
        ("retry = \"30s\"", "retry = \"0\"", "timeouts.retry: \"0\" is none"),
    ] {
        let found = said(from, to);
        assert!(
            found.first().is_some_and(|own| own.contains(&format!("controllers.media.{expected}"))),
            "{to}: {found:?}"
        );
    }
    // User and password in the URL would be shown wherever it is.
    let text = EXAMPLE.replacen("rtsp://10.0.2.11", "rtsp://user:pass@10.0.2.11", 1);
    let errors = Config::parse("t.toml", &text, &program, MEDIA).map(|_| ()).unwrap_err();
    assert!(errors.iter().any(|error| error.to_string().contains("user and password stand in the URL")), "{errors:?}");
}

#[test]
fn copies_for_several_viewers_share_the_payload() {
    let program = common::compile(&Path::new(env!("CARGO_MANIFEST_DIR")).join("../media.baker"));
    let needs: std::collections::HashMap<_, _> = baker::opt::share::copies(&program).members().collect();
    let channels = (0..).map(baker::ir::ChannelId).zip(&program.channels);
    let members = channels.filter(|(_, channel)| matches!(channel.from, Some(baker::ir::Source::Group(_))));
    let own: Vec<_> = members.map(|(id, _)| needs.get(&id)).collect();
    // Of 1370 bytes, headers of both versions of IP, and no more.
    assert!(own.len() == 2 && own.iter().all(|bytes| bytes.is_some_and(|bytes| *bytes < 128)), "{own:?}");
}
