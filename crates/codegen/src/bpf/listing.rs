//! BPF code as text, as LLVM writes the kernel's instructions.

use std::ffi::c_char;
use std::ptr;

use inkwell::llvm_sys::disassembler::{
    LLVMCreateDisasmCPU, LLVMDisasmContextRef, LLVMDisasmDispose, LLVMDisasmInstruction,
};

use super::object::{LOAD_WIDE, SLOT};
use super::target::{Bpf, CPU};
use crate::kernel::{MapUse, Object};
use crate::{CodegenError, internal};

/// Bytes of an instruction's text at most.
const TEXT: usize = 128;
/// Classes of instructions that jump.
const JUMPS: [u8; 2] = [5, 6];
/// Of those, what is no jump within the code: calls of kernel functions, and the end.
const CALL: u8 = 0x80;
const EXIT: u8 = 0x90;
/// The jump of class 6 whose distance has 32 bits.
const FAR: u8 = 0x06;

/// An instruction as text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Line {
    /// Number of its first slot of eight bytes, as the kernel counts.
    pub slot: usize,
    /// Its text.
    pub text: String,
    /// Where it may jump to.
    pub target: Option<usize>,
    /// The map that it loads.
    pub map: Option<MapUse>,
}

/// The instructions of a program, in order.
///
/// # Errors
/// A fault: what is no instruction.
pub fn listing(object: &Object) -> Result<Vec<Line>, CodegenError> {
    // Registers the target.
    Bpf::new()?;
    let disassembler = Disassembler::new()?;
    let (mut lines, mut slot) = (Vec::new(), 0);
    while slot < object.instructions() {
        let bytes = &object.code[slot * SLOT..];
        let Some((length, text)) = disassembler.instruction(bytes) else {
            return internal(format!("slot {slot} holds no instruction"));
        };
        let map = object.maps.iter().find(|(at, _)| *at == slot).map(|(_, map)| *map);
        lines.push(Line { slot, text, target: target(bytes, slot), map });
        slot += length / SLOT;
    }
    Ok(lines)
}

/// Where the instruction that begins with these bytes may jump to.
fn target(bytes: &[u8], slot: usize) -> Option<usize> {
    let op = bytes[0];
    if !JUMPS.contains(&(op & 7)) || op == LOAD_WIDE || [CALL, EXIT].contains(&(op & 0xf0)) {
        return None;
    }
    let distance = match op {
        FAR => i64::from(i32::from_le_bytes(bytes[4..8].try_into().ok()?)),
        _ => i64::from(i16::from_le_bytes(bytes[2..4].try_into().ok()?)),
    };
    usize::try_from(slot as i64 + 1 + distance).ok()
}

/// LLVM's disassembler.
struct Disassembler(LLVMDisasmContextRef);

impl Disassembler {
    fn new() -> Result<Self, CodegenError> {
        let cpu = format!("{CPU}\0");
        // SAFETY: both texts end with 0 and are copied; there is nothing to look symbols up with.
        let context =
            unsafe { LLVMCreateDisasmCPU(c"bpfel".as_ptr(), cpu.as_ptr().cast(), ptr::null_mut(), 0, None, None) };
        if context.is_null() {
            return Err(CodegenError::Target("LLVM has no disassembler for BPF".into()));
        }
        Ok(Disassembler(context))
    }

    /// The instruction at the beginning: its bytes and its text.
    fn instruction(&self, bytes: &[u8]) -> Option<(usize, String)> {
        let mut text = [0u8; TEXT];
        let out: *mut c_char = text.as_mut_ptr().cast();
        // SAFETY: the context lives; the function only reads the bytes, and writes at most `TEXT` bytes with a 0.
        let length =
            unsafe { LLVMDisasmInstruction(self.0, bytes.as_ptr().cast_mut(), bytes.len() as u64, 0, out, TEXT) };
        let end = text.iter().position(|byte| *byte == 0).unwrap_or(TEXT);
        let text = String::from_utf8_lossy(&text[..end]);
        (length > 0).then(|| (length, text.split_whitespace().collect::<Vec<_>>().join(" ")))
    }
}

impl Drop for Disassembler {
    fn drop(&mut self) {
        // SAFETY: it is not used any more.
        unsafe { LLVMDisasmDispose(self.0) };
    }
}
