//! Functions that controllers have: what they take and return.

use super::hir::{Local, Type};
use super::names::Checker;
use crate::diag::Diagnostic;
use crate::ir::Extern;
use crate::source::Span;

impl Checker<'_> {
    pub(super) fn extern_signature(&mut self, index: usize) {
        let def = &self.externs[index];
        let (file, module, item, span) = (def.file, def.module, def.ast.clone(), def.span);
        let name = self.full_name(module, &self.externs[index].name);
        let scope = Some(module);
        let result = match item.ty().map(|ty| (self.type_of(file, scope, &ty, false), ty)) {
            Some((found @ (Type::Void | Type::Error), _)) => found,
            Some((found, ty)) => self.extern_scalar(found, self.span(file, &ty), "a function of a controller returns"),
            None => Type::Error,
        };
        let mut params = Vec::new();
        for param in item.params() {
            let (Some(ty), Some(name)) = (param.ty(), param.name()) else { continue };
            let found = self.type_of(file, scope, &ty, param.star().is_some());
            let ty = self.extern_scalar(found, self.span(file, &param), "a function of a controller takes");
            params.push(Local { name: name.text().to_string(), ty, span: name.span(file) });
        }
        if params.len() > Extern::MAX_PARAMS {
            let title = format!("a function of a controller takes {} numbers at most", Extern::MAX_PARAMS);
            self.error(Diagnostic::new("too-many-parameters", span, title).label(format!("takes {}", params.len())));
        }
        let width = |ty: Type| match ty {
            Type::Int { width, .. } => width,
            _ => 1,
        };
        self.hir.externs.push(Extern {
            name,
            params: params.iter().map(|param| width(param.ty)).collect(),
            result: (!matches!(result, Type::Void)).then(|| width(result)),
            span: Some(span),
        });
        (self.externs[index].result, self.externs[index].params) = (result, params);
    }

    /// A number or bool, which is all that goes to a controller and comes from it.
    fn extern_scalar(&mut self, found: Type, span: Span, what: &str) -> Type {
        if matches!(found, Type::Int { .. } | Type::Bool | Type::Error) {
            return found;
        }
        self.error(
            Diagnostic::new("bad-extern-type", span, format!("{what} numbers, bools and enums"))
                .label("none of these")
                .hint("packets go to a controller by a channel, and tables are shared with it"),
        );
        Type::Error
    }
}
