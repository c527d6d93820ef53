//! What a device does of the kernel's work, or what is done for it (`linux/ethtool.h`).

use std::io;
use std::net::{Ipv4Addr, UdpSocket};
use std::os::fd::{AsRawFd, OwnedFd};

use super::call::check;
use super::interface::interface_request;

/// The command that asks for it.
#[derive(Clone, Copy, Debug)]
pub struct Feature(u32);

/// Finishing checksums of what is sent (`ETHTOOL_GTXCSUM`).
pub const TX_CHECKSUM: Feature = Feature(0x16);
/// Dividing what is sent (`ETHTOOL_GTSO`).
pub const TSO: Feature = Feature(0x1e);

const SIOCETHTOOL: libc::c_ulong = 0x8946;

/// Whether an interface has it on, in the network namespace of the socket.
pub fn is_on(fd: &OwnedFd, interface: &str, Feature(command): Feature) -> io::Result<bool> {
    // `struct ethtool_value`
    let mut value = [command, 0];
    // SAFETY: the structure is that of the command.
    unsafe { ask(fd, interface, value.as_mut_ptr().cast())? };
    Ok(value[1] != 0)
}

/// `ETH_SS_FEATURES`
const FEATURES: u32 = 4;
/// `ETH_GSTRING_LEN`
const NAME_BYTES: usize = 32;

/// Which of these features are on at an interface, by the names that `ethtool -k` has for the device
/// (`tx-udp-segmentation`). One that the kernel does not know is not on.
pub fn are_on<const N: usize>(fd: &OwnedFd, interface: &str, names: [&str; N]) -> io::Result<[bool; N]> {
    // `ETHTOOL_GSSET_INFO`, `struct ethtool_sset_info`: how many there are.
    let mut set: [u32; 5] = [0x37, 0, 1 << FEATURES, 0, 0];
    #[cfg(target_endian = "big")]
    set.swap(2, 3);
    // SAFETY: one set is asked for, whose number of strings the last word takes.
    unsafe { ask(fd, interface, set.as_mut_ptr().cast())? };
    let count = set[4] as usize;
    // `ETHTOOL_GSTRINGS`, `struct ethtool_gstrings`: their names.
    let mut strings = vec![0u32; 3 + count * NAME_BYTES / 4];
    strings[..3].copy_from_slice(&[0x1b, FEATURES, count as u32]);
    // SAFETY: the names of the set are as many as the kernel has just said; that is fixed.
    unsafe { ask(fd, interface, strings.as_mut_ptr().cast())? };
    let bytes: Vec<u8> = strings[3..].iter().flat_map(|word| word.to_ne_bytes()).collect();
    let place = |name: &str| {
        let mut known = bytes.chunks_exact(NAME_BYTES);
        known.position(|known| known.split(|byte| *byte == 0).next() == Some(name.as_bytes()))
    };
    // `ETHTOOL_GFEATURES`, `struct ethtool_gfeatures`: of each 32 what is available, requested, active, never changed.
    let blocks = count.div_ceil(32);
    let mut state = vec![0u32; 2 + 4 * blocks];
    state[..2].copy_from_slice(&[0x3a, blocks as u32]);
    // SAFETY: the kernel writes as many blocks at most as it is told that there is room for.
    unsafe { ask(fd, interface, state.as_mut_ptr().cast())? };
    let is_on = |at: usize| state[2 + 4 * (at / 32) + 2] >> (at % 32) & 1 != 0;
    Ok(names.map(|name| place(name).is_some_and(is_on)))
}

/// Whether there is hardware behind an interface that is its own, such as a network card, and not another interface or
/// a process.
pub fn has_hardware(fd: &OwnedFd, interface: &str) -> io::Result<bool> {
    // `ETHTOOL_GDRVINFO`, `struct ethtool_drvinfo`: driver, three texts, of which the last is its place on a bus.
    let mut info = [0u8; 196];
    info[..4].copy_from_slice(&3u32.to_ne_bytes());
    // SAFETY: the structure has this size.
    unsafe { ask(fd, interface, info.as_mut_ptr().cast())? };
    let bus = info[100..132].split(|byte| *byte == 0).next().unwrap_or_default();
    // Virtual devices have none, or one of these.
    Ok(!matches!(bus, b"" | b"N/A" | b"tun" | b"tap"))
}

/// What an interface says of its link.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LinkMode {
    /// Bits per second; 0 where that is not known.
    pub speed: u64,
    /// Whether packets can pass in both directions at the same time; none where that is not known.
    pub full_duplex: Option<bool>,
}

/// That of an interface, by name, in this network namespace.
pub fn link_mode(interface: &str) -> io::Result<LinkMode> {
    let socket = OwnedFd::from(UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0))?);
    // `ETHTOOL_GSET`, `struct ethtool_cmd`.
    let mut link = [0u8; 44];
    link[..4].copy_from_slice(&1u32.to_ne_bytes());
    // SAFETY: the structure has this size.
    unsafe { ask(&socket, interface, link.as_mut_ptr().cast())? };
    let half = |at: usize| u32::from(u16::from_ne_bytes([link[at], link[at + 1]]));
    let megabits = half(28) << 16 | half(12);
    let full_duplex = [Some(false), Some(true)].get(usize::from(link[14])).copied().flatten();
    let speed = if megabits == u32::MAX { 0 } else { u64::from(megabits) * 1_000_000 };
    Ok(LinkMode { speed, full_duplex })
}

/// # Safety
/// The pointer is to the structure that the command takes which it begins with, with room for all that the kernel
/// writes.
unsafe fn ask(fd: &OwnedFd, interface: &str, structure: *mut libc::c_char) -> io::Result<()> {
    let mut request = interface_request(interface)?;
    // SAFETY: by the caller's promise.
    unsafe {
        request.ifr_ifru.ifru_data = structure;
        check(libc::ioctl(fd.as_raw_fd(), SIOCETHTOOL as _, &mut request)).map(drop)
    }
}
