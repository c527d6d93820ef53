//! A case file with what was found in place of what it expects.

use std::ops::Range;

use baker::ir::Program;

use super::case::{Case, Leaving, Places, Step, To};
use super::run::Observed;
use crate::packet::text;

/// Why a case file can't say what was found.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{place}: a packet leaves by port {port}, which has no name: give it one in the configuration or in [ports]")]
pub struct UpdateError {
    /// The file and the step's line.
    pub place: String,
    /// The port's number.
    pub port: u8,
}

/// A part of the text that is to be another one.
type Edit = (Range<usize>, String);

/// The text of a case file in which each step expects what came of it. What it expects already stays as it is written,
/// and so does everything but `out` and `drops`.
///
/// # Errors
/// Where a packet leaves by a port without a name.
pub fn updated(program: &Program, case: &Case, observed: &[Observed]) -> Result<String, UpdateError> {
    let mut edits: Vec<Edit> = Vec::new();
    for (step, observed) in case.steps.iter().zip(observed) {
        let mut behind = String::new();
        if step.outputs != observed.outputs {
            let out = out(program, case, step, &observed.outputs)?;
            match &step.places.out {
                Some(place) => edits.push((place.clone(), out)),
                None => behind += &added(&case.text, &step.places, "out", &out),
            }
        }
        let mut expected = step.drops.clone();
        expected.sort_unstable();
        if expected != observed.drops {
            let name = |(id, packets): &(baker::ir::DropId, u64)| {
                format!("{} = {packets}", program.drop_reasons[id.0 as usize].name)
            };
            let drops: Vec<String> = observed.drops.iter().map(name).collect();
            let drops = if drops.is_empty() { "{}".to_owned() } else { format!("{{ {} }}", drops.join(", ")) };
            match &step.places.drops {
                Some(place) => edits.push((place.clone(), drops)),
                None => behind += &added(&case.text, &step.places, "drops", &drops),
            }
        }
        if !behind.is_empty() {
            let at = end(&case.text, &step.places);
            edits.push((at..at, behind));
        }
    }
    edits.sort_by_key(|(place, _)| place.start);
    let mut text = case.text.clone();
    for (place, new) in edits.into_iter().rev() {
        text.replace_range(place, &new);
    }
    Ok(text)
}

/// The value of `out`.
fn out(program: &Program, case: &Case, step: &Step, found: &[Leaving]) -> Result<String, UpdateError> {
    let mut packets = Vec::new();
    for (index, leaving) in found.iter().enumerate() {
        if step.outputs.get(index) == Some(leaving) {
            packets.push(case.text[step.places.packets[index].clone()].to_owned());
            continue;
        }
        if let To::Port(port) = leaving.to
            && case.ports.name(port).is_none()
        {
            return Err(UpdateError { place: format!("{}:{}", case.file.display(), step.line), port });
        }
        let to = leaving.to.show(program, &case.ports);
        packets.push(format!("{{ port = {to:?}, packet = \"{}\" }}", text(program, &leaving.packet)));
    }
    Ok(match &packets[..] {
        [] => "[]".into(),
        [one] => format!("[{one}]"),
        _ if is_inline(&case.text, &step.places) => format!("[{}]", packets.join(", ")),
        several => format!("[\n    {},\n]", several.join(",\n    ")),
    })
}

/// A key that the step has not.
fn added(text: &str, places: &Places, key: &str, value: &str) -> String {
    if is_inline(text, places) { format!(", {key} = {value}") } else { format!("\n{key} = {value}") }
}

/// What follows what enters, in its line.
fn rest<'t>(text: &'t str, places: &Places) -> &'t str {
    text[places.enters.end..].lines().next().unwrap_or_default()
}

/// Whether the step is written as `{ in = …, … }`.
fn is_inline(text: &str, places: &Places) -> bool {
    !(rest(text, places).trim_start().is_empty() || rest(text, places).trim_start().starts_with('#'))
}

/// Where keys are added: behind what enters, and behind a comment there.
fn end(text: &str, places: &Places) -> usize {
    let line = if is_inline(text, places) { 0 } else { rest(text, places).len() };
    places.enters.end + line
}
