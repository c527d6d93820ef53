//! `[tables.MODULE.TABLE]`: which entry goes into which table.

use std::borrow::Cow;
use std::collections::HashMap;

use baker::ir::arith::mask;
use baker::ir::{Layout, LayoutField, Program, Table, TableEntry, TableId, TableKind};
use toml::de::DeValue;

use super::PortNames;
use super::document::{self, Errors, Path, Value, kind};
use super::value::{self, Written};
use crate::words::{did_you_mean, list};

/// Reads all entries under a `tables` key, table by table. Every entry is one that its table takes, if there is room.
pub(crate) fn read(
    program: &Program,
    ports: &PortNames,
    value: &Value,
    path: &Path,
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
            let reader = Reader::new(program, &program.tables[id], ports);
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
}

impl<'p> Reader<'p> {
    pub fn new(program: &'p Program, table: &'p Table, ports: &'p PortNames) -> Self {
        Reader { table, key: layout(program, table.key.0), value: program.shown_value(table), ports }
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
                    let value = self.numbers(&self.value, value, &path, errors);
                    if let (Some(key), Some(value)) = (key, value) {
                        take(at, key, value);
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
                    let value = value.and_then(|value| self.numbers(&self.value, value, &path.key("value"), errors));
                    if let (Some(key), Some(value)) = (key, value) {
                        take(at, key, value);
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

    /// A key in a `[[…]]` entry, or by itself.
    pub fn any_key(&self, key: &Value, path: &Path, errors: &mut Errors) -> Option<Key> {
        if is_scalar(self.key) {
            self.scalar_key(Written::Value(key.get_ref()), key.span().start, path, errors)
        } else {
            Some((self.numbers(self.key, key, path, errors)?, None))
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
        let names: Vec<&str> = layout.fields.iter().map(|field| field.name.as_str()).collect();
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
        for field in &layout.fields {
            let value = fields.get(field.name.as_str())?;
            numbers.extend(one(field, value, &path.key(&field.name), errors));
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
    let fields: Vec<String> = layout.fields.iter().map(|field| format!("{} = …", field.name)).collect();
    format!("{{ {} }}", fields.join(", "))
}
