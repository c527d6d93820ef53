//! Programs: loading, and running them for tests and at tracepoints.

use std::ffi::CStr;
use std::io;
use std::mem::size_of;
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd};
use std::time::Instant;

use codegen::kernel::Hook;

use super::call::{bpf, name, owned};
use super::verification;

/// Commands (`enum bpf_cmd`).
const PROG_LOAD: libc::c_long = 5;
const PROG_TEST_RUN: libc::c_long = 10;
const RAW_TRACEPOINT_OPEN: libc::c_long = 17;

/// `BPF_PROG_TYPE_SCHED_CLS`, `BPF_PROG_TYPE_XDP`, `BPF_PROG_TYPE_RAW_TRACEPOINT`
const SCHED_CLS: u32 = 3;
const XDP: u32 = 6;
const RAW_TRACEPOINT: u32 = 17;

/// Frames of a test run are sent (`BPF_F_TEST_XDP_LIVE_FRAMES`).
const LIVE_FRAMES: u32 = 1 << 1;

/// Packets in several parts are shown to the program, too (`BPF_F_XDP_HAS_FRAGS`).
pub const FRAGS: u32 = 1 << 5;

/// The verifier gives up where a signal comes (EAGAIN): it is asked again, so many times.
const ATTEMPTS: u32 = 10;

#[repr(C)]
#[derive(Default)]
struct ProgLoad {
    prog_type: u32,
    insn_cnt: u32,
    insns: u64,
    license: u64,
    log_level: u32,
    log_size: u32,
    log_buf: u64,
    kern_version: u32,
    prog_flags: u32,
    prog_name: [u8; 16],
}

#[repr(C)]
#[derive(Default)]
struct OpenTracepoint {
    name: u64,
    prog_fd: u32,
    _pad: u32,
    cookie: u64,
}

#[repr(C)]
#[derive(Default)]
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

/// A program for packets, with flags such as [`FRAGS`]. The log of the kernel's verifier goes to `log`, as far as it
/// fits, where that is not empty.
pub fn prog_load(hook: Hook, code: &[u8], named: &str, flags: u32, log: &mut [u8]) -> io::Result<OwnedFd> {
    let kind = match hook {
        Hook::Xdp => XDP,
        Hook::Tc => SCHED_CLS,
    };
    load(kind, code, named, flags, log)
}

/// A program for tracepoints.
pub fn tracer_load(code: &[u8], named: &str) -> io::Result<OwnedFd> {
    load(RAW_TRACEPOINT, code, named, 0, &mut [])
}

/// Runs a program at a tracepoint for as long as the result is open.
pub fn trace(program: &OwnedFd, tracepoint: &CStr) -> io::Result<OwnedFd> {
    let (name, prog_fd) = (tracepoint.as_ptr() as u64, program.as_raw_fd() as u32);
    let mut attributes = OpenTracepoint { name, prog_fd, ..OpenTracepoint::default() };
    // SAFETY: the name ends with a zero byte and lives through the call; the result is a new descriptor.
    unsafe { Ok(owned(bpf(RAW_TRACEPOINT_OPEN, &mut attributes)?)) }
}

fn load(kind: u32, code: &[u8], named: &str, flags: u32, log: &mut [u8]) -> io::Result<OwnedFd> {
    let license = c"GPL";
    let mut attributes = ProgLoad {
        prog_type: kind,
        insn_cnt: (code.len() / 8) as u32,
        insns: code.as_ptr() as u64,
        license: license.as_ptr() as u64,
        log_level: u32::from(!log.is_empty()),
        log_size: log.len() as u32,
        log_buf: if log.is_empty() { 0 } else { log.as_mut_ptr() as u64 },
        prog_flags: flags,
        prog_name: name(named),
        ..ProgLoad::default()
    };
    let (mut more, start) = (1..ATTEMPTS, Instant::now());
    let result = loop {
        // SAFETY: the pointers lead to memory as long as is told, which lives through the call.
        match unsafe { bpf(PROG_LOAD, &mut attributes) } {
            Err(error) if error.raw_os_error() == Some(libc::EAGAIN) && more.next().is_some() => {}
            result => break result,
        }
    };
    verification::note(start.elapsed());
    // SAFETY: the result is a new descriptor.
    result.map(|fd| unsafe { owned(fd) })
}

/// Runs a program once with this packet, of which, for XDP, so many bytes are the first fragment. Gives what it
/// returned, how many bytes of `out` hold the packet now, and how many nanoseconds it took.
pub fn test_run(program: &OwnedFd, packet: &[u8], first: usize, out: &mut [u8]) -> io::Result<(u32, usize, u32)> {
    let context = Context { data_end: first as u32, ..Context::default() };
    // A whole packet needs none.
    let ctx_size_in = if first < packet.len() { size_of::<Context>() as u32 } else { 0 };
    let mut attributes = TestRun {
        prog_fd: program.as_raw_fd() as u32,
        data_size_in: packet.len() as u32,
        data_size_out: out.len() as u32,
        data_in: packet.as_ptr() as u64,
        data_out: out.as_mut_ptr() as u64,
        ctx_size_in,
        ctx_in: if ctx_size_in == 0 { 0 } else { (&raw const context) as u64 },
        repeat: 1,
        ..TestRun::default()
    };
    // SAFETY: the pointers lead to memory as long as is told, which lives through the call.
    unsafe { bpf(PROG_TEST_RUN, &mut attributes)? };
    Ok((attributes.retval, attributes.data_size_out as usize, attributes.duration))
}

/// `struct xdp_md`
#[repr(C)]
#[derive(Default)]
struct Context {
    data: u32,
    data_end: u32,
    data_meta: u32,
    ingress_ifindex: u32,
    rx_queue_index: u32,
    egress_ifindex: u32,
}

/// Runs an XDP program so many times over frames of zeros that the kernel then really sends where the program says, as
/// if they came in at an interface of the current network namespace (live frames, Documentation/bpf/bpf_prog_run.rst).
pub fn send_live(program: BorrowedFd, interface: u32, len: usize, count: u32) -> io::Result<()> {
    let frame = vec![0u8; len];
    let context = Context { data_end: len as u32, ingress_ifindex: interface, ..Context::default() };
    let mut attributes = TestRun {
        prog_fd: program.as_raw_fd() as u32,
        data_size_in: len as u32,
        data_in: frame.as_ptr() as u64,
        repeat: count,
        ctx_size_in: size_of::<Context>() as u32,
        ctx_in: (&raw const context) as u64,
        flags: LIVE_FRAMES,
        ..TestRun::default()
    };
    // SAFETY: the pointers lead to memory as long as is told, which lives through the call.
    unsafe { bpf(PROG_TEST_RUN, &mut attributes).map(drop) }
}
