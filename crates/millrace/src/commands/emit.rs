//! `millrace emit`: shows what a program is compiled to.

use std::path::PathBuf;

use baker::opt::optimise;
use cli::failure::Failure;
use cli::output::print;
use codegen::{Emit, OptLevel};

use super::instance::configuration;
use super::packets::Packets;
use crate::apps;

/// What to show.
#[derive(clap::Args)]
pub struct Args {
    /// Baker file, directory of an application, or its name
    #[arg(value_name = "APP|FILE")]
    app: String,
    /// ir: intermediate representation; llvm, asm: native code; dot: the channels as a Graphviz graph
    #[arg(long, value_enum)]
    target: Target,
    /// Optimise llvm and asm not at all (0) or fully (3)
    #[arg(short = 'O', value_parser = ["0", "3"], default_value = "3")]
    level: String,
    /// Configuration, for the tables that a profile's packets meet; without it, the .toml file beside the program
    #[arg(short, long, value_name = "FILE")]
    config: Option<PathBuf>,
    #[command(flatten)]
    packets: Packets,
}

#[derive(Clone, Copy, clap::ValueEnum)]
enum Target {
    Ir,
    Llvm,
    Asm,
    Dot,
}

/// Runs the command.
pub fn run(args: &Args) -> Result<(), Failure> {
    let source = apps::find(&args.app)?;
    let compilation = apps::check(&source)?;
    let mut program = apps::lower(&source, &compilation)?;
    if args.packets.has_profile() {
        let config = configuration(&source, args.config.as_ref(), &program)?;
        program = args.packets.profiled(program, &config)?;
    }
    let level = if args.level == "0" { OptLevel::O0 } else { OptLevel::O3 };
    let packets = args.packets.level();
    let native = |what| codegen::emit(&program, level, packets, what).map_err(Failure::refused);
    let text = match args.target {
        Target::Ir => baker::ir::print(&optimise(&program, packets)),
        Target::Llvm => native(Emit::Llvm)?,
        Target::Asm => native(Emit::Asm)?,
        Target::Dot => {
            let placement = apps::place(&source, &program, &compilation)?;
            baker::ir::dot(&program, |ppf| placement.is_kernel(ppf))
        }
    };
    print(format_args!("{text}"));
    Ok(())
}
