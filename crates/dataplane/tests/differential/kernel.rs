//! The interpreter and the kernel must agree: random programs, loaded and run by the kernel's test run. Some of them
//! run on the virtual machine (`codegen::bpf::vm`), too, and all of them where the kernel lets this process load
//! nothing. Some are programs of traffic control, whose checksums are kept by operations; these run on the interpreter
//! and as native code in that form, too.
//!
//! `PROGRAMS=n`: how many must run, 2000 if not set; the other variables are those of the test with native code. A
//! refusal of the kernel's verifier is written to `verifier.log` in cargo's directory for tests.

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use baker::ir::interp::Machine;
use baker::ir::{CounterSlots, Inst, Op, PacketEnd, Program};
use baker::opt::Level;
use baker::opt::timing::timed;
use baker::place::{Limits, Placement, Split, Stage, split};
use codegen::kernel::{Hook, Options};
use codegen::{CodegenError, OptLevel, bpf};
use dataplane::step::Stepper;
use dataplane::xdp::{KERNEL_FRAMES, KernelCode, KernelEngine, KernelEngineError, LoadError, MemoryError};
use dataplane::{EngineKind, InterpEngine, NativeEngine, TableAccess};

use crate::generate::{self, Style};
use crate::numbers::SplitMix64;
use crate::packets::{self, Packet};
use crate::run::{Seen, compile, compile_by, control, same_outputs, same_state, show_packet};
use crate::{number, said};

/// Packets per program.
const PACKETS: usize = 12;
/// Nanoseconds within which the last deadlines of a program come: see `generate::expr`.
const LAST: u64 = 1_000_000_000_000;
/// Bytes of a frame that holds what the kernel's holds.
const FRAME: u32 = 8192;
/// The kernel receives no shorter packets.
const SHORTEST: usize = 14;
/// One in so many programs is as large as those for native code, which takes long.
const ONE_LARGE_IN: u64 = 32;
/// Of programs with more than so many instructions so many in a hundred are run: they take the verifier most of the
/// time.
const LONG: usize = 480;
const LONG_PERCENT: usize = 16;
/// One in so many programs runs on the virtual machine, too.
const ONE_ON_MACHINE_IN: u64 = 16;
const MACHINE: &str = "virtual machine";
/// One in so many programs may be too much for the kernel.
const MOST_UNFIT: u64 = 20;

/// What became of the programs.
#[derive(Debug, Default)]
struct Tally {
    ran: u64,
    /// Those of them that ran on the virtual machine, too, or instead.
    interpreted: u64,
    /// Those of them that were programs of traffic control, and of these those that keep checksums by operations.
    at_tc: u64,
    with_operations: u64,
    /// Long programs that were left to other runs.
    left: u64,
    /// Programs that did not run in the kernel, by reason.
    unfit: BTreeMap<String, u64>,
    seen: Seen,
}

/// Why a program was not compared.
enum Refusal {
    /// It is too much for the kernel, which is said in so many words.
    Unfit(String),
    /// A fault.
    Fault(String),
}

impl From<String> for Refusal {
    fn from(fault: String) -> Self {
        Refusal::Fault(fault)
    }
}

/// The engines of a program, with their names, or why there is none.
fn engines(
    program: &Arc<Program>,
    (level, options): (Level, Options),
    and_machine: bool,
) -> Result<Vec<(&'static str, KernelEngine)>, Refusal> {
    let split = whole(program, options.hook)?;
    // For the timers.
    let workers = program.deadline_timers().next().map(|_| {
        let workers = Arc::new(split.workers.clone());
        NativeEngine::compile(&workers, OptLevel::O0, level).map_err(|error| Refusal::Fault(error.to_string()))
    });
    let workers = workers.transpose()?;
    let mut codes = vec![KernelCode::split(&split, level, options)];
    if and_machine && codes[0].as_ref().is_ok_and(|code| !code.is_interpreted()) {
        codes.push(KernelCode::interpreted(&split, level, options));
    }
    let engine = |code: Result<KernelCode, KernelEngineError>| {
        let code = code.map_err(refusal)?;
        let name = if code.is_interpreted() { MACHINE } else { "kernel" };
        Ok((name, KernelEngine::new(Arc::new(code), workers.clone())))
    };
    codes.into_iter().map(engine).collect()
}

