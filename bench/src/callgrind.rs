//! Instructions per packet, counted by callgrind: unlike times, they are the same in every run.
//!
//! A child of this program runs one system under valgrind: first some packets that bind symbols and touch tables for
//! the first time, then, behind [`counted_from_here`], those that are counted. Only what happens inside
//! `Rig::measured_batch` is. Valgrind knows no AVX-512: Millrace sees a processor without it.

use std::process::Command;

use crate::results::Results;
use crate::text;

/// Whether valgrind is there; where it is not, there is a note.
pub fn is_installed(results: &mut Results) -> bool {
    let installed = Command::new("valgrind").arg("--version").output().is_ok_and(|output| output.status.success());
    if !installed {
        results.note("instructions per packet: not measured, valgrind is not installed");
    }
    installed
}

/// Adds the row of a case and a system, counted by a child of this program whose arguments are its name and these two.
pub fn count(child: &str, case: &str, system: &str, results: &mut Results) -> Result<(), String> {
    let me = std::env::current_exe().map_err(text)?;
    let file = std::env::temp_dir().join(format!("millrace-callgrind-{}", std::process::id()));
    let output = Command::new("valgrind")
        .args(["--tool=callgrind", "--toggle-collect=*measured_batch*", "--zero-before=*counted_from_here*"])
        .arg(format!("--callgrind-out-file={}", file.display()))
        .arg(me)
        .args([child, case, system])
        .output()
        .map_err(|error| format!("valgrind: {error}"))?;
    let failed = || format!("valgrind, {case}, {system}:\n{}", String::from_utf8_lossy(&output.stderr));
    if !output.status.success() {
        return Err(failed());
    }
    let profile = std::fs::read_to_string(&file).map_err(text)?;
    std::fs::remove_file(&file).map_err(text)?;
    // "totals: 4567": what was collected since it was zeroed.
    let total = profile.lines().rev().find_map(|line| line.strip_prefix("totals: ")?.trim().parse::<f64>().ok());
    let packets = String::from_utf8_lossy(&output.stdout).trim().parse::<f64>().ok();
    let (total, packets) = total.zip(packets).ok_or_else(failed)?;
    results.add(case, system, "instructions_per_packet", "instructions", vec![total / packets]);
    Ok(())
}

/// Of the child: what was counted before is forgotten.
#[inline(never)]
pub fn counted_from_here() {
    // Not to be removed: a call is what callgrind sees.
    std::hint::black_box(());
}

/// Of the child: how many packets were counted.
pub fn counted(packets: u64) {
    println!("{packets}");
}
