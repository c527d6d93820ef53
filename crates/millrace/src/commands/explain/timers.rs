//! The timers in an explanation.

use baker::ir::{Body, Op, Program, TableId, Timer};
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
        if rows.is_empty() {
            return;
        }
        out.push('\n');
        table(out, &["timers", "over", "runs", "at once", "instructions base", "cgpc"], rows);
        for timer in self.program.timers.iter().filter(|timer| timer.is_at_deadline()) {
            let by = match setters(self.program, timer.table) {
                by if by.is_empty() => "nothing".into(),
                by => by.join(", "),
            };
            *out += &format!("  deadlines of {} are set by {by}\n", timer.over(self.program).unwrap_or_default());
        }
    }

    /// As JSON: one object per timer.
    pub(super) fn timers_json(&self) -> Vec<Value> {
        let one = |(timer, [base, cgpc]): (&Timer, [usize; 2])| {
            let period = (!timer.is_at_deadline()).then_some(timer.period);
            let set_by = timer.is_at_deadline().then(|| setters(self.program, timer.table));
            json!({
                "name": timer.name, "table": timer.over(self.program), "period_ns": period, "at_once": timer.slice,
                "at_deadline": timer.is_at_deadline(), "set_by": set_by,
                "base": {"instructions": base}, "cgpc": {"instructions": cgpc},
            })
        };
        self.each_timer().map(one).collect()
    }
}

/// PPFs and timers that set deadlines of a table's entries.
fn setters(program: &Program, table: Option<TableId>) -> Vec<&str> {
    let sets = |body: &Body| {
        let mut ops = body.blocks.iter().flat_map(|block| &block.insts).map(|inst| &inst.op);
        ops.any(|op| matches!(op, Op::SetDeadline { table: of, .. } if Some(*of) == table))
    };
    let ppfs = program.ppfs.iter().filter(|ppf| sets(&ppf.body)).map(|ppf| ppf.name.as_str());
    let timers = program.timers.iter().filter(|timer| sets(&timer.body)).map(|timer| timer.name.as_str());
    ppfs.chain(timers).collect()
}
