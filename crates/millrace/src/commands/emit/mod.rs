//! `millrace emit`: shows what a program is compiled to.

mod bpf;

use std::path::PathBuf;

use baker::opt::optimise;
use cli::failure::Failure;
use cli::output::print;
use codegen::kernel::{Hook, Options};
use codegen::{Emit, OptLevel};
use dataplane::ports::kernel_options;

use self::bpf::KernelPart;
use super::instance::configuration;
use super::packets::Packets;
use crate::apps;

/// What to show.
#[derive(clap::Args)]
pub struct Args {
    /// Baker file, directory of an application, or its name
    #[arg(value_name = "APP|FILE")]
    app: String,
    /// What it is compiled to
    #[arg(long, value_enum)]
    target: Target,
    /// Where in the kernel it is to run
    #[arg(long, value_enum, default_value = "xdp")]
    hook: AtHook,
    /// Optimise llvm and asm not at all (0) or fully (3)
    #[arg(short = 'O', value_parser = ["0", "3"], default_value = "3")]
    level: String,
    /// Write it into this file instead
    #[arg(short, long, value_name = "FILE", required_if_eq("target", "bpf-object"))]
    output: Option<PathBuf>,
    /// Configuration, for the tables that a profile's packets meet, and for what workers and the kernel run; without
    /// it, the .toml file beside the program
    #[arg(short, long, value_name = "FILE")]
    config: Option<PathBuf>,
    #[command(flatten)]
    packets: Packets,
}

#[derive(Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Target {
    /// The intermediate representation
    Ir,
    /// Native code as LLVM IR
    Llvm,
    /// Native code as assembly
    Asm,
    /// The channels as a Graphviz graph
    Dot,
    /// The kernel's part as BPF instructions
    Bpf,
    /// The same as LLVM IR
    BpfLlvm,
    /// The same as an object file (ELF)
    BpfObject,
}

/// Where in the kernel a program runs.
#[derive(Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum AtHook {
    /// At the driver
    Xdp,
    /// At traffic control's ingress
    Tc,
}

impl From<AtHook> for Hook {
    fn from(hook: AtHook) -> Hook {
        match hook {
            AtHook::Xdp => Hook::Xdp,
            AtHook::Tc => Hook::Tc,
        }
    }
}

/// Runs the command.
pub fn run(args: &Args) -> Result<(), Failure> {
    let emitted = emitted(args)?;
    let Some(path) = &args.output else {
        print(format_args!("{}", String::from_utf8_lossy(&emitted)));
        return Ok(());
    };
    std::fs::write(path, emitted)
        .map_err(|error| Failure::refused(format!("{}: cannot be written: {error}", path.display())))
}

fn emitted(args: &Args) -> Result<Vec<u8>, Failure> {
    let source = apps::find(&args.app)?;
    let compilation = apps::check(&source)?;
    let mut program = apps::lower_for(args.hook.into(), &source, &compilation)?;
    let of_kernel = matches!(args.target, Target::Bpf | Target::BpfLlvm | Target::BpfObject);
    let mut options = Options::default();
    if args.packets.has_profile() || of_kernel {
        let config = configuration(&source, args.config.as_ref(), &program)?;
        program = args.packets.profiled(program, &config)?;
        if of_kernel {
            // As `run` has it.
            program = config.pinned(program);
            let devices = config.ports.iter().filter_map(|port| port.device.as_ref());
            options = Options { hook: args.hook.into(), ..kernel_options(devices) };
        }
    }
    let level = if args.level == "0" { OptLevel::O0 } else { OptLevel::O3 };
    let packets = args.packets.level();
    let native = |what| codegen::emit(&program, level, packets, what).map_err(Failure::refused);
    let kernel = || {
        apps::place(&source, &program, &compilation)?;
        KernelPart::new(&source.name, &program, &compilation.sources, packets, options)
    };
    let text = match args.target {
        Target::Ir => baker::ir::print(&optimise(&program, packets)),
        Target::Llvm => native(Emit::Llvm)?,
        Target::Asm => native(Emit::Asm)?,
        Target::Dot => {
            let placement = apps::place(&source, &program, &compilation)?;
            baker::ir::dot(&program, |ppf| placement.is_kernel(ppf))
        }
        Target::Bpf => kernel()?.listing()?,
        Target::BpfLlvm => kernel()?.llvm(),
        Target::BpfObject => return kernel()?.object(),
    };
    Ok(text.into_bytes())
}
