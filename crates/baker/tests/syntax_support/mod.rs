//! Shared by the tests of the syntax: programs, random numbers, and what a right tree holds.
#![allow(dead_code, reason = "each test uses a part")]

use baker::syntax::SyntaxKind as K;
use baker::syntax::{SyntaxElement, SyntaxNode, ast, ast::AstNode};

/// The published listing with its surroundings.
pub const SLIDE: &str = include_str!("../syntax_programs/slide.baker");

/// A program that uses every rule of the grammar.
pub const TOUR: &str = include_str!("../syntax_programs/tour.baker");

/// A small generator of random numbers (SplitMix64): the same on every machine.
pub struct Random(pub u64);

impl Random {
    /// A number below `n`, which is not 0.
    pub fn below(&mut self, n: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((z ^ (z >> 31)) % n as u64) as usize
    }
}

/// The texts of all tokens, blanks and comments included.
pub fn tokens(text: &str) -> Vec<String> {
    let parse = baker::syntax::parse(baker::source::FileId(0), text);
    let elements = parse.syntax().descendants_with_tokens();
    elements.filter_map(SyntaxElement::into_token).map(|t| t.text().to_owned()).collect()
}

/// Panics if the tree misses a part that the grammar requires, or holds something that it does not allow.
pub fn assert_complete(root: &SyntaxNode) {
    for element in root.descendants_with_tokens() {
        let kind = element.kind();
        assert!(!matches!(kind, K::Error | K::Unknown), "{kind:?} without an error message in:\n{root}");
        if let Some(node) = element.into_node() {
            assert!(is_complete(&node), "incomplete {node:?} without an error message: `{node}` in:\n{root}");
            assert!(kind == K::SourceFile || !node.text().is_empty(), "empty {node:?} in:\n{root}");
        }
    }
}

