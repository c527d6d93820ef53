//! The tables of a program's instance of `net/next_hop`.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use baker::ir::{DropReason, Program};
use dataplane::controller::{self, NameError, NamedTables, Record, Table};

use crate::decide::Reason;
use crate::kernel::event::Mac;

/// Next hops below this one are the operators'.
pub const FIRST: u32 = 1024;
/// Next hops and places of ways that there are.
pub const HOPS: u32 = 65536;

/// What becomes of packets by a next hop, by its number in `next_hop_action_t`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum HopAction {
    #[default]
    Host,
    Send,
    Drop,
    Group,
}

/// `next_hop_t`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Hop {
    pub action: HopAction,
    pub port: u8,
    pub src: Mac,
    pub dst: Mac,
    pub mtu: u32,
    pub reason: u32,
    pub ways: u16,
    pub first: u32,
    pub number: u32,
}

impl Hop {
    /// One that drops packets.
    pub fn drop(reason: Reason) -> Hop {
        let reason = DropReason { name: reason.name().into() }.value();
        Hop { action: HopAction::Drop, reason, ..Hop::default() }
    }
}

type Halves = ((u8, u8, Mac, Mac), (u32, u32, u16, u32, u32));

impl Record for Hop {
    const FIELDS: usize = Halves::FIELDS;

    fn to_fields(&self, fields: &mut [u128]) {
        let action = self.action as u8;
        let Hop { port, src, dst, mtu, reason, ways, first, number, .. } = *self;
        ((action, port, src, dst), (mtu, reason, ways, first, number)).to_fields(fields);
    }

    fn from_fields(fields: &[u128]) -> Option<Self> {
        let ((action, port, src, dst), (mtu, reason, ways, first, number)) = Halves::from_fields(fields)?;
        let action = match action {
            0 => HopAction::Host,
            1 => HopAction::Send,
            2 => HopAction::Drop,
            3 => HopAction::Group,
            _ => return None,
        };
        Some(Hop { action, port, src, dst, mtu, reason, ways, first, number })
    }
}

/// IPv4 addresses are ::ffff:a.b.c.d in tables of both.
pub fn mapped(address: IpAddr) -> Ipv6Addr {
    match address {
        IpAddr::V4(v4) => v4.to_ipv6_mapped(),
        IpAddr::V6(v6) => v6,
    }
}

/// The other way round.
pub fn unmapped(address: Ipv6Addr) -> IpAddr {
    address.to_canonical()
}

/// The tables.
#[derive(Clone, Debug)]
pub struct Tables {
    pub routes4: Table<controller::Prefix<Ipv4Addr>, u32>,
    pub routes6: Table<controller::Prefix<Ipv6Addr>, u32>,
    pub hops: Table<u32, Hop>,
    pub ways: Table<u32, u32>,
    pub sources: Table<u32, Ipv6Addr>,
    pub used: Table<u32, u8>,
    pub wanted: Table<Ipv6Addr, bool>,
}

/// The name of the instance of `net/next_hop` that a program has, if it has one.
pub fn instance(program: &Program) -> Option<&str> {
    let has = |name: String| program.tables.iter().any(|table| table.name == name);
    let own = ["routes4", "routes6", "hops", "ways", "sources", "used", "wanted"];
    let mut instances = program.tables.iter().filter_map(|table| table.name.strip_suffix(".routes4"));
    instances.find(|instance| own.iter().all(|table| has(format!("{instance}.{table}"))))
}

impl Tables {
    /// Those of the program's instance; `None` where it has none.
    ///
    /// # Errors
    /// Where tables of these names have other keys and values.
    pub fn find(tables: &NamedTables) -> Result<Option<Tables>, NameError> {
        let Some(instance) = instance(tables.program()).map(str::to_owned) else { return Ok(None) };
        let name = |table: &str| format!("{instance}.{table}");
        Ok(Some(Tables {
            routes4: tables.table(&name("routes4"))?,
            routes6: tables.table(&name("routes6"))?,
            hops: tables.table(&name("hops"))?,
            ways: tables.table(&name("ways"))?,
            sources: tables.table(&name("sources"))?,
            used: tables.table(&name("used"))?,
            wanted: tables.table(&name("wanted"))?,
        }))
    }
}
