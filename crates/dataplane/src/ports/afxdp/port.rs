//! An interface with its XDP program and the sockets of all workers, which one worker opens for all.

use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use codegen::kernel::QUEUES;

use super::entry::{Entry, Take};
use super::plan::{Member, plan};
use super::socket::{Incoming, Xsk};
use super::sys as xsk;
use super::umem::{Bound, BoundSocket, KernelFrames, Refusal, Step, Umem, Wanted};
use crate::ports::count::Count;
use crate::ports::error::{PortError, is_denied};
use crate::ports::lock::InterfaceLock;
use crate::ports::up::interface_up;
use crate::sys::{self, Interface};
use crate::xdp::AttachError::{self, Ingress, Name, Refused, Taken};
use crate::xdp::{Attached, Netlink};

/// Frames that a queue needs for either direction at least.
const LEAST: u32 = 16;
/// How long the kernel may take to let go of an interface that was in use a moment ago.
const PATIENCE: Duration = Duration::from_secs(3);

/// What the workers of a port share.
#[derive(Debug)]
pub struct Port {
    interface: String,
    lock: Arc<InterfaceLock>,
    workers: usize,
    umem: Arc<Umem>,
    take: Take,
    /// Takes the place of another owner's program.
    replaces: bool,
    /// To ask for the interface with.
    ask: OwnedFd,
    /// Used by the holder of `state`.
    netlink: Netlink,
    count: Option<Arc<Count>>,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// Index of the interface that the sockets are for.
    index: i32,
    /// Sockets that their workers have not taken yet.
    waiting: Vec<Option<Vec<Xsk>>>,
    hold: Option<Hold>,
    /// Whether the fast path sends by the interface.
    sends: bool,
}

/// How the fast path sends by an interface.
#[derive(Debug)]
struct Sending {
    /// Whether it returns packets that came by it.
    returns: bool,
}

/// What keeps packets coming. Dropped in this order.
#[derive(Debug)]
struct Hold {
    attached: Arc<Attached>,
    entry: Arc<Entry>,
    _promiscuous: OwnedFd,
}

/// What a worker finds when it looks at the interface.
pub enum InterfaceCheck {
    /// All is well.
    Same(Interface),
    /// There is another one of this name, with these sockets.
    New(Interface, Vec<Xsk>),
    /// No packets can pass, for this reason.
    Trouble(String),
}

impl Port {
    /// Opens an interface. The sockets wait for their workers.
    pub fn open(
        lock: Arc<InterfaceLock>,
        workers: usize,
        umem: Arc<Umem>,
        take: Take,
        replaces: bool,
    ) -> Result<Self, PortError> {
        let interface = lock.interface().to_owned();
        let fast = matches!(take, Take::HandedOver(..));
        let count =
            || if fast { Netlink::new().map(|netlink| Some(Arc::new(Count::new(netlink, false)))) } else { Ok(None) };
        let opened = sys::inet_socket().and_then(|ask| Ok((ask, Netlink::new()?, count()?)));
        let (ask, netlink, count) = opened.map_err(|e| PortError(format!("{interface}: cannot be examined: {e}")))?;
        let port =
            Port { interface, lock, workers, umem, take, replaces, ask, netlink, count, state: Mutex::default() };
        let interface = &port.interface;
        port.umem.check().map_err(|what| port.error(what))?;
        let device = sys::interface(&port.ask, interface).map_err(|e| match e.raw_os_error() {
            Some(libc::ENODEV) => port.error("there is no such interface in this network namespace (see `ip link`)"),
            _ => port.error(format!("cannot be examined: {e}")),
        })?;
        if !device.up {
            return Err(port.error(format!("is down: run `ip link set dev {interface} up`")));
        }
        port.fill(&mut port.lock(), device.index, Instant::now() + PATIENCE)?;
        Ok(port)
    }

    /// A worker's sockets, and the interface that they are for.
    pub fn take(&self, worker: usize) -> Result<(Interface, Vec<Xsk>), PortError> {
        match self.look(worker, 0) {
            InterfaceCheck::New(device, sockets) => Ok((device, sockets)),
            InterfaceCheck::Same(_) => Err(self.error("cannot be examined")),
            InterfaceCheck::Trouble(what) => Err(PortError(what)),
        }
    }

