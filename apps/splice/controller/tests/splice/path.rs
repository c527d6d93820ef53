//! The data path of the world: the program on the interpreter, its tables, and the packets that leave it.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::net::{IpAddr, Ipv6Addr};
use std::rc::Rc;
use std::sync::Arc;

use baker::ir::interp::End;
use baker::ir::{ChannelId, Program, TableEntry, TableError, TableId, TableStore};
use dataplane::controller::{Record, fields_of};
use dataplane::step::{StepOutput, Stepper};
use splice::data_path::{DataPath, Found, Offer};
use splice::key::{key, of_key};
use splice::tables::flow_entry::FlowEntry;
use splice::tables::local_addresses::LocalAddresses;
use splice::tables::next_hops::NextHop;
use splice::tables::packed::{FlowTable, Packed, Tables};
use wire::flow_key::FlowKey;

/// A path of a packet: to Millrace from the client and from the servers, and back.
pub const PATHS: usize = 4;

/// The program's `service_t`.
type Service = (u16, u16, u8, bool, bool, u16);

/// What the data path of the test shares with the world.
pub struct Shared {
    pub program: Arc<Program>,
    pub stepper: Stepper,
    pub now: u64,
    /// Packets for the controller,
    pub punted: VecDeque<StepOutput>,
    /// and how many there have been.
    pub punts: usize,
    /// The port that the packet at hand came in by.
    pub port: u128,
    /// How many more times the controller changes a flow entry or sends something before its process dies.
    pub left: Option<usize>,
    pub paths: [VecDeque<Vec<u8>>; PATHS],
}

/// The tables of the world.
struct TestTables(Rc<RefCell<Shared>>);

impl TestTables {
    fn set(&self, table: &str, key: &impl Record, value: &impl Record) -> bool {
        let mut shared = self.0.borrow_mut();
        let id = shared.table(table);
        let entry = TableEntry { key: fields(key), prefix_len: None, value: fields(value) };
        shared.stepper.insert(id, &entry).is_ok()
    }

    fn remove(&mut self, table: &str, key: &impl Record) {
        let mut shared = self.0.borrow_mut();
        let id = shared.table(table);
        let _ = shared.stepper.remove(id, &fields(key), None);
    }

    fn dump<K: Record, V: Record>(&self, table: &str) -> Vec<(K, V)> {
        let shared = self.0.borrow();
        let entries = shared.stepper.dump(shared.table(table));
        entries.iter().map(|e| (K::from_fields(&e.key).unwrap(), V::from_fields(&e.value).unwrap())).collect()
    }
}

impl Tables for TestTables {
    fn entry(&self, flow_key: &FlowKey) -> Option<Packed> {
        let shared = self.0.borrow();
        let found = shared.stepper.get(shared.table("spliced.flows"), &fields(&key(flow_key)), None);
        Packed::from_fields(&found.ok()?)
    }

    fn set_entry(&mut self, flow_key: &FlowKey, flow: &Packed) -> Result<Option<Packed>, TableError> {
        let before = self.entry(flow_key);
        if self.set("spliced.flows", &key(flow_key), flow) { Ok(before) } else { Err(TableError::Full) }
    }

    fn remove_entry(&mut self, flow_key: &FlowKey) {
        self.remove("spliced.flows", &key(flow_key));
    }

    fn entries(&self) -> Vec<(FlowKey, Packed)> {
        self.dump("spliced.flows").into_iter().map(|(own, entry)| (of_key(own), entry)).collect()
    }

    fn next_hops(&self) -> Vec<(u32, NextHop)> {
        self.dump("spliced.next_hops")
    }

    fn add_next_hop(&mut self, number: u32, next_hop: &NextHop) -> bool {
        self.set("spliced.next_hops", &number, next_hop)
    }

    fn clear_next_hops(&mut self, numbers: &[u32]) -> bool {
        numbers.iter().all(|number| self.set("spliced.next_hops", number, &NextHop::default()))
    }
}

pub struct TestPath {
    shared: Rc<RefCell<Shared>>,
    flows: FlowTable<TestTables>,
}

impl TestPath {
    /// What a process finds that begins now.
    pub fn new(shared: &Rc<RefCell<Shared>>) -> TestPath {
        TestPath { shared: shared.clone(), flows: FlowTable::new(TestTables(shared.clone())) }
    }

    /// Whether the process still does what it is about to do.
    fn lives(&self) -> bool {
        match &mut self.shared.borrow_mut().left {
            Some(0) => return false,
            Some(left) => *left -= 1,
            None => {}
        }
        true
    }
}

impl Shared {
    fn table(&self, name: &str) -> TableId {
        TableId(self.program.tables.iter().position(|table| table.name == name).unwrap() as u32)
    }

    pub fn meta(&self, name: &str) -> usize {
        self.program.metadata.iter().position(|field| field.name == name).unwrap()
    }

    fn inject(&mut self, input: &str, bytes: &[u8], metadata: &[(&str, u128)]) {
        let name = format!("splice -> {input}");
        let channel = self.program.channels.iter().position(|channel| channel.name == name).unwrap();
        let mut numbers = vec![0; self.program.metadata.len()];
        metadata.iter().for_each(|(name, number)| numbers[self.meta(name)] = *number);
        self.stepper.set_now(self.now);
        let outputs = self.stepper.inject(ChannelId(channel as u32), bytes, &numbers);
        self.leave(outputs);
    }

