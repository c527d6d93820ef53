//! The best driver of a network interface that works here.

use codegen::kernel::Hook;

use super::error::PortError;
use super::queue::Opened;
use super::spec::Driver;

/// Opens an interface with the first driver that can; what it says about itself tells which that is, and why no better
/// one. Where a part of the program runs in the kernel, `hook` is where.
pub fn open_best(
    interface: &str,
    hook: Option<Hook>,
    open: impl Fn(&Driver) -> Result<Opened, PortError>,
) -> Result<Opened, PortError> {
    let interface = || interface.to_owned();
    let in_kernel = hook.map(|hook| match hook {
        Hook::Xdp => Driver::Xdp { interface: interface() },
        Hook::Tc => Driver::Tc { interface: interface() },
    });
    let others = [Driver::AfXdp { interface: interface() }, Driver::AfPacket { interface: interface() }];
    let mut refused = Vec::new();
    let mut last = PortError(String::new());
    for driver in in_kernel.into_iter().chain(others) {
        match open(&driver) {
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
