//! The interpreter and the kernel must agree: random programs, loaded and run by the kernel's test run.
//!
//! `PROGRAMS=n`: how many, 2000 if not set; the other variables are those of the test with native code.

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex};

use baker::ir::Program;
use baker::ir::interp::Machine;
use baker::opt::Level;
use codegen::bpf;
use dataplane::step::Stepper;
use dataplane::xdp::{KERNEL_FRAMES, KernelEngine};
use dataplane::{InterpEngine, TableAccess};

use crate::generate::{self, Style};
use crate::number;
use crate::numbers::Numbers;
use crate::packets::{self, Packet};
use crate::run::{self, Seen, compile, same_outputs, same_state, show_packet};

/// Packets per program.
const PACKETS: usize = 12;
/// Bytes of a frame that holds what the kernel's holds.
const FRAME: u32 = 8192;
/// The kernel receives no shorter packets.
const SHORTEST: usize = 14;

/// What became of the programs.
#[derive(Debug, Default)]
struct Tally {
    ran: u64,
    /// Programs that cannot run in the kernel, by reason.
    unfit: BTreeMap<String, u64>,
    seen: Seen,
}

fn compare(program: &Arc<Program>, packets: &[Packet], level: Level, fill: u64) -> Result<Option<Seen>, String> {
    if let Some(obstacle) = bpf::obstacles(program).first() {
        let _ = obstacle;
        return Ok(None);
    }
    let mut seen = Seen::default();
    let machine = Arc::new(Mutex::new(Machine::new(program.clone())));
    let reference = Box::new(InterpEngine::new(machine.clone()).with_layout(KERNEL_FRAMES));
    let stepper = |engine, tables| {
        Stepper::with_frames(program.clone(), engine, tables, FRAME).map_err(|error| format!("no engine: {error}"))
    };
    let mut interp = stepper(reference, TableAccess::Interp(machine.clone()))?;
    let engine = KernelEngine::new(program, level).map_err(|error| match &error {
        dataplane::xdp::KernelEngineError::Load(
            dataplane::xdp::LoadError::Verifier { log, .. } | dataplane::xdp::LoadError::Exhausted { log },
        ) => {
            let path = std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join("verifier.log");
            std::fs::write(&path, log).expect("cargo's directory for tests");
            format!("{error}; {}", path.display())
        }
        _ => error.to_string(),
    })?;
    let tables = engine.tables();
    let kernel = stepper(Box::new(engine), tables)?;
    let mut numbers = Numbers::new(fill);
    let mut kernels = [("kernel", kernel)];
    run::control(program, &mut numbers, &mut interp, &mut kernels)?;
    let [(_, mut kernel)] = kernels;
    let mut now = 0;
    for (index, (port, bytes)) in packets.iter().enumerate() {
        now += numbers.bits(40) as u64;
        interp.set_now(now);
        kernel.set_now(now);
        let at = || format!("packet {index}, {}", show_packet(*port, bytes));
        let wanted = interp.receive(*port, bytes);
        seen.outputs(bytes, &wanted);
        let found = kernel.receive(*port, bytes);
        kernel.check_frames().map_err(|error| format!("kernel, {}: {error}", at()))?;
        same_outputs("kernel", &wanted, &found).map_err(|error| format!("{}: {error}", at()))?;
        same_state(program, "kernel", &interp, &kernel).map_err(|error| format!("{}: {error}", at()))?;
    }
    seen.state(program, &interp);
    Ok(Some(seen))
}

#[test]
fn random_programs_in_the_kernel() {
    let first = number("FIRST_SEED").unwrap_or(0);
    let seeds = match number("SEED") {
        Some(seed) => seed..seed + 1,
        None => first..first + number("PROGRAMS").unwrap_or(2000),
    };
    let mut tally = Tally::default();
    let mut failures: BTreeMap<String, Vec<u64>> = BTreeMap::new();
    for seed in seeds {
        let generated = generate::program(seed, Style::Kernel);
        if number("SHOW").is_some() {
            println!("// seed {seed}\n{}", generated.text);
        }
        let mut numbers = Numbers::new(!seed);
        let mut packets = Vec::new();
        while packets.len() < PACKETS {
            let packet = packets::packet(&mut numbers, &generated.headers);
            if packet.1.len() >= SHORTEST {
                packets.push(packet);
            }
        }
        let mut program = compile(&generated.text).expect("a valid program");
        if number("NOTABLES").is_some() {
            use baker::ir::Op;
            let p = Arc::make_mut(&mut program);
            for body in p.ppfs.iter_mut().map(|p| &mut p.body) {
                for block in &mut body.blocks {
                    block.insts.retain(|i| !matches!(i.op, Op::Lock { .. } | Op::Unlock { .. }));
                }
                for inst in body.blocks.iter_mut().flat_map(|b| &mut b.insts) {
                    if matches!(inst.op, Op::Insert { .. } | Op::Remove { .. } | Op::Take { .. }) {
                        inst.op = Op::Const(0);
                    }
                }
            }
        }
        if let Some(obstacle) = bpf::obstacles(&program).first() {
            *tally.unfit.entry(format!("{:?}", obstacle.reason)).or_default() += 1;
            continue;
        }
        let level = [Level::Base, Level::Pac, Level::Cgpc][seed as usize % 3];
        let compared = catch_unwind(AssertUnwindSafe(|| compare(&program, &packets, level, seed)));
        let compared = compared.unwrap_or_else(|panic| Err(crate::said(panic)));
        match compared {
            Ok(Some(seen)) => {
                tally.ran += 1;
                tally.seen.add(&seen);
            }
            Ok(None) => {}
            Err(error) => {
                println!("seed {seed}, {level:?}: {error}");
                failures
                    .entry(error.chars().filter(|c| !c.is_ascii_digit()).take(140).collect())
                    .or_default()
                    .push(seed);
            }
        }
    }
    println!("{tally:?}");
    for (kind, seeds) in &failures {
        println!("{} x {kind}: {:?}", seeds.len(), &seeds[..seeds.len().min(8)]);
    }
    let _ = run::compile;
    assert!(failures.is_empty());
}
