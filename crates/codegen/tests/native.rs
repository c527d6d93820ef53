//! The compiled program as a value, and the code as text.

mod common;

use baker::opt::Level;
use std::sync::Arc;

use baker::ir::*;
use codegen::{Emit, Native, OptLevel, abi, emit};
use common::Machine;
use common::asm::{Asm, program};

/// Decrements a byte and compares a 32-bit and a 48-bit field.
fn small() -> Program {
    let (mut asm, packet) = Asm::new(0);
    let word = asm.load(packet, 240, 32);
    let mac = asm.load(packet, 0, 48);
    let mac = asm.resize(mac, 32);
    let sum = asm.bin(BinOp::Add, word, mac);
    asm.store(packet, 240, sum);
    asm.put(packet, 1);
    program(&[34], &[(0, Target::Ppf(PpfId(0))), (0, Target::Tx)], vec![(0, asm.body)])
}

#[test]
fn threads_share_one_program() {
    let native =
        std::thread::spawn(|| Native::compile(&small(), OptLevel::O3, Level::Base, &common::tables::RUNTIME).unwrap());
    let native = Arc::new(native.join().unwrap());
    let threads: Vec<_> = (0..4)
        .map(|i: u8| {
            let native = native.clone();
            std::thread::spawn(move || {
                let mut machine = Machine::with(&small(), native);
                for round in 0..100 {
                    let mut packet = [i; 40];
                    packet[33] = round;
                    let frames: Vec<u32> = (0..64).map(|_| machine.receive(2, &packet, 0)).collect();
                    assert_eq!(machine.run(&frames).len(), 64);
                    let sum = u32::from_be_bytes([i, i, i, round]) + u32::from_be_bytes([i; 4]);
                    assert!(frames.iter().all(|&frame| machine.packet(frame)[30..34] == sum.to_be_bytes()));
                    machine.release(&frames);
                }
            })
        })
        .collect();
    for thread in threads {
        thread.join().unwrap();
    }
}

/// One PPF puts into another, which is too long to be inlined: it adds a word many times to another one.
fn long(times: u32) -> Program {
    let (mut first, packet) = Asm::new(0);
    first.put(packet, 1);
    let (mut second, packet) = Asm::new(0);
    let mut sum = second.load(packet, 0, 32);
    for _ in 0..times {
        let word = second.load(packet, 32, 32);
        sum = second.bin(BinOp::Add, sum, word);
    }
    second.store(packet, 64, sum);
    second.put(packet, 2);
    let channels = [(0, Target::Ppf(PpfId(0))), (0, Target::Ppf(PpfId(1))), (0, Target::Tx)];
    program(&[34], &channels, vec![(0, first.body), (0, second.body)])
}

/// A long PPF lies in a module of its own, which a thread of its own compiles, and is called through a pointer.
#[test]
fn a_long_ppf_is_a_function_of_another_module() {
    let times = 1500;
    let program = long(times);
    let text = emit(&program, OptLevel::O0, Level::Base, Emit::Llvm).unwrap();
    let (first, second) = text.split_once("define void @millrace_ppf_1(").expect("a function of its own");
    assert!(first.contains("@millrace_ppf_at_1 = external") && first.contains("define void @millrace_run("), "{first}");
    assert!(!second.contains("define void @millrace_run("), "{second}");
    for level in [OptLevel::O0, OptLevel::O3] {
        let native = Native::compile(&program, level, Level::Base, &common::tables::RUNTIME).unwrap();
        let mut machine = Machine::with(&program, Arc::new(native));
        let frame = machine.receive(2, &[[0, 0, 0, 7, 0, 0, 0, 3].as_slice(), &[0; 32]].concat(), 0);
        assert_eq!(machine.run(&[frame]).len(), 1);
        assert_eq!(machine.packet(frame)[8..12], (7 + 3 * times).to_be_bytes());
    }
}

/// Fields are loaded whole and swapped, never byte by byte; PPFs with one caller are gone.
#[test]
fn optimised_code_is_sane() {
    let text = emit(&small(), OptLevel::O3, Level::Base, Emit::Llvm).unwrap();
    assert!(text.contains("define void @millrace_run("), "{text}");
    assert!(text.contains("llvm.bswap.i32"), "{text}");
    assert!(text.contains("load i32, ptr"), "{text}");
    assert!(!text.contains("load i8"), "{text}");
    assert!(!text.contains("@ppf."), "{text}");
}

#[test]
fn assembly_is_of_the_same_function() {
    for opt in [OptLevel::O0, OptLevel::O3] {
        let text = emit(&small(), opt, Level::Base, Emit::Asm).unwrap();
        assert!(text.contains("millrace_run:"), "{text}");
    }
}

#[test]
fn descriptors_fill_whole_cache_lines() {
    let mut program = small();
    assert_eq!(abi::descriptor_stride(&program), 64);
    program.metadata_size = 40;
    assert_eq!(abi::descriptor_stride(&program), 64);
    program.metadata_size = 41;
    assert_eq!(abi::descriptor_stride(&program), 128);
}

/// What a profile says of a branch, LLVM is told.
#[test]
fn branches_by_a_profile() {
    let compilation = baker::check::check(
        "profile.baker",
        "import \"net/ether\";\ndrop_reason other;\nmodule m {\n in ether input;\n out ether output;\n\
         ppf p(ether_packet_t *pkt) from input {\n if (pkt->type == 5) { packet_drop(pkt, other); return; }\n\
         channel_put(output, pkt);\n}\n}\nprogram { rx -> m.input; m.output -> tx; }\n",
        &baker::library::Library,
    );
    let mut program = lower(&compilation.program.unwrap());
    let weights = |program: &Program| {
        let text = emit(program, OptLevel::O0, Level::Base, Emit::Llvm).unwrap();
        text.lines().filter(|line| line.contains("i32 4, i32 8")).count()
    };
    assert_eq!(weights(&program), 0);
    let block = program.ppfs[0].body.blocks.iter_mut().find(|b| matches!(b.term, Terminator::Branch(..))).unwrap();
    block.counts = Some(Counts { runs: 10, taken: [3, 7] });
    assert_eq!(weights(&program), 1);
}