    /// One line about how packets pass.
    pub fn about(&self) -> String {
        let state = self.lock();
        let sockets = || state.waiting.iter().flatten().flatten();
        let queues = sockets().filter(|socket| socket.receives()).count();
        let mode = state.hold.as_ref().map_or(String::new(), |hold| hold.attached.mode().to_string());
        let copies = match sockets().all(|socket| socket.bound().zero_copy) {
            true => "zero-copy",
            false => "copy mode, because its driver has no zero-copy",
        };
        let long = match sockets().all(|socket| socket.bound().scatter) {
            true => "",
            false => {
                "; packets longer than a page are dropped, because the kernel or the driver gives them in one piece only"
            }
        };
        let sends = match (&self.take, state.sends) {
            (Take::HandedOver(..), false) => {
                "; workers send its packets, because it takes none from other interfaces (a veth device does where its other \
                 end has GRO on: `ethtool -K DEVICE gro on`)"
            }
            _ => "",
        };
        let what = if let Take::HandedOver(..) = self.take { "what is handed over comes in " } else { "" };
        let plural = |n: usize| if n == 1 { "" } else { "s" };
        format!(
            "{}: {mode}; {what}{copies}; {queues} queue{} for {} worker{}{long}{sends}",
            self.interface,
            plural(queues),
            self.workers,
            plural(self.workers),
        )
    }

    /// Looks at the interface, for a worker whose sockets are for the interface of an index. If that is another one
    /// now, they are exchanged: for those that another worker has opened, or all are opened anew.
    pub fn look(&self, worker: usize, index: i32) -> InterfaceCheck {
        let name = &self.interface;
        let mut state = self.lock();
        let now = match interface_up(&self.ask, name) {
            Ok(now) => now,
            Err(why) => {
                self.let_send(&mut state, None);
                return InterfaceCheck::Trouble(why);
            }
        };
        let is_there = state.hold.as_ref().is_some_and(|hold| hold.attached.is_there());
        if (state.index != now.index || !is_there)
            && let Err(error) = self.fill(&mut state, now.index, Instant::now())
        {
            return InterfaceCheck::Trouble(error.0);
        }
        let waiting = state.waiting.get_mut(worker).and_then(Option::take);
        match waiting {
            Some(sockets) => InterfaceCheck::New(now, sockets),
            None if index != now.index => InterfaceCheck::Trouble(format!("{name}: was made again; not yet in use")),
            None if state.waiting.iter().any(Option::is_some) => {
                InterfaceCheck::Trouble(format!("{name}: was made again; not all workers have noticed"))
            }
            None => InterfaceCheck::Same(now),
        }
    }

    /// Looks up what may have changed at the interface. No worker waits for that: for these questions the kernel takes
    /// a lock of all interfaces (`rtnl_lock`), which others hold for tens of milliseconds, such as a program that takes
    /// another one's place.
    pub fn watch(&self, netlink: &Netlink) {
        let (index, entry) = {
            let state = self.lock();
            (state.index, state.hold.as_ref().map(|hold| hold.entry.clone()))
        };
        // What cannot be asked now can be asked the next time.
        let _ = entry.map(|entry| entry.look(index, netlink));
        let is_up = sys::interface(&self.ask, &self.interface).is_ok_and(|now| now.up && now.index == index);
        let sends = if is_up { self.can_send(index, netlink) } else { None };
        let mut state = self.lock();
        if state.index == index {
            self.let_send(&mut state, sends);
        }
        drop(state);
        // An interface that is removed takes with it what it has counted since.
        self.count().map(|count| count.read());
    }

