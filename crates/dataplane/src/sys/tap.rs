//! TAP devices.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::OpenOptionsExt;

use super::call::check;
use super::interface::interface_request;

/// What this end takes unfinished (linux/if_tun.h): checksums with super-packets of TCP, with ECN, and of UDP from
/// Linux 6.2 on.
const OFFLOADS: [libc::c_ulong; 2] = [0x0f | 0x60, 0x0f];

/// Opens a TAP device, frames with a header of what is left to be done (`IFF_VNET_HDR`), and creates it where it is
/// missing. Reads do not wait.
pub fn open_tap(name: &str) -> io::Result<File> {
    // A `%` would make the kernel choose a name.
    if name.contains(['%', '/', ':']) {
        return Err(io::Error::from_raw_os_error(libc::EINVAL));
    }
    let mut request = interface_request(name).map_err(|_| io::Error::from_raw_os_error(libc::EINVAL))?;
    let mut options = OpenOptions::new();
    let file = options.read(true).write(true).custom_flags(libc::O_NONBLOCK).open("/dev/net/tun")?;
    // SAFETY: the kernel reads and writes the request, which outlives the call; TUNSETOFFLOAD takes a number.
    unsafe {
        request.ifr_ifru.ifru_flags = (libc::IFF_TAP | libc::IFF_NO_PI | libc::IFF_VNET_HDR) as libc::c_short;
        check(libc::ioctl(file.as_raw_fd(), libc::TUNSETIFF as _, &mut request))?;
        // A device that was there may have been left with headers of another size.
        check(libc::ioctl(file.as_raw_fd(), libc::TUNSETVNETHDRSZ as _, &10i32))?;
        let offer = |offloads: libc::c_ulong| {
            check(libc::ioctl(file.as_raw_fd(), libc::TUNSETOFFLOAD as _, offloads)).map(drop)
        };
        OFFLOADS.into_iter().map(offer).find(|result| result.is_ok()).unwrap_or_else(|| offer(0))?;
    }
    Ok(file)
}
