//! Which XDP program an interface has: one question to the kernel by rtnetlink(7).

use std::io;
use std::mem::size_of;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

use crate::sys::check;

/// Attributes of an interface and, within the first, of its XDP program (`linux/if_link.h`).
const IFLA_XDP: u16 = 43;
const IFLA_XDP_PROG_ID: u16 = 4;
const IFLA_XDP_DRV_PROG_ID: u16 = 5;
const IFLA_XDP_SKB_PROG_ID: u16 = 6;
/// Set in the type of an attribute that holds attributes.
const NESTED: u16 = 1 << 15;

#[repr(C)]
struct Request {
    header: libc::nlmsghdr,
    interface: libc::ifinfomsg,
}

/// The number of the XDP program that an interface has.
pub fn xdp_program(interface: i32) -> io::Result<Option<u32>> {
    // SAFETY: creates a descriptor that only the result owns.
    let socket = unsafe {
        let kind = libc::SOCK_RAW | libc::SOCK_CLOEXEC;
        OwnedFd::from_raw_fd(check(libc::socket(libc::AF_NETLINK, kind, libc::NETLINK_ROUTE))?)
    };
    // SAFETY: plain data for which zero is valid.
    let mut request: Request = unsafe { std::mem::zeroed() };
    request.header.nlmsg_len = size_of::<Request>() as u32;
    request.header.nlmsg_type = libc::RTM_GETLINK;
    request.header.nlmsg_flags = libc::NLM_F_REQUEST as u16;
    request.interface.ifi_index = interface;
    let mut answer = vec![0u8; 32 << 10];
    // SAFETY: pointers and lengths describe the request and the buffer. The kernel answers before `send` returns.
    let len = unsafe {
        let sent = libc::send(socket.as_raw_fd(), (&raw const request).cast(), size_of::<Request>(), 0);
        check(sent as i32)?;
        check(libc::recv(socket.as_raw_fd(), answer.as_mut_ptr().cast(), answer.len(), libc::MSG_DONTWAIT) as i32)?
    };
    answer.truncate(len as usize);
    let broken = || io::Error::from(io::ErrorKind::InvalidData);
    let kind = answer.get(4..6).ok_or_else(broken)?;
    if u16::from_ne_bytes([kind[0], kind[1]]) != libc::RTM_NEWLINK {
        return Err(io::Error::from_raw_os_error(libc::ENODEV));
    }
    Ok(program_of(answer.get(size_of::<Request>()..).ok_or_else(broken)?))
}

/// The program among the attributes of an interface.
fn program_of(attributes: &[u8]) -> Option<u32> {
    let (_, xdp) = each(attributes).find(|(kind, _)| *kind == IFLA_XDP)?;
    let id = |wanted| each(xdp).find(|(kind, _)| *kind == wanted).and_then(|(_, value)| value.try_into().ok());
    [IFLA_XDP_PROG_ID, IFLA_XDP_DRV_PROG_ID, IFLA_XDP_SKB_PROG_ID].into_iter().find_map(id).map(u32::from_ne_bytes)
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

    fn attribute(kind: u16, value: &[u8]) -> Vec<u8> {
        let mut bytes = [(value.len() as u16 + 4).to_ne_bytes(), kind.to_ne_bytes()].concat();
        bytes.extend(value);
        bytes.resize(bytes.len().next_multiple_of(4), 0);
        bytes
    }

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
}
