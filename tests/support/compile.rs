//! Compiles programs for tests.

use std::path::Path;
use std::sync::Arc;

use baker::ir::Program;
use baker::library::Beside;
use baker::{check, diag, ir};

/// The program of a file.
pub fn compile(path: &Path) -> Arc<Program> {
    let text = std::fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    compile_text(path.to_str().unwrap(), &text)
}

/// The program of a text.
pub fn compile_text(name: &str, text: &str) -> Arc<Program> {
    let compilation = check::check(name, text, &Beside(|path: &Path| std::fs::read_to_string(path).ok()));
    let Some(program) = compilation.program else {
        panic!("{}", diag::render(&compilation.diagnostics, &compilation.sources, false));
    };
    Arc::new(ir::lower(&program))
}
