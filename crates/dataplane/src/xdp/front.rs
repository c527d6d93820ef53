//! A program in front of the one at the ports, which copies packets as they come in, for as long as somebody wants
//! copies. It is put at the ports' links in place of the other one, and calls that (`bpf_tail_call`). So a packet costs
//! nothing where no copies are wanted. It stays in front when another program takes over.
//!
//! | instruction | meaning |
//! |---|---|
//! | `r6 = r1` | the context |
//! | what follows up to `end`, for each [`Tap`] | |
//! | `call 7`, `if w0 >= 2³² / one_in goto end` | `bpf_get_prandom_u32`; not where all packets are copied |
//! | `r1 = ring ll`, `r2 =` bytes of a record, `r3 = 0`, `call 131` | `bpf_ringbuf_reserve` |
//! | `if r0 != 0 goto +5` | |
//! | `r1 = lost ll`, `r2 = 1`, `lock *(u64 *)(r1 + 0) += r2`, `goto end` | nobody has taken what came before |
//! | `r7 = r0` | |
//! | `call 5`, `*(u64 *)(r7 + 0) = r0` | `bpf_ktime_get_ns`: when |
//! | `r1 = *(u32 *)(r6 + INTERFACE)`, `*(u32 *)(r7 + 8) = r1` | where it came in |
//! | `r0 =` its length, `*(u32 *)(r7 + 12) = r0`, `r8 = r0` | |
//! | `if r8 == 0 goto give`, `if r8 <= bytes goto +1`, `r8 = bytes` | |
//! | `r1 = r6`, `r2 = 0`, `r3 = r7 + 16`, `r4 = r8`, `call` | `bpf_xdp_load_bytes`, `bpf_skb_load_bytes` |
//! | `give: r1 = r7`, `r2 = 0`, `call 132` | `bpf_ringbuf_submit` |
//! | `end:` behind the last one: `r1 = r6`, `r2 = programs ll`, `r3 =` place, `call 12` | `bpf_tail_call` |
//! | `r0 =` pass, `exit` | there is no such program: that cannot be |

use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use std::time::{Duration, SystemTime};

use codegen::kernel::Hook;

use super::fast_path::{FastPath, State};
use super::load::Loaded;
use super::sys::{self, EXIT, MMAPABLE, MapType, OF_MAP, OF_VALUE, TC_NEXT, XDP_PASS, instruction};
use super::tap_ring::TapRing;
use crate::sys::{Mapping, monotonic_ns, page_size};

/// In front of a packet's bytes: when the packet came in, the interface's index, and the packet's length.
const HEAD: usize = 16;
/// Bytes of a ring: some 250 packets with all bytes that are copied at most.
const RING: u32 = 512 << 10;
/// Bytes of the longest packet, a super-packet with its headers.
const LONGEST: usize = 65_536 + 64;

const RINGBUF_RESERVE: i32 = 131;
const RINGBUF_SUBMIT: i32 = 132;
const KTIME_GET_NS: i32 = 5;
const GET_PRANDOM_U32: i32 = 7;
const TAIL_CALL: i32 = 12;
const SKB_LOAD_BYTES: i32 = 26;
const XDP_GET_BUFF_LEN: i32 = 188;
const XDP_LOAD_BYTES: i32 = 189;
/// `ingress_ifindex` of `struct xdp_md`; `ifindex` and `len` of `struct __sk_buff`.
const XDP_INTERFACE: i16 = 12;
const SKB_INTERFACE: i16 = 40;
const SKB_LEN: i16 = 0;

/// Which packets are copied, and how much of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Copies {
    /// One of so many on average, at random; of 1 all.
    pub one_in: u32,
    /// Their first bytes, 1 to 2048.
    pub bytes: u32,
}

/// A packet that was copied as it came in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Copied<'r> {
    /// Number of the port.
    pub port: u8,
    /// When it came in.
    pub at: SystemTime,
    /// Bytes from the frame's first one to its last.
    pub length: usize,
    /// The first of them, as many as were wanted.
    pub bytes: &'r [u8],
}

