//! Membership of sockets in multicast groups: the kernel says it to routers and switches (IGMPv3, MLDv2), and takes it
//! back when the socket ends.

use std::io;
use std::net::IpAddr;
use std::os::fd::OwnedFd;

use super::call::set_option;

/// `struct group_req` of `linux/in.h`.
#[derive(Clone, Copy)]
#[repr(C)]
struct GroupRequest {
    interface: u32,
    group: libc::sockaddr_storage,
}

/// Has a socket join a group, of one source alone or of any (RFC 3678), on the interface of this index; 0: the one that
/// the kernel's routes lead to the group by.
///
/// # Errors
/// The kernel's, also where source and group are of two versions of IP.
pub fn join_group(socket: &OwnedFd, group: IpAddr, source: Option<IpAddr>, interface: u32) -> io::Result<()> {
    let level = if group.is_ipv4() { libc::IPPROTO_IP } else { libc::IPPROTO_IPV6 };
    let group = storage(group);
    match source {
        None => set_option(socket, level, libc::MCAST_JOIN_GROUP, &GroupRequest { interface, group }),
        Some(source) => {
            let request =
                libc::group_source_req { gsr_interface: interface, gsr_group: group, gsr_source: storage(source) };
            set_option(socket, level, libc::MCAST_JOIN_SOURCE_GROUP, &request)
        }
    }
}

fn storage(address: IpAddr) -> libc::sockaddr_storage {
    // SAFETY: plain data for which zero is valid.
    let mut all: libc::sockaddr_storage = unsafe { std::mem::zeroed() };
    // SAFETY: the structure is large enough for the address of any family, and aligned for it.
    unsafe {
        match address {
            IpAddr::V4(v4) => {
                let own = &mut *(&raw mut all).cast::<libc::sockaddr_in>();
                own.sin_family = libc::AF_INET as libc::sa_family_t;
                own.sin_addr.s_addr = u32::from_ne_bytes(v4.octets());
            }
            IpAddr::V6(v6) => {
                let own = &mut *(&raw mut all).cast::<libc::sockaddr_in6>();
                own.sin6_family = libc::AF_INET6 as libc::sa_family_t;
                own.sin6_addr.s6_addr = v6.octets();
            }
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use std::net::UdpSocket;

    use super::*;

    /// The kernel takes what it can on the loopback interface, and says what is wrong otherwise.
    #[test]
    fn the_kernel_understands_it() {
        let socket = |address: &str| OwnedFd::from(UdpSocket::bind((address, 0)).unwrap());
        let [v4, v6] = [socket("0.0.0.0"), socket("::")];
        let address = |text: &str| text.parse::<IpAddr>().unwrap();
        for (socket, group, source) in [
            (&v4, "239.1.2.3", None),
            (&v4, "232.1.2.3", Some("10.0.0.1")),
            (&v6, "ff05::1:3", None),
            (&v6, "ff35::1:3", Some("2001:db8::1")),
        ] {
            join_group(socket, address(group), source.map(address), 1).unwrap();
        }
        assert!(join_group(&v4, address("10.0.0.1"), None, 1).is_err());
        assert!(join_group(&v4, address("232.1.2.4"), Some(address("2001:db8::1")), 1).is_err());
    }
}
