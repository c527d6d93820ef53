//! The Baker library against packets that scapy built and tshark decoded, on every engine.
//!
//! `packets.txt` has blocks; `make.py` writes it. `read`: after some statements, each `is NUMBER EXPRESSION` must hold.
//! `write`: a PPF changes the packet `ether`, and what leaves must be `out`, checksums included. `hash` is tested
//! against the standard library's SipHash-2-4.

mod arrays;
mod http;
mod keeping;
mod lengths;
mod sums;
mod tfrc;

use std::fmt::Write;
use std::sync::Arc;

use baker::check::check;
use baker::diag::render;
use baker::ir::Program;
use baker::library::Library;
use baker::opt::Level;
use codegen::OptLevel;
use dataplane::EngineKind;
use dataplane::step::Stepper;

const ENGINES: [EngineKind; 4] = [
    EngineKind::Interp,
    EngineKind::Native(OptLevel::O0, Level::Base),
    EngineKind::Native(OptLevel::O3, Level::Pac),
    EngineKind::NATIVE,
];

/// Whether an engine leaves all metadata with packets that go to `tx`; the whole optimiser keeps what no port looks at.
fn shows_metadata(engine: EngineKind) -> bool {
    engine != EngineKind::NATIVE
}

/// A block of the file.
#[derive(Default)]
struct Block {
    name: String,
    imports: Vec<String>,
    input: Vec<u8>,
    /// For `write`.
    output: Option<Vec<u8>>,
    body: String,
    /// For `read`.
    values: Vec<(u128, String)>,
}

fn bytes(hex: &str) -> Vec<u8> {
    let byte = |at: usize| u8::from_str_radix(&hex[at..at + 2], 16).expect("two hexadecimal digits");
    (0..hex.len()).step_by(2).map(byte).collect()
}

fn blocks() -> Vec<Block> {
    let mut blocks: Vec<Block> = Vec::new();
    for line in include_str!("packets.txt").lines().filter(|line| !line.is_empty() && !line.starts_with('#')) {
        let (word, rest) = line.split_once(' ').unwrap_or((line, ""));
        if matches!(word, "read" | "write") {
            blocks.push(Block { name: line.into(), ..Block::default() });
            continue;
        }
        let block = blocks.last_mut().expect("a block begins with its name");
        match word {
            "import" => block.imports = rest.split(' ').map(str::to_string).collect(),
            "in" => block.input = bytes(rest),
            "out" => block.output = Some(bytes(rest)),
            "is" => {
                let (number, expression) = rest.split_once(' ').expect("a number and an expression");
                block.values.push((number.parse().expect("a number"), expression.to_string()));
            }
            _ => block.body += &format!("{line}\n"),
        }
    }
    blocks
}

/// A program with one PPF that holds the packet `ether`.
fn program(imports: &[String], metadata: &str, body: &str) -> Arc<Program> {
    program_with(imports, metadata, "", body)
}

/// As `program`, with some functions.
fn program_with(imports: &[String], metadata: &str, functions: &str, body: &str) -> Arc<Program> {
    let imports: String = imports.iter().map(|path| format!("import \"{path}\";\n")).collect();
    let text = format!(
        "import \"net/ether\";\n{imports}metadata {{ done : bool; {metadata} }}
{functions}
module m {{
    in  ether input;
    out ether output;
    ppf work(ether_packet_t *ether) from input {{
{body}
        channel_put(output, ether);
    }}
}}
program {{ rx -> m.input; m.output -> tx; }}
"
    );
    let compilation = check("library.baker", &text, &Library);
    let Some(program) = &compilation.program else {
        panic!("{}", render(&compilation.diagnostics, &compilation.sources, false));
    };
    let lowered = baker::ir::lower(program);
    baker::ir::verify(&lowered).unwrap_or_else(|errors| panic!("{errors:?}\n{text}"));
    Arc::new(lowered)
}

