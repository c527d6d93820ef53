//! What the kernel says about an interface by netlink(7): its XDP program, what its driver can do with XDP, what it has
//! counted.

use std::fs::File;
use std::io;
use std::mem::size_of;
use std::net::IpAddr;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

use crate::sys::check;

/// Attributes of an interface and, within one, of its XDP program (`linux/if_link.h`).
const IFLA_LINK: u16 = 5;
const IFLA_LINKINFO: u16 = 18;
const IFLA_INFO_KIND: u16 = 1;
const IFLA_STATS64: u16 = 23;
const IFLA_LINK_NETNSID: u16 = 37;
const IFLA_XDP: u16 = 43;
const IFLA_XDP_FD: u16 = 1;
const IFLA_XDP_FLAGS: u16 = 3;
const IFLA_XDP_PROG_ID: u16 = 4;
const IFLA_XDP_DRV_PROG_ID: u16 = 5;
const IFLA_XDP_SKB_PROG_ID: u16 = 6;
/// Set in the type of an attribute that holds attributes.
const NESTED: u16 = 1 << 15;

/// A network namespace's number in another one (`linux/net_namespace.h`), and bytes of `struct rtgenmsg` with what
/// fills them up.
const RTM_GETNSID: u16 = 90;
const NETNSA_NSID: u16 = 1;
const NETNSA_FD: u16 = 3;
const RTGENMSG: [u8; 4] = [0; 4];

/// Attributes of an address (`linux/if_addr.h`), and bytes of `struct ifaddrmsg`.
const IFA_ADDRESS: u16 = 1;
const IFA_LOCAL: u16 = 2;
const ADDRESS_HEADER: usize = 8;

/// Of a queueing discipline (`linux/rtnetlink.h`, `linux/gen_stats.h`): its statistics, and within them those of its
/// queue, of which the third number is what it has dropped; bytes of `struct tcmsg`, and the parent of an interface's
/// own one.
const TCA_STATS2: u16 = 7;
const TCA_STATS_QUEUE: u16 = 3;
const DROPS: usize = 8;
const TC_HEADER: usize = 20;
const TC_H_ROOT: u32 = u32::MAX;

/// Where families of generic netlink are asked for (`linux/genetlink.h`).
const CONTROLLER: u16 = 0x10;
const CTRL_CMD_GETFAMILY: u8 = 3;
const CTRL_ATTR_FAMILY_ID: u16 = 1;
const CTRL_ATTR_FAMILY_NAME: u16 = 2;
/// Of the family `netdev` (`linux/netdev.h`), since Linux 6.3.
const NETDEV_CMD_DEV_GET: u8 = 1;
const NETDEV_A_DEV_IFINDEX: u16 = 1;
const NETDEV_A_DEV_XDP_FEATURES: u16 = 3;
const NETDEV_XDP_ACT_BASIC: u64 = 1;
const NETDEV_XDP_ACT_NDO_XMIT: u64 = 1 << 2;
const NETDEV_XDP_ACT_NDO_XMIT_SG: u64 = 1 << 6;

/// What an interface has counted (the first of `struct rtnl_link_stats64`).
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Statistics {
    pub rx_packets: u64,
    pub tx_packets: u64,
    pub rx_bytes: u64,
    pub tx_bytes: u64,
    pub rx_errors: u64,
    pub tx_errors: u64,
    pub rx_dropped: u64,
    pub tx_dropped: u64,
}

/// What an interface's queueing discipline has counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct QueueStatistics {
    /// Its number, by which another one is told apart.
    pub handle: u32,
    /// Packets that it has dropped, modulo 2^32.
    pub drops: u32,
}

/// What is asked of an interface.
#[derive(Debug)]
pub struct Link {
    /// The number of its XDP program.
    pub program: Option<u32>,
    pub statistics: Statistics,
    /// One end of a pair of virtual devices.
    pub is_veth: bool,
    /// The other end.
    pub peer: Option<Peer>,
}

