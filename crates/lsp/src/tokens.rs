//! Semantic tokens: what colour each word has, also where only its place tells what it is (`type` is a keyword in one
//! place and a field in another).
//!
//! One walk over the tree, so the time grows linearly with the text.

use baker::syntax::ast::{self, AstNode};
use baker::syntax::{SyntaxElement, SyntaxKind, SyntaxNode, SyntaxToken};
use lsp_types::{SemanticToken, SemanticTokenType};

use crate::builtin;
use crate::model::{Kind, Model};
use crate::position::LineIndex;
use crate::target::{Target, is_in_body};

use SyntaxKind::*;

/// The kinds of tokens, in the order of their numbers.
pub const LEGEND: [SemanticTokenType; 15] = [
    SemanticTokenType::KEYWORD,
    SemanticTokenType::COMMENT,
    SemanticTokenType::STRING,
    SemanticTokenType::NUMBER,
    SemanticTokenType::OPERATOR,
    SemanticTokenType::TYPE,
    SemanticTokenType::STRUCT,
    SemanticTokenType::INTERFACE,
    SemanticTokenType::NAMESPACE,
    SemanticTokenType::FUNCTION,
    SemanticTokenType::VARIABLE,
    SemanticTokenType::PARAMETER,
    SemanticTokenType::PROPERTY,
    SemanticTokenType::ENUM_MEMBER,
    SemanticTokenType::EVENT,
];

/// The tokens of a document.
pub fn tokens(model: &Model, index: &LineIndex) -> Vec<SemanticToken> {
    let mut walk = Walk { model, index, tokens: Vec::new(), last: (0, 0) };
    walk.node(model.tree().syntax());
    walk.tokens
}

struct Walk<'a> {
    model: &'a Model,
    index: &'a LineIndex<'a>,
    tokens: Vec<SemanticToken>,
    /// Line and column of the last token: each is given by its distance from the one before.
    last: (u32, u32),
}

