//! `switch`: each value stands in one arm only, and no arm runs into the next.

use std::collections::{HashMap, HashSet};

use super::code::CodeChecker;
use super::consts::Constant;
use super::hir::{Arm, ExprKind, Stmt, StmtKind, Type};
use super::names::{AliasDef, Lazy, Symbol};
use crate::diag::Diagnostic;
use crate::ir::arith::mask;
use crate::number::Number;
use crate::source::Span;
use crate::syntax::ast;

/// Enumerators without a label that are named.
const NAMED: usize = 5;

/// The least of the numbers of so many bits that is not among these.
fn first_without(numbers: &HashSet<u128>, width: u32) -> Option<u128> {
    (0..=mask(width)).find(|number| !numbers.contains(number))
}

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
        let value = self.coerce(value, ty)?;
        if default.is_none()
            && let Type::Int { width, .. } = ty
        {
            let labels: HashSet<u128> = seen.keys().copied().collect();
            match first_without(&labels, width) {
                // Its labels are all that the number can be, so the last arm needs no comparison.
                None => other = arms.pop().map(|arm| arm.body).unwrap_or_default(),
                Some(first) => {
                    let which = self.unlabelled_values(switch, &labels, first, ty);
                    self.unlabelled.push((value.span, which));
                }
            }
        }
        Some(StmtKind::Switch(value, arms, other))
    }

    /// What a number is that has no label: by the names of an enum, where the labels are names of one.
    fn unlabelled_values(&self, switch: &ast::SwitchStmt, labels: &HashSet<u128>, first: u128, ty: Type) -> String {
        let Type::Int { width, signed } = ty else { unreachable!("a number is switched on") };
        let first = Number::of_bits(first, width, signed);
        let Some(named) = self.enum_of_labels(switch) else { return format!("another number, such as {first}") };
        let missing: Vec<_> = named.iter().filter(|(_, bits)| !labels.contains(bits)).collect();
        let named: HashSet<u128> = labels.iter().copied().chain(named.iter().map(|(_, bits)| *bits)).collect();
        let mut which: Vec<_> = missing.iter().take(NAMED).map(|(name, _)| format!("`{name}`")).collect();
        if missing.len() > NAMED {
            which.push(format!("{} others", missing.len() - NAMED));
        }
        if let Some(other) = first_without(&named, width) {
            which.push(format!("no enumerator, such as {}", Number::of_bits(other, width, signed)));
        }
        match which.pop() {
            Some(last) if which.is_empty() => last,
            Some(last) => format!("{} or {last}", which.join(", ")),
            None => format!("another number, such as {first}"),
        }
    }

    /// The enumerators of the enum of which all labels are names, with their values.
    fn enum_of_labels(&self, switch: &ast::SwitchStmt) -> Option<Vec<(String, u128)>> {
        let labels = switch.arms().flat_map(|arm| arm.labels().collect::<Vec<_>>());
        let labels = labels.flat_map(|label| label.values().collect::<Vec<_>>());
        let constant = |label: ast::Expr| match label {
            ast::Expr::Name(name) => match self.checker.resolve(self.scope, name.name()?.text()) {
                Some(Symbol::Const(index)) => Some(index),
                _ => None,
            },
            _ => None,
        };
        let labels: Vec<usize> = labels.map(constant).collect::<Option<_>>()?;
        let of = |known: &&AliasDef| !labels.is_empty() && labels.iter().all(|label| known.enumerators.contains(label));
        let found = self.checker.aliases.iter().find(of)?;
        let value = |index: &usize| {
            let known = &self.checker.consts[*index];
            match known.state {
                Lazy::Done(Constant::Typed(_, bits)) => Some((known.name.clone(), bits)),
                Lazy::Done(Constant::Untyped(value)) => Some((known.name.clone(), value.bits(128))),
                _ => None,
            }
        };
        found.enumerators.iter().map(value).collect()
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
