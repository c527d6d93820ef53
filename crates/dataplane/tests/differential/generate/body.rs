//! Bodies: what is in scope while one is written.

use super::Style;
use super::types::{Expr, Ty, Value};
use super::world::{Channel, Function, Kind, Param, Table, Target, World};
use crate::numbers::SplitMix64;

/// Most trips of loops inside each other, those of called functions included.
pub const MAX_TRIPS: usize = 48;
/// Statements that one PPF may become when all functions are inlined.
const MAX_SIZE: usize = 90;

/// A PPF or function under way.
pub struct Body<'w> {
    pub world: &'w World,
    pub n: &'w mut SplitMix64,
    /// Where names of tables and channels are looked up.
    pub module: Option<usize>,
    /// Packets may be put to PPFs after this one.
    pub source: usize,
    pub scope: Scope,
    pub out: String,
    /// Statements and expressions still to be written; below 0 only what is needed to end.
    pub fuel: isize,
    /// Statements that calls may still add.
    pub size_left: usize,
    pub copies_left: usize,
    /// How often what is written now may run: the trips of the loops around it.
    pub trips: usize,
    pub most_trips: usize,
    pub size: usize,
    pub copies: usize,
    /// For each loop and `switch` around: whether it is a loop, and the handles that are held at its head.
    pub exits: Vec<(bool, Vec<String>)>,
    /// In a function, what it returns.
    pub result: Option<Option<Value>>,
    /// Whether an entry is locked: nothing is looked up, changed or called then.
    pub locked: bool,
    /// A function that may be called while an entry is locked.
    pub calm: bool,
    names: usize,
}

/// What has a name. Blocks restore it.
#[derive(Clone, Default)]
pub struct Scope {
    pub variables: Vec<Variable>,
    pub pointers: Vec<Pointer>,
    /// Those that are still held. Lent ones come first.
    pub handles: Vec<Handle>,
}

#[derive(Clone)]
pub struct Variable {
    pub name: String,
    pub ty: Value,
    /// Not a loop's counter.
    pub settable: bool,
}

#[derive(Clone)]
pub struct Pointer {
    pub name: String,
    pub to: Value,
    /// Known not to be null.
    pub tested: bool,
}

#[derive(Clone)]
pub struct Handle {
    pub name: String,
    pub protocol: usize,
    pub lent: bool,
    /// The packet's own handle, where this one only looks into the packet. It counts as lent, too.
    pub looks_into: Option<String>,
}

/// The body of a PPF, without its head.
pub fn ppf(world: &World, n: &mut SplitMix64, index: usize) -> String {
    let ppf = &world.ppfs[index];
    let mut body = Body::new(world, n, Some(ppf.module));
    body.source = index;
    body.copies_left = ppf.copies;
    body.scope.handles.push(Handle { name: "pkt".into(), protocol: ppf.protocol, lent: false, looks_into: None });
    let most = if world.style == Style::SmallKernel { 4 } else { 8 };
    let count = body.n.range(2, most);
    body.statements(count);
    body.finish(0, 3);
    if body.n.chance(10) {
        body.statements(1);
    }
    body.out
}

/// A timer of a module, with its head.
pub fn timer(world: &World, n: &mut SplitMix64, module: usize, index: usize) -> String {
    let timer = &world.modules[module].timers[index];
    let mut body = Body::new(world, n, Some(module));
    body.fuel = 40;
    body.copies_left = 2;
    let mut params = Vec::new();
    let mut over = String::new();
    if let Some(table) = timer.table.map(|table| &world.modules[module].tables[table]) {
        over = format!(" over {}", table.name);
        params.push(format!("{} key", world.value_name(table.key)));
        body.scope.variables.push(Variable { name: "key".into(), ty: table.key, settable: true });
        if table.kind != Kind::Set {
            params.push(format!("{} *entry", world.value_name(table.value)));
            body.scope.pointers.push(Pointer { name: "entry".into(), to: table.value, tested: true });
        }
    }
    let count = body.n.range(1, 4);
    body.statements(count);
    body.finish(0, 3);
    let (name, text) = (&timer.name, body.out);
    let when = if timer.period == 0 { "at deadline".into() } else { format!("every {}", timer.period) };
    format!("timer {name}({}){over} {when} {{\n{text}}}\n", params.join(", "))
}

