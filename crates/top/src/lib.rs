//! `millrace top`: a live view of a running instance.
//!
//! | file | idea |
//! |---|---|
//! | `look` | what is asked of an instance at one time |
//! | `asker` | a thread that asks again and again, and connects again |
//! | `rates` | rates from two looks |
//! | `grid` | rows that are sorted and filtered |
//! | `views` | which views there are, and their rows |
//! | `answer` | what a controller answers, as rows |
//! | `model` | what is shown, and what keys change of it |
//! | `columns` | rows in the columns that there is room for |
//! | `draw` | the model on a screen |
//! | `terminal` | the terminal: taken, read, given back |
//!
//! All but `asker` and `terminal` is free of input and output, so it is tested with looks that are made up, and on a
//! screen in memory.
#![forbid(unsafe_code)]

mod answer;
mod asker;
mod columns;
mod draw;
mod grid;
mod look;
mod model;
mod rates;
#[cfg(test)]
mod screens;
mod terminal;
mod views;

pub use self::terminal::{Screen, run};
