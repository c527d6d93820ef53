//! Clocks.

use std::sync::OnceLock;
use std::time::Duration;

use codegen::abi::TICK_BITS;

/// CLOCK_MONOTONIC in nanoseconds, the same for all threads.
pub fn monotonic_ns() -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the call writes one timespec. It cannot fail with this clock (clock_gettime(2)).
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &mut time) };
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// CPU time of the calling thread in nanoseconds.
pub fn thread_cpu_ns() -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: as above.
    unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &mut time) };
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// The processor's clock, in ticks that are all of one length: the one that generated code reads.
fn ticks() -> u64 {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: each processor with 64 bits has the instruction, and Linux lets processes use it (arch_prctl(2)).
    return unsafe { core::arch::x86_64::_rdtsc() };
    #[cfg(target_arch = "aarch64")]
    {
        let ticks: u64;
        // SAFETY: it reads a register, which Linux lets processes read.
        unsafe { core::arch::asm!("mrs {}, cntvct_el0", out(reg) ticks, options(nomem, nostack)) };
        return ticks;
    }
    #[allow(unreachable_code)]
    monotonic_ns()
}

/// Nanoseconds of a tick of the processor's clock, times two to the [`TICK_BITS`]. Measured once, for 5 ms.
pub fn nanoseconds_of_tick() -> u64 {
    static TICK: OnceLock<u64> = OnceLock::new();
    *TICK.get_or_init(|| {
        let (since, first) = (monotonic_ns(), ticks());
        std::thread::sleep(Duration::from_millis(5));
        let (nanoseconds, passed) = (monotonic_ns() - since, ticks().wrapping_sub(first).max(1));
        ((u128::from(nanoseconds) << TICK_BITS) / u128::from(passed)) as u64
    })
}
