//! Several instances of one module: each has tables, counters, channels, PPFs, timers and functions of controllers of
//! its own.
//!
//! A module is checked once. Its items are numbered as if it had no other instance; those of its instances get further
//! numbers, so that wires and other modules can name them. At the end each instance gets a copy of the module's code
//! that works on its own items, and what belongs to a module with instances alone goes.

use std::ops::Range;

use super::hir::{Code, ExprKind, Function, FunctionId, Ppf, Stmt, StmtKind, Timer};
use super::names::{Checker, Module, ModuleId, Symbol};
use crate::diag::Diagnostic;
use crate::ir::{ChannelId, CounterId, Extern, ExternId, PORT_MTU, PpfId, Queue, QueueId, TableId, Target};
use crate::source::{FileId, Span};
use crate::syntax::ast;

/// Instances of a program at most.
pub(super) const MAX_INSTANCES: usize = 64;

/// Tables, counters, channels, PPFs, functions and timers that they have together at most.
const MAX_ITEMS: usize = 1 << 12;

/// Statements and operations of the PPFs and timers that they have together at most, functions inlined.
const MAX_CODE: u32 = 1 << 17;

/// Something for each kind of items that an instance has of its own.
#[derive(Clone, Debug, Default)]
pub(super) struct Items<T> {
    pub tables: T,
    pub counters: T,
    pub channels: T,
    pub ppfs: T,
    pub functions: T,
    pub externs: T,
    pub timers: T,
    pub queues: T,
}

/// The numbers of a module's or instance's own items.
pub(super) type Own = Items<Range<u32>>;

impl Own {
    pub(super) fn count(&self) -> usize {
        let Items { tables, counters, channels, ppfs, functions, externs, timers, queues } = self;
        [tables, counters, channels, ppfs, functions, externs, timers, queues].into_iter().map(Range::len).sum()
    }
}

/// An instance of a module.
pub(super) struct Instance {
    pub name: String,
    pub span: Span,
    pub module: ModuleId,
    pub own: Own,
}

/// The number in place of `id` where `to` is in place of `from`.
fn instead(from: &Range<u32>, to: &Range<u32>, id: u32) -> u32 {
    if from.contains(&id) { to.start + (id - from.start) } else { id }
}