/// A program as the kernel runs it, whole: nothing is left to workers but copies.
fn whole(program: &Program, hook: Hook) -> Result<Split, Refusal> {
    // Growth at the end, too: the reference has the kernel's frames.
    let limits = Limits { unsure: Box::new(|_| None), ..bpf::limits_at(program, hook) };
    if let Some(why) = limits.whole.first() {
        return Err(Refusal::Unfit(why.clone()));
    }
    let placement = Placement::new(program, &limits).map_err(|errors| Refusal::Fault(format!("{errors:?}")))?;
    let is_whole = |stage: &Stage| match stage {
        Stage::Kernel(handed_over) => handed_over.is_empty(),
        stage => *stage == Stage::Behind,
    };
    match placement.stages.iter().find(|stage| !is_whole(stage)) {
        Some(stage) => Err(Refusal::Fault(format!("a PPF is not the kernel's: {stage:?}"))),
        None => Ok(split(program, &placement, &limits)),
    }
}

/// Why a program is not compared.
fn refusal(error: KernelEngineError) -> Refusal {
    match &error {
        KernelEngineError::Load(LoadError::Exhausted | LoadError::TooMuch { .. }) => {
            Refusal::Unfit("too much for the verifier".into())
        }
        KernelEngineError::Load(LoadError::Codegen(CodegenError::TooLarge(..))) => Refusal::Unfit("too large".into()),
        KernelEngineError::Load(LoadError::Codegen(CodegenError::Stack)) => Refusal::Unfit("too much stack".into()),
        KernelEngineError::Memory(MemoryError::Large(_)) => Refusal::Unfit("tables too large".into()),
        KernelEngineError::Load(LoadError::Verifier { log, .. }) => {
            let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join("verifier.log");
            std::fs::write(&path, log).expect("cargo's directory for tests");
            Refusal::Fault(format!("{error}; see {}", path.display()))
        }
        _ => Refusal::Fault(error.to_string()),
    }
}

