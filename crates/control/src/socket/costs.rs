//! What accesses to packets cost in each PPF, as the program is written and as it is optimised: `millrace explain` of
//! packets that were traced, with the tables of the running instance.

use baker::ir::Program;
use baker::ir::interp::Costs;
use baker::opt::Level;
use baker::opt::explain::Explanation;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// Packets that are measured with at most: the last ones that were traced.
pub(super) const MOST: usize = 256;

/// What accesses to packets cost.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct PacketCosts {
    /// Packets that were measured with.
    pub packets: u64,
    /// The PPFs that they came to, in the program's order.
    pub ppfs: Vec<PpfCosts>,
}

/// What they cost in a PPF.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct PpfCosts {
    /// Its name.
    pub ppf: String,
    /// What runs it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub engine: Option<String>,
    /// As the program is written: each access by itself.
    pub base: PacketCost,
    /// As it is optimised.
    pub optimised: PacketCost,
}

/// Costs of a packet, on average over all that were measured with.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct PacketCost {
    /// Accesses to packet memory.
    pub accesses: f64,
    /// Bytes that these move.
    pub bytes: f64,
    /// Accesses to the packet's descriptor and metadata.
    pub descriptor: f64,
    /// Instructions of the intermediate representation.
    pub instructions: f64,
}

impl PacketCost {
    fn new(costs: &Costs, packets: u64) -> PacketCost {
        let of = |count: u64| count as f64 / packets.max(1) as f64;
        let Costs { accesses, bytes, descriptor, instructions } = *costs;
        PacketCost {
            accesses: of(accesses),
            bytes: of(bytes),
            descriptor: of(descriptor),
            instructions: of(instructions),
        }
    }
}

impl PacketCosts {
    pub(super) fn new(program: &Program, found: &Explanation, engine: impl Fn(&str) -> Option<String>) -> PacketCosts {
        let [base, optimised] = [Level::Base, Level::Cgpc].map(|level| found.last_stage(level));
        let reached = found.ppfs.iter().filter(|ppf| ppf.costs[base].instructions > 0);
        let ppfs = reached.map(|ppf| {
            let name = &program.ppfs[ppf.ppf.0 as usize].name;
            let [base, optimised] = [base, optimised].map(|stage| PacketCost::new(&ppf.costs[stage], found.packets));
            PpfCosts { ppf: name.clone(), engine: engine(name), base, optimised }
        });
        PacketCosts { packets: found.packets, ppfs: ppfs.collect() }
    }
}
