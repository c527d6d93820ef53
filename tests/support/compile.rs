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

/// The program of a file, in the form in which hosts may leave checksums to devices.
#[allow(dead_code, reason = "not all tests that compile programs want it")]
pub fn compile_with_operations(path: &Path) -> Arc<Program> {
    let text = std::fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    compile_by(path.to_str().unwrap(), &text, ir::lower_with_operations)
}

/// The program of a text.
pub fn compile_text(name: &str, text: &str) -> Arc<Program> {
    compile_by(name, text, ir::lower)
}

fn compile_by(name: &str, text: &str, lower: fn(&check::hir::Program) -> Program) -> Arc<Program> {
    let compilation = check::check(name, text, &Beside(|path: &Path| std::fs::read_to_string(path).ok()));
    let Some(program) = compilation.program else {
        panic!("{}", diag::render(&compilation.diagnostics, &compilation.sources, false));
    };
    Arc::new(lower(&program))
}
