//! CPUs.

use std::io;
use std::mem::size_of;

use super::call::check;

/// Pins the calling thread to one CPU.
pub fn pin_to_cpu(cpu: usize) -> io::Result<()> {
    if cpu >= libc::CPU_SETSIZE as usize {
        return Err(io::Error::from_raw_os_error(libc::EINVAL));
    }
    // SAFETY: cpu_set_t is plain data for which zero is valid; the index was checked; 0 names the calling thread.
    unsafe {
        let mut set: libc::cpu_set_t = std::mem::zeroed();
        libc::CPU_SET(cpu, &mut set);
        check(libc::sched_setaffinity(0, size_of::<libc::cpu_set_t>(), &set)).map(drop)
    }
}

/// The CPUs that this process may run on, in order.
pub fn allowed_cpus() -> io::Result<Vec<usize>> {
    // SAFETY: cpu_set_t is plain data for which zero is valid, and the length given is its size; 0 names this thread.
    unsafe {
        let mut set: libc::cpu_set_t = std::mem::zeroed();
        check(libc::sched_getaffinity(0, size_of::<libc::cpu_set_t>(), &mut set))?;
        Ok((0..libc::CPU_SETSIZE as usize).filter(|&cpu| libc::CPU_ISSET(cpu, &set)).collect())
    }
}

/// Number of CPUs that there may ever be, one more than the highest number.
pub fn possible_cpus() -> io::Result<usize> {
    // As in "0-3" or "0,2-5".
    let list = std::fs::read_to_string("/sys/devices/system/cpu/possible")?;
    let last = list.trim().rsplit([',', '-']).next().and_then(|number| number.parse::<usize>().ok());
    last.map(|last| last + 1).ok_or_else(|| io::Error::from(io::ErrorKind::InvalidData))
}
