//! Which file LLVM is in: a distribution may change it without giving it another version.

use std::ffi::{CStr, OsStr};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use inkwell::llvm_sys::core::LLVMGetVersion;

/// The file's path, size and time, as far as they can be found out.
pub(super) fn describe() -> String {
    let mut info = libc::Dl_info {
        dli_fname: std::ptr::null(),
        dli_fbase: std::ptr::null_mut(),
        dli_sname: std::ptr::null(),
        dli_saddr: std::ptr::null_mut(),
    };
    // SAFETY: the address of a function, and a place for what is said of it.
    let found = unsafe { libc::dladdr(LLVMGetVersion as *const libc::c_void, &mut info) };
    if found == 0 || info.dli_fname.is_null() {
        return String::new();
    }
    // SAFETY: the loader's own text, which ends with zero and stays as long as the library does.
    let name = unsafe { CStr::from_ptr(info.dli_fname) };
    let path = Path::new(OsStr::from_bytes(name.to_bytes()));
    match std::fs::metadata(path) {
        Ok(about) => format!("{} {} {}.{}", path.display(), about.len(), about.mtime(), about.mtime_nsec()),
        Err(_) => path.display().to_string(),
    }
}