/// The other end of a virtual device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Peer {
    /// Its index where it is.
    pub index: i32,
    /// The number of its network namespace here, where that is another one.
    pub namespace: Option<i32>,
}

/// Asks in the network namespace in which it was made.
#[derive(Debug)]
pub struct Netlink {
    route: OwnedFd,
    generic: OwnedFd,
    /// The number of `netdev`, where the kernel has it.
    netdev: Option<u16>,
}

impl Netlink {
    /// Opens it.
    pub fn new() -> io::Result<Self> {
        let open = |protocol| {
            // SAFETY: creates a descriptor that only the result owns.
            unsafe {
                let fd = libc::socket(libc::AF_NETLINK, libc::SOCK_RAW | libc::SOCK_CLOEXEC, protocol);
                check(fd).map(|fd| OwnedFd::from_raw_fd(fd))
            }
        };
        let (route, generic) = (open(libc::NETLINK_ROUTE)?, open(libc::NETLINK_GENERIC)?);
        let name = [(CTRL_ATTR_FAMILY_NAME, &b"netdev\0"[..])];
        let answer = ask(&generic, CONTROLLER, 0, &[CTRL_CMD_GETFAMILY, 1, 0, 0], &name).ok();
        let netdev = answer.and_then(|answer| Some(u16::from_ne_bytes(find(&answer, CTRL_ATTR_FAMILY_ID)?)));
        Ok(Netlink { route, generic, netdev })
    }

    /// What there is to know of an interface.
    pub fn link(&self, interface: i32) -> io::Result<Link> {
        let answer = ask(&self.route, libc::RTM_GETLINK, 0, &ifinfomsg(interface), &[])?;
        let statistics = statistics_of(&answer).unwrap_or_default();
        let is_veth = kind_of(&answer) == Some(b"veth\0");
        let number = |wanted| find(&answer, wanted).map(i32::from_ne_bytes);
        let peer = number(IFLA_LINK).filter(|_| is_veth);
        let peer = peer.map(|index| Peer { index, namespace: number(IFLA_LINK_NETNSID).filter(|number| *number >= 0) });
        Ok(Link { program: program_of(&answer), statistics, is_veth, peer })
    }

    /// The number that a network namespace has here, if it has one.
    pub fn namespace(&self, file: &File) -> io::Result<Option<i32>> {
        let fd = [(NETNSA_FD, &file.as_raw_fd().to_ne_bytes()[..])];
        let answer = ask(&self.route, RTM_GETNSID, 0, &RTGENMSG, &fd)?;
        Ok(find(&answer, NETNSA_NSID).map(i32::from_ne_bytes).filter(|number| *number >= 0))
    }

    /// The addresses of an interface.
    pub fn addresses(&self, interface: i32) -> io::Result<Vec<IpAddr>> {
        // `struct ifaddrmsg` of all families.
        self.dump(libc::RTM_GETADDR, &[0; ADDRESS_HEADER], |body| address_of(body, interface))
    }

    /// What the queueing discipline of an interface has counted, with those below it; nothing where there is none.
    pub fn queue(&self, interface: i32) -> io::Result<QueueStatistics> {
        // What asks for that of one interface alone is answered to all that listen for changes.
        let found = self.dump(libc::RTM_GETQDISC, &[0; TC_HEADER], |body| queue_of(body, interface))?;
        Ok(found.into_iter().next().unwrap_or_default())
    }

    /// What is made of each answer about all that there is of a kind.
    fn dump<T>(&self, kind: u16, header: &[u8], mut of: impl FnMut(&[u8]) -> Option<T>) -> io::Result<Vec<T>> {
        send(&self.route, kind, libc::NLM_F_DUMP, header, &[])?;
        let mut found = Vec::new();
        loop {
            let answer = receive(&self.route)?;
            for (kind, body) in messages(&answer) {
                match i32::from(kind) {
                    libc::NLMSG_DONE => return Ok(found),
                    libc::NLMSG_ERROR => return Err(io::ErrorKind::InvalidData.into()),
                    _ => found.extend(of(body)),
                }
            }
        }
    }

