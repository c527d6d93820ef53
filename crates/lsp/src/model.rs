//! What is declared in a program, right or half typed: names of all its files and of its modules.
//!
//! What names in code stand for, and what expressions are, the checker says, also while something is wrong
//! ([`baker::check::examine`]). Here is what it speaks of: declarations by their places.

use std::cell::RefCell;
use std::collections::HashMap;

use baker::check::{Facts, File, Loaded, examine, load};
use baker::number::Number;
use baker::source::{FileId, Sources, Span};
use baker::syntax::ast::{self, AstNode, ModuleItem};
use baker::syntax::{SyntaxKind, SyntaxNode};

use crate::documents::{Documents, Imports};

/// Kinds of declared names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// `const`
    Const,
    /// `type`
    Alias,
    /// `enum`
    Enum,
    /// A value of an `enum`.
    Enumerator,
    /// `struct`
    Struct,
    /// `protocol`
    Protocol,
    /// `module`
    Module,
    /// An instance of a module.
    Instance,
    /// A function.
    Function,
    /// A function of a controller.
    Extern,
    /// A drop reason.
    Reason,
    /// A table.
    Table,
    /// A counter.
    Counter,
    /// A meter.
    Meter,
    /// A queue.
    Queue,
    /// A port or channel.
    Port,
    /// A PPF.
    Ppf,
    /// A timer.
    Timer,
    /// A parameter of a module.
    Parameter,
}

/// A declared name.
#[derive(Clone, Debug)]
pub struct Symbol {
    /// What it is.
    pub kind: Kind,
    /// The file that declares it.
    pub file: FileId,
    /// The module that declares it.
    pub module: Option<String>,
    /// The name where it is declared.
    pub name: ast::Name,
    /// The declaration.
    pub node: SyntaxNode,
}

/// A name with the module that declares it.
pub(crate) type ScopedName = (Option<String>, String);

/// A program's declarations.
#[derive(Debug)]
pub struct Model {
    /// The texts of its files. The document is file 0.
    pub sources: Sources,
    /// Its files.
    pub files: Vec<File>,
    /// The name of the file that each import led to, by importing file and path.
    pub imports: HashMap<(String, String), String>,
    /// The declared metadata.
    pub metadata: Vec<(FileId, ast::StructField)>,
    globals: HashMap<String, Symbol>,
    modules: HashMap<String, HashMap<String, Symbol>>,
    /// The module of each instance.
    instances: HashMap<String, String>,
    /// What stands for the parameters of a module, by instance in the order of the program.
    pub(crate) arguments: HashMap<String, Vec<Vec<String>>>,
    /// What the checker has found out.
    pub(crate) facts: Facts,
    /// Declared names by file and place.
    places: HashMap<(FileId, u32), Symbol>,
    /// Values of constants that were asked for, by module and name.
    pub(crate) values: RefCell<HashMap<ScopedName, Option<Number>>>,
}

impl Model {
    /// Whether a module declares groups.
    pub fn has_groups(&self) -> bool {
        let is_group = |symbol: &Symbol| {
            let kind = ast::Table::cast(symbol.node.clone()).and_then(|table| table.kind());
            kind.is_some_and(|kind| kind.kind() == SyntaxKind::GroupKw)
        };
        self.modules.values().flat_map(HashMap::values).any(is_group)
    }

    /// Reads the program whose root is an open document.
    pub fn new(name: &str, text: &str, documents: &Documents) -> Model {
        let loader = Imports::new(documents);
        let (Loaded { sources, files, .. }, facts) = examine(name, load(name, text, &loader));
        let mut model = Model {
            sources,
            files: Vec::new(),
            imports: loader.found(),
            metadata: Vec::new(),
            globals: HashMap::new(),
            modules: HashMap::new(),
            instances: HashMap::new(),
            arguments: HashMap::new(),
            facts,
            places: HashMap::new(),
            values: RefCell::default(),
        };
        for file in &files {
            for item in file.tree.items() {
                model.item(file.id, &item);
            }
        }
        model.files = files;
        model
    }

    /// The tree of the document.
    pub fn tree(&self) -> &ast::SourceFile {
        &self.files.iter().find(|f| f.id == FileId(0)).expect("the root file is always loaded").tree
    }

    /// What is declared at a place: the name's.
    pub fn declared(&self, at: Span) -> Option<&Symbol> {
        self.places.get(&(at.file, at.start))
    }

    /// The file of a tree.
    pub fn file_of(&self, node: &SyntaxNode) -> Option<FileId> {
        let root = node.ancestors().last()?;
        Some(self.files.iter().find(|file| file.tree.syntax() == &root)?.id)
    }

    /// What a name stands for in a module, or outside of modules.
    pub fn lookup(&self, module: Option<&str>, name: &str) -> Option<&Symbol> {
        let own = module.and_then(|module| self.modules.get(module)?.get(name));
        own.or_else(|| self.globals.get(name))
    }

    /// All that a module declares, also for an instance of it.
    pub fn members(&self, module: &str) -> impl Iterator<Item = &Symbol> {
        self.declared_in(module).into_iter().flat_map(HashMap::values)
    }

    fn declared_in(&self, module: &str) -> Option<&HashMap<String, Symbol>> {
        self.modules.get(self.instances.get(module).map_or(module, String::as_str))
    }

    /// The names that a module is known by: those of its instances, else its own.
    pub fn known_as<'a>(&'a self, module: &'a str) -> Vec<&'a str> {
        let instances = self.instances.iter().filter(|(_, of)| *of == module);
        let names: Vec<&str> = instances.map(|(name, _)| name.as_str()).collect();
        if names.is_empty() { vec![module] } else { names }
    }

