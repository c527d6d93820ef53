//! What there is on the disk.

use std::fs::{DirEntry, read_dir};
use std::path::Path;

/// Bytes of MPEG-TS below a folder.
pub fn recorded(folder: &Path) -> u64 {
    let is_segment = |entry: &DirEntry| entry.path().extension().is_some_and(|own| own == "ts");
    let bytes = |entry: DirEntry| entry.metadata().map_or(0, |own| own.len());
    walk(folder).into_iter().filter(is_segment).map(bytes).sum()
}

fn walk(folder: &Path) -> Vec<DirEntry> {
    let Ok(entries) = read_dir(folder) else { return Vec::new() };
    let is_folder = |entry: &DirEntry| entry.file_type().is_ok_and(|own| own.is_dir());
    let (folders, mut files): (Vec<_>, Vec<_>) = entries.flatten().partition(is_folder);
    files.extend(folders.iter().flat_map(|entry| walk(&entry.path())));
    files
}
