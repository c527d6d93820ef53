//! The targets, one file each.

pub mod assembly;
pub mod body;
pub mod control;
pub mod fragments;
pub mod head;
pub mod http;
pub mod labfile;
pub mod members;
pub mod packet;
pub mod parser;
pub mod recording;
pub mod rtsp;
pub mod segment;
mod served;
pub mod settings;
pub mod splicer;
pub mod switch;
pub mod text;
mod unstructured;
pub mod web;

use ::control::document::ConfigError;

/// The errors of a file of this text: each names a place in it, and there are no more than are read.
fn told(errors: &[ConfigError], text: &str) {
    assert!(!errors.is_empty() && errors.len() <= 100, "{} errors", errors.len());
    let lines = text.lines().count().max(1) + 1;
    for error in errors {
        assert!((1..=lines).contains(&error.line) && error.column >= 1, "{error:?}");
        assert!(!error.problem.is_empty(), "{error:?}");
        assert!(!error.to_string().contains('\n'), "an error is one line: {error:?}");
    }
}
