//! Opening a port with its driver, and what the ports of an instance share.

use std::sync::Arc;

use codegen::kernel::Hook;

use super::afpacket::AfPacket;
use super::afxdp::{AfXdp, Take, Umem};
use super::error::PortError;
use super::left_behind::LeftBehind;
use super::lock::InterfaceLock;
use super::pcap::PcapPort;
use super::queue::{Opened, Queue};
use super::spec::{Driver, Gso, OwnAddresses};
use super::tap::Tap;
use super::tc::Tc;
use super::{auto, offloads};
use crate::packets::FramePool;
use crate::sys;
use crate::xdp::{FastPath, PortRole};

/// What the ports of an instance share.
#[derive(Debug)]
pub(crate) struct Common {
    workers: usize,
    pool: Arc<FramePool>,
    umem: Arc<Umem>,
    /// What runs in the kernel, if anything.
    fast_path: Option<Arc<FastPath>>,
    /// Another owner's XDP programs are replaced.
    replaces: bool,
    /// The instance's name.
    instance: String,
    /// Frames that drivers have besides the workers.
    reserved: u32,
}

impl Common {
    /// For ports with these drivers.
    pub fn new<'a>(
        workers: usize,
        pool: &Arc<FramePool>,
        fast_path: Option<Arc<FastPath>>,
        replaces: bool,
        instance: &str,
        drivers: impl Iterator<Item = &'a Driver>,
    ) -> Self {
        let with_sockets =
            |driver: &&Driver| matches!(driver, Driver::AfXdp { .. } | Driver::Xdp { .. } | Driver::Auto { .. });
        let ports = drivers.filter(with_sockets).count();
        let umem = Arc::new(Umem::new(pool.clone(), ports));
        let reserved = umem.per_port() * ports as u32;
        Common { workers, pool: pool.clone(), umem, fast_path, replaces, instance: instance.to_owned(), reserved }
    }

    /// What runs in the kernel at a hook.
    fn at(&self, hook: Hook) -> Option<Arc<FastPath>> {
        self.fast_path.clone().filter(|path| path.hook() == hook)
    }

    /// Frames that drivers have besides the workers.
    pub fn reserved(&self) -> u32 {
        self.reserved
    }
}

/// What a driver may do besides, where it can.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Extras {
    /// Receiver of packets for the interface's own addresses.
    pub own: OwnAddresses,
    /// Whether it sends super-packets.
    pub gso: Gso,
}

/// Opens a port with one queue per worker. The packets of a flow in one direction come to one of the queues, in order.
pub(crate) fn open(driver: &Driver, role: PortRole, extras: Extras, common: &Common) -> Result<Opened, PortError> {
    // A TAP device the kernel itself lets one process have.
    let interface = driver.interface().filter(|_| !matches!(driver, Driver::Tap { .. }));
    let left = LeftBehind { path: common.fast_path.clone(), replaces: common.replaces };
    let lock = Arc::new(InterfaceLock::new(interface.unwrap_or_default(), &common.instance, left));
    // Of one that is not there the driver says so.
    let found = interface.and_then(|name| sys::interface(&sys::inet_socket().ok()?, name).ok());
    found.map_or(Ok(()), |interface| lock.wait(interface.index))?;
    open_locked(driver, role, extras, common, &lock)
}

/// As [`open`], of an interface that is this instance's.
fn open_locked(
    driver: &Driver,
    role: PortRole,
    extras: Extras,
    common: &Common,
    lock: &Arc<InterfaceLock>,
) -> Result<Opened, PortError> {
    let Extras { own, gso } = extras;
    if own == OwnAddresses::Kernel && !matches!(driver, Driver::AfXdp { .. }) {
        return Err(PortError(format!(
            "{driver}: its packets cannot be told apart for the kernel: `own = \"kernel\"` takes an afxdp port"
        )));
    }
    let joins =
        matches!(driver, Driver::AfPacket { .. } | Driver::Tc { .. } | Driver::Tap { .. } | Driver::Auto { .. });
    if gso == Gso::On && !joins {
        return Err(PortError(format!(
            "{driver}: sends packets one by one: `gso = \"on\"` takes an afpacket, tc or tap port"
        )));
    }
    fn boxed<Q: Queue + 'static>(queues: Vec<Q>) -> Vec<Box<dyn Queue>> {
        queues.into_iter().map(|queue| Box::new(queue) as Box<dyn Queue>).collect()
    }
    if let (Driver::AfXdp { .. } | Driver::AfPacket { .. }, Some(path), Some(interface)) =
        (driver, &common.fast_path, lock.index())
    {
        // What the process before has left there does not go on.
        path.let_go(interface);
    }
    let workers = common.workers;
    let afxdp = |take| {
        let (queues, about) = AfXdp::open(lock, workers, &common.umem, take, common.replaces)?;
        Ok(Opened { queues: boxed(queues), about: Some(about), warnings: offloads::of_peer(lock.interface()) })
    };
    let queues = match driver {
        Driver::Auto { interface } => {
            // The best driver is chosen without regard to it.
            let of = |driver: &Driver| {
                if matches!(driver, Driver::AfPacket { .. } | Driver::Tc { .. }) { gso } else { Gso::Auto }
            };
            let open = |driver: &Driver| {
                let extras = Extras { gso: of(driver), ..Extras::default() };
                open_locked(driver, role, extras, common, lock)
            };
            return auto::open_best(interface, common.fast_path.as_ref().map(|path| path.hook()), open);
        }
        Driver::Xdp { interface } => {
            let path = common.at(Hook::Xdp).ok_or_else(|| {
                PortError(format!(
                    "{interface}: xdp takes a program that runs in the kernel, and this one runs on workers only: use \
                     afxdp:{interface} or auto:{interface}, or --engine xdp"
                ))
            })?;
            return afxdp(Take::HandedOver(path, role));
        }
        Driver::Tc { interface } => {
            let path = common.at(Hook::Tc).ok_or_else(|| {
                PortError(format!(
                    "{interface}: tc takes a program that runs in the kernel, at traffic control, and this one does not: \
                     use afpacket:{interface} or auto:{interface}"
                ))
            })?;
            let (queues, about) = Tc::open(lock, workers, path, (role, gso))?;
            return Ok(Opened { queues: boxed(queues), about: Some(about), warnings: Vec::new() });
        }
        Driver::AfXdp { .. } => return afxdp(Take::All(own)),
        Driver::AfPacket { .. } => {
            let (queues, about) = AfPacket::open(lock, workers, common.pool.max_packet(), gso)?;
            return Ok(Opened { queues: boxed(queues), about, warnings: offloads::merged(lock.interface()) });
        }
        Driver::Pcap { input, output } => boxed(PcapPort::open(input.as_deref(), output.as_deref(), workers)?),
        Driver::Tap { device } => boxed(Tap::open(device, workers, gso)?),
        Driver::Mem(port) => boxed(port.queues(workers)),
    };
    Ok(Opened { queues, about: None, warnings: Vec::new() })
}