impl Checker<'_> {
    /// Declares the instances of the program block.
    pub(super) fn declare_instances(&mut self) {
        let Some((file, program)) = self.program_block() else { return };
        for item in program.instances() {
            let Some(module) = item.module() else { continue };
            self.meant(file, None, &module);
            let id = match self.globals.get(module.text()) {
                Some((Symbol::Module(id), _)) => *id,
                Some((Symbol::Generic(generic), _)) => {
                    self.generic_instances(file, *generic, &item);
                    continue;
                }
                found => {
                    let found = found.map(|(symbol, _)| *symbol);
                    self.unknown(file, &module, "module", found);
                    item.names().for_each(|name| self.bind(file, None, &name, Symbol::Reported));
                    continue;
                }
            };
            if let Some(args) = item.args() {
                let title = format!("the module `{}` has no parameters", module.text());
                let error = Diagnostic::new("wrong-arguments", self.span(file, &args), title);
                self.error(error.label("nothing takes these").also(self.modules[id.0].span, "declared here"));
            }
            for name in item.names() {
                self.instance(file, id, &name);
            }
        }
    }

    fn instance(&mut self, file: FileId, module: ModuleId, name: &ast::Name) {
        let (id, mistakes) = (self.instances.len(), self.mistakes());
        let span = name.span(file);
        self.bind(file, None, name, Symbol::Instance(id));
        if self.mistakes() != mistakes {
            return;
        }
        self.modules[module.0].instances.push(id);
        let own = Own::default();
        self.instances.push(Instance { name: name.text().to_string(), span, module, own });
    }

    /// The first `program` block.
    fn program_block(&self) -> Option<(FileId, ast::Program)> {
        self.files.iter().find_map(|file| {
            let program = file.tree.items().find_map(|item| match item {
                ast::Item::Program(program) => Some(program),
                _ => None,
            });
            program.map(|program| (file.id, program))
        })
    }

    /// Gives the instances tables, counters and channels as their modules have, and numbers for PPFs and functions.
    pub(super) fn check_instances(&mut self) {
        let (mut ppfs, mut functions) = (self.ppfs.len() as u32, self.functions.len() as u32);
        let (mut externs, mut timers) = (self.externs.len() as u32, self.timers.len() as u32);
        let Some(mut items) = self.generic_items(MAX_ITEMS) else { return };
        let generic = self.modules.iter().filter(|module| module.generic.is_some()).count();
        for index in 0..self.instances.len() {
            let module = self.instances[index].module;
            let Module { name: module_name, own, .. } = &self.modules[module.0];
            let (own, module_name) = (own.clone(), module_name.clone());
            items += own.count();
            if index + generic >= MAX_INSTANCES || items > MAX_ITEMS {
                let error = Diagnostic::new("too-many-instances", self.instances[index].span, "too many instances")
                    .label(format!("more than {MAX_INSTANCES}, or than {MAX_ITEMS} items of instances"));
                self.error(error);
                // Further uses of the names are no mistakes of their own.
                self.instances[index..].iter_mut().for_each(|i| i.own = self.modules[i.module.0].own.clone());
                return;
            }
            let name = self.instances[index].name.clone();
            let renamed = |full: &str| format!("{name}{}", &full[module_name.len()..]);
            let hir = &mut self.hir;
            let added = |before: usize, after: usize| before as u32..after as u32;
            let [tables, counters, channels] = [hir.tables.len(), hir.counters.len(), hir.channels.len()];
            let queues = hir.queues.len();
            for id in own.tables.clone() {
                let mut table = hir.tables[id as usize].clone();
                table.name = renamed(&table.name);
                hir.tables.push(table);
            }
            for id in own.counters.clone() {
                let mut counter = hir.counters[id as usize].clone();
                counter.name = renamed(&counter.name);
                hir.counters.push(counter);
            }
            for id in own.channels.clone() {
                let mut channel = hir.channels[id as usize].clone();
                channel.name = renamed(&channel.name);
                hir.channels.push(channel);
            }
            for id in own.queues.clone() {
                let queue = hir.queues[id as usize].clone();
                hir.queues.push(Queue { name: renamed(&queue.name), ..queue });
            }
            let numbered = |next: &mut u32, like: &Range<u32>| {
                let first = *next;
                *next += like.len() as u32;
                first..*next
            };
            self.instances[index].own = Items {
                tables: added(tables, hir.tables.len()),
                counters: added(counters, hir.counters.len()),
                channels: added(channels, hir.channels.len()),
                ppfs: numbered(&mut ppfs, &own.ppfs),
                functions: numbered(&mut functions, &own.functions),
                externs: numbered(&mut externs, &own.externs),
                timers: numbered(&mut timers, &own.timers),
                queues: added(queues, hir.queues.len()),
            };
        }
    }

    /// What a name of a module stands for in one of its instances.
    pub(super) fn of_instance(&self, instance: usize, symbol: Symbol) -> Symbol {
        match symbol {
            Symbol::Table(TableId(id)) => Symbol::Table(TableId(self.number_in(instance, id, |own| &own.tables))),
            Symbol::Meter(TableId(id)) => Symbol::Meter(TableId(self.number_in(instance, id, |own| &own.tables))),
            Symbol::Hold(TableId(id)) => Symbol::Hold(TableId(self.number_in(instance, id, |own| &own.tables))),
            Symbol::Group(TableId(id)) => Symbol::Group(TableId(self.number_in(instance, id, |own| &own.tables))),
            Symbol::Counter(CounterId(id)) => {
                Symbol::Counter(CounterId(self.number_in(instance, id, |own| &own.counters)))
            }
            Symbol::Queue(QueueId(id)) => Symbol::Queue(QueueId(self.number_in(instance, id, |own| &own.queues))),
            other => other,
        }
    }

    /// The number in an instance of what is `id` in its module.
    pub(super) fn number_in(&self, instance: usize, id: u32, of: impl Fn(&Own) -> &Range<u32>) -> u32 {
        let Instance { module, own, .. } = &self.instances[instance];
        instead(of(&self.modules[module.0].own), of(own), id)
    }

    /// Reports an item of a module that each of its instances has of its own.
    pub(super) fn needs_instance(&mut self, module: ModuleId, item: &str, span: Span) {
        let Module { name, instances, .. } = &self.modules[module.0];
        let names: Vec<String> =
            instances.iter().take(3).map(|id| format!("`{}.{item}`", self.instances[*id].name)).collect();
        let error = Diagnostic::new("needs-instance", span, format!("each instance of `{name}` has its own `{item}`"))
            .label("of which instance?")
            .hint(format!("write {}", names.join(" or ")));
        self.report_once(error);
    }

    /// Puts a copy of its module's items in place of each instance. Nothing is wrong with the program so far.
    pub(super) fn expand_instances(&mut self) {
        if self.instances.is_empty() {
            return;
        }
        // The channels within an instance lead to its own PPFs.
        for Instance { module, own, .. } in &self.instances {
            let from = &self.modules[module.0].own;
            for id in from.channels.clone() {
                let Target::Ppf(PpfId(ppf)) = self.hir.channels[id as usize].target else { continue };
                if from.ppfs.contains(&ppf) {
                    let to = instead(&from.channels, &own.channels, id) as usize;
                    self.hir.channels[to].target = Target::Ppf(PpfId(instead(&from.ppfs, &own.ppfs, ppf)));
                }
            }
        }
        let slots = self.slots();
        let mut free = vec![true; self.functions.len()];
        for module in &self.modules {
            free[module.own.functions.start as usize..module.own.functions.end as usize].fill(false);
        }
        let free: Vec<u32> = (0..free.len() as u32).filter(|id| free[*id as usize]).collect();
        let injected = (0u32..).zip(&self.hir.channels).filter(|(_, channel)| channel.from.is_some());
        let injected: Vec<u32> = injected.map(|(id, _)| id).collect();
        let own = self.hir.tables.iter().position(|table| table.name == PORT_MTU).map(|id| id as u32);
        let order = order(&free, &injected, own, &slots);
        let last = order.clone().inverse();

        let hir = &mut self.hir;
        hir.tables = order.tables.iter().map(|id| hir.tables[*id as usize].clone()).collect();
        hir.tables.iter_mut().filter_map(|table| table.into.as_mut()).for_each(|id| id.0 = last.tables[id.0 as usize]);
        hir.counters = order.counters.iter().map(|id| hir.counters[*id as usize].clone()).collect();
        hir.queues = order.queues.iter().map(|id| hir.queues[*id as usize].clone()).collect();
        hir.channels = order.channels.iter().map(|id| hir.channels[*id as usize].clone()).collect();
        for channel in &mut hir.channels {
            if let Target::Ppf(id) = &mut channel.target {
                id.0 = last.ppfs[id.0 as usize];
            }
        }
        let (ppfs, functions) = (std::mem::take(&mut hir.ppfs), std::mem::take(&mut hir.functions));
        let (externs, timers) = (std::mem::take(&mut hir.externs), std::mem::take(&mut hir.timers));
        let nowhere = Own::default();
        for id in free {
            let mut function = functions[id as usize].clone();
            Renumber { from: &nowhere, to: &nowhere, last: &last }.code(&mut function.code);
            hir.functions.push(function);
        }
        for slot in &slots {
            let module = &self.modules[slot.module.0];
            let renumber = Renumber { from: &module.own, to: &slot.own, last: &last };
            let renamed = |full: &str| format!("{}{}", slot.name, &full[module.name.len()..]);
            for id in module.own.functions.clone() {
                let Function { name, params, result, mut code } = functions[id as usize].clone();
                renumber.code(&mut code);
                hir.functions.push(Function { name, params, result, code });
            }
            for id in module.own.ppfs.clone() {
                let Ppf { name, protocol, pin, mut code, span } = ppfs[id as usize].clone();
                renumber.code(&mut code);
                let name = renamed(&name);
                hir.ppfs.push(Ppf { name, protocol, pin, code, span });
            }
            for id in module.own.externs.clone() {
                let function = externs[id as usize].clone();
                hir.externs.push(Extern { name: renamed(&function.name), ..function });
            }
            for id in module.own.timers.clone() {
                let mut timer = timers[id as usize].clone();
                renumber.code(&mut timer.code);
                timer.table.iter_mut().for_each(|table| renumber.table(table));
                hir.timers.push(Timer { name: renamed(&timer.name), ..timer });
            }
        }
    }

    /// The instances, and the modules without one, in the order of modules.
    fn slots(&self) -> Vec<ItemOwner> {
        let mut slots = Vec::new();
        for (index, module) in self.modules.iter().enumerate() {
            let id = ModuleId(index);
            if module.instances.is_empty() {
                slots.push(ItemOwner { name: module.name.clone(), module: id, own: module.own.clone() });
            }
            for instance in &module.instances {
                let Instance { name, own, .. } = &self.instances[*instance];
                slots.push(ItemOwner { name: name.clone(), module: id, own: own.clone() });
            }
        }
        slots
    }

    /// Checks how much code all instances have together; `ppfs` and `timers` say it of each of these by its number.
    pub(super) fn check_instances_cost(&mut self, ppfs: &[u32], timers: &[u32]) {
        let mut all = 0u32;
        let instances = self.instances.iter().map(|instance| (&instance.span, instance.module));
        let generic = self.modules.iter().enumerate().filter(|(_, module)| module.generic.is_some());
        let generic = generic.map(|(id, module)| (&module.span, ModuleId(id)));
        for (span, module) in generic.chain(instances) {
            let own = &self.modules[module.0].own;
            let sizes = own.ppfs.clone().map(|id| ppfs[id as usize]);
            let sizes = sizes.chain(own.timers.clone().map(|id| timers[id as usize]));
            all = sizes.fold(all, u32::saturating_add);
            if all > MAX_CODE {
                let error = Diagnostic::new("too-many-instances", *span, "the instances have too much code")
                    .label(format!("more than {MAX_CODE} operations from here on"))
                    .hint("each instance has a copy of its module's code, functions inlined");
                return self.error(error);
            }
        }
    }
}

