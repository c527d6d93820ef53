//! Offloads that are on where they end TCP, as far as the kernel shows them: at a port's interface, and at the other
//! end of a virtual one where that lies in this network namespace or in one that has a name (`ip netns`).
//!
//! A virtual device leaves to hardware what it has none for: its kernel neither finishes checksums nor divides
//! super-packets, for the receiving kernel would take them as they are. XDP sees them, and a program there can't.

use std::fs::{self, File};
use std::os::fd::OwnedFd;

use crate::sys::{self, ethtool};
use crate::xdp::{Netlink, Peer};

/// Where network namespaces have names.
const NAMED: &str = "/run/netns";

/// What a device merges so that it can't be divided again, by the names that `ethtool -k` and `-K` have for it.
const MERGES: [(&str, &str); 2] = [("rx-lro", "lro"), ("rx-gro-list", "rx-gro-list")];

/// A line about packets that the interface merges for good, where a driver divides all others.
pub fn merged(interface: &str) -> Vec<String> {
    let line = || {
        let on = ethtool::are_on(&sys::inet_socket().ok()?, interface, MERGES.map(|(feature, _)| feature)).ok()?;
        let on: Vec<&str> = MERGES.iter().zip(on).filter(|(_, on)| *on).map(|((_, name), _)| *name).collect();
        let off = off(&on)?;
        Some(format!(
            "{interface}: merges packets that it receives ({}) into such as the kernel drops, for they can't be divided again: run \
             `ethtool -K {interface} {off}`",
            on.join(", ")
        ))
    };
    line().into_iter().collect()
}

/// A line about what the other end of an interface leaves unfinished, where a driver can't finish it.
pub fn of_peer(interface: &str) -> Vec<String> {
    undone_by_peer(interface).into_iter().collect()
}

fn undone_by_peer(interface: &str) -> Option<String> {
    let netlink = Netlink::new().ok()?;
    let index = sys::interface(&sys::inet_socket().ok()?, interface).ok()?.index;
    let Peer { index, namespace } = netlink.link(index).ok()?.peer?;
    let (peer, place, on) = match namespace {
        None => undone(index).map(|(peer, on)| (peer, None, on)),
        Some(number) => {
            let (name, file) = named(&netlink, number)?;
            let asked = std::thread::spawn(move || sys::enter_network(&file).ok().and_then(|()| undone(index)));
            asked.join().ok().flatten().map(|(peer, on)| (peer, Some(name), on))
        }
    }?;
    let off = off(&on)?;
    let at = place.as_ref().map_or(String::new(), |name| format!(" in the namespace {name}"));
    let enter = place.map_or(String::new(), |name| format!("ip netns exec {name} "));
    Some(format!(
        "{interface}: its other end {peer}{at} leaves checksums or segments to hardware that is not there ({}), so TCP fails: run \
         `{enter}ethtool -K {peer} {off}`",
        on.join(", ")
    ))
}

/// The name of an interface of this thread's network namespace, and what it leaves undone.
fn undone(index: i32) -> Option<(String, Vec<&'static str>)> {
    let socket = sys::inet_socket().ok()?;
    let name = sys::interface_name(&socket, index).ok()?;
    let on = on_at(&socket, &name, &[("tx", ethtool::TX_CHECKSUM), ("tso", ethtool::TSO)]);
    Some((name, on))
}

/// Which of these are on.
fn on_at(socket: &OwnedFd, interface: &str, of: &[(&'static str, ethtool::Feature)]) -> Vec<&'static str> {
    let is_on = |feature| ethtool::is_on(socket, interface, feature).unwrap_or(false);
    of.iter().filter(|(_, feature)| is_on(*feature)).map(|(name, _)| *name).collect()
}

/// What turns them off; none where there are none.
fn off(on: &[&str]) -> Option<String> {
    let off: Vec<_> = on.iter().map(|name| format!("{name} off")).collect();
    (!off.is_empty()).then(|| off.join(" "))
}

/// The named network namespace that has this number here.
fn named(netlink: &Netlink, number: i32) -> Option<(String, File)> {
    let entries = fs::read_dir(NAMED).ok()?.filter_map(Result::ok);
    let mut files =
        entries.filter_map(|entry| Some((entry.file_name().into_string().ok()?, File::open(entry.path()).ok()?)));
    files.find(|(_, file)| netlink.namespace(file).is_ok_and(|found| found == Some(number)))
}
