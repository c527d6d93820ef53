//! Every example of docs/language.md is compiled. The word after the fence says what it is:
//!
//! * `program`: a whole file.
//! * `items`: items of a file; the rest of a program is put around them.
//! * `body`: the body of a PPF that holds the packet `ip`, with a few tables and channels around it.
//! * `refused CODE`: such a body, which is refused with exactly that error; `refused-program CODE`: such a file.

use baker::check::check;
use baker::diag::render;
use baker::library::Library;

const REFERENCE: &str = include_str!("../../../docs/language.md");

/// The examples with the lines where they begin.
fn examples() -> Vec<(usize, &'static str, String)> {
    let mut found: Vec<(usize, &str, String)> = Vec::new();
    let mut inside = false;
    for (index, line) in REFERENCE.lines().enumerate() {
        match line.strip_prefix("```") {
            Some(_) if inside => inside = false,
            Some(kind) => {
                inside = true;
                found.push((
                    index + 1,
                    kind.strip_prefix("c ").unwrap_or_else(|| panic!("line {}: what kind?", index + 1)),
                    String::new(),
                ));
            }
            None if inside => found.last_mut().expect("one began").2.extend([line, "\n"]),
            None => {}
        }
    }
    found
}

fn body(text: &str) -> String {
    format!(
        "import \"net/ipv4\";
import \"net/tcp\";
import \"net/udp\";
metadata {{ mark : u32; }}
module work {{
    in  ether input;
    out ipv4 output, other;
    channel ipv4 inner;
    struct flow_t {{ hop : u32; packets : u64; }}
    lpm<ipv4_addr_t, u32> fib[1024];
    lpm<ipv4_addr_t, flow_t> routes[1024];
    hash<ipv4_addr_t, flow_t> flows[1024];
    counter hits;
    meter guests;
    ppf start(ether_packet_t *pkt) from input {{
        ipv4_packet_t *ip = packet_decap(pkt);
        channel_put(inner, ip);
    }}
    ppf work(ipv4_packet_t *ip) from inner {{
{text}
    }}
}}
module end {{
    in  ipv4 input;
    out ether output;
    ppf encap(ipv4_packet_t *ip) from input {{
        ether_packet_t *pkt = packet_encap(ip);
        channel_put(output, pkt);
    }}
}}
program {{ rx -> work.input; work.output -> end.input; work.other -> end.input; end.output -> tx; }}
"
    )
}

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
    let examples = examples();
    assert!(examples.len() >= 15, "the examples were not found");
    let mut wrong = String::new();
    for (line, kind, text) in examples {
        let (source, code) = match kind.split_once(' ').unwrap_or((kind, "")) {
            ("program", "") => (text, None),
            ("items", "") => (items(&text), None),
            ("body", "") => (body(&text), None),
            ("refused-program", code) => (text, Some(code)),
            ("refused", code) => (body(&text), Some(code)),
            _ => panic!("line {line}: `{kind}` is no kind of example"),
        };
        let compilation = check("example.baker", &source, &Library);
        let codes: Vec<&str> = compilation.diagnostics.iter().map(|d| d.code).collect();
        if codes != Vec::from_iter(code) || (code.is_none() && !compilation.runnable) {
            let rendered = render(&compilation.diagnostics, &compilation.sources, false);
            wrong += &format!("line {line} ({kind}): {codes:?}\n{rendered}\n");
        }
        if let Some(program) = &compilation.program {
            let lowered = baker::ir::lower(program);
            if let Err(error) = baker::ir::verify(&lowered) {
                wrong += &format!("line {line}: {error:?}\n");
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong}");
}
