//! Counts packets that the kernel could not send where the fast path wanted them: to a device that is down, or whose MTU is
//! smaller. The program has ended by then, so the kernel's tracepoint `xdp_redirect_err` is what tells
//! (`include/trace/events/xdp.h`). It has seven arguments of 8 bytes, of which the sixth is the number of the map of devices.
//!
//! | instruction | meaning |
//! |---|---|
//! | `r2 = *(u64 *)(r1 + 40)` | the map |
//! | `if w2 != ours goto end` | somebody else's |
//! | `call 8` | `bpf_get_smp_processor_id` |
//! | `r0 &= cpus - 1` | |
//! | `r0 *= own` | bytes between the counters of two CPUs |
//! | `r1 = memory + counter ll` | of CPU 0; takes two slots |
//! | `r1 += r0` | |
//! | `r2 = 1` | |
//! | `lock *(u64 *)(r1 + 0) += r2` | |
//! | `end: r0 = 0` | |
//! | `exit` | |

use std::io;
use std::os::fd::OwnedFd;

use super::sys::{self, instruction};

/// Where the sixth argument lies.
const MAP: i16 = 40;
const GET_SMP_PROCESSOR_ID: i32 = 8;
/// A wide load's source: a place in the value of an array (`BPF_PSEUDO_MAP_VALUE`).
const OF_VALUE: u8 = 2;

/// A counter in the memory of a program.
#[derive(Clone, Copy, Debug)]
pub struct Cell<'m> {
    pub memory: &'m OwnedFd,
    /// That of CPU 0.
    pub at: u32,
    /// CPUs, a power of two, and the bytes from one's counter to the next one's.
    pub cpus: u32,
    pub own: u32,
}

/// It counts for as long as this is there.
#[derive(Debug)]
pub struct Failed {
    _link: OwnedFd,
}

impl Failed {
    /// Counts what cannot be sent by the devices of a map.
    pub fn count(devices: &OwnedFd, cell: Cell) -> io::Result<Self> {
        let code = [
            instruction(0x79, 2, 1, MAP, 0),
            instruction(0x56, 2, 0, 8, sys::map_id(devices)? as i32),
            instruction(0x85, 0, 0, 0, GET_SMP_PROCESSOR_ID),
            instruction(0x57, 0, 0, 0, cell.cpus as i32 - 1),
            instruction(0x27, 0, 0, 0, cell.own as i32),
            instruction(0x18, 1, OF_VALUE, 0, sys::number(cell.memory)),
            instruction(0, 0, 0, 0, cell.at as i32),
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
