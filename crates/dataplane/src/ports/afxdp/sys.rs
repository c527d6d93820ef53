//! The system calls of AF_XDP (Documentation/networking/af_xdp.rst), and what else its ports ask the kernel.

use std::io;
use std::mem::size_of;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

use crate::sys::{check, interface_request, set_option};

/// The rings of a socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Fill,
    Completion,
    Rx,
    Tx,
}

impl Kind {
    /// Option that makes it, and what maps it.
    fn names(self) -> (libc::c_int, i64) {
        match self {
            Kind::Fill => (libc::XDP_UMEM_FILL_RING, libc::XDP_UMEM_PGOFF_FILL_RING as i64),
            Kind::Completion => (libc::XDP_UMEM_COMPLETION_RING, libc::XDP_UMEM_PGOFF_COMPLETION_RING as i64),
            Kind::Rx => (libc::XDP_RX_RING, libc::XDP_PGOFF_RX_RING),
            Kind::Tx => (libc::XDP_TX_RING, libc::XDP_PGOFF_TX_RING),
        }
    }

    /// What maps the ring.
    pub fn page(self) -> i64 {
        self.names().1
    }
}

/// A socket without anything.
pub fn socket() -> io::Result<OwnedFd> {
    // SAFETY: creates a descriptor that only the result owns.
    unsafe {
        let fd = check(libc::socket(libc::AF_XDP, libc::SOCK_RAW | libc::SOCK_CLOEXEC, 0))?;
        Ok(OwnedFd::from_raw_fd(fd))
    }
}

/// Makes memory the UMEM of a socket: chunks of `chunk` bytes, packets from `headroom` bytes behind the kernel's own
/// on.
///
/// # Safety
/// The memory stays mapped as long as the socket, or one that shares its UMEM, is open, and the kernel may write what
/// it is given of it.
pub unsafe fn register(fd: &OwnedFd, start: *mut u8, len: usize, chunk: u32, headroom: u32) -> io::Result<()> {
    let request = libc::xdp_umem_reg {
        addr: start as u64,
        len: len as u64,
        chunk_size: chunk,
        headroom,
        flags: 0,
        tx_metadata_len: 0,
    };
    set_option(fd, libc::SOL_XDP, libc::XDP_UMEM_REG, &request)
}

/// Makes a ring with so many places, a power of two.
pub fn make_ring(fd: &OwnedFd, kind: Kind, size: u32) -> io::Result<()> {
    set_option(fd, libc::SOL_XDP, kind.names().0, &size)
}

/// Lets one system call send so many packets; the kernel may not know this, and sends 32 then.
pub fn set_budget(fd: &OwnedFd, packets: u32) {
    /// `XDP_MAX_TX_SKB_BUDGET`, since Linux 6.17.
    const BUDGET: libc::c_int = 9;
    // Only makes it faster.
    let _ = set_option(fd, libc::SOL_XDP, BUDGET, &packets);
}

/// Reads an option. `T` is the structure that the kernel defines for this option: plain data for which zero is valid.
fn option<T: Copy>(fd: &OwnedFd, name: libc::c_int) -> io::Result<T> {
    // SAFETY: zero is valid, by the function's contract; the kernel writes at most `len` bytes, which is its size.
    unsafe {
        let mut value: T = std::mem::zeroed();
        let mut len = size_of::<T>() as libc::socklen_t;
        check(libc::getsockopt(fd.as_raw_fd(), libc::SOL_XDP, name, (&raw mut value).cast(), &mut len))?;
        Ok(value)
    }
}

/// Where the parts of a ring lie in its mapping.
pub fn offsets(fd: &OwnedFd, kind: Kind) -> io::Result<libc::xdp_ring_offset> {
    let all: libc::xdp_mmap_offsets = option(fd, libc::XDP_MMAP_OFFSETS)?;
    Ok(match kind {
        Kind::Fill => all.fr,
        Kind::Completion => all.cr,
        Kind::Rx => all.rx,
        Kind::Tx => all.tx,
    })
}

