//! A program in front of the one at the ports, which copies each packet as it comes in, for as long as somebody wants
//! copies. It is put at the ports' links in place of the other one, and calls that (`bpf_tail_call`). So a packet costs
//! nothing where no copies are wanted.
//!
//! | instruction | meaning |
//! |---|---|
//! | `r6 = r1` | the context |
//! | `r1 = ring ll`, `r2 = RECORD`, `r3 = 0`, `call 131` | `bpf_ringbuf_reserve` |
//! | `if r0 == 0 goto go_on` | nobody has taken what came before |
//! | `r7 = r0` | |
//! | `call 5`, `*(u64 *)(r7 + 0) = r0` | `bpf_ktime_get_ns`: when |
//! | `r1 = *(u32 *)(r6 + INTERFACE)`, `*(u32 *)(r7 + 8) = r1` | where it came in |
//! | `r0 =` its length, `*(u32 *)(r7 + 12) = r0`, `r8 = r0` | |
//! | `if r8 == 0 goto give`, `if r8 <= BYTES goto +1`, `r8 = BYTES` | |
//! | `r1 = r6`, `r2 = 0`, `r3 = r7 + 16`, `r4 = r8`, `call` | `bpf_xdp_load_bytes`, `bpf_skb_load_bytes` |
//! | `give: r1 = r7`, `r2 = 0`, `call 132` | `bpf_ringbuf_submit` |
//! | `go_on: r1 = r6`, `r2 = programs ll`, `r3 =` place, `call 12` | `bpf_tail_call` |
//! | `r0 =` pass, `exit` | there is no such program: that cannot be |

use std::io;
use std::os::fd::OwnedFd;
use std::sync::{Arc, Weak};
use std::time::{Duration, SystemTime};

use codegen::kernel::Hook;

use super::fast_path::FastPath;
use super::load::Loaded;
use super::sys::{self, EXIT, OF_MAP, TC_NEXT, XDP_PASS, instruction};
use super::tap_ring::TapRing;
use crate::capture::Capture;
use crate::sys::monotonic_ns;

/// Bytes of a packet that are copied.
const BYTES: i32 = 2048;
/// In front of them: when the packet came in, the interface's index, and the packet's length.
const HEAD: usize = 16;
/// Bytes of the ring: some 250 packets.
const RING: u32 = 512 << 10;
/// Bytes of the longest packet, a super-packet with its headers.
const LONGEST: usize = 65_536 + 64;

const RINGBUF_RESERVE: i32 = 131;
const RINGBUF_SUBMIT: i32 = 132;
const KTIME_GET_NS: i32 = 5;
const TAIL_CALL: i32 = 12;
const SKB_LOAD_BYTES: i32 = 26;
const XDP_GET_BUFF_LEN: i32 = 188;
const XDP_LOAD_BYTES: i32 = 189;
/// `ingress_ifindex` of `struct xdp_md`; `ifindex` and `len` of `struct __sk_buff`.
const XDP_INTERFACE: i16 = 12;
const SKB_INTERFACE: i16 = 40;
const SKB_LEN: i16 = 0;

