//! The functions of the language are the same ones everywhere: in the compiler's rows, in the editors' grammar and in
//! the reference.

use baker::builtin::{FUNCTIONS, OnPacket, Returns};

#[test]
fn each_function_has_one_row() {
    for (index, row) in FUNCTIONS.iter().enumerate() {
        assert!(row.arguments.0 <= row.arguments.1, "{}", row.name);
        assert!(row.form.contains(&format!("{}(", row.name)), "{}", row.name);
        assert!(FUNCTIONS[..index].iter().all(|other| other.function != row.function && other.name != row.name));
        assert!(std::ptr::eq(row.function.row(), row), "{}", row.name);
        // What takes a packet or changes something must not happen while an entry is locked.
        let changes = matches!(row.packet, OnPacket::Consumes | OnPacket::Resizes) || row.returns == Returns::Nothing;
        assert!(!(changes || row.makes > 0) || row.not_locked.is_some(), "{}", row.name);
    }
}

/// The words of the editors' rule for functions of the language, in which common beginnings are written once.
fn highlighted() -> Vec<String> {
    let grammar = include_str!("../../../editors/vscode/syntaxes/baker.tmLanguage.json");
    let rule = grammar.lines().find(|line| line.contains("support.function.baker")).expect("the grammar has the rule");
    let words = rule.split_once("\\\\b(?:").and_then(|(_, rest)| rest.split_once(")(?=\\\\s*\\\\()"));
    let mut found = Vec::new();
    let mut beginning = String::new();
    let mut word = String::new();
    for c in words.expect("a list of words in front of a parenthesis").0.replace("(?:", "(").chars() {
        match c {
            '(' => beginning = std::mem::take(&mut word),
            '|' | ')' => {
                if !word.is_empty() {
                    found.push(format!("{beginning}{}", std::mem::take(&mut word)));
                }
                if c == ')' {
                    beginning.clear();
                }
            }
            _ => word.push(c),
        }
    }
    found.extend((!word.is_empty()).then_some(word));
    found
}

#[test]
fn the_editors_highlight_all_functions() {
    let mut highlighted = highlighted();
    let mut rows: Vec<&str> = FUNCTIONS.iter().map(|row| row.name).collect();
    highlighted.sort();
    rows.sort();
    assert_eq!(highlighted, rows);
}

#[test]
fn the_reference_describes_all_functions() {
    let reference = include_str!("../../../docs/language.md");
    for row in &FUNCTIONS {
        assert!(reference.contains(&format!("`{}(", row.name)), "{} is not described", row.name);
    }
}
