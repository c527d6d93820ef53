//! Diagnostics as text for people: source lines with carets.

use annotate_snippets::{Annotation, AnnotationKind, Group, Level, Renderer, Snippet};

use super::{Diagnostic, Label, SHOWN};
use crate::source::{FileId, Sources};

/// Columns to which a source line is cut, so that a line of a megabyte does not flood the reader. A constant: the text
/// must not depend on where it is shown.
const WIDTH: usize = 140;

/// Renders diagnostics in the order given, with a blank line between two: the first [`SHOWN`], and how many more there
/// are. The text ends with a newline unless there is nothing to render. `color` adds ANSI escape sequences.
///
/// Spans that reach beyond their file or cut a character in two are widened or cut to what is there.
pub fn render(diagnostics: &[Diagnostic], sources: &Sources, color: bool) -> String {
    let renderer = if color { Renderer::styled() } else { Renderer::plain() }.term_width(WIDTH);
    let (shown, more) = diagnostics.split_at(diagnostics.len().min(SHOWN));
    let rendered = shown.iter().map(|d| renderer.render(&[report(d, sources)]) + "\n");
    let more = match more.len() {
        0 => None,
        1 => Some("and 1 more error, which is not shown\n".to_string()),
        count => Some(format!("and {count} more errors, which are not shown\n")),
    };
    rendered.chain(more).collect::<Vec<_>>().join("\n")
}

fn report<'a>(diagnostic: &'a Diagnostic, sources: &'a Sources) -> Group<'a> {
    let title = Level::ERROR.primary_title(&diagnostic.title).id(diagnostic.code);
    // One piece of source per file, that of the primary place first.
    let mut files = vec![diagnostic.primary.span.file];
    for label in &diagnostic.secondary {
        if !files.contains(&label.span.file) {
            files.push(label.span.file);
        }
    }
    let mut group = Group::with_title(title);
    for file in files {
        let source = sources.file(file);
        let mut snippet = Snippet::source(source.text.as_str()).path(source.name.as_str());
        if diagnostic.primary.span.file == file {
            snippet = snippet.annotation(annotation(AnnotationKind::Primary, &diagnostic.primary, file, sources));
        }
        let others = diagnostic.secondary.iter().filter(|l| l.span.file == file);
        group =
            group.element(snippet.annotations(others.map(|l| annotation(AnnotationKind::Context, l, file, sources))));
    }
    if let Some(instances) = diagnostic.instances() {
        group = group.element(Level::NOTE.message(instances));
    }
    match &diagnostic.hint {
        Some(hint) => group.element(Level::HELP.message(hint)),
        None => group,
    }
}

fn annotation<'a>(kind: AnnotationKind, label: &'a Label, file: FileId, sources: &Sources) -> Annotation<'a> {
    let text = &sources.file(file).text;
    let start = text.floor_char_boundary((label.span.start as usize).min(text.len()));
    let end = text.ceil_char_boundary((label.span.end as usize).min(text.len())).max(start);
    let annotation = kind.span(start..end);
    if label.text.is_empty() { annotation } else { annotation.label(label.text.as_str()) }
}
