//! Expressions.

use super::*;
use crate::syntax::literal;

nodes! {
    /// A number, an address, `true`, `false` or `null`.
    Literal,
    /// A name: a variable, constant, table, port, function or type.
    NameExpr,
    /// `( expr )`
    ParenExpr,
    /// A prefix operator with its operand.
    UnaryExpr,
    /// A binary operator with its operands.
    BinaryExpr,
    /// `condition ? then : otherwise`
    TernaryExpr,
    /// `(type) operand`
    CastExpr,
    /// `base->field` or `base.field`
    MemberExpr,
    /// `base[index]`
    IndexExpr,
    /// `callee(arguments)`
    CallExpr,
    /// `( … )` of a call.
    ArgList,
    /// `NAME { field: value, … }`
    StructValue,
    /// `field: value`
    StructValueField,
}

choice! {
    /// An expression.
    Expr {
        /// A literal.
        Literal(Literal),
        /// A name.
        Name(NameExpr),
        /// Parentheses.
        Paren(ParenExpr),
        /// A prefix operator.
        Unary(UnaryExpr),
        /// A binary operator.
        Binary(BinaryExpr),
        /// `?:`
        Ternary(TernaryExpr),
        /// A cast.
        Cast(CastExpr),
        /// `->` or `.`
        Member(MemberExpr),
        /// `[ ]`
        Index(IndexExpr),
        /// A call.
        Call(CallExpr),
        /// A structure value.
        StructValue(StructValue),
    }
}

/// A prefix operator.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum UnaryOp {
    /// `!`
    Not,
    /// `~`
    BitNot,
    /// `-`
    Neg,
    /// `*`
    Deref,
}

/// A binary operator.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum BinaryOp {
    /// `||`
    Or,
    /// `&&`
    And,
    /// `|`
    BitOr,
    /// `^`
    BitXor,
    /// `&`
    BitAnd,
    /// `==`
    Eq,
    /// `!=`
    Ne,
    /// `<`
    Lt,
    /// `<=`
    Le,
    /// `>`
    Gt,
    /// `>=`
    Ge,
    /// `<<`
    Shl,
    /// `>>`
    Shr,
    /// `+`
    Add,
    /// `-`
    Sub,
    /// `*`
    Mul,
    /// `/`
    Div,
    /// `%`
    Rem,
}

impl UnaryOp {
    pub(in crate::syntax) fn from_kind(kind: SyntaxKind) -> Option<UnaryOp> {
        Some(match kind {
            SyntaxKind::Bang => UnaryOp::Not,
            SyntaxKind::Tilde => UnaryOp::BitNot,
            SyntaxKind::Minus => UnaryOp::Neg,
            SyntaxKind::Star => UnaryOp::Deref,
            _ => return None,
        })
    }
}

impl BinaryOp {
    pub(in crate::syntax) fn from_kind(kind: SyntaxKind) -> Option<BinaryOp> {
        Some(match kind {
            SyntaxKind::OrOr => BinaryOp::Or,
            SyntaxKind::AndAnd => BinaryOp::And,
            SyntaxKind::Pipe => BinaryOp::BitOr,
            SyntaxKind::Caret => BinaryOp::BitXor,
            SyntaxKind::Amp => BinaryOp::BitAnd,
            SyntaxKind::EqEq => BinaryOp::Eq,
            SyntaxKind::NotEq => BinaryOp::Ne,
            SyntaxKind::Lt => BinaryOp::Lt,
            SyntaxKind::LtEq => BinaryOp::Le,
            SyntaxKind::Gt => BinaryOp::Gt,
            SyntaxKind::GtEq => BinaryOp::Ge,
            SyntaxKind::Shl => BinaryOp::Shl,
            SyntaxKind::Shr => BinaryOp::Shr,
            SyntaxKind::Plus => BinaryOp::Add,
            SyntaxKind::Minus => BinaryOp::Sub,
            SyntaxKind::Star => BinaryOp::Mul,
            SyntaxKind::Slash => BinaryOp::Div,
            SyntaxKind::Percent => BinaryOp::Rem,
            _ => return None,
        })
    }

    /// How tightly it binds, as in C: 1 (`||`) to 10 (`*`). All associate to the left.
    pub(crate) fn precedence(self) -> u8 {
        match self {
            BinaryOp::Or => 1,
            BinaryOp::And => 2,
            BinaryOp::BitOr => 3,
            BinaryOp::BitXor => 4,
            BinaryOp::BitAnd => 5,
            BinaryOp::Eq | BinaryOp::Ne => 6,
            BinaryOp::Lt | BinaryOp::Le | BinaryOp::Gt | BinaryOp::Ge => 7,
            BinaryOp::Shl | BinaryOp::Shr => 8,
            BinaryOp::Add | BinaryOp::Sub => 9,
            BinaryOp::Mul | BinaryOp::Div | BinaryOp::Rem => 10,
        }
    }
}