/// What has items of its own in the finished program.
struct ItemOwner {
    name: String,
    module: ModuleId,
    own: Own,
}

/// The numbers of all items that stay, in the order in which they then are: those of no module first, which are `rx`
/// and the functions `free`; the channels `injected` and the language's own table, of no module either, last.
fn order(free: &[u32], injected: &[u32], table: Option<u32>, slots: &[ItemOwner]) -> Items<Vec<u32>> {
    let mut order = Items { channels: vec![0], functions: free.to_vec(), ..Items::<Vec<u32>>::default() };
    for ItemOwner { own, .. } in slots {
        order.tables.extend(own.tables.clone());
        order.counters.extend(own.counters.clone());
        order.channels.extend(own.channels.clone());
        order.ppfs.extend(own.ppfs.clone());
        order.functions.extend(own.functions.clone());
        order.externs.extend(own.externs.clone());
        order.timers.extend(own.timers.clone());
        order.queues.extend(own.queues.clone());
    }
    order.channels.extend(injected);
    order.tables.extend(table);
    order
}

impl Items<Vec<u32>> {
    /// From order of numbers to the place of each number. Those that are not among them have none.
    fn inverse(self) -> Self {
        let inverse = |order: Vec<u32>| {
            let mut slots = vec![u32::MAX; order.iter().max().map_or(0, |most| *most as usize + 1)];
            order.into_iter().enumerate().for_each(|(slot, id)| slots[id as usize] = slot as u32);
            slots
        };
        Items {
            tables: inverse(self.tables),
            counters: inverse(self.counters),
            channels: inverse(self.channels),
            ppfs: inverse(self.ppfs),
            functions: inverse(self.functions),
            externs: inverse(self.externs),
            timers: inverse(self.timers),
            queues: inverse(self.queues),
        }
    }
}