    /// Takes a program off an interface that no link holds there; in the driver or in the kernel, as the flag says.
    pub fn detach(&self, interface: i32, flag: u32) -> io::Result<()> {
        let (fd, flag) =
            (attribute(IFLA_XDP_FD, &(-1i32).to_ne_bytes()), attribute(IFLA_XDP_FLAGS, &flag.to_ne_bytes()));
        let xdp = [(IFLA_XDP | NESTED, &[fd, flag].concat()[..])];
        ask(&self.route, libc::RTM_SETLINK, libc::NLM_F_ACK, &ifinfomsg(interface), &xdp).map(drop)
    }

    /// Whether the kernel says which interfaces take packets from programs at others.
    #[cfg(test)]
    pub fn tells_redirects(&self) -> bool {
        self.netdev.is_some()
    }

    /// Whether packets can be sent by it from programs at other interfaces, also those in several `fragments`. Where
    /// the kernel does not say (before Linux 6.3), it is taken to be so of all but veth devices, with which that
    /// depends on their other end.
    pub fn takes_redirects(&self, interface: i32, fragments: bool) -> bool {
        if self.netdev.is_none() {
            return self.link(interface).is_ok_and(|link| !link.is_veth);
        }
        let wanted = NETDEV_XDP_ACT_NDO_XMIT | if fragments { NETDEV_XDP_ACT_NDO_XMIT_SG } else { 0 };
        self.xdp_features(interface).is_none_or(|features| features & wanted == wanted)
    }

    /// Whether its driver runs XDP programs itself. Where the kernel does not say, it is taken to.
    pub fn has_xdp(&self, interface: i32) -> bool {
        self.xdp_features(interface).is_none_or(|features| features & NETDEV_XDP_ACT_BASIC != 0)
    }

    /// What its driver says that it can do with XDP, where the kernel has that (Linux 6.3).
    fn xdp_features(&self, interface: i32) -> Option<u64> {
        let index = [(NETDEV_A_DEV_IFINDEX, &interface.to_ne_bytes()[..])];
        let answer = ask(&self.generic, self.netdev?, 0, &[NETDEV_CMD_DEV_GET, 1, 0, 0], &index);
        answer.ok().and_then(|answer| find(&answer, NETDEV_A_DEV_XDP_FEATURES)).map(u64::from_ne_bytes)
    }
}

/// The header of questions about an interface (`struct ifinfomsg`).
fn ifinfomsg(interface: i32) -> [u8; 16] {
    let mut header = [0; 16];
    header[4..8].copy_from_slice(&interface.to_ne_bytes());
    header
}

/// The address in an answer about one of this interface.
fn address_of(body: &[u8], interface: i32) -> Option<IpAddr> {
    let (header, attributes) = body.split_at_checked(ADDRESS_HEADER)?;
    if header[4..8] != interface.to_ne_bytes() {
        return None;
    }
    // Of an interface with another end, `IFA_ADDRESS` is that one's.
    let value = |wanted| each(attributes).find(|(kind, _)| *kind == wanted).map(|(_, value)| value);
    let value = value(IFA_LOCAL).or_else(|| value(IFA_ADDRESS))?;
    match i32::from(header[0]) {
        libc::AF_INET => <[u8; 4]>::try_from(value).ok().map(IpAddr::from),
        libc::AF_INET6 => <[u8; 16]>::try_from(value).ok().map(IpAddr::from),
        _ => None,
    }
}

