//! An interface with the fast path at its ingress, which one worker opens for all.

use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::ports::count::Count;
use crate::ports::error::{PortError, is_denied};
use crate::ports::lock::InterfaceLock;
use crate::ports::up::interface_up;
use crate::sys::{self, Interface};
use crate::xdp::{AttachError, Attached, FastPath, Netlink, PortRole};

/// What the workers of a port share.
#[derive(Debug)]
pub struct Port {
    interface: String,
    lock: Arc<InterfaceLock>,
    path: Arc<FastPath>,
    role: PortRole,
    /// To ask for the interface with.
    ask: OwnedFd,
    /// Used by the holder of `state`.
    netlink: Netlink,
    count: Arc<Count>,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// Index of the interface that the program is at.
    index: i32,
    /// What keeps packets coming. Dropped in this order.
    hold: Option<(Arc<Attached>, OwnedFd)>,
    /// Whether the fast path sends by the interface.
    sends: bool,
}

/// What a worker finds when it looks at the interface.
pub enum InterfaceCheck {
    /// All is well.
    Same(Interface),
    /// There is another one of this name, and the program is there.
    New(Interface),
    /// No packets can pass, for this reason.
    Trouble(String),
}

impl Port {
    /// Opens an interface. Also gives it as it is now, and a line about how packets pass.
    pub fn open(
        lock: Arc<InterfaceLock>,
        path: Arc<FastPath>,
        role: PortRole,
    ) -> Result<(Self, Interface, String), PortError> {
        let interface = lock.interface().to_owned();
        let opened = sys::inet_socket().and_then(|ask| Ok((ask, Netlink::new()?, Count::new(Netlink::new()?, true))));
        let (ask, netlink, count) = opened.map_err(|e| PortError(format!("{interface}: cannot be examined: {e}")))?;
        let (count, state) = (Arc::new(count), Mutex::default());
        let port = Port { interface, lock, path, role, ask, netlink, count, state };
        let interface = &port.interface;
        let device = sys::interface(&port.ask, interface).map_err(|e| match e.raw_os_error() {
            Some(libc::ENODEV) => port.error("there is no such interface in this network namespace (see `ip link`)"),
            _ => port.error(format!("cannot be examined: {e}")),
        })?;
        if !device.up {
            return Err(port.error(format!("is down: run `ip link set dev {interface} up`")));
        }
        let mut state = port.lock();
        port.fill(&mut state, device.index)?;
        let mode = state.hold.as_ref().map_or(String::new(), |(attached, _)| attached.mode().to_string());
        drop(state);
        let about = format!("{interface}: {mode}; what is handed over comes by the workers' rings");
        Ok((port, device, about))
    }

    /// Looks at the interface, for a worker that sends by the interface of an index. If another one has its name now,
    /// the program is put there.
    pub fn look(&self, index: i32) -> InterfaceCheck {
        let mut state = self.lock();
        let now = match interface_up(&self.ask, &self.interface) {
            Ok(now) => now,
            Err(why) => {
                self.let_send(&mut state, false);
                return InterfaceCheck::Trouble(why);
            }
        };
        let is_there = state.hold.as_ref().is_some_and(|(attached, _)| attached.is_there());
        if (state.index != now.index || !is_there)
            && let Err(error) = self.fill(&mut state, now.index)
        {
            return InterfaceCheck::Trouble(error.0);
        }
        self.let_send(&mut state, true);
        if index == now.index { InterfaceCheck::Same(now) } else { InterfaceCheck::New(now) }
    }

    /// Looks up what may have changed at the interface, while no worker does.
    pub fn watch(&self) {
        let mut state = self.lock();
        let is_up = sys::interface(&self.ask, &self.interface).is_ok_and(|now| now.up && now.index == state.index);
        self.let_send(&mut state, is_up);
        drop(state);
        // An interface that is removed takes with it what it has counted since.
        self.count.read();
    }

    /// What counts the packets, of which workers see a few.
    pub fn count(&self) -> &Arc<Count> {
        &self.count
    }

    /// Lets packets in.
    fn fill(&self, state: &mut State, index: i32) -> Result<(), PortError> {
        // What was there was for an interface that is gone, or has another name now.
        let before = std::mem::take(state).index;
        self.path.let_go(before);
        self.lock.take(index)?;
        if !sys::is_ethernet(&self.ask, &self.interface).map_err(|e| self.error(format!("cannot be examined: {e}")))? {
            return Err(self.error("its packets have no Ethernet header"));
        }
        let promiscuous = sys::packet_socket()
            .and_then(|socket| sys::promiscuous(&socket, index).map(|()| socket))
            .map_err(|e| match is_denied(&e) {
                true => no_permission(&self.interface),
                false => self.error(format!("cannot be made to take packets for all addresses: {e}")),
            })?;
        let attached = self.path.attach(self.role, index, &self.netlink).map_err(|error| match error {
            AttachError::Ingress(error) if is_denied(&error) => no_permission(&self.interface),
            error => self.error(error.to_string()),
        })?;
        state.index = index;
        self.let_send(state, true);
        self.count.follow(index);
        state.hold = Some((attached, promiscuous));
        Ok(())
    }

    /// Lets the fast path send by the interface, or workers.
    fn let_send(&self, state: &mut State, sends: bool) {
        if state.sends != sends && self.path.send_by(self.role, state.index, sends, false).is_ok() {
            state.sends = sends;
        }
    }

    fn error(&self, what: impl AsRef<str>) -> PortError {
        PortError(format!("{}: {}", self.interface, what.as_ref()))
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The error of a process that may not.
pub fn no_permission(interface: &str) -> PortError {
    PortError(format!(
        "{interface}: no permission for a program at traffic control: run as root, or with CAP_NET_ADMIN, CAP_NET_RAW \
         and CAP_BPF outside of user namespaces; afpacket:{interface} takes less"
    ))
}
