//! How much packet sockets may have under way: as much as the system allows.

use std::os::fd::OwnedFd;

use crate::sys;

/// Bytes that a device may have of a socket's.
const SENDING: i32 = 8 << 20;
/// Bytes of super-packets that wait for a socket, as the kernel counts them: nothing is reserved.
const RECEIVING: i32 = 32 << 20;

/// Lets a socket have much on its way to a device.
pub fn enlarge_sending(socket: &OwnedFd) {
    enlarge(socket, [libc::SO_SNDBUFFORCE, libc::SO_SNDBUF], SENDING);
}

/// Lets much wait for a socket.
pub fn enlarge_receiving(socket: &OwnedFd) {
    enlarge(socket, [libc::SO_RCVBUFFORCE, libc::SO_RCVBUF], RECEIVING);
}

/// By one of two options: the first may exceed the system's limit, which takes a right.
fn enlarge(socket: &OwnedFd, options: [i32; 2], bytes: i32) {
    let set = |option: &i32| sys::set_option(socket, libc::SOL_SOCKET, *option, &bytes).is_ok();
    let _ = options.iter().any(set);
}
