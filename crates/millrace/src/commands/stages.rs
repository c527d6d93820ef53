//! Where the PPFs of a program run, and why, in words.

use baker::ir::Program;
use baker::place::{Deadline, Obstacle, Placement, Stage, Tap};
use baker::source::{Sources, Span};

/// Where a PPF runs.
pub struct Row<'a> {
    /// Its name.
    pub ppf: &'a str,
    /// `kernel` or `worker`.
    pub runs: &'static str,
    /// Each goes on "it …" or "where it …".
    pub why: Vec<String>,
    /// Channels of copies that leave it in the kernel while their packets stay, with their places.
    pub taps: Vec<String>,
    /// Tables whose deadlines it sets in the kernel, with their places.
    pub deadlines: Vec<String>,
}

impl Row<'_> {
    /// In a line, behind the PPF's name.
    pub fn text(&self) -> String {
        let (runs, why) = (self.runs, self.why.join(", and "));
        let stage = match (runs, why.is_empty()) {
            (_, true) => runs.to_owned(),
            ("kernel", _) => format!("{runs}, handed to a worker where it {why}"),
            _ => format!("{runs}: it {why}"),
        };
        let by_ring = [("copies to workers", &self.taps), ("deadlines told to workers", &self.deadlines)];
        let by_ring = by_ring.into_iter().filter(|(_, all)| !all.is_empty());
        by_ring.fold(stage, |stage, (what, all)| format!("{stage}, {what} by a ring: {}", all.join(", ")))
    }
}

/// All PPFs, in the program's order.
pub fn rows<'a>(program: &'a Program, placement: &Placement, sources: &Sources) -> Vec<Row<'a>> {
    let row = |(ppf, index): (&'a baker::ir::Ppf, usize)| {
        let (stage, taps, deadlines) = (&placement.stages[index], &placement.taps[index], &placement.deadlines[index]);
        let (runs, why) = match stage {
            Stage::Kernel(punts) => ("kernel", reasons(punts, sources)),
            Stage::Cannot(obstacle) => ("worker", reasons(std::slice::from_ref(obstacle), sources)),
            Stage::Pinned => ("worker", vec!["is pinned there".into()]),
            Stage::Behind => ("worker", vec!["gets packets from workers only".into()]),
        };
        let channel = |tap: &Tap| program.channels[tap.channel.0 as usize].name.as_str();
        let taps = by_text(taps.iter().map(|tap| (channel(tap), tap.span)), sources);
        let table = |set: &Deadline| program.tables[set.table.0 as usize].name.as_str();
        let deadlines = by_text(deadlines.iter().map(|set| (table(set), set.span)), sources);
        Row { ppf: &ppf.name, runs, why, taps, deadlines }
    };
    program.ppfs.iter().zip(0..).map(row).collect()
}

/// `file:line` of a place.
pub fn place(span: Option<Span>, sources: &Sources) -> String {
    span.map_or("-".into(), |span| {
        let (line, _) = sources.line_column(span.file, span.start);
        format!("{}:{line}", sources.file(span.file).name)
    })
}

/// Each reason once, with its places.
fn reasons(obstacles: &[Obstacle], sources: &Sources) -> Vec<String> {
    by_text(obstacles.iter().map(|obstacle| (obstacle.reason.as_str(), obstacle.span)), sources)
}

/// Each text once, with its places.
fn by_text<'t>(all: impl Iterator<Item = (&'t str, Option<Span>)>, sources: &Sources) -> Vec<String> {
    let mut texts: Vec<(&str, Vec<String>)> = Vec::new();
    for (text, span) in all {
        let place = place(span, sources);
        match texts.iter_mut().find(|(known, _)| *known == text) {
            Some((_, places)) => places.push(place),
            None => texts.push((text, vec![place])),
        }
    }
    texts.into_iter().map(|(text, places)| format!("{text} ({})", places.join(", "))).collect()
}
