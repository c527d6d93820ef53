//! The declarations of a program: protocols, metadata, structs, constants, tables, modules and their wiring.

use std::cell::RefCell;
use std::collections::BTreeMap;

use super::Style;
use super::library::Imports;
use super::protocol;
use super::types::{Ty, Value, unsigned, width};
use crate::numbers::SplitMix64;

/// Most packets that one received packet may become.
const MAX_PACKETS: usize = 40;

pub struct World {
    pub style: Style,
    pub imports: Imports,
    pub protocols: Vec<Protocol>,
    pub metadata: Vec<(String, Ty)>,
    pub structs: Vec<Struct>,
    /// Names, types, and the text that declares them.
    pub consts: Vec<(String, Ty, String)>,
    pub enums: Vec<String>,
    pub reasons: Vec<String>,
    pub functions: Vec<Function>,
    pub modules: Vec<Module>,
    /// In an order in which packets only go forward.
    pub ppfs: Vec<Ppf>,
    /// PPFs that a controller injects packets into.
    pub injected: Vec<usize>,
    /// How often each of [`super::CONSTRUCTS`] was written.
    pub constructs: RefCell<BTreeMap<&'static str, u64>>,
}

pub struct Protocol {
    pub name: String,
    pub fields: Vec<(String, Ty)>,
    /// Index of the checksum field.
    pub checksum: Option<usize>,
    /// What the checksum covers.
    pub covers: &'static str,
    /// Whether that is a pseudo header, too.
    pub pseudo_sum: bool,
    /// How many bytes there are from its beginning to the end of what it holds, where it says so.
    pub length: Option<String>,
    /// Indices of the fields of its own pseudo header.
    pub pseudo: Vec<usize>,
    pub bytes: u32,
    /// Text of the demux.
    pub demux: String,
    /// For a computed demux: the field, and values for which the header has a plausible length.
    pub lengths: Option<(usize, Vec<u128>)>,
    /// From the library.
    pub imported: bool,
}

pub struct Struct {
    pub name: String,
    /// The elements of an array are fields `a[0]`, `a[1]`, …
    pub fields: Vec<(String, Ty)>,
}

impl Struct {
    /// The fields that a value of it names: arrays can't be.
    pub fn named(&self) -> impl Iterator<Item = &(String, Ty)> {
        self.fields.iter().filter(|(name, _)| !name.contains('['))
    }
}

pub struct Module {
    pub name: String,
    /// Names of its instances; where there is none, it is its own.
    pub instances: Vec<String>,
    pub tables: Vec<Table>,
    /// Names and sizes.
    pub counters: Vec<(String, u32)>,
    /// Names, sizes, and their rates and bursts.
    pub meters: Vec<(String, u32, String)>,
    pub channels: Vec<Channel>,
    /// Indices into the world's functions.
    pub functions: Vec<usize>,
    pub externs: Vec<Extern>,
    pub timers: Vec<Timer>,
}

/// A function of a controller.
pub struct Extern {
    pub name: String,
    pub params: Vec<Ty>,
    pub result: Ty,
}

/// A timer.
pub struct Timer {
    pub name: String,
    /// Index into the module's tables.
    pub table: Option<usize>,
    /// Nanoseconds; 0: at deadlines of the table's entries.
    pub period: u64,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    Array,
    Hash,
    Set,
    Lpm,
}

pub struct Table {
    pub name: String,
    pub kind: Kind,
    pub key: Value,
    pub value: Value,
    pub capacity: u32,
    /// Nanoseconds after which an entry that is not used is gone.
    pub idle: Option<u64>,
}

