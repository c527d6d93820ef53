//! `[tables.MODULE.TABLE]`: which entry goes into which table.

use std::borrow::Cow;
use std::collections::{HashMap, HashSet};

use baker::ir::arith::mask;
use baker::ir::{Layout, LayoutField, Member, Program, Table, TableEntry, TableId, TableKind};
use toml::de::DeValue;

use super::names::PortNames;
use super::value::{self, Written};
use crate::document::{self, Errors, Path, Value, kind};
use crate::messages::{did_you_mean, list};

/// Reads all entries under a `tables` key, table by table. Every entry is one that its table takes, if there is room.
pub(crate) fn read(
    program: &Program,
    ports: &PortNames,
    value: &Value,
    path: &Path,
    errors: &mut Errors,
) -> Vec<(TableId, TableEntry)> {
    entries(program, ports, value, path, &HashMap::new(), errors)
}

/// As [`read`]; where the values of a table are keys of another one (`into`), these are there, too.
pub(crate) fn read_whole(
    program: &Program,
    ports: &PortNames,
    value: &Value,
    path: &Path,
    errors: &mut Errors,
) -> Vec<(TableId, TableEntry)> {
    let mut defined: Defined = program.tables.iter().filter_map(|table| Some((table.into?, HashSet::new()))).collect();
    if !defined.is_empty() {
        // What is wrong with them is told below.
        let mut unheard = Errors::new("", "");
        for (table, entry) in entries(program, ports, value, path, &HashMap::new(), &mut unheard) {
            if let Some(keys) = defined.get_mut(&table)
                && is_defined(&program.tables[table.0 as usize], &entry.value)
            {
                keys.insert(entry.key[0]);
            }
        }
    }
    entries(program, ports, value, path, &defined, errors)
}

/// Keys that tables have whose keys are values of others.
type Defined = HashMap<TableId, HashSet<u128>>;

/// Whether an entry of a table is there: all of an array are, so there those count that are not all zero.
pub(crate) fn is_defined(table: &Table, value: &[u128]) -> bool {
    table.kind != TableKind::Array || value.iter().any(|number| *number != 0)
}

fn entries(
    program: &Program,
    ports: &PortNames,
    value: &Value,
    path: &Path,
    defined: &Defined,
    errors: &mut Errors,
) -> Vec<(TableId, TableEntry)> {
    let mut entries = Vec::new();
    let Some(modules) = document::table(value, path, errors) else { return entries };
    let split = |table: &'_ Table| table.name.split_once('.').map(|(m, t)| (m.to_owned(), t.to_owned()));
    let names: Vec<(String, String)> = program.tables.iter().filter_map(split).collect();
    for (key, value) in modules {
        let module: &str = key.get_ref();
        let path = path.key(module);
        let known: Vec<&str> = names.iter().filter(|(m, _)| m == module).map(|(_, table)| table.as_str()).collect();
        if known.is_empty() {
            let mut modules: Vec<&str> = names.iter().map(|(module, _)| module.as_str()).collect();
            modules.dedup();
            let problem = format!("no module of this name has tables{}", did_you_mean(module, modules.iter().copied()));
            errors.add(key.span().start, &path, problem, list(modules));
            continue;
        }
        let Some(tables) = document::table(value, &path, errors) else { continue };
        for (key, value) in tables {
            let name: &str = key.get_ref();
            let path = path.key(name);
            let full = format!("{module}.{name}");
            let Some(id) = program.tables.iter().position(|table| table.name == full) else {
                let problem = format!("module {module} has no such table{}", did_you_mean(name, known.iter().copied()));
                errors.add(key.span().start, &path, problem, list(known.iter().copied()));
                continue;
            };
            let mut reader = Reader::new(program, &program.tables[id], ports);
            reader.into = program.tables[id].into.and_then(|into| {
                let name = program.tables[into.0 as usize].name.as_str();
                defined.get(&into).map(|keys| (name, keys))
            });
            reader.section(value, &path, errors, |entry| entries.push((TableId(id as u32), entry)));
        }
    }
    entries
}

