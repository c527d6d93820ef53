//! The Baker library, `lib/` of the repository, built into the program.

use std::path::Path;

use include_dir::{Dir, include_dir};

use crate::source::Loader;

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
