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

/// The other end of a virtual interface.
pub enum OtherEnd {
    /// It lies in a network namespace without a name.
    Unseen,
    /// It is there.
    Seen(Undone),
}

/// What an interface leaves to hardware.
pub struct Undone {
    /// The interface.
    name: String,
    /// The name of its network namespace, where it is another one.
    namespace: Option<String>,
    /// What is on, by the names that `ethtool -K` has for it.
    on: Vec<&'static str>,
}

impl Undone {
    /// Whether it leaves nothing.
    pub fn is_nothing(&self) -> bool {
        self.on.is_empty()
    }
}

impl std::fmt::Display for Undone {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let place = self.namespace.as_ref().map_or(String::new(), |name| format!(" in the namespace {name}"));
        let on = self.on.join(", ");
        write!(f, "{}{place} leaves checksums or segments to hardware that is not there ({on})", self.name)
    }
}

/// A line about what the other end of an interface leaves unfinished, where a driver can't finish it.
pub fn of_peer(interface: &str) -> Vec<String> {
    let line = || {
        let netlink = Netlink::new().ok()?;
        let index = sys::interface(&sys::inet_socket().ok()?, interface).ok()?.index;
        let Some(OtherEnd::Seen(undone)) = other_end(&netlink, index) else { return None };
        let off = off(&undone.on)?;
        let enter = undone.namespace.as_ref().map_or(String::new(), |name| format!("ip netns exec {name} "));
        let name = &undone.name;
        Some(format!("{interface}: its other end {undone}, so TCP fails: run `{enter}ethtool -K {name} {off}`"))
    };
    line().into_iter().collect()
}

/// The other end of an interface, where that has one.
pub fn other_end(netlink: &Netlink, interface: i32) -> Option<OtherEnd> {
    let Peer { index, namespace } = netlink.link(interface).ok()?.peer?;
    let seen = match namespace {
        None => undone(index).map(|(name, on)| Undone { name, namespace: None, on }),
        Some(number) => named(netlink, number).and_then(|(place, file)| {
            let asked = std::thread::spawn(move || sys::enter_network(&file).ok().and_then(|()| undone(index)));
            let (name, on) = asked.join().ok().flatten()?;
            Some(Undone { name, namespace: Some(place), on })
        }),
    };
    Some(seen.map_or(OtherEnd::Unseen, OtherEnd::Seen))
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