/// Where packets of a module go.
pub struct Channel {
    pub name: String,
    pub protocol: usize,
    pub target: Target,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Target {
    Ppf(usize),
    Tx,
    Host,
    Controller,
}

pub struct Ppf {
    pub name: String,
    pub module: usize,
    pub protocol: usize,
    /// The channel that it reads, and whether that stays inside the module.
    pub input: String,
    pub internal: bool,
    /// Copies that it may make.
    pub copies: usize,
}

pub enum Param {
    Value(Value),
    Packet(usize),
}

pub struct Function {
    pub name: String,
    pub module: Option<usize>,
    pub params: Vec<Param>,
    pub result: Option<Value>,
    /// Statements, those of functions that it calls included.
    pub size: usize,
    /// Trips of its loops, one inside the other.
    pub trips: usize,
    pub copies: usize,
    /// It may be called while an entry is locked.
    pub calm: bool,
    /// It is written in the library.
    pub library: bool,
}

/// A header as the maker of packets sees it.
pub struct Header {
    pub bytes: usize,
    /// Offset and width in bits of the field that gives the header's length, and good values for it.
    pub length: Option<(u32, u32, Vec<u128>)>,
}

impl Module {
    /// What it is known by: its instances, or itself.
    pub fn known_as(&self) -> Vec<&str> {
        match self.instances.is_empty() {
            true => vec![&self.name],
            false => self.instances.iter().map(String::as_str).collect(),
        }
    }
}

impl World {
    pub fn random(n: &mut SplitMix64, style: Style) -> World {
        let mut protocols: Vec<_> = (0..n.range(2, 5)).map(|index| protocol::random(n, index, style)).collect();
        let imports = Imports::random(n);
        imports.protocols(&mut protocols);
        let metadata = (0..n.range(1, 5)).map(|i| (format!("m{i}"), field_type(n))).collect();
        let structs: Vec<_> = (0..n.range(1, 3)).map(|i| structure(n, i)).collect();
        let mut world = World {
            style,
            imports,
            protocols,
            metadata,
            structs,
            consts: Vec::new(),
            enums: Vec::new(),
            reasons: (0..n.range(1, 3)).map(|i| format!("r{i}")).collect(),
            functions: Vec::new(),
            modules: Vec::new(),
            ppfs: Vec::new(),
            injected: Vec::new(),
            constructs: RefCell::default(),
        };
        world.constants(n);
        world.graph(n);
        world
    }

    fn constants(&mut self, n: &mut SplitMix64) {
        for i in 0..n.range(1, 4) {
            let ty = Ty::random(n);
            self.consts.push((format!("C{i}"), ty, super::types::literal(n, ty).text));
        }
        let ty = unsigned(n.range(4, 16) as u32);
        self.consts.push(("E_A".into(), ty, String::new()));
        self.consts.push(("E_B".into(), ty, String::new()));
        self.enums.push(format!("enum e0 : {} {{ E_A, E_B = {}, }}", ty.name(), n.below(16)));
        self.consts.push(("MAC".into(), unsigned(48), "02:00:5e:10:00:ff".into()));
        self.consts.push(("NET".into(), unsigned(32), "10.0.0.1".into()));
    }

