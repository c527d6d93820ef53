//! Programs while they are being typed, and programs made to hurt: every question gets an answer.

use std::thread;

use serde_json::{Value, json};

use crate::SWITCH;
use crate::client::Client;

const URI: &str = "file:///nowhere/typed.baker";

/// Asks everything about the end of a text.
fn ask_all(client: &mut Client, text: &str) {
    let line = text.matches('\n').count() as u32;
    let column = text[text.rfind('\n').map_or(0, |i| i + 1)..].encode_utf16().count() as u32;
    client.change(URI, text);
    for method in ["hover", "definition", "completion"] {
        client.at(method, URI, (line, column));
    }
    for method in ["documentSymbol", "semanticTokens/full", "formatting"] {
        client.about(method, URI);
    }
}

/// With `PREFIXES=n` one in so many.
#[test]
fn every_prefix_of_the_switch() {
    let one_in: usize = std::env::var("PREFIXES").map_or(1, |text| text.parse().unwrap());
    // Two sessions, each with every other prefix, to take half the time.
    let session = |first: usize| {
        let mut client = Client::new();
        client.open(URI, "");
        for (end, _) in SWITCH.char_indices().chain([(SWITCH.len(), ' ')]).skip(first * one_in).step_by(2 * one_in) {
            ask_all(&mut client, &SWITCH[..end]);
        }
        assert_eq!(client.end(), Some(0));
    };
    thread::scope(|scope| {
        scope.spawn(|| session(0));
        session(1);
    });
}

#[test]
fn every_suffix_begins_somewhere() {
    let mut client = Client::new();
    client.open(URI, "");
    for (start, _) in SWITCH.char_indices().step_by(7) {
        client.change(URI, &SWITCH[start..]);
        for place in [(0, 0), (0, 3), (2, 9)] {
            client.at("hover", URI, place);
            client.at("completion", URI, place);
        }
        client.about("semanticTokens/full", URI);
        client.about("documentSymbol", URI);
    }
    assert_eq!(client.end(), Some(0));
}

#[test]
fn names_that_lead_in_circles() {
    let mut client = Client::new();
    client.open(URI, "");
    for text in [
        "type a = b; type b = a; struct s { x : a; } void f(a x) { x.y = 1; }",
        "const u8 A = B; const u8 B = A; protocol p { x : A; y : B; }",
        "void f() { g(); } void g() { f(); } module m { ppf p(e_pkt_t *x) from i { f(); } }",
        "void f() { x x = x.x[x](x).x; x }",
        "import \"typed\"; import \"net/ipv4\"; protocol p { x : x; demux { x } }",
        "metadata { rx : u8; metadata : u8; } void f(p_pkt_t *a) { a->metadata.metadata.rx.port->metadata. }",
        "enum e : e { A = A, B, C = D } enum f : e { D = C }",
    ] {
        for end in 0..=text.len() {
            ask_all(&mut client, &text[..end]);
        }
        for at in 0..text.len() as u32 {
            client.at("hover", URI, (0, at));
            client.at("definition", URI, (0, at));
        }
    }
    assert_eq!(client.end(), Some(0));
}

#[test]
fn hostile_sizes() {
    let mut client = Client::new();
    client.open(URI, "");
    let doubling = |i: usize| format!("const u128 C{i} = C{} + C{};\n", i + 1, i + 1);
    let chain = |i: usize| format!("const u128 C{i} = C{} + 1;\ntype t{i} = t{};\n", i + 1, i + 1);
    for text in [
        (0..100).map(doubling).collect::<String>() + "protocol p { x : C0; }",
        (0..5000).map(chain).collect::<String>() + "protocol p { x : C0; y : t0; }",
        format!("void f() {{ {} }}", "u8 x = x;\n".repeat(20_000)),
        format!("void f() {{ x = {}; }}", ["a"; 20_000].join("->")),
        format!("void f() {{ {}", "if (x) {".repeat(20_000)),
        format!("protocol p {{ {} }} void f(p_pkt_t *p) {{ p->x = 1; }}", "x : 128;\n".repeat(20_000)),
        "/*".repeat(100_000),
        "\"".repeat(100_000),
    ] {
        ask_all(&mut client, &text);
        let half = text.matches('\n').count() as u32 / 2;
        for place in [(0, 7), (0, 13), (half, 3), (u32::MAX, u32::MAX)] {
            client.at("hover", URI, place);
            client.at("definition", URI, place);
            client.at("completion", URI, place);
        }
    }
    // The answers were not bought with a backlog of other work.
    client.change(URI, "");
    while !client.diagnostics(URI).is_empty() {}
    let answer = client.ask(
        "textDocument/hover",
        json!({ "textDocument": { "uri": URI }, "position": { "line": 0, "character": 0 } }),
    );
    assert_eq!(answer, Value::Null);
    assert_eq!(client.end(), Some(0));
}
