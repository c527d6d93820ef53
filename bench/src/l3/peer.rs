//! The hand-written L3 switch in C (`bench/peers`) as an engine: it runs over the same batches, frames and descriptors.

use std::ffi::c_void;
use std::ptr::NonNull;
use std::sync::{Arc, Mutex};

use codegen::abi::Context;
use dataplane::{Engine, WorkerContext};

use super::setup::Setup;

/// `struct l3_config`.
#[repr(C)]
struct Config {
    neighbours: u32,
    stations: u32,
    local_addrs: u32,
    groups: u32,
}

/// Reasons for which the peer drops, as in `enum reason`; the first means that a packet was not dropped.
const REASONS: [&str; 13] = [
    "",
    "truncated",
    "no_domain",
    "group_source",
    "bad_version",
    "bad_header_length",
    "bad_total_length",
    "bad_checksum",
    "martian_source",
    "no_route",
    "arp_answered",
    "same_port",
    "nowhere_to_flood",
];

/// `struct counters`.
#[repr(C)]
struct Counters {
    rx: [u64; 256],
    tx: [u64; 256],
    host: u64,
    drops: [u64; REASONS.len()],
}

/// `struct l3_functions`: what one build of the peer offers.
#[repr(C)]
struct Functions {
    run: unsafe extern "C" fn(*mut c_void, *mut Context, *const u32, u32),
    new: unsafe extern "C" fn(*const Config) -> *mut c_void,
    free: unsafe extern "C" fn(*mut c_void),
    port: unsafe extern "C" fn(*mut c_void, u8, u8, u64),
    members: unsafe extern "C" fn(*mut c_void, u8, u64),
    next_hop: unsafe extern "C" fn(*mut c_void, u32, u8, u32, u64) -> bool,
    route: unsafe extern "C" fn(*mut c_void, u32, u8, u32) -> bool,
    neighbour: unsafe extern "C" fn(*mut c_void, u32, u64) -> bool,
    local: unsafe extern "C" fn(*mut c_void, u32) -> bool,
    station: unsafe extern "C" fn(*mut c_void, u8, u64, u8) -> bool,
    counters: unsafe extern "C" fn(*const c_void) -> *const Counters,
}

unsafe extern "C" {
    static l3_native_functions: Functions;
    static l3_v3_functions: Functions;
}

/// Which build of the peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Build {
    /// For this processor.
    Native,
    /// Without AVX-512, for valgrind.
    V3,
}

/// An L3 switch in C.
pub struct Peer {
    functions: &'static Functions,
    state: NonNull<c_void>,
    drops: Drops,
}

/// Packets dropped, by reason; filled when the peer ends.
pub type Drops = Arc<Mutex<Vec<(&'static str, u64)>>>;

// SAFETY: the state is plain memory that only this value reaches; the functions keep nothing elsewhere.
unsafe impl Send for Peer {}

impl Peer {
    /// A switch with these tables. Nothing but its configuration is in them.
    pub fn new(build: Build, setup: &Setup) -> Result<Self, String> {
        // SAFETY: the statics are constant tables of functions, laid out as `Functions` says.
        let functions = unsafe {
            match build {
                Build::Native => &l3_native_functions,
                Build::V3 => &l3_v3_functions,
            }
        };
        let groups = setup.routes.iter().filter(|route| route.len > 24).count() as u32;
        let config = Config {
            neighbours: setup.capacity.neighbours,
            stations: setup.capacity.stations,
            local_addrs: setup.capacity.local_addrs,
            groups: groups.max(1),
        };
        // SAFETY: the configuration is as `struct l3_config`.
        let state = NonNull::new(unsafe { (functions.new)(&config) }).ok_or("no memory for the C peer")?;
        let peer = Peer { functions, state, drops: Drops::default() };
        if peer.fill(setup) { Ok(peer) } else { Err("a table of the C peer is full".into()) }
    }

    fn fill(&self, setup: &Setup) -> bool {
        let (f, s) = (self.functions, self.state.as_ptr());
        // SAFETY: the state is from `new` and nobody else uses it now.
        unsafe {
            for port in &setup.ports {
                (f.port)(s, port.number, port.domain, raw(port.mac));
            }
            setup.members.iter().for_each(|&(domain, ports)| (f.members)(s, domain, ports));
            let hops = setup.next_hops.iter();
            hops.into_iter().all(|h| (f.next_hop)(s, h.index, h.domain, h.gateway, raw(h.src)))
                && setup.routes.iter().all(|r| (f.route)(s, r.prefix, r.len, r.next_hop))
                && setup.neighbours.iter().all(|&(address, mac)| (f.neighbour)(s, address, raw(mac)))
                && setup.local_addrs.iter().all(|&address| (f.local)(s, address))
                && setup.stations.iter().all(|st| (f.station)(s, st.domain, raw(st.mac), st.port))
        }
    }

    /// Where its drops can be read once it has ended.
    pub fn drops(&self) -> Drops {
        self.drops.clone()
    }
}

/// An Ethernet address as the peer keeps it: the first byte on the wire lowest.
fn raw(mac: u64) -> u64 {
    mac.swap_bytes() >> 16
}

impl Engine for Peer {
    unsafe fn run(&mut self, context: &mut WorkerContext, frames: &[u32]) {
        // SAFETY: the peer obeys the rules of `codegen::abi` for a program whose first metadata are `rx.port` and
        // `tx.port` and whose descriptors are 64 bytes apart, and the caller keeps its side.
        unsafe { (self.functions.run)(self.state.as_ptr(), context.raw(), frames.as_ptr(), frames.len() as u32) }
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        // SAFETY: the state is from `new`, the counters are a part of it, and it is freed once.
        unsafe {
            let counters = &*(self.functions.counters)(self.state.as_ptr());
            if let Ok(mut drops) = self.drops.lock() {
                *drops = REASONS.into_iter().zip(counters.drops).skip(1).collect();
            }
            (self.functions.free)(self.state.as_ptr());
        }
    }
}