/// Where copies go that somebody wants.
#[derive(Debug)]
pub(super) struct Tap {
    copies: Copies,
    ring: TapRing,
    lost: OwnedFd,
    mapping: Mapping,
}

impl Tap {
    fn new(copies: Copies) -> io::Result<Tap> {
        const NAME: &str = "millrace_copies";
        let lost = sys::map_create(MapType::Array, 8, 1, MMAPABLE, NAME)?;
        let mapping = Mapping::of_fd(lost.as_raw_fd(), page_size())?;
        Ok(Tap { copies, ring: TapRing::with_bytes(RING, NAME)?, lost, mapping })
    }

    /// Copies for which there was no room.
    fn lost(&self) -> u64 {
        // SAFETY: the page begins with this number, which programs count on at once.
        unsafe { AtomicU64::from_ptr(self.mapping.ptr().cast()) }.load(Ordering::Relaxed)
    }

    /// What copies a packet.
    fn code(&self, hook: Hook) -> Vec<[u8; 8]> {
        let (interface, load_bytes) = match hook {
            Hook::Xdp => (XDP_INTERFACE, XDP_LOAD_BYTES),
            Hook::Tc => (SKB_INTERFACE, SKB_LOAD_BYTES),
        };
        let length = match hook {
            Hook::Xdp => [instruction(0xbf, 1, 6, 0, 0), instruction(0x85, 0, 0, 0, XDP_GET_BUFF_LEN)],
            // The second one is for the same number of instructions.
            Hook::Tc => [instruction(0x61, 0, 6, SKB_LEN, 0), instruction(0xbf, 0, 0, 0, 0)],
        };
        let bytes = self.copies.bytes as i32;
        let copy = [
            &[
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
                instruction(0xb5, 8, 0, 1, bytes),
                instruction(0xb7, 8, 0, 0, bytes),
                instruction(0xbf, 1, 6, 0, 0),
                instruction(0xb7, 2, 0, 0, 0),
                instruction(0xbf, 3, 7, 0, 0),
                instruction(0x07, 3, 0, 0, HEAD as i32),
                instruction(0xbf, 4, 8, 0, 0),
                instruction(0x85, 0, 0, 0, load_bytes),
                instruction(0xbf, 1, 7, 0, 0),
                instruction(0xb7, 2, 0, 0, 0),
                instruction(0x85, 0, 0, 0, RINGBUF_SUBMIT),
            ],
        ]
        .concat();
        let reserve = [
            instruction(0x18, 1, OF_MAP, 0, sys::number(self.ring.map())),
            instruction(0, 0, 0, 0, 0),
            instruction(0xb7, 2, 0, 0, bytes + HEAD as i32),
            instruction(0xb7, 3, 0, 0, 0),
            instruction(0x85, 0, 0, 0, RINGBUF_RESERVE),
            instruction(0x55, 0, 0, 5, 0),
            instruction(0x18, 1, OF_VALUE, 0, sys::number(&self.lost)),
            instruction(0, 0, 0, 0, 0),
            instruction(0xb7, 2, 0, 0, 1),
            instruction(0xdb, 1, 2, 0, 0),
            instruction(0x05, 0, 0, copy.len() as i16, 0),
        ];
        let all = [&reserve[..], &copy].concat();
        if self.copies.one_in <= 1 {
            return all;
        }
        let limit = ((1u64 << 32) / u64::from(self.copies.one_in)) as u32;
        let is_drawn = instruction(0x36, 0, 0, all.len() as i16, limit.cast_signed());
        [&[instruction(0x85, 0, 0, 0, GET_PRANDOM_U32), is_drawn][..], &all].concat()
    }
}

