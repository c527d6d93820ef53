//! `millrace lab`: files with mistakes, and labs that live, are entered, end and crash.
//!
//! The live tests need root, or `unshare --user --map-root-user`, and fail without.

mod file;
mod live;

// What the tests of the command line use of these is not used here.
#[allow(dead_code)]
#[path = "../support/instance.rs"]
mod instance;
#[allow(dead_code)]
#[path = "../support/process.rs"]
mod process;
