//! What passes, verifier and code generators ask of a body: its control flow, and where values come from.
//!
//! | file | idea |
//! |---|---|
//! | `cfg` | order of the blocks, predecessors, loops |
//! | `dominators` | which blocks every path to a block passes |
//! | `uses` | the values that blocks use and pass on |
//! | `definitions` | what makes a value |
//! | `liveness` | which values are still needed at a place |
//!
//! Each is built for a body as it is, and says nothing of the body after a change.

mod cfg;
mod definitions;
mod dominators;
mod liveness;
mod uses;

pub use cfg::Cfg;
pub use definitions::{Definition, Definitions, Passed};
pub use dominators::Dominators;
pub use liveness::Liveness;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ir::*;

    /// ```text
    /// b0: v0; jump b1(v0)      b1(v1): br v1, b2(), b3()      b2: v2; jump b1(v2)      b3: return      b4: jump b3()
    /// ```
    fn looped() -> Body {
        let mut body = Body::default();
        let blocks: Vec<BlockId> = (0..5).map(|_| body.block()).collect();
        let dest = |to: usize, args: Vec<Value>| Dest { block: blocks[to], args };
        let v0 = body.push(blocks[0], Ty::Int(1), Op::Const(1), None);
        let v1 = body.value(Ty::Int(1));
        let v2 = body.push(blocks[2], Ty::Int(1), Op::Const(0), None);
        body.blocks[1].params.push(v1);
        body.blocks[0].term = Terminator::Jump(dest(1, vec![v0]));
        body.blocks[1].term = Terminator::Branch(v1, dest(2, vec![]), dest(3, vec![]));
        body.blocks[2].term = Terminator::Jump(dest(1, vec![v2]));
        body.blocks[4].term = Terminator::Jump(dest(3, vec![]));
        body
    }

    #[test]
    fn of_a_loop_and_a_block_that_is_not_reached() {
        let body = looped();
        let [b0, b1, b2, b3, b4] = [0, 1, 2, 3, 4].map(BlockId);
        let [v0, v1, v2] = [0, 1, 2].map(Value);
        let cfg = Cfg::new(&body);
        assert!(cfg.is_reachable(b3) && !cfg.is_reachable(b4));
        assert_eq!((cfg.predecessors(b1), cfg.predecessors(b3)), (&[b0, b2][..], &[b1][..]), "b4 does not count");
        assert_eq!(cfg.back_edges().collect::<Vec<_>>(), [(b2, b1)]);
        assert_eq!(cfg.loops(), [[b1, b2].into()]);
        let dominators = Dominators::new(&cfg);
        assert!(dominators.dominates(b1, b2) && dominators.dominates(b1, b3) && !dominators.dominates(b2, b3));
        let definitions = Definitions::new(&body);
        assert_eq!(definitions.of(v1), Some(Definition::Param(b1, 0)));
        assert_eq!((definitions.constant(v2), definitions.constant(v1)), (Some(0), None));
        assert_eq!(Passed::new(&body).to(v1), [v0, v2]);
        let live = Liveness::new(&body, &cfg);
        assert_eq!((live.at(b1, 0), live.at_start(b1).len()), ([v1].into(), 0), "a parameter is the block's own");
    }
}
