//! What waits to be written on a connection. It is bounded: packets of a stream that find no room are left out whole,
//! and a peer that does not even take its messages is given up.

use std::sync::{Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;

use super::thinning::{Fate, Thinning};
use crate::proxy::world::Piece;

/// Bytes of messages beyond what streams may use.
const MESSAGES: usize = 256 << 10;

/// See the module.
#[derive(Debug, Default)]
pub struct Outbox {
    queue: Mutex<Queue>,
    changed: Notify,
}

#[derive(Debug, Default)]
struct Queue {
    bytes: Vec<u8>,
    thinning: Thinning,
    /// Nothing more comes: what is there is written, then the connection ends.
    closing: bool,
    /// The peer is given up.
    broken: bool,
}

/// What a writer is to do.
#[derive(Debug, PartialEq, Eq)]
pub enum Next {
    /// Write these.
    Bytes(Vec<u8>),
    /// End the connection.
    Close,
}

impl Outbox {
    fn lock(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a message.
    pub fn message(&self, bytes: &[u8], backlog: usize) {
        let mut queue = self.lock();
        if queue.bytes.len() + bytes.len() > backlog + MESSAGES {
            queue.broken = true;
        } else if !queue.closing {
            queue.bytes.extend_from_slice(bytes);
        }
        self.changed.notify_one();
    }

    /// Adds a packet of a stream, unless too much waits; whether it did.
    pub fn media(&self, bytes: &[u8], piece: Option<Piece>, backlog: usize) -> Fate {
        let mut queue = self.lock();
        if queue.closing {
            return Fate::Lost;
        }
        let waiting = queue.bytes.len();
        let fate = queue.thinning.fate(piece, bytes.len(), waiting, backlog);
        if fate == Fate::Sent {
            // The writer is woken by the first; it takes all.
            if queue.bytes.is_empty() {
                self.changed.notify_one();
            }
            queue.bytes.extend_from_slice(bytes);
        }
        fate
    }

    /// Nothing more is added.
    pub fn close(&self) {
        self.lock().closing = true;
        self.changed.notify_one();
    }

    /// What is to be done next.
    pub async fn next(&self) -> Next {
        loop {
            {
                let mut queue = self.lock();
                if queue.broken {
                    return Next::Close;
                }
                if !queue.bytes.is_empty() {
                    return Next::Bytes(std::mem::take(&mut queue.bytes));
                }
                if queue.closing {
                    return Next::Close;
                }
            }
            self.changed.notified().await;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packets_are_left_out_whole_and_messages_are_not() {
        let outbox = Outbox::default();
        let fates = [(1, 60), (2, 60), (3, 40)].map(|(byte, count)| outbox.media(&vec![byte; count], None, 100));
        assert_eq!(fates, [Fate::Sent, Fate::Lost, Fate::Sent]);
        outbox.message(&[4; 10], 100);
        outbox.close();
        assert_eq!(outbox.media(&[5], None, 100), Fate::Lost);
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let bytes = [&[1; 60][..], &[3; 40], &[4; 10]].concat();
        assert_eq!(runtime.block_on(outbox.next()), Next::Bytes(bytes));
        assert_eq!(runtime.block_on(outbox.next()), Next::Close);
    }
}
