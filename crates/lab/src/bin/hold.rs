//! Holds a lab until its input ends, for the tests that kill it.
//!
//! `lab-hold [--user-namespace] [--peer THREAD]`: builds the L3 switch's network and one pair of linked hosts, checks
//! that they reach each other, starts a program in one, and prints `ready PID` with that program's process id. With
//! `--peer`, a device `held` of a namespace of this lab gets its other end, `watch`, in the network namespace of
//! THREAD, so that a process there sees when the lab's end is gone.

use std::io::Read;
use std::time::Duration;

use lab::{L3Switch, LinkConfig, Namespace, veth};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if arguments.iter().any(|argument| argument == "--user-namespace") {
        lab::enter_user_namespace()?;
    }
    if !lab::has_privileges()? {
        return Err("no privileges".into());
    }
    let network = L3Switch::new()?;
    let (a, b) = (Namespace::new("a")?, Namespace::new("b")?);
    veth(&a, "eth0", &b, "eth0")?;
    a.configure("eth0", &LinkConfig::host().address("192.0.2.1/24"))?;
    b.configure("eth0", &LinkConfig::host().address("192.0.2.2/24"))?;
    a.wait_running("eth0", Duration::from_secs(5))?;
    if !a.ping("192.0.2.2", Duration::from_secs(10))? {
        return Err("192.0.2.2 does not answer".into());
    }
    if let Some(at) = arguments.iter().position(|argument| argument == "--peer") {
        let peer = arguments.get(at + 1).ok_or("--peer needs a thread id")?;
        a.check(&["ip", "link", "add", "name", "held", "type", "veth", "peer", "name", "watch", "netns", peer])?;
    }
    let program = network.host(1).ns.command("sleep").arg("1000").spawn()?;
    println!("ready {}", program.id());
    std::io::stdin().read_to_end(&mut Vec::new())?;
    Ok(())
}
