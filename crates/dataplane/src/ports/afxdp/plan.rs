//! Which worker has which queues of an interface.

use crate::xdp::worker_of;

/// A socket to be made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Member {
    pub queue: u32,
    pub worker: usize,
    pub receives: bool,
    pub sends: bool,
}

/// Every queue for receiving has a socket, of one worker after the other, so that no packet is missed; and each worker
/// sends through one queue, which several share where there are fewer queues than workers. The first socket of each
/// queue is the one that may receive.
pub fn plan(receive: u32, send: u32, workers: usize) -> Vec<Member> {
    let receiver = |queue| Member { queue, worker: worker_of(queue, workers), receives: true, sends: false };
    let mut members: Vec<Member> = (0..receive).map(receiver).collect();
    for worker in 0..workers {
        let queue = worker as u32 % send;
        match members.iter_mut().find(|member| (member.queue, member.worker) == (queue, worker)) {
            Some(member) => member.sends = true,
            None => members.push(Member { queue, worker, receives: false, sends: true }),
        }
    }
    members
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Queue, worker, and `r`, `s` or both.
    fn text(receive: u32, send: u32, workers: usize) -> String {
        let one = |Member { queue, worker, receives, sends }: Member| {
            format!("{queue}:{worker}{}{}", if receives { "r" } else { "" }, if sends { "s" } else { "" })
        };
        plan(receive, send, workers).into_iter().map(one).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn workers_and_queues() {
        assert_eq!(text(1, 1, 1), "0:0rs");
        assert_eq!(text(2, 2, 2), "0:0rs 1:1rs");
        assert_eq!(text(4, 4, 2), "0:0rs 1:1rs 2:0r 3:1r");
        // Fewer queues than workers: the last workers only send.
        assert_eq!(text(1, 1, 3), "0:0rs 0:1s 0:2s");
        assert_eq!(text(1, 2, 3), "0:0rs 1:1s 0:2s");
        // Fewer queues for sending than for receiving.
        assert_eq!(text(2, 1, 2), "0:0rs 1:1r 0:1s");
    }

    #[test]
    fn no_queue_is_missed_and_every_worker_sends() {
        for (receive, send, workers) in (1..7).flat_map(|r| (1..7).flat_map(move |s| (1..7).map(move |w| (r, s, w)))) {
            let members = plan(receive, send, workers);
            for queue in 0..receive {
                let first = members.iter().find(|member| member.queue == queue).unwrap();
                assert!(first.receives);
                assert_eq!(members.iter().filter(|member| member.queue == queue && member.receives).count(), 1);
            }
            for worker in 0..workers {
                let sends: Vec<_> = members.iter().filter(|member| member.worker == worker && member.sends).collect();
                assert!(matches!(sends[..], [member] if member.queue < send), "{receive} {send} {workers}");
            }
        }
    }
}