    /// Opens sockets for all workers, and lets packets in.
    fn fill(&self, state: &mut State, index: i32, until: Instant) -> Result<(), PortError> {
        // What was there was for an interface that is gone, or has another name now.
        let before = std::mem::take(state).index;
        self.take.let_go(before);
        self.lock.take(index)?;
        let taken = |e| self.attach_error(e);
        let is_kept = self.take.takes_over(index, &self.netlink);
        if self.replaces && !is_kept {
            let cleared = Attached::clear_xdp(index, &self.netlink);
            cleared.map_err(|e| self.error(format!("its XDP program cannot be removed: {e}")))?;
        }
        if !is_kept {
            patiently(until, || Attached::check_free(index, &self.netlink), |_| true).map_err(taken)?;
        }
        let (receive, send) = xsk::queues(&self.ask, &self.interface);
        if matches!(self.take, Take::HandedOver(..)) && receive > QUEUES {
            let name = &self.interface;
            return Err(self.error(format!(
                "has {receive} queues, of which the fast path can use {QUEUES}: run `ethtool -L {name} combined {QUEUES}`"
            )));
        }
        let entry = Entry::new(&self.take, receive).map(Arc::new).map_err(|e| match e.raw_os_error() {
            Some(libc::EPERM | libc::EACCES) => self.no_permission(),
            _ => self.error(format!("the kernel does not take the XDP program (Linux 5.10 or later is needed): {e}")),
        })?;
        let mut waiting: Vec<Vec<Xsk>> = (0..self.workers).map(|_| Vec::new()).collect();
        for (member, socket) in self.sockets(index, receive, send, until)? {
            if member.receives {
                let set = entry.set(member.queue, socket.fd());
                set.map_err(|e| self.error(format!("queue {} cannot be redirected: {e}", member.queue)))?;
            }
            waiting[member.worker].push(socket);
        }
        let promiscuous = sys::packet_socket()
            .and_then(|socket| sys::promiscuous(&socket, index).map(|()| socket))
            .map_err(|e| self.error(format!("cannot be made to take packets for all addresses: {e}")))?;
        entry.look(index, &self.netlink).map_err(|e| self.error(format!("its addresses cannot be examined: {e}")))?;
        let attached = entry.attach(index, &self.netlink).map_err(taken)?;
        state.index = index;
        self.let_send(state, self.can_send(index, &self.netlink));
        self.count().into_iter().for_each(|count| count.follow(index));
        state.hold = Some(Hold { attached, entry, _promiscuous: promiscuous });
        state.waiting = waiting.into_iter().map(Some).collect();
        Ok(())
    }

    /// What counts the packets where workers do not see them all.
    pub fn count(&self) -> Option<&Arc<Count>> {
        self.count.as_ref()
    }

    /// Whether and how the fast path could send by an interface. Asks the kernel, so no worker may wait for that: see
    /// [`Port::watch`].
    fn can_send(&self, index: i32, netlink: &Netlink) -> Option<Sending> {
        let Take::HandedOver(path, _) = &self.take else { return None };
        // A veth device does not wake its other end up for what it returns if that has no program of its own (Linux
        // 6.18).
        let sending = || Sending { returns: netlink.link(index).is_ok_and(|link| !link.is_veth) };
        netlink.takes_redirects(index, path.takes_pieces()).then(sending)
    }

    /// Lets the fast path send by the interface, or workers.
    fn let_send(&self, state: &mut State, sending: Option<Sending>) {
        let Take::HandedOver(path, role) = &self.take else { return };
        let (sends, returns) = (sending.is_some(), sending.is_some_and(|own| own.returns));
        if state.sends != sends && path.send_by(*role, state.index, sends, returns).is_ok() {
            state.sends = sends;
        }
    }

    fn sockets(&self, index: i32, receive: u32, send: u32, until: Instant) -> Result<Vec<(Member, Xsk)>, PortError> {
        // What is sent is gone soon, but packets may come in while a worker is busy: a quarter and the rest, by queues.
        let all = self.umem.per_port();
        let (target, limit) = ((all - all / 4) / receive, all / 4 / send.min(self.workers as u32));
        if target.min(limit) < LEAST {
            let (count, queues) = (self.umem.pool().count(), receive.max(send));
            return Err(
                self.error(format!("{count} frames are too few for {queues} queues: raise `count` of [frames]"))
            );
        }
        let mut made: Vec<(Member, Xsk)> = Vec::new();
        for member in plan(receive, send, self.workers) {
            // The queue's first socket has the rings for all that send through it.
            let lead = made.iter().find(|(other, _)| other.queue == member.queue).map(|(_, socket)| socket);
            let wanted = Wanted {
                interface: index,
                queue: member.queue,
                receives: if member.receives { target } else { 0 },
                sends: if member.sends { limit } else { 0 },
            };
            let socket = match lead {
                Some(lead) => {
                    let joined = self.umem.join(wanted, lead.bound());
                    let (bound, tx) = joined.map_err(|refusal| self.refused(refusal, member.queue))?;
                    Xsk::new(bound, None, Some(tx), lead.kernel_frames().clone(), self.umem.clone())
                }
                None => {
                    let like = made.first().map(|(_, socket)| socket.bound());
                    let made = self.bind(wanted, like, until)?;
                    let kernel_frames = KernelFrames::new(self.umem.clone(), made.completion, limit);
                    let fill = made.fill;
                    let incoming = made.rx.map(|rx| Incoming { fill, rx, posted: 0, target });
                    Xsk::new(made.bound, incoming, made.tx, Arc::new(kernel_frames), self.umem.clone())
                }
            };
            made.push((member, socket));
        }
        Ok(made)
    }

