//! Statements.

use super::*;

nodes! {
    /// `{ … }`
    Block,
    /// `;`
    EmptyStmt,
    /// `type *NAME = value;`
    LetStmt,
    /// `target = value;`, also with a compound operator.
    AssignStmt,
    /// `target++;` or `target--;`
    IncDecStmt,
    /// `expr;`
    ExprStmt,
    /// `return value;`
    ReturnStmt,
    /// `break;`
    BreakStmt,
    /// `continue;`
    ContinueStmt,
    /// `if (condition) then else otherwise`
    IfStmt,
    /// `switch (value) { arms }`
    SwitchStmt,
    /// Labels, and what is done for their values.
    SwitchArm,
    /// `case a, b:` or `default:`
    CaseLabel,
    /// `for (init; condition; step) body`
    ForStmt,
    /// `critical (entry) { … }`
    CriticalStmt,
    /// The first part of a `for` header.
    ForInit,
    /// The second part of a `for` header.
    ForCondition,
    /// The third part of a `for` header.
    ForStep,
}

choice! {
    /// A statement.
    Stmt {
        /// `{ … }`
        Block(Block),
        /// `;`
        Empty(EmptyStmt),
        /// A declaration of a variable.
        Let(LetStmt),
        /// A constant of the block.
        Const(Const),
        /// An assignment.
        Assign(AssignStmt),
        /// `++` or `--`.
        IncDec(IncDecStmt),
        /// An expression for its effect.
        Expr(ExprStmt),
        /// `return`
        Return(ReturnStmt),
        /// `break`
        Break(BreakStmt),
        /// `continue`
        Continue(ContinueStmt),
        /// `if`
        If(IfStmt),
        /// `for`
        For(ForStmt),
        /// `switch`
        Switch(SwitchStmt),
        /// `critical`
        Critical(CriticalStmt),
    }
}

/// How an assignment computes the new value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum AssignOp {
    /// `=`
    Set,
    /// `+=` and its like: the target's old value is the left operand.
    Update(BinaryOp),
}

/// `++` or `--`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum IncDecOp {
    /// `++`
    Increment,
    /// `--`
    Decrement,
}

impl Block {
    /// Its statements in order.
    pub fn stmts(&self) -> impl Iterator<Item = Stmt> + use<> {
        children(&self.syntax)
    }

    /// The closing brace, where control leaves it.
    pub fn r_brace(&self) -> Option<SyntaxToken> {
        token(&self.syntax, SyntaxKind::RBrace)
    }
}

impl LetStmt {
    /// The variable's type.
    pub fn ty(&self) -> Option<TypeRef> {
        child(&self.syntax)
    }

    /// The `*` after the type.
    pub fn star(&self) -> Option<SyntaxToken> {
        token(&self.syntax, SyntaxKind::Star)
    }

    /// The variable's name.
    pub fn name(&self) -> Option<Name> {
        name(&self.syntax)
    }

    /// How many elements it has, where it is an array.
    pub fn length(&self) -> Option<ArrayLength> {
        child(&self.syntax)
    }

    /// The first value, if written.
    pub fn value(&self) -> Option<Expr> {
        child(&self.syntax)
    }
}

impl AssignOp {
    fn from_kind(kind: SyntaxKind) -> Option<AssignOp> {
        Some(AssignOp::Update(match kind {
            SyntaxKind::Eq => return Some(AssignOp::Set),
            SyntaxKind::PlusEq => BinaryOp::Add,
            SyntaxKind::MinusEq => BinaryOp::Sub,
            SyntaxKind::StarEq => BinaryOp::Mul,
            SyntaxKind::SlashEq => BinaryOp::Div,
            SyntaxKind::PercentEq => BinaryOp::Rem,
            SyntaxKind::AmpEq => BinaryOp::BitAnd,
            SyntaxKind::PipeEq => BinaryOp::BitOr,
            SyntaxKind::CaretEq => BinaryOp::BitXor,
            SyntaxKind::ShlEq => BinaryOp::Shl,
            SyntaxKind::ShrEq => BinaryOp::Shr,
            _ => return None,
        }))
    }
}