/// Runs the packets on both. `fill` seeds the control plane's part: entries before the first packet, and changes half
/// way. The kernel's part is that of `offered`, which is the program or another form of it.
fn compare(
    (program, offered): (&Arc<Program>, &Arc<Program>),
    packets: &[Packet],
    how: (Level, Options),
    fill: u64,
) -> Result<(Seen, bool), Refusal> {
    let engines = engines(offered, how, fill.is_multiple_of(ONE_ON_MACHINE_IN))?;
    let is_interpreted = engines.iter().any(|(name, _)| *name == MACHINE);
    let mut seen = Seen::default();
    let machine = Arc::new(Mutex::new(Machine::new(program.clone())));
    let reference = Box::new(InterpEngine::new(machine.clone()).with_layout(KERNEL_FRAMES));
    let stepper = |program: &Arc<Program>, engine, tables| {
        Stepper::with_frames(program.clone(), engine, tables, FRAME).map_err(|error| format!("no engine: {error}"))
    };
    let mut interp = stepper(program, reference, TableAccess::Interp(machine))?;
    let mut kernels = Vec::new();
    for (name, engine) in engines {
        let tables = engine.tables();
        kernels.push((name, stepper(offered, Box::new(engine), tables)?));
    }
    if how.1.hook == Hook::Tc {
        let machine = Arc::new(Mutex::new(Machine::new(offered.clone())));
        let engine = Box::new(InterpEngine::new(machine.clone()).with_layout(KERNEL_FRAMES));
        kernels.push(("operations, interpreter", stepper(offered, engine, TableAccess::Interp(machine))?));
        let native = Stepper::new(offered.clone(), EngineKind::Native(OptLevel::O0, how.0));
        kernels.push(("operations, native", native.map_err(|error| format!("no engine: {error}"))?));
    }
    let mut numbers = SplitMix64::new(fill);
    let mut now = 0;
    for (index, (port, bytes)) in packets.iter().enumerate() {
        if index % PACKETS.div_ceil(2) == 0 {
            control(program, &mut numbers, &mut interp, &mut kernels)?;
        }
        now += numbers.bits(40) as u64;
        let timed = interp.advance(now);
        let at = |error: String| format!("packet {index}, {}: {error}", show_packet(*port, bytes));
        let wanted = interp.receive(*port, bytes);
        seen.outputs(bytes, &wanted);
        for (name, kernel) in &mut kernels {
            let ran = kernel.advance(now);
            same_outputs(name, &timed, &ran).map_err(at)?;
            let found = kernel.receive(*port, bytes);
            kernel.check_frames().map_err(at)?;
            same_outputs(name, &wanted, &found).map_err(at)?;
            same_state(program, name, &interp, kernel).map_err(at)?;
        }
    }
    // What was set last comes due, too.
    now += LAST;
    let timed = interp.advance(now);
    for (name, kernel) in &mut kernels {
        let at = |error: String| format!("behind the last packet: {error}");
        same_outputs(name, &timed, &kernel.advance(now)).map_err(at)?;
        same_state(program, name, &interp, kernel).map_err(at)?;
    }
    interp.expire();
    for (name, kernel) in &mut kernels {
        kernel.expire();
        same_state(program, name, &interp, kernel).map_err(|error| format!("after expiry: {error}"))?;
    }
    seen.state(program, &interp);
    // They make no packets here.
    let (counters, slots) = (interp.counters(), CounterSlots::new(program));
    seen.timed = program.deadline_timers().map(|(timer, _)| counters[slots.timer_entries(timer)]).sum();
    Ok((seen, is_interpreted))
}

/// The program of a seed, compared. Panics where the kernel differs or refuses what it should not.
fn random_program(seed: u64, tally: &mut Tally) {
    let style = if seed.is_multiple_of(ONE_LARGE_IN) { Style::Kernel } else { Style::SmallKernel };
    let generated = generate::program(seed, style);
    if number("SHOW").is_some() {
        println!("// seed {seed}\n{}", generated.text);
    }
    let mut numbers = SplitMix64::new(!seed);
    let random = std::iter::from_fn(|| Some(packets::packet(&mut numbers, &generated.headers)));
    let packets: Vec<Packet> = random.filter(|(_, bytes)| bytes.len() >= SHORTEST).take(PACKETS).collect();
    let program = compile(&generated.text).expect("a valid program");
    let level = [Level::Base, Level::Pac, Level::Cgpc][seed as usize % 3];
    let forms = [(false, false), (true, false), (false, true), (true, true)];
    let (spill, apart) = forms[(seed / 3) as usize % 4];
    // In several fragments a packet does not grow at its end, as it does in the frames of the reference.
    let grows = |inst: &Inst| matches!(inst.op, Op::Grow { end: PacketEnd::Tail, .. });
    if program.insts().count() > LONG && number("SEED").is_none() && !numbers.chance(LONG_PERCENT) {
        tally.left += 1;
        return;
    }
    let divided = (seed / 12) % 2 == 1 && !program.insts().any(grows);
    let operations = compile_by(&generated.text, baker::ir::lower_with_operations).expect("a valid program");
    // What changes lengths, or takes checksums as numbers, is not the kernel's there.
    let at_tc = (seed / 12) % 3 == 2 && whole(&operations, Hook::Tc).is_ok();
    let (hook, offered) = if at_tc { (Hook::Tc, &operations) } else { (Hook::Xdp, &program) };
    // One in four measures times.
    let offered = if (seed / 36) % 4 == 1 { &Arc::new(timed(offered)) } else { offered };
    let how = (level, Options { hook, spill, apart, frags: divided && !at_tc, ..Options::default() });
    let compared = catch_unwind(AssertUnwindSafe(|| compare((&program, offered), &packets, how, seed)));
    let has_operations = offered.insts().any(|inst| matches!(inst.op, Op::Checksum { .. }));
    match compared.unwrap_or_else(|panic| Err(Refusal::Fault(said(panic)))) {
        Ok((seen, is_interpreted)) => {
            tally.ran += 1;
            tally.interpreted += u64::from(is_interpreted);
            tally.at_tc += u64::from(at_tc);
            tally.with_operations += u64::from(has_operations);
            tally.seen.add(&Seen { constructs: generated.constructs, ..seen });
        }
        Err(Refusal::Unfit(reason)) => *tally.unfit.entry(reason).or_default() += 1,
        Err(Refusal::Fault(error)) => {
            let text = if number("SHOW").is_some() { String::new() } else { generated.text };
            panic!("seed {seed}, {how:?}: {error}\n{text}");
        }
    }
}

