//! `millrace emit`: the kernel's part as instructions, LLVM IR and an object file.

use std::fs;
use std::process::Command;

use crate::PATCH;
use crate::process::{Scratch, millrace, run};

#[test]
fn the_kernels_part_as_instructions() {
    let text = millrace(&["emit", PATCH, "--target", "bpf"]).ok();
    for part in [
        "patch.baker: one program",
        "\n;   patch.classify: kernel\n;   hop.filter: kernel\n; the kernel takes it\n",
        "\n; program from rx: ",
        "patch.baker:",
        " ; map memory\n",
        " ; map devices\n",
    ] {
        assert!(text.contains(part), "{part}\n{text}");
    }
    let code: Vec<&str> = text.lines().filter(|line| !line.starts_with(';') && !line.is_empty()).collect();
    let said = text.split("program from rx: ").nth(1).unwrap().split(' ').next().unwrap();
    let last: usize = code.last().unwrap()[1..].trim_start().split(':').next().unwrap().parse().unwrap();
    assert!(last < said.parse().unwrap(), "{said} {last}");
    assert!(code.iter().any(|line| line.ends_with(": exit")), "{text}");
    // Each jump leads to an instruction that is marked.
    for line in code.iter().filter(|line| line.contains("; to ")) {
        let target = line.rsplit(' ').next().unwrap();
        assert!(code.iter().any(|line| line.starts_with(&format!(">{target:>6}: "))), "{line}");
    }
}

#[test]
fn a_program_in_parts() {
    // More than fits one program: each part is shown.
    let text = millrace(&["emit", "splice", "--target", "bpf"]).ok();
    assert!(text.matches("\n; program from ").count() > 1 && text.contains(" ; map parts\n"), "{}", &text[..4000]);
    assert!(text.contains("\n; program from rx: "));
}

#[test]
fn the_kernels_part_as_llvm_ir() {
    let scratch = Scratch::new();
    let text = millrace(&["emit", PATCH, "--target", "bpf-llvm"]).ok();
    assert!(text.contains("target triple = \"bpfel\"") && text.contains("@millrace_xdp("), "{text}");
    assert!(text.contains(";   hop.filter: kernel\n"), "{text}");
    // What it says in front is comments to LLVM, too.
    let output = scratch.path("patch.ll");
    assert_eq!(millrace(&["emit", PATCH, "--target", "bpf-llvm", "--output", &output]).ok(), "");
    assert_eq!(fs::read_to_string(output).unwrap(), text);
}

/// An object file that another reader of such files finds the same instructions in.
/// Sections of an object file: names, where they lie, and how long they are.
fn sections(bytes: &[u8]) -> Vec<(String, usize, usize)> {
    let u64_at = |at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().unwrap()) as usize;
    let u32_at = |at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap()) as usize;
    let u16_at = |at: usize| usize::from(u16::from_le_bytes(bytes[at..at + 2].try_into().unwrap()));
    let (table, size, count, names) = (u64_at(40), u16_at(58), u16_at(60), u16_at(62));
    let names = u64_at(table + names * size + 24);
    let section = |index: usize| {
        let at = table + index * size;
        let name = bytes[names + u32_at(at)..].split(|byte| *byte == 0).next().unwrap();
        (String::from_utf8(name.to_vec()).unwrap(), u64_at(at + 24), u64_at(at + 32))
    };
    (0..count).map(section).collect()
}

