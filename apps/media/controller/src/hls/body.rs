//! What is sent: texts and parts of a segment, a piece at a time. When it is over a line is logged.

use std::collections::VecDeque;
use std::future::Future;
use std::io;
use std::ops::Range;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Instant;

use hyper::body::{Body, Bytes, Frame, SizeHint};
use media_cache::SegmentFile;
use tokio::task::{JoinHandle, spawn_blocking};

use super::ask::Asks;
use super::blocks::{BLOCK, Blocks};
use super::counts::{Counts, add};
use crate::log::http_line::HttpLine;

/// A part of a body.
#[derive(Debug)]
pub enum Part {
    /// Some bytes.
    Text(Bytes),
    /// Some of the segment.
    File(Range<u64>),
}

impl Part {
    /// Its bytes.
    pub fn length(&self) -> u64 {
        match self {
            Part::Text(bytes) => bytes.len() as u64,
            Part::File(range) => range.end - range.start,
        }
    }
}

/// Where segments are read.
#[derive(Clone, Debug)]
pub struct Source {
    pub(super) file: Arc<SegmentFile>,
    pub(super) blocks: Arc<Blocks>,
}

/// What is known of a request when its answer is over.
pub(super) struct Account {
    pub(super) line: HttpLine,
    pub(super) began: Instant,
    pub(super) asks: Asks,
    pub(super) counts: Arc<Counts>,
}

/// See the module.
pub struct Sent {
    parts: VecDeque<Part>,
    source: Option<Source>,
    reading: Option<JoinHandle<io::Result<Bytes>>>,
    account: Account,
}

impl std::fmt::Debug for Sent {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Sent").field("parts", &self.parts).finish_non_exhaustive()
    }
}

impl Sent {
    /// These parts; of a source, where any is a file's.
    pub(super) fn new(parts: impl IntoIterator<Item = Part>, source: Option<Source>, account: Account) -> Sent {
        Sent { parts: parts.into_iter().collect(), source, reading: None, account }
    }

    /// Bytes of a piece that has come.
    fn take(&mut self, block: &Bytes) -> Bytes {
        let Some(Part::File(range)) = self.parts.front_mut() else { return Bytes::new() };
        let begin = (range.start % BLOCK).min(block.len() as u64);
        let count = (block.len() as u64 - begin).min(range.end - range.start);
        range.start += count;
        if range.is_empty() || count == 0 {
            self.parts.pop_front();
        }
        block.slice(begin as usize..(begin + count) as usize)
    }

    fn send(&mut self, bytes: Bytes) -> Poll<Option<Result<Frame<Bytes>, io::Error>>> {
        self.account.line.bytes += bytes.len() as u64;
        add(&self.account.counts.bytes, bytes.len() as u64);
        Poll::Ready(Some(Ok(Frame::data(bytes))))
    }
}

impl Body for Sent {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, io::Error>>> {
        if self.reading.is_none() {
            let number = match self.parts.front() {
                None => return Poll::Ready(None),
                Some(Part::File(range)) => range.start / BLOCK,
                Some(Part::Text(_)) => {
                    let Some(Part::Text(bytes)) = self.parts.pop_front() else { return Poll::Ready(None) };
                    return self.send(bytes);
                }
            };
            let Some(Source { file, blocks }) = self.source.clone() else { return Poll::Ready(None) };
            if let Some(block) = blocks.find(&file, number, &self.account.counts) {
                let bytes = self.take(&block);
                return self.send(bytes);
            }
            let counts = self.account.counts.clone();
            self.reading = Some(spawn_blocking(move || blocks.read(&file, number, &counts)));
        }
        let Some(reading) = &mut self.reading else { return Poll::Ready(None) };
        let read = ready!(Pin::new(reading).poll(context));
        self.reading = None;
        match read.unwrap_or_else(|_| Err(io::ErrorKind::Other.into())) {
            Ok(block) => {
                let bytes = self.take(&block);
                self.send(bytes)
            }
            Err(error) => {
                // The connection ends, so the client knows that it has not all.
                let line = &self.account.line;
                tracing::warn!(url = %line.url, %error, "a segment can't be read");
                Poll::Ready(Some(Err(error)))
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        self.parts.is_empty()
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.parts.iter().map(Part::length).sum())
    }
}

impl Drop for Sent {
    fn drop(&mut self) {
        let Account { line, began, asks, counts } = &mut self.account;
        if line.status >= 400 {
            add(&counts.refused, 1);
        }
        line.duration_ms = began.elapsed().as_millis() as u64;
        asks.line(line.clone());
    }
}
