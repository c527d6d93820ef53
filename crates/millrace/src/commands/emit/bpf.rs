//! The kernel's part of a program: what the kernel gets of it, as text or as an object file.

use std::fmt::Write;

use baker::ir::{PpfId, Program};
use baker::opt::Level;
use baker::source::Sources;
use cli::failure::Failure;
use codegen::bpf::{Accepted, elf, listing};
use codegen::kernel::{Hook, Object, Options};
use dataplane::xdp::{self, KernelAnswer, Partitioned};

use crate::commands::stages;
use crate::commands::trace::wrong;

/// In front of what is not code.
const COMMENT: char = ';';

/// The kernel's part.
pub struct KernelPart<'p> {
    name: &'p str,
    hook: Hook,
    program: &'p Program,
    sources: &'p Sources,
    placement: baker::place::Placement,
    code: Accepted<Object>,
    answer: KernelAnswer,
}

impl<'p> KernelPart<'p> {
    /// Compiles it, and asks the kernel whether it takes it. The failure: nothing of the program can run there, and
    /// why.
    pub fn new(
        name: &'p str,
        program: &'p Program,
        sources: &'p Sources,
        packets: Level,
        options: Options,
    ) -> Result<Self, Failure> {
        let options = Options { text: true, ..options };
        let (mut partitioned, answer) = xdp::code(program, packets, options).map_err(|error| wrong(&error))?;
        let made = partitioned.made.take();
        let Partitioned { placement, .. } = partitioned;
        let Some(code) = made else {
            let rows = stages::rows(program, &placement, sources);
            let rows: Vec<String> = rows.iter().map(|row| format!("\n  {}: {}", row.ppf, row.text())).collect();
            let reasons = rows.concat();
            return Err(Failure::wrong(format!("error: {name}: nothing of it can run in the kernel{reasons}")));
        };
        Ok(KernelPart { name, hook: options.hook, program, sources, placement, code, answer })
    }

    fn ppf(&self, ppf: PpfId) -> &str {
        &self.program.ppfs[ppf.0 as usize].name
    }

    /// Each program that the kernel gets, with the PPF that it begins with.
    fn programs(&self) -> impl Iterator<Item = (&str, &Object)> {
        let parts = self.code.parts.iter().map(|(ppf, object)| (self.ppf(*ppf), object));
        std::iter::once(("rx", &self.code.first)).chain(parts)
    }

    /// What is said in front of the code: where each PPF runs, and what the kernel says.
    fn head(&self) -> String {
        let mut out = format!("{COMMENT} {}: {}\n", self.name, self.code.tier.text());
        for row in stages::rows(self.program, &self.placement, self.sources) {
            let _ = writeln!(out, "{COMMENT}   {}: {}", row.ppf, row.text());
        }
        let _ = match &self.answer {
            KernelAnswer::Accepted => writeln!(out, "{COMMENT} the kernel takes it"),
            KernelAnswer::NotTried(why) => writeln!(out, "{COMMENT} the kernel was not asked: {why}"),
            KernelAnswer::Refused(why) => writeln!(out, "{COMMENT} the kernel does not take it: {why}"),
        };
        out
    }

    /// The instructions, with what of the source they belong to.
    pub fn listing(&self) -> Result<String, Failure> {
        let mut out = self.head();
        for (from, object) in self.programs() {
            let (count, stack) = (object.instructions(), object.stack);
            let _ = writeln!(out, "\n{COMMENT} program from {from}: {count} instructions, {stack} bytes of stack");
            let lines = listing(object).map_err(Failure::refused)?;
            let mut targets: Vec<usize> = lines.iter().filter_map(|line| line.target).collect();
            targets.sort_unstable();
            for line in &lines {
                if let Some((_, location)) = object.locations.iter().find(|(first, _)| *first == line.slot) {
                    let place = stages::place(location.span, self.sources);
                    let _ = writeln!(out, "{COMMENT} {}, {place}", location.ppf);
                }
                let mark = if targets.binary_search(&line.slot).is_ok() { '>' } else { ' ' };
                let mut text = format!("{mark}{:6}: {}", line.slot, line.text);
                if let Some(target) = line.target {
                    let _ = write!(text, "  {COMMENT} to {target}");
                }
                if let Some(map) = line.map {
                    let _ = write!(text, "  {COMMENT} map {}", map.name());
                }
                let _ = writeln!(out, "{text}");
            }
        }
        Ok(out)
    }

    /// The modules of which LLVM makes instructions.
    pub fn llvm(&self) -> String {
        let mut out = self.head();
        for (from, object) in self.programs() {
            let module = object.llvm.as_deref().unwrap_or_default();
            let _ = write!(out, "\n{COMMENT} program from {from}\n{module}");
        }
        out
    }

    /// The programs in one object file.
    pub fn object(&self) -> Result<Vec<u8>, Failure> {
        elf(self.hook, &self.code, |ppf| self.ppf(ppf).to_owned()).map_err(Failure::refused)
    }
}