#[test]
fn random_programs_in_the_kernel() {
    let wanted = number("SEED").map_or(number("PROGRAMS").unwrap_or(2000), |_| 1);
    let first = number("SEED").or(number("FIRST_SEED")).unwrap_or(0);
    let next = AtomicU64::new(first);
    let ran = AtomicU64::new(0);
    let most = first + 2 * wanted;
    let part = || {
        let mut tally = Tally::default();
        while ran.load(Ordering::Relaxed) < wanted {
            let seed = next.fetch_add(1, Ordering::Relaxed);
            if seed > most {
                break;
            }
            let before = tally.ran;
            random_program(seed, &mut tally);
            ran.fetch_add(tally.ran - before, Ordering::Relaxed);
        }
        tally
    };
    let mut tally = Tally::default();
    std::thread::scope(|scope| {
        let threads = std::thread::available_parallelism().map_or(1, |n| n.get().min(4));
        let running: Vec<_> = (0..threads).map(|_| scope.spawn(part)).collect();
        for part in running {
            let part = part.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
            tally.ran += part.ran;
            tally.left += part.left;
            tally.interpreted += part.interpreted;
            tally.at_tc += part.at_tc;
            tally.with_operations += part.with_operations;
            tally.seen.add(&part.seen);
            part.unfit.into_iter().for_each(|(reason, count)| *tally.unfit.entry(reason).or_default() += count);
        }
    });
    println!("{tally:?}");
    assert!(tally.ran >= wanted, "only {} programs of {wanted} ran in the kernel: {:?}", tally.ran, tally.unfit);
    let unfit: u64 = tally.unfit.values().sum();
    assert!(
        unfit <= wanted / MOST_UNFIT,
        "{unfit} of {wanted} programs are too much for the kernel: {:?}",
        tally.unfit
    );
    if wanted >= ONE_ON_MACHINE_IN {
        assert!(
            tally.interpreted >= tally.ran / (2 * ONE_ON_MACHINE_IN),
            "{} on the virtual machine",
            tally.interpreted
        );
    }
    if wanted >= 500 {
        assert!(tally.at_tc >= wanted / 10, "{} programs of traffic control", tally.at_tc);
        assert!(tally.with_operations > 0, "no program of traffic control keeps a checksum");
        // What the kernel hands over is looked up once more, so look-ups are not compared.
        let not_here =
            ["injected", "create", "extern", "staged", "conflicts", "choices", "fanned_out", "looked_up", "missed"];
        let missing: Vec<_> = tally.seen.missing().into_iter().filter(|name| !not_here.contains(name)).collect();
        assert_eq!(missing, [""; 0], "the programs never came to this");
    }
}
