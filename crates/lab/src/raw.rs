//! A raw frame socket on one device, for tests that send and expect exact bytes.

use std::io::{self, IoSliceMut};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::ifaddrs::getifaddrs;
use nix::libc;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::socket::sockopt::RcvBufForce;
use nix::sys::socket::{
    AddressFamily, ControlMessageOwned, LinkAddr, MsgFlags, SockFlag, SockProtocol, SockType, bind, recvmsg, send,
    setsockopt, socket,
};

use crate::error::{Error, Result};
use crate::namespace::Namespace;
use crate::sys::PacketAuxdata;

/// Longer than any frame a veth device carries with offloads off.
const LONGEST_FRAME: usize = 65_536 + 64;

/// Bytes of frames that wait for [`RawPort::recv`], as the kernel counts them: about ten times those of small frames.
const RECEIVE_BUFFER: usize = 32 << 20;

/// An AF_PACKET socket: sees every frame that arrives at its device, and sends frames as they are.
///
/// It taps only: the kernel's own stack sees the same frames.
#[derive(Debug)]
pub struct RawPort {
    socket: OwnedFd,
    index: usize,
    device: String,
    buffer: Vec<u8>,
}

impl RawPort {
    /// Opens a socket on `device` of `namespace`; frames are kept for [`RawPort::recv`] from here on.
    pub fn open(namespace: &Namespace, device: &str) -> Result<Self> {
        let (socket, index) = namespace.enter(|| open(device))??;
        Ok(RawPort { socket, index, device: device.to_owned(), buffer: vec![0; LONGEST_FRAME] })
    }

    /// Sends one frame, from its destination address to the end of its payload; no checksum (FCS) at its end.
    ///
    /// # Errors
    /// When the kernel refuses it: shorter than an Ethernet header, longer than the MTU allows, or the device down.
    pub fn send(&self, frame: &[u8]) -> Result<()> {
        let what = || format!("cannot send a frame of {} bytes on {}", frame.len(), self.device);
        match send(self.socket.as_raw_fd(), frame, MsgFlags::empty()) {
            Ok(sent) if sent == frame.len() => Ok(()),
            Ok(_) => Err(Error::system(what(), io::Error::from(io::ErrorKind::WriteZero))),
            Err(e) => Err(Error::system(what(), e)),
        }
    }

    /// The next frame that arrives within `limit`, its VLAN tag in place, or `None`.
    ///
    /// Frames that the device's own kernel stack sends are not reported.
    pub fn recv(&mut self, limit: Duration) -> Result<Option<Vec<u8>>> {
        self.recv_where(limit, |_| true)
    }

    /// The next frame for which `wanted` holds that arrives within `limit`, or `None`; others are thrown away.
    pub fn recv_where(&mut self, limit: Duration, wanted: impl Fn(&[u8]) -> bool) -> Result<Option<Vec<u8>>> {
        let end = Instant::now() + limit;
        loop {
            match self.receive() {
                Ok(Some(frame)) if wanted(&frame) => return Ok(Some(frame)),
                Ok(_) if Instant::now() < end => {}
                Err(Errno::EAGAIN) => {
                    let left = end.saturating_duration_since(Instant::now());
                    if left.is_zero() {
                        return Ok(None);
                    }
                    self.wait(left)?;
                }
                Ok(_) => return Ok(None),
                Err(e) => return Err(Error::system(format!("cannot receive on {}", self.device), e)),
            }
        }
    }

    fn wait(&self, limit: Duration) -> Result<()> {
        // Rounded up: rounding down would spin through the last millisecond.
        let limit = PollTimeout::try_from(limit + Duration::from_millis(1)).unwrap_or(PollTimeout::MAX);
        match poll(&mut [PollFd::new(self.socket.as_fd(), PollFlags::POLLIN)], limit) {
            Ok(_) | Err(Errno::EINTR) => Ok(()),
            Err(e) => Err(Error::system(format!("cannot wait for frames on {}", self.device), e)),
        }
    }

