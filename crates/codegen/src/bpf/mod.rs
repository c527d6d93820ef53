//! IR to BPF, for the XDP hook and for that of traffic control ([`hook`]): one function of a received frame. See
//! [`crate::kernel`] for what it works on.
//!
//! There is one packet at a time. Where its head is and what else is known of it lies in a [`state::State`] on the
//! stack, which LLVM turns into registers once everything is inlined. Kernel functions that move the packet make all
//! pointers into it void; so these are read again then, and each handle's promise is tested again where it is used next
//! ([`packet`]).

mod asm;
mod body;
mod deadline;
mod debug_info;
mod elf;
mod fragments;
mod hash;
mod hook;
mod insert;
mod kept;
mod leave;
mod listing;
mod lock;
mod loops;
mod main;
mod meter;
mod object;
mod obstacles;
mod packet;
mod parts;
mod resize;
mod ring;
mod spill;
mod state;
mod sum;
mod super_packet;
mod table;
mod tap;
mod target;
mod tc;
mod tiers;
mod time;
mod trie;
pub mod vm;
mod wide;

use std::cell::Cell;
use std::ops::Deref;

use baker::ir::{PpfId, Program};
use baker::opt::{Level, optimise};
use inkwell::context::Context;
use inkwell::module::Module as LlvmModule;
use inkwell::values::{FunctionValue, InstructionOpcode, InstructionValue};

pub use elf::elf;
pub use listing::{Line, listing};
pub use obstacles::{limits, limits_at, obstacles};
pub use tiers::{ANYTHING, Accepted, Known, Refusal, Tier, TierError, compile_tiered, known};

use crate::kernel::{Location, Memory, Object, Options};
use crate::lower::{Core, Missing, Res, enum_attribute};
use crate::{CodegenError, internal};
use debug_info::DebugInfo;
use state::Fields;
use target::{Bpf, Complaints};

/// The section of the function.
const SECTION: &str = "xdp";
/// Its name.
const NAME: &str = "millrace_xdp";

/// How LLVM says that the stack does not suffice.
const NO_STACK: &str = "BPF stack limit is exceeded";

/// Instructions that a jump of 16 bits reaches.
const LONGEST: usize = 1 << 15;

/// Bytes of stack that the kernel gives a program.
const STACK: u32 = 512;

/// Compiles a program, all of whose PPFs run in the kernel, for its memory, as one function. [`limits`] says which can;
/// `baker::location` makes others a controller, and what is put to controllers is punted.
pub fn compile(program: &Program, packets: Level, memory: &Memory, options: Options) -> Result<Object, CodegenError> {
    let program = &optimise(program, packets);
    filled(with_module(program, CompileUnit::Whole, memory, options, read(options))?, memory)
}

/// Code with the numbers of this process.
fn filled(mut object: Object, memory: &Memory) -> Result<Object, CodegenError> {
    if object.fill(memory) { Ok(object) } else { internal("code with a number of a table that is not there") }
}

/// What code is made of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum CompileUnit {
    /// All of the program.
    Whole,
    /// The part that begins with this PPF.
    Part(PpfId),
}

/// How instructions come out of a module.
fn read(options: Options) -> impl FnOnce(&Program, &Bpf, &LlvmModule, &[Location]) -> Result<Object, CodegenError> {
    move |program, bpf, module, locations| {
        let mut object = object::read(&bpf.object(module)?, program, locations)?;
        object.llvm = options.text.then(|| module.print_to_string().to_string());
        Ok(object)
    }
}