impl AssignStmt {
    /// What is written to.
    pub fn target(&self) -> Option<Expr> {
        child_before(&self.syntax, self.op_token()?.kind())
    }

    /// The operator's token.
    pub fn op_token(&self) -> Option<SyntaxToken> {
        tokens(&self.syntax).find(|t| AssignOp::from_kind(t.kind()).is_some())
    }

    /// The operator.
    pub fn op(&self) -> Option<AssignOp> {
        AssignOp::from_kind(self.op_token()?.kind())
    }

    /// The right-hand side.
    pub fn value(&self) -> Option<Expr> {
        child_after(&self.syntax, self.op_token()?.kind())
    }
}

impl IncDecStmt {
    /// What is changed.
    pub fn target(&self) -> Option<Expr> {
        child(&self.syntax)
    }

    /// `++` or `--`.
    pub fn op(&self) -> Option<IncDecOp> {
        tokens(&self.syntax).find_map(|t| match t.kind() {
            SyntaxKind::PlusPlus => Some(IncDecOp::Increment),
            SyntaxKind::MinusMinus => Some(IncDecOp::Decrement),
            _ => None,
        })
    }
}

impl ExprStmt {
    /// The expression.
    pub fn expr(&self) -> Option<Expr> {
        child(&self.syntax)
    }
}

impl ReturnStmt {
    /// The value returned, if any.
    pub fn value(&self) -> Option<Expr> {
        child(&self.syntax)
    }
}

impl IfStmt {
    /// The condition.
    pub fn condition(&self) -> Option<Expr> {
        child(&self.syntax)
    }

    /// What is done when it holds.
    pub fn then_branch(&self) -> Option<Stmt> {
        child_before(&self.syntax, SyntaxKind::ElseKw)
    }

    /// What is done when it does not hold.
    pub fn else_branch(&self) -> Option<Stmt> {
        child_after(&self.syntax, SyntaxKind::ElseKw)
    }
}

impl SwitchStmt {
    /// What is compared with the labels.
    pub fn value(&self) -> Option<Expr> {
        child(&self.syntax)
    }

    /// The arms in order.
    pub fn arms(&self) -> impl Iterator<Item = SwitchArm> + use<> {
        children(&self.syntax)
    }
}

impl SwitchArm {
    /// Its labels, at least one.
    pub fn labels(&self) -> impl Iterator<Item = CaseLabel> + use<> {
        children(&self.syntax)
    }

    /// Its statements in order.
    pub fn stmts(&self) -> impl Iterator<Item = Stmt> + use<> {
        children(&self.syntax)
    }
}

impl CaseLabel {
    /// The values of a `case`.
    pub fn values(&self) -> impl Iterator<Item = Expr> + use<> {
        children(&self.syntax)
    }

    /// Whether it is `default`.
    pub fn is_default(&self) -> bool {
        token(&self.syntax, SyntaxKind::DefaultKw).is_some()
    }
}

impl CriticalStmt {
    /// The pointer to the entry that is locked.
    pub fn entry(&self) -> Option<Expr> {
        child(&self.syntax)
    }

    /// What is done meanwhile.
    pub fn body(&self) -> Option<Block> {
        child(&self.syntax)
    }
}

impl ForStmt {
    /// What is done first: a [`Stmt::Let`], [`Stmt::Assign`], [`Stmt::IncDec`] or [`Stmt::Expr`].
    pub fn init(&self) -> Option<Stmt> {
        child(child::<ForInit>(&self.syntax)?.syntax())
    }

    /// What is tested before each round.
    pub fn condition(&self) -> Option<Expr> {
        child(child::<ForCondition>(&self.syntax)?.syntax())
    }

    /// What is done after each round: as `init`, but for a `Let`.
    pub fn step(&self) -> Option<Stmt> {
        child(child::<ForStep>(&self.syntax)?.syntax())
    }

    /// What is repeated.
    pub fn body(&self) -> Option<Stmt> {
        child(&self.syntax)
    }
}
