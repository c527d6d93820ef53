//! Reads case files.

use std::io;
use std::path::{Path as FilePath, PathBuf};

use baker::ir::{CounterId, DEFAULT_MTU, Program, TableEntry, TableId};

use super::case::Case;
use super::step::Reader;
use crate::applications::Applications;
use crate::config::{Config, ports as config_ports};
use crate::document::{self, ConfigError, Errors, Path, Table, Value};
use crate::entries::tables;
use crate::messages::{did_you_mean, list};
use crate::packet::Definitions;

/// Why there is no case.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    /// A file could not be read.
    #[error("{}: {error}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// What the system said.
        error: io::Error,
    },
    /// A folder holds no case file.
    #[error("{}: holds no case: no file in it ends with .toml", .0.display())]
    None(PathBuf),
    /// The case file or its configuration is wrong; one line for each error.
    #[error("{}", .0.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n"))]
    Wrong(Vec<ConfigError>),
}

/// The case files of a folder, by name.
pub fn files(folder: &FilePath) -> Result<Vec<PathBuf>, LoadError> {
    let fault = |error| LoadError::Read { path: folder.to_owned(), error };
    let mut files = Vec::new();
    for entry in std::fs::read_dir(folder).map_err(fault)? {
        let path = entry.map_err(fault)?.path();
        if path.extension().is_some_and(|extension| extension == "toml") {
            files.push(path);
        }
    }
    files.sort();
    Ok(files)
}

/// Reads case files for a program.
pub struct Loader<'l> {
    /// The program.
    pub program: &'l Program,
    /// They read the settings of controllers.
    pub applications: Applications,
    /// Reads a file.
    pub read: &'l dyn Fn(&FilePath) -> io::Result<String>,
    /// Name and text of the configuration of cases that name none, and beside whose folder there is none.
    pub config: Option<(String, String)>,
}

/// Reads a case file for a program, and the configuration that it names; `applications` read the settings of
/// controllers.
pub fn load(file: &FilePath, program: &Program, applications: Applications) -> Result<Case, LoadError> {
    Loader { program, applications, read: &|path| std::fs::read_to_string(path), config: None }.load(file)
}

/// As [`load`], all case files of a folder. A folder without any is an error.
pub fn load_all(folder: &FilePath, program: &Program, applications: Applications) -> Result<Vec<Case>, LoadError> {
    let files = files(folder)?;
    if files.is_empty() {
        return Err(LoadError::None(folder.to_owned()));
    }
    files.iter().map(|file| load(file, program, applications)).collect()
}

impl Loader<'_> {
    /// Reads a case file, and the configuration that it is for.
    pub fn load(&self, file: &FilePath) -> Result<Case, LoadError> {
        let fault = |path: &FilePath, error| LoadError::Read { path: path.to_owned(), error };
        let text = (self.read)(file).map_err(|error| fault(file, error))?;
        let name = file.display().to_string();
        let mut errors = Errors::new(&name, &text);
        let root = document::root(&text, &mut errors);
        if !errors.is_empty() {
            return Err(LoadError::Wrong(errors.finish()));
        }
        let (name, text_of_config) = match root.get("config") {
            Some(value) => {
                let accepted =
                    format!("the path of a configuration, such as {:?}, relative to this file", self.usual());
                let path = Path::Root;
                let Some(given) = document::string(value, &path.key("config"), &accepted, &mut errors) else {
                    return Err(LoadError::Wrong(errors.finish()));
                };
                let path = beside(file, given);
                ((path.display().to_string()), (self.read)(&path).map_err(|error| fault(&path, error))?)
            }
            None => {
                let path = beside(file, &self.usual());
                match (self.read)(&path) {
                    Ok(text) => (path.display().to_string(), text),
                    // A program need not have one.
                    Err(error) if error.kind() == io::ErrorKind::NotFound => self.config.clone().unwrap_or_default(),
                    Err(error) => return Err(fault(&path, error)),
                }
            }
        };
        let config =
            Config::parse(&name, &text_of_config, self.program, self.applications).map_err(LoadError::Wrong)?;
        let mut case = Case::new(file.to_owned(), text.clone(), config, self.program);
        contents(&root, &mut case, &text, (self.program, self.applications), &mut errors);
        if errors.is_empty() { Ok(case) } else { Err(LoadError::Wrong(errors.finish())) }
    }

    /// The configuration of cases that name none.
    fn usual(&self) -> String {
        format!("../{}.toml", self.program.name)
    }
}

/// A path that is relative to a file.
fn beside(file: &FilePath, path: &str) -> PathBuf {
    file.parent().unwrap_or(FilePath::new("")).join(path)
}

