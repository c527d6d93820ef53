//! Types: what a type's name stands for, how it is shown, how a value of it lies in a table.

use super::consts::MAX_CHAIN;
use super::hints::{import_of, nearest};
use super::hir::{StructId, Type};
use super::names::{Checker, Lazy, Scope, Symbol};
use crate::diag::Diagnostic;
use crate::ir::{DropReason, Layout, LayoutField, LayoutId, storage_align, storage_size};
use crate::source::{FileId, Span};
use crate::syntax::ast;

/// The type that a name of the language stands for: `bool`, `void`, `int`, `u1` to `u128`, `i1` to `i128`.
pub(super) fn builtin(name: &str) -> Option<Type> {
    let int = |digits: &str, signed| {
        let width: u32 = digits.parse().ok()?;
        let plain = !digits.starts_with('0') && digits.bytes().all(|b| b.is_ascii_digit());
        (plain && (1..=128).contains(&width)).then_some(Type::Int { width, signed })
    };
    match name {
        "bool" => Some(Type::Bool),
        "void" => Some(Type::Void),
        DropReason::TYPE => Some(Type::Reason),
        "int" => Some(Type::Int { width: 32, signed: true }),
        "port_t" => Some(Type::Int { width: 8, signed: false }),
        _ => match (name.strip_prefix('u'), name.strip_prefix('i')) {
            (Some(digits), _) => int(digits, false),
            (_, Some(digits)) => int(digits, true),
            _ => None,
        },
    }
}

/// What follows a protocol's name in the type of its packet handles.
pub(super) const PACKET_SUFFIXES: [&str; 2] = ["_packet_t", "_pkt_t"];

/// An unsigned type of this many bits.
pub(super) fn unsigned(width: u32) -> Type {
    Type::Int { width, signed: false }
}

