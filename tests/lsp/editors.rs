//! The files for editors: they hold together, and the grammar knows the words of the language.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::process::ROOT;

fn extension(file: &str) -> PathBuf {
    Path::new(ROOT).join("editors/vscode").join(file)
}

fn json(file: &str) -> Value {
    serde_json::from_str(&fs::read_to_string(extension(file)).unwrap())
        .unwrap_or_else(|error| panic!("{file}: {error}"))
}

/// The words of lower-case letters that stand in a text between other characters than letters.
fn words(text: &str) -> BTreeSet<&str> {
    text.split(|c: char| !c.is_ascii_lowercase() && c != '_').filter(|word| word.len() > 1).collect()
}

#[test]
fn the_extension_names_its_files() {
    let package = json("package.json");
    let contributes = &package["contributes"];
    let grammar = &contributes["grammars"][0];
    for file in [&package["main"], &contributes["languages"][0]["configuration"], &grammar["path"]] {
        assert!(extension(file.as_str().unwrap()).is_file(), "{file}");
    }
    assert_eq!(grammar["scopeName"], json("syntaxes/baker.tmLanguage.json")["scopeName"]);
    assert_eq!(json("language-configuration.json")["comments"]["lineComment"], "//");
    let starter = fs::read_to_string(extension("extension.js")).unwrap();
    assert!(starter.contains("args: [\"lsp\"]"), "{starter}");
}

#[test]
fn the_grammar_knows_all_words() {
    let grammar = fs::read_to_string(extension("syntaxes/baker.tmLanguage.json")).unwrap();
    // Without the patterns' own letters, as in `\\b`.
    let grammar = grammar.replace(r"\\b", " ");
    let known = words(&grammar);
    // The words that the language's grammar has in quotes.
    let reference = fs::read_to_string(Path::new(ROOT).join("docs/grammar.md")).unwrap();
    let rules = reference.split("```").nth(1).unwrap();
    let quoted =
        rules.split('\'').skip(1).step_by(2).filter(|text| text.bytes().all(|b| b.is_ascii_lowercase() || b == b'_'));
    let wanted: BTreeSet<&str> = quoted.collect();
    assert!(wanted.len() > 25 && wanted.contains("drop_reason"), "{wanted:?}");
    let missing: Vec<_> = wanted.difference(&known).collect();
    assert_eq!(missing, [] as [&&str; 0]);
}
