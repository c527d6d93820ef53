//! What hands an interface's packets to the sockets: all of them, or those that the fast path does not finish.

use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use crate::ports::spec::OwnAddresses;
use crate::xdp::{self, AttachError, Attached, FastPath, Netlink, PortRole, Redirect};

/// Which packets come to the sockets.
#[derive(Clone, Debug)]
pub enum Take {
    /// All, but for those to the interface's own addresses where the kernel is to have them.
    All(OwnAddresses),
    /// Those that the fast path hands over at this port.
    HandedOver(Arc<FastPath>, PortRole),
}

impl Take {
    /// Whether the program of a process before is at the interface, and this one takes over from it.
    pub fn takes_over(&self, interface: i32, netlink: &Netlink) -> bool {
        match self {
            Take::All(_) => false,
            Take::HandedOver(path, _) => path.has_kept(interface, netlink),
        }
    }

    /// Leaves nothing at an interface that is the port's no more.
    pub fn let_go(&self, interface: i32) {
        if let Take::HandedOver(path, _) = self {
            path.let_go(interface);
        }
    }
}

/// The program that is at the interface, or will be.
#[derive(Debug)]
pub enum Entry {
    All(Redirect),
    HandedOver(Arc<FastPath>, PortRole),
}

impl Entry {
    /// For an interface with so many queues; no queue has a socket yet.
    pub fn new(take: &Take, queues: u32) -> io::Result<Self> {
        match take {
            Take::All(own) => {
                let own = (*own == OwnAddresses::Kernel).then(xdp::OwnAddressSet::new).transpose()?;
                Redirect::new(queues, own).map(Entry::All)
            }
            Take::HandedOver(path, role) => Ok(Entry::HandedOver(path.clone(), *role)),
        }
    }

    /// From now on the packets of a queue come to this socket, until it is closed.
    pub fn set(&self, queue: u32, socket: &OwnedFd) -> io::Result<()> {
        match self {
            Entry::All(redirect) => redirect.set(queue, socket),
            Entry::HandedOver(path, role) => path.set_socket(*role, queue, socket),
        }
    }

    /// Looks up which addresses are the interface's own, where that matters.
    pub fn look(&self, interface: i32, netlink: &Netlink) -> io::Result<()> {
        match self {
            Entry::All(redirect) => redirect.own().map_or(Ok(()), |own| own.set(&netlink.addresses(interface)?)),
            Entry::HandedOver(..) => Ok(()),
        }
    }

    /// Puts the program at the interface.
    pub fn attach(&self, interface: i32, netlink: &Netlink) -> Result<Arc<Attached>, AttachError> {
        match self {
            Entry::All(redirect) => Attached::new(redirect.program(), interface, netlink).map(Arc::new),
            Entry::HandedOver(path, role) => path.attach(*role, interface, netlink),
        }
    }
}
