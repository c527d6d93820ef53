//! Network interfaces (netdevice(7)).

use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

use super::call::check;

/// What the kernel says about an interface.
#[derive(Clone, Copy, Debug)]
pub struct Interface {
    /// Its index.
    pub index: i32,
    /// Bytes of payload per frame at most, without the Ethernet header.
    pub mtu: usize,
    /// Whether it is set up (`IFF_UP`).
    pub up: bool,
}

/// Bytes of an Ethernet header.
pub const ETHERNET: usize = 14;
/// Where a VLAN tag lies: after the two addresses.
pub const TAG_AT: usize = 12;
/// Bytes of a VLAN tag.
pub const TAG: usize = 4;

impl Interface {
    /// Whether the interface can send a frame of so many bytes that begins with these: it has a header and fits the
    /// MTU, with its tag where it has one.
    pub fn can_send(&self, head: &[u8], len: usize) -> bool {
        let tagged = head.len() >= ETHERNET && head[TAG_AT..ETHERNET] == [0x81, 0x00];
        head.len() >= ETHERNET && len <= self.mtu + ETHERNET + if tagged { TAG } else { 0 }
    }
}

/// A socket to ask for interfaces with; needs no privilege.
pub fn inet_socket() -> io::Result<OwnedFd> {
    // SAFETY: creates a descriptor that only the result owns.
    unsafe {
        let fd = check(libc::socket(libc::AF_INET, libc::SOCK_DGRAM | libc::SOCK_CLOEXEC, 0))?;
        Ok(OwnedFd::from_raw_fd(fd))
    }
}

/// A request about an interface; `ENODEV` where no interface can have this name.
pub fn interface_request(name: &str) -> io::Result<libc::ifreq> {
    // SAFETY: ifreq is plain data for which zero is valid.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    if name.is_empty() || name.len() >= request.ifr_name.len() || name.contains('\0') {
        return Err(io::Error::from_raw_os_error(libc::ENODEV));
    }
    for (to, from) in request.ifr_name.iter_mut().zip(name.bytes()) {
        *to = from as libc::c_char;
    }
    Ok(request)
}

/// The name of an interface, in the network namespace of the socket.
pub fn interface_name(fd: &OwnedFd, index: i32) -> io::Result<String> {
    // SAFETY: ifreq is plain data for which zero is valid. The kernel reads the index and writes the name.
    let request = unsafe {
        let mut request: libc::ifreq = std::mem::zeroed();
        request.ifr_ifru.ifru_ifindex = index;
        check(libc::ioctl(fd.as_raw_fd(), libc::SIOCGIFNAME as _, &mut request))?;
        request
    };
    let bytes: Vec<u8> = request.ifr_name.iter().map(|byte| *byte as u8).take_while(|byte| *byte != 0).collect();
    String::from_utf8(bytes).map_err(io::Error::other)
}

/// Asks for an interface by name, in the network namespace of the socket.
pub fn interface(fd: &OwnedFd, name: &str) -> io::Result<Interface> {
    let mut request = interface_request(name)?;
    // SAFETY: the kernel writes one field of the request's union per call, and that field is the one read.
    unsafe {
        check(libc::ioctl(fd.as_raw_fd(), libc::SIOCGIFINDEX as _, &mut request))?;
        let index = request.ifr_ifru.ifru_ifindex;
        check(libc::ioctl(fd.as_raw_fd(), libc::SIOCGIFMTU as _, &mut request))?;
        let mtu = request.ifr_ifru.ifru_mtu.max(0) as usize;
        check(libc::ioctl(fd.as_raw_fd(), libc::SIOCGIFFLAGS as _, &mut request))?;
        let up = i32::from(request.ifr_ifru.ifru_flags) & libc::IFF_UP != 0;
        Ok(Interface { index, mtu, up })
    }
}

/// Whether an interface's packets have an Ethernet header (`ARPHRD_ETHER`).
pub fn is_ethernet(fd: &OwnedFd, name: &str) -> io::Result<bool> {
    let mut request = interface_request(name)?;
    // SAFETY: as for `interface`.
    unsafe {
        check(libc::ioctl(fd.as_raw_fd(), libc::SIOCGIFHWADDR as _, &mut request))?;
        Ok(request.ifr_ifru.ifru_hwaddr.sa_family == libc::ARPHRD_ETHER)
    }
}

/// Sets an interface up.
pub fn set_up(fd: &OwnedFd, name: &str) -> io::Result<()> {
    let mut request = interface_request(name)?;
    // SAFETY: as for `interface`.
    unsafe {
        check(libc::ioctl(fd.as_raw_fd(), libc::SIOCGIFFLAGS as _, &mut request))?;
        request.ifr_ifru.ifru_flags |= libc::IFF_UP as libc::c_short;
        check(libc::ioctl(fd.as_raw_fd(), libc::SIOCSIFFLAGS as _, &request)).map(drop)
    }
}
