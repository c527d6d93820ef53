//! How long compiling takes: each shipped application from text to machine code, and generated programs of growing
//! size, stage by stage and pass by pass.
//!
//! Each generated PPF looks a table up, counts, uses metadata, takes a header off and puts it on again, and has two
//! ways to the next PPF: what would make code or time grow with the number of paths through a program would show.

use std::ops::Range;
use std::path::{Path, PathBuf};
use std::time::Instant;

use baker::ir::{self, Program};
use baker::library::{Beside, Library};
use baker::opt::{Level, Pass, optimise};
use codegen::OptLevel;
use dataplane::NativeEngine;

use crate::results::Results;
use crate::{Effort, text};

/// PPFs of the generated programs.
const SIZES: [usize; 4] = [1, 10, 100, 1000];
/// Largest generated program of a smoke run, and its one application.
const QUICK: usize = 10;
const QUICK_APP: &str = "l3switch";
/// What the results are called after.
const SYSTEM: &str = "millrace";

/// Measures.
pub fn run(effort: Effort) -> Result<Results, String> {
    let mut results = Results::default();
    applications(effort, &mut results)?;
    for ppfs in SIZES.into_iter().filter(|ppfs| !effort.quick || *ppfs <= QUICK) {
        generated(ppfs, effort, &mut results)?;
    }
    Ok(results)
}

fn applications(effort: Effort, results: &mut Results) -> Result<(), String> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../apps");
    let entries = std::fs::read_dir(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    let mut sources: Vec<(String, PathBuf)> = Vec::new();
    for entry in entries {
        let name = entry.map_err(text)?.file_name().to_string_lossy().into_owned();
        let source = folder.join(&name).join(format!("{name}.baker"));
        if source.exists() && (!effort.quick || name == QUICK_APP) {
            sources.push((name, source));
        }
    }
    sources.sort();
    for (name, path) in sources {
        let source = std::fs::read_to_string(&path).map_err(text)?;
        let path = path.display().to_string();
        results.add(&name, SYSTEM, "compile_ms", "ms", whole(&path, &source, effort.runs)?);
    }
    Ok(())
}

/// Milliseconds from text to machine code, `runs` times.
pub fn whole(name: &str, source: &str, runs: usize) -> Result<Vec<f64>, String> {
    let once = |name, source: &str| {
        let start = Instant::now();
        NativeEngine::compile(&program(name, source)?, OptLevel::O3, Level::Cgpc).map_err(text)?;
        Ok(milliseconds(start))
    };
    // The first one in a process loads LLVM's library.
    once("rows.baker", &rows(1))?;
    (0..runs).map(|_| once(name, source)).collect()
}

/// A program's intermediate representation; its imports lie beside `name`, or are the library's.
pub fn program(name: &str, source: &str) -> Result<Program, String> {
    let compilation = baker::check::check(name, source, &Beside(|path: &Path| std::fs::read_to_string(path).ok()));
    let program = compilation.program.ok_or_else(|| format!("{name} does not compile"))?;
    Ok(ir::lower(&program))
}

fn milliseconds(start: Instant) -> f64 {
    start.elapsed().as_secs_f64() * 1e3
}

/// Stages before the optimiser, its passes at each level, and all up to machine code.
fn generated(ppfs: usize, effort: Effort, results: &mut Results) -> Result<(), String> {
    let source = rows(ppfs);
    let case = if ppfs == 1 { "1 PPF".to_owned() } else { format!("{ppfs} PPFs") };
    let runs = if ppfs >= 100 { effort.runs.min(3) } else { effort.runs };
    let mut times: Vec<(String, Vec<f64>)> = Vec::new();
    let mut add = |stage: &str, start: Instant| match times.iter_mut().find(|(name, _)| name == stage) {
        Some((_, values)) => values.push(milliseconds(start)),
        None => times.push((stage.to_owned(), vec![milliseconds(start)])),
    };
    for _ in 0..runs {
        let start = Instant::now();
        let compilation = baker::check::check("rows.baker", &source, &Library);
        add("check", start);
        let start = Instant::now();
        let base = ir::lower(&compilation.program.ok_or("a generated program does not compile")?);
        add("lower", start);
        let start = Instant::now();
        ir::verify(&base).map_err(|errors| format!("{errors:?}"))?;
        add("verify", start);
        for level in [Level::Pac, Level::Cgpc] {
            let mut program = base.clone();
            for Pass { name, run } in level.passes() {
                let start = Instant::now();
                program = run(&program);
                add(&format!("{} {name}", level.name()), start);
            }
            let start = Instant::now();
            optimise(&base, level);
            add(&format!("{} all passes", level.name()), start);
        }
    }
    for (stage, values) in times {
        results.add(&case, SYSTEM, &format!("{stage}_ms").replace(' ', "_"), "ms", values);
    }
    let optimised = optimise(&program("rows.baker", &source)?, Level::Cgpc);
    let reached = optimised.ppfs.iter().zip(optimised.reached_ppfs()).filter(|(_, reached)| *reached);
    let instructions: usize = reached.flat_map(|(ppf, _)| &ppf.body.blocks).map(|block| block.insts.len()).sum();
    results.add(&case, SYSTEM, "cgpc_instructions", "instructions", vec![instructions as f64]);
    let runs = if ppfs >= 1000 { 1 } else { runs };
    results.add(&case, SYSTEM, "compile_ms", "ms", whole("rows.baker", &source, runs)?);
    Ok(())
}