    pub fn leave(&mut self, outputs: Vec<StepOutput>) {
        for output in outputs {
            match output.end {
                End::Tx => {
                    let port = output.metadata[Program::TX_PORT.0 as usize];
                    assert!((1..=3).contains(&port), "a packet leaves by port {port}");
                    self.paths[if port == 1 { 2 } else { 3 }].push_back(output.bytes);
                }
                End::Controller(_) => {
                    self.punts += 1;
                    self.punted.push_back(output);
                }
                End::Host => panic!("nothing is wired to the host"),
            }
        }
    }
}

impl DataPath for TestPath {
    fn now(&self) -> u64 {
        self.shared.borrow().now
    }

    fn secret(&self) -> (u64, u64) {
        (1, 2)
    }

    fn send(&mut self, port: u8, frame: &[u8]) {
        if !self.lives() {
            return;
        }
        self.shared.borrow_mut().inject("entry.ready", frame, &[("tx.port", port.into())]);
    }

    fn enter(&mut self, frame: &[u8]) -> bool {
        if !self.lives() {
            return true;
        }
        let mut shared = self.shared.borrow_mut();
        let port = shared.port;
        shared.inject("spliced.v4", frame, &[("rx.port", port)]);
        true
    }

    fn relay(&mut self, frame: &[u8]) {
        if !self.lives() {
            return;
        }
        let mut shared = self.shared.borrow_mut();
        let port = shared.port;
        shared.inject("spliced.v4", frame, &[("relayed", 1), ("rx.port", port)]);
    }

    fn relay_error(&mut self, frame: &[u8]) {
        self.shared.borrow_mut().inject("errors.v4", frame, &[("relayed", 1)]);
    }

    fn entry(&mut self, flow_key: &FlowKey) -> Option<FlowEntry> {
        self.flows.get(flow_key)
    }

    fn set_entry(&mut self, flow_key: &FlowKey, flow: &FlowEntry) -> bool {
        !self.lives() || self.flows.set(flow_key, flow)
    }

    fn update_entry(&mut self, flow_key: &FlowKey, flow: &FlowEntry) -> bool {
        !self.lives() || self.flows.update(flow_key, flow)
    }

    fn remove_entry(&mut self, flow_key: &FlowKey) {
        if self.lives() {
            self.flows.remove(flow_key);
        }
    }

    fn entries(&mut self) -> Vec<(FlowKey, FlowEntry)> {
        self.flows.entries()
    }

    fn own(&mut self) -> LocalAddresses {
        let tables = TestTables(self.shared.clone());
        LocalAddresses {
            // Those of no port are zero.
            macs: tables.dump("entry.macs"),
            shared: Vec::new(),
            addresses: tables.dump("entry.addresses"),
            timeouts: tables.dump("spliced.timeouts"),
        }
    }

    fn set_local(&mut self, own: &LocalAddresses) -> Result<(), String> {
        let (before, mut tables) = (self.own(), TestTables(self.shared.clone()));
        before.macs.iter().for_each(|(port, _)| tables.remove("entry.macs", port));
        before.addresses.iter().for_each(|(address, _)| tables.remove("entry.addresses", address));
        assert!(own.shared.is_empty(), "the kernel has no interface here");
        let set = own.macs.iter().all(|(port, mac)| tables.set("entry.macs", port, mac))
            && own.addresses.iter().all(|(address, port)| tables.set("entry.addresses", address, port))
            && own.timeouts.iter().all(|(state, seconds)| tables.set("spliced.timeouts", state, seconds));
        if set { Ok(()) } else { Err("a table is full".into()) }
    }

    fn ways(&mut self, _: Vec<IpAddr>) -> Arc<Found> {
        Arc::default()
    }

    fn admin_states(&mut self) -> Vec<(u64, u8)> {
        TestTables(self.shared.clone()).dump("accept.admin_states")
    }

    fn set_admin_state(&mut self, server: u64, state: u8) -> bool {
        let mut tables = TestTables(self.shared.clone());
        if state != 0 {
            return tables.set("accept.admin_states", &server, &state);
        }
        tables.remove("accept.admin_states", &server);
        true
    }

    fn offer(&mut self, offers: &[((Ipv6Addr, u16), Offer)]) {
        let mut tables = TestTables(self.shared.clone());
        let before = tables.dump::<(Ipv6Addr, u16), Service>("accept.services");
        before.iter().for_each(|(endpoint, _)| tables.remove("accept.services", endpoint));
        let mut shared = self.shared.borrow_mut();
        let id = shared.table("accept.services");
        for (endpoint, offer) in offers {
            let value = (offer.number, offer.mss, offer.scale, offer.sack, offer.times, offer.window);
            let entry = TableEntry { key: fields(endpoint), prefix_len: None, value: fields(&value) };
            shared.stepper.insert(id, &entry).unwrap();
        }
    }
}

fn fields(record: &impl Record) -> Vec<u128> {
    fields_of(record).into_vec()
}