/// All but the configuration.
fn contents(
    root: &Table,
    case: &mut Case,
    text: &str,
    (program, applications): (&Program, Applications),
    errors: &mut Errors,
) {
    let path = Path::Root;
    document::only(
        root,
        &path,
        &["description", "config", "define", "externs", "controllers", "ports", "tables", "step", "after"],
        errors,
    );
    match root.get("description") {
        Some(value) => {
            let what = "a sentence that says what the case shows";
            let description = document::string(value, &path.key("description"), what, errors);
            case.description = description.unwrap_or_default().to_owned();
        }
        None => errors.add(0, &path.key("description"), "is missing", "a sentence that says what the case shows"),
    }
    if let Some(value) = root.get("ports") {
        ports(value, &path.key("ports"), case, program, errors);
    }
    if let Some(value) = root.get("controllers") {
        // Whether rules are well chosen is not the case's matter.
        let mut warnings = Errors::new("", text);
        case.controllers = applications.read(program, &case.ports, text, value, errors, &mut warnings);
    }
    if let Some(value) = root.get("tables") {
        case.entries.extend(tables::read(program, &case.ports, value, &path.key("tables"), errors));
    }
    if let Some(value) = root.get("externs") {
        case.externs = externs(value, &path.key("externs"), program, errors);
    }
    if let Some(value) = root.get("after") {
        let path = path.key("after");
        if let Some(after) = document::table(value, &path, errors) {
            document::only(after, &path, &["tables", "entries", "counters"], errors);
            if let Some(value) = after.get("counters") {
                case.counters = counters(value, &path.key("counters"), program, errors);
            }
            if let Some(value) = after.get("entries") {
                case.sizes = sizes(value, &path.key("entries"), program, errors);
            }
            if let Some(value) = after.get("tables") {
                case.after = tables::read(program, &case.ports, value, &path.key("tables"), errors);
            }
        }
    }
    let definitions = definitions(root.get("define"), program, errors);
    let Some(value) = root.get("step") else {
        return errors.add(0, &path.key("step"), "there is no step", "at least one [[step]] with `in` or `wait`");
    };
    let path = path.key("step");
    let reader = Reader { program, definitions, ports: &case.ports };
    for (index, value) in document::array(value, &path, errors).unwrap_or(&[]).iter().enumerate() {
        let line = text[..value.span().start].matches('\n').count() + 1;
        if let Some(step) = reader.step(value, line, &path.index(index), errors) {
            case.steps.push(step);
        }
    }
}

/// `PORT.mtu = bytes`; of a port that the configuration has not, `PORT.number = number`.
fn ports(value: &Value, path: &Path, case: &mut Case, program: &Program, errors: &mut Errors) {
    for (name, value) in document::table(value, path, errors).into_iter().flatten() {
        let (path, at) = (path.key(name.get_ref()), name.span().start);
        let own = value.get_ref().as_table().and_then(|table| table.get("number"));
        let known = case.ports.number(name.get_ref());
        let number = match (known, own) {
            (Some(number), None) => number,
            (Some(number), Some(own)) => {
                let problem = format!("the configuration has this port, with number {number}");
                errors.add(own.span().start, &path.key("number"), problem, "a number of ports that it has not");
                continue;
            }
            (None, Some(own)) => {
                let path = path.key("number");
                let Some(number) = document::integer(own, &path, 1, u8::MAX.into(), errors) else { continue };
                if let Some(other) = case.ports.name(number as u8) {
                    errors.add(own.span().start, &path, format!("this is the number of port {other}"), "another one");
                    continue;
                }
                case.ports.add(name.get_ref(), number as u8);
                number as u8
            }
            (None, None) => {
                let problem = format!("there is no such port{}", did_you_mean(name.get_ref(), case.ports.names()));
                let accepted = format!("{}; or a new one: {{ number = 1 }}", list(case.ports.names()));
                errors.add(at, &path, problem, accepted);
                continue;
            }
        };
        let Some(table) = document::table(value, &path, errors) else { continue };
        document::only(table, &path, &["mtu", "number"], errors);
        let mtu = table.get("mtu").and_then(|mtu| config_ports::mtu(mtu, &path.key("mtu"), errors));
        let mtu = mtu.or((known.is_none()).then_some(DEFAULT_MTU));
        if let Some((table, mtu)) = program.port_mtus().zip(mtu) {
            let entry = TableEntry { key: vec![number.into()], prefix_len: None, value: vec![mtu.into()] };
            case.entries.push((table, entry));
        }
    }
}

