//! Every example of the documents is compiled. The word after the fence says what it is:
//!
//! * `program`: a whole file.
//! * `items`: items of a file; the rest of a program is put around them.
//! * `body`: the body of a PPF that holds the packet `ip`, with a few tables and channels around it.
//! * `refused CODE`: such a body, which is refused with exactly that error; `refused-program CODE`: such a file.
//!
//! What follows `program` or `body` in docs/kernel.md says where it runs, and is tested in `codegen`.

use baker::check::check;
use baker::diag::render;
use baker::library::Library;

#[path = "../../../tests/support/examples.rs"]
mod examples;

use examples::{Example, body, examples};

/// Documents with examples.
const DOCUMENTS: [(&str, &str); 3] = [
    ("language.md", include_str!("../../../docs/language.md")),
    ("kernel.md", include_str!("../../../docs/kernel.md")),
    ("other-languages.md", include_str!("../../../docs/other-languages.md")),
];

fn items(text: &str) -> String {
    format!(
        "import \"net/ipv4\";
{text}
module pass {{
    in  ether input;
    out ether output;
    ppf pass(ether_packet_t *pkt) from input {{ channel_put(output, pkt); }}
}}
program {{ rx -> pass.input; pass.output -> tx; }}
"
    )
}

#[test]
fn every_example_is_what_it_says() {
    let mut wrong = String::new();
    for (name, document) in DOCUMENTS {
        let examples = examples(document);
        assert!(examples.len() >= 10, "{name}: the examples were not found");
        for example in examples {
            wrong += &problems(&example).map_or(String::new(), |problem| {
                format!("{name}, line {} ({}): {problem}\n", example.line, example.kind)
            });
        }
    }
    assert!(wrong.is_empty(), "{wrong}");
}

/// What is wrong with an example.
fn problems(Example { kind, text, .. }: &Example) -> Option<String> {
    let (source, code) = match kind.split_once(' ').unwrap_or((kind, "")) {
        // Where it runs is another test's matter.
        ("program", _) => (text.clone(), None),
        ("items", "") => (items(text), None),
        ("body", _) => (body(text), None),
        ("refused-program", code) => (text.clone(), Some(code)),
        ("refused", code) => (body(text), Some(code)),
        _ => return Some("this is no kind of example".into()),
    };
    let compilation = check("example.baker", &source, &Library);
    let codes: Vec<&str> = compilation.diagnostics.iter().map(|d| d.code).collect();
    if codes != Vec::from_iter(code) || (code.is_none() && !compilation.runnable) {
        let rendered = render(&compilation.diagnostics, &compilation.sources, false);
        return Some(format!("{codes:?}\n{rendered}"));
    }
    let lowered = baker::ir::lower(compilation.program.as_ref()?);
    baker::ir::verify(&lowered).err().map(|error| format!("{error:?}"))
}
