//! Which function a call means: one of several of a name, or one of another module.

use super::code::CodeChecker;
use super::expr::Typed;
use super::hir::FunctionId;
use super::names::Symbol;
use crate::diag::Diagnostic;
use crate::source::Span;
use crate::syntax::ast;

impl CodeChecker<'_, '_> {
    /// Of the functions of a name, the one for the packet that stands first among the arguments.
    pub(super) fn overload(
        &mut self,
        first: FunctionId,
        name: &ast::Name,
        args: &[ast::Expr],
        span: Span,
    ) -> Option<FunctionId> {
        let next = |id: &FunctionId| self.checker.functions[id.0 as usize].next;
        let all: Vec<FunctionId> = std::iter::successors(Some(first), next).collect();
        let ([_, _, ..], Some(packet)) = (&all[..], args.first()) else { return Some(first) };
        let (_, given) = self.handle(packet)?;
        let takes = |id: &FunctionId| self.checker.functions[id.0 as usize].packet();
        if let Some(found) = all.iter().find(|id| takes(id) == Some(given)) {
            return Some(*found);
        }
        let protocols = &self.checker.hir.protocols;
        let known: Vec<&str> = all.iter().filter_map(takes).map(|id| protocols[id.0 as usize].name.as_str()).collect();
        // What is wrong with one of the declarations is reported.
        if known.len() == all.len() {
            let title = format!("no `{}` takes packets of `{}`", name.text(), protocols[given.0 as usize].name);
            let error = Diagnostic::new("no-overload", span, title)
                .label("there is none for this protocol")
                .hint(format!("there are some for {}", known.join(", ")));
            self.error(error);
        }
        None
    }

    /// `module.function(…)`.
    pub(super) fn call_elsewhere(&mut self, call: &ast::CallExpr, callee: &ast::MemberExpr, span: Span) -> Typed {
        let Some((base, name)) = callee.base().zip(callee.field()) else { return Typed::error(span) };
        if self.constant {
            return self.not_constant(span);
        }
        let mistakes = self.checker.mistakes();
        let symbol = match self.qualified(&base, &name) {
            Some(Ok(symbol @ (Symbol::Function(_) | Symbol::Extern(_)))) => symbol,
            Some(found) => {
                if self.checker.mistakes() == mistakes {
                    match found {
                        Ok(symbol) => self.checker.unknown(self.file, &name, "function", Some(symbol)),
                        missing => drop(self.module_item(missing, &name, span)),
                    }
                }
                return Typed::error(span);
            }
            None => {
                let error = Diagnostic::new("bad-call", span, "only a function can be called");
                self.error(error.label("not the name of a function"));
                return Typed::error(span);
            }
        };
        if self.checker.mistakes() != mistakes {
            return Typed::error(span);
        }
        let args: Vec<ast::Expr> = call.args().collect();
        self.function_call(Some(symbol), &name, &args, span)
    }
}
