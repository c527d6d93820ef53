//! What a Millrace that has ended has left at an interface.

use crate::xdp::left_by;

/// Where a program, by the kernel's number, is that of a Millrace that has ended: what to do, in words that go on
/// "INTERFACE: …".
pub fn left_behind(program: u32) -> Option<String> {
    let owner = left_by(program)?;
    Some(format!(
        "has the program of a Millrace that has ended and whose state is in {}: start with that state, which takes \
         over, or remove {}, and with it the program",
        owner.state.display(),
        owner.dir.display()
    ))
}
