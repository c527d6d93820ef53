//! Baker: whatever the text, there is a tree or an error, in bounded time; what the checker accepts is a program that
//! the verifier accepts too, at every level of optimisation; and what the formatter wrote it leaves as it is.

use baker::ir::verify;
use baker::library::Library;
use baker::opt::{Level, optimise};
use baker::source::FileId;
use baker::{check, diag, format, ir, syntax};

/// Pieces of programs.
pub const WORDS: &[&str] = &[
    "module ",
    "program {",
    "ppf ",
    "channel_put(",
    "packet_drop(",
    "packet_decap(",
    "packet_encap(",
    "packet_replace(",
    "packet_copy(",
    "if (",
    "else ",
    "for (",
    "return;",
    "->",
    "protocol ",
    "demux {",
    "struct ",
    "hash<",
    "lpm<",
    "array<",
    "set<",
    "import \"",
    "u8",
    "u128",
    "null",
    "critical (",
    "module m(protocol ip, table t) {",
    "m(ipv4) a;",
    "2001:db8::1",
    "const u8 A = 1;",
    "metadata {",
    "0xffffffffffffffffffffffffffffffff",
    "<<",
    "((((",
    "}}}}",
    "/*",
    "//",
    "\"",
    "== null",
    "in ether ",
    "out ether ",
    "idle = 60s",
    "@kernel",
    "pkt->metadata.",
    "\u{fffd}",
    "é",
];

/// Takes one text.
pub fn run(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    let tree = syntax::parse(FileId(0), &text);
    assert_eq!(tree.syntax().text().to_string(), text, "the tree is lossless");
    let compilation = check::check("fuzz.baker", &text, &Library);
    let rendered = diag::render(&compilation.diagnostics, &compilation.sources, false);
    assert_eq!(rendered.is_empty(), compilation.diagnostics.is_empty());
    match format::format(FileId(0), &text) {
        Ok(once) => {
            assert!(tree.errors().is_empty(), "a text with syntax errors was formatted");
            assert_eq!(format::format(FileId(0), &once).as_ref(), Ok(&once), "formatted twice it differs");
        }
        Err(errors) => assert!(!errors.is_empty()),
    }
    let Some(program) = compilation.program else {
        assert!(!compilation.diagnostics.is_empty(), "no program and no error");
        return;
    };
    if !compilation.runnable {
        return;
    }
    let program = ir::lower(&program);
    for level in Level::ALL {
        if let Err(errors) = verify(&optimise(&program, level)) {
            panic!("{}: {errors:?}", level.name());
        }
    }
}
