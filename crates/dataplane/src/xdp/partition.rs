//! As much of a program in the kernel as the kernel takes.
//!
//! Where a PPF is more than the verifier goes through, in whatever form, it is left to workers with all that only it
//! leads to, and the rest is tried again.

use std::collections::BTreeMap;

use baker::diag::Diagnostic;
use baker::ir::{PpfId, Program};
use baker::opt::Level;
use baker::place::{Placement, Split, Stage, split};
use codegen::bpf::{self, Accepted, Refusal};
use codegen::kernel::{Hook, Object, Options};

use super::load::{LoadError, Loaded, PortMaps, too_much};
use super::memory::{MemoryError, SharedMemory};

/// Why nothing of a program is in the kernel.
#[derive(Debug, thiserror::Error)]
pub enum PartitionError {
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

/// A program of which as much is the kernel's as it takes.
#[derive(Debug)]
pub struct Partitioned<T> {
    /// Where each PPF runs. Of those that turned out to be too much it says so.
    pub placement: Placement,
    /// Those, and why, in words that go on "it …".
    pub too_much: BTreeMap<PpfId, String>,
    /// The program as two.
    pub split: Split,
    /// What was made of the kernel's part; `None` where nothing is left to run there.
    pub made: Option<T>,
}

impl<T> Partitioned<T> {
    /// Why nothing of the program runs in the kernel, in words that begin with a PPF: the first reason.
    pub fn why_nothing(&self, program: &Program) -> String {
        let reason = program.ppfs.iter().zip(&self.placement.stages).find_map(|(ppf, stage)| match stage {
            Stage::Cannot(obstacle) => Some(format!("{} {}", ppf.name, obstacle.reason)),
            Stage::Pinned => Some(format!("{} is pinned to workers", ppf.name)),
            Stage::Kernel(_) | Stage::Behind => None,
        });
        reason.unwrap_or_else(|| "no PPF gets packets from ports".into())
    }
}

/// Places, compiles and loads a program, with as many PPFs in the kernel as it takes.
pub fn partition(
    program: &Program,
    packets: Level,
    options: Options,
) -> Result<Partitioned<(SharedMemory, Loaded)>, PartitionError> {
    partition_by(program, options.hook, |split| {
        let memory = SharedMemory::new(&split.workers)?;
        let loaded = Loaded::compile(&split.kernel, packets, &memory, options)?;
        Ok((memory, loaded))
    })
}

/// Places a program as [`partition`] would, where the kernel has taken it before: how many instructions that were.
/// Nothing is loaded. `None` where it is not known.
pub fn partition_known(
    program: &Program,
    packets: Level,
    options: Options,
) -> Result<Option<Partitioned<(SharedMemory, usize)>>, PartitionError> {
    let partitioned = partition_by(program, options.hook, |split| {
        let memory = SharedMemory::new(&split.workers)?;
        let known = Loaded::known(&split.kernel, packets, &memory, options).transpose()?;
        Ok(known.map(|instructions| (memory, instructions)))
    })?;
    let Partitioned { placement, too_much, split, made } = partitioned;
    Ok(made.flatten().map(|made| Partitioned { placement, too_much, split, made: Some(made) }))
}

/// What the kernel says of code.
#[derive(Debug)]
pub enum KernelAnswer {
    /// It takes it.
    Accepted,
    /// It was not asked, for it lets this process load nothing: why. What is too much for its verifier is not known
    /// then.
    NotTried(PartitionError),
    /// It does not take it, and not for being too much: why.
    Refused(PartitionError),
}

/// The code that [`partition`] puts into the kernel, which is asked as there, and what it says. Nothing stays loaded.
/// Where it does not take it, or can't be asked, the code is what is compiled first.
pub fn code(
    program: &Program,
    packets: Level,
    options: Options,
) -> Result<(Partitioned<Accepted<Object>>, KernelAnswer), PartitionError> {
    let loaded = partition_by(program, options.hook, |split| {
        let memory = SharedMemory::new(&split.workers)?;
        Ok(Loaded::with_code(&split.kernel, packets, &memory, options, PortMaps::default())?.1)
    });
    let answer = match loaded {
        Ok(partitioned) => return Ok((partitioned, KernelAnswer::Accepted)),
        Err(
            error @ (PartitionError::Memory(MemoryError::Refused(_) | MemoryError::System(_))
            | PartitionError::Load(LoadError::Refused(_))),
        ) => KernelAnswer::NotTried(error),
        Err(error @ PartitionError::Load(LoadError::Verifier { .. } | LoadError::Exhausted | LoadError::System(_))) => {
            KernelAnswer::Refused(error)
        }
        Err(error) => return Err(error),
    };
    let partitioned = partition_by(program, options.hook, |split| {
        let memory = SharedMemory::places(&split.workers)?;
        let take = |object: &Object| Ok::<_, Refusal<LoadError>>(object.clone());
        let accepted = bpf::compile_tiered(&split.kernel, packets, &memory, options, bpf::ANYTHING, take);
        Ok(accepted.map_err(|misfit| too_much(&split.kernel, misfit))?)
    })?;
    Ok((partitioned, answer))
}

/// The same, by another way to make it.
pub(crate) fn partition_by<T>(
    program: &Program,
    hook: Hook,
    make: impl Fn(&Split) -> Result<T, PartitionError>,
) -> Result<Partitioned<T>, PartitionError> {
    let mut limits = bpf::limits_at(program, hook);
    loop {
        let placement = Placement::new(program, &limits).map_err(PartitionError::Pinned)?;
        let split = split(program, &placement, &limits);
        let made = match placement.any_kernel().then(|| make(&split)).transpose() {
            Err(PartitionError::Load(LoadError::TooMuch { ppf, why, .. })) => {
                // Each round has one PPF less.
                limits.ppfs.insert(ppf, format!("is too much for the kernel: {why}"));
                continue;
            }
            made => made?,
        };
        return Ok(Partitioned { placement, too_much: limits.ppfs, split, made });
    }
}