    /// All that is declared outside of modules.
    pub fn globals(&self) -> impl Iterator<Item = &Symbol> {
        self.globals.values()
    }

    /// A protocol, not one that stands for a parameter.
    pub fn protocol(&self, name: &str) -> Option<&Symbol> {
        self.globals.get(name).filter(|s| s.kind == Kind::Protocol)
    }

    fn item(&mut self, file: FileId, item: &ast::Item) {
        use ast::Item;
        match item {
            Item::Const(item) => self.declare(Kind::Const, file, None, item.name(), item),
            Item::Alias(item) => self.declare(Kind::Alias, file, None, item.name(), item),
            Item::Enum(item) => self.enumeration(file, None, item),
            Item::Struct(item) => self.declare(Kind::Struct, file, None, item.name(), item),
            Item::Protocol(item) => self.declare(Kind::Protocol, file, None, item.name(), item),
            Item::Reasons(item) => self.reasons(file, item),
            Item::Function(item) => self.declare(Kind::Function, file, None, item.name(), item),
            Item::Metadata(item) => self.metadata.extend(item.fields().map(|field| (file, field))),
            Item::Module(item) => self.module(file, item),
            Item::Program(item) => {
                for item in item.instances() {
                    let args: Vec<String> =
                        item.args().iter().flat_map(|args| args.args()).map(|arg| text(&arg)).collect();
                    if let Some(module) = item.module().filter(|_| !args.is_empty()) {
                        let all = self.arguments.entry(module.text().to_string()).or_default();
                        all.extend(item.names().map(|_| args.clone()));
                    }
                    for name in item.names() {
                        if let Some(module) = item.module() {
                            self.instances.insert(name.text().to_string(), module.text().to_string());
                        }
                        self.declare(Kind::Instance, file, None, Some(name), &item);
                    }
                }
            }
            Item::Import(_) | Item::OutOfBody(_) => {}
        }
    }

    fn module(&mut self, file: FileId, item: &ast::Module) {
        self.declare(Kind::Module, file, None, item.name(), item);
        let Some(module) = item.name() else { return };
        self.modules.entry(module.text().to_string()).or_default();
        let scope = Some(module.text());
        item.params().for_each(|param| self.declare(Kind::Parameter, file, scope, param.name(), &param));
        for item in item.items() {
            match item {
                ModuleItem::Port(item) => {
                    item.names().for_each(|name| self.declare(Kind::Port, file, scope, Some(name), &item));
                }
                ModuleItem::Table(item) => self.declare(Kind::Table, file, scope, item.name(), &item),
                ModuleItem::Counter(item) => self.declare(Kind::Counter, file, scope, item.name(), &item),
                ModuleItem::Queue(item) => self.declare(Kind::Queue, file, scope, item.name(), &item),
                ModuleItem::Meter(item) => self.declare(Kind::Meter, file, scope, item.name(), &item),
                ModuleItem::Ppf(item) => self.declare(Kind::Ppf, file, scope, item.name(), &item),
                ModuleItem::Extern(item) => self.declare(Kind::Extern, file, scope, item.name(), &item),
                ModuleItem::Timer(item) => self.declare(Kind::Timer, file, scope, item.name(), &item),
                ModuleItem::Const(item) => self.declare(Kind::Const, file, scope, item.name(), &item),
                ModuleItem::Alias(item) => self.declare(Kind::Alias, file, scope, item.name(), &item),
                ModuleItem::Enum(item) => self.enumeration(file, scope, &item),
                ModuleItem::Struct(item) => self.declare(Kind::Struct, file, scope, item.name(), &item),
                ModuleItem::Reasons(item) => self.reasons(file, &item),
                ModuleItem::Function(item) => self.declare(Kind::Function, file, scope, item.name(), &item),
            }
        }
    }

    fn enumeration(&mut self, file: FileId, module: Option<&str>, item: &ast::Enum) {
        self.declare(Kind::Enum, file, module, item.name(), item);
        for enumerator in item.enumerators() {
            self.declare(Kind::Enumerator, file, module, enumerator.name(), &enumerator);
        }
    }

    /// Drop reasons have one name space.
    fn reasons(&mut self, file: FileId, item: &ast::Reasons) {
        item.names().for_each(|name| self.declare(Kind::Reason, file, None, Some(name), item));
    }

    /// The first declaration of a name counts.
    fn declare(
        &mut self,
        kind: Kind,
        file: FileId,
        module: Option<&str>,
        name: Option<ast::Name>,
        node: &impl AstNode,
    ) {
        let Some(name) = name else { return };
        let symbol = |name: ast::Name| Symbol {
            kind,
            file,
            module: module.map(str::to_owned),
            name,
            node: node.syntax().clone(),
        };
        self.places.insert((file, name.syntax().text_range().start().into()), symbol(name.clone()));
        let names = match module {
            Some(module) => self.modules.entry(module.to_string()).or_default(),
            None => &mut self.globals,
        };
        let text = name.text().to_string();
        match names.get(&text) {
            // A PPF may have the name of a channel, which is what code means.
            Some(first) if !(first.kind == Kind::Ppf && kind == Kind::Port) => {}
            _ => drop(names.insert(text, symbol(name))),
        }
    }
}

/// An expression as written.
fn text(expr: &ast::Expr) -> String {
    expr.syntax().text().to_string().trim().to_string()
}
