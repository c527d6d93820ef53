//! Instructions per packet at each level.

use super::{Apps, NAMES, SMOKE};
use crate::callgrind;
use crate::levels::{LEVELS, millrace};
use crate::results::Results;

/// First argument of the child.
pub const CHILD: &str = "apps-instructions";

/// Packets that are counted, about.
const PACKETS: u32 = 2048;
/// Cases that are counted at each level, and those of which the last one is enough. Each costs a compilation under
/// valgrind, which takes a minute.
const LEVELLED: [&str; 3] = [NAMES[0], NAMES[1], "mpls, swap"];
const LAST: [&str; 2] = ["firewall, 10 rules, first packets", "firewall, 10000 rules, first packets"];

/// Counts for all these cases, or one of them.
pub fn measure(quick: bool, results: &mut Results) -> Result<(), String> {
    if !callgrind::is_installed(results) {
        return Ok(());
    }
    let levelled = LEVELLED.into_iter().flat_map(|name| LEVELS.map(|(system, _)| (name, system)));
    let last = LAST.into_iter().map(|name| (name, "cgpc"));
    let counted = levelled.chain(last);
    for (name, system) in counted.take(if quick { SMOKE } else { usize::MAX }) {
        callgrind::count(CHILD, name, system, results)?;
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
