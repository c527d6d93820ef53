//! The targets, one file each.

pub mod control;
pub mod packet;
pub mod parser;
pub mod settings;
pub mod switch;
pub mod text;
