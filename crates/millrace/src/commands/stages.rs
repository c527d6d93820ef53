//! Where the PPFs of a program run, and why, in words.

use baker::ir::Program;
use baker::place::{Obstacle, Placement, Stage};
use baker::source::{Sources, Span};

/// Where a PPF runs.
pub struct Row<'a> {
    /// Its name.
    pub ppf: &'a str,
    /// `kernel` or `worker`.
    pub runs: &'static str,
    /// Each goes on "it …" or "where it …".
    pub why: Vec<String>,
}

impl Row<'_> {
    /// In a line, behind the PPF's name.
    pub fn text(&self) -> String {
        let (runs, why) = (self.runs, self.why.join(", and "));
        match (runs, why.is_empty()) {
            (_, true) => runs.to_owned(),
            ("kernel", _) => format!("{runs}, handed to a worker where it {why}"),
            _ => format!("{runs}: it {why}"),
        }
    }
}

/// All PPFs, in the program's order.
pub fn rows<'a>(program: &'a Program, placement: &Placement, sources: &Sources) -> Vec<Row<'a>> {
    let row = |(ppf, stage): (&'a baker::ir::Ppf, &Stage)| {
        let (runs, why) = match stage {
            Stage::Kernel(punts) => ("kernel", reasons(punts, sources)),
            Stage::Cannot(obstacle) => ("worker", reasons(std::slice::from_ref(obstacle), sources)),
            Stage::Pinned => ("worker", vec!["is pinned there".into()]),
            Stage::Behind => ("worker", vec!["gets packets from workers only".into()]),
        };
        Row { ppf: &ppf.name, runs, why }
    };
    program.ppfs.iter().zip(&placement.stages).map(row).collect()
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
    let mut reasons: Vec<(&str, Vec<String>)> = Vec::new();
    for Obstacle { reason, span } in obstacles {
        let place = place(*span, sources);
        match reasons.iter_mut().find(|(known, _)| known == reason) {
            Some((_, places)) => places.push(place),
            None => reasons.push((reason, vec![place])),
        }
    }
    reasons.into_iter().map(|(reason, places)| format!("{reason} ({})", places.join(", "))).collect()
}
