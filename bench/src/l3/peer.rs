//! The hand-written L3 switches in C (`bench/peers`) as engines: they run over the same batches, frames and
//! descriptors.

use std::collections::BTreeMap;
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
const REASONS: [&str; 15] = [
    "",
    "truncated",
    "no_domain",
    "group_source",
    "bad_version",
    "bad_header_length",
    "bad_total_length",
    "bad_checksum",
    "martian_source",
    "martian_destination",
    "no_next_hop",
    "link_local",
    "same_port",
    "too_big",
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

type Run = unsafe extern "C" fn(*mut c_void, *mut Context, *const u32, u32);

/// `struct entry` of a hash table.
#[repr(C)]
struct Entry {
    key: u64,
    value: u64,
}

/// `struct l3_functions`: what one build of the peers offers.
#[repr(C)]
struct Functions {
    staged: Run,
    straight: Run,
    dpdk: Option<Run>,
    new: unsafe extern "C" fn(*const Config) -> *mut c_void,
    free: unsafe extern "C" fn(*mut c_void),
    port: unsafe extern "C" fn(*mut c_void, u8, u8, u64),
    members: unsafe extern "C" fn(*mut c_void, u8, u64),
    next_hop: unsafe extern "C" fn(*mut c_void, u32, u8, u32, u64) -> bool,
    route: unsafe extern "C" fn(*mut c_void, u32, u8, u32) -> bool,
    neighbour: unsafe extern "C" fn(*mut c_void, u32, u64) -> bool,
    local: unsafe extern "C" fn(*mut c_void, u32) -> bool,
    station: unsafe extern "C" fn(*mut c_void, u8, u64, u8) -> bool,
    dpdk_fill: Option<unsafe extern "C" fn(*mut c_void) -> bool>,
    counters: unsafe extern "C" fn(*const c_void) -> *const Counters,
    station_at: unsafe extern "C" fn(*const c_void, u32, *mut Entry) -> bool,
}

unsafe extern "C" {
    static l3_native_functions: Functions;
    static l3_v3_functions: Functions;
}

/// Which build of the peers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Build {
    /// For this processor.
    Native,
    /// Without AVX-512, for valgrind.
    V3,
}

impl Build {
    fn functions(self) -> &'static Functions {
        // SAFETY: the statics are constant tables of functions, laid out as `Functions` says.
        unsafe {
            match self {
                Build::Native => &l3_native_functions,
                Build::V3 => &l3_v3_functions,
            }
        }
    }
}

/// Which of the peers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Each pass over the whole batch before the next.
    Staged,
    /// Each packet to completion before the next.
    Straight,
    /// As `Staged` with DPDK's bulk look-up of routes.
    Dpdk,
}

impl Kind {
    /// All that were built; the last one only where DPDK's headers were there.
    pub fn all() -> &'static [Kind] {
        let kinds = &[Kind::Staged, Kind::Straight, Kind::Dpdk];
        if Build::Native.functions().dpdk.is_some() { kinds } else { &kinds[..2] }
    }

    /// Its name in tables.
    pub fn name(self) -> &'static str {
        match self {
            Kind::Staged => "c",
            Kind::Straight => "c-straight",
            Kind::Dpdk => "c-rte_lpm",
        }
    }
}

/// An L3 switch in C.
pub struct Peer {
    functions: &'static Functions,
    run: Run,
    state: NonNull<c_void>,
    left: Arc<Mutex<Left>>,
}

/// What a peer leaves behind when it ends.
#[derive(Debug, Default)]
pub struct Left {
    /// Packets dropped, by reason.
    pub drops: Vec<(&'static str, u64)>,
    /// Where each station is.
    pub stations: BTreeMap<(u8, u64), FdbEntry>,
}

/// A port, and the second in which it was heard of there.
pub type FdbEntry = (u8, u32);

// SAFETY: the state is plain memory that only this value reaches; the functions keep nothing elsewhere.
unsafe impl Send for Peer {}

impl Peer {
    /// A switch with these tables. Nothing but its configuration is in them.
    pub fn new(build: Build, kind: Kind, setup: &Setup) -> Result<Self, String> {
        let functions = build.functions();
        let run = match kind {
            Kind::Staged => functions.staged,
            Kind::Straight => functions.straight,
            Kind::Dpdk => functions.dpdk.ok_or("DPDK's headers are not installed")?,
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
        let peer = Peer { functions, run, state, left: Arc::default() };
        if !peer.fill(setup) {
            return Err("a table of the C peer is full".into());
        }
        if let (Kind::Dpdk, Some(fill)) = (kind, functions.dpdk_fill) {
            // SAFETY: the state is from `new` and nothing else uses it now.
            let filled = unsafe { fill(state.as_ptr()) };
            filled.then_some(()).ok_or("no memory for DPDK's table")?;
        }
        Ok(peer)
    }

    fn fill(&self, setup: &Setup) -> bool {
        let (f, s) = (self.functions, self.state.as_ptr());
        // SAFETY: the state is from `new` and nothing else uses it now.
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

    /// What it leaves behind, once it has ended.
    pub fn left(&self) -> Arc<Mutex<Left>> {
        self.left.clone()
    }

    /// Stations by domain and address.
    fn stations(&self) -> BTreeMap<(u8, u64), FdbEntry> {
        let mut entry = Entry { key: 0, value: 0 };
        let mut stations = BTreeMap::new();
        // SAFETY: the state is from `new`; the entry is laid out as `struct entry`.
        while unsafe { (self.functions.station_at)(self.state.as_ptr(), stations.len() as u32, &mut entry) } {
            let mac = raw(entry.key & 0xffff_ffff_ffff);
            stations.insert(((entry.key >> 48) as u8, mac), (entry.value as u8, (entry.value >> 32) as u32));
        }
        stations
    }
}

/// An Ethernet address as the peer keeps it, the first byte on the wire lowest, or from there.
fn raw(mac: u64) -> u64 {
    mac.swap_bytes() >> 16
}

impl Engine for Peer {
    unsafe fn run(&mut self, context: &mut WorkerContext, frames: &[u32]) {
        // SAFETY: the peer obeys the rules of `codegen::abi` for a program whose first metadata are `rx.port` and
        // `tx.port` and whose descriptors are 64 bytes apart, and the caller keeps its side.
        unsafe { (self.run)(self.state.as_ptr(), context.raw(), frames.as_ptr(), frames.len() as u32) }
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        // SAFETY: the state is from `new`, and the counters are a part of it.
        let drops = unsafe { (*(self.functions.counters)(self.state.as_ptr())).drops };
        if let Ok(mut left) = self.left.lock() {
            left.drops = REASONS.into_iter().zip(drops).skip(1).collect();
            left.stations = self.stations();
        }
        // SAFETY: the state is from `new`, and nothing uses it any more.
        unsafe { (self.functions.free)(self.state.as_ptr()) };
    }
}
