//! A packet socket with its rings, bound to an interface.

use std::io;
use std::os::fd::{AsRawFd, OwnedFd};

use libc::tpacket_req;

use crate::ports::buffers::{enlarge_receiving, enlarge_sending};
use crate::ports::error::{PortError, is_denied};
use crate::sys::{self, Interface, Mapping};

/// Bytes of each ring.
pub const RING_BYTES: usize = 8 << 20;
/// Bytes of a block of the ring: contiguous kernel memory, so not too large.
const BLOCK_BYTES: usize = 1 << 17;

/// A socket that gets all packets of an interface and sends there.
pub struct Socket {
    pub fd: OwnedFd,
    /// The receive ring, then the transmit ring.
    pub rings: Mapping,
    pub device: Interface,
}

impl Socket {
    /// Opens one. Where it is to be shared no packet comes in yet: see [`super::share`].
    pub fn open(interface: &str, slot_size: usize, shared: bool) -> Result<Self, PortError> {
        let error = |what: &str, e: io::Error| match e.raw_os_error() {
            Some(libc::ENODEV) => {
                PortError(format!("{interface}: there is no such interface in this network namespace (see `ip link`)"))
            }
            _ if is_denied(&e) => PortError(format!(
                "{interface}: no permission to open a packet socket: run as root, with CAP_NET_RAW, or in `unshare -Urn`"
            )),
            _ => PortError(format!("{interface}: {what}: {e}")),
        };
        let fd = sys::packet_socket().map_err(|e| error("no packet socket", e))?;
        let device = sys::interface(&fd, interface).map_err(|e| error("cannot be examined", e))?;
        if !device.up {
            return Err(PortError(format!("{interface}: is down: run `ip link set dev {interface} up`")));
        }
        let block = BLOCK_BYTES.max(slot_size);
        let request = tpacket_req {
            tp_block_size: block as u32,
            tp_block_nr: (RING_BYTES / block) as u32,
            tp_frame_size: slot_size as u32,
            tp_frame_nr: (RING_BYTES / slot_size) as u32,
        };
        let set = |name, value: i32| sys::set_option(&fd, libc::SOL_PACKET, name, &value);
        let ring = |name| {
            let result = sys::set_option(&fd, libc::SOL_PACKET, name, &request);
            result.map_err(|e| error("no memory for its packet rings", e))
        };
        let version = libc::tpacket_versions::TPACKET_V2 as i32;
        set(libc::PACKET_VERSION, version).map_err(|e| error("TPACKET_V2 is not supported", e))?;
        set(libc::PACKET_IGNORE_OUTGOING, 1)
            .map_err(|e| error("PACKET_IGNORE_OUTGOING is not supported (Linux 4.20 or later is needed)", e))?;
        sys::tell_unfinished(&fd).map_err(|e| error("PACKET_VNET_HDR is not supported", e))?;
        // What is longer than a slot waits aside as a whole, behind what of it fits the slot.
        set(libc::PACKET_COPY_THRESH, 1).map_err(|e| error("PACKET_COPY_THRESH is not supported", e))?;
        set(libc::PACKET_LOSS, 1).map_err(|e| error("PACKET_LOSS is not supported", e))?;
        // It only makes it faster, so its refusal does not matter.
        let _ = set(libc::PACKET_QDISC_BYPASS, 1);
        enlarge_sending(&fd);
        enlarge_receiving(&fd);
        ring(libc::PACKET_RX_RING)?;
        ring(libc::PACKET_TX_RING)?;
        let rings = Mapping::of_fd(fd.as_raw_fd(), 2 * RING_BYTES).map_err(|e| error("cannot map its rings", e))?;
        if shared {
            sys::keep_out(&fd).map_err(|e| error("has no socket filter", e))?;
        }
        sys::promiscuous(&fd, device.index)
            .and_then(|()| sys::bind_packet(&fd, device.index))
            .map_err(|e| error("cannot be bound to", e))?;
        Ok(Socket { fd, rings, device })
    }
}
