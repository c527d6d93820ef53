//! What streams pass between servers and receivers: the tables of this crate's program, or another program's.

use std::fmt;
use std::net::{IpAddr, SocketAddr};

use dataplane::controller::{Group, Table};

use super::group_input::GroupInput;
use crate::tables::{Flow, FlowKey, Progress, Receiver};

/// A program that takes the packets of streams.
pub trait DataPath: fmt::Debug + Send {
    /// Sets a flow entry.
    ///
    /// # Errors
    /// Why it is not there, such as for want of room.
    fn set_flow(&mut self, key: &FlowKey, flow: &Flow) -> Result<(), String>;
    /// Removes a flow entry.
    fn remove_flow(&mut self, key: &FlowKey);
    /// What was counted of a track.
    fn progress(&mut self, track: u32) -> Progress;
    /// Sets what was counted of a track whose packets the program does not see.
    fn set_progress(&mut self, track: u32, progress: &Progress);
    /// Forgets what was counted of a track.
    fn reset_progress(&mut self, track: u32);
    /// Adds a receiver to the group of a track; its number there.
    ///
    /// # Errors
    /// Why there is no room.
    fn join(&mut self, track: u32, receiver: &Receiver) -> Result<u32, String>;
    /// Changes what a receiver knows.
    ///
    /// # Errors
    /// Why it knows what it knew before.
    fn set_member(&mut self, track: u32, member: u32, receiver: &Receiver) -> Result<(), String>;
    /// Takes a receiver out of the group of a track.
    fn leave(&mut self, track: u32, member: u32);
    /// An RTP packet that has come to the controller, for all members of the group of a track, one of which has this
    /// address; whether there was room.
    fn to_group(&mut self, track: u32, member: IpAddr, packet: &[u8]) -> bool;
    /// There is room again for packets to groups.
    fn has_room(&mut self) {}
    /// Whether receivers are its own and have no sockets: [`DataPath::datagram`] gets what they would get by these.
    fn has_receivers(&self) -> bool {
        false
    }
    /// A datagram for one of its receivers: RTP, or RTCP.
    fn datagram(&mut self, _to: SocketAddr, _datagram: &[u8]) {}
    /// Whether it takes transport streams that come without RTP.
    fn takes_bare(&self) -> bool {
        false
    }
}

/// The tables of `apps/media`.
#[derive(Debug)]
pub struct Tables {
    pub(super) flows: Table<FlowKey, Flow>,
    pub(super) receivers: Group<Receiver>,
    pub(super) progress: Table<u32, Progress>,
    pub(super) input: GroupInput,
}

impl DataPath for Tables {
    fn set_flow(&mut self, key: &FlowKey, flow: &Flow) -> Result<(), String> {
        self.flows.set(key, flow).map_err(|error| error.to_string())
    }

    fn remove_flow(&mut self, key: &FlowKey) {
        self.flows.remove(key);
    }

    fn progress(&mut self, track: u32) -> Progress {
        self.progress.get(&track).unwrap_or_default()
    }

    fn set_progress(&mut self, track: u32, progress: &Progress) {
        // The table has a place for each track.
        let _ = self.progress.set(&track, progress);
    }

    fn reset_progress(&mut self, track: u32) {
        self.progress.remove(&track);
    }

    fn join(&mut self, track: u32, receiver: &Receiver) -> Result<u32, String> {
        self.receivers.join(track, receiver).map_err(|error| error.to_string())
    }

    fn set_member(&mut self, track: u32, member: u32, receiver: &Receiver) -> Result<(), String> {
        self.receivers.set(track, member, receiver).map_err(|error| error.to_string())
    }

    fn leave(&mut self, track: u32, member: u32) {
        self.receivers.leave(track, member);
    }

    fn to_group(&mut self, track: u32, member: IpAddr, packet: &[u8]) -> bool {
        self.input.put(track, member, packet)
    }

    fn has_room(&mut self) {
        self.input.flush();
    }
}
