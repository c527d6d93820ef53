//! The programs of the repository.

use std::fs;
use std::path::{Path, PathBuf};

use crate::formatted;

const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");

/// All Baker files in a folder of the repository.
fn files(folder: &str) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut open = vec![Path::new(ROOT).join(folder)];
    while let Some(folder) = open.pop() {
        for entry in fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().path()) {
            if entry.is_dir() {
                open.push(entry);
            } else if entry.extension().is_some_and(|ending| ending == "baker") {
                found.push(entry);
            }
        }
    }
    assert!(!found.is_empty(), "{folder}");
    found
}

#[test]
fn keep_their_tokens_and_are_formatted_once() {
    for file in ["lib", "apps", "examples", "crates"].into_iter().flat_map(files) {
        formatted(&fs::read_to_string(file).unwrap());
    }
}

#[test]
fn are_formatted() {
    // The published listing stays as it was published.
    let published = |file: &PathBuf| file.ends_with("examples/l3_slide.baker");
    for file in ["lib", "apps", "examples"].into_iter().flat_map(files).filter(|file| !published(file)) {
        let text = fs::read_to_string(&file).unwrap();
        assert!(formatted(&text) == text, "run `millrace fmt {}`", file.display());
    }
}
