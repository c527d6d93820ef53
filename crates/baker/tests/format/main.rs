//! The formatter: one style, and nothing lost.

mod files;
mod generate;
mod random;
mod style;

use baker::format::{WIDTH, format};
use baker::source::FileId;
use baker::syntax::{SyntaxElement, SyntaxKind, parse};

/// The tokens of a text and its comments, in their order, without the blanks between and at the ends of lines.
fn content(text: &str) -> Vec<(SyntaxKind, String)> {
    let parse = parse(FileId(0), text);
    assert_eq!(parse.errors(), [], "{text}");
    let tokens = parse.syntax().descendants_with_tokens().filter_map(SyntaxElement::into_token);
    let tokens = tokens.filter(|t| t.kind() != SyntaxKind::Whitespace);
    tokens.map(|t| (t.kind(), t.text().trim_end().replace("\r\n", "\n"))).collect()
}

/// Formats, and checks what must hold for any text without errors.
#[track_caller]
fn formatted(text: &str) -> String {
    let result = format(FileId(0), text).unwrap_or_else(|errors| panic!("{errors:?} in:\n{text}"));
    assert_eq!(content(&result), content(text), "tokens changed from:\n{text}\nto:\n{result}");
    let again = format(FileId(0), &result).unwrap();
    assert_eq!(again, result, "a second time, of:\n{text}");
    assert!(!result.contains("\n\n\n") && !result.starts_with('\n') && !result.ends_with("\n\n"), "{result}");
    assert!(result.is_empty() || result.ends_with('\n'), "{result}");
    let tall = result.contains("/*");
    assert!(tall || !result.lines().any(|line| line.ends_with([' ', '\t'])), "{result}");
    result
}

/// The longest line, comments and the indentation left out.
fn longest_code(text: &str) -> usize {
    let code = text.lines().map(|line| line.split("//").next().unwrap_or_default().trim_end());
    code.map(|line| line.chars().count()).max().unwrap_or(0)
}

#[test]
fn long_lines_are_broken() {
    let names = |count: usize| (0..count).map(|i| format!("quite_a_long_name_{i}")).collect::<Vec<_>>();
    for joined in [" + ", " && ", " == ", " * "].map(|op| names(40).join(op)) {
        for text in [
            format!("void f() {{ x = {joined}; }}"),
            format!("void f() {{ if ({joined}) return; }}"),
            format!("void f() {{ for (;{joined};) {{ f(); }} }}"),
            format!("void f() {{ u32 y = g(1, h({joined})); }}"),
            format!("const u32 X = {joined};"),
            format!("protocol p {{ a : 8; demux {{ {joined} }} }}"),
        ] {
            assert!(longest_code(&formatted(&text)) <= WIDTH, "{}", formatted(&text));
        }
    }
    let list = names(30).join(", ");
    for text in [
        format!("drop_reason {list};"),
        format!("module m {{ in ether {list}; out arp {list}; }}"),
        format!("void f() {{ g({list}); }}"),
        format!("void f() {{ x = y ? g({list}) : h[g({list})]; }}"),
        format!("enum e {{ {list} }}"),
        format!("protocol p {{ a : 16 covers {{ {list} }}; }}"),
        format!("u8 f({}) {{ return 1; }}", names(30).join(", u8 ").replacen("quite", "u8 quite", 1)),
        format!("void f() {{ x = s {{ {} }}; }}", names(30).join(": 1, ") + ": 2"),
        format!("struct s {{ {} }}", names(30).join(" : u8; ") + " : u8;"),
    ] {
        assert!(longest_code(&formatted(&text)) <= WIDTH, "{}", formatted(&text));
    }
}

#[test]
fn texts_with_errors_are_not_formatted() {
    for text in ["module", "void f() { x = ; }", "const u8 X = 1", "§", "/* never closed"] {
        let errors = format(FileId(0), text).unwrap_err();
        assert_eq!(errors, parse(FileId(0), text).errors(), "{text}");
        assert!(!errors.is_empty(), "{text}");
    }
}

#[test]
fn deep_nesting() {
    for (open, close) in [("{", "}"), ("if (x) {", "}"), ("if (x) y(); else ", ";"), ("for (;;) ", ";")] {
        let close = if close == "}" { "}".repeat(120) } else { close.to_string() };
        formatted(&format!("void f() {{ {} {close} }}", open.repeat(120)));
    }
    formatted(&format!("void f() {{ x = {}1{}; }}", "(".repeat(250), ")".repeat(250)));
}
