//! Where packets go that are sampled for collectors: each is taken through the program once more, by the interpreter,
//! as those that are traced.

use std::sync::{Arc, Mutex, PoisonError};

use baker::ir::interp::{End, Walk, WalkStep};
use collectors::sflow::{Follow, Way, Ways};

use super::shown::{Shown, Walker};

/// By the program that runs.
#[derive(Debug)]
pub(super) struct ProgramWays(pub Arc<Mutex<Arc<Shown>>>);

impl Ways for ProgramWays {
    fn follow(&self) -> Follow {
        let running = self.0.clone();
        let mut walker: Option<(Arc<Shown>, Walker)> = None;
        Box::new(move |port, packet| {
            let shown = running.lock().unwrap_or_else(PoisonError::into_inner).clone();
            // A program may have taken over from the one before.
            let known = walker.take().filter(|(of, _)| Arc::ptr_eq(of, &shown));
            let (_, walker) = walker.insert(known.unwrap_or_else(|| (shown.clone(), shown.walker())));
            way(&shown.walk_of(walker, port, packet))
        })
    }
}

/// Where a packet goes, and what is made of it.
fn way(walk: &Walk) -> Way {
    let (mut ports, mut own, mut dropped) = (Vec::new(), false, false);
    let mut unknown = walk.failed.is_some() || walk.is_cut;
    for step in &walk.steps {
        match step {
            WalkStep::Left { end: End::Tx, port, .. } => ports.push(*port),
            WalkStep::Left { end: End::Host, .. } => own = true,
            // What becomes of it is not the program's to say.
            WalkStep::Left { end: End::Controller(_), .. } | WalkStep::Held { .. } => unknown = true,
            WalkStep::Dropped { .. } => dropped = true,
            _ => {}
        }
    }
    match (unknown, own, dropped) {
        _ if !ports.is_empty() => Way::Ports(ports),
        (true, ..) => Way::Unknown,
        (_, true, _) => Way::Own,
        (.., true) => Way::Dropped,
        _ => Way::Unknown,
    }
}

#[cfg(test)]
mod tests {
    use baker::ir::{ChannelId, DropId, TableId};

    use super::*;

    fn left(end: End, port: u8) -> WalkStep {
        WalkStep::Left { packet: 0, end, port }
    }

    fn of(steps: &[WalkStep]) -> Way {
        way(&Walk { steps: steps.to_vec(), ..Walk::default() })
    }

    #[test]
    fn ends_of_packets_say_where_they_go() {
        let dropped = WalkStep::Dropped { packet: 0, reason: DropId::NO_PORT };
        let controller = left(End::Controller(ChannelId(3)), 0);
        let held = WalkStep::Held { packet: 0, table: TableId(0) };
        assert_eq!(of(&[left(End::Tx, 2)]), Way::Ports(vec![2]));
        // A copy for each of two ports; the packet itself is dropped.
        assert_eq!(of(&[left(End::Tx, 2), left(End::Tx, 3), dropped.clone()]), Way::Ports(vec![2, 3]));
        assert_eq!(of(&[controller.clone(), left(End::Tx, 2)]), Way::Ports(vec![2]));
        assert_eq!(of(&[left(End::Host, 0)]), Way::Own);
        assert_eq!(of(std::slice::from_ref(&dropped)), Way::Dropped);
        assert_eq!(of(&[controller, dropped]), Way::Unknown);
        assert_eq!(of(&[held]), Way::Unknown);
        assert_eq!(of(&[]), Way::Unknown);
        assert_eq!(way(&Walk { is_cut: true, steps: vec![left(End::Host, 0)], failed: None }), Way::Unknown);
    }
}