impl Checker<'_> {
    /// A type as the user writes it.
    pub(super) fn describe(&self, ty: Type) -> String {
        match ty {
            Type::Void => "void".into(),
            Type::Bool => "bool".into(),
            Type::Reason => DropReason::TYPE.into(),
            Type::Int { width, signed } => format!("{}{width}", if signed { 'i' } else { 'u' }),
            Type::Struct(id) => self.hir.structs.get(id.0 as usize).map_or("struct".into(), |s| s.name.clone()),
            Type::Packet(id) => format!("{}_packet_t *", self.hir.protocols[id.0 as usize].name),
            Type::Pointer(id) => format!("{} *", self.hir.layouts[id.0 as usize].name),
            Type::Loaded { width, signed } => format!("{}{width} *", if signed { 'i' } else { 'u' }),
            Type::Null => "null".into(),
            Type::Error => "?".into(),
        }
    }

    /// The type that a written type stands for.
    pub(super) fn type_of(&mut self, file: FileId, scope: Scope, ty: &ast::TypeRef, star: bool) -> Type {
        let Some(name) = ty.name() else { return Type::Error };
        let text = name.text();
        let protocol = PACKET_SUFFIXES.iter().find_map(|suffix| text.strip_suffix(suffix));
        if let Some(protocol) = protocol {
            if let Some((_, declared)) = self.resolve_entry(scope, protocol) {
                self.note(name.span(file), declared);
            }
            let Some(id) = self.protocol_named(scope, protocol) else {
                let title = format!("there is no protocol `{protocol}`");
                let error = Diagnostic::new("unknown-protocol", name.span(file), title).label("not declared");
                let protocols = self.globals.iter().filter(|(_, known)| matches!(known.0, Symbol::Protocol(_)));
                let near = nearest(protocol, protocols.map(|(name, _)| name.as_str()));
                let near = near.map(|near| format!("did you mean `{near}_packet_t`?"));
                let other = || "import the file that declares it, such as `import \"net/ipv4\";`".into();
                self.report_once(error.hint(import_of(protocol).or(near).unwrap_or_else(other)));
                return Type::Error;
            };
            if !star {
                self.error(
                    Diagnostic::new("handle-without-star", name.span(file), "a packet is known by its handle")
                        .label("this is the packet itself")
                        .hint(format!("write `{text} *`")),
                );
                return Type::Error;
            }
            return Type::Packet(id);
        }
        let ty = self.named_type(file, scope, &name);
        match (star, ty) {
            (false, ty) => ty,
            (true, Type::Error) => Type::Error,
            (true, Type::Void | Type::Packet(_)) => {
                self.error(
                    Diagnostic::new("bad-pointer", name.span(file), "there is no pointer to this type")
                        .label("a pointer is to the value of a table's entry"),
                );
                Type::Error
            }
            (true, ty) => {
                let written = self.written_name(scope, text);
                Type::Pointer(self.layout(&written, ty))
            }
        }
    }

    /// The type that a name stands for.
    pub(super) fn named_type(&mut self, file: FileId, scope: Scope, name: &ast::Name) -> Type {
        if let Some(ty) = builtin(name.text()) {
            return ty;
        }
        match self.meant(file, scope, name) {
            Some(Symbol::Alias(index)) => self.alias(index),
            Some(Symbol::Struct(id)) => Type::Struct(id),
            found => {
                self.unknown(file, name, "type", found);
                Type::Error
            }
        }
    }

    /// The type that an alias or enum stands for.
    pub(super) fn alias(&mut self, index: usize) -> Type {
        match self.aliases[index].state {
            Lazy::Done(ty) => return ty,
            Lazy::Computing => {
                let (name, span) = (self.aliases[index].name.clone(), self.aliases[index].span);
                self.error(
                    Diagnostic::new("type-cycle", span, format!("the type `{name}` is made of itself"))
                        .label("leads back to here"),
                );
                self.aliases[index].state = Lazy::Done(Type::Error);
                return Type::Error;
            }
            Lazy::Waiting => {}
        }
        if self.depth >= MAX_CHAIN {
            self.too_deep(self.aliases[index].span);
            self.aliases[index].state = Lazy::Done(Type::Error);
            return Type::Error;
        }
        self.aliases[index].state = Lazy::Computing;
        self.depth += 1;
        let alias = &self.aliases[index];
        let (file, scope, is_enum, span) = (alias.file, alias.scope, alias.is_enum, alias.span);
        let ty = match alias.target.clone() {
            Some(target) => self.type_of(file, scope, &target, false),
            None if is_enum => unsigned(32),
            None => Type::Error,
        };
        self.depth -= 1;
        let ty = match ty {
            Type::Int { .. } | Type::Error => ty,
            Type::Bool | Type::Reason | Type::Struct(_) if !is_enum => ty,
            _ => {
                self.error(
                    Diagnostic::new("bad-type", span, "this can't be made of that type")
                        .label(format!("stands for `{}`", self.describe(ty)))
                        .hint(if is_enum {
                            "an enum is made of an integer type"
                        } else {
                            "name an integer, bool or struct type"
                        }),
                );
                Type::Error
            }
        };
        // A cycle may have been found meanwhile.
        if self.aliases[index].state == Lazy::Computing {
            self.aliases[index].state = Lazy::Done(ty);
        }
        ty
    }

    /// The layout of a type under the name it was written with.
    pub(super) fn layout(&mut self, name: &str, ty: Type) -> LayoutId {
        let layout = match ty {
            Type::Struct(id) => return self.hir.structs[id.0 as usize].layout,
            Type::Int { width, signed } => scalar(name, width, signed, self.value_names(name)),
            Type::Reason => scalar(DropReason::TYPE, DropReason::WIDTH, false, self.reason_names()),
            _ => scalar(name, 1, false, bool_names()),
        };
        self.intern(layout)
    }

    pub(super) fn intern(&mut self, layout: Layout) -> LayoutId {
        let known = self.hir.layouts.iter().position(|l| *l == layout);
        LayoutId(known.unwrap_or_else(|| {
            self.hir.layouts.push(layout);
            self.hir.layouts.len() - 1
        }) as u32)
    }

    /// The layout of a struct: C rules.
    pub(super) fn struct_layout(&mut self, name: &str, fields: &[(String, String, Type)]) -> LayoutId {
        let (mut end, mut align) = (0u32, 1);
        let mut laid = Vec::new();
        for (field, type_name, ty) in fields {
            let (width, signed) = match *ty {
                Type::Int { width, signed } => (width, signed),
                Type::Reason => (DropReason::WIDTH, false),
                _ => (1, false),
            };
            let offset = end.next_multiple_of(storage_align(width));
            (end, align) = (offset + storage_size(width), align.max(storage_align(width)));
            let (names, type_name) = match ty {
                Type::Reason => (self.reason_names(), DropReason::TYPE.to_string()),
                _ => (self.value_names(type_name), type_name.clone()),
            };
            laid.push(LayoutField { name: field.clone(), type_name, width, signed, names, offset });
        }
        let size = end.max(1).next_multiple_of(align);
        // Each struct has a layout of its own, even where another module has one just like it.
        self.hir.layouts.push(Layout { name: name.to_string(), fields: laid, size, align });
        LayoutId(self.hir.layouts.len() as u32 - 1)
    }

    /// The layout of values that age: with the time of the last look-up behind their fields.
    pub(super) fn aging_layout(&mut self, value: LayoutId) -> LayoutId {
        if let Some((&known, _)) = self.aging.iter().find(|(_, plain)| **plain == value) {
            return known;
        }
        let Layout { name, mut fields, size, align } = self.hir.layouts[value.0 as usize].clone();
        let offset = size.next_multiple_of(8);
        fields.push(LayoutField {
            name: "last_used".into(),
            type_name: "u64".into(),
            width: 64,
            signed: false,
            names: Vec::new(),
            offset,
        });
        let align = align.max(8);
        let aging = Layout { name, fields, size: (offset + 8).next_multiple_of(align), align };
        self.hir.layouts.push(aging);
        let id = LayoutId(self.hir.layouts.len() as u32 - 1);
        self.aging.insert(id, value);
        id
    }

    /// Whether a type's name, written outside of modules, stands for bool.
    pub(super) fn names_bool(&self, name: &str) -> bool {
        match self.resolve(None, name) {
            Some(Symbol::Alias(index)) => self.aliases[index].state == Lazy::Done(Type::Bool),
            _ => name == "bool",
        }
    }

    /// Whether two layouts hold the same kinds of values at the same places.
    pub(super) fn same_layout(&self, a: LayoutId, b: LayoutId) -> bool {
        let [a, b] = [a, b].map(|id| self.plain(id));
        let fields = |id: LayoutId| {
            let layout = &self.hir.layouts[id.0 as usize];
            layout.fields.iter().map(|f| (f.name.clone(), f.width, f.signed, f.is_reason())).collect::<Vec<_>>()
        };
        a == b || fields(a) == fields(b)
    }

    /// A layout without the time of the last look-up.
    fn plain(&self, layout: LayoutId) -> LayoutId {
        self.aging.get(&layout).copied().unwrap_or(layout)
    }

    /// The type of the value that a pointer leads to.
    pub(super) fn pointee(&self, layout: LayoutId) -> Type {
        let layout = self.plain(layout);
        let found = &self.hir.layouts[layout.0 as usize];
        match &found.fields[..] {
            [field] if field.name.is_empty() && field.width == 1 && field.names == bool_names() => Type::Bool,
            [field] if field.name.is_empty() && field.is_reason() => Type::Reason,
            [field] if field.name.is_empty() => Type::Int { width: field.width, signed: field.signed },
            _ => {
                let id = self.hir.structs.iter().position(|s| s.layout == layout);
                Type::Struct(StructId(id.expect("a layout of several fields belongs to a struct") as u32))
            }
        }
    }

    /// The names of all drop reasons, with their values.
    fn reason_names(&self) -> Vec<(String, u128)> {
        self.hir.reasons.iter().map(|reason| (reason.name.clone(), reason.value().into())).collect()
    }

    fn value_names(&mut self, name: &str) -> Vec<(String, u128)> {
        if name == "bool" {
            return bool_names();
        }
        let found = self.aliases.iter().find(|a| a.name == name && a.is_enum);
        let enumerators = found.map(|a| a.enumerators.clone()).unwrap_or_default();
        enumerators.into_iter().filter_map(|i| Some((self.consts[i].name.clone(), self.constant(i)?.bits()?))).collect()
    }

    /// Reports a value of the wrong type.
    pub(super) fn mismatch(&mut self, span: Span, wanted: Type, found: Type) {
        let (wanted, found) = (self.describe(wanted), self.describe(found));
        self.error(
            Diagnostic::new("type-mismatch", span, format!("this is `{found}`, but `{wanted}` is needed"))
                .label(format!("has type `{found}`")),
        );
    }
}

fn bool_names() -> Vec<(String, u128)> {
    vec![("false".into(), 0), ("true".into(), 1)]
}

fn scalar(name: &str, width: u32, signed: bool, names: Vec<(String, u128)>) -> Layout {
    let size = storage_size(width);
    let field = LayoutField { name: String::new(), type_name: name.to_string(), width, signed, names, offset: 0 };
    Layout { name: name.to_string(), fields: vec![field], size, align: storage_align(width) }
}
