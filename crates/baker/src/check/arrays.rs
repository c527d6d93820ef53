//! Arrays: fields of structs, and variables. To the rest of the compiler each element is a field of its own, so tables,
//! engines and the control plane have no arrays. An index known at run time only is an expression of its own.

use super::code::CodeChecker;
use super::expr::Typed;
use super::hir::{self, Elements, Expr, ExprKind, Stmt, StmtKind, StructId, Type};
use super::names::{Checker, Scope};
use super::types::unsigned;
use crate::diag::Diagnostic;
use crate::ir::LayoutId;
use crate::source::{FileId, Span};
use crate::syntax::ast;

/// Elements of an array at most: an index that is known at run time only is compared with about as many.
const MAX_ELEMENTS: u32 = 64;

/// What is out of range where a length is.
const LENGTH: &str = "the length of an array";

/// The fields that are the elements of an array.
pub(super) fn element_names(name: &str, count: u32) -> impl Iterator<Item = String> + use<'_> {
    (0..count).map(move |index| format!("{name}[{index}]"))
}

impl Checker<'_> {
    /// How many elements an array has; `None`, reported, where that can't be.
    pub(super) fn array_length(&mut self, file: FileId, scope: Scope, length: &ast::ArrayLength) -> Option<u32> {
        self.size(file, scope, &length.value()?, LENGTH, (1, MAX_ELEMENTS))
    }

    /// The struct that a variable is which is an array.
    fn array_type(&mut self, element: Type, count: u32) -> Type {
        let name = format!("{}[{count}]", self.describe(element));
        let known = self.hir.structs.iter().position(|known| known.layout == NO_LAYOUT && known.name == name);
        let id = known.unwrap_or_else(|| {
            let fields = element_names("", count).map(|name| (name, element)).collect();
            let arrays = vec![(String::new(), Elements { first: 0, count })];
            self.hir.structs.push(hir::Struct { name, fields, arrays, layout: NO_LAYOUT });
            self.hir.structs.len() - 1
        });
        Type::Struct(StructId(id as u32))
    }
}

/// A variable that is an array lies in no table.
const NO_LAYOUT: LayoutId = LayoutId(u32::MAX);

impl CodeChecker<'_, '_> {
    /// The type of a variable that is an array of these elements.
    pub(super) fn array_variable(&mut self, element: Type, length: &ast::ArrayLength, at: Span) -> Type {
        let count = length.value().and_then(|length| {
            let (value, at) = (self.evaluate(&length)?, self.span(&length));
            self.checker.size_of(at, value, LENGTH, (1, MAX_ELEMENTS))
        });
        match (element, count) {
            (Type::Int { .. } | Type::Bool | Type::Reason, Some(count)) => self.checker.array_type(element, count),
            (Type::Error, _) | (_, None) => Type::Error,
            _ => {
                let described = self.checker.describe(element);
                self.error(
                    Diagnostic::new("bad-field-type", at, format!("an element of an array can't be `{described}`"))
                        .label("not an integer type or bool"),
                );
                Type::Error
            }
        }
    }

    /// Whether `base[index]` is an element of an array, and no entry of a table.
    pub(super) fn is_element(&mut self, base: &ast::Expr) -> bool {
        match base {
            ast::Expr::Name(name) => name.name().and_then(|name| self.local(name.text())).is_some_and(|local| {
                matches!(self.local_type(local), Type::Struct(id) if self.arrays_of(id).iter().any(|a| a.0.is_empty()))
            }),
            ast::Expr::Member(member) if member.is_arrow() => true,
            ast::Expr::Member(member) => {
                let (Some(base), Some(field)) = (member.base(), member.field()) else { return false };
                self.qualified(&base, &field).is_none()
            }
            ast::Expr::Paren(paren) => paren.inner().is_some_and(|inner| self.is_element(&inner)),
            _ => false,
        }
    }

    fn arrays_of(&self, id: StructId) -> &[(String, Elements)] {
        &self.checker.hir.structs[id.0 as usize].arrays
    }

    /// `array[index]`.
    pub(super) fn element(&mut self, index: &ast::IndexExpr, span: Span) -> Typed {
        let (Some(array), Some(index)) = (index.base(), index.index()) else { return Typed::error(span) };
        let Some((holder, elements, ty)) = self.array(&array) else {
            self.expr(&index, None);
            return Typed::error(span);
        };
        let index = self.expr(&index, None);
        let Some(index) = self.coerce(index, unsigned(32)) else { return Typed::error(span) };
        let ExprKind::Const(constant) = index.kind else {
            return Typed::new(ExprKind::Element(Box::new(holder), elements, Box::new(index)), ty, span);
        };
        if constant >= u128::from(elements.count) {
            let title = format!("the array has {} elements", elements.count);
            self.error(Diagnostic::new("beyond-array", index.span, title).label("beyond its end"));
            return Typed::error(span);
        }
        let field = elements.first + constant as u32;
        let kind = match holder.ty {
            Type::Struct(_) => ExprKind::StructField(Box::new(holder), field),
            _ => ExprKind::EntryField(Box::new(holder), field),
        };
        Typed::new(kind, ty, span)
    }

