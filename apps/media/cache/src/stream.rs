//! A recording in the writer's thread: which file is open, and what is under way in it.

use std::collections::VecDeque;
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::FileExt;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use crate::format::index::Chunk;
use crate::info::{End, Recording, Segment};
use crate::keeper::Event;
use crate::layout::{self, ABOUT, PINNED, SDP};
use crate::live::Live;
use crate::settings::Durability;
use crate::sys::Operation;
use crate::writer::{Work, Writer};

/// What is to be done, in this order.
#[derive(Debug)]
pub enum Task {
    /// Something is to be written.
    Work(Box<Work>),
    /// Nothing more comes.
    End,
}

/// A recording.
#[derive(Debug)]
pub struct Stream {
    /// What others see of it.
    pub live: Arc<Live>,
    recording: Arc<Recording>,
    /// What is to be done.
    pub tasks: VecDeque<Task>,
    /// Operations under way, and what went wrong with the first that did.
    under_way: usize,
    error: Option<io::Error>,
    step: Step,
    open: Option<Open>,
    /// Nothing more comes.
    ends: bool,
}

/// What is under way.
#[derive(Debug)]
enum Step {
    /// The recording has no directory yet.
    New,
    Idle,
    /// A block and its chunk, which is so long in the index, and how long the segment is if it ends with it.
    Write(Box<Chunk>, u64, Option<u64>),
    /// The mark at a segment's end.
    Close,
}

/// The segment that is written.
#[derive(Debug)]
struct Open {
    number: u32,
    data: Arc<File>,
    index: Arc<File>,
    /// Bytes of the index that are written.
    index_length: u64,
}

impl Stream {
    /// One that has nothing yet.
    pub fn new(live: Arc<Live>, recording: Arc<Recording>) -> Stream {
        Stream {
            live,
            recording,
            tasks: VecDeque::new(),
            under_way: 0,
            error: None,
            step: Step::New,
            open: None,
            ends: false,
        }
    }

    /// An operation has ended.
    pub fn completed(&mut self, result: io::Result<()>) {
        self.under_way -= 1;
        if let Err(error) = result {
            self.error.get_or_insert(error);
        }
    }

    /// Does what can be done; whether all of it is done for ever.
    pub fn go_on(&mut self, writer: &mut Writer) -> bool {
        while self.under_way == 0 {
            let step = std::mem::replace(&mut self.step, Step::Idle);
            let result = match (self.error.take(), step) {
                (Some(error), Step::Write(..)) => {
                    self.live.under_way.fetch_sub(1, Ordering::AcqRel);
                    Err(error)
                }
                (Some(error), _) => Err(error),
                (None, Step::New) => self.begin(writer),
                (None, Step::Write(chunk, length, end)) => self.written(*chunk, length, end, writer),
                (None, Step::Close) => {
                    self.closed(writer);
                    Ok(())
                }
                (None, Step::Idle) => match self.tasks.pop_front() {
                    Some(Task::Work(work)) => self.work(*work, writer),
                    Some(Task::End) => {
                        self.ends = true;
                        // A recording that was ended in the middle of a segment.
                        self.close(None, writer)
                    }
                    None if self.ends => {
                        self.end(writer);
                        return true;
                    }
                    None => return false,
                },
            };
            if let Err(error) = result {
                self.fail(&error, writer);
            }
        }
        false
    }

    fn begin(&mut self, writer: &mut Writer) -> io::Result<()> {
        let directory = writer.layout.recording(self.live.id);
        writer.system.make_directory(&directory)?;
        if self.live.is_pinned() {
            writer.system.write_whole(&directory.join(PINNED), &[])?;
        }
        let source = &self.recording.source;
        writer.system.write_whole(&directory.join(SDP), source.sdp.as_bytes())?;
        writer.system.write_whole(&directory.join(ABOUT), layout::about(&self.recording).as_bytes())?;
        if writer.settings.sync == Durability::Block {
            self.sync_directory(writer.layout.recordings(), writer)?;
        }
        Ok(())
    }

    fn submit(&mut self, operation: Operation, writer: &mut Writer) {
        self.under_way += 1;
        writer.submit(self.live.id, operation);
    }

    fn sync_directory(&mut self, path: std::path::PathBuf, writer: &mut Writer) -> io::Result<()> {
        let directory = Arc::new(File::open(path)?);
        self.submit(Operation::Sync { file: directory }, writer);
        Ok(())
    }

    fn work(&mut self, work: Work, writer: &mut Writer) -> io::Result<()> {
        let Some((block, offset, length)) = work.block else { return self.close(work.end, writer) };
        // After a failure there is nothing that it could follow.
        if self.live.ended().is_some_and(|end| matches!(end, End::DiskFull | End::DiskFailed)) {
            self.live.under_way.fetch_sub(1, Ordering::AcqRel);
            return Ok(());
        }
        let opened = self.opened(work.segment, writer).inspect_err(|_| {
            self.live.under_way.fetch_sub(1, Ordering::AcqRel);
        })?;
        let (data, index, at) = opened;
        let durable = writer.settings.sync == Durability::Block;
        let mut bytes = Vec::new();
        if at == 0 {
            bytes.extend(work.header.encode());
        }
        work.chunk.encode(&mut bytes);
        self.step = Step::Write(Box::new(work.chunk), bytes.len() as u64, work.end);
        self.submit(Operation::Block { file: data, offset, block, length, durable }, writer);
        self.submit(Operation::Bytes { file: index, offset: at, bytes, durable }, writer);
        if at == 0 && durable {
            let directory = writer.layout.recording(self.live.id);
            if let Err(error) = self.sync_directory(directory, writer) {
                self.error = Some(error);
            }
        }
        Ok(())
    }

