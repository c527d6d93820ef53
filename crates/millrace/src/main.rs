//! The millrace command line: one file per subcommand in [`commands`].
//!
//! Exit status: 0 done; 1 the program, the configuration or the command line is wrong; 2 the system refused something.

#![forbid(unsafe_code)]

mod apps;
mod commands;
mod failure;
mod logs;
mod output;
mod report;
mod supervisor;

use std::io::Write;
use std::process::ExitCode;

use clap::{Parser, Subcommand};

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
    /// Show the ports of a running instance
    Ports(commands::counters::Args),
    /// Show what the controllers of a running instance have counted
    Figures(commands::figures::Args),
    /// Show the servers of a running splicer, drain them, take them down
    Servers(commands::servers::Args),
    /// Show the connections of a running splicer, or end them
    Sessions(commands::sessions::Args),
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
}

fn main() -> ExitCode {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => {
            // Help and version are no errors.
            let failed = error.use_stderr();
            let _ = error.print();
            return ExitCode::from(if failed { failure::WRONG } else { 0 });
        }
    };
    let result = logs::start(cli.log_format).and_then(|()| match cli.command {
        Command::Check(args) => commands::check::run(&args),
        Command::Fmt(args) => commands::fmt::run(&args),
        Command::Lsp(args) => commands::lsp::run(&args),
        Command::Emit(args) => commands::emit::run(&args),
        Command::Explain(args) => commands::explain::run(&args),
        Command::Sim(args) => commands::sim::run(&args),
        Command::Run(args) => commands::run::run(&args),
        Command::Status(args) => commands::status::run(&args),
        Command::Table(args) => commands::table::run(&args),
        Command::Counters(args) => commands::counters::counters(&args),
        Command::Drops(args) => commands::counters::drops(&args),
        Command::Ports(args) => commands::counters::ports(&args),
        Command::Figures(args) => commands::figures::run(&args),
        Command::Servers(args) => commands::servers::run(&args),
        Command::Sessions(args) => commands::sessions::run(&args),
        Command::Reload(args) => commands::reload::run(&args),
        Command::Stop(args) => commands::stop::run(&args),
        Command::Replay(args) => commands::replay::run(&args),
        Command::Demo(args) => commands::demo::run(&args),
        Command::Lab(args) => commands::lab::run(&args),
    });
    match result.and_then(|()| output::finish()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            // Nobody may read standard error either.
            let _ = writeln!(std::io::stderr(), "{failure}");
            ExitCode::from(failure.status)
        }
    }
}
