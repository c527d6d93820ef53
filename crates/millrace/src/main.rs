//! The millrace command line: one file per subcommand in [`commands`].
//!
//! Exit status: 0 done; 1 the program, the configuration or the command line is wrong; 2 the system refused something.

#![forbid(unsafe_code)]

mod apps;
mod commands;
mod compiled;
mod examples;
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
    /// Watch a running instance: rates, drops, tables, controllers
    Top(commands::top::Args),
    /// Read and change the tables of a running instance
    Table(commands::table::Args),
    /// Show all counters of a running instance
    Counters(commands::counters::Args),
    /// Show the packets that a running instance has dropped, by reason
    Drops(commands::drops::Args),
    /// Show what becomes of packets of a running instance, step by step
    Trace(commands::packet_trace::Args),
    /// Measure how long packets of a running instance are in each PPF
    Timing(commands::timing::Args),
    /// Show how the program of a running instance is wired
    Graph(commands::graph::Args),
    /// Show the ports of a running instance
    Ports(commands::counters::Args),
    /// Show what the controllers of a running instance have counted
    Metrics(commands::metrics::Args),
    /// Collect all that a report of a mistake needs into one archive, without secrets
    Report(commands::report::Args),
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
    Man(commands::man::Args),
}

/// The command line with the subcommands of applications: in the help they stand behind that for figures, by name.
fn parser() -> clap::Command {
    let mut all = cli::examples::add(Cli::command(), "", examples::ALL);
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
        Command::Top(args) => commands::top::run(&args),
        Command::Table(args) => commands::table::run(&args),
        Command::Counters(args) => commands::counters::counters(&args),
        Command::Drops(args) => commands::drops::run(&args),
        Command::Trace(args) => commands::packet_trace::run(&args),
        Command::Timing(args) => commands::timing::run(&args),
        Command::Graph(args) => commands::graph::run(&args),
        Command::Ports(args) => commands::counters::ports(&args),
        Command::Metrics(args) => commands::metrics::run(&args),
        Command::Report(args) => commands::report::run(&args),
        Command::Reload(args) => commands::reload::run(&args),
        Command::Stop(args) => commands::stop::run(&args),
        Command::Replay(args) => commands::replay::run(&args),
        Command::Demo(args) => commands::demo::run(&args),
        Command::Lab(args) => commands::lab::run(&args),
        Command::Completions(args) => {
            commands::completions::completions(&args, parser());
            Ok(())
        }
        Command::Man(args) => commands::man::run(&args, parser()),
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

    /// Each command but the `help` of clap's, by its path, with its examples.
    fn commands(command: &clap::Command, path: &str, found: &mut Vec<(String, Vec<String>)>) {
        let help = command.clone().render_long_help().to_string();
        let after = help.rsplit_once(&format!("\n{}\n", cli::examples::TITLE));
        let lines = after.into_iter().flat_map(|(_, lines)| lines.lines()).filter_map(|line| line.strip_prefix("  "));
        let lines: Vec<String> = lines.map(str::to_owned).collect();
        // What nobody is shown may do without.
        found.extend((!command.is_hide_set() || !lines.is_empty()).then(|| (path.to_owned(), lines)));
        for below in command.get_subcommands() {
            commands(below, format!("{path} {}", below.get_name()).trim_start(), found);
        }
    }

    /// The command that a command line runs, by its path.
    fn path(found: &ArgMatches) -> String {
        let below = found.subcommand().map(|(name, found)| format!("{name} {}", path(found)));
        below.unwrap_or_default().trim_end().to_owned()
    }

    #[test]
    fn each_command_has_examples_that_are_accepted() {
        let mut found = Vec::new();
        commands(&parser(), "", &mut found);
        assert!(found.len() > 50, "{found:?}");
        for (command, lines) in &found {
            assert!((1..=3).contains(&lines.len()), "`millrace {command}` has these examples: {lines:?}");
            for line in lines {
                let words = shlex::split(line).unwrap_or_else(|| panic!("not a command line: {line}"));
                // What the shell takes.
                let ours = words.iter().take_while(|word| !["|", ">", "<"].contains(&word.as_str()));
                let matches = parser().try_get_matches_from(ours).unwrap_or_else(|error| panic!("{line}: {error}"));
                let path = path(&matches);
                let is_own = path == *command || path.starts_with(command.as_str()) && !is_last(command);
                assert!(is_own, "an example of `{command}` is one of `{path}`: {line}");
                let files = words.iter().filter(|word| word.starts_with("examples/") || word.starts_with("apps/"));
                for file in files {
                    let place = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(file);
                    assert!(place.exists(), "{line}: there is no {file}");
                }
            }
        }
        let own = applications::LINKED.iter().flat_map(|linked| linked.commands).flat_map(|own| own.examples());
        for examples in examples::ALL.iter().chain(own) {
            assert!(found.iter().any(|(command, _)| command == examples.command), "no command: {}", examples.command);
        }
    }

    /// Whether a command has none below it.
    fn is_last(path: &str) -> bool {
        let all = parser();
        let words = path.split_whitespace();
        let command = words.fold(&all, |command, name| command.find_subcommand(name).expect("a command of the list"));
        !command.has_subcommands()
    }

    #[test]
    fn subcommands_of_applications_stand_among_the_others() {
        let help = parser().render_help().to_string();
        let names = ["ports", "metrics", "servers", "sessions", "reload", "lab"];
        let places = names.map(|name| help.find(&format!("\n  {name} ")).unwrap_or_else(|| panic!("{name}: {help}")));
        assert!(places.is_sorted(), "{help}");
    }
}
