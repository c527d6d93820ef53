//! The thread that writes: of each recording one block at a time, of all recordings at once.

use std::collections::{HashMap, VecDeque};
use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::Sender;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use nix::sys::eventfd::EventFd;

use crate::blocks::{Block, Pool};
use crate::format::index::{Chunk, Header};
use crate::info::{End, Recording, Segment};
use crate::keeper::Event;
use crate::layout::Layout;
use crate::live::Live;
use crate::settings::Settings;
use crate::stream::{Stream, Task};
use crate::sys::{Completion, Operation, System};

/// How long the thread sleeps at most.
const IDLE: Duration = Duration::from_secs(60);

/// What is to be written of a segment: a block with its chunk, or that the segment is whole.
#[derive(Debug)]
pub struct Work {
    /// The number of the segment.
    pub segment: u32,
    /// What its index begins with.
    pub header: Header,
    /// The block, where it goes in the segment, and how much of it.
    pub block: Option<(Block, u64, usize)>,
    /// What the index says of it.
    pub chunk: Chunk,
    /// How long the segment is, where this is its end.
    pub end: Option<u64>,
}

impl Work {
    /// The segment is whole.
    pub fn close(segment: u32, length: u64) -> Work {
        let header = Header { recording: 0, segment, is_ts: true, expected: None };
        Work { segment, header, block: None, chunk: Chunk::default(), end: Some(length) }
    }
}

/// What the thread is told.
#[derive(Debug)]
enum Message {
    Begin(Arc<Live>, Arc<Recording>),
    Work(Arc<Live>, Box<Work>),
    End(Arc<Live>),
    Stop,
}

/// How the thread is told.
#[derive(Clone, Debug)]
pub struct Queue {
    /// Where blocks come from.
    pub pool: Pool,
    messages: Arc<Messages>,
}

#[derive(Debug)]
struct Messages {
    all: Mutex<VecDeque<Message>>,
    wake: EventFd,
    counts: Arc<Counts>,
}

/// What the thread has done, and how.
#[derive(Debug, Default)]
pub struct Counts {
    /// Writes of blocks and chunks.
    pub writes: AtomicU64,
    /// Bytes of blocks and chunks.
    pub bytes: AtomicU64,
    /// How often the thread was woken by a recorder.
    pub wake_ups: AtomicU64,
    /// Whether the last segment is written past the page cache.
    pub direct: AtomicBool,
}

impl Messages {
    fn locked(&self) -> MutexGuard<'_, VecDeque<Message>> {
        self.all.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn put(&self, message: Message) {
        let mut all = self.locked();
        all.push_back(message);
        // Who finds others there need not wake the thread again.
        if all.len() == 1 {
            drop(all);
            self.counts.wake_ups.fetch_add(1, Ordering::Relaxed);
            // It fails only where the count is at its end, and the thread awake.
            let _ = self.wake.write(1);
        }
    }
}

impl Queue {
    /// A queue for blocks of this pool.
    pub fn new(pool: Pool, counts: Arc<Counts>) -> io::Result<Queue> {
        let wake = EventFd::from_flags(nix::sys::eventfd::EfdFlags::EFD_CLOEXEC)?;
        Ok(Queue { pool, messages: Arc::new(Messages { all: Mutex::default(), wake, counts }) })
    }

    /// A recording begins.
    pub fn begin(&self, live: &Arc<Live>, recording: &Arc<Recording>) {
        self.messages.put(Message::Begin(live.clone(), recording.clone()));
    }

    /// Something is to be written.
    pub fn put(&self, live: &Arc<Live>, work: Work) {
        if work.block.is_some() {
            live.under_way.fetch_add(1, Ordering::AcqRel);
        }
        self.messages.put(Message::Work(live.clone(), Box::new(work)));
    }

    /// A recording ends.
    pub fn end(&self, live: &Arc<Live>) {
        self.messages.put(Message::End(live.clone()));
    }

    /// The thread ends when all recordings have.
    pub fn stop(&self) {
        self.messages.put(Message::Stop);
    }
}

/// The thread's state.
pub struct Writer {
    pub(crate) system: Box<dyn System>,
    pub(crate) settings: Arc<Settings>,
    pub(crate) layout: Layout,
    pub(crate) events: Sender<Event>,
    pub(crate) counts: Arc<Counts>,
    queue: Queue,
    streams: HashMap<u64, Stream>,
    /// Operations under way: whose they are.
    tokens: HashMap<u64, u64>,
    next: u64,
}

impl Writer {
    /// A writer to a directory.
    pub fn new(
        system: Box<dyn System>,
        settings: Arc<Settings>,
        layout: Layout,
        events: Sender<Event>,
        queue: Queue,
    ) -> Writer {
        let counts = queue.messages.counts.clone();
        let (streams, tokens) = (HashMap::new(), HashMap::new());
        Writer { system, settings, layout, events, counts, queue, streams, tokens, next: 0 }
    }

    /// Writes until it is told to stop.
    pub fn run(mut self) {
        let (mut done, mut stops) = (Vec::new(), false);
        while !stops || !self.streams.is_empty() {
            if let Err(error) = self.system.wait(&self.queue.messages.wake, IDLE, &mut done) {
                tracing::error!(%error, "the cache can't be written");
                self.streams.values().for_each(|stream| stream.live.stop(End::DiskFailed));
                std::thread::sleep(Duration::from_millis(100));
            }
            let messages = std::mem::take(&mut *self.queue.messages.locked());
            let mut ready: Vec<u64> = Vec::new();
            for message in messages {
                match message {
                    Message::Begin(live, recording) => {
                        ready.push(live.id);
                        self.streams.insert(live.id, Stream::new(live, recording));
                    }
                    Message::Work(live, work) => ready.extend(self.task(&live, Task::Work(work))),
                    Message::End(live) => ready.extend(self.task(&live, Task::End)),
                    Message::Stop => stops = true,
                }
            }
            for Completion { token, result } in done.drain(..) {
                let Some(id) = self.tokens.remove(&token) else { continue };
                if let Some(stream) = self.streams.get_mut(&id) {
                    stream.completed(result);
                    ready.push(id);
                }
            }
            for id in ready {
                self.go_on(id);
            }
        }
    }

    fn task(&mut self, live: &Live, task: Task) -> Option<u64> {
        self.streams.get_mut(&live.id)?.tasks.push_back(task);
        Some(live.id)
    }

    /// Does what can be done for a recording.
    fn go_on(&mut self, id: u64) {
        // Out of the map meanwhile, because it needs the rest of the writer.
        let Some(mut stream) = self.streams.remove(&id) else { return };
        if !stream.go_on(self) {
            self.streams.insert(id, stream);
        }
    }

    /// Begins an operation of a recording.
    pub(crate) fn submit(&mut self, id: u64, operation: Operation) {
        let written = match &operation {
            Operation::Block { length, .. } => *length,
            Operation::Bytes { bytes, .. } => bytes.len(),
            Operation::Sync { .. } => 0,
        };
        if written > 0 {
            self.counts.writes.fetch_add(1, Ordering::Relaxed);
            self.counts.bytes.fetch_add(written as u64, Ordering::Relaxed);
        }
        self.next += 1;
        self.tokens.insert(self.next, id);
        self.system.submit(self.next, operation);
    }

    /// A segment is whole.
    pub(crate) fn closed(&self, live: &Live, segment: Segment) {
        live.change(|written| {
            written.open = None;
            written.segments.push(segment.clone());
        });
        // Nobody listens only when the cache is closed.
        let _ = self.events.send(Event::Closed(segment));
    }
}
