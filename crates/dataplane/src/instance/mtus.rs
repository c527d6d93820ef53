//! What ports send at most, for programs that ask for it ([`PORT_MTU`]): what their interfaces say, now and while
//! packets are processed.
//!
//! [`PORT_MTU`]: baker::ir::PORT_MTU

use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::Duration;

use baker::ir::{DEFAULT_MTU, Program, TableEntry, TableId};

use super::options::PortConfig;
use crate::engine::TableAccess;
use crate::sys;
use crate::sys::Repeated;

/// Between two looks at the interfaces: a change counts within a tenth of a second.
const PAUSE: Duration = Duration::from_millis(50);

/// A port, as far as what it sends at most depends on it.
#[derive(Debug)]
struct Port {
    number: u8,
    /// Its interface, where it has one.
    interface: Option<String>,
    /// What the configuration says.
    most: Option<u32>,
}

/// The ports of an instance.
#[derive(Clone, Debug)]
pub struct MtuPorts {
    ports: Arc<[Port]>,
    /// In the network namespace of the ports.
    socket: Arc<OwnedFd>,
}

impl MtuPorts {
    /// Ports in the caller's network namespace.
    pub fn new(ports: &[PortConfig]) -> io::Result<MtuPorts> {
        let port = |port: &PortConfig| Port {
            number: port.number,
            interface: port.spec.driver.interface().map(str::to_owned),
            most: port.mtu,
        };
        Ok(MtuPorts { ports: ports.iter().map(port).collect(), socket: Arc::new(sys::inet_socket()?) })
    }

    /// What each port sends at most now, in their order; of an interface that is gone what it was `before`.
    fn look(&self, before: &[u32]) -> Vec<u32> {
        let mtu = |(index, port): (usize, &Port)| {
            let device = port.interface.as_ref().map(|name| sys::interface(&self.socket, name));
            let sent = match device {
                Some(Ok(device)) => Some(device.mtu as u32),
                Some(Err(_)) => before.get(index).copied(),
                None => None,
            };
            match (sent, port.most) {
                (Some(sent), Some(most)) => sent.min(most),
                (sent, most) => sent.or(most).unwrap_or(DEFAULT_MTU),
            }
        };
        self.ports.iter().enumerate().map(mtu).collect()
    }
}

/// Keeps a program's table of MTUs as the interfaces are. Dropping it ends that.
#[derive(Debug)]
pub struct Mtus {
    _thread: Repeated,
}

impl Mtus {
    /// Fills the table, and starts to look at the interfaces again and again, where the program asks.
    pub fn start(program: &Program, mut tables: TableAccess, ports: &MtuPorts) -> io::Result<Option<Mtus>> {
        let Some(table) = program.port_mtus() else { return Ok(None) };
        let (mtu_ports, mut known) = (ports.clone(), Vec::new());
        let mut look = move || {
            let now = mtu_ports.look(&known);
            for (index, (port, mtu)) in mtu_ports.ports.iter().zip(&now).enumerate() {
                if known.get(index) != Some(mtu) {
                    write(&mut tables, table, port.number, *mtu);
                }
            }
            known = now;
        };
        look();
        Ok(Some(Mtus { _thread: Repeated::start("mtus", PAUSE, look)? }))
    }
}

/// Not by [`TableStore::insert`]: it is no change of the control plane's, which would be kept on disk.
///
/// [`TableStore::insert`]: baker::ir::TableStore::insert
fn write(tables: &mut TableAccess, table: TableId, port: u8, mtu: u32) {
    let entry = TableEntry { key: vec![port.into()], prefix_len: None, value: vec![mtu.into()] };
    tables.insert_kept(table, &entry).expect("each port has a place in the table");
}
