//! What names stand for, in each scope, and the state of a check. `declare` gives them their meanings.

use std::collections::HashMap;

use super::facts::Facts;
use super::hints::{article, import_of, nearest};
use super::hir::{self, FunctionId, StructId, Type};
use super::instances::{Instance, Own};
use super::load::File;
use super::params::{Generic, GenericInstance, TableArg};
use crate::builtin;
use crate::diag::{Diagnostic, Label};
use crate::ir::{
    BUILTIN_DROP_REASONS, ChannelId, CounterId, DropId, DropReason, ExternId, LayoutId, Pin, PpfId, ProtocolId,
    QueueId, TableId,
};
use crate::source::{FileId, Sources, Span};
use crate::syntax::ast::{self, AstNode};

/// Index into [`Checker::modules`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct ModuleId(pub usize);

/// Where a name is looked up, after the locals: in a module and then globally, or only globally.
pub(super) type Scope = Option<ModuleId>;

/// What a name stands for.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Symbol {
    /// Index into [`Checker::consts`].
    Const(usize),
    /// Index into [`Checker::aliases`].
    Alias(usize),
    Struct(StructId),
    Protocol(ProtocolId),
    Module(ModuleId),
    /// A module with parameters: index into [`Checker::generics`].
    Generic(usize),
    /// Index into [`Checker::instances`].
    Instance(usize),
    /// What was declared wrongly, and reported.
    Reported,
    Function(FunctionId),
    Extern(ExternId),
    Reason(DropId),
    Table(TableId),
    /// A table that is a meter.
    Meter(TableId),
    /// A table that holds packets.
    Hold(TableId),
    /// Groups of members.
    Group(TableId),
    Queue(QueueId),
    Counter(CounterId),
    /// Index into the module's ports.
    Port(usize),
    Ppf(PpfId),
    Timer,
}

impl Symbol {
    pub(super) fn what(self) -> &'static str {
        match self {
            Symbol::Const(_) => "a constant",
            Symbol::Alias(_) | Symbol::Struct(_) => "a type",
            Symbol::Protocol(_) => "a protocol",
            Symbol::Module(_) => "a module",
            Symbol::Generic(_) => "a module with parameters",
            Symbol::Instance(_) | Symbol::Reported => "an instance of a module",
            Symbol::Function(_) => "a function",
            Symbol::Extern(_) => "a function of a controller",
            Symbol::Reason(_) => "a drop reason",
            Symbol::Table(_) => "a table",
            Symbol::Meter(_) => "a meter",
            Symbol::Hold(_) => "a hold table",
            Symbol::Group(_) => "a group",
            Symbol::Queue(_) => "a queue",
            Symbol::Counter(_) => "a counter",
            Symbol::Port(_) => "a channel",
            Symbol::Ppf(_) => "a PPF",
            Symbol::Timer => "a timer",
        }
    }
}

pub(super) type Names = HashMap<String, (Symbol, Span)>;

/// A constant, or an enumerator.
pub(super) struct ConstDef {
    pub file: FileId,
    pub scope: Scope,
    pub name: String,
    pub span: Span,
    pub ty: Option<ast::TypeRef>,
    pub value: Option<ast::Expr>,
    /// Where the value stands, if elsewhere: that of a module's parameter is an argument.
    pub value_at: Option<FileId>,
    /// For an enumerator without a value: the one before it.
    pub after: Option<usize>,
    pub enumerator: bool,
    pub state: Lazy<super::consts::Constant>,
}

impl ConstDef {
    /// A constant that is declared where its value stands, and not computed yet.
    pub fn new(
        (file, scope): (FileId, Scope),
        (name, span): (String, Span),
        ty: Option<ast::TypeRef>,
        value: Option<ast::Expr>,
    ) -> ConstDef {
        let (value_at, after, state) = (None, None, Lazy::Waiting);
        ConstDef { file, scope, name, span, ty, value, value_at, after, enumerator: false, state }
    }
}

/// A type alias, or an enum.
pub(super) struct AliasDef {
    pub file: FileId,
    pub scope: Scope,
    pub name: String,
    pub span: Span,
    pub target: Option<ast::TypeRef>,
    /// Enumerators, for an enum.
    pub enumerators: Vec<usize>,
    pub is_enum: bool,
    pub state: Lazy<Type>,
}

/// Something that is computed when it is first asked for.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Lazy<T> {
    Waiting,
    Computing,
    Done(T),
}

