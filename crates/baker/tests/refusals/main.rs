//! What the checker refuses, and how it says so.
//!
//! A case is a small source and the codes of the errors that it must give: one cause gives one error. Its snapshot in
//! `snapshots/` holds the source and the rendered errors side by side.

mod codes;
mod controllers;
mod cost;
mod critical;
mod groups;
mod handles;
mod holds;
mod instances;
mod items;
mod loops;
mod mutants;
mod names;
mod numbers;
mod packets;
mod params;
mod pointers;
mod protocols;
mod reasons;
mod several;
mod sums;
mod support;
mod timers;
mod values;
mod wiring;
