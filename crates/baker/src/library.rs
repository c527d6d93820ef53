//! The Baker library, `lib/` of the repository, built into the program.

use std::collections::HashMap;
use std::path::Path;
use std::sync::OnceLock;

use include_dir::{Dir, include_dir};

use crate::source::{FileId, Loader};
use crate::syntax::{ast, parse};

static FILES: Dir = include_dir!("$CARGO_MANIFEST_DIR/../../lib");

/// The name to show and the text of a library file, such as `net/ether`.
pub fn file(path: &str) -> Option<(String, String)> {
    let text = FILES.get_file(format!("{path}.baker"))?.contents_utf8()?;
    Some((format!("lib/{path}.baker"), text.to_string()))
}

/// Paths of all library files, as they are imported.
pub fn paths() -> Vec<String> {
    let mut paths = Vec::new();
    let mut open = vec![&FILES];
    while let Some(dir) = open.pop() {
        open.extend(dir.dirs());
        paths.extend(dir.files().filter_map(|f| Some(f.path().to_str()?.strip_suffix(".baker")?.to_string())));
    }
    paths.sort();
    paths
}

/// The path of the library file that declares a name outside of modules.
pub fn declaring(name: &str) -> Option<&'static str> {
    static NAMES: OnceLock<HashMap<String, String>> = OnceLock::new();
    let names = NAMES.get_or_init(|| {
        let mut names = HashMap::new();
        for path in paths() {
            let Some((_, text)) = file(&path) else { continue };
            for name in parse(FileId(0), &text).tree().items().flat_map(|item| declared(&item)) {
                names.entry(name.text().to_string()).or_insert_with(|| path.clone());
            }
        }
        names
    });
    names.get(name).map(String::as_str)
}

/// The names that an item declares.
fn declared(item: &ast::Item) -> Vec<ast::Name> {
    match item {
        ast::Item::Const(item) => item.name().into_iter().collect(),
        ast::Item::Alias(item) => item.name().into_iter().collect(),
        ast::Item::Enum(item) => {
            let values = item.enumerators().filter_map(|value| value.name());
            item.name().into_iter().chain(values).collect()
        }
        ast::Item::Struct(item) => item.name().into_iter().collect(),
        ast::Item::Protocol(item) => item.name().into_iter().collect(),
        ast::Item::Module(item) => item.name().into_iter().collect(),
        ast::Item::Function(item) => item.name().into_iter().collect(),
        ast::Item::Reasons(item) => item.names().collect(),
        ast::Item::Import(_) | ast::Item::Metadata(_) | ast::Item::OutOfBody(_) | ast::Item::Program(_) => Vec::new(),
    }
}

/// Loads files beside the importing one, as the function reads them, else library files.
pub struct Beside<R>(pub R);

impl<R: Fn(&Path) -> Option<String>> Loader for Beside<R> {
    fn load(&self, from: &str, path: &str) -> Option<(String, String)> {
        let beside = Path::new(from).parent()?.join(format!("{path}.baker"));
        (self.0)(&beside).map(|text| (beside.display().to_string(), text)).or_else(|| file(path))
    }
}

/// Loads library files only.
#[derive(Debug, Default)]
pub struct Library;

impl Loader for Library {
    fn load(&self, _from: &str, path: &str) -> Option<(String, String)> {
        file(path)
    }
}
