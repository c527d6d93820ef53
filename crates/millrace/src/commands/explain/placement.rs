//! The placement in an explanation: what can run in the kernel's XDP hook, where the program is cut, and why.

use baker::ir::{ChannelId, Ppf, Target};
use baker::place::{Obstacle, Stage};
use serde_json::{Value, json};

use super::view::View;
use crate::report::table;

/// Where a PPF runs, in words.
struct Row<'a> {
    ppf: &'a str,
    runs: &'static str,
    why: String,
}

impl View<'_> {
    fn each_stage(&self) -> impl Iterator<Item = Row<'_>> {
        self.program.ppfs.iter().zip(&self.placement.stages).map(|(ppf, stage)| self.row(ppf, stage))
    }

    fn row<'a>(&self, ppf: &'a Ppf, stage: &Stage) -> Row<'a> {
        let at = |obstacle: &Obstacle| format!("{} ({})", obstacle.reason, self.place(obstacle.span));
        let (runs, why) = match stage {
            Stage::Kernel(punts) => {
                let punts: Vec<String> = punts.iter().map(at).collect();
                let why = match &punts[..] {
                    [] => String::new(),
                    punts => format!("but for packets for which it {}: a worker begins it again", punts.join(", ")),
                };
                ("kernel", why)
            }
            Stage::Cannot(obstacle) => ("worker", at(obstacle)),
            Stage::Pinned => ("worker", "is pinned there".into()),
            Stage::Behind => ("worker", "gets packets from workers only".into()),
        };
        Row { ppf: &ppf.name, runs, why }
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
        *out += "\nplacement: where each PPF can run, the kernel's XDP hook first\n";
        let row = |row: Row| vec![row.ppf.to_owned(), row.runs.to_owned(), row.why];
        table(out, &["ppf", "runs in", "why"], self.each_stage().map(row).collect());
        let cuts: Vec<_> = self.cuts().map(|(channel, to)| vec![channel.to_owned(), to.to_owned()]).collect();
        if !cuts.is_empty() && self.placement.any_kernel() {
            out.push('\n');
            table(out, &["channels from the kernel to workers", "to"], cuts);
        }
    }

    /// As JSON.
    pub(super) fn placement_json(&self) -> Value {
        let stage = |row: Row| json!({"ppf": row.ppf, "runs": row.runs, "why": row.why});
        let cut = |(channel, to): (&str, &str)| json!({"channel": channel, "to": to});
        json!({
            "ppfs": self.each_stage().map(stage).collect::<Vec<_>>(), "cuts": self.cuts().map(cut).collect::<Vec<_>>(),
        })
    }
}
