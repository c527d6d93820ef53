//! Programs cut in two, as the kernel's test run takes them.

use baker::ir::{Pin, PpfId, Program};
use baker::place::{Limits, Placement, Split, split};
use codegen::bpf;
use codegen::kernel::Hook;

/// A program cut in two by what the kernel can do at a hook, with these PPFs on workers; pins to the kernel do not
/// count.
pub fn place(program: &Program, workers: &[PpfId], hook: Hook) -> Split {
    let (placement, limits) = placed(program, workers, hook);
    split(program, &placement, &limits)
}

fn placed<'p>(program: &'p Program, workers: &[PpfId], hook: Hook) -> (Placement, Limits<'p>) {
    let mut pinned = program.clone();
    for (ppf, id) in pinned.ppfs.iter_mut().zip(0..) {
        let to_workers = workers.contains(&PpfId(id)) || ppf.pin == Some(Pin::Worker);
        ppf.pin = to_workers.then_some(Pin::Worker);
    }
    let limits = bpf::limits_at(program, hook);
    let placement = Placement::new(&pinned, &limits).expect("nothing is pinned to the kernel");
    (placement, limits)
}

/// A program cut in two at the driver, and in front of each PPF in turn that can run in the kernel: each cut once.
pub fn cuts(program: &Program) -> Vec<Split> {
    let (most, _) = placed(program, &[], Hook::Xdp);
    let mut cuts = vec![place(program, &[], Hook::Xdp)];
    for ppf in (0..program.ppfs.len() as u32).map(PpfId).filter(|ppf| most.is_kernel(*ppf)) {
        let cut = place(program, &[ppf], Hook::Xdp);
        if cuts.iter().all(|known| known.resume != cut.resume) {
            cuts.push(cut);
        }
    }
    cuts
}
