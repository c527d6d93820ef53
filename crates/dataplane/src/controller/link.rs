//! What a running controller has: the packets for it, a way to inject its own, and the tables.

use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use baker::ir::{ChannelId, ControllerId, MetaId, Program, Source};

use super::error::NameError;
use super::metadata::{Field, write_metadata};
use super::punted::Punted;
use super::rings::{Carried, Rings};
use super::tables::NamedTables;

/// What [`Link::receive`] found.
#[derive(Debug)]
pub enum Event {
    /// A packet.
    Packet(Punted),
    /// None came in that time.
    Idle,
    /// There are no more packets, and the instance ends: return.
    Stop,
}

/// An input of the program that the controller injects packets into.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Input(pub(crate) ChannelId);

/// Why a packet was not injected.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InjectError {
    /// As many as may be are on their way to the workers. Later there is room again.
    #[error("too many packets are on their way")]
    Busy,
    /// It is longer than a frame can hold.
    #[error("the packet has {len} bytes, and a frame holds {most}")]
    TooLong {
        /// Its bytes.
        len: usize,
        /// The most that fit.
        most: usize,
    },
    /// A number has more bits than the field of the metadata.
    #[error("a number has more bits than its field of the metadata")]
    OutOfRange,
    /// There is no such worker.
    #[error("there are {0} workers")]
    Worker(usize),
}

/// A controller's side of the data path.
#[derive(Debug)]
pub struct Link {
    injector: Injector,
    controller: ControllerId,
    tables: NamedTables,
    /// The worker whose packets come next.
    next: usize,
}

/// Injects packets, also from other threads of a controller.
#[derive(Clone, Debug)]
pub struct Injector {
    program: Arc<Program>,
    rings: Arc<Rings>,
}

impl Link {
    /// The controller's thread calls it.
    pub(super) fn new(program: Arc<Program>, controller: ControllerId, rings: Arc<Rings>, tables: NamedTables) -> Self {
        rings.set_reader(thread::current());
        Link { injector: Injector { program, rings }, controller, tables, next: 0 }
    }

    /// The next packet; waits for one that long. The packets of one worker come in order.
    pub fn receive(&mut self, timeout: Duration) -> Event {
        let deadline = Instant::now().checked_add(timeout);
        loop {
            // Asked first: what was pushed before the order to stop is found after it.
            let stopping = self.is_stopping();
            if let Some(packet) = self.try_receive() {
                return Event::Packet(packet);
            }
            // Whoever waits for what was injected waits no longer than for the packets that were there.
            self.injector.rings.ring();
            if stopping {
                return Event::Stop;
            }
            match deadline.map(|deadline| deadline.saturating_duration_since(Instant::now())) {
                Some(Duration::ZERO) => return Event::Idle,
                // A push since then has left a token.
                Some(left) => thread::park_timeout(left),
                None => thread::park(),
            }
        }
    }

    /// Has workers woken for what is injected only when [`Link::receive`] finds no packet, or many are injected: for a
    /// controller that injects on its own thread alone, between packets that it receives. Where they share a CPU, worker and controller
    /// then take turns by batches.
    pub fn wake_late(&self) {
        self.injector.rings.ring_late();
    }

    /// The next packet, if there is one.
    pub fn try_receive(&mut self) -> Option<Punted> {
        let rings = &self.injector.rings;
        for _ in 0..rings.workers() {
            let worker = self.next;
            self.next = (self.next + 1) % rings.workers();
            if let Some(carried) = rings.take_punted(worker) {
                return Some(Punted::new(self.injector.program.clone(), rings.clone(), worker, carried));
            }
        }
        None
    }

    /// Whether the instance ends. A controller that does not only wait for packets looks at it at least once a second.
    pub fn is_stopping(&self) -> bool {
        self.injector.rings.is_stopping()
    }

    /// The input `module.input`, which the program wires from this controller.
    pub fn input(&self, name: &str) -> Result<Input, NameError> {
        let program = &self.injector.program;
        let mine = |channel: &&baker::ir::Channel| channel.from == Some(Source::Controller(self.controller));
        let input = |channel: &baker::ir::Channel| channel.name.split(" -> ").nth(1).map(str::to_owned);
        let index = program.channels.iter().position(|c| mine(&c) && input(c).as_deref() == Some(name));
        index.map(|index| Input(ChannelId(index as u32))).ok_or_else(|| NameError::Unknown {
            what: "input wired from this controller",
            name: name.to_owned(),
            known: program.channels.iter().filter(mine).filter_map(input).collect(),
        })
    }

    /// A field of the metadata, such as `tx.port`.
    pub fn field(&self, name: &str) -> Result<Field, NameError> {
        let fields = &self.injector.program.metadata;
        let index = fields.iter().position(|field| field.name == name);
        index.map(|index| Field(MetaId(index as u32))).ok_or_else(|| NameError::Unknown {
            what: "metadata",
            name: name.to_owned(),
            known: fields.iter().map(|field| field.name.clone()).collect(),
        })
    }

    /// As [`Injector::inject`].
    pub fn inject(&self, input: Input, bytes: &[u8], metadata: &[(Field, u128)]) -> Result<(), InjectError> {
        self.injector.inject(input, bytes, metadata)
    }

    /// For other threads of the controller.
    pub fn injector(&self) -> Injector {
        self.injector.clone()
    }

    /// The program's tables.
    pub fn tables(&self) -> &NamedTables {
        &self.tables
    }

    /// The program.
    pub fn program(&self) -> &Arc<Program> {
        &self.injector.program
    }
}

impl Injector {
    /// Injects a packet: the first worker runs it next. It begins with a header of the input's protocol; one that is too
    /// short is dropped as `truncated`. Metadata that is not given is 0.
    pub fn inject(&self, input: Input, bytes: &[u8], metadata: &[(Field, u128)]) -> Result<(), InjectError> {
        self.inject_on(0, input, bytes, metadata)
    }

    /// As [`Injector::inject`], on another worker, such as [`Punted::worker`]: packets that are injected there stay in order.
    pub fn inject_on(
        &self,
        worker: usize,
        Input(channel): Input,
        bytes: &[u8],
        metadata: &[(Field, u128)],
    ) -> Result<(), InjectError> {
        let (pool, most) = (self.rings.pool(), self.rings.pool().max_packet());
        if bytes.len() > most {
            return Err(InjectError::TooLong { len: bytes.len(), most });
        }
        if worker >= self.rings.workers() {
            return Err(InjectError::Worker(self.rings.workers()));
        }
        let width = |field: Field| self.program.metadata[field.0.0 as usize].width;
        if metadata.iter().any(|(field, number)| width(*field) < 128 && number >> width(*field) != 0) {
            return Err(InjectError::OutOfRange);
        }
        let frame = self.rings.frame().ok_or(InjectError::Busy)?;
        let rx_port = self.program.metadata[Program::RX_PORT.0 as usize].offset as usize;
        // SAFETY: the frame was just taken, so it is ours; the length was checked against the room behind the headroom; the
        // fields lie within the metadata.
        unsafe {
            pool.reset_metadata(frame, rx_port, 0);
            pool.place(frame, pool.headroom() as usize, bytes.len()).copy_from_slice(bytes);
            for (field, number) in metadata {
                write_metadata(&self.program, pool, frame, *field, *number);
            }
        }
        self.rings.inject(worker, Carried { frame, channel });
        Ok(())
    }
}
