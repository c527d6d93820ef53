//! The placement in an explanation: what can run in the kernel's XDP hook, where the program is cut, and why.

use baker::ir::{ChannelId, PpfId, Target};
use cli::report::table;
use serde_json::{Value, json};

use super::view::View;
use crate::commands::stages::{Row, rows};

impl View<'_> {
    fn each_stage(&self) -> Vec<Row<'_>> {
        rows(self.program, self.placement, self.sources)
    }

    /// Each channel from the kernel to workers with what it leads to: a PPF, or a queue or group, which are theirs.
    fn cuts(&self) -> Vec<(&str, &str)> {
        let program = self.program;
        let in_kernel = program.ppfs.iter().zip(0..).filter(|(_, ppf)| self.placement.is_kernel(PpfId(*ppf)));
        let puts = in_kernel.flat_map(|(ppf, _)| ppf.body.puts());
        let waits =
            |id: &ChannelId| matches!(program.channels[id.0 as usize].target, Target::Queue(..) | Target::Group(..));
        let mut found = Vec::new();
        for ChannelId(id) in self.placement.cuts.iter().copied().chain(puts.filter(waits)) {
            let channel = &program.channels[id as usize];
            let to = match channel.target {
                Target::Ppf(to) => self.ppf(to),
                Target::Queue(to, _) => &program.queues[to.0 as usize].name,
                Target::Group(to, _) => &program.tables[to.0 as usize].name,
                _ => continue,
            };
            if !found.contains(&(channel.name.as_str(), to)) {
                found.push((channel.name.as_str(), to));
            }
        }
        found
    }

    /// For people.
    pub(super) fn placement_text(&self, out: &mut String) {
        *out += "\nplacement: what runs in the kernel's XDP hook at xdp ports, and what workers do\n";
        *out += &self.answer_text();
        let width = self.program.ppfs.iter().map(|ppf| ppf.name.chars().count()).max().unwrap_or(0);
        for row in self.each_stage() {
            *out += &format!("  {:width$}  {}\n", row.ppf, row.text());
        }
        let cuts: Vec<_> =
            self.cuts().into_iter().map(|(channel, to)| vec![channel.to_owned(), to.to_owned()]).collect();
        if !cuts.is_empty() && self.placement.any_kernel() {
            out.push('\n');
            table(out, &["channels from the kernel to workers", "to"], cuts);
        }
        self.kernel_text(out);
    }

    /// As JSON.
    pub(super) fn placement_json(&self) -> Value {
        let stage = |Row { ppf, runs, why, taps, deadlines }: Row| json!({"ppf": ppf, "runs": runs, "why": why, "taps": taps, "deadlines": deadlines});
        let cut = |(channel, to): (&str, &str)| json!({"channel": channel, "to": to});
        json!({
            "ppfs": self.each_stage().into_iter().map(stage).collect::<Vec<_>>(), "cuts": self.cuts().into_iter().map(cut).collect::<Vec<_>>(),
            "kernel": self.answer_json(), "bpf": self.kernel_json(),
        })
    }
}
