//! The placement in an explanation: what can run in the kernel's XDP hook, where the program is cut, and why.

use baker::ir::{ChannelId, Ppf, Target};
use baker::place::{Obstacle, Stage};
use cli::report::table;
use serde_json::{Value, json};

use super::view::View;

/// Where a PPF runs, in words.
struct Row<'a> {
    ppf: &'a str,
    runs: &'static str,
    /// Each goes on "it …" or "where it …".
    why: Vec<String>,
}

impl View<'_> {
    fn each_stage(&self) -> impl Iterator<Item = Row<'_>> {
        self.program.ppfs.iter().zip(&self.placement.stages).map(|(ppf, stage)| self.row(ppf, stage))
    }

    fn row<'a>(&self, ppf: &'a Ppf, stage: &Stage) -> Row<'a> {
        let (runs, why) = match stage {
            Stage::Kernel(punts) => ("kernel", self.reasons(punts)),
            Stage::Cannot(obstacle) => ("worker", self.reasons(std::slice::from_ref(obstacle))),
            Stage::Pinned => ("worker", vec!["is pinned there".into()]),
            Stage::Behind => ("worker", vec!["gets packets from workers only".into()]),
        };
        Row { ppf: &ppf.name, runs, why }
    }

    /// Each reason once, with its places.
    fn reasons(&self, obstacles: &[Obstacle]) -> Vec<String> {
        let mut reasons: Vec<(&str, Vec<String>)> = Vec::new();
        for Obstacle { reason, span } in obstacles {
            let place = self.place(*span);
            match reasons.iter_mut().find(|(known, _)| known == reason) {
                Some((_, places)) => places.push(place),
                None => reasons.push((reason, vec![place])),
            }
        }
        reasons.into_iter().map(|(reason, places)| format!("{reason} ({})", places.join(", "))).collect()
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
        for Row { ppf, runs, why } in self.each_stage() {
            *out += &format!("  {ppf:width$}  {runs}");
            let why = why.join(", and ");
            *out += &match (runs, why.is_empty()) {
                (_, true) => "\n".to_owned(),
                ("kernel", _) => format!(", handed to a worker where it {why}\n"),
                _ => format!(": it {why}\n"),
            };
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
        let stage = |row: Row| json!({"ppf": row.ppf, "runs": row.runs, "why": row.why});
        let cut = |(channel, to): (&str, &str)| json!({"channel": channel, "to": to});
        json!({
            "ppfs": self.each_stage().map(stage).collect::<Vec<_>>(), "cuts": self.cuts().map(cut).collect::<Vec<_>>(),
            "kernel": self.answer_json(), "bpf": self.kernel_json(),
        })
    }
}
