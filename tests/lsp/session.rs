//! What is answered about right and wrong programs.

use serde_json::{Value, json};

use crate::SWITCH;
use crate::client::{Client, find};

const URI: &str = "file:///nowhere/l3switch.baker";

/// The text of a hover at the `n`th `what`.
#[track_caller]
fn hover(client: &mut Client, text: &str, what: &str, n: usize) -> String {
    let answer = client.at("hover", URI, find(text, what, n, 0));
    answer["contents"]["value"].as_str().unwrap_or_else(|| panic!("no hover on {what}: {answer}")).to_string()
}

/// Labels of the completions behind the first `what`.
#[track_caller]
fn completions(client: &mut Client, text: &str, what: &str) -> Vec<String> {
    let answer = client.at("completion", URI, find(text, what, 0, what.encode_utf16().count() as u32));
    answer.as_array().unwrap().iter().map(|item| item["label"].as_str().unwrap().to_string()).collect()
}

#[test]
fn a_session_begins_and_ends() {
    let mut client = Client::silent();
    let answer = client.request("initialize", json!({ "capabilities": {} }));
    let can = &answer["result"]["capabilities"];
    assert_eq!(can["positionEncoding"], "utf-16");
    for what in ["hover", "definition", "completion", "documentFormatting", "documentSymbol", "semanticTokens"] {
        assert!(can[format!("{what}Provider")] != Value::Null, "{what}: {can}");
    }
    client.tell("initialized", json!({}));
    let answer = client.request("textDocument/nosuch", json!({}));
    assert_eq!(answer["error"]["code"], -32601, "{answer}");
    let answer = client.request("textDocument/hover", json!({ "textDocument": 7 }));
    assert_eq!(answer["error"]["code"], -32602, "{answer}");
    client.tell("$/setTrace", json!({ "value": "off" }));
    assert_eq!(client.at("hover", "file:///not/open.baker", (0, 0)), Value::Null);
    assert_eq!(client.end(), Some(0));
    // An editor that ends without a word is no error.
    assert_eq!(Client::new().leave(), Some(0));
    // What is no protocol at all is one.
    let mut client = Client::silent();
    client.write(b"hello\r\n\r\n");
    assert_eq!(client.leave(), Some(1));
}

#[test]
fn diagnostics_with_both_places() {
    let mut client = Client::new();
    assert_eq!(client.open(URI, SWITCH), [] as [Value; 0]);
    let wrong = SWITCH.replace(
        "        if (last == 0) { packet_drop(pkt, nowhere_to_flood); return; }\n",
        "        if (last == 0) { packet_drop(pkt, nowhere_to_flood); }\n",
    );
    assert_ne!(wrong, SWITCH);
    client.change(URI, &wrong);
    let found = client.diagnostics(URI);
    assert_eq!(found.len(), 1, "{found:?}");
    assert_eq!((&found[0]["code"], &found[0]["severity"]), (&json!("handle-perhaps-gone"), &json!(1)));
    assert!(found[0]["message"].as_str().unwrap().contains("help: "), "{found:?}");
    let dropped = find(&wrong, "pkt, nowhere_to_flood", 0, 0);
    let related = &found[0]["relatedInformation"][0];
    assert_eq!(related["location"]["uri"], URI);
    assert_eq!(
        related["location"]["range"]["start"],
        json!({ "line": dropped.0, "character": dropped.1 }),
        "{related}"
    );
    // Once it is closed nothing is wrong with it.
    client.tell("textDocument/didClose", json!({ "textDocument": { "uri": URI } }));
    assert_eq!(client.diagnostics(URI), [] as [Value; 0]);
    // Syntax errors, and those of a file that only the editor has.
    let uri = "untitled:Untitled-1";
    let found = client.open(uri, "const u8 /* 𝄞 */ A = ;\n");
    assert_eq!(found[0]["range"]["start"], json!({ "line": 0, "character": 22 }), "{found:?}");
    assert_eq!(client.end(), Some(0));
}

