//! The locks of entries, which critical sections of programs take (`baker::ir::Op::Lock`).

use std::sync::atomic::{AtomicU32, Ordering};

/// How often a lock is looked at before the processor is left to others.
const SPINS: u32 = 200;

/// Does something while an entry is locked, where entries have a lock: 32 bits at this offset in the value.
///
/// # Safety
/// `value` is the value of an entry of such a table, which stays one meanwhile.
pub unsafe fn locked<T>(value: *mut u8, lock: Option<usize>, inside: impl FnOnce() -> T) -> T {
    let Some(offset) = lock else { return inside() };
    // SAFETY: the lock lies in the value, aligned to 4 bytes, and is only accessed atomically.
    let lock = unsafe { AtomicU32::from_ptr(value.add(offset).cast()) };
    wait_for(lock);
    let result = inside();
    lock.store(0, Ordering::Release);
    result
}

/// Takes a lock: 0 where it is free.
pub fn wait_for(lock: &AtomicU32) {
    let mut spins = 0;
    while lock.compare_exchange_weak(0, 1, Ordering::Acquire, Ordering::Relaxed).is_err() {
        spins += 1;
        if spins % SPINS == 0 { std::thread::yield_now() } else { std::hint::spin_loop() }
    }
}
