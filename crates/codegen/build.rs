//! Says which compiler this is: a number that is another one after any change to what code depends on, so that
//! compiled programs that are kept on disk (`src/cache`) are those of the same compiler.

use std::collections::hash_map::DefaultHasher;
use std::fs;
use std::hash::{Hash, Hasher};
use std::path::{Path, PathBuf};

fn main() {
    let mut files = Vec::new();
    // The optimiser, the code generator, and the versions of libraries.
    for root in ["../baker/src", "src", "../../Cargo.lock"] {
        println!("cargo::rerun-if-changed={root}");
        find(Path::new(root), &mut files);
    }
    files.sort();
    let mut hasher = DefaultHasher::new();
    for file in files {
        file.hash(&mut hasher);
        fs::read(&file).unwrap_or_else(|error| panic!("{}: {error}", file.display())).hash(&mut hasher);
    }
    println!("cargo::rustc-env=COMPILER={:016x}", hasher.finish());
}

/// All files in a folder, or the file.
fn find(path: &Path, files: &mut Vec<PathBuf>) {
    match fs::read_dir(path) {
        Ok(entries) => entries.flatten().for_each(|entry| find(&entry.path(), files)),
        Err(_) => files.extend(path.is_file().then(|| path.to_owned())),
    }
}