/// PPFs in a row at most: the language allows 64.
const ROW: usize = 30;
/// Fields of metadata.
const METADATA: usize = 8;

/// Rows of PPFs, one behind the other, behind a first one that sends each packet into a row by its type.
fn rows(ppfs: usize) -> String {
    let rows: Vec<Range<usize>> = (1..ppfs).step_by(ROW).map(|first| first..(first + ROW).min(ppfs)).collect();
    let fields: String = (0..METADATA).map(|field| format!(" f{field} : u32;")).collect();
    let outputs: String = (0..rows.len()).map(|row| format!(", r{row}")).collect();
    let into = |row: usize| format!("        if (pkt->type == {row}) {{ channel_put(r{row}, pkt); return; }}\n");
    let puts: String = (0..rows.len()).map(into).collect();
    let mut modules = format!(
        "import \"net/ether\";\nimport \"net/ipv4\";\nmetadata {{{fields} }}\ndrop_reason seen_before;\n\
         module m0 {{\n    in ether input;\n    out ether other{outputs};\n    ppf p(ether_packet_t *pkt) from input {{\n\
         {puts}        channel_put(other, pkt);\n    }}\n}}\n"
    );
    let mut wires = String::from("    rx -> m0.input;\n    m0.other -> tx;\n");
    for (row, members) in rows.into_iter().enumerate() {
        wires += &format!("    m0.r{row} -> m{}.input;\n", members.start);
        for index in members.clone() {
            modules += &module(index);
            let next = if index + 1 == members.end { "tx".to_owned() } else { format!("m{}.input", index + 1) };
            wires += &format!("    m{index}.a -> {next};\n    m{index}.b -> {next};\n");
        }
    }
    format!("{modules}program {{\n{wires}}}\n")
}

/// One PPF: a look-up, metadata, a header taken off, changed and put on again, two ways on.
fn module(index: usize) -> String {
    let [to, from, tested] = [index, index * 7, index * 3].map(|field| field % METADATA);
    format!(
        "module m{index} {{
    in ether input;
    out ether a, b;
    hash<mac_addr_t, u32> seen[64];
    counter hits;
    ppf p(ether_packet_t *pkt) from input {{
        u32 *known = seen[pkt->src];
        if (known != null) counter_add(hits, *known);
        pkt->metadata.f{to} = pkt->metadata.f{from} + 1;
        if (pkt->metadata.f{tested} == {index}) {{ packet_drop(pkt, seen_before); return; }}
        mac_addr_t dst = pkt->dst;
        mac_addr_t src = pkt->src;
        ipv4_packet_t *ip = packet_decap(pkt);
        if (ip->ttl == {ttl}) ip->ttl -= 1;
        ether_packet_t *frame = packet_encap(ip);
        frame->dst = src;
        frame->src = dst;
        frame->type = ETH_TYPE_IPV4;
        if (dst == {index}) {{ channel_put(a, frame); }} else {{ channel_put(b, frame); }}
    }}
}}
",
        ttl = 2 + index % 200
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn generated_programs_compile() {
        for ppfs in [1, 7] {
            let program = program("rows.baker", &rows(ppfs)).unwrap();
            assert_eq!(program.ppfs.len(), ppfs);
            ir::verify(&optimise(&program, Level::Cgpc)).unwrap();
        }
    }
}
