//! Diagnostics of modules with parameters: each instance is checked, and what is wrong in several is told once.

use std::collections::HashMap;

use super::Diagnostic;
use crate::source::{Sources, Span};

/// Diagnostics with places in the files themselves in place of their copies, and the instances that those stood for
/// beside them. Each place is told once.
pub fn by_file(diagnostics: Vec<Diagnostic>, sources: &Sources) -> Vec<Diagnostic> {
    let mut told: Vec<Diagnostic> = Vec::new();
    let mut known: HashMap<(&'static str, String, Span), usize> = HashMap::new();
    for mut diagnostic in diagnostics {
        let original = |span: Span| Span { file: sources.original(span.file), ..span };
        let primary = original(diagnostic.primary.span);
        let labels = [&diagnostic.primary].into_iter().chain(&diagnostic.secondary).map(|label| label.span);
        let here = labels.filter(|span| original(*span) == primary).filter_map(|span| sources.instance(span.file));
        let within: Vec<String> = here.map(str::to_owned).collect();
        diagnostic.primary.span = primary;
        diagnostic.secondary.iter_mut().for_each(|label| label.span = original(label.span));
        // The same place in another instance.
        diagnostic.secondary.retain(|label| within.is_empty() || label.span != primary);
        let place = (diagnostic.code, diagnostic.title.clone(), primary);
        let index = *known.entry(place).or_insert(told.len());
        if index == told.len() {
            told.push(diagnostic);
        }
        for name in within {
            if !told[index].within.contains(&name) {
                told[index].within.push(name);
            }
        }
    }
    told
}