/// Loads the program for copies to a ring in front of another one, where that can be called.
fn load(loaded: &Loaded, ring: &TapRing) -> io::Result<OwnedFd> {
    let (programs, place) = loaded.behind().ok_or(io::ErrorKind::Unsupported)?;
    let hook = loaded.hook();
    let (interface, load_bytes, pass) = match hook {
        Hook::Xdp => (XDP_INTERFACE, XDP_LOAD_BYTES, XDP_PASS),
        Hook::Tc => (SKB_INTERFACE, SKB_LOAD_BYTES, TC_NEXT),
    };
    let length = match hook {
        Hook::Xdp => [instruction(0xbf, 1, 6, 0, 0), instruction(0x85, 0, 0, 0, XDP_GET_BUFF_LEN)],
        // The second one is for the same number of instructions.
        Hook::Tc => [instruction(0x61, 0, 6, SKB_LEN, 0), instruction(0xbf, 0, 0, 0, 0)],
    };
    let code = [
        &[
            instruction(0xbf, 6, 1, 0, 0),
            instruction(0x18, 1, OF_MAP, 0, sys::number(ring.map())),
            instruction(0, 0, 0, 0, 0),
            instruction(0xb7, 2, 0, 0, BYTES + HEAD as i32),
            instruction(0xb7, 3, 0, 0, 0),
            instruction(0x85, 0, 0, 0, RINGBUF_RESERVE),
            instruction(0x15, 0, 0, 21, 0),
            instruction(0xbf, 7, 0, 0, 0),
            instruction(0x85, 0, 0, 0, KTIME_GET_NS),
            instruction(0x7b, 7, 0, 0, 0),
            instruction(0x61, 1, 6, interface, 0),
            instruction(0x63, 7, 1, 8, 0),
        ][..],
        &length,
        &[
            instruction(0x63, 7, 0, 12, 0),
            instruction(0xbf, 8, 0, 0, 0),
            instruction(0x15, 8, 0, 8, 0),
            instruction(0xb5, 8, 0, 1, BYTES),
            instruction(0xb7, 8, 0, 0, BYTES),
            instruction(0xbf, 1, 6, 0, 0),
            instruction(0xb7, 2, 0, 0, 0),
            instruction(0xbf, 3, 7, 0, 0),
            instruction(0x07, 3, 0, 0, HEAD as i32),
            instruction(0xbf, 4, 8, 0, 0),
            instruction(0x85, 0, 0, 0, load_bytes),
            instruction(0xbf, 1, 7, 0, 0),
            instruction(0xb7, 2, 0, 0, 0),
            instruction(0x85, 0, 0, 0, RINGBUF_SUBMIT),
            instruction(0xbf, 1, 6, 0, 0),
            instruction(0x18, 2, OF_MAP, 0, sys::number(programs)),
            instruction(0, 0, 0, 0, 0),
            instruction(0xb7, 3, 0, 0, place as i32),
            instruction(0x85, 0, 0, 0, TAIL_CALL),
            instruction(0xb7, 0, 0, 0, pass),
            EXIT,
        ],
    ]
    .concat();
    sys::prog_load(hook, code.as_flattened(), "millrace_trace", loaded.flags(), &mut [])
}

/// It is in front of a program until this is dropped, or another program takes over.
#[derive(Debug)]
pub struct Front {
    path: Weak<FastPath>,
    number: u64,
    ring: TapRing,
}

impl Front {
    /// In front of what runs at the ports.
    pub fn put(path: &Arc<FastPath>) -> io::Result<Front> {
        let ring = TapRing::with_bytes(RING, "millrace_trace")?;
        let number = path.put_in_front(|loaded| load(loaded, &ring))?;
        Ok(Front { path: Arc::downgrade(path), number, ring })
    }

    /// Whether it still is in front of what runs.
    pub fn is_there(&self) -> bool {
        self.path.upgrade().is_some_and(|path| path.is_front(self.number))
    }

    /// Offers what has been copied. What is behind the copied bytes counts as zeros.
    pub fn offer(&self, capture: &Capture) {
        let Some(path) = self.path.upgrade().filter(|_| capture.is_wanted()) else { return };
        self.ring.take(|record| {
            let word = |at: usize| record.get(at..at + 4)?.try_into().ok().map(u32::from_ne_bytes);
            let when = record.get(..8).and_then(|bytes| bytes.try_into().ok()).map(u64::from_ne_bytes);
            if let (Some(when), Some(interface), Some(length)) = (when, word(8), word(12))
                && let Some(port) = path.port_at(interface)
            {
                let age = Duration::from_nanos(monotonic_ns().saturating_sub(when));
                let length = (length as usize).min(LONGEST);
                let mut packet = record[HEAD..HEAD + length.min(BYTES as usize)].to_vec();
                packet.resize(length, 0);
                capture.offer(port, SystemTime::now() - age, &packet);
            }
            capture.is_wanted()
        });
    }
}

impl Drop for Front {
    fn drop(&mut self) {
        if let Some(path) = self.path.upgrade() {
            path.take_front(self.number);
        }
    }
}