    /// The files of a segment, and how long its index is.
    fn opened(&mut self, number: u32, writer: &mut Writer) -> io::Result<(Arc<File>, Arc<File>, u64)> {
        if self.open.as_ref().is_none_or(|open| open.number != number) {
            let id = self.live.id;
            let path = writer.layout.segment(id, number, self.recording.source.kind);
            let (data, direct) = writer.system.create(&path, writer.settings.direct)?;
            writer.counts.direct.store(direct, Ordering::Relaxed);
            let (index, _) = writer.system.create(&writer.layout.index(id, number), false)?;
            self.open = Some(Open { number, data: Arc::new(data), index: Arc::new(index), index_length: 0 });
            self.live.change(|written| written.open = Some((number, Vec::new())));
        }
        let open = self.open.as_ref().ok_or(io::ErrorKind::NotFound)?;
        Ok((open.data.clone(), open.index.clone(), open.index_length))
    }

    /// A block and its chunk are written.
    fn written(&mut self, chunk: Chunk, length: u64, end: Option<u64>, writer: &mut Writer) -> io::Result<()> {
        self.live.under_way.fetch_sub(1, Ordering::AcqRel);
        if let Some(open) = &mut self.open {
            open.index_length += length;
        }
        let chunk = Arc::new(chunk);
        self.live.change(|written| written.open.iter_mut().for_each(|(_, chunks)| chunks.push(chunk.clone())));
        match end {
            Some(_) => self.close(end, writer),
            None => Ok(()),
        }
    }

    /// Ends the segment, where one is open.
    fn close(&mut self, length: Option<u64>, writer: &mut Writer) -> io::Result<()> {
        let Some(open) = &mut self.open else { return Ok(()) };
        let length = length.unwrap_or_else(|| self.live.open_bytes());
        writer.system.truncate(&open.data, length)?;
        let mut bytes = Vec::new();
        Chunk::encode_end(length, &mut bytes);
        let offset = open.index_length;
        open.index_length += bytes.len() as u64;
        let (data, index) = (open.data.clone(), open.index.clone());
        let durable = writer.settings.sync != Durability::Never;
        self.step = Step::Close;
        self.submit(Operation::Bytes { file: index, offset, bytes, durable }, writer);
        if durable {
            self.submit(Operation::Sync { file: data }, writer);
        }
        Ok(())
    }

    /// What is known of the open segment.
    fn segment(&self, open: &Open) -> Segment {
        let written = self.live.written();
        let chunks = written.open.iter().flat_map(|(_, chunks)| chunks.iter().map(Arc::as_ref));
        let segment = Segment::of_chunks(self.live.id, open.number, chunks);
        Segment { index_bytes: open.index_length, ..segment }
    }

    fn closed(&mut self, writer: &Writer) {
        if let Some(open) = self.open.take() {
            writer.closed(&self.live, self.segment(&open));
        }
    }

    /// Something could not be written: what is written stays.
    fn fail(&mut self, error: &io::Error, writer: &mut Writer) {
        let end = End::of_error(error);
        if self.live.ended().is_none_or(|ended| ended == End::Finished) {
            tracing::warn!(recording = %self.recording.source.key, reason = end.name(), %error, "a recording ends");
        }
        self.live.stop(end);
        let Some(open) = self.open.take() else { return };
        let segment = self.segment(&open);
        if segment.packets == 0 {
            let id = self.live.id;
            // What can't be removed now is found when the cache is opened again.
            let _ = fs::remove_file(writer.layout.segment(id, open.number, self.recording.source.kind));
            let _ = fs::remove_file(writer.layout.index(id, open.number));
            self.live.change(|written| written.open = None);
            return;
        }
        // The disk may fail here, too; then the same is done when the cache is opened again.
        let mut end = Vec::new();
        Chunk::encode_end(segment.bytes, &mut end);
        let length = segment.index_bytes;
        let _ = open.data.set_len(segment.bytes);
        let _ = open.index.set_len(length).and_then(|()| open.index.write_all_at(&end, length));
        writer.closed(&self.live, segment);
    }

    /// All is written.
    fn end(&mut self, writer: &Writer) {
        let end = self.live.ended().unwrap_or(End::Finished);
        if matches!(end, End::DiskSlow | End::CacheFull | End::NoMemory) {
            tracing::warn!(recording = %self.recording.source.key, reason = end.name(), "a recording ends");
        }
        self.live.change(|written| written.end = Some(end));
        let _ = writer.events.send(Event::Ended(self.live.id, end));
    }
}
