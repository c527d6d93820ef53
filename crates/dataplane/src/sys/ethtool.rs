//! What a device does of the kernel's work, or what is done for it (`linux/ethtool.h`).

use std::io;
use std::os::fd::{AsRawFd, OwnedFd};

use super::call::check;
use super::interface::interface_request;

/// A command that asks for it, and the bits of the answer.
#[derive(Clone, Copy, Debug)]
pub struct Feature(u32, u32);

/// Finishing checksums of what is sent (`ETHTOOL_GTXCSUM`).
pub const TX_CHECKSUM: Feature = Feature(0x16, u32::MAX);
/// Dividing what is sent (`ETHTOOL_GTSO`).
pub const TSO: Feature = Feature(0x1e, u32::MAX);
/// Merging what is received, by the kernel (`ETHTOOL_GGRO`).
pub const GRO: Feature = Feature(0x2b, u32::MAX);
/// The same by the device (`ETHTOOL_GFLAGS`, `ETH_FLAG_LRO`).
pub const LRO: Feature = Feature(0x25, 1 << 15);

const SIOCETHTOOL: libc::c_ulong = 0x8946;

/// Whether an interface has it on, in the network namespace of the socket.
pub fn is_on(fd: &OwnedFd, interface: &str, Feature(command, bits): Feature) -> io::Result<bool> {
    // `struct ethtool_value`
    let mut value = [command, 0];
    let mut request = interface_request(interface)?;
    // SAFETY: the kernel writes the structure that the request points to, whose size the command says.
    unsafe {
        request.ifr_ifru.ifru_data = value.as_mut_ptr().cast();
        check(libc::ioctl(fd.as_raw_fd(), SIOCETHTOOL as _, &mut request))?;
    }
    Ok(value[1] & bits != 0)
}
