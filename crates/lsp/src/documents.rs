//! Open documents, the files that they import, and the addresses of both.

use std::cell::RefCell;
use std::collections::HashMap;
use std::path::{Component, Path, PathBuf};
use std::str::FromStr;

use baker::library;
use baker::source::Loader;
use lsp_types::Uri;

/// The documents that are open in the editor, with their texts, by name.
///
/// The name of a document is its path, or its address if that is no path.
#[derive(Debug, Default)]
pub struct Documents {
    open: HashMap<String, (Uri, String)>,
}

impl Documents {
    /// Opens a document or changes its text.
    pub fn set(&mut self, uri: Uri, text: String) {
        self.open.insert(name(&uri), (uri, text));
    }

    /// Closes a document.
    pub fn close(&mut self, uri: &Uri) {
        self.open.remove(&name(uri));
    }

    /// The text of a document by its name.
    pub fn text(&self, name: &str) -> Option<&str> {
        Some(&self.open.get(name)?.1)
    }

    /// The addresses of all open documents, sorted.
    pub fn uris(&self) -> Vec<Uri> {
        let mut uris: Vec<Uri> = self.open.values().map(|(uri, _)| uri.clone()).collect();
        uris.sort();
        uris
    }

    /// The address of a file by its name: of an open document, a path, or a file of the library.
    pub fn uri(&self, name: &str) -> Option<Uri> {
        if let Some((uri, _)) = self.open.get(name) {
            return Some(uri.clone());
        }
        match name.starts_with('/') {
            true => path_uri(name),
            false => path_uri(library_path(name)?.to_str()?),
        }
    }
}

/// The name of the document at an address.
pub fn name(uri: &Uri) -> String {
    path(uri.as_str()).unwrap_or_else(|| uri.as_str().to_string())
}

/// The path of a `file:` address, if it is text.
fn path(uri: &str) -> Option<String> {
    let rest = uri.strip_prefix("file://")?;
    let encoded = &rest[rest.find('/')?..];
    let mut bytes = Vec::with_capacity(encoded.len());
    let mut rest = encoded.as_bytes();
    while let Some((&byte, more)) = rest.split_first() {
        rest = more;
        let hex = more.get(..2).and_then(|h| u8::from_str_radix(std::str::from_utf8(h).ok()?, 16).ok());
        match hex.filter(|_| byte == b'%') {
            Some(decoded) => {
                bytes.push(decoded);
                rest = &more[2..];
            }
            None => bytes.push(byte),
        }
    }
    let path = String::from_utf8(bytes).ok()?;
    normal(Path::new(&path)).to_str().map(str::to_owned)
}

/// The `file:` address of an absolute path.
fn path_uri(path: &str) -> Option<Uri> {
    let mut uri = String::from("file://");
    for byte in path.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'/' | b'-' | b'.' | b'_' | b'~' => uri.push(byte.into()),
            _ => uri.push_str(&format!("%{byte:02X}")),
        }
    }
    Uri::from_str(&uri).ok()
}

/// A path without `.` and `..`, as written: links are not followed.
fn normal(path: &Path) -> PathBuf {
    let mut normal = PathBuf::new();
    for component in path.components() {
        match component {
            Component::CurDir => {}
            Component::ParentDir => drop(normal.pop()),
            other => normal.push(other),
        }
    }
    normal
}

/// Where editors find a file of the library that is built in, such as `lib/net/ether.baker`: a copy in the user's cache
/// directory, written when it is first asked for.
fn library_path(name: &str) -> Option<PathBuf> {
    let import = name.strip_prefix("lib/")?.strip_suffix(".baker")?;
    let (_, text) = library::file(import)?;
    let cache = match std::env::var_os("XDG_CACHE_HOME").filter(|c| Path::new(c).is_absolute()) {
        Some(cache) => PathBuf::from(cache),
        None => PathBuf::from(std::env::var_os("HOME")?).join(".cache"),
    };
    let path = cache.join("millrace/library").join(format!("{import}.baker"));
    if std::fs::read_to_string(&path).is_ok_and(|found| found == text) {
        return Some(path);
    }
    std::fs::create_dir_all(path.parent()?).ok()?;
    std::fs::write(&path, text).ok()?;
    Some(path)
}

/// Imported files: open documents before those on disk, beside the importing file before the library.
pub struct Imports<'d> {
    documents: &'d Documents,
    /// What was found, by importing file and path.
    found: RefCell<HashMap<(String, String), String>>,
}

impl<'d> Imports<'d> {
    /// Imports of files beside open documents.
    pub fn new(documents: &'d Documents) -> Self {
        Imports { documents, found: RefCell::default() }
    }

    /// The name of the file that each import led to, by importing file and path.
    pub fn found(self) -> HashMap<(String, String), String> {
        self.found.into_inner()
    }

    fn find(&self, from: &str, path: &str) -> Option<(String, String)> {
        if from.starts_with('/') {
            let beside = normal(&Path::new(from).parent()?.join(format!("{path}.baker")));
            let beside = beside.to_str()?;
            if let Some(text) = self.documents.text(beside) {
                return Some((beside.to_string(), text.to_string()));
            }
            if let Ok(text) = std::fs::read_to_string(beside) {
                return Some((beside.to_string(), text));
            }
        }
        library::file(path)
    }
}

impl Loader for Imports<'_> {
    fn load(&self, from: &str, path: &str) -> Option<(String, String)> {
        let found = self.find(from, path)?;
        self.found.borrow_mut().insert((from.to_string(), path.to_string()), found.0.clone());
        Some(found)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_and_paths() {
        for path in ["/a/b.baker", "/with blank/ü%20.baker", "/#?&"] {
            let uri = path_uri(path).unwrap();
            assert_eq!(name(&uri), path, "{}", uri.as_str());
        }
        assert_eq!(path("file:///a%2Fb%zz%c3%bc").as_deref(), Some("/a/b%zzü"));
        assert_eq!(path("file://host/x").as_deref(), Some("/x"));
        assert_eq!(path("file:///a/./b/../c").as_deref(), Some("/a/c"));
        for no_path in ["untitled:Untitled-1", "file:///%ff", "file://"] {
            assert_eq!(path(no_path), None, "{no_path}");
        }
    }
}
