//! Baker IR to native code through LLVM.
//!
//! [`Native::compile`] turns a whole program into one function over a batch of packets, [`abi::RunFn`], and places it
//! in memory; what it compiles is kept on disk, where that is asked for ([`cache`]). [`emit`] shows the same code as
//! text. What the function works on, and the owner of each part, is in [`abi`].

pub mod abi;
pub mod bpf;
pub mod cache;
mod image;
pub mod kernel;
mod link;
mod lower;
mod native;
mod target;

pub use native::{Native, emit};

/// How hard LLVM works.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum OptLevel {
    /// Not at all: for tests of the lowering itself.
    O0,
    /// As much as it can.
    O3,
}

/// What [`emit`] writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Emit {
    /// LLVM IR, after optimisation.
    Llvm,
    /// Assembly of the host's processor.
    Asm,
}

/// Why there is no code.
#[derive(Debug, thiserror::Error)]
pub enum CodegenError {
    /// LLVM cannot make code for this processor.
    #[error("LLVM cannot generate code for this processor: {0}")]
    Target(String),
    /// More code than the kernel takes.
    #[error("it becomes about {0} instructions, of which {1} can be reached by jumps")]
    TooLarge(usize, usize),
    /// More stack than the kernel gives.
    #[error("it takes more than the 512 bytes of stack that the kernel gives")]
    Stack,
    /// More channels in a row than the kernel has tail calls.
    #[error("packets come to it by more than 33 tail calls in a row, which is all that the kernel makes")]
    Deep,
    /// A part of the program was too much for the kernel when it was compiled before: why.
    #[error("{0}")]
    Found(String),
    /// The program breaks a rule of the IR, or the code generator or LLVM has a fault.
    #[error("internal error of the code generator: {0}")]
    Internal(String),
}

impl From<inkwell::builder::BuilderError> for CodegenError {
    fn from(error: inkwell::builder::BuilderError) -> Self {
        CodegenError::Internal(error.to_string())
    }
}

/// An internal error.
pub(crate) fn internal<T>(message: impl Into<String>) -> Result<T, CodegenError> {
    Err(CodegenError::Internal(message.into()))
}
