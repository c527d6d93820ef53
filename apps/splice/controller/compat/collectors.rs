//! nfdump's collector gets requests as flows.

use std::process::Command;
use std::time::Duration;

use lab::Signal;

use crate::clients::wait;
use crate::network::{PATIENCE, Splice, must};
use crate::process::{Scratch, run};
use crate::servers::{self, Files};
use crate::{ADDRESSES, SIZES};

#[test]
fn nfdump_understands_flows() {
    let ipfix = "[ipfix]\ncollectors = [\"127.0.0.1\"]\ntemplates = \"1s\"\n\n[controllers.splice.limits]";
    let splice = Splice::start("tc", &[("[controllers.splice.limits]", ipfix)], None);
    let (scratch, files) = (Scratch::new(), Files::new(&SIZES));
    let flows = scratch.path("flows");
    std::fs::create_dir(&flows).unwrap();
    let collector = splice.host().command("nfcapd").args(["-l", &flows, "-b", "127.0.0.1", "-p", "4739"]);
    let mut collector = must(collector.spawn());
    let server = servers::nginx(&splice, &files);
    // It can read flows once it has got templates.
    std::thread::sleep(Duration::from_millis(1500));
    let mut asked = Vec::new();
    for address in ADDRESSES {
        wait(&splice, address);
        for size in SIZES {
            let url = format!("http://{address}/{size}");
            let told = "%{local_ip} %{local_port} %{size_request} %{size_header} %{size_download}";
            let words = ["curl", "-sf", "--globoff", "-o", "/dev/null", "-w", told, &url];
            let counted = must(splice.client.check(&words)).text();
            let words: Vec<&str> = counted.trim().split(' ').collect();
            let figure = |at: usize| words[at].parse::<u64>().unwrap();
            asked.push(format!("{} {} {} {}", words[0], words[1], figure(2), figure(3) + figure(4)));
        }
    }
    // Flows are sent within a fifth of a second once they are over.
    splice.wait("flows are missing", |splice| {
        splice.json(&["status"])[0]["ipfix"]["flows"].as_u64().unwrap() >= asked.len() as u64
    });
    std::thread::sleep(Duration::from_secs(1));
    must(collector.signal(Signal::SIGINT));
    let output = must(collector.wait(PATIENCE));
    assert_eq!(output.status.code(), Some(0), "{output}");
    let mut nfdump = Command::new("nfdump");
    nfdump.args(["-R", &flows, "-q", "-N", "-6", "-o", "fmt:%sa %sp %ibyt %obyt"]);
    let found = run(nfdump).ok();
    let found: Vec<String> = found.lines().map(|line| line.split_whitespace().collect::<Vec<_>>().join(" ")).collect();
    for own in &asked {
        assert!(found.contains(own), "{own} is not in\n{}", found.join("\n"));
    }
    server.stop();
    splice.stop();
}