/// Makes a module's code that of an instance.
struct Renumber<'a> {
    from: &'a Own,
    to: &'a Own,
    /// The last numbers.
    last: &'a Items<Vec<u32>>,
}

impl Renumber<'_> {
    fn table(&self, TableId(id): &mut TableId) {
        *id = self.last.tables[instead(&self.from.tables, &self.to.tables, *id) as usize];
    }

    fn code(&self, code: &mut Code) {
        self.statements(&mut code.body);
    }

    fn statements(&self, statements: &mut [Stmt]) {
        for Stmt { kind, .. } in statements {
            match kind {
                StmtKind::SetArrayField(table, ..) | StmtKind::HoldPut(table, ..) => self.table(table),
                StmtKind::PutAt(ChannelId(id), QueueId(queue), ..) => {
                    *id = self.last.channels[instead(&self.from.channels, &self.to.channels, *id) as usize];
                    *queue = self.last.queues[instead(&self.from.queues, &self.to.queues, *queue) as usize];
                }
                StmtKind::PutAll(ChannelId(id), table, ..) => {
                    *id = self.last.channels[instead(&self.from.channels, &self.to.channels, *id) as usize];
                    self.table(table);
                }
                StmtKind::Put(ChannelId(id), _) => {
                    *id = self.last.channels[instead(&self.from.channels, &self.to.channels, *id) as usize];
                }
                StmtKind::Count(CounterId(id), ..) => {
                    *id = self.last.counters[instead(&self.from.counters, &self.to.counters, *id) as usize];
                }
                _ => {}
            }
            kind.expressions_mut().into_iter().for_each(|expr| self.expr(expr));
            kind.nested_mut().into_iter().for_each(|nested| self.statements(nested));
        }
    }

    fn expr(&self, expr: &mut super::hir::Expr) {
        match &mut expr.kind {
            ExprKind::ArrayValue(table, _)
            | ExprKind::Lookup(table, _)
            | ExprKind::Insert(table, ..)
            | ExprKind::Remove(table, _)
            | ExprKind::SetDeadline(table, ..)
            | ExprKind::HoldGet(table, _)
            | ExprKind::Member(table, _)
            | ExprKind::Take(table, ..) => self.table(table),
            ExprKind::Call(FunctionId(id), _) => {
                *id = self.last.functions[instead(&self.from.functions, &self.to.functions, *id) as usize];
            }
            ExprKind::Extern(ExternId(id), _) => {
                *id = self.last.externs[instead(&self.from.externs, &self.to.externs, *id) as usize];
            }
            _ => {}
        }
        expr.for_each_operand_mut(|operand| self.expr(operand));
    }
}