/// What an answer about a queueing discipline says, if it is this interface's own.
fn queue_of(body: &[u8], interface: i32) -> Option<QueueStatistics> {
    let (header, attributes) = body.split_at_checked(TC_HEADER)?;
    if header[4..8] != interface.to_ne_bytes() || header[12..16] != TC_H_ROOT.to_ne_bytes() {
        return None;
    }
    let (_, statistics) = each(attributes).find(|(kind, _)| *kind == TCA_STATS2)?;
    let (_, queue) = each(statistics).find(|(kind, _)| *kind == TCA_STATS_QUEUE)?;
    let handle = header[8..].first_chunk().copied().map(u32::from_ne_bytes)?;
    let drops = queue.get(DROPS..)?.first_chunk().copied().map(u32::from_ne_bytes)?;
    Some(QueueStatistics { handle, drops })
}

/// Messages one after the other, type and what follows the header, up to one that is cut off.
fn messages(mut bytes: &[u8]) -> impl Iterator<Item = (u16, &[u8])> {
    const HEADER: usize = size_of::<libc::nlmsghdr>();
    std::iter::from_fn(move || {
        let [l0, l1, l2, l3, k0, k1] = *bytes.first_chunk()?;
        let len = u32::from_ne_bytes([l0, l1, l2, l3]) as usize;
        let body = bytes.get(HEADER..len)?;
        bytes = bytes.get(len.next_multiple_of(4)..).unwrap_or_default();
        Some((u16::from_ne_bytes([k0, k1]), body))
    })
}

/// One question with the family's header and attributes; the attributes of the answer.
fn ask(socket: &OwnedFd, kind: u16, flags: i32, header: &[u8], attributes: &[(u16, &[u8])]) -> io::Result<Vec<u8>> {
    send(socket, kind, flags, header, attributes)?;
    let answer = receive(socket)?;
    let broken = || io::Error::from(io::ErrorKind::InvalidData);
    let said = answer.get(4..6).ok_or_else(broken)?;
    if u16::from_ne_bytes([said[0], said[1]]) == libc::NLMSG_ERROR as u16 {
        let code = answer.get(16..20).and_then(|code| code.try_into().ok()).map_or(0, i32::from_ne_bytes);
        return if code == 0 { Ok(Vec::new()) } else { Err(io::Error::from_raw_os_error(-code)) };
    }
    Ok(answer.get(size_of::<libc::nlmsghdr>() + header.len()..).ok_or_else(broken)?.to_vec())
}

/// Sends a question.
fn send(socket: &OwnedFd, kind: u16, flags: i32, header: &[u8], attributes: &[(u16, &[u8])]) -> io::Result<()> {
    // SAFETY: plain data for which zero is valid.
    let mut message: libc::nlmsghdr = unsafe { std::mem::zeroed() };
    let mut body = header.to_vec();
    attributes.iter().for_each(|(kind, value)| body.extend(attribute(*kind, value)));
    message.nlmsg_len = (size_of::<libc::nlmsghdr>() + body.len()) as u32;
    (message.nlmsg_type, message.nlmsg_flags) = (kind, (libc::NLM_F_REQUEST | flags) as u16);
    // SAFETY: pointers and lengths describe the parts of the request.
    unsafe {
        let part = |base: *const u8, len| libc::iovec { iov_base: base.cast_mut().cast(), iov_len: len };
        let mut parts =
            [part((&raw const message).cast(), size_of::<libc::nlmsghdr>()), part(body.as_ptr(), body.len())];
        let mut request: libc::msghdr = std::mem::zeroed();
        (request.msg_iov, request.msg_iovlen) = (parts.as_mut_ptr(), parts.len());
        check(libc::sendmsg(socket.as_raw_fd(), &request, 0) as i32).map(drop)
    }
}

/// What the kernel answers, which it does before the question is sent.
fn receive(socket: &OwnedFd) -> io::Result<Vec<u8>> {
    let mut answer = vec![0u8; 32 << 10];
    // SAFETY: pointer and length describe the buffer.
    let len = unsafe {
        check(libc::recv(socket.as_raw_fd(), answer.as_mut_ptr().cast(), answer.len(), libc::MSG_DONTWAIT) as i32)?
    };
    answer.truncate(len as usize);
    Ok(answer)
}