/// An editor gets the first hundred mistakes, and how many more there are.
#[test]
fn many_diagnostics() {
    let mut client = Client::new();
    let text: String = (0..5000).map(|line| format!("const u8 A{line} = {};\n", 256 + line)).collect();
    let found = client.open(URI, &text);
    assert_eq!(found.len(), 101);
    assert!(found[..100].iter().all(|one| one["code"] == "constant-out-of-range"));
    let last = &found[100];
    assert_eq!(last["message"], "4900 more errors from here on");
    assert_eq!((&last["range"]["start"]["line"], &last["severity"]), (&json!(100), &json!(1)), "{last}");
    assert_eq!(client.end(), Some(0));
}

#[test]
fn imported_files_are_taken_from_the_editor_then_the_disk() {
    let mut client = Client::new();
    client.scratch.write("mine one.baker", "const u8 MINE = ;");
    let uri = |name: &str| format!("file://{}", client.scratch.path(name)).replace(' ', "%20");
    let (main, mine) = (uri("main.baker"), uri("mine one.baker"));
    let text = "import \"mine one\";\nconst u8 MORE = MINE + 1;\n";
    let found = client.open(&main, text);
    assert_eq!(found.len(), 1, "{found:?}");
    assert_eq!(
        found[0]["range"],
        json!({ "start": { "line": 0, "character": 0 }, "end": { "line": 0, "character": 18 } })
    );
    assert!(found[0]["message"].as_str().unwrap().starts_with("in /"), "{found:?}");
    let related = &found[0]["relatedInformation"][0]["location"];
    assert_eq!((&related["uri"], &related["range"]["start"]["character"]), (&json!(mine), &json!(16)));
    // What is typed counts more than what is saved, in the files that import it too.
    assert_eq!(client.open(&mine, "const u8 MINE = 3;"), [] as [Value; 0]);
    assert_eq!(client.diagnostics(&main), [] as [Value; 0]);
    let found = client.at("definition", &main, find(text, "MINE", 0, 1));
    assert_eq!((&found["uri"], &found["range"]["start"]["character"]), (&json!(mine), &json!(9)), "{found}");
    let value = client.at("hover", &main, find(text, "MORE", 0, 1))["contents"]["value"].to_string();
    assert!(value.contains("= 4"), "{value}");
    assert_eq!(client.end(), Some(0));
}

#[test]
fn hover_tells_types_places_and_costs() {
    let mut client = Client::new();
    client.open(URI, SWITCH);
    let mut at = |what: &str, n: usize| hover(&mut client, SWITCH, what, n);
    for (what, n, parts) in [
        (
            "ttl <= 1",
            0,
            &[
                "ttl : 8;",
                "At byte 8 of the `ipv4` header, 8 bits: `u8`",
                "touches 1 byte (8).",
                "updates `checksum` (RFC 1624)",
            ][..],
        ),
        ("total_length > port_mtu", 0, &["touches 2 bytes (2 to 3)"]),
        (
            "dst;\n        bool is_arp",
            0,
            &["At byte 0 of the `ether` header, 48 bits: `mac_addr_t`", "6 bytes (0 to 5)"],
        ),
        ("ip->ttl", 0, &["ipv4_packet_t *ip", "20 bytes are there"]),
        ("ipv4_require(ip)", 0, &["void ipv4_require(ipv4_packet_t *ip)"]),
        ("domain = domain;", 0, &["metadata { domain : u8; }", "1 byte of the packet's metadata"]),
        ("no_domain)", 0, &["drop_reason no_domain;"]),
        ("no_next_hop)", 0, &["A drop reason"]),
        (
            "l2_clsfr",
            0,
            &[
                "ppf l2_clsfr(ether_packet_t *pkt) from input",
                "`truncated`",
                "`no_domain`",
                "Of the module `l3_switch`",
            ],
        ),
        ("route(", 0, &["`bad_version`", "`no_next_hop`"]),
        ("next_hops[*hop]", 0, &["array<next_hop_t> next_hops[65536];", "A value has 16 bytes"]),
        ("fib[ip", 0, &["longest matching prefix", "DIR-24-8"]),
        ("packet_decap", 0, &["Consumes the handle", "`malformed`"]),
        ("ETH_TYPE_ARP", 0, &["const u16 ETH_TYPE_ARP = 0x0806;", "= 2054 = 0x806"]),
        (
            "learn_station(domain",
            0,
            &["void learn_station(u8 domain, mac_addr_t mac, u8 port)", "Learns behind which port a station is"],
        ),
        ("gateway == 0", 0, &["gateway : ipv4_addr_t;", "A field of `next_hop_t`", "4 bytes"]),
        ("station_t { domain: ", 0, &["struct station_t", "16 bytes in a table"]),
        ("host_cc -> host", 0, &["out ether", "Wired: `l3_switch.host_cc -> host`"]),
        ("mac_addr_t router", 0, &["type mac_addr_t = u48;", "48 bits, unsigned"]),
        ("port];", 0, &["rx.port : port_t;"]),
        ("u64 ports", 0, &["64 bits, unsigned"]),
        ("port_mtu(port)", 0, &["u32 port_mtu(port)", "Bytes behind the Ethernet header"]),
        ("net/ether\"", 0, &["lib/net/ether.baker"]),
        ("rx -> l3", 0, &["Frames as they come in"]),
    ] {
        let text = at(what, n);
        for part in parts {
            assert!(text.contains(part), "{part:?} is not in the hover on {what}:\n{text}");
        }
    }
    assert_eq!(client.at("hover", URI, find(SWITCH, "rx.port]", 0, 0)), Value::Null, "a part of a name");
    assert_eq!(client.at("hover", URI, (3, 0)), Value::Null, "a comment");
    let text = "import \"net/ipv4\";\nbool has_options(ipv4_packet_t *ip) { return ip->ihl > 5; }\n";
    client.change(URI, text);
    let found = hover(&mut client, text, "ihl > 5", 0);
    for part in ["At byte 0, bit 4 of the `ipv4` header, 4 bits", "1 byte (0), shared with `version`"] {
        assert!(found.contains(part), "{part:?} is not in {found}");
    }
    assert_eq!(client.end(), Some(0));
}

