//! Micro-operations: what an engine executes, in the style of the IXP's instruction set.

use std::fmt;

use crate::platform::Memory;

/// What part of an engine an instruction uses. Each takes one cycle.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Unit {
    /// 32-bit addition, logic, comparison; moves.
    Alu,
    /// Shifts by up to 31 bits, of one or two registers.
    Shift,
    /// A step of a multiplication.
    Multiply,
    /// Takes 4 bytes out of two registers, at a distance in bytes.
    ByteAlign,
    /// Loads 16 bits of a constant.
    Immediate,
    /// Branches, calls, returns.
    Branch,
    /// Control and status registers of the engine.
    Csr,
    /// Memory of the engine.
    LocalMemory,
    /// The ring to the next engine.
    NextNeighbour,
}

/// What is asked of a memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Command {
    /// Into transfer registers.
    Read,
    /// From transfer registers.
    Write,
    /// Adds to a number in memory.
    Add,
    /// Sets a lock and gives what it was.
    TestAndSet,
    /// Appends to a ring.
    Put,
    /// Takes from a ring.
    Get,
    /// Hashes a key: the hash unit is behind the same bus as scratch.
    Hash,
}

/// One or several instructions of an engine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum MicroOp {
    /// So many instructions.
    Run(Unit, u32),
    /// One instruction, which issues a command.
    Access {
        /// Where to.
        memory: Memory,
        /// What.
        command: Command,
        /// Bytes moved.
        bytes: u32,
        /// Whether the thread waits for its end, and others run meanwhile.
        wait: bool,
    },
}

impl MicroOp {
    /// How many instructions it is.
    pub fn instructions(self) -> u32 {
        match self {
            MicroOp::Run(_, count) => count,
            MicroOp::Access { .. } => 1,
        }
    }
}

impl fmt::Display for MicroOp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            MicroOp::Run(unit, count) => {
                let name = match unit {
                    Unit::Alu => "alu",
                    Unit::Shift => "alu_shf",
                    Unit::Multiply => "mul_step",
                    Unit::ByteAlign => "byte_align",
                    Unit::Immediate => "immed",
                    Unit::Branch => "br",
                    Unit::Csr => "local_csr",
                    Unit::LocalMemory => "local_mem",
                    Unit::NextNeighbour => "next_neighbour",
                };
                write!(f, "{name}")?;
                if count > 1 { write!(f, " x{count}") } else { Ok(()) }
            }
            MicroOp::Access { memory, command, bytes, wait } => {
                let name = match command {
                    Command::Read => "read",
                    Command::Write => "write",
                    Command::Add => "add",
                    Command::TestAndSet => "test_and_set",
                    Command::Put => "put",
                    Command::Get => "get",
                    Command::Hash => "hash",
                };
                write!(f, "{}[{name}, {bytes} bytes]", memory.name())?;
                if wait { write!(f, ", ctx_swap") } else { Ok(()) }
            }
        }
    }
}
