//! The best driver of a network interface that works here.

use codegen::kernel::Hook;

use super::error::PortError;
use super::offloads::{OtherEnd, other_end};
use super::queue::Opened;
use super::spec::Driver;
use crate::sys;
use crate::xdp::Netlink;

/// The hook at which a program runs best, between these interfaces: traffic control where XDP is no good at one.
pub fn best_hook<'a>(interfaces: impl IntoIterator<Item = &'a str>) -> Hook {
    // The first with links at traffic control (TCX).
    let has_tcx = sys::is_linux_from(6, 6);
    if has_tcx && interfaces.into_iter().any(|interface| why_not_xdp(interface).is_some()) {
        Hook::Tc
    } else {
        Hook::Xdp
    }
}

/// Why XDP is no good at an interface, if it is not: there it sees packets that nobody finishes, or copies of them.
fn why_not_xdp(interface: &str) -> Option<String> {
    let netlink = Netlink::new().ok()?;
    let index = sys::interface(&sys::inet_socket().ok()?, interface).ok()?.index;
    if !netlink.has_xdp(index) {
        return Some("its driver runs no XDP programs".into());
    }
    match other_end(&netlink, index)? {
        OtherEnd::Seen(undone) if undone.is_nothing() => None,
        OtherEnd::Seen(undone) => Some(format!("its other end {undone}")),
        OtherEnd::Unseen => Some("its other end is out of sight, and may leave checksums or segments undone".into()),
    }
}

/// Opens an interface with the first driver that can; what it says about itself tells which that is, and why no better
/// one. Where a part of the program runs in the kernel, `hook` is where.
pub fn open_best(
    interface: &str,
    hook: Option<Hook>,
    open: impl Fn(&Driver) -> Result<Opened, PortError>,
) -> Result<Opened, PortError> {
    let own = || interface.to_owned();
    let in_kernel = hook.map(|hook| match hook {
        Hook::Xdp => Driver::Xdp { interface: own() },
        Hook::Tc => Driver::Tc { interface: own() },
    });
    let others = [Driver::AfXdp { interface: own() }, Driver::AfPacket { interface: own() }];
    // Of the other ports there may be one at which XDP is no good.
    let why_tc = if hook == Some(Hook::Tc) { why_not_xdp(interface) } else { None };
    let mut refused: Vec<_> = why_tc.into_iter().map(|why| format!("not xdp, because {why}")).collect();
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
