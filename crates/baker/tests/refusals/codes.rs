//! Every kind of refusal that the checker knows is shown by a snapshot.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

/// All codes in the checker's sources: the first argument of `Diagnostic::new`, any other word with dashes, and the one
/// without that is chosen before the call.
fn codes() -> BTreeSet<String> {
    let mut codes = BTreeSet::new();
    let mut open = vec![Path::new(env!("CARGO_MANIFEST_DIR")).join("src/check")];
    while let Some(path) = open.pop() {
        if path.is_dir() {
            open.extend(fs::read_dir(path).expect("sources").map(|entry| entry.expect("an entry").path()));
            continue;
        }
        let text = fs::read_to_string(path).expect("a source file");
        let code: String = text.lines().filter(|line| !line.trim_start().starts_with("//")).collect();
        let mut before = "";
        for piece in code.split('"') {
            let word = piece.split('-').all(|w| !w.is_empty() && w.bytes().all(|b| b.is_ascii_lowercase()));
            let known = ["unwired", "unfed"].contains(&piece);
            if word && (piece.contains('-') || known || before.trim_end().ends_with("Diagnostic::new(")) {
                codes.insert(piece.to_string());
            }
            before = piece;
        }
    }
    codes
}

#[test]
fn every_code_is_shown() {
    let codes = codes();
    assert!(codes.len() > 90, "only {} codes found: {codes:?}", codes.len());
    let snapshots = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/refusals/snapshots");
    let mut shown = String::new();
    for entry in fs::read_dir(snapshots).expect("the snapshots") {
        let path = entry.expect("an entry").path();
        if path.extension().is_some_and(|e| e == "snap") {
            shown += &fs::read_to_string(path).expect("a snapshot");
        }
    }
    let missing: Vec<_> = codes.iter().filter(|code| !shown.contains(&format!("error[{code}]"))).collect();
    assert!(missing.is_empty(), "no case shows {missing:?}");
}