/// True when all required parts are there.
fn is_complete(node: &SyntaxNode) -> bool {
    fn view<N: AstNode>(node: &SyntaxNode) -> N {
        N::cast(node.clone()).expect("the view of the node's kind")
    }
    // Anything braced or bracketed is closed.
    let count = |kind| node.children_with_tokens().filter(|e| e.kind() == kind).count();
    if count(K::LBrace) != count(K::RBrace) || count(K::LParen) != count(K::RParen) {
        return false;
    }
    if count(K::LBracket) != count(K::RBracket) {
        return false;
    }
    let ends_with_semicolon = || node.last_token().is_some_and(|t| t.kind() == K::Semicolon);
    // The statements of a `for` header have no `;` of their own.
    let statement_ends = || {
        let in_header = node.parent().is_some_and(|p| matches!(p.kind(), K::ForInit | K::ForStep));
        in_header || ends_with_semicolon()
    };
    match node.kind() {
        K::SourceFile => true,
        K::Import => view::<ast::Import>(node).path().is_some() && ends_with_semicolon(),
        K::Const => {
            let n: ast::Const = view(node);
            n.ty().is_some() && n.name().is_some() && n.value().is_some() && ends_with_semicolon()
        }
        K::Alias => {
            let n: ast::Alias = view(node);
            n.name().is_some() && n.ty().is_some() && ends_with_semicolon()
        }
        K::Enum => view::<ast::Enum>(node).name().is_some() && count(K::LBrace) == 1,
        K::Enumerator => {
            let n: ast::Enumerator = view(node);
            n.name().is_some() && (count(K::Eq) == 0 || n.value().is_some())
        }
        K::Struct => view::<ast::Struct>(node).name().is_some() && count(K::LBrace) == 1,
        K::StructField => {
            let n: ast::StructField = view(node);
            n.name().is_some() && n.ty().is_some() && ends_with_semicolon()
        }
        K::Protocol => view::<ast::Protocol>(node).name().is_some() && count(K::LBrace) == 1,
        K::Field => {
            let n: ast::Field = view(node);
            let value = count(K::Eq) == 0 || n.value().is_some();
            n.name().is_some() && n.width().is_some() && value && ends_with_semicolon()
        }
        K::Covers => view::<ast::Covers>(node).names().count() == count(K::Comma) + 1,
        K::Counts => view::<ast::Counts>(node).names().count() == count(K::Comma) + 1,
        K::Demux => view::<ast::Demux>(node).size().is_some(),
        K::Metadata | K::Program => count(K::LBrace) == 1,
        K::Reasons => view::<ast::Reasons>(node).names().count() == count(K::Comma) + 1 && ends_with_semicolon(),
        K::Module => view::<ast::Module>(node).name().is_some() && count(K::LBrace) == 1,
        K::Port => {
            let n: ast::Port = view(node);
            let names = n.names().count() == count(K::Comma) + 1;
            n.kind().is_some() && n.protocol().is_some() && names && ends_with_semicolon()
        }
        K::Table => {
            let n: ast::Table = view(node);
            let types = n.types().count() == count(K::Comma) + 1;
            n.kind().is_some() && types && n.name().is_some() && n.size().is_some() && ends_with_semicolon()
        }
        K::Counter => {
            let n: ast::Counter = view(node);
            n.name().is_some() && (count(K::LBracket) == 0 || n.size().is_some()) && ends_with_semicolon()
        }
        K::Ppf => {
            let n: ast::Ppf = view(node);
            let body = n.body().is_some() || ends_with_semicolon();
            n.name().is_some() && n.param().is_some() && n.from().is_some() && body
        }
        K::Pin => view::<ast::Pin>(node).target().is_some(),
        K::FromClause => view::<ast::FromClause>(node).port().is_some(),
        K::Function => {
            let n: ast::Function = view(node);
            n.ty().is_some() && n.name().is_some() && n.body().is_some()
        }
        K::OutOfBody => {
            let n: ast::OutOfBody = view(node);
            n.path().is_some() && n.param().is_some() && n.body().is_some()
        }
        K::Path => view::<ast::Path>(node).segments().count() == 2,
        K::ParamList => {
            let params = view::<ast::ParamList>(node).params().count();
            count(K::LParen) == 1 && (params == count(K::Comma) + 1 || params + count(K::Comma) == 0)
        }
        K::Param => {
            let n: ast::Param = view(node);
            n.ty().is_some() && n.name().is_some()
        }
        K::Wire => {
            let n: ast::Wire = view(node);
            n.from().is_some() && n.to().is_some() && ends_with_semicolon()
        }
        K::WireEnd => view::<ast::WireEnd>(node).segments().count() == count(K::Dot) + 1,
        K::ArrayLength => view::<ast::ArrayLength>(node).value().is_some(),
        K::TypeRef => view::<ast::TypeRef>(node).name().is_some(),
        K::Block => count(K::LBrace) == 1,
        K::EmptyStmt | K::BreakStmt | K::ContinueStmt | K::ReturnStmt => ends_with_semicolon(),
        K::LetStmt => {
            let n: ast::LetStmt = view(node);
            let value = count(K::Eq) == 0 || n.value().is_some();
            n.ty().is_some() && n.name().is_some() && value && statement_ends()
        }
        K::AssignStmt => {
            let n: ast::AssignStmt = view(node);
            n.target().is_some() && n.op().is_some() && n.value().is_some() && statement_ends()
        }
        K::IncDecStmt => {
            let n: ast::IncDecStmt = view(node);
            n.target().is_some() && n.op().is_some() && statement_ends()
        }
        K::ExprStmt => view::<ast::ExprStmt>(node).expr().is_some() && statement_ends(),
        K::IfStmt => {
            let n: ast::IfStmt = view(node);
            let otherwise = count(K::ElseKw) == 0 || n.else_branch().is_some();
            n.condition().is_some() && n.then_branch().is_some() && otherwise && count(K::LParen) == 1
        }
        K::SwitchStmt => {
            let n: ast::SwitchStmt = view(node);
            n.value().is_some() && count(K::LBrace) == 1 && count(K::RBrace) == 1
        }
        K::SwitchArm => view::<ast::SwitchArm>(node).labels().count() > 0,
        K::CaseLabel => {
            let n: ast::CaseLabel = view(node);
            let values = n.values().count();
            count(K::Colon) == 1 && if n.is_default() { values == 0 } else { values == count(K::Comma) + 1 }
        }
        K::ForStmt => view::<ast::ForStmt>(node).body().is_some() && count(K::Semicolon) == 2,
        K::ForInit | K::ForStep => node.children().filter_map(ast::Stmt::cast).count() == 1,
        K::ForCondition => node.children().filter_map(ast::Expr::cast).count() == 1,
        K::Literal => view::<ast::Literal>(node).value().is_ok(),
        K::NameExpr => view::<ast::NameExpr>(node).name().is_some(),
        K::ParenExpr => view::<ast::ParenExpr>(node).inner().is_some() && count(K::LParen) == 1,
        K::UnaryExpr => {
            let n: ast::UnaryExpr = view(node);
            n.op().is_some() && n.operand().is_some()
        }
        K::BinaryExpr => {
            let n: ast::BinaryExpr = view(node);
            n.lhs().is_some() && n.op().is_some() && n.rhs().is_some()
        }
        K::TernaryExpr => {
            let n: ast::TernaryExpr = view(node);
            n.condition().is_some() && n.then_value().is_some() && n.else_value().is_some()
        }
        K::CastExpr => {
            let n: ast::CastExpr = view(node);
            n.ty().is_some() && n.operand().is_some()
        }
        K::MemberExpr => {
            let n: ast::MemberExpr = view(node);
            n.base().is_some() && n.field().is_some()
        }
        K::IndexExpr => {
            let n: ast::IndexExpr = view(node);
            n.base().is_some() && n.index().is_some()
        }
        K::CallExpr => {
            let n: ast::CallExpr = view(node);
            n.callee().is_some() && n.arg_list().is_some()
        }
        K::ArgList => {
            let args = view::<ast::ArgList>(node).args().count();
            count(K::LParen) == 1 && (args == count(K::Comma) + 1 || args + count(K::Comma) == 0)
        }
        K::StructValue => view::<ast::StructValue>(node).name().is_some() && count(K::LBrace) == 1,
        K::StructValueField => {
            let n: ast::StructValueField = view(node);
            n.name().is_some() && n.value().is_some()
        }
        other => panic!("a token kind as a node: {other:?}"),
    }
}