fn layout(program: &Program, id: u32) -> &Layout {
    &program.layouts[id as usize]
}

/// Whether a layout is one number and not a struct.
pub(super) fn is_scalar(layout: &Layout) -> bool {
    matches!(&layout.fields[..], [field] if field.name.is_empty())
}

/// A key as numbers, with its prefix length.
pub type Key = (Vec<u128>, Option<u32>);

/// Reads the entries of one table.
pub(super) struct Reader<'p> {
    pub table: &'p Table,
    pub key: &'p Layout,
    pub value: Cow<'p, Layout>,
    pub ports: &'p PortNames,
    /// The table whose keys its values must be, and those that there are.
    into: Option<(&'p str, &'p HashSet<u128>)>,
}

impl<'p> Reader<'p> {
    pub fn new(program: &'p Program, table: &'p Table, ports: &'p PortNames) -> Self {
        Reader { table, key: layout(program, table.key.0), value: program.shown_value(table), ports, into: None }
    }

    fn section(&self, section: &Value, path: &Path, errors: &mut Errors, mut add: impl FnMut(TableEntry)) {
        // Where each entry's key stands, and the entry; checked for doubles at the end.
        let mut found: Vec<(usize, TableEntry)> = Vec::new();
        let mut take = |at, (key, prefix_len): Key, value| found.push((at, TableEntry { key, prefix_len, value }));
        match section.get_ref() {
            DeValue::Array(keys) if self.table.is_set => {
                for (index, key) in keys.iter().enumerate() {
                    if let Some(key) = self.any_key(key, &path.index(index), errors) {
                        take(keys[index].span().start, key, vec![1]);
                    }
                }
            }
            other if self.table.is_set => {
                let problem = format!("this is {}, and the table is a set", kind(other));
                errors.add(section.span().start, path, problem, "a list of its members: [KEY, …]");
                return;
            }
            DeValue::Table(entries) => {
                if !is_scalar(self.key) {
                    let problem = "the keys of this table are structs";
                    let form = format!("[[{path}]] with key = {} and value = …", struct_form(self.key));
                    errors.add(section.span().start, path, problem, form);
                    return;
                }
                for (key, value) in entries {
                    let path = path.key(key.get_ref());
                    let at = key.span().start;
                    let key = self.scalar_key(Written::Key(key.get_ref()), at, &path, errors);
                    let numbers = self.numbers(&self.value, value, &path, errors);
                    if let (Some(key), Some(numbers)) = (key, numbers) {
                        self.leads(&numbers, value, &path, errors);
                        take(at, key, numbers);
                    }
                }
            }
            DeValue::Array(entries) => {
                for (index, entry) in entries.iter().enumerate() {
                    let path = path.index(index);
                    let Some(pair) = document::table(entry, &path, errors) else { continue };
                    document::only(pair, &path, &["key", "value"], errors);
                    let part = |name: &str, errors: &mut Errors| {
                        let part = pair.get(name);
                        if part.is_none() {
                            errors.add(entry.span().start, &path, format!("`{name}` is missing"), "key and value");
                        }
                        part
                    };
                    let (key, value) = (part("key", errors), part("value", errors));
                    let at = key.map_or(0, |key| key.span().start);
                    let key = key.and_then(|key| self.any_key(key, &path.key("key"), errors));
                    let path = path.key("value");
                    let numbers = value.and_then(|value| self.numbers(&self.value, value, &path, errors));
                    if let (Some(key), Some(value), Some(numbers)) = (key, value, numbers) {
                        self.leads(&numbers, value, &path, errors);
                        take(at, key, numbers);
                    }
                }
            }
            other => {
                let accepted = format!("[{path}] with KEY = VALUE, or [[{path}]] with key = … and value = …");
                errors.add(section.span().start, path, format!("this is {}", kind(other)), accepted);
            }
        }
        self.check(&found, path, errors);
        found.into_iter().for_each(|(_, entry)| add(entry));
    }

