//! Runs cases and compares their snapshots.

use std::fmt::Write;

use baker::check::{Compilation, check};
use baker::diag::render;
use baker::library::Library;
use baker::source::Loader;

/// Name, codes of the expected errors, source.
pub type Case<'a> = (&'a str, &'a [&'a str], String);

/// Runs all cases of a group, then reports those that went wrong together.
pub fn refused(cases: &[Case]) {
    let mut wrong = String::new();
    for (name, codes, source) in cases {
        let compilation = check("test.baker", source, &Library);
        compare(name, codes, source, &compilation, &mut wrong);
    }
    assert!(wrong.is_empty(), "{wrong}");
}

/// Compares the errors of one compilation with the codes that are expected, and with the snapshot.
pub fn compare(name: &str, codes: &[&str], source: &str, compilation: &Compilation, wrong: &mut String) {
    let rendered = render(&compilation.diagnostics, &compilation.sources, false);
    let found: Vec<&str> = compilation.diagnostics.iter().map(|d| d.code).collect();
    if found != codes {
        writeln!(wrong, "{name}: expected {codes:?}\n{source}\n{rendered}").expect("a string takes all");
        return;
    }
    assert!(compilation.program.is_none(), "{name}: a program in spite of errors");
    insta::with_settings!({ prepend_module_to_snapshot => false, omit_expression => true }, {
        insta::assert_snapshot!(name, format!("{}\n--------\n{rendered}", shown(source)));
    });
}

/// A source as its snapshot shows it: of a generated one with hundreds of lines, the beginning and the end.
fn shown(source: &str) -> String {
    let lines: Vec<&str> = source.split_inclusive('\n').collect();
    match lines.len() {
        ..100 => source.to_string(),
        count => format!("{}[{} more lines]\n{}", lines[..30].concat(), count - 40, lines[count - 10..].concat()),
    }
}

/// A module whose PPF has this body.
pub fn ppf(body: &str) -> String {
    module(&format!("ppf work(ether_packet_t *pkt) from input {{\n{}\n}}", indent(body)))
}

/// A module with these items after its channels and tables.
pub fn module(items: &str) -> String {
    let items = indent(items);
    format!(
        "import \"net/ipv4\";

metadata {{ mark : u16; }}
drop_reason too_old;
struct hop_t {{ port : u8; mac : mac_addr_t; }}

module m {{
    in  ether input;
    out ether output;
    out ipv4  routed;
    array<hop_t> hops[16];
    hash<u32, u32> flows[256];

{items}
}}
"
    )
}

fn indent(text: &str) -> String {
    let lines = text.lines().map(|line| if line.is_empty() { String::new() } else { format!("    {line}") });
    lines.collect::<Vec<_>>().join("\n")
}

/// Files by name, and the library.
pub struct Files<'a>(pub &'a [(&'a str, &'a str)]);

impl Loader for Files<'_> {
    fn load(&self, from: &str, path: &str) -> Option<(String, String)> {
        let own = self.0.iter().find(|(name, _)| *name == format!("{path}.baker"));
        own.map(|(name, text)| (name.to_string(), text.to_string())).or_else(|| Library.load(from, path))
    }
}
