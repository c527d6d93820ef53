//! TAP devices.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::OpenOptionsExt;

use super::call::check;
use super::interface::interface_request;

/// Opens a TAP device, whole frames without offloads, and creates it where it is missing. Reads do not wait.
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
        request.ifr_ifru.ifru_flags = (libc::IFF_TAP | libc::IFF_NO_PI) as libc::c_short;
        check(libc::ioctl(file.as_raw_fd(), libc::TUNSETIFF as _, &mut request))?;
        // A device that was there may have been left with some.
        check(libc::ioctl(file.as_raw_fd(), libc::TUNSETOFFLOAD as _, 0 as libc::c_ulong))?;
    }
    Ok(file)
}
