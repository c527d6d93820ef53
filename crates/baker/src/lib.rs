//! Baker, the language of Millrace: parser, checker, intermediate representation and reference interpreter.
//!
//! The crate is pure: it opens no file and no socket and contains no unsafe code. Source text comes from a
//! [`source::Loader`], results are data.
//!
//! Data moves one way: [`syntax`] (text → lossless tree) → [`check`] (tree → typed program) → [`ir`] (typed program →
//! SSA form, verified, interpreted, or handed to a code generator).
#![forbid(unsafe_code)]

pub mod builtin;
pub mod check;
pub mod diag;
pub mod format;
pub mod ir;
pub mod library;
pub mod number;
pub mod opt;
pub mod parallel;
pub mod place;
pub mod source;
pub mod syntax;