    /// An entry's value is a key that is there, where it is a key.
    fn leads(&self, numbers: &[u128], value: &Value, path: &Path, errors: &mut Errors) {
        if let Some((name, keys)) = self.into
            && !keys.contains(&numbers[0])
        {
            let problem = format!("{name} has no entry {}", numbers[0]);
            errors.add(value.span().start, path, problem, format!("a key that [tables.{name}] has"));
        }
    }

    /// A key in a `[[…]]` entry, or by itself.
    pub fn any_key(&self, key: &Value, path: &Path, errors: &mut Errors) -> Option<Key> {
        if is_scalar(self.key) {
            self.scalar_key(Written::Value(key.get_ref()), key.span().start, path, errors)
        } else {
            let numbers = self.numbers(self.key, key, path, errors)?;
            if let Some(group) = self.table.group
                && !group.has(self.table.capacity, &numbers)
            {
                let at = key.span().start;
                let (groups, members) = (group.groups - 1, self.table.capacity - 1);
                let accepted = format!("a group from 0 to {groups}, and a member from 0 to {members}");
                errors.add(at, path, "there is no place for such a member", accepted);
                return None;
            }
            Some((numbers, None))
        }
    }

    /// A key that is one number, or for `lpm` a prefix.
    fn scalar_key(&self, written: Written, at: usize, path: &Path, errors: &mut Errors) -> Option<Key> {
        let field = &self.key.fields[0];
        let result = match self.table.kind {
            TableKind::Lpm => prefix(field, written, self.ports),
            TableKind::Array => value::number(field, written, self.ports).and_then(|index| {
                let inside = index < u128::from(self.table.capacity);
                if inside { Ok((vec![index], None)) } else { Err("the index is beyond the end of the array".into()) }
            }),
            TableKind::Hash => value::number(field, written, self.ports).map(|key| (vec![key], None)),
        };
        let accepted = || match self.table.kind {
            TableKind::Lpm => "\"ADDRESS/LENGTH\" such as \"10.0.1.0/24\", \"0.0.0.0/0\" for all addresses".into(),
            TableKind::Array => format!("an index from 0 to {}, or the name of a port", self.table.capacity - 1),
            TableKind::Hash => value::accepted(field),
        };
        result.map_err(|problem| errors.add(at, path, problem, accepted())).ok()
    }

    /// One number, or a struct as `{ field = number, … }`.
    pub fn numbers(&self, layout: &Layout, value: &Value, path: &Path, errors: &mut Errors) -> Option<Vec<u128>> {
        let one = |field: &LayoutField, value: &Value, path: &Path, errors: &mut Errors| {
            let number = value::number(field, Written::Value(value.get_ref()), self.ports);
            number.map_err(|problem| errors.add(value.span().start, path, problem, value::accepted(field))).ok()
        };
        if is_scalar(layout) {
            return Some(vec![one(&layout.fields[0], value, path, errors)?]);
        }
        let DeValue::Table(fields) = value.get_ref() else {
            errors.add(value.span().start, path, format!("this is {}", kind(value.get_ref())), struct_form(layout));
            return None;
        };
        let members = layout.members();
        let names: Vec<&str> = members.iter().map(|member| member.name).collect();
        for key in fields.keys().filter(|key| !names.contains(&key.get_ref().as_ref())) {
            let name: &str = key.get_ref();
            let problem = format!("{} has no such field{}", layout.name, did_you_mean(name, names.iter().copied()));
            errors.add(key.span().start, &path.key(name), problem, list(names.iter().copied()));
        }
        let missing: Vec<&str> = names.iter().copied().filter(|name| !fields.contains_key(*name)).collect();
        if !missing.is_empty() {
            let problem = format!("{} of {} is missing", list(missing), layout.name);
            errors.add(value.span().start, path, problem, struct_form(layout));
            return None;
        }
        let mut numbers = Vec::with_capacity(layout.fields.len());
        for member in members {
            let (value, path) = (fields.get(member.name)?, path.key(member.name));
            if !member.is_array {
                numbers.extend(one(&member.fields[0], value, &path, errors));
                continue;
            }
            let count = member.fields.len();
            match value.get_ref() {
                DeValue::Array(values) if values.len() == count => {
                    for (index, (field, value)) in member.fields.iter().zip(values.iter()).enumerate() {
                        numbers.extend(one(field, value, &path.index(index), errors));
                    }
                }
                other => {
                    let found = match other {
                        DeValue::Array(values) => format!("{} elements", values.len()),
                        other => kind(other).to_string(),
                    };
                    let accepted = format!("a list of {count}: […], each {}", value::accepted(&member.fields[0]));
                    errors.add(value.span().start, &path, format!("this is {found}"), accepted);
                }
            }
        }
        (numbers.len() == layout.fields.len()).then_some(numbers)
    }

