//! What waits to be written on a connection. It is bounded: packets of a stream that find no room are left out whole,
//! and a peer that does not even take its messages is given up.

use std::future::poll_fn;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

use super::thinning::{Fate, Thinning};
use crate::proxy::world::Piece;

/// Bytes of messages beyond what streams may use.
const MESSAGES: usize = 256 << 10;

/// See the module.
#[derive(Debug, Default)]
pub struct Outbox(Mutex<Queue>);

#[derive(Debug, Default)]
struct Queue {
    bytes: Vec<u8>,
    thinning: Thinning,
    /// Nothing more comes: what is there is written, then the connection ends.
    closing: bool,
    /// The peer is given up.
    broken: bool,
    /// The writer, where it waits for something to do.
    writer: Option<Waker>,
}

impl Queue {
    fn wake(&mut self) {
        self.writer.take().into_iter().for_each(Waker::wake);
    }
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
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a message.
    pub fn message(&self, bytes: &[u8], backlog: usize) {
        let mut queue = self.lock();
        if queue.bytes.len() + bytes.len() > backlog + MESSAGES {
            queue.broken = true;
        } else if !queue.closing {
            queue.bytes.extend_from_slice(bytes);
        }
        queue.wake();
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
            queue.bytes.extend_from_slice(bytes);
            // The first wakes the writer; it takes all.
            queue.wake();
        }
        fate
    }

    /// Nothing more is added.
    pub fn close(&self) {
        let mut queue = self.lock();
        queue.closing = true;
        queue.wake();
    }

    /// What is to be done next. One writer at a time may wait for it.
    pub async fn next(&self) -> Next {
        poll_fn(|context| self.poll_next(context)).await
    }

    fn poll_next(&self, context: &mut Context<'_>) -> Poll<Next> {
        let mut queue = self.lock();
        if queue.broken {
            return Poll::Ready(Next::Close);
        }
        if !queue.bytes.is_empty() {
            return Poll::Ready(Next::Bytes(std::mem::take(&mut queue.bytes)));
        }
        if queue.closing {
            return Poll::Ready(Next::Close);
        }
        queue.writer = Some(context.waker().clone());
        Poll::Pending
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