    /// One frame without waiting; `Ok(None)` is one that does not count.
    fn receive(&mut self) -> nix::Result<Option<Vec<u8>>> {
        let mut control = nix::cmsg_space!([u8; 32]);
        let mut parts = [IoSliceMut::new(&mut self.buffer)];
        let message = recvmsg::<LinkAddr>(
            self.socket.as_raw_fd(),
            &mut parts,
            Some(&mut control),
            MsgFlags::MSG_DONTWAIT | MsgFlags::MSG_TRUNC,
        )?;
        let arrived =
            message.address.is_some_and(|from| from.ifindex() == self.index && from.pkttype() != libc::PACKET_OUTGOING);
        let tag = message.cmsgs()?.find_map(|part| match part {
            ControlMessageOwned::Unknown(part)
                if part.cmsg_header.cmsg_level == libc::SOL_PACKET
                    && part.cmsg_header.cmsg_type == libc::PACKET_AUXDATA =>
            {
                vlan_tag(&part.data_bytes)
            }
            _ => None,
        });
        let length = message.bytes.min(LONGEST_FRAME);
        if !arrived {
            return Ok(None);
        }
        let mut frame = self.buffer[..length].to_vec();
        if let Some(tag) = tag
            && frame.len() >= 12
        {
            frame.splice(12..12, tag);
        }
        Ok(Some(frame))
    }
}

/// The 802.1Q or 802.1ad tag in a `struct tpacket_auxdata` (linux/if_packet.h): the kernel takes it out of the frame.
fn vlan_tag(auxdata: &[u8]) -> Option<[u8; 4]> {
    let status = u32::from_ne_bytes(auxdata.get(0..4)?.try_into().ok()?);
    let tci = u16::from_ne_bytes(auxdata.get(16..18)?.try_into().ok()?).to_be_bytes();
    let tpid = u16::from_ne_bytes(auxdata.get(18..20)?.try_into().ok()?);
    if status & libc::TP_STATUS_VLAN_VALID == 0 {
        return None;
    }
    let tpid = if status & libc::TP_STATUS_VLAN_TPID_VALID == 0 { 0x8100 } else { tpid }.to_be_bytes();
    Some([tpid[0], tpid[1], tci[0], tci[1]])
}

/// Opens and binds the socket; runs inside the namespace.
fn open(device: &str) -> Result<(OwnedFd, usize)> {
    let what = || format!("cannot open a raw socket on {device}");
    // The kernel's own list gives the address to bind to, complete with the device's index.
    let address = getifaddrs()
        .map_err(|e| Error::system(what(), e))?
        .filter(|entry| entry.interface_name == device)
        .find_map(|entry| entry.address?.as_link_addr().copied())
        .ok_or_else(|| Error::system(what(), Errno::ENODEV))?;
    let socket = socket(AddressFamily::Packet, SockType::Raw, SockFlag::SOCK_CLOEXEC, SockProtocol::EthAll)
        .map_err(|e| Error::system(what(), e))?;
    setsockopt(&socket, PacketAuxdata, &true).map_err(|e| Error::system(what(), e))?;
    // The system's default holds some hundred small frames. Where it allows no more than that, this is what there is.
    let _ = setsockopt(&socket, RcvBufForce, &RECEIVE_BUFFER);
    // The address has protocol 0: the socket keeps the one it was made with (packet(7)).
    bind(socket.as_raw_fd(), &address).map_err(|e| Error::system(what(), e))?;
    Ok((socket, address.ifindex()))
}

#[cfg(test)]
mod tests {
    use super::vlan_tag;

    fn auxdata(status: u32, tci: u16, tpid: u16) -> Vec<u8> {
        let mut bytes = vec![0; 20];
        bytes[0..4].copy_from_slice(&status.to_ne_bytes());
        bytes[16..18].copy_from_slice(&tci.to_ne_bytes());
        bytes[18..20].copy_from_slice(&tpid.to_ne_bytes());
        bytes
    }

    #[test]
    fn vlan_tag_is_read_from_auxdata() {
        // TP_STATUS_VLAN_VALID is 1 << 4, TP_STATUS_VLAN_TPID_VALID is 1 << 6.
        assert_eq!(vlan_tag(&auxdata(0x51, 0x2064, 0x88a8)), Some([0x88, 0xa8, 0x20, 0x64]));
        assert_eq!(vlan_tag(&auxdata(0x11, 0x0007, 0)), Some([0x81, 0x00, 0x00, 0x07]));
        assert_eq!(vlan_tag(&auxdata(0x01, 0x0007, 0x8100)), None);
        assert_eq!(vlan_tag(&auxdata(0x51, 0x0007, 0x8100)[..19]), None);
    }
}
