//! The millrace command line: one file per subcommand in [`commands`].
//!
//! Exit status: 0 done; 1 the program, the configuration or the command line is wrong; 2 the system refused something.

#![forbid(unsafe_code)]

mod apps;
mod commands;
mod compiled;
mod logs;
mod supervisor;

use std::io::Write;
use std::process::ExitCode;

use clap::{ArgMatches, CommandFactory, FromArgMatches, Parser, Subcommand};
use cli::failure::{self, Failure};
use cli::output;

/// A software network processor: compiles Baker programs and runs them on packets.
#[derive(Parser)]
#[command(name = "millrace", version, max_term_width = 100)]
struct Cli {
    /// How logs look on standard error; what is logged MILLRACE_LOG says (error, warn, info, debug, trace)
    #[arg(long, global = true, value_enum, default_value = "text", value_name = "FORMAT")]
    log_format: logs::Format,
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Check a program and say what is wrong with it
    Check(commands::check::Args),
    /// Format Baker files
    Fmt(commands::fmt::Args),
    /// Serve an editor: diagnostics, hover, completion and more
    Lsp(commands::lsp::Args),
    /// Run a program's packet cases on every engine
    Test(commands::test::Args),
    /// Show what a program is compiled to
    Emit(commands::emit::Args),
    /// Show what the optimiser does to a program, packet by packet of a trace
    Explain(commands::explain::Args),
    /// Show what a program would do on a network processor, by a model of it
    Sim(commands::sim::Args),
    /// Run a program between ports until interrupted
    Run(commands::run::Args),
    /// Show what runs
    Status(commands::status::Args),
    /// Read and change the tables of a running instance
    Table(commands::table::Args),
    /// Show all counters of a running instance
    Counters(commands::counters::Args),
    /// Show the packets that a running instance has dropped, by reason
    Drops(commands::counters::Args),
    /// Show how the program of a running instance is wired
    Graph(commands::graph::Args),
    /// Show the ports of a running instance
    Ports(commands::counters::Args),
    /// Show what the controllers of a running instance have counted
    Metrics(commands::metrics::Args),
    /// Have a running instance read its program and configuration again and put them in force
    Reload(commands::reload::Args),
    /// End a running instance
    Stop(commands::stop::Args),
    /// Run a program over a capture file
    Replay(commands::replay::Args),
    /// Show an application at work between hosts on this machine
    Demo(commands::demo::Args),
    /// Build a network of hosts and links on this machine
    Lab(commands::lab::Args),
    /// Print the completions of a shell
    Completions(commands::completions::Completions),
    /// Write manual pages
    #[command(hide = true)]
    Man(commands::completions::Man),
}

/// The command line with the subcommands of applications: in the help they stand behind that for figures, by name.
fn parser() -> clap::Command {
    let mut all = Cli::command();
    let names: Vec<String> = all.get_subcommands().map(|command| command.get_name().to_owned()).collect();
    for (place, name) in names.iter().enumerate() {
        all = all.mut_subcommand(name, |command| command.display_order(place));
    }
    let place = names.iter().position(|name| name == "metrics").unwrap_or(names.len());
    own_commands().fold(all, |all, command| all.subcommand(command.parser().display_order(place)))
}

/// Subcommands of applications.
fn own_commands() -> impl Iterator<Item = cli::Command> {
    applications::LINKED.iter().flat_map(|linked| linked.commands.iter().copied())
}

/// Runs what the command line says.
fn run(found: &ArgMatches) -> Result<(), Failure> {
    let own = found.subcommand().and_then(|(name, found)| {
        let command = own_commands().find(|command| command.name() == name)?;
        Some((command, found))
    });
    if let Some((command, arguments)) = own {
        return command.run(arguments);
    }
    let cli = Cli::from_arg_matches(found).map_err(Failure::wrong)?;
    match cli.command {
        Command::Check(args) => commands::check::run(&args),
        Command::Fmt(args) => commands::fmt::run(&args),
        Command::Lsp(args) => commands::lsp::run(&args),
        Command::Test(args) => commands::test::run(&args),
        Command::Emit(args) => commands::emit::run(&args),
        Command::Explain(args) => commands::explain::run(&args),
        Command::Sim(args) => commands::sim::run(&args),
        Command::Run(args) => commands::run::run(&args),
        Command::Status(args) => commands::status::run(&args),
        Command::Table(args) => commands::table::run(&args),
        Command::Counters(args) => commands::counters::counters(&args),
        Command::Drops(args) => commands::counters::drops(&args),
        Command::Graph(args) => commands::graph::run(&args),
        Command::Ports(args) => commands::counters::ports(&args),
        Command::Metrics(args) => commands::metrics::run(&args),
        Command::Reload(args) => commands::reload::run(&args),
        Command::Stop(args) => commands::stop::run(&args),
        Command::Replay(args) => commands::replay::run(&args),
        Command::Demo(args) => commands::demo::run(&args),
        Command::Lab(args) => commands::lab::run(&args),
        Command::Completions(args) => {
            commands::completions::completions(&args, parser());
            Ok(())
        }
        Command::Man(args) => commands::completions::man(&args, parser()),
    }
}

fn main() -> ExitCode {
    let found = match parser().try_get_matches() {
        Ok(found) => found,
        Err(error) => {
            // Help and version are no errors.
            let failed = error.use_stderr();
            let _ = error.print();
            return ExitCode::from(if failed { failure::WRONG } else { 0 });
        }
    };
    let format = found.get_one("log_format").copied().unwrap_or(logs::Format::Text);
    compiled::keep(None);
    let result = logs::start(format).and_then(|()| run(&found));
    match result.and_then(|()| output::finish()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            // Standard error may have no reader either.
            let _ = writeln!(std::io::stderr(), "{failure}");
            ExitCode::from(failure.status)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn subcommands_of_applications_stand_among_the_others() {
        let help = parser().render_help().to_string();
        let names = ["ports", "metrics", "servers", "sessions", "reload", "lab"];
        let places = names.map(|name| help.find(&format!("\n  {name} ")).unwrap_or_else(|| panic!("{name}: {help}")));
        assert!(places.is_sorted(), "{help}");
    }
}