/// Whether the driver reads and writes frames itself.
pub fn is_zero_copy(fd: &OwnedFd) -> io::Result<bool> {
    let options: libc::xdp_options = option(fd, libc::XDP_OPTIONS)?;
    Ok(options.flags & libc::XDP_OPTIONS_ZEROCOPY != 0)
}

/// Packets that the kernel dropped because they had no frame, did not fit, or the ring was full.
pub fn dropped(fd: &OwnedFd) -> io::Result<u64> {
    let statistics: libc::xdp_statistics = option(fd, libc::XDP_STATISTICS)?;
    Ok(statistics.rx_dropped + statistics.rx_ring_full)
}

/// Binds a socket to a queue. With `shared`, to the UMEM of that socket, and without flags of its own.
pub fn bind(fd: &OwnedFd, interface: i32, queue: u32, flags: u16, shared: Option<&OwnedFd>) -> io::Result<()> {
    let address = libc::sockaddr_xdp {
        sxdp_family: libc::AF_XDP as u16,
        sxdp_flags: if shared.is_some() { libc::XDP_SHARED_UMEM } else { flags },
        sxdp_ifindex: interface as u32,
        sxdp_queue_id: queue,
        sxdp_shared_umem_fd: shared.map_or(0, |fd| fd.as_raw_fd() as u32),
    };
    // SAFETY: the pointer and the length describe the address.
    unsafe {
        let len = size_of::<libc::sockaddr_xdp>() as libc::socklen_t;
        check(libc::bind(fd.as_raw_fd(), (&raw const address).cast(), len)).map(drop)
    }
}

/// Tells the kernel that the fill ring has frames again.
pub fn wake(fd: &OwnedFd) {
    // SAFETY: no buffer is passed. What it returns says nothing: frames are seen in the ring.
    unsafe {
        libc::recvfrom(
            fd.as_raw_fd(),
            std::ptr::null_mut(),
            0,
            libc::MSG_DONTWAIT,
            std::ptr::null_mut(),
            std::ptr::null_mut(),
        )
    };
}

/// Several descriptors as one: readable while one of them is.
pub fn epoll() -> io::Result<OwnedFd> {
    // SAFETY: creates a descriptor that only the result owns.
    unsafe { Ok(OwnedFd::from_raw_fd(check(libc::epoll_create1(libc::EPOLL_CLOEXEC))?)) }
}

/// Adds one. It is taken out when it is closed.
pub fn watch(epoll: &OwnedFd, fd: &OwnedFd) -> io::Result<()> {
    let mut event = libc::epoll_event { events: libc::EPOLLIN as u32, u64: 0 };
    // SAFETY: the kernel reads the event and keeps nothing of ours.
    unsafe { check(libc::epoll_ctl(epoll.as_raw_fd(), libc::EPOLL_CTL_ADD, fd.as_raw_fd(), &mut event)).map(drop) }
}

/// Numbers of queues of an interface, for receiving and for sending. One each where the driver does not say.
pub fn queues(fd: &OwnedFd, name: &str) -> (u32, u32) {
    /// `SIOCETHTOOL`, `ETHTOOL_GCHANNELS`
    const ETHTOOL: libc::c_ulong = 0x8946;
    const GET_CHANNELS: u32 = 0x3c;
    #[repr(C)]
    #[derive(Default)]
    struct Channels {
        command: u32,
        max: [u32; 4],
        rx: u32,
        tx: u32,
        other: u32,
        combined: u32,
    }
    let mut channels = Channels { command: GET_CHANNELS, ..Channels::default() };
    let Ok(mut request) = interface_request(name) else { return (1, 1) };
    // SAFETY: the kernel writes the structure that the request points to, whose size the command says.
    let result = unsafe {
        request.ifr_ifru.ifru_data = (&raw mut channels).cast();
        check(libc::ioctl(fd.as_raw_fd(), ETHTOOL as _, &mut request))
    };
    match result {
        // veth counts its pairs of queues a second time as combined ones.
        Ok(_) => (channels.rx.max(channels.combined).max(1), channels.tx.max(channels.combined).max(1)),
        Err(_) => (1, 1),
    }
}
