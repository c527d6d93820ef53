//! The timers in an explanation.

use baker::ir::Timer;
use cli::report::table;
use serde_json::{Value, json};

use super::view::View;

impl View<'_> {
    /// Each timer with the instructions of its code at levels base and cgpc.
    fn each_timer(&self) -> impl Iterator<Item = (&Timer, [usize; 2])> {
        let instructions = |timer: &Timer| timer.body.size();
        let both = self.program.timers.iter().zip(&self.optimised.timers);
        both.map(move |(timer, optimised)| (timer, [timer, optimised].map(instructions)))
    }

    /// For people.
    pub(super) fn timers_text(&self, out: &mut String) {
        let row = |(timer, instructions): (&Timer, [usize; 2])| {
            let over = timer.over(self.program).unwrap_or_default().to_string();
            let [base, cgpc] = instructions.map(|count| count.to_string());
            vec![timer.name.clone(), over, timer.when(), timer.slice.to_string(), base, cgpc]
        };
        let rows: Vec<_> = self.each_timer().map(row).collect();
        if !rows.is_empty() {
            out.push('\n');
            table(out, &["timers", "over", "every", "at once", "instructions base", "cgpc"], rows);
        }
    }

    /// As JSON: one object per timer.
    pub(super) fn timers_json(&self) -> Vec<Value> {
        let one = |(timer, [base, cgpc]): (&Timer, [usize; 2])| {
            json!({
                "name": timer.name, "table": timer.over(self.program), "period_ns": timer.period, "at_once": timer.slice,
                "base": {"instructions": base}, "cgpc": {"instructions": cgpc},
            })
        };
        self.each_timer().map(one).collect()
    }
}
