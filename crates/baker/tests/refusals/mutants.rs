//! Programs with mistakes at random: tokens and lines of valid programs are removed, repeated, swapped and
//! replaced. The checker must never panic or hang; what it accepts must lower to IR that verifies, and run.

use baker::check::check;
use baker::diag::render;
use baker::ir::interp::Machine;
use baker::ir::{self, TableEntry, TableId, TableKind, TableStore};
use baker::library::Library;
use baker::source::FileId;
use baker::syntax::{SyntaxElement, parse};

const SWITCH: &str = include_str!("../../../../apps/l3switch/l3switch.baker");
const SLIDE: &str = include_str!("../../../../examples/l3_slide.baker");
const TOUR: &str = include_str!("programs/tour.baker");

/// A small generator of random numbers: SplitMix64 (Steele, Lea, Flood 2014).
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    fn below(&mut self, end: usize) -> usize {
        (self.next() % end as u64) as usize
    }

    /// An index of something with content.
    fn index(&mut self, pieces: &[String]) -> usize {
        loop {
            let index = self.below(pieces.len());
            if !pieces[index].trim().is_empty() {
                return index;
            }
        }
    }
}

/// Tokens put in the place of others.
const WORDS: &[&str] = &[
    "0",
    "1",
    "5",
    "-1",
    "255",
    "256",
    "0xffffffff",
    "0x1_0000_0000",
    "null",
    "true",
    "false",
    "+",
    "-",
    "*",
    "/",
    "%",
    "&",
    "|",
    "^",
    "<<",
    ">>",
    "&&",
    "||",
    "!",
    "~",
    "==",
    "!=",
    "<",
    ">=",
    "=",
    "+=",
    "<<=",
    "?",
    ":",
    "->",
    ".",
    "return",
    "break",
    "continue",
    "if",
    "for",
    "else",
    "u1",
    "u8",
    "u32",
    "u64",
    "u128",
    "i32",
    "bool",
    "int",
    "void",
    "packet_copy",
    "packet_decap",
    "packet_encap",
    "packet_drop",
    "channel_put",
    "packet_length",
    "metadata",
    "rx",
    "host",
    "tx",
    "pkt",
    "ip",
];

/// One change, sometimes up to three, of a text.
fn mutant(text: &str, random: &mut Random) -> String {
    let lines = random.below(2) == 0;
    let mut pieces: Vec<String> = if lines {
        text.split_inclusive('\n').map(str::to_string).collect()
    } else {
        let tokens = parse(FileId(0), text).syntax().descendants_with_tokens().filter_map(SyntaxElement::into_token);
        tokens.map(|t| t.text().to_string()).collect()
    };
    let changes = if random.below(4) == 0 { 2 + random.below(2) } else { 1 };
    for _ in 0..changes {
        let (a, b) = (random.index(&pieces), random.index(&pieces));
        match random.below(6) {
            0 => drop(pieces.remove(a)),
            1 => pieces.insert(a, pieces[a].clone()),
            2 => pieces.swap(a, b),
            3 => pieces[a] = pieces[b].clone(),
            4 => pieces.insert(a, pieces[b].clone()),
            _ if lines => {
                let moved = pieces.remove(a);
                pieces.insert(b.min(pieces.len()), moved);
            }
            _ => pieces[a] = format!(" {} ", WORDS[random.below(WORDS.len())]),
        }
    }
    pieces.concat()
}

/// Frames that reach the corners of the programs: ARP, IPv4 of several lengths, labels, rubbish.
fn frames(random: &mut Random) -> Vec<Vec<u8>> {
    let mut frames = vec![Vec::new(), vec![0; 13], vec![0xff; 14]];
    for kind in [0x0800u16, 0x0806, 0x8847, 0x1234] {
        for length in [14, 20, 34, 42, 60] {
            let mut frame: Vec<u8> = (0..length).map(|_| random.next() as u8).collect();
            frame[12..14].copy_from_slice(&kind.to_be_bytes());
            if length > 14 {
                frame[14] = 0x45 + random.below(3) as u8;
            }
            frames.push(frame);
        }
    }
    frames
}

/// Something in every table, so that look-ups find it.
fn fill(machine: &mut Machine, random: &mut Random) {
    let program = machine.program().clone();
    for (index, table) in program.tables.iter().enumerate() {
        let mut numbers = |layout: ir::LayoutId| -> Vec<u128> {
            let fields = &program.layouts[layout.0 as usize].fields;
            fields.iter().map(|f| random.next() as u128 & ir::arith::mask(f.width.min(4))).collect()
        };
        for _ in 0..4 {
            let (key, value) = (numbers(table.key), numbers(table.value));
            let prefix_len = (table.kind == TableKind::Lpm).then_some(32);
            // A key that is out of range is refused, which is fine here.
            let _ = machine.insert(TableId(index as u32), &TableEntry { key, prefix_len, value });
        }
    }
}

/// Checks one text; whether it was accepted.
fn accepted(text: &str, random: &mut Random) -> bool {
    let compilation = check("mutant.baker", text, &Library);
    assert_eq!(compilation.program.is_some(), compilation.diagnostics.is_empty());
    let rendered = render(&compilation.diagnostics, &compilation.sources, false);
    let Some(program) = compilation.program else {
        assert!(rendered.contains("error["), "no error is shown");
        return false;
    };
    let lowered = ir::lower(&program);
    if let Err(errors) = ir::verify(&lowered) {
        let errors: Vec<_> = errors.iter().map(ToString::to_string).collect();
        panic!("accepted, yet does not verify: {}", errors.join("\n"));
    }
    assert!(!ir::print(&lowered).is_empty());
    if !compilation.runnable {
        return true;
    }
    let mut machine = Machine::new(lowered);
    fill(&mut machine, random);
    for frame in frames(random) {
        let outputs = machine.try_receive(random.below(6) as u8, &frame).expect("an accepted program runs");
        let most = machine.program().limits.copies as usize + 1;
        assert!(outputs.len() <= most, "{} packets out of one, though at most {most} were announced", outputs.len());
    }
    true
}

/// Runs `count` mutants of a text; how many were accepted.
fn run(text: &str, count: u64) -> usize {
    (0..count)
        .filter(|&seed| {
            let mut random = Random(seed);
            let mutant = mutant(text, &mut random);
            let result = std::panic::catch_unwind(move || (accepted(&mutant, &mut random), mutant));
            match result {
                Ok((accepted, _)) => accepted,
                Err(panic) => {
                    eprintln!("seed {seed}:\n{}", self::mutant(text, &mut Random(seed)));
                    std::panic::resume_unwind(panic)
                }
            }
        })
        .count()
}

#[test]
fn originals_are_accepted() {
    for text in [SWITCH, SLIDE, TOUR] {
        let compilation = check("original.baker", text, &Library);
        assert!(compilation.program.is_some(), "{}", render(&compilation.diagnostics, &compilation.sources, false));
        assert!(accepted(text, &mut Random(0)));
    }
}

#[test]
fn mutants_of_the_switch() {
    let accepted = run(SWITCH, 3000);
    assert!(accepted > 100, "only {accepted} mutants accepted: nothing was tested");
}

#[test]
fn mutants_of_the_slide() {
    let accepted = run(SLIDE, 3000);
    assert!(accepted > 100, "only {accepted} mutants accepted: nothing was tested");
}

#[test]
fn mutants_of_the_tour() {
    let accepted = run(TOUR, 4000);
    assert!(accepted > 100, "only {accepted} mutants accepted: nothing was tested");
}
