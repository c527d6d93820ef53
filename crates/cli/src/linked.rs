//! An application as a binary is linked with it.

use std::sync::Arc;
use std::time::Duration;

use baker::ir::Program;
use clap::ArgMatches;
use control::applications::AnyApplication;

use crate::examples::{self, Examples};
use crate::failure::Failure;

/// An application with what it brings to the command line.
#[derive(Clone, Copy)]
pub struct Linked {
    /// Its controller and settings.
    pub application: &'static dyn AnyApplication,
    /// Its subcommands of `millrace`.
    pub commands: &'static [Command],
    /// What `millrace demo NAME` shows of it.
    pub scene: Option<Scene>,
}

impl Linked {
    /// One that brings no more than its controller.
    pub const fn new(application: &'static dyn AnyApplication) -> Linked {
        Linked { application, commands: &[], scene: None }
    }
}

/// The applications alone, all `N` of them, for [`Applications`](control::applications::Applications).
pub const fn applications<const N: usize>(all: &[Linked]) -> [&'static dyn AnyApplication; N] {
    assert!(N > 0 && N == all.len(), "a binary without applications has `Applications::NONE`");
    let mut found = [all[0].application; N];
    let mut at = 1;
    while at < N {
        found[at] = all[at].application;
        at += 1;
    }
    found
}

/// A scene of `millrace demo`, under the application's name.
#[derive(Clone, Copy)]
pub struct Scene {
    /// What it shows, in a line.
    pub about: &'static str,
    /// Shows it for about so long, with the application's program.
    pub run: fn(&Arc<Program>, Duration) -> Result<(), Failure>,
}

/// Arguments of a subcommand that an application brings.
pub trait Subcommand: clap::Args {
    /// Its name.
    const NAME: &'static str;
    /// What it does, in a line.
    const ABOUT: &'static str;
    /// Examples of it, and of each command below it.
    const EXAMPLES: &'static [Examples];

    /// Runs it.
    ///
    /// # Errors
    /// Why it failed, with the exit status.
    fn run(&self) -> Result<(), Failure>;
}

/// A subcommand that an application brings.
#[derive(Clone, Copy)]
pub struct Command {
    name: &'static str,
    about: &'static str,
    examples: &'static [Examples],
    arguments: fn(clap::Command) -> clap::Command,
    run: fn(&ArgMatches) -> Result<(), Failure>,
}

impl Command {
    /// That of these arguments.
    pub const fn of<S: Subcommand>() -> Command {
        Command { name: S::NAME, about: S::ABOUT, examples: S::EXAMPLES, arguments: S::augment_args, run: run::<S> }
    }

    /// Its name.
    pub fn name(&self) -> &'static str {
        self.name
    }

    /// Examples of it, and of those below it.
    pub fn examples(&self) -> &'static [Examples] {
        self.examples
    }

    /// As the command line's parser has it.
    pub fn parser(&self) -> clap::Command {
        let parser = (self.arguments)(clap::Command::new(self.name)).about(self.about).long_about(None);
        examples::add(parser, self.name, self.examples)
    }

    /// Runs it with what the parser has found.
    ///
    /// # Errors
    /// Why it failed, with the exit status.
    pub fn run(&self, found: &ArgMatches) -> Result<(), Failure> {
        (self.run)(found)
    }
}

fn run<S: Subcommand>(found: &ArgMatches) -> Result<(), Failure> {
    S::from_arg_matches(found).map_err(Failure::wrong)?.run()
}
