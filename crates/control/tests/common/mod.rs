//! Compiles programs for tests.

use std::path::Path;
use std::sync::Arc;

use baker::ir::Program;
use baker::library;
use baker::source::Loader;
use baker::{check, diag, ir};

/// Imported files: beside the importing file, else from the library.
struct Files;

impl Loader for Files {
    fn load(&self, from: &str, path: &str) -> Option<(String, String)> {
        let beside = Path::new(from).with_file_name(format!("{path}.baker"));
        let text = std::fs::read_to_string(&beside).ok();
        text.map(|text| (beside.display().to_string(), text)).or_else(|| library::file(path))
    }
}

/// The program of a file.
pub fn compile(path: &Path) -> Arc<Program> {
    let text = std::fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    compile_text(path.to_str().unwrap(), &text)
}

/// The program of a text.
pub fn compile_text(name: &str, text: &str) -> Arc<Program> {
    let compilation = check::check(name, text, &Files);
    let Some(program) = compilation.program else {
        panic!("{}", diag::render(&compilation.diagnostics, &compilation.sources, false));
    };
    Arc::new(ir::lower(&program))
}