/// A module.
pub(super) struct Module {
    pub name: String,
    pub span: Span,
    /// The file that it stands in; a copy for an instance of a module with parameters.
    pub file: FileId,
    pub ast: ast::Module,
    /// What it is an instance of, where that has parameters.
    pub generic: Option<GenericInstance>,
    pub names: Names,
    pub ports: Vec<Port>,
    /// Its own items.
    pub own: Own,
    /// Indices into [`Checker::instances`]; where there is none, it is its own single instance.
    pub instances: Vec<usize>,
    /// Whether a PPF takes packets from a channel that could not be found.
    pub unknown_reader: bool,
}

/// An end of channels in a module.
pub(super) struct Port {
    pub name: String,
    pub span: Span,
    pub kind: ast::PortKind,
    pub protocol: Option<ProtocolId>,
    /// The channel that packets put here go into; none for `in`.
    pub channel: Option<ChannelId>,
    /// The PPF that takes packets from here; none for `out`.
    pub reader: Option<PpfId>,
}

/// A PPF before its body is checked.
pub(super) struct PpfDef {
    pub file: FileId,
    pub module: ModuleId,
    pub name: String,
    pub span: Span,
    pub param: Option<ast::Param>,
    pub from: Option<ast::Name>,
    pub pin: Option<Pin>,
    /// Body and the file that it stands in, with the parameter of an out-of-body definition.
    pub body: Option<(FileId, ast::Block, Option<ast::Param>)>,
    pub protocol: Option<ProtocolId>,
}

/// What a function of a controller takes and returns.
pub(super) struct ExternDef {
    pub file: FileId,
    pub module: ModuleId,
    pub name: String,
    pub span: Span,
    pub ast: ast::Extern,
    pub result: Type,
    pub params: Vec<hir::Local>,
}

/// A timer before its body is checked.
pub(super) struct TimerDef {
    pub file: FileId,
    pub module: ModuleId,
    pub name: String,
    pub span: Span,
    pub ast: ast::Timer,
}

/// A function before its body is checked.
pub(super) struct FunctionDef {
    pub file: FileId,
    pub scope: Scope,
    pub name: String,
    pub span: Span,
    pub ast: ast::Function,
    pub result: Type,
    pub params: Vec<hir::Local>,
    /// The next function of this name in this scope: it takes packets of another protocol.
    pub next: Option<FunctionId>,
}

/// Checks one program.
pub(super) struct Checker<'a> {
    pub files: &'a [File],
    pub sources: Sources,
    pub errors: Vec<Diagnostic>,
    /// Mistakes that were not reported because their cause was.
    pub repeated: usize,
    pub globals: Names,
    pub modules: Vec<Module>,
    pub instances: Vec<Instance>,
    pub generics: Vec<Generic>,
    /// Tables that stand for parameters of modules, until they are bound.
    pub table_args: Vec<TableArg>,
    pub consts: Vec<ConstDef>,
    pub aliases: Vec<AliasDef>,
    pub ppfs: Vec<PpfDef>,
    pub functions: Vec<FunctionDef>,
    pub externs: Vec<ExternDef>,
    pub timers: Vec<TimerDef>,
    /// Tables whose entries have deadlines, with the timer that runs then.
    pub deadlines: Vec<(TableId, usize)>,
    pub structs: Vec<(FileId, Scope, ast::Struct)>,
    pub protocols: Vec<(FileId, ast::Protocol)>,
    /// Sizes of protocols that were asked for before all are laid out.
    pub sizes: HashMap<ProtocolId, Lazy<Option<u32>>>,
    pub runnable: bool,
    /// How deep the expression or type lies that is being worked out, through the constants and types that need it.
    pub depth: u32,
    /// A name stands for two things: what is meant where it is used can't be told.
    pub ambiguous: bool,
    /// Layouts with the time of the last look-up, and what they are without it.
    pub aging: HashMap<LayoutId, LayoutId>,
    /// What is found out about names and values, where a tool asks for it.
    pub facts: Option<Facts>,
    pub hir: hir::Program,
}

/// Where a PPF is kept that has the name of a channel: no name has a blank.
pub(super) fn beside(name: &str) -> String {
    format!("ppf {name}")
}

/// Further places that an error about a missing name shows at most.
const MAX_LABELS: usize = 3;

