//! As much of a program in the kernel as the kernel takes.
//!
//! Where a PPF is more than the verifier goes through, in whatever form, it is left to workers with all that only it leads to, and
//! the rest is tried again.

use std::collections::BTreeMap;

use baker::diag::Diagnostic;
use baker::ir::{PpfId, Program};
use baker::opt::Level;
use baker::place::{Placement, Split, split};
use codegen::bpf;
use codegen::kernel::Options;

use super::load::{LoadError, Loaded};
use super::memory::{MemoryError, SharedMemory};

/// Why nothing of a program is in the kernel.
#[derive(Debug, thiserror::Error)]
pub enum FitError {
    /// What is pinned to the kernel cannot run there.
    #[error("{}", .0.iter().map(|error| error.title.as_str()).collect::<Vec<_>>().join(", "))]
    Pinned(Vec<Diagnostic>),
    /// No memory.
    #[error(transparent)]
    Memory(#[from] MemoryError),
    /// Not loaded, and not for being too much.
    #[error(transparent)]
    Load(#[from] LoadError),
}

/// A program whose kernel part is in the kernel.
#[derive(Debug)]
pub struct Fitted {
    /// Where each PPF runs. Of those that turned out to be too much it says so.
    pub placement: Placement,
    /// Those, and why, in words that go on "it …".
    pub too_much: BTreeMap<PpfId, String>,
    /// The program as two.
    pub split: Split,
    /// Tables and counters of both.
    pub memory: SharedMemory,
    /// The kernel's part; `None` where nothing is left to run there.
    pub loaded: Option<Loaded>,
}

/// Places, compiles and loads a program, with as many PPFs in the kernel as it takes.
pub fn fit(program: &Program, packets: Level, options: Options) -> Result<Fitted, FitError> {
    let mut limits = bpf::limits(program);
    loop {
        let placement = Placement::new(program, &limits).map_err(FitError::Pinned)?;
        let split = split(program, &placement, &limits);
        let memory = SharedMemory::new(&split.workers)?;
        if !placement.any_kernel() {
            return Ok(Fitted { placement, too_much: limits.ppfs, split, memory, loaded: None });
        }
        match Loaded::compile(&split.kernel, packets, &memory, options) {
            Ok(loaded) => {
                return Ok(Fitted { placement, too_much: limits.ppfs, split, memory, loaded: Some(loaded) });
            }
            Err(LoadError::TooMuch { ppf, why, .. }) => {
                // Each round has one PPF less.
                limits.ppfs.insert(ppf, format!("is too much for the kernel: {why}"));
            }
            Err(other) => return Err(other.into()),
        }
    }
}
