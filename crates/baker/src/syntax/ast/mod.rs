//! Typed views of the tree.
//!
//! Every part may be missing in the tree of a wrong program, so accessors return `Option` or an iterator. After a parse
//! without errors all parts that the grammar requires are there. Spans never hold blanks or comments at their ends.

mod expr;
mod item;
mod module;
mod stmt;

pub use expr::*;
pub use item::*;
pub use module::*;
pub use stmt::*;

use super::kind::{SyntaxElement, SyntaxKind, SyntaxNode, SyntaxToken};
pub use super::literal::{LiteralError, LiteralValue};
use crate::source::{FileId, Span};

/// A typed view of a node.
pub trait AstNode: Sized {
    /// The view of `node`, if it is of the right kind.
    fn cast(node: SyntaxNode) -> Option<Self>;
    /// The node itself.
    fn syntax(&self) -> &SyntaxNode;
}

/// A name, or a string's token, as written.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Name {
    token: SyntaxToken,
}

impl Name {
    /// The token.
    pub fn syntax(&self) -> &SyntaxToken {
        &self.token
    }

    /// Its text.
    pub fn text(&self) -> &str {
        self.token.text()
    }

    /// Its place.
    pub fn span(&self, file: FileId) -> Span {
        token_span(&self.token, file)
    }
}

/// The place of a token.
pub fn token_span(token: &SyntaxToken, file: FileId) -> Span {
    let range = token.text_range();
    Span::new(file, range.start().into(), range.end().into())
}

/// The place of a node, without blanks and comments at its ends.
pub fn node_span(node: &SyntaxNode, file: FileId) -> Span {
    let range = node.text_range();
    let mut first = node.first_token();
    while let Some(token) = first.take_if(|t| t.kind().is_trivia()) {
        first = token.next_token().filter(|t| range.contains_range(t.text_range()));
    }
    let mut last = node.last_token();
    while let Some(token) = last.take_if(|t| t.kind().is_trivia()) {
        last = token.prev_token().filter(|t| range.contains_range(t.text_range()));
    }
    let start = first.map_or(range.start(), |t| t.text_range().start());
    let end = last.map_or(range.end(), |t| t.text_range().end());
    Span::new(file, start.into(), end.max(start).into())
}

/// Views of one kind of node each.
macro_rules! nodes {
    ($($(#[$doc:meta])* $name:ident,)*) => {$(
        $(#[$doc])*
        #[derive(Clone, Debug, PartialEq, Eq, Hash)]
        pub struct $name {
            syntax: SyntaxNode,
        }

        impl AstNode for $name {
            fn cast(syntax: SyntaxNode) -> Option<Self> {
                (syntax.kind() == SyntaxKind::$name).then_some(Self { syntax })
            }

            fn syntax(&self) -> &SyntaxNode {
                &self.syntax
            }
        }

        impl $name {
            /// Its place, without blanks and comments at its ends.
            pub fn span(&self, file: FileId) -> Span {
                $crate::syntax::ast::node_span(&self.syntax, file)
            }
        }
    )*};
}

/// Views of a node of one of several kinds.
macro_rules! choice {
    ($(#[$doc:meta])* $name:ident { $($(#[$variant_doc:meta])* $variant:ident($node:ident),)* }) => {
        $(#[$doc])*
        #[derive(Clone, Debug, PartialEq, Eq, Hash)]
        pub enum $name {
            $($(#[$variant_doc])* $variant($node),)*
        }

        impl AstNode for $name {
            fn cast(syntax: SyntaxNode) -> Option<Self> {
                match syntax.kind() {
                    $(SyntaxKind::$node => $node::cast(syntax).map(Self::$variant),)*
                    _ => None,
                }
            }

            fn syntax(&self) -> &SyntaxNode {
                match self {
                    $(Self::$variant(node) => node.syntax(),)*
                }
            }
        }

        impl $name {
            /// Its place, without blanks and comments at its ends.
            pub fn span(&self, file: FileId) -> Span {
                $crate::syntax::ast::node_span(self.syntax(), file)
            }
        }
    };
}

use {choice, nodes};

/// The first child that is an `N`.
fn child<N: AstNode>(node: &SyntaxNode) -> Option<N> {
    node.children().find_map(N::cast)
}

/// All children that are `N`.
fn children<N: AstNode>(node: &SyntaxNode) -> impl Iterator<Item = N> + use<N> {
    node.children().filter_map(N::cast)
}

/// The tokens directly in a node, blanks and comments left out.
fn tokens(node: &SyntaxNode) -> impl Iterator<Item = SyntaxToken> + use<> {
    node.children_with_tokens().filter_map(SyntaxElement::into_token).filter(|t| !t.kind().is_trivia())
}

/// The first token of a kind directly in a node.
fn token(node: &SyntaxNode, kind: SyntaxKind) -> Option<SyntaxToken> {
    tokens(node).find(|t| t.kind() == kind)
}

/// The first `N` before the first token of `kind`, or the first of all when there is no such token.
fn child_before<N: AstNode>(node: &SyntaxNode, kind: SyntaxKind) -> Option<N> {
    node.children_with_tokens().take_while(|e| e.kind() != kind).filter_map(SyntaxElement::into_node).find_map(N::cast)
}

/// The first `N` after the first token of `kind`.
fn child_after<N: AstNode>(node: &SyntaxNode, kind: SyntaxKind) -> Option<N> {
    node.children_with_tokens()
        .skip_while(|e| e.kind() != kind)
        .skip(1)
        .filter_map(SyntaxElement::into_node)
        .find_map(N::cast)
}

/// The names directly in a node.
fn names(node: &SyntaxNode) -> impl Iterator<Item = Name> + use<> {
    tokens(node).filter(|t| t.kind() == SyntaxKind::Name).map(|token| Name { token })
}

/// The first name directly in a node.
fn name(node: &SyntaxNode) -> Option<Name> {
    names(node).next()
}
