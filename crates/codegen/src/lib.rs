//! Baker IR to native code through LLVM.
pub mod abi;
