//! `switch`: each value stands in one arm only, and no arm runs into the next.

use std::collections::HashMap;

use super::code::CodeChecker;
use super::hir::{Arm, ExprKind, Stmt, StmtKind, Type};
use crate::diag::Diagnostic;
use crate::source::Span;
use crate::syntax::ast;

impl CodeChecker<'_, '_> {
    pub(super) fn switch(&mut self, switch: &ast::SwitchStmt) -> Option<StmtKind> {
        let value = self.expr(&switch.value()?, None);
        let ty = self.switched_type(&value);
        let mut seen: HashMap<u128, Span> = HashMap::new();
        let (mut arms, mut other, mut default) = (Vec::new(), Vec::new(), None);
        self.switches += 1;
        for arm in switch.arms() {
            let mut values = Vec::new();
            let mut is_default = false;
            for label in arm.labels() {
                let span = self.span(&label);
                if label.is_default() {
                    is_default = true;
                    if let Some(first) = default.replace(span) {
                        self.error(
                            Diagnostic::new("duplicate-case", span, "this `switch` has two defaults")
                                .label("the second one")
                                .also(first, "the first one"),
                        );
                    }
                }
                for value in label.values() {
                    values.extend(self.label(&value, ty, &mut seen));
                }
            }
            let body = self.switch_arm(&arm);
            // What `default` shares an arm with needs no comparison.
            if is_default {
                other = body;
            } else if !values.is_empty() {
                arms.push(Arm { values, body });
            }
        }
        self.switches -= 1;
        let ty = ty?;
        Some(StmtKind::Switch(self.coerce(value, ty)?, arms, other))
    }

    /// The type that the labels must have.
    fn switched_type(&mut self, value: &super::expr::Typed) -> Option<Type> {
        match value.expr.ty {
            Type::Error => None,
            Type::Int { .. } if value.lit.is_none() => Some(value.expr.ty),
            _ => {
                self.error(
                    Diagnostic::new("bad-switch", value.expr.span, "a `switch` needs a number with a type")
                        .label("not one")
                        .hint("`if` tells truth values and pointers apart"),
                );
                None
            }
        }
    }

    fn label(&mut self, label: &ast::Expr, ty: Option<Type>, seen: &mut HashMap<u128, Span>) -> Option<u128> {
        let label = self.expr(label, None);
        let span = label.expr.span;
        let label = self.coerce(label, ty?)?;
        let ExprKind::Const(value) = label.kind else {
            self.error(
                Diagnostic::new("not-constant", span, "a label is a constant")
                    .label("known only when a packet comes")
                    .hint("`if` compares with values that change"),
            );
            return None;
        };
        if let Some(first) = seen.insert(value, span) {
            self.error(
                Diagnostic::new("duplicate-case", span, "this value has two labels")
                    .label("would never come here")
                    .also(first, "is handled here"),
            );
            return None;
        }
        Some(value)
    }

    fn switch_arm(&mut self, arm: &ast::SwitchArm) -> Vec<Stmt> {
        self.scopes.push(HashMap::new());
        let mut statements = Vec::new();
        for statement in arm.stmts() {
            self.statement(&statement, &mut statements);
        }
        self.scopes.pop();
        statements
    }
}
