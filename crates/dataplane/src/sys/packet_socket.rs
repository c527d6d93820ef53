//! Packet sockets (packet(7)).

use std::ffi::c_void;
use std::io;
use std::mem::size_of;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

use super::call::{check, set_option};

/// A packet socket that receives nothing until it is bound.
pub fn packet_socket() -> io::Result<OwnedFd> {
    // SAFETY: creates a descriptor that only the result owns.
    unsafe {
        let fd = check(libc::socket(libc::AF_PACKET, libc::SOCK_RAW | libc::SOCK_CLOEXEC, 0))?;
        Ok(OwnedFd::from_raw_fd(fd))
    }
}

/// `linux/if_packet.h`
const PACKET_VNET_HDR: i32 = 15;

/// Packets have a header of what is left to be done in front, both ways (`struct virtio_net_hdr`, 10 bytes).
pub fn tell_unfinished(fd: &OwnedFd) -> io::Result<()> {
    set_option(fd, libc::SOL_PACKET, PACKET_VNET_HDR, &1i32)
}

/// Takes the next packet that waits aside of a ring, with its header; its bytes, which may be more than there is room
/// for. Does not wait.
pub fn receive_long(fd: &OwnedFd, into: &mut [u8]) -> io::Result<usize> {
    let flags = libc::MSG_DONTWAIT | libc::MSG_TRUNC;
    // SAFETY: the kernel writes at most as many bytes as the buffer has.
    let len = unsafe { libc::recv(fd.as_raw_fd(), into.as_mut_ptr().cast(), into.len(), flags) };
    if len < 0 { Err(io::Error::last_os_error()) } else { Ok(len as usize) }
}

/// Binds a packet socket to all protocols of an interface.
pub fn bind_packet(fd: &OwnedFd, interface: i32) -> io::Result<()> {
    bind_protocol(fd, interface, libc::ETH_P_ALL as u16)
}

/// Binds a packet socket to an interface to send there; nothing comes in.
pub fn bind_to_send(fd: &OwnedFd, interface: i32) -> io::Result<()> {
    bind_protocol(fd, interface, 0)
}

fn bind_protocol(fd: &OwnedFd, interface: i32, protocol: u16) -> io::Result<()> {
    // SAFETY: sockaddr_ll is plain data for which zero is valid, and the length given is its size.
    unsafe {
        let mut address: libc::sockaddr_ll = std::mem::zeroed();
        address.sll_family = libc::AF_PACKET as u16;
        address.sll_protocol = protocol.to_be();
        address.sll_ifindex = interface;
        let len = size_of::<libc::sockaddr_ll>() as libc::socklen_t;
        check(libc::bind(fd.as_raw_fd(), (&raw const address).cast(), len)).map(drop)
    }
}

/// Index of the interface that a packet socket is bound to; of one that was removed, −1.
pub fn bound_interface(fd: &OwnedFd) -> io::Result<i32> {
    // SAFETY: sockaddr_ll is plain data for which zero is valid; the kernel writes at most `len` bytes, which is its
    // size.
    unsafe {
        let mut address: libc::sockaddr_ll = std::mem::zeroed();
        let mut len = size_of::<libc::sockaddr_ll>() as libc::socklen_t;
        check(libc::getsockname(fd.as_raw_fd(), (&raw mut address).cast(), &mut len))?;
        Ok(address.sll_ifindex)
    }
}

/// Makes a descriptor's number that of another one's file; what it was before is closed.
pub fn put_in_place(of: &OwnedFd, place: &OwnedFd) -> io::Result<()> {
    // SAFETY: both descriptors are open, and the place stays one that its owner closes.
    unsafe { check(libc::dup3(of.as_raw_fd(), place.as_raw_fd(), libc::O_CLOEXEC)).map(drop) }
}

/// Reads an integer option of a packet socket.
pub fn packet_option(fd: &OwnedFd, name: i32) -> io::Result<i32> {
    let mut value = 0i32;
    let mut len = size_of::<i32>() as libc::socklen_t;
    // SAFETY: the kernel writes at most `len` bytes, which is the integer's size.
    unsafe {
        let value = (&raw mut value).cast::<c_void>();
        check(libc::getsockopt(fd.as_raw_fd(), libc::SOL_PACKET, name, value, &mut len))?;
    }
    Ok(value)
}

/// Lets no packet into a socket until [`let_in`].
pub fn keep_out(fd: &OwnedFd) -> io::Result<()> {
    // A program of one instruction: accept 0 bytes.
    let mut filter = libc::sock_filter { code: (libc::BPF_RET | libc::BPF_K) as u16, jt: 0, jf: 0, k: 0 };
    let program = libc::sock_fprog { len: 1, filter: &mut filter };
    set_option(fd, libc::SOL_SOCKET, libc::SO_ATTACH_FILTER, &program)
}

/// Ends what [`keep_out`] began.
pub fn let_in(fd: &OwnedFd) -> io::Result<()> {
    set_option(fd, libc::SOL_SOCKET, libc::SO_DETACH_FILTER, &0i32)
}

/// Counters of a packet socket since the last call: received (with dropped), dropped.
pub fn packet_statistics(fd: &OwnedFd) -> io::Result<(u32, u32)> {
    let mut stats = libc::tpacket_stats { tp_packets: 0, tp_drops: 0 };
    let mut len = size_of::<libc::tpacket_stats>() as libc::socklen_t;
    // SAFETY: the kernel writes at most `len` bytes, which is the structure's size.
    unsafe {
        let value = (&raw mut stats).cast::<c_void>();
        check(libc::getsockopt(fd.as_raw_fd(), libc::SOL_PACKET, libc::PACKET_STATISTICS, value, &mut len))?;
    }
    Ok((stats.tp_packets, stats.tp_drops))
}

/// The socket's pending error, which is cleared.
pub fn take_socket_error(fd: &OwnedFd) -> Option<io::Error> {
    let mut error = 0i32;
    let mut len = size_of::<i32>() as libc::socklen_t;
    // SAFETY: the kernel writes at most `len` bytes, which is the integer's size.
    let result = unsafe {
        let value = (&raw mut error).cast::<c_void>();
        libc::getsockopt(fd.as_raw_fd(), libc::SOL_SOCKET, libc::SO_ERROR, value, &mut len)
    };
    (result == 0 && error != 0).then(|| io::Error::from_raw_os_error(error))
}

/// Tells the kernel to send what the transmit ring holds.
pub fn kick(fd: &OwnedFd) -> io::Result<()> {
    // SAFETY: no buffer is passed: the data lies in the ring.
    let sent = unsafe { libc::send(fd.as_raw_fd(), std::ptr::null(), 0, libc::MSG_DONTWAIT) };
    if sent < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// Makes an interface take packets for all addresses for as long as this packet socket is open.
pub fn promiscuous(fd: &OwnedFd, interface: i32) -> io::Result<()> {
    let request = libc::packet_mreq {
        mr_ifindex: interface,
        mr_type: libc::PACKET_MR_PROMISC as u16,
        mr_alen: 0,
        mr_address: [0; 8],
    };
    set_option(fd, libc::SOL_PACKET, libc::PACKET_ADD_MEMBERSHIP, &request)
}