impl Walk<'_> {
    fn node(&mut self, node: &SyntaxNode) {
        for element in node.children_with_tokens() {
            match element {
                SyntaxElement::Node(node) => self.node(&node),
                SyntaxElement::Token(token) => {
                    if let Some(kind) = self.kind(node, &token) {
                        self.push(&token, kind);
                    }
                }
            }
        }
    }

    fn kind(&mut self, node: &SyntaxNode, token: &SyntaxToken) -> Option<SemanticTokenType> {
        Some(match token.kind() {
            LineComment | BlockComment => SemanticTokenType::COMMENT,
            SyntaxKind::String => SemanticTokenType::STRING,
            Int | Mac | Ipv4 | Ipv6 => SemanticTokenType::NUMBER,
            Name => self.name(node, token)?,
            kind if kind.describe().trim_matches('`').chars().all(|c| c.is_ascii_lowercase() || c == '_') => {
                SemanticTokenType::KEYWORD
            }
            Plus | Minus | Star | Slash | Percent | Amp | Pipe | Caret | Tilde | Bang | Arrow | Eq | EqEq | NotEq
            | Lt | LtEq | Gt | GtEq | Shl | Shr | AndAnd | OrOr | PlusPlus | MinusMinus => SemanticTokenType::OPERATOR,
            _ => return None,
        })
    }

    /// The kind of a name, by the node that holds it.
    fn name(&mut self, node: &SyntaxNode, token: &SyntaxToken) -> Option<SemanticTokenType> {
        let text = token.text();
        Some(match node.kind() {
            Param => SemanticTokenType::PARAMETER,
            LetStmt => SemanticTokenType::VARIABLE,
            // The type of a handle has a name of its own.
            TypeRef => match self.model.target(token) {
                Some(Target::Symbol(symbol)) if symbol.name.text() == text => of(symbol.kind),
                Some(Target::Type(_)) => SemanticTokenType::TYPE,
                _ => SemanticTokenType::STRUCT,
            },
            Field | StructField | StructValueField | Covers | Counts | Pseudo => SemanticTokenType::PROPERTY,
            MemberExpr => match self.model.target(token) {
                Some(Target::Symbol(symbol)) => of(symbol.kind),
                _ => SemanticTokenType::PROPERTY,
            },
            NameExpr => self.expression(token)?,
            WireEnd | Path => self.dotted(node, token),
            FromClause => SemanticTokenType::EVENT,
            Pin => SemanticTokenType::KEYWORD,
            Port => {
                let is_protocol = ast::Port::cast(node.clone())?.protocol().is_some_and(|p| p.syntax() == token);
                if is_protocol { SemanticTokenType::INTERFACE } else { SemanticTokenType::EVENT }
            }
            Const if is_in_body(node) => SemanticTokenType::VARIABLE,
            Const | Enumerator => SemanticTokenType::ENUM_MEMBER,
            Alias | Enum => SemanticTokenType::TYPE,
            Struct | StructValue => SemanticTokenType::STRUCT,
            Protocol => SemanticTokenType::INTERFACE,
            Module | Instances => SemanticTokenType::NAMESPACE,
            ModuleParam => SemanticTokenType::PARAMETER,
            Function | Ppf | Timer | Extern => SemanticTokenType::FUNCTION,
            OverClause | IntoClause => SemanticTokenType::VARIABLE,
            Reasons => SemanticTokenType::EVENT,
            Table | Counter | Meter | Queue => SemanticTokenType::VARIABLE,
            _ => return None,
        })
    }

    fn expression(&self, token: &SyntaxToken) -> Option<SemanticTokenType> {
        Some(match self.model.target(token)? {
            Target::Symbol(symbol) => of(symbol.kind),
            Target::Local(local) => match local.name.syntax().parent().map(|node| node.kind()) {
                Some(Param) => SemanticTokenType::PARAMETER,
                _ => SemanticTokenType::VARIABLE,
            },
            Target::HeaderField { .. } | Target::StructField { .. } | Target::Metadata { .. } | Target::AllMetadata => {
                SemanticTokenType::PROPERTY
            }
            Target::Builtin(_) => SemanticTokenType::FUNCTION,
            Target::Reason(..) => SemanticTokenType::EVENT,
            Target::Type(_) => SemanticTokenType::TYPE,
            Target::File(_) => SemanticTokenType::STRING,
        })
    }

    /// A part of `module.port` or `module.ppf`, or an end of the language.
    fn dotted(&self, node: &SyntaxNode, token: &SyntaxToken) -> SemanticTokenType {
        let names = node.children_with_tokens().filter_map(SyntaxElement::into_token).filter(|t| t.kind() == Name);
        let names: Vec<_> = names.collect();
        match names.as_slice() {
            [only] if only == token && builtin::find(&builtin::ENDS, token.text()).is_some() => {
                SemanticTokenType::KEYWORD
            }
            [first, ..] if first == token => SemanticTokenType::NAMESPACE,
            _ if node.kind() == Path => SemanticTokenType::FUNCTION,
            _ => SemanticTokenType::EVENT,
        }
    }

    /// Adds a token, one for each line that it covers.
    fn push(&mut self, token: &SyntaxToken, kind: SemanticTokenType) {
        let kind = LEGEND.iter().position(|k| *k == kind).unwrap_or_default() as u32;
        let mut offset = usize::from(token.text_range().start());
        for line in token.text().split_inclusive('\n') {
            let content = line.trim_end_matches(['\r', '\n']);
            let length = content.encode_utf16().count() as u32;
            if length > 0 {
                let start = self.index.position(offset);
                let (last_line, last_column) = self.last;
                self.tokens.push(SemanticToken {
                    delta_line: start.line - last_line,
                    delta_start: if start.line == last_line { start.character - last_column } else { start.character },
                    length,
                    token_type: kind,
                    token_modifiers_bitset: 0,
                });
                self.last = (start.line, start.character);
            }
            offset += line.len();
        }
    }
}

fn of(kind: Kind) -> SemanticTokenType {
    match kind {
        Kind::Const | Kind::Enumerator => SemanticTokenType::ENUM_MEMBER,
        Kind::Alias | Kind::Enum => SemanticTokenType::TYPE,
        Kind::Struct => SemanticTokenType::STRUCT,
        Kind::Protocol => SemanticTokenType::INTERFACE,
        Kind::Module | Kind::Instance => SemanticTokenType::NAMESPACE,
        Kind::Function | Kind::Extern | Kind::Ppf | Kind::Timer => SemanticTokenType::FUNCTION,
        Kind::Reason | Kind::Port => SemanticTokenType::EVENT,
        Kind::Table | Kind::Meter | Kind::Queue | Kind::Counter => SemanticTokenType::VARIABLE,
        Kind::Parameter => SemanticTokenType::PARAMETER,
    }
}
