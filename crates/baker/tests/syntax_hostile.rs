//! Text made to hurt: deep nesting must neither overflow the stack nor flood the reader, and long text must end.

mod syntax_support;

use baker::diag::render;
use baker::source::{FileId, Sources};
use baker::syntax::{MAX_DEPTH, MAX_ERRORS, SyntaxNode, parse};

/// How deep the nodes of a tree nest.
fn depth(root: &SyntaxNode) -> usize {
    let (mut depth, mut deepest) = (0usize, 0usize);
    for event in root.preorder() {
        match event {
            rowan::WalkEvent::Enter(_) => depth += 1,
            rowan::WalkEvent::Leave(_) => depth -= 1,
        }
        deepest = deepest.max(depth);
    }
    deepest
}

/// `open` many times, then `inner`, then `close` as many times, within a function.
fn nest(times: usize, open: &str, inner: &str, close: &str) -> String {
    format!("void f() {{\n{}{inner}{}\n}}\n", open.repeat(times), close.repeat(times))
}

#[test]
fn every_word_may_stand_anywhere() {
    let reference = include_str!("../../../docs/grammar.md");
    let words: Vec<&str> = reference
        .split('\'')
        .skip(1)
        .step_by(2)
        .filter(|text| text.bytes().all(|b| b.is_ascii_lowercase() || b == b'_'))
        .collect();
    assert!(words.len() > 35, "{words:?}");
    for word in words {
        for around in
            ["@", "@ x;", "@ {", "@ x {}", "module m { @ x; }", "module m { @", "program { @ x; }", "void f() { @ x; }"]
        {
            let text = around.replace('@', word);
            assert_eq!(parse(FileId(0), &text).syntax().text().to_string(), text);
        }
    }
}

#[test]
fn deep_nesting_is_refused_once() {
    let times = 20_000;
    for (name, text) in [
        ("parentheses", nest(times, "(", "x", ")").replace("\n}", ";\n}")),
        ("calls", nest(times, "f(", "x", ")").replace("\n}", ";\n}")),
        ("indices", nest(times, "t[", "x", "]").replace("\n}", ";\n}")),
        ("prefixes", nest(times, "!", "x;", "")),
        ("casts", nest(times, "(u8)", "x;", "")),
        ("sums", nest(times, "x + ", "x;", "")),
        ("mixed chain", nest(times, "((((a + b) + c).d) ? e : f) + ", "x;", "")),
        ("members", nest(times, "x.", "x;", "")),
        ("call chains", nest(times, "", "x;", "").replace("x;", &format!("x{};", "()".repeat(times)))),
        ("conditions", nest(times, "x ? ", "x", " : x").replace("\n}", ";\n}")),
        ("alternatives", nest(times, "x ? y : ", "x;", "")),
        ("structure values", nest(times, "s { a: ", "1", " }").replace("\n}", ";\n}")),
        ("blocks", nest(times, "{", "", "}")),
        ("branches", nest(times, "if (x) {", "", "}")),
        ("loops", nest(times, "for (;;) ", ";", "")),
        ("left sums in parentheses", {
            // Wide on the left at every level: the tree is deeper than any one chain.
            nest(times, "(", "x", " + a + b + c)").replace("\n}", ";\n}")
        }),
    ] {
        let parse = parse(FileId(0), &text);
        assert_eq!(parse.syntax().text().to_string(), text, "{name}");
        let titles: Vec<&str> = parse.errors().iter().map(|e| e.title.as_str()).collect();
        assert_eq!(parse.errors().first().map(|e| e.code), Some("too-deep"), "{name}: {titles:?}");
        assert!(titles.len() == 1, "{name}: {} errors: {:?}", titles.len(), &titles[..titles.len().min(5)]);
        assert!(depth(&parse.syntax()) < 4 * MAX_DEPTH as usize, "{name}: depth {}", depth(&parse.syntax()));
    }
}

#[test]
fn nesting_up_to_the_limit_is_accepted() {
    let times = MAX_DEPTH as usize - 4;
    for text in [
        nest(times, "(", "x", ")").replace("\n}", ";\n}"),
        nest(times, "x + ", "x;", ""),
        nest(times, "{", "", "}"),
        nest(times, "if (x) y(); else ", ";", ""),
    ] {
        assert_eq!(parse(FileId(0), &text).errors(), [], "{text}");
    }
}

#[test]
fn unclosed_nesting() {
    for piece in [
        "(",
        "[",
        "{",
        "f(",
        "t[",
        "if (",
        "for (",
        "x ? ",
        "s { a: ",
        "module m {",
        "ppf p(",
        "protocol p {",
        "enum e {",
        "demux {",
        "program {",
        "u8 f(",
        "else ",
        "/*",
        "\"",
        "aa:bb:cc:dd:",
        "1.",
        "((\n",
        "x = (\n",
        "}\n",
        "if (x\n",
    ] {
        let text = piece.repeat(60_000);
        for text in [text.clone(), format!("void f() {{ {text}"), format!("module m {{ {text}")] {
            let parse = parse(FileId(0), &text);
            assert_eq!(parse.syntax().text().to_string(), text, "{piece}");
            assert!(!parse.errors().is_empty() && parse.errors().len() <= MAX_ERRORS + 1, "{piece}");
            assert!(depth(&parse.syntax()) < 4 * MAX_DEPTH as usize, "{piece}");
        }
    }
}

#[test]
fn errors_are_cut_off() {
    let text = "const u8 X = ;\n".repeat(500);
    let mut sources = Sources::default();
    let file = sources.add("test.baker", text.as_str());
    let parse = parse(file, &text);
    assert_eq!(parse.errors().len(), MAX_ERRORS + 1);
    assert_eq!(parse.errors()[MAX_ERRORS].code, "too-many-errors");
    assert!(render(parse.errors(), &sources, false).contains(&format!("test.baker:{}:", MAX_ERRORS + 1)));
}