/// `MODULE.FUNCTION = what it gives`.
fn externs(value: &Value, path: &Path, program: &Program, errors: &mut Errors) -> Vec<(String, u64)> {
    let mut externs = Vec::new();
    for (module, value) in document::table(value, path, errors).into_iter().flatten() {
        let path = path.key(module.get_ref());
        for (function, value) in document::table(value, &path, errors).into_iter().flatten() {
            let (name, path) = (format!("{}.{}", module.get_ref(), function.get_ref()), path.key(function.get_ref()));
            let names = || program.externs.iter().map(|function| function.name.as_str());
            if !names().any(|known| known == name) {
                let problem = format!("there is no function {name}{}", did_you_mean(&name, names()));
                errors.add(function.span().start, &path, problem, list(names()));
                continue;
            }
            let number = document::integer(value, &path, 0, i64::MAX as u64, errors);
            externs.extend(number.map(|number| (name, number)));
        }
    }
    externs
}

/// `MODULE.TABLE = number of entries`.
fn sizes(value: &Value, path: &Path, program: &Program, errors: &mut Errors) -> Vec<(TableId, usize)> {
    let mut sizes = Vec::new();
    for (module, value) in document::table(value, path, errors).into_iter().flatten() {
        let path = path.key(module.get_ref());
        for (table, value) in document::table(value, &path, errors).into_iter().flatten() {
            let (name, path) = (format!("{}.{}", module.get_ref(), table.get_ref()), path.key(table.get_ref()));
            let names = || program.tables.iter().map(|table| table.name.as_str());
            let Some(id) = names().position(|known| known == name) else {
                let problem = format!("there is no table {name}{}", did_you_mean(&name, names()));
                errors.add(table.span().start, &path, problem, list(names()));
                continue;
            };
            let size = document::integer(value, &path, 0, program.tables[id].capacity.into(), errors);
            sizes.extend(size.map(|size| (TableId(id as u32), size as usize)));
        }
    }
    sizes
}

/// `MODULE.COUNTER = number`; of one with several cells, `MODULE.COUNTER = { CELL = number }`.
fn counters(value: &Value, path: &Path, program: &Program, errors: &mut Errors) -> Vec<(CounterId, u32, u64)> {
    let mut counters = Vec::new();
    for (module, value) in document::table(value, path, errors).into_iter().flatten() {
        let path = path.key(module.get_ref());
        for (counter, value) in document::table(value, &path, errors).into_iter().flatten() {
            let (name, path) = (format!("{}.{}", module.get_ref(), counter.get_ref()), path.key(counter.get_ref()));
            let names = || program.counters.iter().map(|counter| counter.name.as_str());
            let Some(index) = names().position(|known| known == name) else {
                let problem = format!("there is no counter {name}{}", did_you_mean(&name, names()));
                errors.add(counter.span().start, &path, problem, list(names()));
                continue;
            };
            let (id, size) = (CounterId(index as u32), program.counters[index].size);
            if size == 1 {
                let number = document::integer(value, &path, 0, i64::MAX as u64, errors);
                counters.extend(number.map(|number| (id, 0, number)));
                continue;
            }
            for (cell, value) in document::table(value, &path, errors).into_iter().flatten() {
                let path = path.key(cell.get_ref());
                match cell.get_ref().parse::<u32>().ok().filter(|cell| *cell < size) {
                    Some(cell) => {
                        let number = document::integer(value, &path, 0, i64::MAX as u64, errors);
                        counters.extend(number.map(|number| (id, cell, number)));
                    }
                    None => {
                        let accepted = format!("a number from 0 to {}", size - 1);
                        errors.add(cell.span().start, &path, "this is no cell of the counter", accepted);
                    }
                }
            }
        }
    }
    counters
}

fn definitions(value: Option<&Value>, program: &Program, errors: &mut Errors) -> Definitions {
    let root = Path::Root;
    let (path, mut definitions) = (root.key("define"), Definitions::new());
    let Some(table) = value.and_then(|value| document::table(value, &path, errors)) else { return definitions };
    for (key, value) in table {
        let name: &str = key.get_ref();
        let path = path.key(name);
        let letters = |c: char| c.is_ascii_alphanumeric() || c == '_';
        if name.is_empty() || name.starts_with(|c: char| c.is_ascii_digit()) || !name.chars().all(letters) {
            let accepted = "letters, digits and `_`, no digit first";
            errors.add(key.span().start, &path, "packet text can't name this", accepted);
            continue;
        }
        if program.protocols.iter().any(|protocol| protocol.name == name) {
            errors.add(key.span().start, &path, "this is the name of a protocol", "another name");
            continue;
        }
        if let Some(text) = document::string(value, &path, "packet text, or a value of a field", errors) {
            definitions.insert(name.to_owned(), text.to_owned());
        }
    }
    definitions
}