/// An attribute as bytes.
fn attribute(kind: u16, value: &[u8]) -> Vec<u8> {
    let mut bytes = [(value.len() as u16 + 4).to_ne_bytes(), kind.to_ne_bytes()].concat();
    bytes.extend(value);
    bytes.resize(bytes.len().next_multiple_of(4), 0);
    bytes
}

/// The value of an attribute, from its first byte on.
fn find<const N: usize>(attributes: &[u8], wanted: u16) -> Option<[u8; N]> {
    each(attributes).find(|(kind, _)| *kind == wanted)?.1.first_chunk().copied()
}

/// The program among the attributes of an interface.
fn program_of(attributes: &[u8]) -> Option<u32> {
    let (_, xdp) = each(attributes).find(|(kind, _)| *kind == IFLA_XDP)?;
    let id = |wanted| find(xdp, wanted).map(u32::from_ne_bytes);
    [IFLA_XDP_PROG_ID, IFLA_XDP_DRV_PROG_ID, IFLA_XDP_SKB_PROG_ID].into_iter().find_map(id)
}

/// What kind of virtual device it is, if it is one.
fn kind_of(attributes: &[u8]) -> Option<&[u8]> {
    let (_, info) = each(attributes).find(|(kind, _)| *kind == IFLA_LINKINFO)?;
    each(info).find(|(kind, _)| *kind == IFLA_INFO_KIND).map(|(_, value)| value)
}

/// Its counters.
fn statistics_of(attributes: &[u8]) -> Option<Statistics> {
    let bytes: [u8; size_of::<Statistics>()] = find(attributes, IFLA_STATS64)?;
    let mut words = bytes.chunks_exact(8).map(|word| u64::from_ne_bytes(word.try_into().unwrap_or_default()));
    let mut next = || words.next().unwrap_or_default();
    Some(Statistics {
        rx_packets: next(),
        tx_packets: next(),
        rx_bytes: next(),
        tx_bytes: next(),
        rx_errors: next(),
        tx_errors: next(),
        rx_dropped: next(),
        tx_dropped: next(),
    })
}

/// Attributes one after the other, type and value, up to one that is cut off.
fn each(mut bytes: &[u8]) -> impl Iterator<Item = (u16, &[u8])> {
    std::iter::from_fn(move || {
        let [l0, l1, k0, k1] = *bytes.first_chunk()?;
        let len = usize::from(u16::from_ne_bytes([l0, l1]));
        let value = bytes.get(4..len)?;
        bytes = bytes.get(len.next_multiple_of(4)..).unwrap_or_default();
        Some((u16::from_ne_bytes([k0, k1]) & !NESTED, value))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_are_found_among_attributes() {
        let id = attribute(IFLA_XDP_SKB_PROG_ID, &77u32.to_ne_bytes());
        let xdp = attribute(IFLA_XDP | NESTED, &[attribute(2, &[2]), id].concat());
        let all = [attribute(3, b"eth0\0"), xdp].concat();
        assert_eq!(program_of(&all), Some(77));
        assert_eq!(program_of(&attribute(3, b"eth0\0")), None);
        for len in 0..all.len() {
            assert_eq!(program_of(&all[..len]), None, "{len}");
        }
    }

    #[test]
    fn loopback_has_no_program_and_counts() {
        let netlink = Netlink::new().unwrap();
        let link = netlink.link(1).unwrap();
        assert_eq!(netlink.addresses(i32::MAX).unwrap(), [] as [IpAddr; 0]);
        // It goes on with the next question.
        assert!(netlink.addresses(1).unwrap().iter().all(IpAddr::is_loopback));
        assert_eq!((link.program, link.is_veth), (None, false));
        assert_eq!(netlink.link(i32::MAX).unwrap_err().raw_os_error(), Some(libc::ENODEV));
        assert_eq!(
            netlink.tells_redirects(),
            !netlink.takes_redirects(1, false),
            "loopback takes none, if the kernel can tell"
        );
    }
}
