//! TAP devices: network interfaces of the kernel whose other end is a port of ours
//! (Documentation/networking/tuntap.rst).
//!
//! A device that is missing is created, set up, and removed by the kernel when the port is closed, in whatever way the
//! process ends. One that is there, made by `ip tuntap add`, is used and stays.
//!
//! The kernel hands over, and takes, checksums that are not computed and super-packets, as between two of its own
//! stacks. What comes is finished on the way into frames ([`super::intake`]). Packets of a flow in a batch leave as one
//! ([`super::gso`]), which the kernel's stack takes as it is, and divides only where it goes on to a device.
//!
//! A packet or super-packet costs a system call each way.

use std::fs::File;
use std::io::{self, Read};
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::sync::Arc;

use super::error::PortError;
use super::gso::{Joined, Outgoing, Plan, WINDOW, knows_udp};
use super::intake::Intake;
use super::queue::{Queue, Sent};
use super::spec::Gso;
use crate::counters::PortCounters;
use crate::packets::{HEADER, RxBatch, TxBatch};
use crate::sys;

/// Longer than any frame of a device and any super-packet, with what is said about it: the largest MTU, an Ethernet
/// header and a VLAN tag.
const LONGEST: usize = HEADER + 65_535 + 18;

/// One worker's side of a device. The first worker receives all packets; every one sends.
pub struct Tap {
    device: String,
    file: Arc<File>,
    /// For what the kernel gives; empty where another worker receives.
    buffer: Vec<u8>,
    /// Bytes in it of a packet that is not taken yet.
    len: usize,
    intake: Intake,
    plan: Plan,
    outgoing: Outgoing,
    gso: Gso,
    joined: Joined,
    /// For questions about the interface.
    ask: Arc<OwnedFd>,
    error: Option<String>,
    /// For good: another interface may have the name by now.
    removed: bool,
}

impl Tap {
    /// Opens a device for a number of workers, and creates it where it is missing.
    pub fn open(device: &str, workers: usize, gso: Gso) -> Result<Vec<Self>, PortError> {
        let error = |what: String| PortError(format!("{device}: {what}"));
        let system = |what: &str, e: io::Error| error(format!("{what}: {e}"));
        let socket = sys::inet_socket().map_err(|e| system("no socket", e))?;
        let before = match sys::interface(&socket, device) {
            Ok(found) => Some(found),
            Err(e) if e.raw_os_error() == Some(libc::ENODEV) => None,
            Err(e) => return Err(system("cannot be examined", e)),
        };
        let file = sys::open_tap(device).map_err(|e| match e.raw_os_error() {
            Some(libc::ENOENT) => error("this system has no /dev/net/tun: run `modprobe tun`".into()),
            Some(libc::EPERM | libc::EACCES) => error(format!(
                "no permission to open a TAP device: run as root or with CAP_NET_ADMIN, or let root run \
                 `ip tuntap add dev {device} mode tap user NAME`"
            )),
            Some(libc::EBUSY) => error("another program has this TAP device open".into()),
            Some(libc::EINVAL) if before.is_some() => {
                error("there is an interface of this name already, and it is no TAP device".into())
            }
            Some(libc::EINVAL) => {
                error("not a name of an interface: 1 to 15 characters without `/`, `:` and `%`".into())
            }
            _ => system("cannot be opened", e),
        })?;
        match before {
            None => sys::set_up(&socket, device).map_err(|e| system("cannot be set up", e))?,
            Some(found) if !found.up => return Err(error(format!("is down: run `ip link set dev {device} up`"))),
            Some(_) => {}
        }
        let (file, ask) = (Arc::new(file), Arc::new(socket));
        let tap = |worker| Tap {
            device: device.to_owned(),
            file: file.clone(),
            buffer: if worker == 0 { vec![0; LONGEST] } else { Vec::new() },
            len: 0,
            intake: Intake::default(),
            plan: Plan::new(knows_udp()),
            outgoing: Outgoing::new(),
            gso,
            joined: Joined::default(),
            ask: ask.clone(),
            error: None,
            removed: false,
        };
        Ok((0..workers).map(tap).collect())
    }

    #[cold]
    fn note(&mut self, error: &io::Error) {
        let name = &self.device;
        self.removed |= error.raw_os_error() == Some(libc::EBADFD);
        self.error = match error.raw_os_error() {
            // Its queue is full.
            Some(libc::EAGAIN | libc::ENOBUFS | libc::EINTR) => return,
            Some(libc::EBADFD) => Some(format!("{name}: was removed")),
            // What reading and writing say while it is down.
            Some(libc::EFAULT | libc::EIO) => Some(format!("{name}: went down: run `ip link set dev {name} up`")),
            _ => Some(format!("{name}: {error}")),
        };
    }

    /// Forgets what was wrong where the interface is there and up: nothing else tells that it came up again.
    fn look(&mut self) {
        if !self.removed && sys::interface(&self.ask, &self.device).is_ok_and(|now| now.up) {
            self.error = None;
        }
    }
}

impl Queue for Tap {
    fn receive(&mut self, batch: &mut RxBatch<'_>) {
        if self.buffer.is_empty() {
            return;
        }
        while batch.room() > 0 {
            if self.len == 0 {
                match self.file.as_ref().read(&mut self.buffer) {
                    Ok(len) => self.len = len,
                    Err(error) if error.raw_os_error() == Some(libc::EAGAIN) => return,
                    Err(error) => return self.note(&error),
                }
            }
            if let Some((header, packet)) = self.buffer[..self.len].split_first_chunk::<HEADER>()
                && !self.intake.take(batch, header, packet, None)
            {
                return;
            }
            self.len = 0;
        }
    }

    fn transmit(&mut self, batch: &mut TxBatch<'_>) -> Sent {
        let mut sent = Sent::default();
        for start in (0..batch.len()).step_by(WINDOW) {
            let count = (batch.len() - start).min(WINDOW);
            self.plan.make(count, |number| Some(batch.packet(start + number)));
            self.outgoing.make(&self.plan, batch, start, self.gso != Gso::Off);
            // The message, and the packets in those before it.
            let (mut number, mut passed) = (0, 0);
            while let Some(&message) = self.outgoing.ready.get(number) {
                // SAFETY: the pieces are of the batch, which is there, and of what was made for it.
                let result = unsafe { self.outgoing.messages.write(&self.file, number) };
                match result {
                    Ok(()) => self.joined.note(&message, &mut sent),
                    // The kernel does not know such super-packets: its packets and all others leave one by one.
                    Err(error) if error.raw_os_error() == Some(libc::EINVAL) && message.packets > 1 => {
                        self.gso = Gso::Off;
                        self.outgoing.make(&self.plan, batch, start, false);
                        number = passed;
                        continue;
                    }
                    // Such as one without a whole Ethernet header; those after it may be better.
                    Err(error) if error.raw_os_error() == Some(libc::EINVAL) => {}
                    Err(error) => self.note(&error),
                }
                number += 1;
                passed += usize::from(message.packets);
            }
        }
        sent
    }

    fn wait_fd(&self) -> Option<RawFd> {
        (!self.buffer.is_empty()).then(|| self.file.as_raw_fd())
    }

    fn finished(&self) -> bool {
        self.buffer.is_empty()
    }

    fn tick(&mut self, counters: &PortCounters) {
        self.intake.count(counters);
        self.joined.count(counters);
        if self.error.is_some() {
            self.look();
            counters.set_error(self.error.as_ref());
        }
    }

    fn close(&mut self) -> Result<(), PortError> {
        self.look();
        self.error.take().map_or(Ok(()), |error| Err(PortError(error)))
    }
}
