//! One entry of a table by itself, as a running instance is asked for it: the notation of the configuration, in JSON.
//!
//! A key or value is JSON that says what the TOML of the configuration says: `"10.0.1.0/24"`, `3`,
//! `{"domain": 1, "gateway": "0.0.0.0", "src": "02:00:00:00:01:01"}`. It is read by the reader of the configuration, so
//! whatever stands in a file may be asked for and set, and the errors are the same.

use std::fmt;
use std::sync::Arc;

use baker::ir::arith::mask;
use baker::ir::{Layout, LayoutField, Program, TableEntry, TableError, TableId, TableKind};
use serde_json::{Map, Value as Json, json};
use toml::Spanned;
use toml::de::{DeString, DeTable, DeValue};

use super::names::PortNames;
pub use super::tables::Key;
use super::tables::{Reader, is_defined, is_scalar};
use super::value::{address, literal};
use crate::document::{self, Errors, Path};
use crate::messages::{did_you_mean, list};

/// Which part of a request for an entry is wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EntryFault {
    /// There is no such table.
    Table,
    /// Not a key of the table.
    Key,
    /// Not a value of the table.
    Value,
    /// The table has no such entry.
    NotFound,
    /// The table has no room.
    Full,
    /// Not now.
    Busy,
}

/// Why an entry can't be had or changed. Shows as one line that names the table, the key, and what is accepted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EntryError {
    /// What is wrong.
    pub fault: EntryFault,
    text: String,
}

impl fmt::Display for EntryError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl std::error::Error for EntryError {}

/// Reads and shows the entries of a program's tables.
#[derive(Clone, Debug)]
pub struct Notation {
    program: Arc<Program>,
    ports: PortNames,
}

impl Notation {
    /// For a program that runs between these ports.
    pub fn new(program: Arc<Program>, ports: PortNames) -> Self {
        Notation { program, ports }
    }

    /// Names of the ports.
    pub fn ports(&self) -> &PortNames {
        &self.ports
    }

    /// The table of this name, `MODULE.TABLE`.
    pub fn table(&self, name: &str) -> Result<TableId, EntryError> {
        let names = || self.program.tables.iter().map(|table| table.name.as_str());
        names().position(|known| known == name).map(|index| TableId(index as u32)).ok_or_else(|| {
            let known = if self.program.tables.is_empty() {
                "the program has no tables".to_string()
            } else {
                format!("accepted: {}", list(names()))
            };
            let text = format!("there is no table {name:?}{}; {known}", did_you_mean(name, names()));
            EntryError { fault: EntryFault::Table, text }
        })
    }

    /// Reads a key.
    pub fn key(&self, table: TableId, key: &Json) -> Result<Key, EntryError> {
        self.read(table, key, EntryFault::Key, key, |reader, value, path, errors| reader.any_key(value, path, errors))
    }

    /// The group that somebody joins by this key, which names no member: `{ group = 3 }`, or the number alone.
    pub fn joined(&self, table: TableId, key: &Json) -> Result<Option<u32>, EntryError> {
        let has_groups = self.program.tables[table.0 as usize].group.is_some();
        let mut key = match key {
            Json::Object(fields) if has_groups && !fields.contains_key("member") => key.clone(),
            Json::Number(_) if has_groups => json!({ "group": key }),
            _ => return Ok(None),
        };
        // Any number will do: the one that is free is not known yet.
        key["member"] = 0.into();
        let (numbers, _) = self.key(table, &key)?;
        Ok(numbers.first().map(|group| *group as u32))
    }

    /// Reads the value for a key.
    pub fn value(&self, table: TableId, key: &Json, value: &Json) -> Result<Vec<u128>, EntryError> {
        self.read(table, key, EntryFault::Value, value, |reader, value, path, errors| {
            reader.numbers(&reader.value, value, path, errors)
        })
    }

    /// Reads an address where a longest prefix is looked for: the key of an `lpm` table without a length.
    pub fn address(&self, table: TableId, key: &Json) -> Option<u128> {
        let layout = &self.program.layouts[self.program.tables[table.0 as usize].key.0 as usize];
        let is_lpm = self.program.tables[table.0 as usize].kind == TableKind::Lpm;
        let (negative, address) = literal(layout.fields[0].width, key.as_str().filter(|_| is_lpm)?)?;
        (!negative && address <= mask(layout.fields[0].width)).then_some(address)
    }