fn with_module<T>(
    program: &Program,
    unit: CompileUnit,
    memory: &Memory,
    options: Options,
    write: impl FnOnce(&Program, &Bpf, &LlvmModule, &[Location]) -> Result<T, CodegenError>,
) -> Result<T, CodegenError> {
    let options = Options { frags: options.divided(), ..options };
    if let Some(obstacle) = obstacles::obstacles_at(program, options.hook).first() {
        let ppf = &program.ppfs[obstacle.ppf.0 as usize].name;
        return internal(format!("ppf {ppf} cannot run in the kernel: {}", obstacle.reason));
    }
    let context = Context::create();
    let complaints = Complaints::of(&context);
    let bpf = Bpf::new()?;
    let (module, locations) = lower(&context, program, unit, memory, options, &bpf)?;
    module
        .verify()
        .map_err(|error| CodegenError::Internal(format!("LLVM refuses the module of `{}`: {error}", program.name)))?;
    bpf.optimise(&module)?;
    if estimate(&module) > LONGEST {
        // LLVM ends the process where a jump goes too far, but not while it writes text.
        let size = bpf.assembly(&module)?.lines().map(slots).sum();
        if size > LONGEST {
            return Err(CodegenError::TooLarge(size, LONGEST));
        }
    }
    let written = write(program, &bpf, &module, &locations);
    match &complaints.take()[..] {
        [] => written,
        complaints if complaints.iter().any(|complaint| complaint.contains(NO_STACK)) => Err(CodegenError::Stack),
        complaints => internal(format!("LLVM's BPF back end: {}", complaints.join("; "))),
    }
}

/// Slots of eight bytes that a line of assembly becomes.
fn slots(line: &str) -> usize {
    match line.trim_start() {
        "" => 0,
        line if line.starts_with(['#', '.']) || line.ends_with(':') => 0,
        line if line.ends_with(" ll") => 2,
        _ => 1,
    }
}

/// How many instructions a module becomes, and not fewer.
fn estimate(module: &LlvmModule) -> usize {
    let blocks = module.get_functions().flat_map(|function| function.get_basic_blocks());
    let of_instruction = |instruction: InstructionValue| match instruction.get_opcode() {
        // Some are assembly of five instructions.
        InstructionOpcode::Call => 5,
        InstructionOpcode::Phi => 1,
        _ => 2,
    };
    blocks.flat_map(|block| block.get_instructions()).map(of_instruction).sum()
}

fn lower<'c>(
    context: &'c Context,
    program: &Program,
    unit: CompileUnit,
    memory: &Memory,
    options: Options,
    bpf: &Bpf,
) -> Res<(LlvmModule<'c>, Vec<Location>)> {
    let llvm = context.create_module(&program.name);
    bpf.prepare(&llvm);
    let attributes = vec![
        enum_attribute(context, "nounwind", 0),
        // Lists of constants lie in memory that the kernel does not know.
        context.create_string_attribute("no-jump-tables", "true"),
        context.create_string_attribute("no-builtins", ""),
    ];
    let core = Core::new(context, program, llvm, attributes, Missing::Wide);
    let fields = Fields::new(program);
    let debug_info = DebugInfo::new(context, &core.llvm);
    let part = match unit {
        CompileUnit::Whole => None,
        CompileUnit::Part(root) => Some(root),
    };
    let mut kernel = Kernel {
        core,
        memory,
        options,
        head_stays: options.hook == crate::kernel::Hook::Tc && !hook::moves_heads(program),
        fields,
        debug_info,
        kept: Cell::new(0),
        loads: Cell::new(0),
        part,
        ppfs: Vec::new(),
    };
    kernel.declare_ppfs();
    for (ppf, function) in program.ppfs.iter().zip(&kernel.ppfs) {
        if let Some(function) = function {
            body::lower_ppf(&kernel, ppf, *function)?;
        }
    }
    kernel.define_main()?;
    Ok((kernel.core.llvm, kernel.debug_info.finish()))
}

/// What the lowering of every function to BPF shares.
struct Kernel<'c, 'p> {
    core: Core<'c, 'p>,
    memory: &'p Memory,
    options: Options,
    /// At traffic control: no PPF moves the head of a packet.
    head_stays: bool,
    fields: Fields,
    debug_info: DebugInfo<'c>,
    /// Bytes in which spilled code keeps values of the bodies so far.
    kept: Cell<u64>,
    /// Loads so far of numbers that are filled in later.
    loads: Cell<u32>,
    /// What the part of the program begins with that this is; `None`: all of it.
    part: Option<PpfId>,
    /// One per PPF; `None` where its code is not needed.
    ppfs: Vec<Option<FunctionValue<'c>>>,
}

impl<'c, 'p> Deref for Kernel<'c, 'p> {
    type Target = Core<'c, 'p>;

    fn deref(&self) -> &Core<'c, 'p> {
        &self.core
    }
}
