//! Semantic tokens: what colour each word has, also where only its place tells what it is (`type` is a keyword in one
//! place and a field in another).
//!
//! One walk over the tree with the variables of the open blocks at hand, so the time grows linearly with the text.

use std::collections::HashMap;
use std::string::String;

use baker::ir::BUILTIN_DROP_REASONS;
use baker::syntax::ast::{self, AstNode};
use baker::syntax::{SyntaxElement, SyntaxKind, SyntaxNode, SyntaxToken};
use lsp_types::{SemanticToken, SemanticTokenType};

use crate::builtin;
use crate::model::{Kind, Model};
use crate::position::LineIndex;
use crate::target::is_in_body;

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
    let mut walk = Walk { model, index, module: None, scopes: Vec::new(), tokens: Vec::new(), last: (0, 0) };
    walk.node(model.tree().syntax());
    walk.tokens
}

struct Walk<'a> {
    model: &'a Model,
    index: &'a LineIndex<'a>,
    /// The module that is open.
    module: Option<String>,
    /// Variables of the open blocks: whether each is a parameter.
    scopes: Vec<HashMap<String, bool>>,
    tokens: Vec<SemanticToken>,
    /// Line and column of the last token: each is given by its distance from the one before.
    last: (u32, u32),
}

impl Walk<'_> {
    fn node(&mut self, node: &SyntaxNode) {
        let scope = matches!(node.kind(), Block | ForStmt | Function | Ppf | Timer | Extern | OutOfBody);
        if scope {
            self.scopes.push(HashMap::new());
        }
        let outer = self.module.clone();
        match node.kind() {
            Module => self.module = ast::Module::cast(node.clone()).and_then(|m| m.name()).map(|n| n.text().into()),
            OutOfBody => {
                let path = ast::OutOfBody::cast(node.clone()).and_then(|o| o.path());
                self.module = path.and_then(|p| p.module()).map(|n| n.text().into());
            }
            _ => {}
        }
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
        self.module = outer;
        if scope {
            self.scopes.pop();
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
            LetStmt | Param => {
                let param = node.kind() == Param;
                if let Some(scope) = self.scopes.last_mut() {
                    scope.insert(text.to_string(), param);
                }
                if param { SemanticTokenType::PARAMETER } else { SemanticTokenType::VARIABLE }
            }
            TypeRef => match self.symbol(text) {
                Some(known) => known,
                None if builtin::type_width(text).is_some() || text == "void" => SemanticTokenType::TYPE,
                None => SemanticTokenType::STRUCT,
            },
            Field | StructField | StructValueField | Covers | Counts | Pseudo => SemanticTokenType::PROPERTY,
            MemberExpr => self.member(node, text),
            NameExpr => self.expression(text)?,
            WireEnd | Path => self.dotted(node, token),
            FromClause => SemanticTokenType::EVENT,
            Pin => SemanticTokenType::KEYWORD,
            Port => {
                let is_protocol = ast::Port::cast(node.clone())?.protocol().is_some_and(|p| p.syntax() == token);
                if is_protocol { SemanticTokenType::INTERFACE } else { SemanticTokenType::EVENT }
            }
            Const if is_in_body(node) => {
                if let Some(scope) = self.scopes.last_mut() {
                    scope.insert(text.to_string(), false);
                }
                SemanticTokenType::VARIABLE
            }
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

    fn expression(&self, text: &str) -> Option<SemanticTokenType> {
        if let Some(param) = self.scopes.iter().rev().find_map(|scope| scope.get(text)) {
            return Some(if *param { SemanticTokenType::PARAMETER } else { SemanticTokenType::VARIABLE });
        }
        self.symbol(text).or_else(|| {
            let function = builtin::function(text).map(|_| SemanticTokenType::FUNCTION);
            let reason =
                || BUILTIN_DROP_REASONS.iter().any(|(name, _)| *name == text).then_some(SemanticTokenType::EVENT);
            function.or_else(reason).or_else(|| builtin::type_width(text).map(|_| SemanticTokenType::TYPE))
        })
    }

    fn symbol(&self, text: &str) -> Option<SemanticTokenType> {
        self.model.lookup(self.module.as_deref(), text).map(|symbol| of(symbol.kind))
    }

    /// `module.name`, or a field.
    fn member(&self, node: &SyntaxNode, text: &str) -> SemanticTokenType {
        let base = ast::MemberExpr::cast(node.clone()).filter(|m| !m.is_arrow()).and_then(|m| m.base());
        if let Some(ast::Expr::Name(name)) = base
            && let Some(name) = name.name()
            && !self.scopes.iter().any(|scope| scope.contains_key(name.text()))
            && let Some(symbol) = self.model.member(name.text(), text)
        {
            return of(symbol.kind);
        }
        SemanticTokenType::PROPERTY
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
