//! Values that one thread writes while others read them.

use std::sync::atomic::{AtomicU8, AtomicU16, AtomicU32, AtomicU64, Ordering};

use baker::ir::{Layout, storage_size};

use super::layout::Bytes;

/// Whether one store changes a value, as a look-up sees it: it is one field, for each field is loaded by itself.
pub fn at_once(value: &Layout) -> bool {
    matches!(&value.fields[..], [field] if value.size <= 8 && storage_size(field.width) == value.size)
}

/// Copies a value into an entry that others may be reading: field by field at once, for fields of up to 8 bytes.
///
/// # Safety
/// `to` is valid for writes of `from.len()` bytes and aligned to `align`, a power of two that divides `from.len()`.
pub unsafe fn store_shared(to: *mut u8, from: &[u8], align: usize) {
    let step = align.clamp(1, 8);
    for (index, chunk) in from.chunks_exact(step).enumerate() {
        // SAFETY: within the entry and aligned to the step, by the caller's promise.
        unsafe {
            let at = to.add(index * step);
            match chunk {
                &[a] => AtomicU8::from_ptr(at).store(a, Ordering::Relaxed),
                &[a, b] => AtomicU16::from_ptr(at.cast()).store(u16::from_ne_bytes([a, b]), Ordering::Relaxed),
                &[a, b, c, d] => {
                    AtomicU32::from_ptr(at.cast()).store(u32::from_ne_bytes([a, b, c, d]), Ordering::Relaxed)
                }
                chunk => {
                    let word = u64::from_ne_bytes(chunk.try_into().expect("the step is 8"));
                    AtomicU64::from_ptr(at.cast()).store(word, Ordering::Relaxed)
                }
            }
        }
    }
}

/// Copies a value out of an entry that others may be writing.
///
/// # Safety
/// As for [`store_shared`], for reads.
pub unsafe fn load_shared(from: *const u8, len: usize, align: usize) -> Bytes {
    /// Chunks of a length that is known when this is compiled.
    fn fill<const N: usize>(bytes: &mut [u8], load: impl Fn(usize) -> [u8; N]) {
        let (chunks, _) = bytes.as_chunks_mut();
        chunks.iter_mut().enumerate().for_each(|(index, chunk)| *chunk = load(index));
    }
    let mut bytes = Bytes::from_elem(0, len);
    let from = from.cast_mut();
    // SAFETY: within the entry and aligned to the step, by the caller's promise.
    unsafe {
        match align {
            0 | 1 => fill(&mut bytes, |at| [AtomicU8::from_ptr(from.add(at)).load(Ordering::Relaxed)]),
            2 => fill(&mut bytes, |at| {
                AtomicU16::from_ptr(from.cast::<u16>().add(at)).load(Ordering::Relaxed).to_ne_bytes()
            }),
            4 => fill(&mut bytes, |at| {
                AtomicU32::from_ptr(from.cast::<u32>().add(at)).load(Ordering::Relaxed).to_ne_bytes()
            }),
            _ => fill(&mut bytes, |at| {
                AtomicU64::from_ptr(from.cast::<u64>().add(at)).load(Ordering::Relaxed).to_ne_bytes()
            }),
        }
    }
    bytes
}