#[test]
fn definitions_are_found_across_files() {
    let mut client = Client::new();
    client.open(URI, SWITCH);
    let here = |what: &str, n: usize, further: u32| find(SWITCH, what, n, further);
    for (from, to) in [
        (here("pkt->type == ETH_TYPE_ARP", 0, 1), here("*pkt)", 0, 1)),
        (here("forward) {", 0, 0), here("bool forward", 0, 5)),
        (here("l2_bridge.stations", 0, 0), here("module l2_bridge", 0, 7)),
        (here("stations[station]", 0, 0), here("stations[65536]", 0, 0)),
        (here("mac: mac", 0, 0), here("mac : mac_addr_t; }", 0, 0)),
        (here("not_to = ", 0, 0), here("not_to : u8", 0, 0)),
        (here("l3_switch.input", 0, 10), here("in  ether input", 0, 10)),
        (here("from input", 0, 5), here("in  ether input", 0, 10)),
        (here("no_domain)", 0, 0), here("no_domain,", 0, 0)),
        (here("station == null", 0, 0), here("fdb_entry_t *station", 0, 13)),
        (here("into next_hops", 0, 5), here("next_hops[65536]", 0, 0)),
        (here("heard != 0 && now_s()", 0, 0), here("heard : u32", 0, 0)),
        (here("entry->heard != 0", 0, 0), here("fdb_entry_t *entry)", 0, 13)),
        (here("over stations", 0, 5), here("stations[65536]", 0, 0)),
        (here("port < 64", 0, 0), here("u8 port = 1", 0, 3)),
        (here("next.gateway", 0, 5), here("gateway : ", 0, 0)),
    ] {
        let found = client.at("definition", URI, from);
        assert_eq!(found["uri"], URI, "from {from:?}: {found}");
        assert_eq!(found["range"]["start"], json!({ "line": to.0, "character": to.1 }), "from {from:?}");
    }
    // Files of the built-in library: the editor gets copies of them.
    for (what, further, file, line) in [
        ("ETH_TYPE_ARP;", 0, "net/ether", "const u16 ETH_TYPE_ARP"),
        ("ipv4_packet_t *ip", 0, "net/ipv4", "protocol ipv4"),
        ("->ttl", 2, "net/ipv4", "    ttl : 8"),
        ("mac_is_group(", 0, "net/ether", "bool mac_is_group"),
        ("\"net/arp\"", 1, "net/arp", "// Address resolution"),
    ] {
        let found = client.at("definition", URI, here(what, 0, further));
        let path = client.scratch.path(&format!("cache/millrace/library/{file}.baker"));
        assert_eq!(found["uri"], format!("file://{path}"), "{what}: {found}");
        let text = std::fs::read_to_string(&path).unwrap();
        let target = text.lines().nth(found["range"]["start"]["line"].as_u64().unwrap() as usize).unwrap();
        assert!(target.starts_with(line), "{what} leads to {target:?}");
        assert_eq!(client.open(&format!("file://{path}"), &text), [] as [Value; 0], "{path}");
    }
    assert_eq!(client.at("definition", URI, here("packet_drop", 0, 0)), Value::Null);
    assert_eq!(client.end(), Some(0));
}

