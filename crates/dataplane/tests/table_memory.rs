//! What controllers read and set one entry at a time takes no memory from the allocator. (A change of a route does: its
//! trie is another one.)

use std::alloc::{GlobalAlloc, Layout, System};
use std::net::Ipv4Addr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use dataplane::controller::{NamedTables, Prefix};
use dataplane::{TableAccess, Tables};

/// Allocations of this process.
static COUNT: AtomicU64 = AtomicU64::new(0);

struct Counting;

// SAFETY: all is the system's, and only counted.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        COUNT.fetch_add(1, Ordering::Relaxed);
        // SAFETY: the caller's promise.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        // SAFETY: the caller's promise.
        unsafe { System.dealloc(memory, layout) }
    }

    unsafe fn realloc(&self, memory: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        COUNT.fetch_add(1, Ordering::Relaxed);
        // SAFETY: the caller's promise.
        unsafe { System.realloc(memory, layout, size) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

const PROGRAM: &str = "import \"net/ether\"; import \"net/ipv4\";
struct flow_t { src : ipv4_addr_t; dst : ipv4_addr_t; sport : u16; dport : u16; }
struct state_t { port : u8; mac : mac_addr_t; packets : u64; bytes : u64; seq : u32; ack : u32; }
module m {
    in ether input; out ether output;
    hash<flow_t, state_t> flows[4096];
    array<u64> cells[256];
    lpm<ipv4_addr_t, u8> routes[256];
    ppf p(ether_packet_t *pkt) from input { channel_put(output, pkt); }
}
program { rx -> m.input; m.output -> tx; }";

type Flow = (Ipv4Addr, Ipv4Addr, u16, u16);
type State = (u8, [u8; 6], u64, u64, u32, u32);

#[test]
fn an_access_to_a_table_allocates_nothing() {
    let found = baker::check::check("test.baker", PROGRAM, &baker::library::Library);
    let program = found.program.unwrap_or_else(|| panic!("{:?}", found.diagnostics));
    let program = Arc::new(baker::ir::lower(&program));
    let tables = TableAccess::Native(Arc::new(Tables::new(&program).unwrap()));
    let named = NamedTables::new(program, tables);
    let mut flows = named.table::<Flow, State>("m.flows").unwrap();
    let mut cells = named.table::<u32, u64>("m.cells").unwrap();
    let routes = named.table::<Prefix<Ipv4Addr>, u8>("m.routes").unwrap();
    let flow = |n: u32| (Ipv4Addr::from(n), Ipv4Addr::LOCALHOST, n as u16, 80);
    let state = |n: u64| (1, [2, 0, 0, 0, 0, 1], n, 60 * n, n as u32, 0);
    const ROUNDS: u32 = 20_000;
    let measure = |what: &str, work: &mut dyn FnMut(u32)| {
        // What is made once is there.
        (0..300).for_each(&mut *work);
        let (before, began) = (COUNT.load(Ordering::Relaxed), Instant::now());
        (0..ROUNDS).for_each(&mut *work);
        let (time, count) = (began.elapsed() / ROUNDS, COUNT.load(Ordering::Relaxed) - before);
        println!("{what}: {time:?}, {count} allocations in {ROUNDS}");
        assert_eq!(count, 0, "{what}: {count} allocations");
    };
    measure("set, of a hash table", &mut |n| flows.set(&flow(n % 1000), &state(n.into())).unwrap());
    measure("get", &mut |n| assert!(flows.get(&flow(n % 300)).is_some()));
    measure("exchange", &mut |n| _ = flows.exchange(&flow(n % 300), &state(n.into())).unwrap());
    measure("remove and set", &mut |n| {
        assert!(flows.remove(&flow(n % 300)));
        flows.set(&flow(n % 300), &state(1)).unwrap();
    });
    measure("set, of an array", &mut |n| cells.set(&(n % 256), &n.into()).unwrap());
    measure("get, of an array", &mut |n| _ = cells.get(&(n % 256)).unwrap());
    let route = |n: u32| Prefix(Ipv4Addr::from((n % 100) << 16), 16);
    measure("get, of routes", &mut |n| _ = routes.get(&route(n)));
}
