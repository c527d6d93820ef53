//! Thin wrappers around the system calls that the data plane needs.

use std::ffi::c_void;
use std::fs::{File, OpenOptions};
use std::io;
use std::mem::size_of;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::fs::OpenOptionsExt;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicBool, Ordering, fence};

/// CLOCK_MONOTONIC in nanoseconds, the same for all threads.
pub fn monotonic_ns() -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the call writes one timespec. It cannot fail with this clock (clock_gettime(2)).
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &mut time) };
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// A private or shared memory mapping, unmapped on drop. Fresh anonymous pages are zero and cost nothing until touched.
#[derive(Debug)]
pub struct Mapping {
    start: NonNull<u8>,
    len: usize,
}

// SAFETY: the mapping is plain memory; who may touch which part of it is decided by its users.
unsafe impl Send for Mapping {}
// SAFETY: as above.
unsafe impl Sync for Mapping {}

impl Mapping {
    /// `len` zero bytes (at least one page), page-aligned.
    pub fn anonymous(len: usize) -> io::Result<Self> {
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
        let mapping = Self::map(len.max(1), flags, -1)?;
        // Fewer TLB misses on big regions; only a hint, so its result does not matter.
        if len >= 1 << 21 {
            // SAFETY: the range is the mapping just made.
            unsafe { libc::madvise(mapping.start.as_ptr().cast(), mapping.len, libc::MADV_HUGEPAGE) };
        }
        Ok(mapping)
    }

    /// Like [`Mapping::anonymous`] for sparse use: small pages, so that touching one byte costs 4 KiB and not 2 MiB.
    pub fn sparse(len: usize) -> io::Result<Self> {
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
        let mapping = Self::map(len.max(1), flags, -1)?;
        // SAFETY: the range is the mapping just made.
        unsafe { libc::madvise(mapping.start.as_ptr().cast(), mapping.len, libc::MADV_NOHUGEPAGE) };
        Ok(mapping)
    }

    /// `len` bytes of a file or socket, shared with the kernel.
    pub fn of_fd(fd: RawFd, len: usize) -> io::Result<Self> {
        Self::of_fd_at(fd, len, 0)
    }

    /// As [`Mapping::of_fd`], from an offset on, which for a socket says what is to be mapped.
    pub fn of_fd_at(fd: RawFd, len: usize, offset: i64) -> io::Result<Self> {
        Self::map_at(len, libc::MAP_SHARED, fd, offset)
    }

    fn map(len: usize, flags: i32, fd: RawFd) -> io::Result<Self> {
        Self::map_at(len, flags, fd, 0)
    }

    fn map_at(len: usize, flags: i32, fd: RawFd, offset: i64) -> io::Result<Self> {
        let rights = libc::PROT_READ | libc::PROT_WRITE;
        // SAFETY: a new mapping at an address of the kernel's choice touches no memory of ours.
        let start = unsafe { libc::mmap(std::ptr::null_mut(), len, rights, flags, fd, offset) };
        if start == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        Ok(Mapping { start: NonNull::new(start.cast()).expect("mmap never returns null"), len })
    }

    /// First byte.
    pub fn ptr(&self) -> *mut u8 {
        self.start.as_ptr()
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: the range was mapped by `map` and nothing refers to it any more.
        unsafe { libc::munmap(self.start.as_ptr().cast(), self.len) };
    }
}

/// Turns a −1 result into the error that `errno` holds.
pub fn check(result: i32) -> io::Result<i32> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result) }
}

/// The user by whose rights this process acts.
pub fn effective_user() -> u32 {
    // SAFETY: the call reads a number, and cannot fail.
    unsafe { libc::geteuid() }
}

/// Pins the calling thread to one CPU.
pub fn pin_to_cpu(cpu: usize) -> io::Result<()> {
    if cpu >= libc::CPU_SETSIZE as usize {
        return Err(io::Error::from_raw_os_error(libc::EINVAL));
    }
    // SAFETY: cpu_set_t is plain data for which zero is valid; the index was checked; 0 names the calling thread.
    unsafe {
        let mut set: libc::cpu_set_t = std::mem::zeroed();
        libc::CPU_SET(cpu, &mut set);
        check(libc::sched_setaffinity(0, size_of::<libc::cpu_set_t>(), &set)).map(drop)
    }
}

/// The CPUs that this process may run on, in order.
pub fn allowed_cpus() -> io::Result<Vec<usize>> {
    // SAFETY: cpu_set_t is plain data for which zero is valid, and the length given is its size; 0 names this thread.
    unsafe {
        let mut set: libc::cpu_set_t = std::mem::zeroed();
        check(libc::sched_getaffinity(0, size_of::<libc::cpu_set_t>(), &mut set))?;
        Ok((0..libc::CPU_SETSIZE as usize).filter(|&cpu| libc::CPU_ISSET(cpu, &set)).collect())
    }
}

/// Number of CPUs that there may ever be, one more than the highest number.
pub fn possible_cpus() -> io::Result<usize> {
    // As in "0-3" or "0,2-5".
    let list = std::fs::read_to_string("/sys/devices/system/cpu/possible")?;
    let last = list.trim().rsplit([',', '-']).next().and_then(|number| number.parse::<usize>().ok());
    last.map(|last| last + 1).ok_or_else(|| io::Error::from(io::ErrorKind::InvalidData))
}

