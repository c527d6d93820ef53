//! Taking tokens from meters: the cells lie in an array, see `codegen::abi::MeterCell`.

use std::sync::atomic::{AtomicU64, Ordering};

use baker::ir::meter::MeterRate;
use codegen::abi::MeterCell;

/// `abi::Runtime::meter_take`.
///
/// # Safety
/// `cell` points to a cell of a meter, whose fields all threads access atomically.
pub unsafe extern "C" fn take(cell: *mut u8, now: u64, tokens: u64) -> u8 {
    let cell = cell.cast::<MeterCell>();
    // SAFETY: promised by the caller; the fields are aligned to 8 bytes.
    let [rate, burst, full] = unsafe {
        [&raw mut (*cell).rate, &raw mut (*cell).burst, &raw mut (*cell).full].map(|field| AtomicU64::from_ptr(field))
    };
    let meter = MeterRate { rate: rate.load(Ordering::Relaxed), burst: burst.load(Ordering::Relaxed) };
    // Where another worker was faster, with the time that it left: one of them always gets on.
    full.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |full| meter.take(full, now, tokens)).is_ok().into()
}