/// What is wrong with a block on an engine.
fn wrong(block: &Block, program: &Arc<Program>, engine: EngineKind) -> String {
    let mut wrong = String::new();
    let mut stepper = Stepper::new(program.clone(), engine).expect("an engine");
    let outputs = stepper.receive(1, &block.input);
    stepper.check_frames().unwrap_or_else(|error| panic!("{}: {error}", block.name));
    let [output] = &outputs[..] else {
        return format!("{} on {engine:?}: {} packets came out\n", block.name, outputs.len());
    };
    let values = block.values.iter().enumerate().filter(|_| shows_metadata(engine));
    for (index, (number, expression)) in values {
        let field = program.metadata.iter().position(|field| field.name == format!("v{index}"));
        let found = output.metadata[field.expect("declared")];
        if found != *number {
            let _ = writeln!(wrong, "{} on {engine:?}: {expression} is {found:#x}, not {number:#x}", block.name);
        }
    }
    let expected = block.output.as_ref().unwrap_or(&block.input);
    if output.bytes != *expected {
        let _ = writeln!(wrong, "{} on {engine:?}:\n  {:02x?}\nnot\n  {expected:02x?}", block.name, output.bytes);
    }
    wrong
}

#[test]
fn packets_are_as_scapy_and_tshark_say() {
    let blocks = blocks();
    assert!(blocks.len() > 50, "only {} blocks", blocks.len());
    let mut all = String::new();
    for block in &blocks {
        let metadata: String = (0..block.values.len()).map(|i| format!("v{i} : u128; ")).collect();
        let values = block.values.iter().enumerate();
        let stores: String =
            values.map(|(i, (_, expression))| format!("ether->metadata.v{i} = {expression};\n")).collect();
        let program = program(&block.imports, &metadata, &format!("{}{stores}", block.body));
        for engine in ENGINES {
            all += &wrong(block, &program, engine);
        }
    }
    assert!(all.is_empty(), "{all}");
}

/// Words of the packet hashed by the library and by the standard library.
#[test]
#[allow(deprecated)] // The standard library's SipHasher is SipHash-2-4 and will stay so.
fn siphash_is_siphash_2_4() {
    use std::hash::{Hasher, SipHasher};
    let body = "
        u64 *k0 = packet_load(ether, 16);
        u64 *k1 = packet_load(ether, 24);
        u64 *a = packet_load(ether, 32);
        u64 *b = packet_load(ether, 40);
        if (k0 == null || k1 == null || a == null || b == null) { packet_drop(ether, truncated); return; }
        ether->metadata.none = siphash_end(siphash_start(*k0, *k1), 0);
        ether->metadata.one = siphash_end(siphash_word(siphash_start(*k0, *k1), *a), 1);
        ether->metadata.two = siphash2(*k0, *k1, *a, *b);
    ";
    let program = program(&["hash/siphash".into()], "none : u64; one : u64; two : u64;", body);
    let mut number = 0u64;
    for engine in ENGINES.into_iter().filter(|engine| shows_metadata(*engine)) {
        let mut stepper = Stepper::new(program.clone(), engine).expect("an engine");
        for _ in 0..50 {
            let [k0, k1, a, b] = [1, 2, 3, 4u64].map(|n| {
                number = number.wrapping_add(n).wrapping_mul(0x9e37_79b9_7f4a_7c15);
                number ^ number >> 29
            });
            let mut packet = vec![0; 16];
            packet.extend([k0, k1, a, b].iter().flat_map(|word| word.to_be_bytes()));
            let outputs = stepper.receive(1, &packet);
            for (name, words) in [("none", &[][..]), ("one", &[a]), ("two", &[a, b])] {
                let mut hasher = SipHasher::new_with_keys(k0, k1);
                words.iter().for_each(|word| hasher.write(&word.to_le_bytes()));
                let field = program.metadata.iter().position(|field| field.name == name).expect("declared");
                assert_eq!(outputs[0].metadata[field], hasher.finish().into(), "{name} on {engine:?}");
            }
        }
    }
}