    /// An array: the struct or pointer that it is a field of, its elements, and their type.
    fn array(&mut self, expr: &ast::Expr) -> Option<(Expr, Elements, Type)> {
        let (holder, name) = match expr {
            ast::Expr::Paren(paren) => return self.array(&paren.inner()?),
            ast::Expr::Member(member) => {
                let (base, name) = (member.base()?, member.field()?);
                let holder = self.expr(&base, None);
                let holder = if member.is_arrow() { self.as_pointer(holder) } else { holder };
                (holder.expr, Some((base, name)))
            }
            _ => (self.expr(expr, None).expr, None),
        };
        let ty = match holder.ty {
            Type::Pointer(layout) => self.checker.pointee(layout),
            ty => ty,
        };
        let text = name.as_ref().map_or("", |(_, name)| name.text());
        let found = match ty {
            Type::Error => return None,
            Type::Struct(id) => {
                let known = self.arrays_of(id).iter().find(|array| array.0 == text).map(|array| (id, array.1));
                let names = self.field_names(id);
                if let (None, Some((_, name))) = (known, &name)
                    && !names.iter().any(|known| known == text)
                {
                    let of = self.checker.hir.structs[id.0 as usize].name.clone();
                    self.no_field(name, &of, names);
                    return None;
                }
                known
            }
            Type::Packet(_) => None,
            _ => {
                if let Some((base, name)) = &name {
                    self.not_a_struct(base, name, holder.ty, self.span(expr));
                    return None;
                }
                None
            }
        };
        let Some((id, elements)) = found else {
            let error = Diagnostic::new("not-a-table", self.span(expr), "only a table or an array has entries");
            self.error(error.label("neither a table nor an array"));
            return None;
        };
        let ty = self.checker.hir.structs[id.0 as usize].fields[elements.first as usize].1;
        Some((holder, elements, ty))
    }

    /// The names of a struct's fields as they are declared.
    pub(super) fn field_names(&self, id: StructId) -> Vec<String> {
        let fields = self.checker.hir.structs[id.0 as usize].fields.iter();
        let mut names: Vec<String> = fields.filter_map(|(name, _)| Some(name.split('[').next()?.to_string())).collect();
        names.dedup();
        names
    }

    /// Whether a field is an array, reported where it stands without an index.
    pub(super) fn array_without_index(&mut self, id: StructId, field: &ast::Name) -> bool {
        let found = self.arrays_of(id).iter().find(|array| array.0 == field.text()).map(|array| array.1.count);
        if let Some(count) = found {
            let error = Diagnostic::new("array-as-a-value", field.span(self.file), "an array as a whole has no value");
            let hint = format!("name an element: `{0}[0]` to `{0}[{1}]`", field.text(), count - 1);
            self.error(error.label("has elements").hint(hint));
        }
        found.is_some()
    }

    /// Stores in an element whose index is known at run time only.
    pub(super) fn store_element(
        &mut self,
        holder: Expr,
        (elements, index): (Elements, Expr),
        value: Expr,
    ) -> Option<StmtKind> {
        match (&holder.kind, holder.ty) {
            (_, Type::Pointer(_)) | (ExprKind::Local(_) | ExprKind::ArrayValue(..), Type::Struct(_)) => {
                Some(StmtKind::SetElement(holder, elements, index, value))
            }
            _ => self.not_assignable(holder.span),
        }
    }

    /// Where a target is named twice, indices that call functions are computed once, before.
    pub(super) fn compute_indices(&mut self, target: &mut Expr, span: Span) {
        match &mut target.kind {
            ExprKind::ArrayValue(_, index) => self.compute_index(index, span),
            ExprKind::StructField(base, _) => self.compute_indices(base, span),
            ExprKind::Element(base, _, index) => {
                self.compute_indices(base, span);
                self.compute_index(index, span);
            }
            _ => {}
        }
    }

    fn compute_index(&mut self, index: &mut Expr, span: Span) {
        if !contains_call(index) {
            return;
        }
        let ty = index.ty;
        let local = hir::LocalId(self.locals.len() as u32);
        self.locals.push(hir::Local { name: "index".into(), ty, span: index.span });
        let held = Expr { kind: ExprKind::Local(local), ty, span: index.span };
        let computed = std::mem::replace(index, held);
        self.before.push(Stmt { kind: StmtKind::Let(local, Some(computed)), span });
    }
}

fn contains_call(expr: &Expr) -> bool {
    let mut found = matches!(expr.kind, ExprKind::Call(..));
    expr.for_each_operand(|operand| found |= contains_call(operand));
    found
}
