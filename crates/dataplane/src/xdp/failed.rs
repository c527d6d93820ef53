//! Counts packets that the kernel could not send where the fast path wanted them: to a device that is down, or whose
//! MTU is smaller. The program has ended by then, so the kernel's tracepoint `xdp_redirect_err` is what tells
//! (`include/trace/events/xdp.h`). It has seven arguments of 8 bytes, of which the last are the numbers of the map of
//! devices and of the port in it.
//!
//! | instruction | meaning |
//! |---|---|
//! | `r2 = *(u64 *)(r1 + 40)` | the map |
//! | `if w2 != ours goto end` | another owner's |
//! | `r0 = *(u64 *)(r1 + 48)` | the port |
//! | `r0 &= 255`, `r0 <<= 3` | |
//! | `r1 = memory + FAILED ll` | takes two slots |
//! | `r1 += r0` | |
//! | `r2 = 1` | |
//! | `lock *(u64 *)(r1 + 0) += r2` | |
//! | `end: r0 = 0`, `exit` | |

use std::io;
use std::os::fd::OwnedFd;

use codegen::kernel::FAILED;

use super::sys::{self, OF_VALUE, instruction};

/// Where the sixth and the seventh argument lie.
const MAP: i16 = 40;
const PORT: i16 = 48;

/// It counts for as long as this is there.
#[derive(Debug)]
pub struct Failed {
    _link: OwnedFd,
}

impl Failed {
    /// Counts what cannot be sent by the devices of a map, in the memory of a program.
    pub fn count(devices: &OwnedFd, memory: &OwnedFd) -> io::Result<Self> {
        let code = [
            instruction(0x79, 2, 1, MAP, 0),
            instruction(0x56, 2, 0, 8, sys::object_id(devices)? as i32),
            instruction(0x79, 0, 1, PORT, 0),
            instruction(0x57, 0, 0, 0, 255),
            instruction(0x67, 0, 0, 0, 3),
            instruction(0x18, 1, OF_VALUE, 0, sys::number(memory)),
            instruction(0, 0, 0, 0, FAILED as i32),
            instruction(0x0f, 1, 0, 0, 0),
            instruction(0xb7, 2, 0, 0, 1),
            instruction(0xdb, 1, 2, 0, 0),
            instruction(0xb7, 0, 0, 0, 0),
            instruction(0x95, 0, 0, 0, 0),
        ]
        .concat();
        let program = sys::tracer_load(&code, "millrace_failed")?;
        Ok(Failed { _link: sys::trace(&program, c"xdp_redirect_err")? })
    }
}