    /// Where the table's values are keys of another one, that table has this one: `of` gives the values of its entries.
    pub fn leads(
        &self,
        table: TableId,
        key: &Json,
        value: &[u128],
        of: impl FnOnce(TableId, u128) -> Option<Vec<u128>>,
    ) -> Result<(), EntryError> {
        let Some((into, number)) = self.program.tables[table.0 as usize].into.zip(value.first().copied()) else {
            return Ok(());
        };
        let target = &self.program.tables[into.0 as usize];
        if of(into, number).is_some_and(|found| is_defined(target, &found)) {
            return Ok(());
        }
        let text = format!("key {}: value {number}: {} has no such entry; set that first", text(key), target.name);
        Err(self.error(table, EntryFault::Value, text))
    }

    /// What to say when the control plane is to change a table of the language's own.
    pub fn may_change(&self, table: TableId) -> Result<(), EntryError> {
        if self.program.tables[table.0 as usize].hold.is_some() {
            return Err(self.error(
                table,
                EntryFault::Table,
                "it holds packets, which only the program puts there".into(),
            ));
        }
        match self.program.tables[table.0 as usize].is_of_language() {
            true => {
                Err(self.error(table, EntryFault::Table, "it is read from the interfaces, and `mtu` of [ports]".into()))
            }
            false => Ok(()),
        }
    }

    /// What to say when the table refuses.
    pub fn refused(&self, table: TableId, key: &Json, error: TableError) -> EntryError {
        let capacity = self.program.tables[table.0 as usize].capacity;
        let (fault, more) = match error {
            TableError::Full => (EntryFault::Full, format!("; it is declared with {capacity} entries")),
            TableError::NotFound => (EntryFault::NotFound, String::new()),
            TableError::OutOfRange | TableError::BadPrefix => (EntryFault::Key, String::new()),
            TableError::Busy => (EntryFault::Busy, String::new()),
        };
        self.error(table, fault, format!("key {}: {error}{more}", text(key)))
    }

    /// An entry's key as JSON.
    pub fn show_key(&self, table: TableId, entry: &TableEntry) -> Json {
        let table = &self.program.tables[table.0 as usize];
        let layout = &self.program.layouts[table.key.0 as usize];
        match (table.kind, entry.prefix_len) {
            (TableKind::Lpm, Some(len)) => {
                let prefix = entry.key.first().copied().unwrap_or(0);
                let prefix = match layout.fields[0].width {
                    128 => std::net::Ipv6Addr::from(prefix).to_string(),
                    32 => std::net::Ipv4Addr::from(prefix as u32).to_string(),
                    _ => format!("{prefix:#x}"),
                };
                format!("{prefix}/{len}").into()
            }
            _ => show(layout, &entry.key),
        }
    }

    /// A value as JSON.
    pub fn show_value(&self, table: TableId, value: &[u128]) -> Json {
        let table = &self.program.tables[table.0 as usize];
        show(&self.program.shown_value(table), value)
    }

    /// Reads JSON with a reader of the configuration.
    fn read<T>(
        &self,
        table: TableId,
        key: &Json,
        fault: EntryFault,
        json: &Json,
        read: impl FnOnce(&Reader, &document::Value, &Path, &mut Errors) -> Option<T>,
    ) -> Result<T, EntryError> {
        let what = if fault == EntryFault::Value { "value" } else { "key" };
        // The fault's own place comes first, then the key that it belongs to.
        let error = |problem: String| {
            let about = if fault == EntryFault::Value { format!("key {}: ", text(key)) } else { String::new() };
            self.error(table, fault, format!("{about}{problem}"))
        };
        let mut toml = format!("{what} = ");
        write_toml(json, &mut toml).map_err(|problem| error(format!("{what}: {problem}")))?;
        let mut errors = Errors::new("", &toml);
        let root = document::root(&toml, &mut errors);
        let reader = Reader::new(&self.program, &self.program.tables[table.0 as usize], &self.ports);
        let (path, mut result) = (Path::Root, None);
        if let Some(value) = root.get(what) {
            result = read(&reader, value, &path.key(what), &mut errors);
        }
        match (result, errors.finish().into_iter().next()) {
            (Some(result), None) => Ok(result),
            (_, Some(first)) => {
                let at = if first.path == what { format!("{what} {}", text(json)) } else { first.path };
                let accepted =
                    if first.accepted.is_empty() { String::new() } else { format!("; accepted: {}", first.accepted) };
                Err(error(format!("{at}: {}{accepted}", first.problem)))
            }
            (None, None) => Err(error(format!("{what}: cannot be read"))),
        }
    }

    fn error(&self, table: TableId, fault: EntryFault, text: String) -> EntryError {
        let name = &self.program.tables[table.0 as usize].name;
        EntryError { fault, text: format!("table {name}: {text}") }
    }
}

