//! Rendering of diagnostics, and its edges.

use baker::diag::{Diagnostic, render};
use baker::source::{FileId, Sources, Span};

fn sources(texts: &[&str]) -> Sources {
    let mut sources = Sources::default();
    for (i, text) in texts.iter().enumerate() {
        sources.add(format!("file{i}.baker"), *text);
    }
    sources
}

fn span(file: u32, start: u32, end: u32) -> Span {
    Span::new(FileId(file), start, end)
}

fn snapshot(name: &str, rendered: &str) {
    insta::with_settings!({ snapshot_path => "diag_render", prepend_module_to_snapshot => false, omit_expression => true }, {
        insta::assert_snapshot!(name, rendered);
    });
}

#[test]
fn all_parts() {
    let sources = sources(&["put(p);\n// between\n// between\n// between\nput(p);\n", "in ether x;\n"]);
    let errors = [
        Diagnostic::new("handle-used-twice", span(0, 46, 47), "`p` is used after it was given away")
            .label("used here")
            .also(span(0, 4, 5), "given away here")
            .also(span(1, 9, 10), "to this port")
            .hint("copy it: `packet_copy(p)`"),
        Diagnostic::new("plain", span(1, 0, 2), "nothing but a place"),
    ];
    snapshot("all_parts", &render(&errors, &sources, false));
    assert_eq!(render(&[], &sources, false), "");
}

#[test]
fn tabs_and_wide_characters() {
    let sources = sources(&["\tx = größe; /* 漢字 */ y\n"]);
    let errors = [
        Diagnostic::new("one", span(0, 5, 12), "behind a tab").label("here"),
        Diagnostic::new("two", span(0, 26, 27), "behind wide characters").label("here"),
    ];
    snapshot("tabs_and_wide_characters", &render(&errors, &sources, false));
}

#[test]
fn several_lines() {
    let sources = sources(&["if (a) {\n    b();\n}\n"]);
    let errors =
        [Diagnostic::new("block", span(0, 7, 19), "this block").label("all of it").also(span(0, 13, 17), "and this")];
    snapshot("several_lines", &render(&errors, &sources, false));
}

#[test]
fn ends_of_files() {
    let sources = sources(&["", "x", "x\n", "\n\n"]);
    let errors = [
        Diagnostic::new("empty", span(0, 0, 0), "an empty file").label("here"),
        Diagnostic::new("no-newline", span(1, 1, 1), "no newline at the end").label("here"),
        Diagnostic::new("newline", span(2, 2, 2), "a newline at the end").label("here"),
        Diagnostic::new("blank", span(3, 1, 1), "a blank line").label("here"),
    ];
    snapshot("ends_of_files", &render(&errors, &sources, false));
}

#[test]
fn any_span_is_rendered() {
    // Every span of texts with characters of one to four bytes, and spans beyond the end.
    for text in ["", "\n", "a", "é", "\u{feff}漢\t\r\n😀\u{0}\u{1b}[1m\r", "a\u{301}\u{200b}\u{202e}b\n\n", "{\n\n}\n"]
    {
        let sources = sources(&[text]);
        for start in 0..text.len() as u32 + 3 {
            for end in start..text.len() as u32 + 3 {
                let error =
                    Diagnostic::new("any", span(0, start, end), "title").label("label").also(span(0, end, start), "x");
                let rendered = render(&[error], &sources, false);
                assert!(rendered.starts_with("error[any]: title\n") && rendered.ends_with('\n'), "{rendered}");
                assert!(
                    !rendered.contains('\u{1b}'),
                    "control characters of the source reach the terminal: {rendered:?}"
                );
            }
        }
    }
}

#[test]
fn color_only_adds_escape_sequences() {
    let sources = sources(&["put(p);\n"]);
    let errors = [Diagnostic::new("code", span(0, 4, 5), "title").label("label").hint("hint")];
    let (plain, colored) = (render(&errors, &sources, false), render(&errors, &sources, true));
    assert!(!plain.contains('\u{1b}') && colored.contains('\u{1b}'));
    let mut stripped = String::new();
    let mut rest = colored.as_str();
    while let Some((before, after)) = rest.split_once('\u{1b}') {
        stripped += before;
        rest = after.split_once('m').expect("the end of an escape sequence").1;
    }
    assert_eq!(stripped + rest, plain);
}

#[test]
fn a_very_long_line_is_cut() {
    let text = format!("{} x = ; {}", "a ".repeat(100_000), "b ".repeat(100_000));
    let rendered =
        render(&[Diagnostic::new("long", span(0, 200_005, 200_006), "title").label("here")], &sources(&[&text]), false);
    assert!(rendered.len() < 2000, "{} bytes", rendered.len());
    assert!(rendered.contains("x = ;") && rendered.contains("^ here"), "{rendered}");
}

#[test]
fn the_first_hundred() {
    let sources = sources(&["x\n"]);
    let rendered = |count: usize| {
        let errors: Vec<_> = (0..count).map(|n| Diagnostic::new("one", span(0, 0, 1), format!("error {n}."))).collect();
        render(&errors, &sources, false)
    };
    assert!(rendered(100).contains("error 99.") && !rendered(100).contains("more error"));
    assert!(
        rendered(101).ends_with("\n\nand 1 more error, which is not shown\n") && !rendered(101).contains("error 100.")
    );
    assert!(rendered(350).ends_with("\n\nand 250 more errors, which are not shown\n"));
}
