//! Checksums that the compiler can't keep: a program says that it keeps them itself, or computes them.
//!
//! Whether it must say so is known when all is written, so the checker is asked.

use baker::check::check;
use baker::diag::Diagnostic;
use baker::library::Library;
use baker::source::FileId;

use super::world::World;

/// Programs are asked about so often at most.
const ROUNDS: usize = 16;

/// The program with what is missing; `None` where that can't be said. What is wrong otherwise stays.
pub fn repaired(mut text: String, world: &World) -> Option<String> {
    for _ in 0..ROUNDS {
        let found = check("random.baker", &text, &Library).diagnostics;
        if found.iter().any(|error| error.code == "in-critical" && error.primary.text.starts_with("sums up")) {
            return None;
        }
        if !found.iter().all(|error| error.code.starts_with("checksum-")) || found.is_empty() {
            return Some(text);
        }
        let mut edits = Vec::new();
        for error in &found {
            edits.push(edit(error, &text, world)?);
        }
        edits.sort();
        edits.dedup();
        for (at, insert) in edits.into_iter().rev() {
            text.insert_str(at, &insert);
        }
    }
    None
}

/// Where something is missing, and what.
fn edit(error: &Diagnostic, text: &str, world: &World) -> Option<(usize, String)> {
    let place = match error.code {
        // The length is written at the second place.
        "checksum-cut" => error.secondary.first()?.span,
        _ => error.primary.span,
    };
    if place.file != FileId(0) {
        return None;
    }
    let (start, end) = (place.start as usize, place.end as usize);
    if error.code != "checksum-unset" {
        let handle = text[start..end].split("->").next()?;
        // Only a header with a pseudo header can say so.
        let declared = world.protocols.iter().find(|protocol| protocol.name == protocol_of(handle, &text[..start]))?;
        return (!declared.pseudo.is_empty()).then(|| (start, format!("checksum_none({handle}); ")));
    }
    let handle = text[..start].strip_suffix(" = ")?.rsplit([' ', '*', '\n', '\t']).next()?;
    let declared = world.protocols.iter().find(|protocol| protocol.name == protocol_of(handle, &text[..start]))?;
    let sum = if declared.pseudo_sum { ", 5" } else { "" };
    let behind = end + text[end..].find(';')? + 1;
    Some((behind, format!(" checksum_set({handle}{sum});")))
}

/// The protocol that a handle was last declared with.
fn protocol_of<'a>(handle: &str, before: &'a str) -> &'a str {
    let declared =
        |at: &(usize, &str)| !before[at.0 + at.1.len()..].starts_with(|c: char| c.is_alphanumeric() || c == '_');
    let last = ["_packet_t *", "_pkt_t *"].iter().filter_map(|suffix| {
        let pattern = format!("{suffix}{handle}");
        before.rmatch_indices(&pattern).find(declared).map(|(at, _)| at)
    });
    last.max().map_or("", |at| before[..at].rsplit(|c: char| !c.is_alphanumeric() && c != '_').next().unwrap_or(""))
}