impl<'a> Checker<'a> {
    pub(super) fn new(root: &str, files: &'a [File], sources: Sources) -> Self {
        let file_name = root.rsplit('/').next().unwrap_or(root);
        Checker {
            files,
            sources,
            errors: Vec::new(),
            repeated: 0,
            globals: Names::new(),
            modules: Vec::new(),
            instances: Vec::new(),
            generics: Vec::new(),
            table_args: Vec::new(),
            consts: Vec::new(),
            aliases: Vec::new(),
            ppfs: Vec::new(),
            functions: Vec::new(),
            externs: Vec::new(),
            timers: Vec::new(),
            deadlines: Vec::new(),
            structs: Vec::new(),
            protocols: Vec::new(),
            sizes: HashMap::new(),
            runnable: false,
            depth: 0,
            ambiguous: false,
            aging: HashMap::new(),
            facts: None,
            hir: hir::Program {
                name: file_name.strip_suffix(".baker").unwrap_or(file_name).to_string(),
                protocols: Vec::new(),
                demux: Vec::new(),
                length: Vec::new(),
                counts: Vec::new(),
                metadata: Vec::new(),
                metadata_size: 0,
                structs: Vec::new(),
                layouts: Vec::new(),
                tables: Vec::new(),
                counters: Vec::new(),
                reasons: BUILTIN_DROP_REASONS.iter().map(|r| DropReason { name: r.0.to_string() }).collect(),
                controllers: Vec::new(),
                externs: Vec::new(),
                channels: Vec::new(),
                ppfs: Vec::new(),
                timers: Vec::new(),
                queues: Vec::new(),
                functions: Vec::new(),
                copies: 0,
                headroom: 0,
                encap: 0,
                front: 0,
            },
        }
    }

    /// Runs all checks but for those that need the finished program.
    pub(super) fn run(&mut self) {
        for (index, (name, _)) in BUILTIN_DROP_REASONS.iter().enumerate() {
            let nowhere = Span::new(FileId(0), 0, 0);
            self.globals.insert(name.to_string(), (Symbol::Reason(DropId(index as u32)), nowhere));
        }
        self.declare();
        let goes_on = self.facts.is_some();
        if self.names_clash() && !goes_on {
            return;
        }
        self.aliases_and_consts();
        self.check_structs();
        self.check_protocols();
        self.check_metadata();
        self.check_modules();
        self.check_instances();
        self.check_groups();
        if (self.bind_table_args() || self.names_clash()) && !goes_on {
            return;
        }
        self.check_into();
        self.check_signatures();
        self.check_demux();
        self.check_wiring();
        self.check_bodies();
    }

    /// The program, and all errors.
    pub(super) fn finish(self) -> (Option<hir::Program>, Vec<Diagnostic>, Sources) {
        let complete = self.errors.is_empty();
        (complete.then_some(self.hir), self.errors, self.sources)
    }

    pub(super) fn error(&mut self, diagnostic: Diagnostic) {
        self.errors.push(diagnostic);
    }

    /// Grows with every mistake.
    pub(super) fn mistakes(&self) -> usize {
        self.errors.len() + self.repeated
    }

    /// Gives a name its meaning, or reports that it has one.
    pub(super) fn bind(&mut self, file: FileId, scope: Scope, name: &ast::Name, symbol: Symbol) {
        let span = name.span(file);
        let text = name.text().to_string();
        if let Some(reserved) = self.reserved(scope, &text, symbol, span) {
            return self.error(reserved);
        }
        let names = match scope {
            Some(module) => &mut self.modules[module.0].names,
            None => &mut self.globals,
        };
        // No program names a PPF where a channel could be meant.
        if let Some(&(other, at)) = names.get(&text)
            && let (Symbol::Ppf(_), Symbol::Port(_)) | (Symbol::Port(_), Symbol::Ppf(_)) = (symbol, other)
            && !names.contains_key(&beside(&text))
        {
            let (ppf, port) = match symbol {
                Symbol::Ppf(_) => ((symbol, span), (other, at)),
                _ => ((other, at), (symbol, span)),
            };
            names.insert(beside(&text), ppf);
            names.insert(text, port);
            return;
        }
        if let Some(&(other, first)) = names.get(&text) {
            let error = Diagnostic::new("duplicate-name", span, format!("`{text}` is declared twice"));
            let same = other.what() == symbol.what();
            self.ambiguous |= !same;
            let [again, before] = [symbol, other].map(|symbol| match same {
                true => String::new(),
                false => format!(", as {}", symbol.what()),
            });
            return self.error(
                error.label(format!("declared again here{again}")).also(first, format!("first declared here{before}")),
            );
        }
        names.insert(text, (symbol, span));
    }

