//! The XDP program that hands every packet to the AF_XDP socket of the queue it came in by, and the one that lets every
//! packet through to the kernel's own stack ([`pass`], the third and the last of these instructions).
//!
//! Five instructions, so they are written down here and no compiler is asked:
//!
//! | instruction | meaning |
//! |---|---|
//! | `r2 = *(u32 *)(r1 + 16)` | the queue, `rx_queue_index` of `struct xdp_md` |
//! | `r1 = map ll` | the sockets by queue; takes two slots |
//! | `r3 = 2` | what becomes of a packet whose queue has no socket: `XDP_PASS` |
//! | `call 51` | `bpf_redirect_map` |
//! | `exit` | with what the call returned |

use std::io;
use std::os::fd::OwnedFd;

use codegen::kernel::Hook;

use super::own_addresses::OwnAddressSet;
use super::sys::{self, EXIT, FRAGS, MapType, OF_MAP, TC_NEXT, XDP_PASS, instruction};

/// Offset of `rx_queue_index` in `struct xdp_md`.
const QUEUE: i16 = 16;
const REDIRECT_MAP: i32 = 51;

fn load(code: &[u8], name: &str) -> io::Result<OwnedFd> {
    let load = |flags| sys::prog_load(Hook::Xdp, code, name, flags, &mut []);
    // Without it, which Linux before 5.18 does not know, interfaces with a large MTU take no program.
    match load(FRAGS) {
        Err(error) if error.raw_os_error() == Some(libc::EINVAL) => load(0),
        result => result,
    }
}

/// The program of a hook that lets every packet through, loaded with these flags.
pub fn pass(hook: Hook, flags: u32) -> io::Result<OwnedFd> {
    let through = if hook == Hook::Tc { TC_NEXT } else { XDP_PASS };
    sys::prog_load(hook, &[instruction(0xb7, 0, 0, 0, through), EXIT].concat(), "millrace_idle", flags, &mut [])
}

/// The program and its sockets.
#[derive(Debug)]
pub struct Redirect {
    program: OwnedFd,
    sockets: OwnedFd,
    own: Option<OwnAddressSet>,
}

impl Redirect {
    /// Loads the program for an interface with so many queues; no queue has a socket yet. Packets for `own` addresses
    /// go to the kernel's own stack.
    pub fn new(queues: u32, own: Option<OwnAddressSet>) -> io::Result<Self> {
        let sockets = sys::map_create(MapType::XskMap, 4, queues, 0, "millrace")?;
        let code = [
            instruction(0x61, 2, 1, QUEUE, 0),
            instruction(0x18, 1, OF_MAP, 0, sys::number(&sockets)),
            instruction(0, 0, 0, 0, 0),
            instruction(0xb7, 3, 0, 0, XDP_PASS),
            instruction(0x85, 0, 0, 0, REDIRECT_MAP),
            EXIT,
        ]
        .concat();
        let code = [own.as_ref().map_or(Vec::new(), OwnAddressSet::code), code].concat();
        Ok(Redirect { program: load(&code, "millrace_afxdp")?, sockets, own })
    }

    /// From now on the packets of a queue come to this socket, until it is closed.
    pub fn set(&self, queue: u32, socket: &OwnedFd) -> io::Result<()> {
        sys::map_update(&self.sockets, queue, sys::number(socket) as u32)
    }

    /// The addresses whose packets go to the kernel's own stack, where some do.
    pub fn own(&self) -> Option<&OwnAddressSet> {
        self.own.as_ref()
    }

    /// The program.
    pub fn program(&self) -> &OwnedFd {
        &self.program
    }
}
