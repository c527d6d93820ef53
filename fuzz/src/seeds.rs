//! Seeds, made of the repository's own files.

use std::fs;
use std::path::{Path, PathBuf};

use control::cases;

use crate::targets::{packet, switch};

const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/..");

/// All files with an ending below some folders, by name.
fn files(folders: &[&str], ending: &str) -> Vec<PathBuf> {
    let mut open: Vec<PathBuf> = folders.iter().map(|folder| Path::new(ROOT).join(folder)).collect();
    let mut found = Vec::new();
    while let Some(folder) = open.pop() {
        let entries = fs::read_dir(&folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
        for entry in entries {
            let path = entry.unwrap_or_else(|error| panic!("{}: {error}", folder.display())).path();
            if path.is_dir() {
                open.push(path);
            } else if path.extension().is_some_and(|known| known == ending) {
                found.push(path);
            }
        }
    }
    found.sort();
    found
}

fn read(path: PathBuf) -> Vec<u8> {
    fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// Baker programs, and those of the language's documentation.
pub fn programs() -> Vec<Vec<u8>> {
    let documentation = String::from_utf8_lossy(&read(Path::new(ROOT).join("docs/language.md"))).into_owned();
    let examples = documentation.split("```c").skip(1).filter_map(|rest| rest.split_once('\n')?.1.split("```").next());
    let examples = examples.map(|text| text.as_bytes().to_vec());
    files(&["lib", "apps", "examples"], "baker").into_iter().map(read).chain(examples).collect()
}

/// Configurations of the L3 switch.
pub fn configurations() -> Vec<Vec<u8>> {
    let own = [
        "[frames]\ncount = 4096\nsize = 4096\n[workers]\ncount = 2\nmode = \"busy\"\ncpus = [0, 1]\n",
        "[control]\ninstance = \"edge\"\nsocket = \"/run/e.sock\"\ngroup = \"netops\"\n",
        "[ports.p1]\nnumber = 1\ndevice = \"pcap:a.pcap,b.pcap\"\nhost = \"p2\"\n[ports.p2]\nnumber = 2\ndevice = \"mem\"\n",
        "[[tables.l2_bridge.stations]]\nkey = { domain = 2, mac = \"02:00:00:00:00:13\" }\nvalue = { port = 3, heard = 0 }\n",
    ];
    files(&["apps"], "toml").into_iter().map(read).chain(own.map(|text| text.as_bytes().to_vec())).collect()
}

/// Files of labs: the examples, and that of the documentation.
pub fn labs() -> Vec<Vec<u8>> {
    let documentation = String::from_utf8_lossy(&read(Path::new(ROOT).join("docs/operations.md"))).into_owned();
    let blocks = documentation.split("```toml\n").skip(1).filter_map(|rest| rest.split("```").next());
    let documented: Vec<_> =
        blocks.filter(|block| block.contains("[[links]]")).map(|text| text.as_bytes().to_vec()).collect();
    assert!(!documented.is_empty(), "docs/operations.md shows a lab");
    let own = [
        "[hosts.a]\n[hosts.b]\n[[links]]\nends = [\"a:eth0\", \"b:eth0\"]\n",
        "[hosts.a]\ndevices.x = { addresses = [\"fd00::1/64\"] }\n[hosts.b]\n[[links]]\nends = [\"b:y\", \"a:x\"]\nloss = \"1 %\"\n",
        "hosts = { a = {} }\nlinks = [{ ends = [\"a:p\", \"a:q\"], forward = { delay = \"1 s\", reorder = 1 } }]\n",
    ];
    let examples = files(&["examples"], "toml").into_iter().map(read);
    let examples = examples.filter(|text| String::from_utf8_lossy(text).contains("[[links]]"));
    examples.chain(documented).chain(own.map(|text| text.as_bytes().to_vec())).collect()
}

/// Sequences of packets: those of the L3 switch's cases.
pub fn packets() -> Vec<Vec<u8>> {
    let program = switch::program();
    let cases = files(&["apps/l3switch/cases"], "toml").into_iter().map(|path| {
        let case = cases::load(&path, program).unwrap_or_else(|error| panic!("{error}"));
        let received = case.steps.iter().filter_map(|step| match &step.enters {
            cases::Enters::Received { port, packet } => Some((*port, &packet[..])),
            _ => None,
        });
        packet::encode(received)
    });
    cases.collect()
}

/// Requests to the control socket, a line each.
pub fn requests() -> Vec<Vec<u8>> {
    [
        r#"{"request": "status"}"#,
        r#"{"request": "counters"}"#,
        r#"{"request": "tables"}"#,
        r#"{"request": "table_get", "table": "l3_forward.fib", "key": "10.0.1.0/24"}"#,
        r#"{"request": "table_set", "table": "l3_forward.fib", "key": "10.0.3.0/24", "value": 2}"#,
        r#"{"request": "table_set", "table": "l2_bridge.stations", "key": {"domain": 1, "mac": "02:00:00:00:00:99"}, "value": {"port": "p1", "heard": 0}}"#,
        r#"{"request": "table_set", "table": "l3_forward.next_hops", "key": 7, "value": {"domain": 1, "gateway": "10.0.1.9", "src": "02:00:00:00:01:01"}}"#,
        r#"{"request": "table_load", "table": "l3_forward.fib", "entries": [{"key": "10.0.3.0/24", "value": 2}, {"key": "10.0.4.0/24", "value": 3}]}"#,
        r#"{"request": "table_load", "table": "l3_forward.next_hops", "entries": []}"#,
        r#"{"request": "table_del", "table": "l3_forward.fib", "key": "10.0.3.0/24"}"#,
        r#"{"request": "table_dump", "table": "l3_forward.neighbours"}"#,
        "{\"request\": \"status\"}\n\n{\"request\": \"ports\"}\n[]\nnull\n\"\\ud800\"",
    ]
    .map(|line| format!("{line}\n").into_bytes())
    .to_vec()
}

/// Packets as text: those of the L3 switch's cases, and the notation's other forms.
pub fn packet_texts() -> Vec<Vec<u8>> {
    let own = [
        "hex(00 01 02)/zero(4)/text(\"a\\n\\x00b\")/pad(60)",
        "ether(dst=ff:ff:ff:ff:ff:ff, src=02:00:00:00:00:11, type=0x0806)/arp(operation=1, sender_ip=10.0.1.11)",
        "ether()/ipv4(total_length=28, ttl=64)+hex(94 04 00 00)/hex(00)",
    ];
    let mut texts = own.map(|text| text.as_bytes().to_vec()).to_vec();
    for path in files(&["apps/l3switch/cases"], "toml") {
        let text = String::from_utf8_lossy(&read(path)).into_owned();
        // Strings that look like packets: with a layer and its bracket.
        texts.extend(text.split('"').filter(|part| part.contains('(')).map(|part| part.as_bytes().to_vec()));
    }
    texts.sort();
    texts.dedup();
    texts
}
