//! What a Millrace that has ended has left at an interface. It would pass every packet on beside whoever uses the
//! interface next, so each driver has it looked for, at both hooks.

use std::sync::Arc;

use codegen::kernel::Hook;

use crate::xdp::{Attached, FastPath, Netlink, left_by};

/// What becomes of it.
#[derive(Debug, Default)]
pub struct LeftBehind {
    /// Whose state may be that of the Millrace before. What that has left is taken over, or removed where it is not.
    pub path: Option<Arc<FastPath>>,
    /// What was left for another state is taken off.
    pub replaces: bool,
}

impl LeftBehind {
    /// Sees to it that nothing of another state is at the interface with an index; otherwise what to do, in words that
    /// go on "INTERFACE: …".
    pub fn clear(&self, interface: i32) -> Result<(), String> {
        let netlink = Netlink::new().map_err(|error| format!("cannot be examined: {error}"))?;
        // Where the kernel does not say what is at traffic control, it lets nothing be attached there, either.
        let at_tc = Attached::all_at_ingress(interface).into_iter().map(|program| (Hook::Tc, program));
        // Of an interface that is gone the driver says so.
        let at_xdp = netlink.link(interface).ok().and_then(|link| link.program).map(|program| (Hook::Xdp, program));
        for (hook, program) in at_tc.chain(at_xdp) {
            let Some(owner) = left_by(program) else { continue };
            if self.path.as_ref().is_some_and(|path| path.is_owner(&owner)) {
                continue;
            }
            if !self.replaces {
                return Err(format!(
                    "has the program of a Millrace that has ended and whose state is in {}: start with that state, which \
                     takes over, or remove {}, and with it the program, or tell Millrace to take it off (`--replace-xdp`)",
                    owner.state.display(),
                    owner.dir.display()
                ));
            }
            Attached::clear(hook, program, interface, &netlink)
                .map_err(|error| format!("what a Millrace before has left cannot be removed: {error}"))?;
        }
        Ok(())
    }
}