    /// No key twice (in two notations, so that TOML does not see it), and no more entries than the table holds.
    fn check(&self, found: &[(usize, TableEntry)], path: &Path, errors: &mut Errors) {
        let mut first: HashMap<(&[u128], Option<u32>), usize> = HashMap::with_capacity(found.len());
        let mut in_order: Vec<&(usize, TableEntry)> = found.iter().collect();
        in_order.sort_by_key(|(at, _)| *at);
        for (at, entry) in in_order {
            if let Some(before) = first.insert((&entry.key, entry.prefix_len), *at) {
                let line = errors.line(before);
                let problem = format!("this key is given twice, in two notations: the other one is in line {line}");
                errors.add(*at, path, problem, "each key once");
            }
        }
        let capacity = self.table.capacity as usize;
        if first.len() > capacity {
            let at = found.iter().map(|(at, _)| *at).min().unwrap_or(0);
            errors.add(at, path, format!("{} entries, but the table holds {capacity}", first.len()), "");
        }
    }
}

/// `ADDRESS/LENGTH`, with no bit set beyond the length.
fn prefix(field: &LayoutField, written: Written, ports: &PortNames) -> Result<Key, String> {
    let text = match written {
        Written::Key(text) => text,
        Written::Value(DeValue::String(text)) => text,
        Written::Value(other) => return Err(format!("this is {}", kind(other))),
    };
    let (address, len) = text.split_once('/').ok_or("not a prefix: it has no length")?;
    let address =
        value::number(field, Written::Key(address), ports).map_err(|error| format!("not a prefix: {error}"))?;
    let digits = !len.is_empty() && len.bytes().all(|byte| byte.is_ascii_digit());
    let len = len.parse::<u32>().ok().filter(|len| digits && *len <= field.width);
    let len = len.ok_or_else(|| format!("not a prefix: its length is not a number from 0 to {}", field.width))?;
    let host_bits = if len == field.width { 0 } else { address & mask(field.width - len) };
    if host_bits != 0 {
        let network = address - host_bits;
        let network = match field.width {
            128 => std::net::Ipv6Addr::from(network).to_string(),
            32 => std::net::Ipv4Addr::from(network as u32).to_string(),
            _ => format!("{network:#x}"),
        };
        return Err(format!("not a prefix: bits beyond its length are set; did you mean \"{network}/{len}\"?"));
    }
    Ok((vec![address], Some(len)))
}

/// `{ a = …, b = … }`.
fn struct_form(layout: &Layout) -> String {
    let form = |member: &Member| format!("{} = {}", member.name, if member.is_array { "[…]" } else { "…" });
    let fields: Vec<String> = layout.members().iter().map(form).collect();
    format!("{{ {} }}", fields.join(", "))
}
