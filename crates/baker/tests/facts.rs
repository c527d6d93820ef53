//! What the checker says of names and values to tools, in right programs and in wrong ones.

use baker::builtin;
use baker::check::{Facts, Loaded, Value, examine, load};
use baker::ir::BUILTIN_DROP_REASONS;
use baker::library::{self, Library};
use baker::source::{FileId, Span};
use baker::syntax::ast::{self, AstNode};

fn examined(text: &str) -> (Loaded, Facts) {
    examine("facts.baker", load("facts.baker", text, &Library))
}

/// The place of the nth occurrence of a word in the root file.
fn place(text: &str, word: &str, nth: usize) -> Span {
    let is_end = |c: Option<char>| !c.is_some_and(|c| c.is_alphanumeric() || c == '_');
    let whole = |at: &usize| is_end(text[..*at].chars().next_back()) && is_end(text[at + word.len()..].chars().next());
    let at = text.match_indices(word).map(|(at, _)| at).filter(whole).nth(nth).expect("so many of them") as u32;
    Span::new(FileId(0), at, at + word.len() as u32)
}

/// Whether a word is the language's own.
fn is_of_language(word: &str) -> bool {
    let is_reason = BUILTIN_DROP_REASONS.iter().any(|(name, _)| *name == word);
    let is_type = matches!(word, "bool" | "int" | "void" | "port_t" | "drop_reason")
        || word.strip_prefix(['u', 'i']).is_some_and(|rest| rest.parse::<u32>().is_ok());
    builtin::find(word).is_some() || is_reason || is_type
}

/// The library is right, so all names in its code stand for something: also in modules without an instance.
#[test]
fn every_name_in_the_library_is_known() {
    let mut known = 0;
    for path in library::paths() {
        let (Loaded { files, diagnostics, .. }, facts) = examined(&format!("import \"{path}\";\n"));
        assert!(diagnostics.is_empty(), "{path}: {diagnostics:?}");
        for file in files {
            for node in file.tree.syntax().descendants().filter_map(ast::NameExpr::cast) {
                let name = node.name().expect("it parses");
                let found = facts.declaration(name.span(file.id));
                assert!(found.is_some() || is_of_language(name.text()), "{path}: `{}` is not known", name.text());
                known += usize::from(found.is_some());
            }
        }
    }
    assert!(known > 1000, "{known}");
}

const WRONG: &str = "import \"net/ipv4\";
import \"net/ipv6\";
struct hop_t { port : u8; mac : mac_addr_t; }
u8 left(ipv4_packet_t *ip) { return ip->ttl; }
u8 left(ipv6_packet_t *six) { return six->hop_limit; }
module m {
    in ether input;
    out ether output;
    array<hop_t> hops[4];
    ppf work(ether_packet_t *pkt) from inptu {
        u8 pkts = nothing;
        ipv6_packet_t *inner = packet_peek(pkt);
        hop_t *hop = hops[left(inner)];
        if (hop == null) { u8 pkts = 1; undefined(pkts, hop->port); }
        hops[pkts].mac + ;
        hop->
    }
}
module apart(protocol p, table t) {
    in p input;
    ppf work(p_packet_t *pkt) from input { u8 n = 1; t[n] = n; }
}
";

#[test]
fn a_wrong_program_is_understood_as_far_as_it_goes() {
    let (_, facts) = examined(WRONG);
    let declared = |word, nth| facts.declaration(place(WRONG, word, nth));
    let at = |word, nth| Some(place(WRONG, word, nth));
    // Of functions of one name, the one for the packet that is given.
    assert_eq!(declared("left", 2), at("left", 1));
    // Each variable is that of its block, also among the arguments of what is not known.
    assert_eq!((declared("pkts", 2), declared("pkts", 3)), (at("pkts", 1), at("pkts", 0)));
    assert_eq!((declared("nothing", 0), declared("undefined", 0)), (None, None));
    // A field behind a pointer, types, and the module's own table.
    assert_eq!(
        (declared("port", 1), declared("hop_t", 1), declared("hops", 1)),
        (at("port", 0), at("hop_t", 0), at("hops", 0))
    );
    assert_eq!(declared("mac", 1), at("mac", 0));
    // In a module with parameters that has no instance.
    assert_eq!((declared("n", 2), declared("t", 1)), (at("n", 0), at("t", 0)));
    // What stands before an arrow behind which nothing is yet.
    assert_eq!(facts.values(place(WRONG, "hop", 3)), [Value::Pointer(place(WRONG, "hop_t", 0))]);
    let [Value::Packet(protocol)] = facts.values(place(WRONG, "pkt", 1)) else { panic!("no packet") };
    assert!(protocol.file != FileId(0));
}

/// Programs that end anywhere, or lack any one word.
#[test]
fn whatever_is_written_is_looked_at() {
    for end in (0..WRONG.len()).step_by(3) {
        examined(&WRONG[..end]);
    }
    let words: Vec<&str> = WRONG.split_inclusive(|c: char| !c.is_alphanumeric()).collect();
    for gone in 0..words.len() {
        examined(&[&words[..gone], &words[gone + 1..]].concat().concat());
    }
}
