//! Declares the items of all files and of each module.

use super::hir::{FunctionId, StructId, Type};
use super::instances::Own;
use super::names::{
    AliasDef, Checker, ConstDef, ExternDef, FunctionDef, Lazy, Module, ModuleId, Names, PpfDef, Scope, Symbol,
    TimerDef, beside,
};
use crate::diag::Diagnostic;
use crate::ir::{DropId, DropReason, ExternId, PpfId, ProtocolId};
use crate::source::{FileId, Span};
use crate::syntax::ast;

impl Checker<'_> {
    /// Declares all names.
    pub(super) fn declare(&mut self) {
        let files = self.files;
        for file in files {
            for item in file.tree.items() {
                self.declare_item(file.id, &item);
            }
        }
        self.declare_instances();
        self.declare_uninstantiated();
        for file in files {
            for item in file.tree.items() {
                if let ast::Item::OutOfBody(item) = item {
                    self.out_of_body(file.id, &item);
                }
            }
        }
    }

    fn declare_item(&mut self, file: FileId, item: &ast::Item) {
        match item {
            ast::Item::Const(item) => self.declare_const(file, None, item),
            ast::Item::Alias(item) => self.declare_alias(file, None, item),
            ast::Item::Enum(item) => self.declare_enum(file, None, item),
            ast::Item::Struct(item) => self.declare_struct(file, None, item),
            ast::Item::Reasons(item) => self.declare_reasons(file, None, item),
            ast::Item::Function(item) => self.declare_function(file, None, item),
            ast::Item::Protocol(item) => {
                self.declare_name((file, None), item.name(), |this, _, _| {
                    this.protocols.push((file, item.clone()));
                    Symbol::Protocol(ProtocolId(this.protocols.len() as u32 - 1))
                });
            }
            ast::Item::Module(item) if item.has_params() => self.declare_generic(file, item),
            ast::Item::Module(item) => {
                let Some(name) = item.name() else { return };
                let module = self.declare_module(file, item, name.text(), name.span(file));
                self.bind(file, None, &name, Symbol::Module(module));
                self.declare_module_items(module);
            }
            ast::Item::Import(_) | ast::Item::Metadata(_) | ast::Item::OutOfBody(_) | ast::Item::Program(_) => {}
        }
    }

    /// Declares a module of this name, without what stands in it.
    pub(super) fn declare_module(&mut self, file: FileId, item: &ast::Module, name: &str, span: Span) -> ModuleId {
        let id = ModuleId(self.modules.len());
        self.modules.push(Module {
            name: name.to_string(),
            span,
            file,
            ast: item.clone(),
            generic: None,
            names: Names::new(),
            ports: Vec::new(),
            own: Own::default(),
            instances: Vec::new(),
            unknown_reader: false,
        });
        id
    }

    /// Declares what stands in a module.
    pub(super) fn declare_module_items(&mut self, id: ModuleId) {
        let (file, item) = (self.modules[id.0].file, self.modules[id.0].ast.clone());
        let scope = Some(id);
        let (ppfs, functions) = (self.ppfs.len() as u32, self.functions.len() as u32);
        let (externs, timers) = (self.externs.len() as u32, self.timers.len() as u32);
        for item in item.items() {
            match item {
                ast::ModuleItem::Const(item) => self.declare_const(file, scope, &item),
                ast::ModuleItem::Alias(item) => self.declare_alias(file, scope, &item),
                ast::ModuleItem::Enum(item) => self.declare_enum(file, scope, &item),
                ast::ModuleItem::Struct(item) => self.declare_struct(file, scope, &item),
                ast::ModuleItem::Reasons(item) => self.declare_reasons(file, scope, &item),
                ast::ModuleItem::Function(item) => self.declare_function(file, scope, &item),
                ast::ModuleItem::Ppf(item) => {
                    self.declare_name((file, scope), item.name(), |this, name, span| {
                        let (param, from, pin) = (item.param(), item.from(), this.pin(file, &item));
                        let body = item.body().map(|body| (file, body, None));
                        this.ppfs.push(PpfDef { file, module: id, name, span, param, from, pin, body, protocol: None });
                        Symbol::Ppf(PpfId(this.ppfs.len() as u32 - 1))
                    });
                }
                ast::ModuleItem::Extern(item) => {
                    self.declare_name((file, scope), item.name(), |this, name, span| {
                        let (result, params) = (Type::Error, Vec::new());
                        this.externs.push(ExternDef { file, module: id, name, span, ast: item, result, params });
                        Symbol::Extern(ExternId(this.externs.len() as u32 - 1))
                    });
                }
                ast::ModuleItem::Timer(item) => {
                    self.declare_name((file, scope), item.name(), |this, name, span| {
                        this.timers.push(TimerDef { file, module: id, name, span, ast: item });
                        Symbol::Timer
                    });
                }
                // Ports, tables, counters and meters need types and constants: see `items`.
                ast::ModuleItem::Port(_)
                | ast::ModuleItem::Table(_)
                | ast::ModuleItem::Counter(_)
                | ast::ModuleItem::Meter(_)
                | ast::ModuleItem::Queue(_) => {}
            }
        }
        let own = &mut self.modules[id.0].own;
        own.ppfs = ppfs..self.ppfs.len() as u32;
        own.functions = functions..self.functions.len() as u32;
        own.externs = externs..self.externs.len() as u32;
        own.timers = timers..self.timers.len() as u32;
    }

    /// Declares a name for what `add` adds.
    fn declare_name(
        &mut self,
        (file, scope): (FileId, Scope),
        name: Option<ast::Name>,
        add: impl FnOnce(&mut Self, String, Span) -> Symbol,
    ) {
        let Some(name) = name else { return };
        let symbol = add(self, name.text().to_string(), name.span(file));
        self.bind(file, scope, &name, symbol);
    }

    fn declare_const(&mut self, file: FileId, scope: Scope, item: &ast::Const) {
        self.declare_name((file, scope), item.name(), |this, name, span| {
            this.add_const(ConstDef::new((file, scope), (name, span), item.ty(), item.value()))
        });
    }

    fn add_const(&mut self, def: ConstDef) -> Symbol {
        self.consts.push(def);
        Symbol::Const(self.consts.len() - 1)
    }

    fn declare_alias(&mut self, file: FileId, scope: Scope, item: &ast::Alias) {
        self.declare_name((file, scope), item.name(), |this, name, span| {
            let (target, state) = (item.ty(), Lazy::Waiting);
            this.add_alias(AliasDef { file, scope, name, span, target, enumerators: Vec::new(), is_enum: false, state })
        });
    }

    fn add_alias(&mut self, def: AliasDef) -> Symbol {
        self.aliases.push(def);
        Symbol::Alias(self.aliases.len() - 1)
    }

    fn declare_enum(&mut self, file: FileId, scope: Scope, item: &ast::Enum) {
        let mut enumerators = Vec::new();
        for enumerator in item.enumerators() {
            self.declare_name((file, scope), enumerator.name(), |this, name, span| {
                let after = enumerators.last().copied();
                enumerators.push(this.consts.len());
                let own = ConstDef::new((file, scope), (name, span), item.ty(), enumerator.value());
                this.add_const(ConstDef { after, enumerator: true, ..own })
            });
        }
        self.declare_name((file, scope), item.name(), |this, name, span| {
            let (target, state) = (item.ty(), Lazy::Waiting);
            this.add_alias(AliasDef { file, scope, name, span, target, enumerators, is_enum: true, state })
        });
    }

    fn declare_struct(&mut self, file: FileId, scope: Scope, item: &ast::Struct) {
        self.declare_name((file, scope), item.name(), |this, _, _| {
            this.structs.push((file, scope, item.clone()));
            Symbol::Struct(StructId(this.structs.len() as u32 - 1))
        });
    }

    /// Reasons have one name space: declaring one again, in another module too, names the same reason.
    fn declare_reasons(&mut self, file: FileId, _scope: Scope, item: &ast::Reasons) {
        for name in item.names() {
            if let Some((Symbol::Reason(_), _)) = self.globals.get(name.text()) {
                continue;
            }
            let id = DropId(self.hir.reasons.len() as u32);
            let reason = DropReason { name: name.text().to_string() };
            if let Some(other) = self.hir.reasons.iter().find(|other| other.value() == reason.value()) {
                let title = format!("`{}` has the same value as `{}`", reason.name, other.name);
                self.error(
                    Diagnostic::new("reason-value", name.span(file), title)
                        .label("a drop reason's value is a hash of its name")
                        .hint("choose another name"),
                );
            }
            self.hir.reasons.push(reason);
            self.bind(file, None, &name, Symbol::Reason(id));
        }
    }

    fn declare_function(&mut self, file: FileId, scope: Scope, item: &ast::Function) {
        let Some(name) = item.name() else { return };
        let id = FunctionId(self.functions.len() as u32);
        let overloads = self.overloads(scope, name.text(), item);
        self.functions.push(FunctionDef {
            file,
            scope,
            name: name.text().to_string(),
            span: name.span(file),
            ast: item.clone(),
            result: Type::Error,
            params: Vec::new(),
            next: None,
        });
        match overloads {
            Some(last) => self.functions[last.0 as usize].next = Some(id),
            None => self.bind(file, scope, &name, Symbol::Function(id)),
        }
    }

    /// `void M.P(…) { … }` and `M.P.ppf(…) { … }`: the body of a PPF that its module declares.
    fn out_of_body(&mut self, file: FileId, item: &ast::OutOfBody) {
        let Some(path) = item.path() else { return };
        let (Some(module), Some(name), Some(body)) = (path.module(), path.ppf(), item.body()) else { return };
        self.meant(file, None, &module);
        let modules = match self.globals.get(module.text()) {
            Some((Symbol::Module(id), _)) => vec![*id],
            Some((Symbol::Generic(generic), _)) => self.modules_of(*generic),
            other => {
                let found = other.map(|(symbol, _)| *symbol);
                return self.unknown(file, &module, "module", found);
            }
        };
        for id in modules {
            let names = &self.modules[id.0].names;
            let found = names.get(&beside(name.text())).or_else(|| names.get(name.text())).copied();
            if let Some((_, declared)) = found {
                self.note(name.span(file), declared);
            }
            let ppf = match found {
                Some((Symbol::Ppf(id), _)) => id,
                _ => {
                    return self.error(
                        Diagnostic::new(
                            "unknown-ppf",
                            name.span(file),
                            format!("the module `{}` declares no PPF `{}`", module.text(), name.text()),
                        )
                        .label("not declared")
                        .also(self.modules[id.0].span, "the module")
                        .hint(format!("declare it in the module: `ppf {}(…) from CHANNEL;`", name.text())),
                    );
                }
            };
            let file = self.file_in(id, file);
            let declared = &mut self.ppfs[ppf.0 as usize];
            if declared.body.is_some() {
                let first = declared.span;
                return self.error(
                    Diagnostic::new("duplicate-body", name.span(file), format!("`{}` has two bodies", name.text()))
                        .label("the second body")
                        .also(first, "declared here"),
                );
            }
            declared.body = Some((file, body.clone(), item.param()));
        }
    }
}
