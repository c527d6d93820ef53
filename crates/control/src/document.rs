//! Reads a TOML document and keeps where everything stands, so that each error can name its line and key.

mod error;

use std::fmt;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

pub use self::error::ConfigError;
use crate::messages::{did_you_mean, list};

/// Errors kept of one file: a generated file with a million wrong lines must not flood the reader.
const MAX_ERRORS: usize = 100;

/// A value with its place.
pub type Value<'t> = Spanned<DeValue<'t>>;
/// A table of values with their places. Keys come in alphabetical order.
pub type Table<'t> = DeTable<'t>;

/// Where in the document something is: keys from the root to it. Costs nothing until it is shown.
#[derive(Clone, Copy)]
pub enum Path<'p> {
    /// The whole document.
    Root,
    /// The value of a key.
    Key(&'p Path<'p>, &'p str),
    /// A value of a list, counted from 0.
    Index(&'p Path<'p>, usize),
}

impl<'p> Path<'p> {
    /// The value of a key here.
    pub fn key(&'p self, key: &'p str) -> Path<'p> {
        Path::Key(self, key)
    }

    /// The value at a place of this list.
    pub fn index(&'p self, index: usize) -> Path<'p> {
        Path::Index(self, index)
    }
}

impl fmt::Display for Path<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Path::Root => Ok(()),
            Path::Key(parent, key) => {
                parent.fmt(f)?;
                if !matches!(parent, Path::Root) {
                    f.write_str(".")?;
                }
                let bare = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
                if !key.is_empty() && key.chars().all(bare) { f.write_str(key) } else { write!(f, "{key:?}") }
            }
            Path::Index(parent, index) => write!(f, "{parent}[{index}]"),
        }
    }
}

/// The errors found so far in one file.
pub struct Errors<'t> {
    file: &'t str,
    text: &'t str,
    list: Vec<(usize, ConfigError)>,
}

impl<'t> Errors<'t> {
    /// None yet.
    pub fn new(file: &'t str, text: &'t str) -> Self {
        Errors { file, text, list: Vec::new() }
    }

    /// Adds an error at a byte offset. `accepted` may be empty where the problem says it all.
    pub fn add(&mut self, at: usize, path: &Path, problem: impl Into<String>, accepted: impl Into<String>) {
        if self.list.len() >= MAX_ERRORS {
            return;
        }
        let at = self.text.floor_char_boundary(at.min(self.text.len()));
        let before = &self.text[..at];
        let line_start = before.rfind('\n').map_or(0, |newline| newline + 1);
        let error = ConfigError {
            file: self.file.to_owned(),
            line: self.line(at),
            column: before[line_start..].chars().count() + 1,
            path: path.to_string(),
            problem: problem.into(),
            accepted: accepted.into(),
        };
        self.list.push((at, error));
    }

    /// The line of a byte offset, counted from 1.
    pub fn line(&self, at: usize) -> usize {
        self.text.as_bytes()[..at.min(self.text.len())].iter().filter(|byte| **byte == b'\n').count() + 1
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    /// The errors in the order of the text.
    pub fn finish(mut self) -> Vec<ConfigError> {
        self.list.sort_by_key(|(at, _)| *at);
        self.list.into_iter().map(|(_, error)| error).collect()
    }
}

/// The root table. Where the text is not TOML, that is all that is reported.
pub fn root<'t>(text: &'t str, errors: &mut Errors) -> Table<'t> {
    let (table, faults) = DeTable::parse_recoverable(text);
    for fault in faults {
        let at = fault.span().map_or(0, |span| span.start);
        // Which one it is the parser says by its place alone.
        let key = fault.span().and_then(|span| text.get(span)).filter(|_| fault.message() == "duplicate key");
        let key = key.map_or(String::new(), |key| format!(" `{key}`"));
        errors.add(at, &Path::Root, format!("not TOML: {}{key}", fault.message()), "");
    }
    table.into_inner()
}

