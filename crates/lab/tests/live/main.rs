//! Live tests: each builds its own namespaces, so all can run at once. They need root, or `unshare --user
//! --map-root-user`, and fail without.

mod capture;
mod command;
mod common;
mod emulator;
mod l3_switch;
mod leftovers;
mod link;
mod namespace;
mod traffic;
