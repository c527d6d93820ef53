//! Look-up staging in an explanation: at which look-ups native code stops to fetch ahead, once tables are large.

use baker::opt::stage::{LookUp, Plan};
use cli::report::table;
use serde_json::{Value, json};

use super::view::View;

/// A look-up at which a batch may stop.
struct Stop {
    table: String,
    /// Where it stands in the source.
    at: String,
    /// Values that each packet saves there.
    saved: usize,
}

impl View<'_> {
    fn stops(&self, plan: &Plan) -> impl Iterator<Item = Stop> {
        let body = &self.optimised.ppfs[plan.root.0 as usize].body;
        let one = |look_up: &LookUp| Stop {
            table: self.optimised.tables[look_up.table.0 as usize].name.clone(),
            at: self.place(body.blocks[look_up.point.block.0 as usize].insts[look_up.point.inst].span),
            saved: look_up.point.saved.len(),
        };
        plan.look_ups.iter().map(one)
    }

    /// For people.
    pub(super) fn staging_text(&self, out: &mut String) {
        let Some(plan) = Plan::new(self.optimised) else {
            *out += "\nlook-up staging: none, for no look-up of the aggregate behind rx may wait for memory\n";
            return;
        };
        *out += &format!(
            "\nlook-up staging: while a table is large, batches stop in front of its look-ups in {} and fetch ahead\n",
            self.ppf(plan.root)
        );
        let row = |stop: Stop| vec![stop.table, stop.at, stop.saved.to_string()];
        let rows = self.stops(&plan).map(row).collect();
        table(out, &["table", "at", "values saved"], rows);
    }

    /// As JSON; null where nothing is staged.
    pub(super) fn staging_json(&self) -> Value {
        let Some(plan) = Plan::new(self.optimised) else { return Value::Null };
        let one = |stop: Stop| json!({"table": stop.table, "at": stop.at, "saved": stop.saved});
        let look_ups: Vec<Value> = self.stops(&plan).map(one).collect();
        json!({"root": self.ppf(plan.root), "lookups": look_ups, "effects": plan.stops.len()})
    }
}
