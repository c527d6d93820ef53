//! MPLS and the firewall: at each level of packet-access optimisation, by the number of rules, and against the kernel.

pub mod case;
#[path = "../../../apps/firewall/controller/bench/mod.rs"]
mod firewall;
pub mod instructions;
mod live;
mod memory;
mod mpls;
mod tc;

use case::{App, Case};

use crate::Effort;
use crate::results::Results;

/// All cases in memory, that of a smoke run first.
const NAMES: [&str; 15] = [
    "mpls, shipped trace",
    "firewall, shipped trace",
    "mpls, swap",
    "mpls, swap, 3 labels",
    "mpls, pop",
    "mpls, push, 16 routes",
    "mpls, push, 1000000 routes",
    "firewall, 4096 flows",
    "firewall, 100000 flows",
    "firewall, 4096 flows, counted",
    "firewall, 100000 flows, counted",
    "firewall, 10 rules, first packets",
    "firewall, 10000 rules, first packets",
    "firewall, 10 rules, established flows",
    "firewall, 10000 rules, established flows",
];

/// Cases of a smoke run.
const SMOKE: usize = 1;

/// The applications, compiled as far as the intermediate representation.
struct Apps {
    mpls: App,
    firewall: App,
}

impl Apps {
    fn load() -> Result<Self, String> {
        let mut firewall = App::new("firewall")?;
        firewall.example = firewall::quiet(&firewall.example);
        Ok(Apps { mpls: App::new("mpls")?, firewall })
    }

    /// The case of a name, with so many packets where these are generated.
    fn case(&self, name: &str, pool: u32) -> Result<Case, String> {
        let case = match mpls::case(&self.mpls, name, pool)? {
            Some(case) => Some(case),
            None => firewall::case(&self.firewall, name, pool)?,
        };
        case.ok_or_else(|| format!("there is no case `{name}`"))
    }
}

/// Runs all parts, or those that `PART=memory,instructions` names: memory, instructions, live, tc. `CASE="mpls, swap"`
/// limits the measurement in memory to one case, `CASE=rules` to the rules.
pub fn run(effort: Effort) -> Result<Results, String> {
    let apps = Apps::load()?;
    let mut results = Results::default();
    let parts = std::env::var("PART").unwrap_or_default();
    let wanted = |part: &str| parts.is_empty() || parts.split(',').any(|named| named == part);
    if wanted("memory") {
        memory::measure(&apps, effort, &mut results)?;
    }
    if wanted("instructions") {
        instructions::measure(effort.quick, &mut results)?;
    }
    if wanted("live") {
        live::measure(&apps, effort, &mut results)?;
    }
    if wanted("tc") {
        tc::measure(&apps.firewall, effort, &mut results)?;
    }
    Ok(results)
}

#[cfg(test)]
mod tests {
    use super::*;

    use dataplane::EngineKind;

    /// Packets that leave, of so many: what is generated does what it is said to do.
    #[test]
    fn cases_do_what_they_say() {
        let apps = Apps::load().unwrap();
        for (name, all) in [
            ("mpls, swap", true),
            ("mpls, swap, 3 labels", true),
            ("mpls, pop", true),
            ("mpls, push, 16 routes", true),
            ("firewall, 4096 flows", true),
            ("firewall, 4096 flows, counted", true),
            ("firewall, 10 rules, established flows", true),
            ("firewall, 10 rules, first packets", true),
            ("mpls, shipped trace", true),
            ("firewall, shipped trace", false),
        ] {
            let case = apps.case(name, 512).unwrap();
            let mut rig = case.rig(EngineKind::Interp).unwrap();
            let measured = rig.run_trace(&case.packets, 1);
            assert_eq!(measured.packets, case.packets.len() as u64, "{name}");
            assert_eq!(measured.outputs == measured.packets, all, "{name}: {} left", measured.outputs);
            assert!(measured.outputs > measured.packets / 10, "{name}: {} left", measured.outputs);
        }
    }
}