    fn bind(&self, wanted: Wanted, like: Option<&Bound>, until: Instant) -> Result<BoundSocket, PortError> {
        let busy = |(step, error): &Refusal| matches!((step, error.raw_os_error()), (Step::Bind, Some(libc::EBUSY)));
        let bound = patiently(until, || self.umem.bind(wanted, like), busy);
        bound.map_err(|refusal| self.refused(refusal, wanted.queue))
    }

    fn refused(&self, (step, error): Refusal, queue: u32) -> PortError {
        let pool = self.umem.pool();
        match (step, error.raw_os_error()) {
            (_, Some(libc::EPERM | libc::EACCES)) => self.no_permission(),
            (Step::Socket, Some(libc::EAFNOSUPPORT)) => {
                self.error("this kernel has no AF_XDP sockets (CONFIG_XDP_SOCKETS): use afpacket")
            }
            (Step::Socket, _) => self.error(format!("no AF_XDP socket: {error}")),
            (Step::Memory, Some(libc::ENOBUFS)) => {
                let kib = u64::from(pool.count()) * u64::from(pool.frame_size()) / 1024;
                self.error(format!(
                    "this process may not lock the {kib} KiB of its frames: raise the limit (`ulimit -l`, LimitMEMLOCK= of \
                     systemd) above that, give it CAP_IPC_LOCK, or lower `count` of [frames]"
                ))
            }
            (Step::Memory, _) => self.error(format!("the kernel does not take the frames as UMEM: {error}")),
            (Step::Ring, _) => self.error(format!("no memory for its AF_XDP rings: {error}")),
            (Step::Bind, Some(libc::EBUSY)) => {
                self.error(format!("queue {queue} is in use by another AF_XDP socket: stop the program that has it"))
            }
            (Step::Bind, Some(libc::EINVAL)) => self.error(format!(
                "an AF_XDP socket cannot be bound to queue {queue}: {error} (Linux 5.10 or later is needed)"
            )),
            (Step::Bind, _) => self.error(format!("an AF_XDP socket cannot be bound to queue {queue}: {error}")),
        }
    }

    fn attach_error(&self, error: AttachError) -> PortError {
        match error {
            Refused { generic, .. } if is_denied(&generic) => self.no_permission(),
            Taken(_) => self.error(error.to_string().replace("NAME", &self.interface)),
            Refused { .. } | Ingress(_) | Name(_) => self.error(error.to_string()),
        }
    }

    fn no_permission(&self) -> PortError {
        let name = &self.interface;
        self.error(format!(
            "no permission for AF_XDP: run as root, or with CAP_NET_ADMIN, CAP_NET_RAW and CAP_BPF outside of user \
             namespaces; afpacket:{name} takes less"
        ))
    }

    fn error(&self, what: impl AsRef<str>) -> PortError {
        PortError(format!("{}: {}", self.interface, what.as_ref()))
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Tries again while what is wrong may pass.
fn patiently<T, E>(
    until: Instant,
    mut attempt: impl FnMut() -> Result<T, E>,
    passes: impl Fn(&E) -> bool,
) -> Result<T, E> {
    loop {
        match attempt() {
            Err(error) if passes(&error) && Instant::now() < until => std::thread::sleep(Duration::from_millis(10)),
            result => return result,
        }
    }
}
