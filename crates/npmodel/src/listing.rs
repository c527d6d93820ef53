//! A sequence of micro-operations as text.

use baker::ir::Program;

use crate::sequence::Micro;

/// A line for each micro-operation, and one for each body that they come to, which stands farther left.
pub fn listing(program: &Program, sequence: &[Micro]) -> Vec<String> {
    let mut lines = Vec::with_capacity(sequence.len());
    let mut code = None;
    for micro in sequence {
        if code != Some(micro.code) {
            lines.push(micro.code.of(program).0.to_owned());
            code = Some(micro.code);
        }
        lines.push(format!("  {}", micro.op));
    }
    lines
}
