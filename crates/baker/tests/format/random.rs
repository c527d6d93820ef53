//! Random programs with random blanks, ends of lines and comments between their tokens.

use baker::source::FileId;
use baker::syntax::parse;
use proptest::prelude::*;

use crate::generate::{Tokens, file};
use crate::{content, formatted};

/// What stands between two tokens; nothing only where they are told apart without it.
const BETWEEN: [&str; 16] = [
    " ",
    " ",
    " ",
    "",
    "",
    "\n    ",
    "\n ",
    "\n\n\n    ",
    "\t",
    "\r\n    ",
    " /* c */ ",
    "/*c*/",
    " // c\n    ",
    "\n    // c\n    ",
    "\n\n    // c\n\n    // d\n\n    ",
    " /* c\n   d */ /* e */ ",
];

/// A text of these tokens. How rare anything but a blank is, is random too.
fn text(tokens: &Tokens, choices: &[u8], rare: u8) -> String {
    let mut text = String::new();
    for (index, token) in tokens.iter().enumerate() {
        let choice = choices[index % choices.len()].wrapping_mul(37).wrapping_add(index as u8);
        let between =
            if choice.is_multiple_of(rare) { BETWEEN[usize::from(choice / rare) % BETWEEN.len()] } else { " " };
        let word = |c: char| c.is_alphanumeric() || "_:.\"".contains(c);
        let apart = match (text.chars().next_back(), token.chars().next()) {
            (Some(a), Some(b)) => !(word(a) && word(b)) && ("()[]{},;".contains(a) || "()[]{},;".contains(b)),
            _ => true,
        };
        text.push_str(if between.is_empty() && !apart { " " } else { between });
        text.push_str(token);
    }
    text
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 600, ..ProptestConfig::default() })]

    #[test]
    fn programs_keep_their_content(
        tokens in file(),
        choices in prop::collection::vec(any::<u8>(), 1..200),
        rare in prop::sample::select(vec![1u8, 3, 9, 31, 255]),
    ) {
        let text = text(&tokens, &choices, rare);
        // What a statement begins with may look like another; such a program is of no use here.
        prop_assume!(parse(FileId(0), &text).errors().is_empty());
        let result = formatted(&text);
        // Written in any other way, the content is the same.
        let plain = tokens.join(" ");
        prop_assert_eq!(content(&result).len(), content(&text).len());
        if !text.contains("//") && !text.contains("/*") {
            prop_assert_eq!(content(&plain), content(&result));
        }
    }
}