/// A function, of a module or global, and its text.
pub fn function(world: &World, n: &mut SplitMix64, module: Option<usize>) -> (Function, String) {
    let name = format!("fn{}", world.functions.len());
    let params: Vec<Param> = (0..n.range(0, 3)).map(|_| param(world, n)).collect();
    let result = if n.chance(20) { None } else { Some(world.value(n)) };
    let mut body = Body::new(world, n, module);
    body.fuel = 25;
    body.size_left = 12;
    body.result = Some(result);
    (body.calm, body.locked) = if body.n.chance(40) { (true, true) } else { (false, false) };
    // Every PPF of the module may call it.
    body.source = world.ppfs.iter().rposition(|ppf| Some(ppf.module) == module).unwrap_or(world.ppfs.len());
    body.copies_left = if module.is_some() { 1 } else { 0 };
    let mut heads = Vec::new();
    for (i, param) in params.iter().enumerate() {
        let name = format!("a{i}");
        match param {
            Param::Value(ty) => {
                heads.push(format!("{} {name}", world.value_name(*ty)));
                body.scope.variables.push(Variable { name, ty: *ty, settable: true });
            }
            Param::Packet(protocol) => {
                heads.push(format!("{}_packet_t *{name}", world.protocols[*protocol].name));
                body.scope.handles.push(Handle { name, protocol: *protocol, lent: true, looks_into: None });
            }
        }
    }
    // A handle that is lent stays where it is; those that are owned come behind.
    let count = body.n.range(0, 4);
    body.statements(count);
    if result.is_some() || body.n.chance(20) {
        body.ret();
    }
    let head = format!("{} {name}({})", result.map_or("void".into(), |ty| world.value_name(ty)), heads.join(", "));
    let text = format!("{head} {{\n{}}}\n", body.out);
    let (size, trips, copies, calm) = (body.size + 1, body.most_trips, body.copies, body.calm);
    (Function { name, module, params, result, size, trips, copies, calm, library: false }, text)
}

fn param(world: &World, n: &mut SplitMix64) -> Param {
    if n.chance(30) { Param::Packet(n.below(world.protocols.len())) } else { Param::Value(world.value(n)) }
}

impl<'w> Body<'w> {
    fn new(world: &'w World, n: &'w mut SplitMix64, module: Option<usize>) -> Self {
        Body {
            world,
            n,
            module,
            source: 0,
            scope: Scope::default(),
            out: String::new(),
            fuel: 100,
            size_left: MAX_SIZE,
            copies_left: 0,
            trips: 1,
            most_trips: 1,
            size: 0,
            copies: 0,
            exits: Vec::new(),
            result: None,
            locked: false,
            calm: false,
            names: 0,
        }
    }

    /// A name that nothing has yet.
    pub fn name(&mut self, prefix: &str) -> String {
        self.names += 1;
        format!("{prefix}{}", self.names)
    }

    pub fn line(&mut self, text: impl AsRef<str>) {
        self.out.push_str(text.as_ref());
        self.out.push('\n');
    }

    /// Writes a block in a scope of its own; what was consumed in it is consumed after it, too, unless it is an arm.
    pub fn block(&mut self, head: &str, inside: impl FnOnce(&mut Self)) {
        self.line(format!("{head} {{"));
        let before = self.scope.clone();
        inside(self);
        let held = |handle: &Handle, scope: &Scope| scope.handles.iter().any(|h| h.name == handle.name);
        let after = std::mem::replace(&mut self.scope, before);
        self.scope.handles.retain(|handle| held(handle, &after));
        self.line("}");
    }

    /// Writes an arm that ends with a return: what follows it holds what was held before.
    pub fn leaving(&mut self, head: &str, inside: impl FnOnce(&mut Self)) {
        let before = self.scope.clone();
        self.block(head, inside);
        self.scope = before;
    }

    /// `return`, with a value where that is needed. All handles were consumed.
    pub fn ret(&mut self) {
        match self.result {
            Some(Some(ty)) => {
                let value = self.value(ty, 2);
                self.line(format!("return {value};"));
            }
            _ => self.line("return;"),
        }
    }

    /// Tables in scope: name as it is written here, and where it is declared. Those of its own instance have two names.
    pub fn tables(&self) -> Vec<(String, (usize, usize))> {
        let all = self.world.modules.iter().enumerate();
        all.flat_map(|(index, module)| {
            let here = (Some(index) == self.module).then_some("");
            let there = module.known_as().into_iter().filter(move |_| here.is_none() || !module.instances.is_empty());
            let bases: Vec<&str> = here.into_iter().chain(there).collect();
            bases.into_iter().flat_map(move |base| {
                let dot = if base.is_empty() { "" } else { "." };
                let name = move |table: &str| format!("{base}{dot}{table}");
                module.tables.iter().enumerate().map(move |(i, table)| (name(&table.name), (index, i)))
            })
        })
        .collect()
    }

