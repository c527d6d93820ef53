//! The parser takes any text: it never panics, keeps every byte, says little, and says something whenever the tree is
//! not that of a right program.

mod syntax_support;

use baker::diag::render;
use baker::source::Sources;
use baker::syntax::{MAX_ERRORS, Parse, parse};
use syntax_support::{Random, SLIDE, TOUR, assert_complete};

/// Parses, and checks what must hold for any text.
fn check(text: &str) -> Parse {
    let mut sources = Sources::default();
    let file = sources.add("test.baker", text);
    let parse = parse(file, text);
    assert_eq!(parse.syntax().text().to_string(), text);
    assert!(parse.errors().len() <= MAX_ERRORS + 1);
    for error in parse.errors() {
        for label in [&error.primary].into_iter().chain(&error.secondary) {
            let (start, end) = (label.span.start as usize, label.span.end as usize);
            assert!(text.get(start..end).is_some(), "{error:?} lies outside of the text");
        }
    }
    if parse.errors().is_empty() {
        assert_complete(&parse.syntax());
    }
    // Rendering is slow: a few errors tell as much as all.
    let rendered = render(&parse.errors()[..parse.errors().len().min(3)], &sources, false);
    assert_eq!(rendered.is_empty(), parse.errors().is_empty());
    parse
}

#[test]
fn right_programs_have_no_errors() {
    for text in [SLIDE, TOUR, "", " ", "\n", "\u{feff}const u8 X = 1;", "// only a comment", "/**/"] {
        assert_eq!(check(text).errors(), [], "{text}");
    }
}

#[test]
fn windows_line_ends_are_kept() {
    let text = TOUR.replace('\n', "\r\n");
    assert_eq!(check(&text).errors(), []);
}

#[test]
fn every_prefix_and_suffix() {
    for text in [SLIDE, TOUR] {
        for (i, _) in text.char_indices() {
            assert!(check(&text[..i]).errors().len() <= 3, "{}", &text[..i]);
            check(&text[i..]);
        }
    }
}

#[test]
fn one_token_removed_doubled_or_replaced() {
    let mut random = Random(1);
    for text in [SLIDE, TOUR] {
        let tokens = syntax_support::tokens(text);
        let mut counts = [0usize; 7];
        for i in 0..tokens.len() {
            let with = |new: &str| [&tokens[..i].concat(), new, &tokens[i + 1..].concat()].concat();
            let other = &tokens[random.below(tokens.len())];
            for mutant in [with(""), with(&tokens[i].repeat(2)), with(other)] {
                let errors = check(&mutant).errors().len();
                assert!(errors < counts.len(), "{errors} errors for one changed token in:\n{mutant}");
                counts[errors] += 1;
            }
        }
        // One cause, one error, nearly always. The rest are mutants such as `{` in the place of a blank.
        let (all, few) = (counts.iter().sum::<usize>(), counts[0] + counts[1]);
        assert!(few * 100 >= all * 90, "number of errors per mutant: {counts:?}");
    }
}

#[test]
fn many_random_changes() {
    let mut random = Random(2);
    for round in 0..4000 {
        let text = if round % 2 == 0 { SLIDE } else { TOUR };
        let mut tokens = syntax_support::tokens(text);
        for _ in 0..1 + random.below(8) {
            let (i, j) = (random.below(tokens.len()), random.below(tokens.len()));
            match random.below(4) {
                0 => drop(tokens.remove(i)),
                1 => tokens.insert(i, tokens[j].clone()),
                2 => tokens[i] = tokens[j].clone(),
                _ => tokens.swap(i, j),
            }
        }
        assert!(check(&tokens.concat()).errors().len() <= 24, "{}", tokens.concat());
    }
}

#[test]
fn random_bytes() {
    const PIECES: &[&str] = &[
        "{",
        "}",
        "(",
        ")",
        "[",
        "]",
        ";",
        ",",
        ":",
        ".",
        "->",
        "*",
        "\"",
        "/*",
        "*/",
        "//",
        "\n",
        " ",
        "\t",
        "\r",
        "é",
        "漢",
        "\u{0}",
        "\u{feff}",
        "\u{a0}",
        "#",
        "0x",
        "0b",
        "_",
        "9",
        "aa:",
        ":bb",
        "1.2.3",
        "module m ",
        "ppf p",
        "if",
        "else ",
        "for(",
        "return ",
        "u32 ",
        "x",
        "= ",
        "+=",
        "<<",
        "?",
        "program",
        "in ",
        "covers ",
        "demux{",
    ];
    let mut random = Random(3);
    for _ in 0..3000 {
        // Random bytes put into a program…
        let mut bytes = SLIDE.as_bytes().to_vec();
        for _ in 0..1 + random.below(10) {
            let i = random.below(bytes.len());
            bytes[i] = random.below(256) as u8;
        }
        check(&String::from_utf8_lossy(&bytes));
        // … and text made of nothing but pieces.
        let count = random.below(120);
        check(&(0..count).map(|_| PIECES[random.below(PIECES.len())]).collect::<String>());
    }
}
