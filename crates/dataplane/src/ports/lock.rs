//! One Millrace per interface: two would each pass every packet on.
//!
//! The process that has bound the abstract socket `millrace/interface/I` (unix(7)) in a network namespace has the
//! interface with index I there. Such names are the kernel's, one set per network namespace, and end with the process
//! that has bound them, in whatever way it ends. The name of a second socket names that process;
//! `/proc/thread-self/net/unix` lists it.
//!
//! A Millrace that has ended has no such name, but its program may have been left there: see [`LeftBehind`].

use std::fs;
use std::io::ErrorKind;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use super::error::PortError;
use super::left_behind::LeftBehind;

/// How long a process that was killed may take to end; and, where this one had the interface a moment ago, a program
/// that it has just started to let go of what it was born with.
const PATIENCE: [Duration; 2] = [Duration::from_millis(500), Duration::from_secs(3)];

/// An interface that is this instance's, until this is dropped.
#[derive(Debug)]
pub struct InterfaceLock {
    interface: String,
    /// Of the instance.
    owner: String,
    left: LeftBehind,
    held: Mutex<Option<Held>>,
}

#[derive(Debug)]
struct Held {
    index: i32,
    /// The one that no other process can have, and the one that names its owner.
    _sockets: [UnixDatagram; 2],
}

impl InterfaceLock {
    /// Of no interface yet; what is `left` there when it becomes this instance's.
    pub fn new(interface: &str, owner: &str, left: LeftBehind) -> Self {
        InterfaceLock { interface: interface.to_owned(), owner: owner.to_owned(), left, held: Mutex::default() }
    }

    /// What the interface is called.
    pub fn interface(&self) -> &str {
        &self.interface
    }

    /// Index of the interface, once it is this instance's.
    pub fn index(&self) -> Option<i32> {
        self.held().as_ref().map(|held| held.index)
    }

    /// Takes the interface with an index, waiting a moment for a process that is about to end.
    pub fn wait(&self, index: i32) -> Result<(), PortError> {
        let start = Instant::now();
        loop {
            let error = match self.take(index) {
                Ok(()) => return Ok(()),
                Err(error) => error,
            };
            let is_own = owner(index).is_some_and(|(process, _)| process == std::process::id().to_string());
            if start.elapsed() >= PATIENCE[usize::from(is_own)] {
                return Err(error);
            }
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    /// Takes the interface with an index, in place of the one before, which is gone or has another name.
    pub fn take(&self, index: i32) -> Result<(), PortError> {
        let mut held = self.held();
        if held.as_ref().is_some_and(|held| held.index == index) {
            return Ok(());
        }
        let name = name(index);
        let lock = bind(&name).map_err(|error| match error.kind() {
            ErrorKind::AddrInUse => self.taken(index),
            _ => PortError(format!("{}: cannot be locked: {error}", self.interface)),
        })?;
        let (process, owner) = (std::process::id(), &self.owner);
        let said = bind(&format!("{name}/{process}/{owner}"));
        let said = said.map_err(|error| PortError(format!("{}: cannot be locked: {error}", self.interface)))?;
        // Only now is sure that whoever has left something has ended.
        self.left.clear(index).map_err(|what| PortError(format!("{}: {what}", self.interface)))?;
        *held = Some(Held { index, _sockets: [lock, said] });
        Ok(())
    }

    fn held(&self) -> MutexGuard<'_, Option<Held>> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn taken(&self, index: i32) -> PortError {
        let interface = &self.interface;
        PortError(match owner(index) {
            Some((process, owner)) => format!(
                "{interface}: is a port of the instance {owner} already (process {process}): stop that, or use another \
                 interface, for two would each pass every packet on"
            ),
            None => format!(
                "{interface}: is a port of another Millrace already: a process has the socket @{} (see `ss -xap`)",
                name(index)
            ),
        })
    }
}

fn name(index: i32) -> String {
    format!("millrace/interface/{index}")
}

/// Process and name of the instance that has the interface with an index.
fn owner(index: i32) -> Option<(String, String)> {
    let list = fs::read_to_string("/proc/thread-self/net/unix").ok()?;
    let said = list.lines().find_map(|line| line.split_once(&format!("@{}/", name(index)))?.1.split_once('/'))?;
    Some((said.0.to_owned(), said.1.to_owned()))
}

fn bind(name: &str) -> std::io::Result<UnixDatagram> {
    UnixDatagram::bind_addr(&SocketAddr::from_abstract_name(name)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_interface_is_one_instances() {
        // No interface has these.
        let [first, second] = [i32::MAX - 7, i32::MAX - 8];
        let [a, b] = ["a.1", "b"].map(|owner| InterfaceLock::new("eth9", owner, LeftBehind::default()));
        a.wait(first).unwrap();
        a.wait(first).unwrap();
        b.wait(second).unwrap();
        let id = std::process::id();
        let said = format!(
            "eth9: is a port of the instance a.1 already (process {id}): stop that, or use another interface, for two would \
             each pass every packet on"
        );
        assert_eq!(b.take(first).unwrap_err().0, said);
        // What it had it still has.
        assert!(a.take(second).unwrap_err().0.contains("instance b already"));
        assert!(b.take(first).is_err());
        drop(a);
        b.take(first).unwrap();
        let c = InterfaceLock::new("eth9", "c", LeftBehind::default());
        c.take(second).unwrap();
        // A process that says nothing.
        let name = name(i32::MAX - 9);
        let _stranger = bind(&name).unwrap();
        assert_eq!(
            c.take(i32::MAX - 9).unwrap_err().0,
            format!("eth9: is a port of another Millrace already: a process has the socket @{name} (see `ss -xap`)")
        );
    }
}
