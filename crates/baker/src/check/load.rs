//! Reads the root file and all that it imports, each once.

use std::collections::HashSet;

use crate::diag::Diagnostic;
use crate::source::{FileId, Loader, Sources};
use crate::syntax::{self, ast};

/// A parsed file.
#[derive(Clone, Debug)]
pub struct File {
    /// Its id; that of the root file is 0.
    pub id: FileId,
    /// Its tree, which may be that of a file with mistakes.
    pub tree: ast::SourceFile,
}

/// The files of a program.
#[derive(Debug)]
pub struct Loaded {
    /// Their texts.
    pub sources: Sources,
    /// Their trees, the imported ones before those that import them.
    pub files: Vec<File>,
    /// Syntax errors and missing files.
    pub diagnostics: Vec<Diagnostic>,
}

/// Reads and parses the program whose root file is `name` with this text.
pub fn load(name: &str, text: &str, loader: &dyn Loader) -> Loaded {
    let mut state =
        Loading { loader, sources: Sources::default(), seen: HashSet::new(), files: Vec::new(), errors: Vec::new() };
    state.seen.insert(name.to_string());
    state.file(name, text);
    Loaded { sources: state.sources, files: state.files, diagnostics: state.errors }
}

struct Loading<'a> {
    loader: &'a dyn Loader,
    sources: Sources,
    seen: HashSet<String>,
    files: Vec<File>,
    errors: Vec<Diagnostic>,
}

impl Loading<'_> {
    fn file(&mut self, name: &str, text: &str) {
        let id = self.sources.add(name, text);
        let parse = syntax::parse(id, text);
        self.errors.extend_from_slice(parse.errors());
        let tree = parse.tree();
        for item in tree.items() {
            let ast::Item::Import(import) = item else { continue };
            let Some((path, string)) = import.path().zip(import.string()) else { continue };
            match self.loader.load(name, &path) {
                Some((name, text)) => {
                    if self.seen.insert(name.clone()) {
                        self.file(&name, &text);
                    }
                }
                None => self.errors.push(
                    Diagnostic::new("unknown-import", string.span(id), format!("there is no file for `{path}`"))
                        .label("not found beside this file nor in the library")
                        .hint("write the path without the ending `.baker`, such as \"net/ipv4\""),
                ),
            }
        }
        self.files.push(File { id, tree });
    }
}