/// What a thread said when it panicked.
pub fn panic_text(panic: &(dyn std::any::Any + Send)) -> &str {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("no message")
}

/// Waits until one of the descriptors is readable or the time is over. Interruptions count as time over. Whether there is
/// nothing but an error at one of them, which would be there at once the next time, too.
pub fn poll(fds: &mut [libc::pollfd], timeout_ms: i32) -> bool {
    // SAFETY: the pointer and the length describe the slice.
    unsafe { libc::poll(fds.as_mut_ptr(), fds.len() as libc::nfds_t, timeout_ms) };
    let any = |events| fds.iter().any(|fd| fd.revents & events != 0);
    any(libc::POLLERR | libc::POLLNVAL | libc::POLLHUP) && !any(libc::POLLIN)
}

/// Wakes a thread that sleeps in [`poll`], and costs nothing while it does not.
#[derive(Debug)]
pub struct Doorbell {
    fd: OwnedFd,
    sleeping: AtomicBool,
}

impl Doorbell {
    /// A new one; its owner is awake.
    pub fn new() -> io::Result<Self> {
        // SAFETY: creates a descriptor that only the result owns.
        let fd = unsafe { OwnedFd::from_raw_fd(check(libc::eventfd(0, libc::EFD_CLOEXEC | libc::EFD_NONBLOCK))?) };
        Ok(Doorbell { fd, sleeping: AtomicBool::new(false) })
    }

    /// What the owner waits for.
    pub fn fd(&self) -> RawFd {
        self.fd.as_raw_fd()
    }

    /// To be called after what the owner is to see was made visible.
    pub fn ring(&self) {
        // Either the owner sees what was made visible before it sleeps, or this sees that it sleeps.
        fence(Ordering::SeqCst);
        if self.sleeping.load(Ordering::Relaxed) {
            let one = 1u64;
            // SAFETY: the kernel reads eight bytes. It fails only where the bell has been rung 2^64 times.
            unsafe { libc::write(self.fd(), (&raw const one).cast(), size_of::<u64>()) };
        }
    }

    /// The owner is about to sleep. It looks once more at what it waits for between this and [`poll`].
    pub fn sleep(&self) {
        self.sleeping.store(true, Ordering::Relaxed);
        fence(Ordering::SeqCst);
    }

    /// The owner is awake again.
    pub fn wake_up(&self) {
        self.sleeping.store(false, Ordering::Relaxed);
        let mut rung = 0u64;
        // SAFETY: the kernel writes eight bytes, or nothing where it was not rung.
        unsafe { libc::read(self.fd(), (&raw mut rung).cast(), size_of::<u64>()) };
    }
}

/// A packet socket that receives nothing until it is bound.
pub fn packet_socket() -> io::Result<OwnedFd> {
    // SAFETY: creates a descriptor that only the result owns.
    unsafe {
        let fd = check(libc::socket(libc::AF_PACKET, libc::SOCK_RAW | libc::SOCK_CLOEXEC, 0))?;
        Ok(OwnedFd::from_raw_fd(fd))
    }
}

/// Binds a packet socket to all protocols of an interface.
pub fn bind_packet(fd: &OwnedFd, interface: i32) -> io::Result<()> {
    // SAFETY: sockaddr_ll is plain data for which zero is valid, and the length given is its size.
    unsafe {
        let mut address: libc::sockaddr_ll = std::mem::zeroed();
        address.sll_family = libc::AF_PACKET as u16;
        address.sll_protocol = (libc::ETH_P_ALL as u16).to_be();
        address.sll_ifindex = interface;
        let len = size_of::<libc::sockaddr_ll>() as libc::socklen_t;
        check(libc::bind(fd.as_raw_fd(), (&raw const address).cast(), len)).map(drop)
    }
}

/// Index of the interface that a packet socket is bound to; of one that was removed, −1.
pub fn bound_interface(fd: &OwnedFd) -> io::Result<i32> {
    // SAFETY: sockaddr_ll is plain data for which zero is valid; the kernel writes at most `len` bytes, which is its size.
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

/// Sets a socket option. `T` is the structure that the kernel defines for this option: plain data.
pub fn set_option<T: Copy>(fd: &OwnedFd, level: i32, name: i32, value: &T) -> io::Result<()> {
    // SAFETY: the kernel reads `size_of::<T>()` bytes from the value and keeps nothing.
    unsafe {
        let len = size_of::<T>() as libc::socklen_t;
        check(libc::setsockopt(fd.as_raw_fd(), level, name, (&raw const *value).cast::<c_void>(), len)).map(drop)
    }
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
    /// Whether the interface can send a frame: it has a header and fits the MTU, with its tag where it has one.
    pub fn can_send(&self, packet: &[u8]) -> bool {
        let tagged = packet.len() >= ETHERNET && packet[TAG_AT..ETHERNET] == [0x81, 0x00];
        packet.len() >= ETHERNET && packet.len() <= self.mtu + ETHERNET + if tagged { TAG } else { 0 }
    }
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

/// Enters another network namespace, with the calling thread alone.
pub fn enter_network(namespace: &File) -> io::Result<()> {
    // SAFETY: numbers only.
    unsafe { check(libc::setns(namespace.as_raw_fd(), libc::CLONE_NEWNET)).map(drop) }
}

/// What a device does of the kernel's work, or what is done for it (`linux/ethtool.h`).
pub mod ethtool {
    use super::*;

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
