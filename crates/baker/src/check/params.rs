//! Modules with parameters: each instance is a module of its own, in which a protocol, a type, a constant or a table
//! stands for each parameter.
//!
//! ```text
//! module hops(protocol ip) {
//!     in ip input;
//!     ppf check(ip_packet_t *pkt) from input { if (hops_of(pkt) == 0) { packet_drop(pkt, expired); return; } … }
//! }
//! program { hops(ipv4) hops4; hops(ipv6) hops6; … }
//! ```
//!
//! The module's text is checked once for each instance, as a copy of its file, so every error tells of which instance
//! it speaks. What differs between protocols is said by functions of one name that take packets of one of them each.

use super::code::CodeChecker;
use super::hir::{FunctionId, Type};
use super::instances::MAX_INSTANCES;
use super::names::{AliasDef, Checker, ConstDef, FunctionDef, Lazy, ModuleId, Scope, Symbol};
use super::types::{PACKET_SUFFIXES, builtin};
use crate::diag::Diagnostic;
use crate::ir::ProtocolId;
use crate::source::{FileId, Span};
use crate::syntax::ast::{self, ModuleParamKind};

/// A module with parameters.
pub(super) struct Generic {
    pub file: FileId,
    pub name: String,
    pub span: Span,
    pub ast: ast::Module,
}

/// What a module is an instance of.
pub(super) struct GenericInstance {
    /// Index into [`Checker::generics`].
    pub of: usize,
    /// How errors call it.
    pub shown: String,
    /// Files as they are in this instance: the file, its copy.
    pub copies: Vec<(FileId, FileId)>,
    /// Parameters that are types, and the types as they were written.
    pub types: Vec<(String, String)>,
}

/// A table that stands for a parameter.
pub(super) struct TableArg {
    module: ModuleId,
    param: ast::Name,
    file: FileId,
    arg: ast::Expr,
}