#[test]
fn instances_of_a_module_are_known() {
    let text = "import \"net/ether\";
module count {
    in ether input;
    out ether output;
    hash<mac_addr_t, u32> seen[8];
    ppf note(ether_packet_t *pkt) from input {
        if (left.seen[pkt->src] == null) { packet_drop(pkt, no_port); return; }
        channel_put(output, pkt);
    }
}
program {
    count left, right;
    rx -> left.input;
    left.output -> right.input;
    right.output -> tx;
}
";
    let mut client = Client::new();
    assert_eq!(client.open(URI, text), [] as [Value; 0]);
    for (from, to) in [
        (find(text, "left.seen", 0, 0), find(text, "left, right", 0, 0)),
        (find(text, "left.seen", 0, 5), find(text, "seen[8]", 0, 0)),
        (find(text, "right.input", 0, 6), find(text, "input;", 0, 0)),
        (find(text, "count left", 0, 0), find(text, "count {", 0, 0)),
    ] {
        let found = client.at("definition", URI, from);
        assert_eq!(found["range"]["start"], json!({ "line": to.0, "character": to.1 }), "from {from:?}: {found}");
    }
    for (what, n, part) in [
        ("right;", 0, "An instance of the module `count`."),
        ("output;", 0, "`left.output -> right.input`"),
        ("seen[pkt", 0, "hash<mac_addr_t, u32> seen[8];"),
    ] {
        assert!(hover(&mut client, text, what, n).contains(part), "{what}");
    }
    let offered = completions(&mut client, text, "if (left.");
    assert!(offered.contains(&"seen".to_string()), "{offered:?}");
    let offered = completions(&mut client, text, "rx -> ");
    assert!(["left", "right", "tx"].into_iter().all(|end| offered.contains(&end.to_string())), "{offered:?}");
    assert_eq!(client.end(), Some(0));
}