#[test]
fn the_kernels_part_as_an_object_file() {
    let scratch = Scratch::new();
    let text = millrace(&["emit", PATCH, "--target", "bpf-object"]).failed(1);
    assert!(text.contains("--output <FILE>"), "{text}");
    let file = scratch.path("patch.o");
    assert_eq!(millrace(&["emit", PATCH, "--target", "bpf-object", "--output", &file]).ok(), "");
    let bytes = fs::read(&file).unwrap();
    // ELF, 64 bits, little-endian, relocatable, EM_BPF.
    assert_eq!(&bytes[..7], b"\x7fELF\x02\x01\x01");
    assert_eq!((&bytes[16..18], &bytes[18..20]), (&[1, 0][..], &[247, 0][..]));
    let sections = sections(&bytes);
    let section =
        |name: &str| sections.iter().find(|(known, ..)| known == name).unwrap_or_else(|| panic!("{sections:?}"));
    let (_, _, code) = *section("xdp");
    let shown = millrace(&["emit", PATCH, "--target", "bpf"]).ok();
    assert!(shown.contains(&format!("program from rx: {} instructions", code / 8)), "{code}");
    let (_, at, length) = *section("license");
    assert_eq!(&bytes[at..at + length], b"GPL\0");
    // At another hook it is a program of another kind, and tools tell that by the name.
    let other = scratch.path("tc.o");
    millrace(&["emit", PATCH, "--target", "bpf-object", "--hook", "tc", "--output", &other]).ok();
    let at_tc = self::sections(&fs::read(other).unwrap());
    let has = |name: &str| at_tc.iter().any(|(known, ..)| known == name);
    assert_eq!((has("tc"), has("xdp")), (true, false), "{at_tc:?}");
    let (_, _, relocations) = *section(".relxdp");
    assert_eq!(relocations / 16, shown.matches("; map ").count());
}

#[test]
fn where_nothing_can_run_in_the_kernel_it_says_why() {
    let scratch = Scratch::new();
    let text = fs::read_to_string(PATCH).unwrap();
    let pinned = scratch.write("patch.baker", text.replace("    ppf classify(", "    @worker\n    ppf classify("));
    let text = millrace(&["emit", &pinned, "--target", "bpf"]).failed(1);
    let expected = format!(
        "error: {pinned}: nothing of it can run in the kernel\n  patch.classify: worker: it is pinned there\n  \
         hop.filter: worker: it gets packets from workers only\n"
    );
    assert_eq!(text, expected);
    for target in ["bpf-llvm", "bpf-object"] {
        let output = scratch.path("out");
        let text = millrace(&["emit", &pinned, "--target", target, "--output", &output]).failed(1);
        assert_eq!(text, expected);
        assert!(fs::metadata(output).is_err());
    }
    let mut command = Command::new(env!("CARGO_BIN_EXE_millrace"));
    command.args(["emit", PATCH, "--target", "bpf", "--output", &scratch.path("no/such")]);
    assert!(run(command).failed_in_one_line(2).contains("no/such: cannot be written"));
}

/// A fence is an instruction of the processor and of the kernel, and the same key is looked up on both sides of it.
#[test]
fn a_fence_stays_between_two_look_ups() {
    let scratch = Scratch::new();
    let file = scratch.write(
        "order.baker",
        "import \"net/ether\";
module m {
    in ether input; out ether output;
    hash<mac_addr_t, u32> seen[64];
    ppf p(ether_packet_t *pkt) from input {
        u32 *entry = seen[pkt->src];
        if (entry != null) *entry = 7;
        fence();
        u32 *again = seen[pkt->src];
        if (again != null && *again != 7) { packet_drop(pkt, malformed); return; }
        channel_put(output, pkt);
    }
}
program { rx -> m.input; m.output -> tx; }
",
    );
    let position = |text: &str, what: &str, from: usize| Some(text[from..].find(what)? + from);
    let ir = millrace(&["emit", &file, "--target", "ir"]).ok();
    let fence = position(&ir, " fence\n", 0).unwrap();
    assert!(position(&ir, "lookup m.seen", 0).unwrap() < fence, "{ir}");
    assert!(position(&ir, "lookup m.seen", fence).is_some(), "{ir}");
    let asm = millrace(&["emit", &file, "--target", "asm"]).ok();
    let fence = if cfg!(target_arch = "aarch64") { "dmb" } else { "mfence" };
    assert_eq!(asm.matches(fence).count(), 1, "{asm}");
    for hook in ["xdp", "tc"] {
        let bpf = millrace(&["emit", &file, "--target", "bpf", "--hook", hook]).ok();
        assert_eq!(bpf.matches("cmpxchg_64").count(), 1, "{hook}: {bpf}");
    }
}