/// What was typed as a key or value: TOML as in the configuration, or text without quotes such as `10.0.0.1`.
pub fn typed(text: &str) -> Json {
    let text = text.trim();
    let toml = format!("typed = {text}");
    let table = DeTable::parse(&toml).ok().filter(|table| table.get_ref().len() == 1);
    let value = table.as_ref().and_then(|table| table.get_ref().get("typed"));
    value.and_then(|value| json(value.get_ref())).unwrap_or_else(|| text.into())
}

/// A key or value as it may be typed: TOML, but without quotes where it is text alone.
pub fn text(json: &Json) -> String {
    let mut out = String::new();
    match json {
        Json::String(text) if typed(text) == *json && !text.contains(char::is_control) => text.clone(),
        // What JSON has and TOML has not is only ever shown in an error.
        _ if write_toml(json, &mut out).is_err() => json.to_string(),
        _ => out,
    }
}

/// TOML as JSON; nothing for what no table holds, such as dates.
fn json(value: &DeValue) -> Option<Json> {
    Some(match value {
        DeValue::String(text) => text.as_ref().into(),
        DeValue::Integer(integer) => {
            let (negative, digits) = match integer.as_str().strip_prefix('-') {
                Some(digits) => (true, digits),
                None => (false, integer.as_str()),
            };
            signed(negative, u128::from_str_radix(digits, integer.radix()).ok()?)
        }
        DeValue::Boolean(value) => (*value).into(),
        DeValue::Array(values) => Json::Array(values.iter().map(|v| json(v.get_ref())).collect::<Option<_>>()?),
        DeValue::Table(fields) => {
            let field = |(name, value): (&Spanned<DeString>, &document::Value)| {
                Some((name.get_ref().to_string(), json(value.get_ref())?))
            };
            Json::Object(fields.iter().map(field).collect::<Option<Map<_, _>>>()?)
        }
        DeValue::Float(_) | DeValue::Datetime(_) => return None,
    })
}

/// A number; what JSON's may not hold as hexadecimal text.
fn signed(negative: bool, size: u128) -> Json {
    let sign = if negative { "-" } else { "" };
    let number = match negative {
        false => u64::try_from(size).ok().map(Json::from),
        true => i64::try_from(size).ok().map(|size| (-size).into()),
    };
    number.unwrap_or_else(|| format!("{sign}{size:#x}").into())
}

fn write_toml(json: &Json, out: &mut String) -> Result<(), &'static str> {
    // TOML's strings are JSON's, but for one character (TOML 1.0, "String").
    let quoted = |text: &str| Json::from(text).to_string().replace('\u{7f}', "\\u007F");
    match json {
        Json::Null => return Err("null means nothing here"),
        Json::Bool(value) => *out += &value.to_string(),
        Json::Number(number) => *out += &number.to_string(),
        Json::String(text) => *out += &quoted(text),
        Json::Array(values) => {
            *out += "[";
            for (index, value) in values.iter().enumerate() {
                *out += if index > 0 { ", " } else { "" };
                write_toml(value, out)?;
            }
            *out += "]";
        }
        Json::Object(fields) if fields.is_empty() => *out += "{}",
        Json::Object(fields) => {
            for (index, (name, value)) in fields.iter().enumerate() {
                let bare = !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
                *out += if index > 0 { ", " } else { "{ " };
                *out += &if bare { name.clone() } else { quoted(name) };
                *out += " = ";
                write_toml(value, out)?;
            }
            *out += " }";
        }
    }
    Ok(())
}

fn show(layout: &Layout, numbers: &[u128]) -> Json {
    if is_scalar(layout) {
        return layout.fields.first().zip(numbers.first()).map_or(Json::Null, |(field, value)| number(field, *value));
    }
    let mut numbers = numbers.iter().copied();
    let members = layout.members().into_iter().map(|member| {
        let mut values = member.fields.iter().zip(&mut numbers).map(|(field, value)| number(field, value));
        let value = match member.is_array {
            true => Json::Array(values.collect()),
            false => values.next().unwrap_or(Json::Null),
        };
        (member.name.to_string(), value)
    });
    Json::Object(members.collect())
}

/// One number as the configuration would have it.
fn number(field: &LayoutField, value: u128) -> Json {
    if let Some((name, _)) = field.names.iter().find(|(_, named)| *named == value) {
        return match name.as_str() {
            "true" => true.into(),
            "false" => false.into(),
            name => name.into(),
        };
    }
    if let Some(address) = address(field.width, &field.type_name, value) {
        return address.into();
    }
    let most = mask(field.width);
    let negative = field.signed && value > most >> 1;
    signed(negative, if negative { (most - value) + 1 } else { value })
}
