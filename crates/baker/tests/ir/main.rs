//! The IR by hand: its printer, verifier and interpreter.

mod arith;
mod bits;
mod controllers;
mod lengths;
mod packets;
mod printer;
mod support;
mod tables;
mod verifier;
mod verifier_entries;
mod verifier_flow;
mod written;