    /// Modules, PPFs, and the channels between them.
    fn graph(&mut self, n: &mut SplitMix64) {
        let small = self.style == Style::SmallKernel;
        let modules = n.range(1, if small { 1 } else { 4 });
        for index in 0..modules {
            let tables = (0..n.range(1, 4)).map(|i| self.table(n, index, i)).collect();
            let counters = (0..n.range(1, 2)).map(|i| (format!("n{i}"), *n.pick(&[1, 1, 3, 8]))).collect();
            let name = format!("mod{index}");
            let instances = Vec::new();
            let mut externs = Vec::new();
            for i in 0..if self.style.is_kernel() { 0 } else { n.below(3) } {
                let params = (0..n.range(0, 3)).map(|_| Ty::random(n)).collect();
                externs.push(Extern { name: format!("ext{index}_{i}"), params, result: Ty::random(n) });
            }
            let meters = (0..n.range(0, 2)).map(|i| meter(n, i)).collect();
            self.modules.push(Module {
                name,
                instances,
                tables,
                counters,
                meters,
                channels: Vec::new(),
                functions: Vec::new(),
                externs,
                timers: Vec::new(),
            });
        }
        let count = n.range(modules.max(2), modules + if small { 1 } else { 3 });
        let mut packets = 1;
        for index in 0..count {
            // Every module has a PPF.
            let module = if index < modules { index } else { n.below(modules) };
            let protocol = if index == 0 { 0 } else { n.below(self.protocols.len()) };
            let most = if self.style.is_kernel() { 1 } else { (MAX_PACKETS / packets).min(9) };
            let copies = n.below(most);
            packets *= copies + 1;
            let siblings = self.ppfs.iter().any(|ppf| ppf.module == module);
            let internal = siblings && n.chance(40);
            let input = format!("{}{index}", if internal { "inner" } else { "input" });
            self.ppfs.push(Ppf { name: format!("p{index}"), module, protocol, input, internal, copies });
        }
        for index in 1..count {
            self.channels_to(n, index);
        }
        for module in 0..modules {
            for (name, target) in [("sent", Target::Tx), ("up", Target::Host)] {
                self.modules[module].channels.push(Channel { name: name.into(), protocol: 0, target });
            }
            if n.chance(40) {
                let (name, protocol) = ("punted".to_string(), n.below(self.protocols.len()));
                self.modules[module].channels.push(Channel { name, protocol, target: Target::Controller });
            }
            self.timers(n, module);
        }
        let injects = if self.style.is_kernel() { 0 } else { 30 };
        self.injected = (0..count).filter(|ppf| !self.ppfs[*ppf].internal && n.chance(injects)).collect();
        self.instances(n);
    }

    fn timers(&mut self, n: &mut SplitMix64, module: usize) {
        let most = if self.style.is_kernel() { 1 } else { 3 };
        let (ppfs, kernel) = (self.ppfs.len(), self.style.is_kernel());
        let module = &mut self.modules[module];
        for i in 0..n.below(most) {
            let table = n.below(module.tables.len() + 1);
            let table = (table < module.tables.len() && module.tables[table].kind != Kind::Lpm).then_some(table);
            let period = *n.pick(&[50_000_000_000, 300_000_000_000, 700_000_000_001]);
            module.timers.push(Timer { name: format!("every{i}"), table, period });
        }
        for table in 0..module.tables.len() {
            // Takes no number, so that other programs stay what they are. In the kernel's small ones there are few
            // tables; entries of an array are always there to have a deadline.
            let has_timer = match (kernel, module.tables[table].kind) {
                (_, Kind::Lpm) => false,
                (true, Kind::Array) => true,
                _ => (ppfs + 3 * table).is_multiple_of(5),
            };
            if has_timer {
                module.timers.push(Timer { name: format!("at{table}"), table: Some(table), period: 0 });
            }
        }
    }

    /// Instances of some modules: no more than there are wires to each of a module's inputs.
    fn instances(&mut self, n: &mut SplitMix64) {
        for module in 0..self.modules.len() {
            let inputs =
                (0..self.ppfs.len()).filter(|ppf| self.ppfs[*ppf].module == module && !self.ppfs[*ppf].internal);
            let channels = || self.modules.iter().flat_map(|module| &module.channels);
            let wires = |ppf: usize| match ppf {
                0 => 1,
                _ => channels().filter(|channel| channel.target == Target::Ppf(ppf)).count(),
            };
            let most = inputs.map(wires).min().unwrap_or(1).min(3);
            if n.chance(40) {
                let names = (0..n.range(1, most)).map(|i| format!("copy{module}_{i}"));
                self.modules[module].instances = names.collect();
            }
        }
    }

