//! The best driver of a network interface that works here.

use std::sync::Arc;

use super::lock::InterfaceLock;
use super::{Common, Driver, Opened, Own, PortError, open_locked};
use crate::xdp::PortRole;

/// Opens an interface with the first driver that can; what it says about itself tells which that is, and why no better one.
pub fn open_best(
    interface: &str,
    role: PortRole,
    common: &Common,
    lock: &Arc<InterfaceLock>,
) -> Result<Opened, PortError> {
    let interface = || interface.to_owned();
    let xdp = common.fast_path.is_some().then(|| Driver::Xdp { interface: interface() });
    let others = [Driver::AfXdp { interface: interface() }, Driver::AfPacket { interface: interface() }];
    let mut refused = Vec::new();
    let mut last = PortError(String::new());
    for driver in xdp.into_iter().chain(others) {
        match open_locked(&driver, role, Own::Program, common, lock) {
            Ok(Opened { queues, about, warnings }) => {
                let about = about.map_or_else(|| driver.to_string(), |about| format!("{driver}: {about}"));
                let about = std::iter::once(about).chain(refused).collect::<Vec<_>>().join("; ");
                return Ok(Opened { queues, about: Some(about), warnings });
            }
            Err(error) => {
                refused.push(format!("not {driver}, because {error}"));
                last = error;
            }
        }
    }
    // What not even the least of them can do without.
    Err(last)
}