#[test]
fn parameters_of_a_module_are_known() {
    let text = "import \"net/ip\";
module hop(protocol ip, type addr_t, table seen) {
    in ether input;
    out ether output;
    const u32 HEADER = ip.size;
    hash<addr_t, u8> known[8];
    ppf check(ether_packet_t *pkt) from input {
        ip_packet_t *inner = packet_peek(pkt);
        u32 *count = seen[HEADER];
        if (count == null || ip_hops(inner) == 0) { packet_drop(pkt, no_port); return; }
        pkt->metadata.tx.port = store.next(inner->version);
        channel_put(output, pkt);
    }
}
module store {
    in ether input;
    out ether output;
    array<u32> sizes[64];
    // The port for a version.
    u8 next(u8 version) { return version >> 1; }
    ppf send(ether_packet_t *pkt) from input { channel_put(output, pkt); }
}
program {
    hop(ipv6, ipv6_addr_t, store.sizes) hop6;
    hop(ipv4, ipv4_addr_t, store.sizes) hop4;
    rx -> hop6.input;
    hop6.output -> hop4.input;
    hop4.output -> store.input;
    store.output -> tx;
}
";
    let mut client = Client::new();
    assert_eq!(client.open(URI, text), [] as [Value; 0]);
    for (from, to) in [
        (find(text, "ip.size", 0, 0), find(text, "protocol ip", 0, 9)),
        (find(text, "ip_packet_t", 0, 0), find(text, "protocol ip", 0, 9)),
        (find(text, "addr_t, u8", 0, 0), find(text, "type addr_t", 0, 5)),
        (find(text, "seen[HEADER]", 0, 0), find(text, "table seen", 0, 6)),
        (find(text, "store.next", 0, 6), find(text, "next(u8", 0, 0)),
        (find(text, "hop(ipv6", 0, 0), find(text, "hop(protocol", 0, 0)),
        (find(text, "store.sizes", 0, 6), find(text, "sizes[64]", 0, 0)),
    ] {
        let found = client.at("definition", URI, from);
        assert_eq!(found["range"]["start"], json!({ "line": to.0, "character": to.1 }), "from {from:?}: {found}");
    }
    for (what, n, part) in [
        ("ip.size", 0, "A parameter. In its instances: `ipv6`, `ipv4`."),
        ("HEADER]", 0, "= 40"),
        ("inner = packet_peek", 0, "40 bytes are there"),
        ("version)", 0, "version : 4 = 6;"),
        ("ip_hops(", 0, "u8 ip_hops(ipv6_packet_t *ip)"),
        ("next(inner", 0, "The port for a version."),
        ("hop(ipv4", 0, "module hop(protocol ip, type addr_t, table seen)"),
        ("hop4.input", 0, "An instance of the module `hop`."),
    ] {
        let found = hover(&mut client, text, what, n);
        assert!(found.contains(part), "{what}: {found}");
    }
    // The fields that packets of both protocols have.
    let offered = completions(&mut client, text, "store.next(inner->");
    assert!(offered.contains(&"version".to_string()) && offered.contains(&"metadata".to_string()), "{offered:?}");
    assert!(!offered.contains(&"hop_limit".to_string()), "{offered:?}");
    assert_eq!(completions(&mut client, text, "HEADER = ip."), ["size"]);
    let offered = completions(&mut client, text, "ether_packet_t *pkt) from input {\n        ");
    assert!(["ip_packet_t", "seen", "ipv4_packet_t"].iter().all(|name| offered.contains(&name.to_string())));
    let offered = completions(&mut client, text, "module hop(");
    assert!(["protocol", "type", "const", "table"].iter().all(|word| offered.contains(&word.to_string())));
    // What is wrong says in which instances it is.
    client.change(URI, &text.replace("inner->version", "inner->hop_limit"));
    let found = client.diagnostics(URI);
    assert_eq!(found.len(), 1, "{found:?}");
    let message = found[0]["message"].as_str().unwrap();
    assert!(message.contains("in `hop(ipv4, ipv4_addr_t, store.sizes) hop4`"), "{message}");
    assert_eq!(found[0]["range"]["start"]["line"], 10);
    assert_eq!(client.end(), Some(0));
}

