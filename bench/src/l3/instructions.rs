//! Instructions per packet of each system, by callgrind. The C peers are builds without AVX-512 here, too.

use super::memory::Case;
use super::peer::{Build, Kind};
use crate::callgrind;
use crate::levels::{LEVELS, millrace};
use crate::results::Results;

/// First argument of the child.
pub const CHILD: &str = "l3-instructions";

const CASES: [&str; 3] = ["bridged", "16 routes", "1000000 routes"];
/// Packets before those that are counted, and these.
const PACKETS: [usize; 2] = [1024, 2048];

/// Counts for all systems, or two of them.
pub fn measure(quick: bool, results: &mut Results) -> Result<(), String> {
    if !callgrind::is_installed(results) {
        return Ok(());
    }
    let cases = if quick { &CASES[1..2] } else { &CASES[..] };
    let peers = Kind::all().iter().map(|kind| kind.name());
    let systems: Vec<&str> = ["millrace"].into_iter().chain(peers).chain(LEVELS.map(|(level, _)| level)).collect();
    for case in cases {
        for system in if quick { &systems[..2] } else { &systems[..] } {
            callgrind::count(CHILD, case, system, results)?;
        }
    }
    Ok(())
}

/// The child: sets a case up and runs its packets.
pub fn child(arguments: &[String]) -> Result<(), String> {
    let [case, system] = arguments else { return Err("case and system are missing".into()) };
    let program = super::program()?;
    let pool = PACKETS.iter().sum::<usize>();
    let case = match case.as_str() {
        "bridged" => Case::bridged(&program),
        "16 routes" => Case::routes(&program, 16, pool as u32),
        _ => Case::routes(&program, 1_000_000, pool as u32),
    };
    let mut rig = match (millrace(system), Kind::all().iter().find(|kind| kind.name() == system)) {
        (Some(engine), _) => case.millrace(engine)?,
        (None, Some(&kind)) => case.c(Build::V3, kind)?,
        (None, None) => return Err("there is no such system".into()),
    };
    rig.run(1, &case.packets[..PACKETS[0]], 1);
    callgrind::counted_from_here();
    let measured = rig.run(1, &case.packets[PACKETS[0]..pool], 1);
    callgrind::counted(measured.packets);
    Ok(())
}
