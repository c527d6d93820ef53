//! Memory.

use std::io;
use std::os::fd::RawFd;
use std::ptr::NonNull;

/// Bytes of a page of memory.
pub fn page_size() -> usize {
    // SAFETY: reads a number that every system has.
    unsafe { libc::sysconf(libc::_SC_PAGESIZE) as usize }
}

const WRITABLE: i32 = libc::PROT_READ | libc::PROT_WRITE;

/// A private or shared memory mapping, unmapped on drop. Fresh anonymous pages are zero and cost nothing until touched.
#[derive(Debug)]
pub struct Mapping {
    start: NonNull<u8>,
    len: usize,
}

// SAFETY: the mapping is plain memory; its users decide which of them may touch which part.
unsafe impl Send for Mapping {}
// SAFETY: as above.
unsafe impl Sync for Mapping {}

impl Mapping {
    /// `len` zero bytes (at least one page), page-aligned.
    pub fn anonymous(len: usize) -> io::Result<Self> {
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
        let mapping = Self::map(len.max(1), flags, -1)?;
        // Fewer TLB misses on big regions; only a hint, so its result does not matter.
        if len >= 1 << 21 {
            // SAFETY: the range is the mapping just made.
            unsafe { libc::madvise(mapping.start.as_ptr().cast(), mapping.len, libc::MADV_HUGEPAGE) };
        }
        Ok(mapping)
    }

    /// Like [`Mapping::anonymous`] for sparse use: small pages, so that touching one byte costs 4 KiB and not 2 MiB.
    pub fn sparse(len: usize) -> io::Result<Self> {
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
        let mapping = Self::map(len.max(1), flags, -1)?;
        // SAFETY: the range is the mapping just made.
        unsafe { libc::madvise(mapping.start.as_ptr().cast(), mapping.len, libc::MADV_NOHUGEPAGE) };
        Ok(mapping)
    }

    /// `len` bytes of a file or socket, shared with the kernel.
    pub fn of_fd(fd: RawFd, len: usize) -> io::Result<Self> {
        Self::of_fd_at(fd, len, 0)
    }

    /// As [`Mapping::of_fd`], from an offset on, which for a socket says what is to be mapped.
    pub fn of_fd_at(fd: RawFd, len: usize, offset: i64) -> io::Result<Self> {
        Self::map_at(len, WRITABLE, libc::MAP_SHARED, fd, offset)
    }

    /// As [`Mapping::of_fd_at`], of what only the kernel writes.
    pub fn read_only_of_fd_at(fd: RawFd, len: usize, offset: i64) -> io::Result<Self> {
        Self::map_at(len, libc::PROT_READ, libc::MAP_SHARED, fd, offset)
    }

    fn map(len: usize, flags: i32, fd: RawFd) -> io::Result<Self> {
        Self::map_at(len, WRITABLE, flags, fd, 0)
    }

    fn map_at(len: usize, rights: i32, flags: i32, fd: RawFd, offset: i64) -> io::Result<Self> {
        // SAFETY: a new mapping at an address of the kernel's choice touches no memory of ours.
        let start = unsafe { libc::mmap(std::ptr::null_mut(), len, rights, flags, fd, offset) };
        if start == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        Ok(Mapping { start: NonNull::new(start.cast()).expect("mmap never returns null"), len })
    }

    /// First byte.
    pub fn ptr(&self) -> *mut u8 {
        self.start.as_ptr()
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: the range was mapped by `map` and nothing refers to it any more.
        unsafe { libc::munmap(self.start.as_ptr().cast(), self.len) };
    }
}
