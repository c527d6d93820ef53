//! The control plane: configuration, packets as text, packet tests as data, and the control socket.
//!
//! | module | what it does |
//! |---|---|
//! | [`document`] | TOML with the place of every key, for errors |
//! | [`entries`] | entries of tables in natural notation |
//! | [`config`] | reads the one TOML file of an instance and fills the tables of its program |
//! | [`packet`] | builds packets from text and shows packets as text, with the program's own protocols |
//! | [`walk`] | what a packet does on its way through a program, in names |
//! | [`socket`] | lets a running instance be asked and changed |
//! | [`state`] | keeps tables on disk |
//! | [`application`] | the contract with applications: controllers, their settings, what they can be asked |
//! | [`applications`] | those that a binary is linked with |
//! | [`access_log`] | access logs of applications, line by line |
//! | [`admin_state`] | what operators say about servers of pools |
//! | [`line_log`] | appends lines to files without ever waiting |
//! | [`messages`] | parts of messages |
//! | [`cases`] | runs the packet tests in `apps/NAME/cases` on any engine |
#![forbid(unsafe_code)]

pub mod access_log;
pub mod admin_state;
pub mod application;
pub mod applications;
pub mod cases;
pub mod config;
pub mod document;
pub mod entries;
pub mod exits;
pub mod line_log;
pub mod messages;
pub mod packet;
pub mod socket;
pub mod state;
pub mod walk;