    /// One channel or more that lead to a PPF, from PPFs before it.
    fn channels_to(&mut self, n: &mut SplitMix64, index: usize) {
        let Ppf { module, protocol, internal, ref input, .. } = self.ppfs[index];
        let target = Target::Ppf(index);
        if internal {
            let channel = Channel { name: input.clone(), protocol, target };
            return self.modules[module].channels.push(channel);
        }
        for number in 0..n.range(1, 3) {
            let from = self.ppfs[n.below(index)].module;
            let name = format!("out{index}_{number}");
            self.modules[from].channels.push(Channel { name, protocol, target });
        }
    }

    fn table(&self, n: &mut SplitMix64, module: usize, index: usize) -> Table {
        let all = [Kind::Array, Kind::Array, Kind::Hash, Kind::Hash, Kind::Lpm, Kind::Set];
        // There is always a table whose look-up gives a pointer.
        let kind = *n.pick(if (module, index) == (0, 0) { &all[..5] } else { &all });
        let key = match kind {
            Kind::Hash | Kind::Set => self.value(n),
            Kind::Lpm => Value::Scalar(unsigned(*n.pick(&[32, 32, 128, 20, 64, 7]))),
            _ => Value::Scalar(unsigned(32)),
        };
        let capacity = if kind == Kind::Lpm { 64 } else { *n.pick(&[1, 2, 3, 4, 8, 9, 16, 100, 4000]) };
        let ages = matches!(kind, Kind::Hash | Kind::Set) && n.chance(40);
        let idle = ages.then(|| *n.pick(&[1_000_000, 300_000_000_000, 2_000_000_000_000]));
        let value = if kind == Kind::Set { Value::Scalar(Ty::Bool) } else { self.value(n) };
        Table { name: format!("t{index}"), kind, key, value, capacity, idle }
    }

    /// Notes that one of [`super::CONSTRUCTS`] was written.
    pub fn note(&self, construct: &'static str) {
        *self.constructs.borrow_mut().entry(construct).or_default() += 1;
    }

    /// A type for a variable or a table.
    pub fn value(&self, n: &mut SplitMix64) -> Value {
        if n.chance(30) { Value::Struct(n.below(self.structs.len())) } else { Value::Scalar(Ty::random(n)) }
    }

    pub fn value_name(&self, value: Value) -> String {
        match value {
            Value::Scalar(ty) => ty.name(),
            Value::Struct(index) => self.structs[index].name.clone(),
        }
    }

    pub fn headers(&self) -> Vec<Header> {
        let header = |protocol: &Protocol| {
            let length = protocol.lengths.as_ref().map(|(field, values)| {
                let offset = protocol.fields[..*field].iter().map(|(_, ty)| ty.width()).sum();
                (offset, protocol.fields[*field].1.width(), values.clone())
            });
            Header { bytes: protocol.bytes as usize, length }
        };
        self.protocols.iter().map(header).collect()
    }
}

fn meter(n: &mut SplitMix64, index: usize) -> (String, u32, String) {
    let rate = *n.pick(&[0, 1, 3, 1000, 999_999_937, 12_500_000_000u64]);
    let burst = *n.pick(&[0, 1, 2, 7, 1500, 1u64 << 39]);
    let clause = if n.chance(85) { format!(" rate {rate} burst {burst}") } else { String::new() };
    (format!("g{index}"), *n.pick(&[1, 1, 2, 5]), clause)
}

fn field_type(n: &mut SplitMix64) -> Ty {
    if n.chance(10) { Ty::Bool } else { unsigned(width(n)) }
}

fn structure(n: &mut SplitMix64, index: usize) -> Struct {
    let mut fields = Vec::new();
    for i in 0..n.range(1, 4) {
        let (name, ty) = (format!("a{i}"), Ty::random(n));
        if n.chance(75) {
            fields.push((name, ty));
            continue;
        }
        let count = n.range(1, 6);
        fields.extend((0..count).map(|element| (format!("{name}[{element}]"), ty)));
    }
    Struct { name: format!("s{index}"), fields }
}
