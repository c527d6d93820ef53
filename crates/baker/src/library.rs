//! The Baker library, `lib/` of the repository, built into the program.

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

/// Loads library files only.
#[derive(Debug, Default)]
pub struct Library;

impl Loader for Library {
    fn load(&self, _from: &str, path: &str) -> Option<(String, String)> {
        file(path)
    }
}