impl Literal {
    /// What it stands for. An error was reported by the parser already.
    pub fn value(&self) -> Result<LiteralValue, LiteralError> {
        let token = tokens(&self.syntax).next();
        token.and_then(|t| literal::decode(t.kind(), t.text())).unwrap_or(Err(LiteralError::BadNumber))
    }

    /// Its text.
    pub fn text(&self) -> String {
        self.syntax.text().to_string()
    }
}

impl NameExpr {
    /// The name.
    pub fn name(&self) -> Option<Name> {
        name(&self.syntax)
    }
}

impl ParenExpr {
    /// What stands between the parentheses.
    pub fn inner(&self) -> Option<Expr> {
        child(&self.syntax)
    }
}

impl UnaryExpr {
    /// The operator's token.
    pub fn op_token(&self) -> Option<SyntaxToken> {
        tokens(&self.syntax).next()
    }

    /// The operator.
    pub fn op(&self) -> Option<UnaryOp> {
        UnaryOp::from_kind(self.op_token()?.kind())
    }

    /// The operand.
    pub fn operand(&self) -> Option<Expr> {
        child(&self.syntax)
    }
}

impl BinaryExpr {
    /// The left operand.
    pub fn lhs(&self) -> Option<Expr> {
        child_before(&self.syntax, self.op_token()?.kind())
    }

    /// The operator's token.
    pub fn op_token(&self) -> Option<SyntaxToken> {
        tokens(&self.syntax).next()
    }

    /// The operator.
    pub fn op(&self) -> Option<BinaryOp> {
        BinaryOp::from_kind(self.op_token()?.kind())
    }

    /// The right operand.
    pub fn rhs(&self) -> Option<Expr> {
        child_after(&self.syntax, self.op_token()?.kind())
    }
}

impl TernaryExpr {
    /// What is tested.
    pub fn condition(&self) -> Option<Expr> {
        child_before(&self.syntax, SyntaxKind::Question)
    }

    /// The value when it holds.
    pub fn then_value(&self) -> Option<Expr> {
        // Behind `?`, but not behind `:`, should the value be missing.
        let value = child_after::<Expr>(&self.syntax, SyntaxKind::Question)?;
        (Some(&value) != self.else_value().as_ref()).then_some(value)
    }

    /// The value when it does not hold.
    pub fn else_value(&self) -> Option<Expr> {
        child_after(&self.syntax, SyntaxKind::Colon)
    }
}

impl CastExpr {
    /// The type cast to.
    pub fn ty(&self) -> Option<TypeRef> {
        child(&self.syntax)
    }

    /// What is cast.
    pub fn operand(&self) -> Option<Expr> {
        child(&self.syntax)
    }
}

impl MemberExpr {
    /// What the field is of.
    pub fn base(&self) -> Option<Expr> {
        child(&self.syntax)
    }

    /// True for `->`, false for `.`.
    pub fn is_arrow(&self) -> bool {
        token(&self.syntax, SyntaxKind::Arrow).is_some()
    }

    /// The field's name; any word, reserved or not.
    pub fn field(&self) -> Option<Name> {
        name(&self.syntax)
    }
}

impl IndexExpr {
    /// The table.
    pub fn base(&self) -> Option<Expr> {
        child_before(&self.syntax, SyntaxKind::LBracket)
    }

    /// The index or key.
    pub fn index(&self) -> Option<Expr> {
        child_after(&self.syntax, SyntaxKind::LBracket)
    }
}

impl CallExpr {
    /// What is called.
    pub fn callee(&self) -> Option<Expr> {
        child(&self.syntax)
    }

    /// The arguments in order.
    pub fn args(&self) -> impl Iterator<Item = Expr> + use<> {
        self.arg_list().into_iter().flat_map(|list| list.args())
    }

    /// The arguments with their parentheses.
    pub fn arg_list(&self) -> Option<ArgList> {
        child(&self.syntax)
    }
}

impl ArgList {
    /// The arguments in order.
    pub fn args(&self) -> impl Iterator<Item = Expr> + use<> {
        children(&self.syntax)
    }
}

impl StructValue {
    /// The structure's name.
    pub fn name(&self) -> Option<Name> {
        name(&self.syntax)
    }

    /// The fields in order.
    pub fn fields(&self) -> impl Iterator<Item = StructValueField> + use<> {
        children(&self.syntax)
    }
}

impl StructValueField {
    /// The field's name.
    pub fn name(&self) -> Option<Name> {
        name(&self.syntax)
    }

    /// Its value.
    pub fn value(&self) -> Option<Expr> {
        child(&self.syntax)
    }
}
