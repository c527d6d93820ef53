//! Reads case files.

use std::path::{Path as FilePath, PathBuf};

use baker::ir::{Program, TableEntry, TableId};

use super::case::Case;
use super::step::Reader;
use crate::applications::Applications;
use crate::config::{Config, ports};
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
        error: std::io::Error,
    },
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

/// Reads a case file for a program, and the configuration that it names; `applications` read the settings of
/// controllers.
pub fn load(file: &FilePath, program: &Program, applications: Applications) -> Result<Case, LoadError> {
    let read = |path: &FilePath| {
        std::fs::read_to_string(path).map_err(|error| LoadError::Read { path: path.to_owned(), error })
    };
    let (name, text) = (file.display().to_string(), read(file)?);
    let mut errors = Errors::new(&name, &text);
    let root = document::root(&text, &mut errors);
    if !errors.is_empty() {
        return Err(LoadError::Wrong(errors.finish()));
    }
    let path = Path::Root;
    let default = format!("../{}.toml", program.name);
    let accepted = format!("the path of a configuration, such as {default:?}, relative to this file");
    let given = match root.get("config") {
        Some(value) => document::string(value, &path.key("config"), &accepted, &mut errors),
        None => Some(default.as_str()),
    };
    let Some(given) = given else { return Err(LoadError::Wrong(errors.finish())) };
    let config = file.parent().unwrap_or(FilePath::new("")).join(given);
    let (name, text_of_config) = (config.display().to_string(), read(&config)?);
    let config = Config::parse(&name, &text_of_config, program, applications).map_err(LoadError::Wrong)?;
    let mut case = Case::new(file.to_owned(), config, program);
    contents(&root, &mut case, &text, (program, applications), &mut errors);
    if errors.is_empty() { Ok(case) } else { Err(LoadError::Wrong(errors.finish())) }
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
    if let Some(value) = root.get("controllers") {
        // Whether rules are well chosen is not the case's matter.
        let mut warnings = Errors::new("", text);
        case.controllers = applications.read(program, &case.ports, text, value, errors, &mut warnings);
    }
    if let Some(value) = root.get("ports") {
        mtus(value, &path.key("ports"), case, program, errors);
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
            document::only(after, &path, &["tables", "entries"], errors);
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

/// `PORT.mtu = bytes`.
fn mtus(value: &Value, path: &Path, case: &mut Case, program: &Program, errors: &mut Errors) {
    for (name, value) in document::table(value, path, errors).into_iter().flatten() {
        let (path, at) = (path.key(name.get_ref()), name.span().start);
        let Some(number) = case.ports.number(name.get_ref()) else {
            let problem = format!("there is no such port{}", did_you_mean(name.get_ref(), case.ports.names()));
            errors.add(at, &path, problem, list(case.ports.names()));
            continue;
        };
        let Some(table) = document::table(value, &path, errors) else { continue };
        document::only(table, &path, &["mtu"], errors);
        let mtu = table.get("mtu").and_then(|mtu| ports::mtu(mtu, &path.key("mtu"), errors));
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
