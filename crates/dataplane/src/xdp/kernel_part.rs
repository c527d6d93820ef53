//! A program's part in the kernel, and how far it is there.

use std::sync::{Arc, OnceLock};

use baker::ir::Program;
use baker::opt::Level;
use baker::place::Split;
use codegen::kernel::{Hook, Options};

use super::load::Loaded;
use super::memory::SharedMemory;
use super::resume::Resume;
use crate::tables::Tables;

/// One program's part in the kernel, and what it works on.
#[derive(Debug)]
pub struct KernelPart {
    /// The workers' part, whose tables and counters these are.
    pub(super) program: Arc<Program>,
    pub(super) memory: SharedMemory,
    /// What runs at first: the program, or a stand-in for it.
    first: Loaded,
    /// The program that has taken the stand-in's place.
    pub(super) whole: OnceLock<Loaded>,
    resume: Arc<Resume>,
    generation: u16,
    /// It tells workers something by their rings.
    pub(super) uses_rings: bool,
}

impl KernelPart {
    /// Of a program that is cut in two, with what runs at first.
    pub(super) fn new(
        hook: Hook,
        split: &Split,
        program: Arc<Program>,
        (memory, first): (SharedMemory, Loaded),
        generation: u16,
    ) -> Self {
        let resume = Arc::new(Resume::new(hook, split));
        // At traffic control the program also says by them which packets workers go on with, and any may be one.
        let uses_rings = hook == Hook::Tc || split.kernel.uses_rings();
        KernelPart { program, memory, first, whole: OnceLock::new(), resume, generation, uses_rings }
    }

    /// What runs.
    pub(super) fn loaded(&self) -> &Loaded {
        self.whole.get().unwrap_or(&self.first)
    }

    /// The workers' part.
    pub(crate) fn program(&self) -> &Arc<Program> {
        &self.program
    }

    /// The tables of both parts.
    pub(crate) fn tables(&self) -> &Arc<Tables> {
        self.memory.tables()
    }

    /// What the kernel has counted.
    pub(crate) fn counter(&self, slot: usize) -> u64 {
        self.memory.counter(slot)
    }

    /// Packets that the kernel could not send to a port, whatever program ran.
    pub(crate) fn failed(&self, port: u8) -> u64 {
        self.memory.failed(port)
    }

    /// Where workers go on.
    pub(crate) fn resume(&self) -> &Arc<Resume> {
        &self.resume
    }

    /// What tells it apart from the one that it takes over from.
    pub(crate) fn generation(&self) -> u16 {
        self.generation
    }
}

/// A program that the kernel is to verify while its stand-in runs.
#[derive(Debug)]
pub(super) struct Awaited {
    pub kernel: Program,
    pub packets: Level,
    pub options: Options,
}

/// How far a program is in the kernel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Progress {
    /// It runs there.
    Loaded,
    /// It is verified, and until then workers have all packets.
    Loading,
    /// The kernel does not take it, so workers have all packets: why.
    Refused(String),
}
