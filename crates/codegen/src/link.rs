//! Object files in memory, linked: LLVM's just-in-time linker, which is given nothing to compile.

use std::ffi::{CStr, CString};
use std::ptr;

use inkwell::llvm_sys::core::LLVMCreateMemoryBufferWithMemoryRangeCopy;
use inkwell::llvm_sys::error::{LLVMDisposeErrorMessage, LLVMErrorRef, LLVMGetErrorMessage};
use inkwell::llvm_sys::orc2::lljit::{
    LLVMOrcCreateLLJIT, LLVMOrcDisposeLLJIT, LLVMOrcLLJITAddObjectFile, LLVMOrcLLJITGetMainJITDylib,
    LLVMOrcLLJITLookup, LLVMOrcLLJITMangleAndIntern, LLVMOrcLLJITRef,
};
use inkwell::llvm_sys::orc2::{
    LLVMJITEvaluatedSymbol, LLVMJITSymbolFlags, LLVMJITSymbolGenericFlags, LLVMOrcAbsoluteSymbols,
    LLVMOrcCSymbolMapPair, LLVMOrcDisposeMaterializationUnit, LLVMOrcJITDylibDefine,
};

use crate::{CodegenError, internal, target};

/// The linker that owns the code.
pub(crate) struct Linked(LLVMOrcLLJITRef);

// SAFETY: LLVM ties nothing to a thread, and nothing else has this linker.
unsafe impl Send for Linked {}

// SAFETY: a shared reference gives addresses only, and the linker takes look-ups of several threads.
unsafe impl Sync for Linked {}

impl Linked {
    /// Puts an object file into memory. `outside`: symbols that it does not define, and where they are.
    pub fn new(object: &[u8], outside: &[(&str, usize)]) -> Result<Linked, CodegenError> {
        target::initialize()?;
        let mut linker = ptr::null_mut();
        // SAFETY: a place for the linker; without a builder it is one for this process.
        done(unsafe { LLVMOrcCreateLLJIT(&mut linker, ptr::null_mut()) })?;
        let linked = Linked(linker);
        let names = outside.iter().map(|(name, _)| *name).chain(LIBCALLS.map(|(name, _)| name));
        let addresses = outside.iter().map(|(_, address)| *address).chain(LIBCALLS.map(|(_, address)| address()));
        let names = names.map(|name| CString::new(name).or_else(|_| internal("a symbol with a zero")));
        let names = names.collect::<Result<Vec<_>, _>>()?;
        let flags = LLVMJITSymbolGenericFlags::LLVMJITSymbolGenericFlagsExported as u8;
        let symbol = |(name, address): (&CString, usize)| LLVMOrcCSymbolMapPair {
            // SAFETY: a text that ends with zero. `LLVMOrcAbsoluteSymbols` takes over what this gives.
            Name: unsafe { LLVMOrcLLJITMangleAndIntern(linker, name.as_ptr()) },
            Sym: LLVMJITEvaluatedSymbol {
                Address: address as u64,
                Flags: LLVMJITSymbolFlags { GenericFlags: flags, TargetFlags: 0 },
            },
        };
        let mut symbols: Vec<_> = names.iter().zip(addresses).map(symbol).collect();
        // SAFETY: as many symbols as are said. The library takes them over; only where it refuses to, they are still
        // ours to dispose of. The buffer is a copy, which the linker takes over in any case.
        unsafe {
            let library = LLVMOrcLLJITGetMainJITDylib(linker);
            let unit = LLVMOrcAbsoluteSymbols(symbols.as_mut_ptr(), symbols.len());
            done(LLVMOrcJITDylibDefine(library, unit)).inspect_err(|_| LLVMOrcDisposeMaterializationUnit(unit))?;
            let (start, name) = (object.as_ptr().cast(), c"millrace".as_ptr());
            let buffer = LLVMCreateMemoryBufferWithMemoryRangeCopy(start, object.len(), name);
            done(LLVMOrcLLJITAddObjectFile(linker, library, buffer))?;
        }
        Ok(linked)
    }

    /// Where a function is, while this value lives.
    pub fn address(&self, symbol: &str) -> Result<usize, CodegenError> {
        let Ok(name) = CString::new(symbol) else { return internal("a symbol with a zero") };
        let mut address = 0;
        // SAFETY: a place for the address, and a text that ends with zero.
        done(unsafe { LLVMOrcLLJITLookup(self.0, &mut address, name.as_ptr()) })?;
        Ok(address as usize)
    }
}

impl Drop for Linked {
    fn drop(&mut self) {
        // SAFETY: disposed of once, here. There is nobody to tell of an error.
        let _ = done(unsafe { LLVMOrcDisposeLLJIT(self.0) });
    }
}

/// What LLVM says of how something went.
fn done(error: LLVMErrorRef) -> Result<(), CodegenError> {
    if error.is_null() {
        return Ok(());
    }
    // SAFETY: an error is taken over by asking for its text, which ends with zero and is ours to dispose of.
    let text = unsafe {
        let message = LLVMGetErrorMessage(error);
        let text = CStr::from_ptr(message).to_string_lossy().into_owned();
        LLVMDisposeErrorMessage(message);
        text
    };
    internal(format!("LLVM's linker: {text}"))
}

/// Tells where a function is.
type Address = fn() -> usize;

/// Instruction selection calls these for divisions of more than 64 bits. The linker would look them up among the
/// process's dynamic symbols, where they are only if libgcc is linked dynamically: so it gets ours.
const LIBCALLS: [(&str, Address); 4] = {
    extern "C" fn udiv(a: u128, b: u128) -> u128 {
        a.checked_div(b).unwrap_or(0)
    }
    extern "C" fn urem(a: u128, b: u128) -> u128 {
        a.checked_rem(b).unwrap_or(0)
    }
    extern "C" fn sdiv(a: i128, b: i128) -> i128 {
        a.checked_div(b).unwrap_or(0)
    }
    extern "C" fn srem(a: i128, b: i128) -> i128 {
        a.checked_rem(b).unwrap_or(0)
    }
    [
        ("__udivti3", || udiv as *const () as usize),
        ("__umodti3", || urem as *const () as usize),
        ("__divti3", || sdiv as *const () as usize),
        ("__modti3", || srem as *const () as usize),
    ]
};