/// Loads the program for copies in front of another one, where that can be called.
fn load(loaded: &Loaded, taps: &[Arc<Tap>]) -> io::Result<OwnedFd> {
    let (programs, place) = loaded.behind().ok_or(io::ErrorKind::Unsupported)?;
    let hook = loaded.hook();
    let pass = if hook == Hook::Xdp { XDP_PASS } else { TC_NEXT };
    let mut code = vec![instruction(0xbf, 6, 1, 0, 0)];
    code.extend(taps.iter().flat_map(|tap| tap.code(hook)));
    code.extend([
        instruction(0xbf, 1, 6, 0, 0),
        instruction(0x18, 2, OF_MAP, 0, sys::number(programs)),
        instruction(0, 0, 0, 0, 0),
        instruction(0xb7, 3, 0, 0, place as i32),
        instruction(0x85, 0, 0, 0, TAIL_CALL),
        instruction(0xb7, 0, 0, 0, pass),
        EXIT,
    ]);
    sys::prog_load(hook, code.as_flattened(), "millrace_copies", loaded.flags(), &mut [])
}

impl State {
    /// Makes what is to stand in front of the program that runs now.
    pub(super) fn renew_front(&mut self) -> io::Result<()> {
        self.front = None;
        if self.grace.is_some() && !self.taps.is_empty() {
            self.front = Some(load(self.part.loaded(), &self.taps)?);
        }
        Ok(())
    }
}

/// Copies come until this is dropped.
#[derive(Debug)]
pub struct Front {
    path: Weak<FastPath>,
    tap: Arc<Tap>,
}

impl Front {
    /// In front of what runs at the ports.
    pub fn put(path: &Arc<FastPath>, copies: Copies) -> io::Result<Front> {
        let copies = Copies { one_in: copies.one_in.max(1), bytes: copies.bytes.clamp(1, Self::MOST_BYTES) };
        let tap = Arc::new(Tap::new(copies)?);
        let front = Front { path: Arc::downgrade(path), tap: tap.clone() };
        let mut state = path.lock();
        state.taps.push(tap);
        let renewed = state.renew_front();
        let put = path.put(&state);
        // What follows takes the lock, too.
        drop(state);
        renewed.and(put).map(|()| front)
    }

    /// Bytes of a packet that are copied at most.
    pub const MOST_BYTES: u32 = 2048;

    /// Whether copies come: not where what is there now can have nothing in front.
    pub fn is_there(&self) -> bool {
        self.path.upgrade().is_some_and(|path| path.lock().front.is_some())
    }

    /// Copies for which there was no room.
    pub fn lost(&self) -> u64 {
        self.tap.lost()
    }

    /// Gives what has been copied to `take`, as long as it wants more. One thread at a time.
    pub fn take(&self, mut take: impl FnMut(Copied) -> bool) {
        let Some(path) = self.path.upgrade() else { return };
        self.tap.ring.take(|record| {
            let word = |at: usize| record.get(at..at + 4)?.try_into().ok().map(u32::from_ne_bytes);
            let when = record.get(..8).and_then(|bytes| bytes.try_into().ok()).map(u64::from_ne_bytes);
            if let (Some(when), Some(interface), Some(length)) = (when, word(8), word(12))
                && let Some(port) = path.port_at(interface)
            {
                let at = SystemTime::now() - Duration::from_nanos(monotonic_ns().saturating_sub(when));
                let length = (length as usize).min(LONGEST);
                let bytes = &record[HEAD..][..length.min(self.tap.copies.bytes as usize)];
                return take(Copied { port, at, length, bytes });
            }
            true
        });
    }
}

impl Drop for Front {
    fn drop(&mut self) {
        if let Some(path) = self.path.upgrade() {
            let mut state = path.lock();
            state.taps.retain(|tap| !Arc::ptr_eq(tap, &self.tap));
            // Others' copies end where they can't be made without these. Where a link cannot be changed its interface
            // is gone.
            let _ = state.renew_front();
            let _ = path.put(&state);
        }
    }
}
