//! Instructions per packet at each level.

use super::{Apps, NAMES};
use crate::callgrind;
use crate::levels::{LEVELS, millrace};
use crate::results::Results;

/// First argument of the child.
pub const CHILD: &str = "apps-instructions";

/// Packets that are counted, about.
const PACKETS: u32 = 2048;

/// Counts for all cases, or one of them.
pub fn measure(quick: bool, results: &mut Results) -> Result<(), String> {
    if !callgrind::is_installed(results) {
        return Ok(());
    }
    for name in if quick { &NAMES[..1] } else { &NAMES[..] } {
        for (system, _) in LEVELS {
            callgrind::count(CHILD, name, system, results)?;
        }
    }
    Ok(())
}

/// The child: sets a case up and runs its packets.
pub fn child(arguments: &[String]) -> Result<(), String> {
    let [name, system] = arguments else { return Err("case and system are missing".into()) };
    let case = Apps::load()?.case(name, PACKETS)?;
    let mut rig = case.rig(millrace(system).ok_or("there is no such system")?)?;
    let rounds = (PACKETS / case.packets.len() as u32).max(1);
    if !case.once {
        rig.run_trace(&case.packets, 1);
    }
    callgrind::counted_from_here();
    callgrind::counted(rig.run_trace(&case.packets, rounds).packets);
    Ok(())
}
