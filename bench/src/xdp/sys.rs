//! The system call by which the kernel runs an XDP program over frames that it then really sends (`BPF_PROG_TEST_RUN` with live frames,
//! Documentation/bpf/bpf_prog_run.rst).

use std::io;
use std::mem::size_of;
use std::os::fd::{AsRawFd, BorrowedFd};

const PROG_TEST_RUN: libc::c_long = 10;
const LIVE_FRAMES: u32 = 1 << 1;

/// `struct xdp_md`
#[repr(C)]
struct Context {
    data: u32,
    data_end: u32,
    data_meta: u32,
    ingress_ifindex: u32,
    rx_queue_index: u32,
    egress_ifindex: u32,
}

#[repr(C)]
struct TestRun {
    prog_fd: u32,
    retval: u32,
    data_size_in: u32,
    data_size_out: u32,
    data_in: u64,
    data_out: u64,
    repeat: u32,
    duration: u32,
    ctx_size_in: u32,
    ctx_size_out: u32,
    ctx_in: u64,
    ctx_out: u64,
    flags: u32,
    cpu: u32,
    batch_size: u32,
    _pad: u32,
}

/// Runs a program so many times, as if frames of this length came in at an interface of the current network namespace.
pub fn send(program: BorrowedFd, interface: u32, len: usize, count: u32) -> io::Result<()> {
    let frame = vec![0u8; len];
    let context = Context {
        data: 0,
        data_end: len as u32,
        data_meta: 0,
        ingress_ifindex: interface,
        rx_queue_index: 0,
        egress_ifindex: 0,
    };
    let mut attributes = TestRun {
        prog_fd: program.as_raw_fd() as u32,
        retval: 0,
        data_size_in: len as u32,
        data_size_out: 0,
        data_in: frame.as_ptr() as u64,
        data_out: 0,
        repeat: count,
        duration: 0,
        ctx_size_in: size_of::<Context>() as u32,
        ctx_size_out: 0,
        ctx_in: (&raw const context) as u64,
        ctx_out: 0,
        flags: LIVE_FRAMES,
        cpu: 0,
        batch_size: 0,
        _pad: 0,
    };
    // SAFETY: the pointers lead to memory as long as is told, which lives through the call.
    let result = unsafe { libc::syscall(libc::SYS_bpf, PROG_TEST_RUN, &raw mut attributes, size_of::<TestRun>()) };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}
