//! Syntax: from text to a lossless tree.
//!
//! [`parse`] accepts any text. The tree holds every byte of it, blanks, comments and mistakes included, so that the
//! formatter and editors work on the same tree as the compiler. The grammar is in `docs/grammar.md`.

pub mod ast;
mod kind;
mod lexer;
mod literal;
mod parser;

pub use kind::{Baker, SyntaxElement, SyntaxKind, SyntaxNode, SyntaxToken};
pub use literal::duration;
pub use parser::{MAX_DEPTH, MAX_ERRORS};

use crate::diag::Diagnostic;
use crate::source::FileId;
use ast::AstNode;

/// The result of [`parse`].
#[derive(Clone, Debug)]
pub struct Parse {
    green: rowan::GreenNode,
    errors: Vec<Diagnostic>,
}

impl Parse {
    /// The whole file.
    pub fn tree(&self) -> ast::SourceFile {
        ast::SourceFile::cast(self.syntax()).expect("the root of a tree is always a SourceFile")
    }

    /// The root of the tree. Its text is the text that was parsed.
    pub fn syntax(&self) -> SyntaxNode {
        SyntaxNode::new_root(self.green.clone())
    }

    /// The errors, in the order of their places. At most [`MAX_ERRORS`] and one that says that there are more.
    pub fn errors(&self) -> &[Diagnostic] {
        &self.errors
    }
}

/// Parses the text of a file. Never panics, whatever the text; time and memory grow linearly with it.
pub fn parse(file: FileId, text: &str) -> Parse {
    let (green, errors) = parser::parse(file, text);
    Parse { green, errors }
}