/// Reports keys that mean nothing here.
pub fn only(table: &Table, path: &Path, known: &[&str], errors: &mut Errors) {
    for key in table.keys() {
        let name: &str = key.get_ref();
        if !known.contains(&name) {
            let hint = did_you_mean(name, known.iter().copied());
            let accepted = list(known.iter().copied());
            errors.add(key.span().start, &path.key(name), format!("unknown key{hint}"), accepted);
        }
    }
}

/// What a value is, for messages.
pub fn kind(value: &DeValue) -> &'static str {
    match value {
        DeValue::String(_) => "a string",
        DeValue::Integer(_) => "an integer",
        DeValue::Float(_) => "a number with a fraction",
        DeValue::Boolean(_) => "true or false",
        DeValue::Datetime(_) => "a date",
        DeValue::Array(_) => "a list",
        DeValue::Table(_) => "a table",
    }
}

/// The value as a table, or an error.
pub fn table<'v, 't>(value: &'v Value<'t>, path: &Path, errors: &mut Errors) -> Option<&'v Table<'t>> {
    let table = value.get_ref().as_table();
    if table.is_none() {
        wrong_kind(value, path, &format!("a table: write [{path}], or {{ … }}"), errors);
    }
    table
}

/// The value as a list, or an error.
pub fn array<'v, 't>(value: &'v Value<'t>, path: &Path, errors: &mut Errors) -> Option<&'v [Value<'t>]> {
    let array = value.get_ref().as_array().map(|array| &array[..]);
    if array.is_none() {
        wrong_kind(value, path, &format!("a list: write [[{path}]], or [ … ]"), errors);
    }
    array
}

/// The value as a string, or an error that says what the string is to hold.
pub fn string<'v>(value: &'v Value, path: &Path, accepted: &str, errors: &mut Errors) -> Option<&'v str> {
    let text = value.get_ref().as_str();
    if text.is_none() {
        wrong_kind(value, path, accepted, errors);
    }
    text
}

/// What a value's text stands for, or an error.
pub fn parsed<T>(
    value: &Value,
    path: &Path,
    accepted: &str,
    errors: &mut Errors,
    parse: impl Fn(&str) -> Option<T>,
) -> Option<T> {
    let text = string(value, path, accepted, errors)?;
    let found = parse(text);
    if found.is_none() {
        errors.add(value.span().start, path, format!("{text:?} is none"), accepted);
    }
    found
}

/// The text at a key, where the key is there; an empty one is an error.
pub fn text_at(table: &Table, path: &Path, key: &str, accepted: &str, errors: &mut Errors) -> Option<String> {
    let (value, path) = (table.get(key)?, path.key(key));
    let text = string(value, &path, accepted, errors)?;
    if text.is_empty() {
        errors.add(value.span().start, &path, "this is empty", accepted);
    }
    Some(text.to_owned())
}

/// The value as true or false, or an error.
pub fn boolean(value: &Value, path: &Path, errors: &mut Errors) -> Option<bool> {
    let found = value.get_ref().as_bool();
    if found.is_none() {
        wrong_kind(value, path, "true or false", errors);
    }
    found
}

/// The value as an integer in a range, or an error.
pub fn integer(value: &Value, path: &Path, min: u64, max: u64, errors: &mut Errors) -> Option<u64> {
    let accepted = format!("an integer from {min} to {max}");
    let DeValue::Integer(integer) = value.get_ref() else {
        wrong_kind(value, path, &accepted, errors);
        return None;
    };
    let number = u64::from_str_radix(integer.as_str(), integer.radix()).ok();
    let inside = number.filter(|number| (min..=max).contains(number));
    if inside.is_none() {
        errors.add(value.span().start, path, format!("{integer} is out of range"), accepted);
    }
    inside
}

/// Adds that the value is of a wrong kind.
pub fn wrong_kind(value: &Value, path: &Path, accepted: &str, errors: &mut Errors) {
    errors.add(value.span().start, path, format!("this is {}", kind(value.get_ref())), accepted);
}
