//! Where a blank stands between two tokens of a line.

use crate::syntax::{SyntaxKind, SyntaxNode, SyntaxToken};

use SyntaxKind::*;

/// Whether a blank stands between `before` and `token`, which follows it.
pub(super) fn between(before: &SyntaxToken, token: &SyntaxToken) -> bool {
    let (left, right) = (before.kind(), token.kind());
    match (left, right) {
        (_, Semicolon | Comma | RParen | RBracket | LBracket | Dot | PlusPlus | MinusMinus) => false,
        (LParen | LBracket | Dot | At, _) => false,
        // `- -x`: without the blank it would be another operator.
        (Minus, Minus) => true,
        (Bang | Tilde | Minus | Star, _) if parent(before) == Some(UnaryExpr) => false,
        // `u32 *x`
        (Star, _) => parent(before) == Some(BinaryExpr),
        (Arrow, _) => parent(before) == Some(Wire),
        (_, Arrow) => parent(token) == Some(Wire),
        (Lt, _) => parent(before) != Some(Table),
        (_, Lt | Gt) => parent(token) != Some(Table),
        (_, Colon) => !matches!(parent(token), Some(StructValueField | CaseLabel)),
        (_, LParen) => !matches!(parent(token), Some(ArgList | ParamList | ModuleParams | Ppf | Timer | OutOfBody)),
        _ => true,
    }
}

fn parent(token: &SyntaxToken) -> Option<SyntaxKind> {
    token.parent().as_ref().map(SyntaxNode::kind)
}
