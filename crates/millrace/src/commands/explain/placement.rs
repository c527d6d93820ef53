//! The placement in an explanation: what can run in the kernel's XDP hook, where the program is cut, and why.

use baker::ir::{ChannelId, Target};
use cli::report::table;
use serde_json::{Value, json};

use super::view::View;
use crate::commands::stages::{Row, rows};

impl View<'_> {
    fn each_stage(&self) -> Vec<Row<'_>> {
        rows(self.program, self.placement, self.sources)
    }

    /// Each channel from the kernel to workers with the PPF that it leads to.
    fn cuts(&self) -> impl Iterator<Item = (&str, &str)> {
        self.placement.cuts.iter().filter_map(|&ChannelId(cut)| {
            let channel = &self.program.channels[cut as usize];
            match channel.target {
                Target::Ppf(to) => Some((channel.name.as_str(), self.ppf(to))),
                _ => None,
            }
        })
    }

    /// For people.
    pub(super) fn placement_text(&self, out: &mut String) {
        *out += "\nplacement: what runs in the kernel's XDP hook at xdp ports, and what workers do\n";
        *out += &self.answer_text();
        let width = self.program.ppfs.iter().map(|ppf| ppf.name.chars().count()).max().unwrap_or(0);
        for row in self.each_stage() {
            *out += &format!("  {:width$}  {}\n", row.ppf, row.text());
        }
        let cuts: Vec<_> = self.cuts().map(|(channel, to)| vec![channel.to_owned(), to.to_owned()]).collect();
        if !cuts.is_empty() && self.placement.any_kernel() {
            out.push('\n');
            table(out, &["channels from the kernel to workers", "to"], cuts);
        }
        self.kernel_text(out);
    }

    /// As JSON.
    pub(super) fn placement_json(&self) -> Value {
        let stage = |row: Row| json!({"ppf": row.ppf, "runs": row.runs, "why": row.why, "taps": row.taps});
        let cut = |(channel, to): (&str, &str)| json!({"channel": channel, "to": to});
        json!({
            "ppfs": self.each_stage().into_iter().map(stage).collect::<Vec<_>>(), "cuts": self.cuts().map(cut).collect::<Vec<_>>(),
            "kernel": self.answer_json(), "bpf": self.kernel_json(),
        })
    }
}