    /// One of the tables in scope that fit, as it is written here.
    pub fn pick_table(&mut self, fits: impl Fn(&str, &Table) -> bool) -> Option<(String, &'w Table)> {
        let world = self.world;
        let all = self
            .tables()
            .into_iter()
            .map(|(name, (module, index))| (name, module, &world.modules[module].tables[index]));
        let fitting: Vec<_> = all.filter(|(name, _, table)| fits(name, table)).collect();
        let (name, module, table) = fitting.get(self.n.below(fitting.len())).cloned()?;
        if self.module.is_some_and(|own| own != module) {
            world.note("a table of another module");
        }
        Some((name, table))
    }

    /// Channels of the module that carry this protocol, or any, and lead forward.
    pub fn channels(&self, protocol: Option<usize>) -> Vec<&'w Channel> {
        let Some(module) = self.module else { return Vec::new() };
        let forward = |channel: &&Channel| match channel.target {
            Target::Ppf(ppf) => ppf > self.source,
            Target::Tx | Target::Host | Target::Controller => true,
        };
        let carries = |channel: &&Channel| protocol.is_none_or(|p| p == channel.protocol);
        self.world.modules[module].channels.iter().filter(forward).filter(carries).collect()
    }

    /// Whether a copy may be made here.
    pub fn may_copy(&self) -> bool {
        self.copies_left >= self.trips
    }

    /// A copy was written.
    pub fn copied(&mut self) {
        self.copies_left -= self.trips;
        self.copies += self.trips;
    }

    /// Functions that may be called here.
    pub fn callable(&self) -> Vec<usize> {
        let fits = |index: &usize| {
            let function = &self.world.functions[*index];
            (function.module.is_none() || function.module == self.module)
                && function.size <= self.size_left
                && (!self.locked || function.calm)
                && function.trips * self.trips <= MAX_TRIPS
                && function.copies * self.trips <= self.copies_left
                && function.params.iter().all(|param| match param {
                    Param::Packet(protocol) => self.scope.handles.iter().any(|h| h.protocol == *protocol),
                    Param::Value(_) => true,
                })
        };
        (0..self.world.functions.len()).filter(fits).collect()
    }

    /// Whether this is inside a critical section, and not in a function that may be called there.
    pub fn is_critical(&self) -> bool {
        self.locked && !self.calm
    }

    /// The text of a call.
    pub fn call(&mut self, index: usize, depth: u32) -> String {
        let function = &self.world.functions[index];
        if self.is_critical() {
            self.world.note("a call while an entry is locked");
        }
        if function.library {
            self.world.note("a function of the library");
        }
        self.size_left -= function.size;
        self.size += function.size;
        self.most_trips = self.most_trips.max(self.trips * function.trips);
        self.copies_left -= function.copies * self.trips;
        self.copies += function.copies * self.trips;
        let args: Vec<String> = function
            .params
            .iter()
            .map(|param| match param {
                Param::Value(ty) => self.value(*ty, depth),
                Param::Packet(protocol) => {
                    let fitting: Vec<_> = self.scope.handles.iter().filter(|h| h.protocol == *protocol).collect();
                    let at = self.n.below(fitting.len());
                    fitting[at].name.clone()
                }
            })
            .collect();
        format!("{}({})", function.name, args.join(", "))
    }

    /// A value of a type.
    pub fn value(&mut self, ty: Value, depth: u32) -> String {
        match ty {
            Value::Scalar(ty) => self.scalar(ty, depth),
            Value::Struct(index) => self.structure(index, depth),
        }
    }

    /// A scalar that may be stored in a type without another cast.
    pub fn scalar(&mut self, ty: Ty, depth: u32) -> String {
        if self.n.chance(15) {
            return super::types::literal(self.n, ty).text;
        }
        let value = self.expr(depth);
        if value.fits(ty) { value.text } else { value.cast(ty).text }
    }

    /// A number.
    pub fn number(&mut self, depth: u32) -> Expr {
        let value = self.expr(depth);
        if value.ty == Ty::Bool { value.cast(Ty::Int { width: 8, signed: false }) } else { value }
    }
}
