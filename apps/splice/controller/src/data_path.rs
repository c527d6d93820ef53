//! What the splicer needs of the data path, so that tests can be it.

use std::net::{IpAddr, Ipv6Addr};
use std::sync::Arc;

pub use routes::ways::Found;
use wire::flow_key::FlowKey;

use crate::tables::flow_entry::{FlowEntry, Mode};
use crate::tables::local_addresses::LocalAddresses;

/// The data path as the splicer sees it.
pub trait DataPath {
    /// The time of packets: nanoseconds since some moment.
    fn now(&self) -> u64;
    /// A secret that outlasts the process.
    fn secret(&self) -> (u64, u64);
    /// Sends a frame by a port.
    fn send(&mut self, port: u8, frame: &[u8]);
    /// Has a frame received that was put together of what a port has received at the moment. False where it is too
    /// long.
    fn enter(&mut self, frame: &[u8]) -> bool;
    /// Has a frame rewritten by the flow entry of its key, whatever its mode, and sent.
    fn relay(&mut self, frame: &[u8]);
    /// The same for an ICMP error about a segment that such an entry has let pass.
    fn relay_error(&mut self, frame: &[u8]);
    /// The flow entry of segments with this key.
    fn entry(&mut self, key: &FlowKey) -> Option<FlowEntry>;
    /// Makes or replaces one. False where there is no room.
    fn set_entry(&mut self, key: &FlowKey, entry: &FlowEntry) -> bool;

    /// Replaces one that was read a moment ago; a FIN, a reset or the head of a response that has passed since is not
    /// forgotten. False where there is no room.
    fn update_entry(&mut self, key: &FlowKey, entry: &FlowEntry) -> bool;
    /// Removes one, where it is there.
    fn remove_entry(&mut self, key: &FlowKey);
    /// All flow entries.
    fn entries(&mut self) -> Vec<(FlowKey, FlowEntry)>;
    /// LocalAddresses entries of tables as they are.
    fn own(&mut self) -> LocalAddresses;
    /// Makes them so, and no others.
    ///
    /// # Errors
    /// Where a table has no room.
    fn set_local(&mut self, own: &LocalAddresses) -> Result<(), String>;
    /// What the kernel says of its interfaces and of the ways to these next hops, as far as it is known now: it is
    /// asked for them from now on.
    fn ways(&mut self, wanted: Vec<IpAddr>) -> Arc<Found>;
    /// The admin states of servers, by key.
    fn admin_states(&mut self) -> Vec<(u64, u8)>;
    /// Keeps that for this process and the next; 0 is the default and is not kept. False where there is no room.
    fn set_admin_state(&mut self, server: u64, state: u8) -> bool;
    /// What the clients of virtual addresses are offered from now on; there are no others.
    fn offer(&mut self, offers: &[((Ipv6Addr, u16), Offer)]);
}

/// The part of the data path that the state machine of a connection sees.
pub trait FlowReader {
    /// The flow entry of segments with this key.
    fn read_entry(&mut self, key: &FlowKey) -> Option<FlowEntry>;

    /// Ends [`Mode::Awaiting`] of a flow entry: what it is then. From then on the data path reads no head by itself, so
    /// that what the entry says of one is certain.
    fn end_awaiting(&mut self, key: &FlowKey) -> Option<FlowEntry>;
}

impl<P: DataPath> FlowReader for P {
    fn read_entry(&mut self, key: &FlowKey) -> Option<FlowEntry> {
        self.entry(key)
    }

    fn end_awaiting(&mut self, key: &FlowKey) -> Option<FlowEntry> {
        let entry = self.entry(key)?;
        if entry.mode != Mode::Awaiting {
            return Some(entry);
        }
        self.update_entry(key, &FlowEntry { mode: Mode::Held, framing: 0, ..entry });
        self.entry(key)
    }
}

/// What clients are offered: no more than all servers behind an address can do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Offer {
    /// The number of the address among all of the services', counted from 1.
    pub number: u16,
    /// The greatest segment.
    pub mss: u16,
    /// The window scale.
    pub scale: u8,
    /// Selective acknowledgements.
    pub sack: bool,
    /// Timestamps.
    pub times: bool,
    /// The first window, in bytes.
    pub window: u16,
    /// Whether a server has said what it can do; otherwise what was offered before is offered still.
    pub learned: bool,
}

/// The window scale that is advertised to clients; flow entries translate from the servers'.
pub const SCALE: u8 = 7;

/// Bytes that there is room for behind the longest head, so that a sender sends more than that: it waits where less
/// than a segment has room.
pub const MARGIN: usize = 4096;
