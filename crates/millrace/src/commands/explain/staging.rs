//! Look-up staging in an explanation: at which look-ups native code stops to fetch ahead, once tables are large.

use baker::opt::stage::{Look, Plan};
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
        let one = |look: &Look| Stop {
            table: self.optimised.tables[look.table.0 as usize].name.clone(),
            at: self.place(body.blocks[look.point.block.0 as usize].insts[look.point.inst].span),
            saved: look.point.saved.len(),
        };
        plan.looks.iter().map(one)
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
        let looks: Vec<Value> = self.stops(&plan).map(one).collect();
        json!({"root": self.ppf(plan.root), "lookups": looks, "effects": plan.stops.len()})
    }
}
