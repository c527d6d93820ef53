//! The compiler's messages, for the editor.

use baker::check::{Compilation, check};
use baker::diag;
use baker::source::{FileId, Span};
use lsp_types::{Diagnostic, DiagnosticRelatedInformation, DiagnosticSeverity, Location, NumberOrString, Range};

use crate::documents::{Documents, Imports};
use crate::position::LineIndex;

/// What is wrong with the program whose root is an open document: the first [`diag::SHOWN`] mistakes, and how many more
/// there are. Mistakes in imported files are shown at an import.
pub fn diagnostics(name: &str, text: &str, documents: &Documents) -> Vec<Diagnostic> {
    let compilation = check(name, text, &Imports::new(documents));
    let index = LineIndex::new(text);
    let (shown, more) = compilation.diagnostics.split_at(compilation.diagnostics.len().min(diag::SHOWN));
    let mut found: Vec<_> = shown.iter().map(|d| diagnostic(d, &index, &compilation, documents)).collect();
    if let Some(next) = more.first() {
        let (count, s) = (more.len(), if more.len() == 1 { "" } else { "s" });
        let message = format!("{count} more error{s} from here on");
        found.push(Diagnostic {
            message,
            code: None,
            related_information: None,
            ..diagnostic(next, &index, &compilation, documents)
        });
    }
    found
}

fn diagnostic(
    error: &diag::Diagnostic,
    index: &LineIndex,
    compilation: &Compilation,
    documents: &Documents,
) -> Diagnostic {
    let mut message = error.title.clone();
    if !error.primary.text.is_empty() {
        message = format!("{message}: {}", error.primary.text);
    }
    if let Some(instances) = error.instances() {
        message = format!("{message}, {instances}");
    }
    if let Some(hint) = &error.hint {
        message = format!("{message}\nhelp: {hint}");
    }
    let mut related = Vec::new();
    let primary = error.primary.span;
    let range = if primary.file == FileId(0) {
        index.range(primary.start as usize, primary.end as usize)
    } else {
        message = format!("in {}: {message}", compilation.sources.file(primary.file).name);
        related.extend(information(primary, &error.title, compilation, documents));
        first_import(index, compilation)
    };
    related.extend(error.secondary.iter().filter_map(|l| information(l.span, &l.text, compilation, documents)));
    Diagnostic {
        range,
        severity: Some(DiagnosticSeverity::ERROR),
        code: Some(NumberOrString::String(error.code.to_string())),
        source: Some("millrace".to_string()),
        message,
        related_information: (!related.is_empty()).then_some(related),
        ..Diagnostic::default()
    }
}

/// A remark on another place, if the editor can open it.
fn information(
    span: Span,
    text: &str,
    compilation: &Compilation,
    documents: &Documents,
) -> Option<DiagnosticRelatedInformation> {
    let location = location(&compilation.sources, span, documents)?;
    Some(DiagnosticRelatedInformation { location, message: text.to_string() })
}

/// A place as the editor knows it.
pub fn location(sources: &baker::source::Sources, span: Span, documents: &Documents) -> Option<Location> {
    let file = sources.file(span.file);
    let range = LineIndex::new(&file.text).range(span.start as usize, span.end as usize);
    Some(Location::new(documents.uri(&file.name)?, range))
}

/// Where a document imports something first.
fn first_import(index: &LineIndex, compilation: &Compilation) -> Range {
    let text = &compilation.sources.file(FileId(0)).text;
    let tree = baker::syntax::parse(FileId(0), text).tree();
    let import = tree.items().find_map(|item| match item {
        baker::syntax::ast::Item::Import(import) => Some(import.span(FileId(0))),
        _ => None,
    });
    import.map_or(Range::default(), |span| index.range(span.start as usize, span.end as usize))
}