impl Checker<'_> {
    pub(super) fn declare_generic(&mut self, file: FileId, item: &ast::Module) {
        let Some(name) = item.name() else { return };
        let span = name.span(file);
        self.bind(file, None, &name, Symbol::Generic(self.generics.len()));
        self.generics.push(Generic { file, name: name.text().to_string(), span, ast: item.clone() });
    }

    /// Declares the instances of a module with parameters.
    pub(super) fn generic_instances(&mut self, file: FileId, generic: usize, item: &ast::Instances) {
        let Generic { name: module, span: declared, ast, .. } = &self.generics[generic];
        let (module, declared, ast) = (module.clone(), *declared, ast.clone());
        let params: Vec<ast::ModuleParam> = ast.params().collect();
        let args: Vec<ast::Expr> = item.args().into_iter().flat_map(|args| args.args()).collect();
        for name in item.names() {
            let mistakes = self.mistakes();
            if params.len() != args.len() {
                let s = if params.len() == 1 { "" } else { "s" };
                let title = format!("the module `{module}` takes {} argument{s}", params.len());
                let error = Diagnostic::new("wrong-arguments", self.span(file, item), title)
                    .label(format!("{} given", args.len()))
                    .also(declared, "declared here");
                self.report_once(error);
            }
            if self.modules.iter().filter(|module| module.generic.is_some()).count() >= MAX_INSTANCES {
                let error = Diagnostic::new("too-many-instances", name.span(file), "too many instances");
                self.report_once(error.label(format!("more than {MAX_INSTANCES} of modules with parameters")));
            }
            params.iter().zip(&args).for_each(|(param, arg)| self.check_arg(param, file, arg));
            if self.mistakes() != mistakes {
                self.bind(file, None, &name, Symbol::Reported);
                continue;
            }
            self.generic_instance(file, generic, &name, &params, &args);
        }
    }

    fn generic_instance(
        &mut self,
        file: FileId,
        of: usize,
        name: &ast::Name,
        params: &[ast::ModuleParam],
        args: &[ast::Expr],
    ) {
        use ast::AstNode;
        let mistakes = self.mistakes();
        let id = ModuleId(self.modules.len());
        self.bind(file, None, name, Symbol::Module(id));
        if self.mistakes() != mistakes {
            return;
        }
        let Generic { file: module_file, name: module, ast, .. } = &self.generics[of];
        let (module_file, ast) = (*module_file, ast.clone());
        let written: Vec<String> = args.iter().map(|arg| arg.syntax().text().to_string().trim().to_string()).collect();
        let shown = format!("{module}({}) {}", written.join(", "), name.text());
        let copy = self.sources.copy(module_file, shown.clone());
        self.declare_module(copy, &ast, name.text(), name.span(file));
        let copies = vec![(module_file, copy)];
        self.modules[id.0].generic = Some(GenericInstance { of, shown, copies, types: Vec::new() });
        for (param, arg) in params.iter().zip(args) {
            self.bind_param(id, copy, param, file, arg);
        }
        self.declare_module_items(id);
    }

    /// Whether an argument can stand for a parameter, as far as that is known before types are; reports it if not.
    fn check_arg(&mut self, param: &ast::ModuleParam, file: FileId, arg: &ast::Expr) {
        let what = match param.kind() {
            Some(ModuleParamKind::Protocol) => "protocol",
            Some(ModuleParamKind::Type) => "type",
            _ => return,
        };
        let ast::Expr::Name(name) = arg else {
            let error = Diagnostic::new("bad-argument", self.span(file, arg), format!("this parameter is a {what}"))
                .label(format!("not the name of a {what}"));
            return self.report_once(error);
        };
        let Some(name) = name.name() else { return };
        match self.meant(file, None, &name) {
            Some(Symbol::Protocol(_)) if what == "protocol" => {}
            Some(Symbol::Alias(_) | Symbol::Struct(_)) if what == "type" => {}
            None if what == "type" && !matches!(builtin(name.text()), None | Some(Type::Void)) => {}
            found => self.unknown(file, &name, what, found),
        }
    }

    /// Lets an argument stand for a parameter in a module.
    fn bind_param(&mut self, id: ModuleId, copy: FileId, param: &ast::ModuleParam, file: FileId, arg: &ast::Expr) {
        let Some((kind, name)) = param.kind().zip(param.name()) else { return };
        let (scope, span) = (Some(id), name.span(copy));
        let named = match arg {
            ast::Expr::Name(arg) => arg.name().map(|arg| arg.text().to_string()).unwrap_or_default(),
            _ => String::new(),
        };
        let symbol = match kind {
            ModuleParamKind::Protocol => self.resolve(None, &named),
            ModuleParamKind::Type => {
                let types = &mut self.modules[id.0].generic.as_mut().expect("of an instance").types;
                types.push((name.text().to_string(), named.clone()));
                match builtin(&named) {
                    Some(ty) => {
                        self.aliases.push(AliasDef {
                            file: copy,
                            scope,
                            name: name.text().to_string(),
                            span,
                            target: None,
                            enumerators: Vec::new(),
                            is_enum: false,
                            state: Lazy::Done(ty),
                        });
                        Some(Symbol::Alias(self.aliases.len() - 1))
                    }
                    None => self.resolve(None, &named),
                }
            }
            ModuleParamKind::Const => {
                let named = (name.text().to_string(), span);
                let own = ConstDef::new((copy, scope), named, param.ty(), Some(arg.clone()));
                self.consts.push(ConstDef { value_at: Some(file), ..own });
                Some(Symbol::Const(self.consts.len() - 1))
            }
            // Tables are declared later, when all types are known.
            ModuleParamKind::Table => {
                return self.table_args.push(TableArg { module: id, param: name, file, arg: arg.clone() });
            }
        };
        if let Some(symbol) = symbol {
            self.bind(copy, scope, &name, symbol);
        }
    }

    /// Lets tables stand for parameters; one may do so through the parameter of another module. Returns whether one is
    /// wrong: all further errors would come of that.
    pub(super) fn bind_table_args(&mut self) -> bool {
        let mistakes = self.mistakes();
        let mut open = std::mem::take(&mut self.table_args);
        loop {
            let before = open.len();
            let params: Vec<(ModuleId, String)> =
                open.iter().map(|arg| (arg.module, arg.param.text().to_string())).collect();
            open.retain(|arg| {
                let waits = self.named_param(&arg.arg).is_some_and(|named| params.contains(&named));
                if !waits {
                    self.bind_table_arg(arg);
                }
                waits
            });
            if open.len() == before {
                break;
            }
        }
        for TableArg { file, arg, .. } in open {
            let error = Diagnostic::new("table-cycle", self.span(file, &arg), "this table stands for itself");
            self.report_once(error.label("leads back to here, through parameters alone"));
        }
        self.mistakes() != mistakes
    }

    /// The module and the name in it that an argument `module.name` names.
    fn named_param(&self, arg: &ast::Expr) -> Option<(ModuleId, String)> {
        let ast::Expr::Member(member) = arg else { return None };
        let Some(ast::Expr::Name(module)) = member.base() else { return None };
        match self.resolve(None, module.name()?.text()) {
            Some(Symbol::Module(id)) => Some((id, member.field()?.text().to_string())),
            _ => None,
        }
    }

    fn bind_table_arg(&mut self, table: &TableArg) {
        let TableArg { module, param, file, arg } = table;
        let mistakes = self.mistakes();
        let found = CodeChecker::constant(self, *file, None).named(arg);
        if let Some(symbol @ Symbol::Table(_)) = found {
            let copy = self.modules[module.0].file;
            self.bind(copy, Some(*module), param, symbol);
        } else if self.mistakes() == mistakes {
            let error = Diagnostic::new("bad-argument", self.span(*file, arg), "this parameter is a table")
                .label("not a table")
                .hint("name it with its module: `MODULE.TABLE`");
            self.report_once(error);
        }
    }

    /// The instances of a module with parameters.
    pub(super) fn modules_of(&self, generic: usize) -> Vec<ModuleId> {
        let is_one = |id: &usize| self.modules[*id].generic.as_ref().is_some_and(|instance| instance.of == generic);
        (0..self.modules.len()).filter(is_one).map(ModuleId).collect()
    }

    /// A file as it is in a module: a copy, in an instance of a module with parameters.
    pub(super) fn file_in(&mut self, module: ModuleId, file: FileId) -> FileId {
        let Some(instance) = &mut self.modules[module.0].generic else { return file };
        if let Some((_, copy)) = instance.copies.iter().find(|(of, _)| *of == file) {
            return *copy;
        }
        let copy = self.sources.copy(file, instance.shown.clone());
        instance.copies.push((file, copy));
        copy
    }

    /// The name of a type as it was written: in place of a parameter, the argument's. Tables show it.
    pub(super) fn written_name(&self, scope: Scope, name: &str) -> String {
        let instance = scope.and_then(|module| self.modules[module.0].generic.as_ref());
        let argument = instance.and_then(|instance| instance.types.iter().find(|(param, _)| param == name));
        argument.map_or(name, |(_, argument)| argument).to_string()
    }

    /// How many items the instances of modules with parameters have together; `None` where that is more than `most`,
    /// which is reported.
    pub(super) fn generic_items(&mut self, most: usize) -> Option<usize> {
        let mut items = 0;
        for module in self.modules.iter().filter(|module| module.generic.is_some()) {
            items += module.own.count();
            if items > most {
                let error = Diagnostic::new("too-many-instances", module.span, "too many instances")
                    .label(format!("more than {most} items of instances"));
                self.error(error);
                return None;
            }
        }
        Some(items)
    }

    /// The last function of this name in a scope, where all of them take a packet first, as this one does. They differ
    /// in the protocol of that packet, which is known later.
    pub(super) fn overloads(&self, scope: Scope, name: &str, item: &ast::Function) -> Option<FunctionId> {
        let names = match scope {
            Some(module) => &self.modules[module.0].names,
            None => &self.globals,
        };
        let Some((Symbol::Function(first), _)) = names.get(name) else { return None };
        let mut last = *first;
        while let Some(next) = self.functions[last.0 as usize].next {
            last = next;
        }
        (takes_packet(item) && takes_packet(&self.functions[last.0 as usize].ast)).then_some(last)
    }

    /// Reports functions of one name that take packets of one protocol.
    pub(super) fn check_overloads(&mut self) {
        for index in 0..self.functions.len() {
            let mut next = self.functions[index].next;
            while let Some(id) = next {
                let [one, other] = [index, id.0 as usize].map(|index| &self.functions[index]);
                next = other.next;
                if let Some(protocol) = one.packet()
                    && Some(protocol) == other.packet()
                {
                    let name = &self.hir.protocols[protocol.0 as usize].name;
                    let title = format!("`{}` is declared twice for packets of `{name}`", one.name);
                    let error = Diagnostic::new("duplicate-name", other.span, title)
                        .label("declared again here")
                        .also(one.span, "first declared here");
                    self.error(error);
                }
            }
        }
    }
}

impl FunctionDef {
    /// The protocol of the packet that it takes first.
    pub(super) fn packet(&self) -> Option<ProtocolId> {
        match self.params.first()?.ty {
            Type::Packet(protocol) => Some(protocol),
            _ => None,
        }
    }
}

/// Whether a function takes a packet first.
fn takes_packet(item: &ast::Function) -> bool {
    let Some(param) = item.params().next() else { return false };
    let name = param.ty().and_then(|ty| ty.name());
    name.is_some_and(|name| PACKET_SUFFIXES.iter().any(|suffix| name.text().ends_with(suffix)))
}