#[test]
fn controllers_and_timers_are_known() {
    let text = "import \"net/ether\";
module m {
    in ether input;
    out ether output;
    hash<mac_addr_t, u32> seen[8];
    // Which port a source belongs to.
    extern port_t port_of(mac_addr_t source, u16 kind);
    ppf note(ether_packet_t *pkt) from input {
        pkt->metadata.tx.port = port_of(pkt->src, pkt->type);
        channel_put(output, pkt);
    }
    timer age(mac_addr_t mac, u32 *count) over seen every 30s {
        *count = *count / 2;
    }
}
program {
    rx -> m.input;
    m.output -> controller slow;
    controller slow -> m.input;
}
";
    let mut client = Client::new();
    assert_eq!(client.open(URI, text), [] as [Value; 0]);
    for (from, to) in [
        (find(text, "port_of(pkt", 0, 0), find(text, "port_of(mac", 0, 0)),
        (find(text, "over seen", 0, 5), find(text, "seen[8]", 0, 0)),
        (find(text, "*count / 2", 0, 1), find(text, "*count)", 0, 1)),
    ] {
        let found = client.at("definition", URI, from);
        assert_eq!(found["range"]["start"], json!({ "line": to.0, "character": to.1 }), "from {from:?}: {found}");
    }
    for (what, n, part) in [
        ("port_of(pkt", 0, "extern port_t port_of(mac_addr_t source, u16 kind);"),
        ("port_of(pkt", 0, "Which port a source belongs to."),
        ("age(mac", 0, "timer age(mac_addr_t mac, u32 *count) over seen every 30s"),
        ("slow;", 0, "controller NAME -> module.input;"),
        ("output;", 0, "`m.output -> controller slow`"),
        ("source,", 0, "mac_addr_t source"),
    ] {
        assert!(hover(&mut client, text, what, n).contains(part), "{what}: {}", hover(&mut client, text, what, n));
    }
    let offered = completions(&mut client, text, "rx -> ");
    assert!(offered.contains(&"controller".to_string()), "{offered:?}");
    let offered = completions(&mut client, text, "seen[8];\n    ");
    assert!(["extern", "timer", "over", "every"].iter().all(|word| offered.contains(&word.to_string())), "{offered:?}");
    let symbols = client.about("documentSymbol", URI);
    let children = symbols[0]["children"].as_array().unwrap();
    let names: Vec<&str> = children.iter().map(|child| child["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["input", "output", "seen", "port_of", "note", "age"]);
    assert_eq!(client.end(), Some(0));
}

#[test]
fn completion_offers_what_can_stand_there() {
    let mut client = Client::new();
    client.open(URI, SWITCH);
    // Half-typed statements, put in front of another.
    let mut after = |typed: &str| {
        let text = SWITCH.replacen("        ip->ttl -= 1;\n", &format!("        {typed}\n        ip->ttl -= 1;\n"), 1);
        assert_ne!(text, SWITCH);
        client.change(URI, &text);
        completions(&mut client, &text, typed)
    };
    let has = |found: &[String], wanted: &[&str]| {
        for wanted in wanted {
            assert!(found.iter().any(|f| f == wanted), "no {wanted} in {found:?}");
        }
    };
    let found = after("ip->");
    has(&found, &["ttl", "metadata", "total_length", "checksum"]);
    assert!(!found.contains(&"sender_ip".to_string()) && !found.contains(&"if".to_string()), "{found:?}");
    assert_eq!(after("ip->t"), found, "the editor narrows them");
    has(&after("ip->metadata."), &["domain", "dst_mac", "rx", "tx"]);
    assert_eq!(after("ip->metadata.rx."), ["port"]);
    assert_eq!(after("next."), ["domain", "gateway", "src"]);
    assert_eq!(after("next_hops[3]."), ["domain", "gateway", "src"]);
    has(&after("l2_bridge."), &["stations", "members", "flood"]);
    let found = after("if (n");
    has(&found, &["next", "hop", "ip", "fib", "neighbours", "host_cc", "null", "packet_drop", "no_route", "truncated"]);
    has(&found, &["u32", "mac_addr_t", "ipv4_packet_t", "return", "ETH_TYPE_ARP", "l2_bridge"]);
    assert!(!found.contains(&"stations".to_string()), "of another module: {found:?}");
    assert!(!found.contains(&"last".to_string()), "a variable of another body: {found:?}");
    let mut in_file = |from: &str, to: &str| {
        let text = SWITCH.replacen(from, to, 1);
        client.change(URI, &text);
        completions(&mut client, &text, to)
    };
    has(&in_file("import \"net/arp", "import \"ne"), &["net/arp", "net/ether", "net/ipv4"]);
    has(&in_file("    rx -> l3_switch.input;", "    rx -> "), &["l3_switch", "eth_encap", "tx", "host"]);
    assert_eq!(in_file("    rx -> l3_switch.input;", "    rx -> arp_snoop."), ["input", "learn", "output"]);
    has(&in_file("module arp_snoop {\n", "module arp_snoop {\n    "), &["in", "out", "ppf", "hash", "ether", "u32"]);
    has(&in_file("// Puts the Ethernet", "zz"), &["module", "metadata", "protocol"]);
    has(&in_file("struct station_t { domain : u8;", "struct station_t { domain : "), &["u8", "mac_addr_t"]);
    assert_eq!(in_file("// Puts the Ethernet", "// Puts th"), [] as [&str; 0], "in a comment");
    assert_eq!(client.end(), Some(0));
}

/// An arm of a `switch` is a scope, as a block is: what is declared in it is known there, and nowhere else.
#[test]
fn variables_of_a_switch_arm_are_known() {
    let text = "import \"net/ipv4\";
struct hop_t { mac : mac_addr_t; vlan : u16; }
module m {
    in  ether input;
    out ether output;
    hash<u32, hop_t> hops[16];
    ppf p(ether_packet_t *pkt) from input {
        switch (pkt->type) {
        case 1:
            hop_t *hop = hops[1];
            if (hop != null)
                pkt->dst = hop->mac;
        case ETH_TYPE_IPV4:
            ipv4_packet_t *ip = packet_peek(pkt);
            hop_t other = hop_t { mac: 1, vlan: 2 };
            ip->ttl = (u8) other.vlan;
        default:
        }
        channel_put(output, pkt);
    }
}
program { rx -> m.input; m.output -> tx; }
";
    let mut client = Client::new();
    assert_eq!(client.open(URI, text), [] as [Value; 0]);
    assert!(hover(&mut client, text, "hop->mac", 0).contains("hop_t *hop"));
    assert!(hover(&mut client, text, "other.vlan", 0).contains("hop_t other"));
    assert!(hover(&mut client, text, "ttl", 0).contains("ipv4"));
    let line_of = |answer: &Value| answer["range"]["start"]["line"].as_u64();
    let at = client.at("definition", URI, find(text, "ip->ttl", 0, 0));
    assert_eq!(line_of(&at), Some(13), "{at}");
    let at = client.at("definition", URI, find(text, "other.vlan", 0, 6));
    assert_eq!(line_of(&at), Some(1), "{at}");
    // Half typed.
    let half = text.replace("ip->ttl = (u8) other.vlan;", "ip->");
    client.change(URI, &half);
    let found = completions(&mut client, &half, "ip->");
    assert!(["ttl", "protocol", "metadata"].iter().all(|name| found.iter().any(|f| f == name)), "{found:?}");
    let half = text.replace("ip->ttl = (u8) other.vlan;", "other.");
    client.change(URI, &half);
    assert_eq!(completions(&mut client, &half, "other."), ["mac", "vlan"]);
    let half = text.replace("ip->ttl = (u8) other.vlan;", "if (o");
    client.change(URI, &half);
    let found = completions(&mut client, &half, "if (o");
    assert!(["ip", "other", "pkt"].iter().all(|name| found.iter().any(|f| f == name)), "{found:?}");
    assert!(!found.iter().any(|name| name == "hop"), "a variable of another arm: {found:?}");
    assert_eq!(client.end(), Some(0));
}

/// Of functions of one name the one that the checker takes, a channel and not the PPF of its name: while a semicolon is
/// missing.
#[test]
fn a_wrong_program_means_what_the_checker_takes_it_for() {
    let text = "import \"net/ipv4\";
import \"net/ipv6\";
u8 left(ipv4_packet_t *ip) { return ip->ttl; }
u8 left(ipv6_packet_t *ip) { return ip->hop_limit; }
module m {
    in ether input;
    out ether output;
    ppf rest(ether_packet_t *pkt) from rest {
        ipv6_packet_t *six = packet_peek(pkt);
        u8 hops = left(six);
        nothing(left(six));
        channel_put(rest, pkt)
    }
    channel ether rest;
}
";
    let mut client = Client::new();
    assert!(!client.open(URI, text).is_empty());
    let mut line_of = |needle: &str, at: u32| {
        let answer = client.at("definition", URI, find(text, needle, 0, at));
        answer["range"]["start"]["line"].as_u64()
    };
    assert_eq!([line_of("left(six);", 0), line_of("left(six))", 0)], [Some(3), Some(3)]);
    assert_eq!([line_of("rest, pkt", 0), line_of("rest {", 0)], [Some(13), Some(13)]);
    assert_eq!([line_of("nothing", 0), line_of("six))", 0)], [None, Some(8)]);
    assert_eq!(client.end(), Some(0));
}

#[test]
fn formatting_is_that_of_millrace_fmt() {
    let mut client = Client::new();
    let text = "const u8   𝄞 = 1;";
    client.open(URI, text);
    assert_eq!(client.about("formatting", URI), Value::Null, "a mistake: no change");
    client.change(URI, "const u8 A=1;\n\n\n// 𝄞");
    let edit = client.about("formatting", URI);
    assert_eq!(
        edit,
        json!([{
            "range": { "start": { "line": 0, "character": 0 }, "end": { "line": 3, "character": 5 } },
            "newText": "const u8 A = 1;\n\n// 𝄞\n",
        }])
    );
    client.change(URI, SWITCH);
    assert_eq!(client.about("formatting", URI), json!([]));
    assert_eq!(client.end(), Some(0));
}

#[test]
fn the_outline() {
    let mut client = Client::new();
    client.open(URI, SWITCH);
    let symbols = client.about("documentSymbol", URI);
    let names = |symbols: &Value| -> Vec<String> {
        symbols.as_array().unwrap().iter().map(|s| s["name"].as_str().unwrap().to_string()).collect()
    };
    let top = names(&symbols);
    let wanted = "metadata drop_reason station_t fdb_entry_t neighbour_t next_hop_t learn_station station_port l3_switch arp_snoop l3_forward eth_encap l2_bridge program";
    assert_eq!(top, wanted.split(' ').collect::<Vec<_>>());
    let switch = &symbols[8];
    let wanted = "input l2_bridge_cc arp_cc host_cc l3_forward_cc mac_addrs domains l2_clsfr";
    assert_eq!(names(&switch["children"]), wanted.split(' ').collect::<Vec<_>>());
    let line = find(SWITCH, "module l3_switch", 0, 0).0;
    assert_eq!(
        switch["selectionRange"],
        json!({ "start": { "line": line, "character": 7 }, "end": { "line": line, "character": 16 } })
    );
    assert_eq!(client.end(), Some(0));
}

#[test]
fn semantic_tokens_know_what_words_are() {
    let mut client = Client::new();
    let text = "/* 𝄞\n b */ struct s { type : u8; }\nvoid f(u8 a) { s x = s { type: a }; x.type = (u8) LIMIT; packet_length(x); }\nconst u8 LIMIT = 9;\n";
    client.open(URI, text);
    let legend = client_legend();
    let tokens = client.about("semanticTokens/full", URI);
    let data: Vec<u64> = tokens["data"].as_array().unwrap().iter().map(|n| n.as_u64().unwrap()).collect();
    let lines: Vec<Vec<u16>> = text.lines().map(|line| line.encode_utf16().collect()).collect();
    let (mut line, mut column) = (0, 0);
    let mut found = Vec::new();
    for token in data.chunks(5) {
        column = if token[0] == 0 { column + token[1] } else { token[1] };
        line += token[0];
        let (from, to) = (column as usize, (column + token[2]) as usize);
        found.push((String::from_utf16(&lines[line as usize][from..to]).unwrap(), legend[token[3] as usize]));
    }
    let kind = |word: &str, n: usize| {
        found.iter().filter(|(w, _)| w == word).nth(n).unwrap_or_else(|| panic!("{word} in {found:?}")).1
    };
    assert_eq!((kind("/* 𝄞", 0), kind(" b */", 0)), ("comment", "comment"));
    assert_eq!(
        (kind("struct", 0), kind("s", 0), kind("s", 1), kind("s", 2)),
        ("keyword", "struct", "struct", "struct")
    );
    assert_eq!((kind("type", 0), kind("type", 1), kind("type", 2)), ("property", "property", "property"));
    assert_eq!((kind("u8", 0), kind("u8", 2), kind("void", 0)), ("type", "type", "type"));
    assert_eq!(
        (kind("a", 0), kind("a", 1), kind("x", 0), kind("x", 1)),
        ("parameter", "parameter", "variable", "variable")
    );
    assert_eq!((kind("LIMIT", 0), kind("packet_length", 0), kind("f", 0)), ("enumMember", "function", "function"));
    assert_eq!((kind("9", 0), kind("=", 0), kind("const", 0)), ("number", "operator", "keyword"));
    assert_eq!(client.end(), Some(0));
}

/// The kinds of tokens that the server announces.
fn client_legend() -> Vec<&'static str> {
    let mut client = Client::silent();
    let answer = client.ask("initialize", json!({ "capabilities": {} }));
    let types = &answer["capabilities"]["semanticTokensProvider"]["legend"]["tokenTypes"];
    types.as_array().unwrap().iter().map(|t| &*t.as_str().unwrap().to_string().leak()).collect()
}