    /// What a name stands for in a scope. PPFs and timers are not named in code, so they hide nothing.
    pub(super) fn resolve(&self, scope: Scope, name: &str) -> Option<Symbol> {
        self.resolve_entry(scope, name).map(|(symbol, _)| symbol)
    }

    /// The same, with the place where it is declared.
    pub(super) fn resolve_entry(&self, scope: Scope, name: &str) -> Option<(Symbol, Span)> {
        let known = |names: &Names| names.get(name).copied();
        let own = scope.and_then(|module| known(&self.modules[module.0].names));
        match own {
            Some((Symbol::Ppf(_) | Symbol::Timer, _)) => known(&self.globals).or(own),
            _ => own.or_else(|| known(&self.globals)),
        }
    }

    /// The protocol of a name: one that is declared, or that stands for a module's parameter.
    pub(super) fn protocol_named(&self, scope: Scope, name: &str) -> Option<ProtocolId> {
        match self.resolve(scope, name) {
            Some(Symbol::Protocol(id)) => Some(id),
            _ => None,
        }
    }

    /// Reports a name that stands for nothing, or for something else than is wanted.
    pub(super) fn unknown(&mut self, file: FileId, name: &ast::Name, wanted: &str, found: Option<Symbol>) {
        let span = name.span(file);
        let error = match found {
            Some(Symbol::Reported) => return self.repeated += 1,
            Some(symbol) => Diagnostic::new(
                "wrong-kind-of-name",
                span,
                format!("`{}` is {}, not {} {wanted}", name.text(), symbol.what(), article(wanted)),
            )
            .label(format!("a {wanted} is needed here")),
            None => {
                let error = Diagnostic::new("unknown-name", span, format!("there is no {wanted} `{}`", name.text()))
                    .label("not declared");
                let c_name =
                    |p| name.text().strip_prefix(p).is_some_and(|r: &str| r.starts_with(|c: char| c.is_ascii_digit()));
                let similar = || Some(format!("did you mean `{}`?", self.similar(name.text(), wanted)?));
                match import_of(name.text()).or_else(similar) {
                    Some(hint) => error.hint(hint),
                    None if wanted == "type" && ["u", "i", "uint", "int"].into_iter().any(c_name) => {
                        error.hint("integer types are u1 to u128 and i1 to i128")
                    }
                    None => error,
                }
            }
        };
        self.report_once(error);
    }

    /// Reports what other places may repeat, such as the use of a name that is not declared: they have the same cause,
    /// so they join the first report.
    pub(super) fn report_once(&mut self, error: Diagnostic) {
        let known = self.errors.iter_mut().find(|e| e.code == error.code && e.title == error.title);
        let Some(known) = known else { return self.errors.push(error) };
        self.repeated += 1;
        let here = error.primary.span;
        let shown = known.primary.span == here || known.secondary.iter().any(|label| label.span == here);
        if !shown && known.secondary.len() < MAX_LABELS {
            known.secondary.push(Label { span: here, text: "and here".into() });
        }
    }

    /// A name that differs from this one by a letter or two and stands for what is wanted.
    pub(super) fn similar(&self, name: &str, wanted: &str) -> Option<String> {
        let fits = |symbol: Symbol| match wanted {
            "type" => matches!(symbol, Symbol::Alias(_) | Symbol::Struct(_)),
            "struct" => matches!(symbol, Symbol::Struct(_)),
            "protocol" => matches!(symbol, Symbol::Protocol(_)),
            "module" => matches!(symbol, Symbol::Module(_) | Symbol::Generic(_)),
            "channel" => matches!(symbol, Symbol::Port(_)),
            "function" => matches!(symbol, Symbol::Function(_) | Symbol::Extern(_)),
            _ => true,
        };
        let own: Vec<&str> = match wanted {
            "type" => vec!["bool", "void", "int", "u8", "u16", "u32", "u64"],
            "function" => builtin::FUNCTIONS.iter().map(|function| function.name).collect(),
            _ => Vec::new(),
        };
        let all = self.globals.iter().chain(self.modules.iter().flat_map(|m| m.names.iter()));
        let declared = all.filter(|(_, (symbol, _))| fits(*symbol)).map(|(name, _)| name.as_str());
        nearest(name, declared.chain(own))
    }

    pub(super) fn span<N: AstNode>(&self, file: FileId, node: &N) -> Span {
        ast::node_span(node.syntax(), file)
    }
}
