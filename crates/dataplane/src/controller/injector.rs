//! Packets that a controller injects.

use std::sync::Arc;

use baker::ir::{ChannelId, Program};

use super::metadata::{Field, write_metadata};
use super::punted::Punted;
use super::rings::{Carried, Rings};

/// An input of the program that the controller injects packets into.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Input(pub(crate) ChannelId);

/// Why a packet was not injected.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InjectError {
    /// As many as may be are on their way to the workers. [`Event::Room`](super::Event::Room) says when there is room
    /// again.
    #[error("too many packets are on their way")]
    Busy,
    /// The link has ended: there is never room again.
    #[error("the link has ended")]
    Gone,
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
    /// A punted packet is another program's, or another instance's, whose metadata lies elsewhere.
    #[error("the packet is another program's")]
    Foreign,
}

/// A punted packet that was not injected: it is the caller's again, as it was.
#[derive(Debug, thiserror::Error)]
#[error("{error}")]
pub struct Refused {
    /// Why.
    pub error: InjectError,
    /// The packet.
    pub packet: Punted,
}

/// Injects packets, also from other threads of a controller. Clones are the same, and end with their link.
#[derive(Clone, Debug)]
pub struct Injector {
    pub(super) rings: Arc<Rings>,
}

impl Injector {
    /// Injects a packet: it begins with a header of the input's protocol; one that is too short is dropped as
    /// `truncated`. Metadata that is not given is 0. The link's own worker runs it, where each has a link of its own;
    /// otherwise the first.
    pub fn inject(&self, input: Input, bytes: &[u8], metadata: &[(Field, u128)]) -> Result<(), InjectError> {
        self.inject_on(self.rings.pinning().worker.unwrap_or(0), input, bytes, metadata)
    }

    /// As [`Injector::inject`], on another worker, such as [`Punted::worker`]: packets that one thread injects there
    /// stay in order.
    pub fn inject_on(
        &self,
        worker: usize,
        input: Input,
        bytes: &[u8],
        metadata: &[(Field, u128)],
    ) -> Result<(), InjectError> {
        self.check_worker(worker)?;
        let carried = self.fill(input, bytes, metadata)?;
        self.rings.inject(worker, carried);
        Ok(())
    }

    /// Injects packets in order, up to the first that is refused; a sleeping worker is woken for many at once. How many
    /// were injected, and why the next was not.
    pub fn inject_many<'p>(
        &self,
        worker: usize,
        input: Input,
        packets: impl IntoIterator<Item = (&'p [u8], &'p [(Field, u128)])>,
    ) -> (usize, Result<(), InjectError>) {
        if let Err(error) = self.check_worker(worker) {
            return (0, Err(error));
        }
        let mut count = 0;
        let mut result = Ok(());
        for (bytes, metadata) in packets {
            match self.fill(input, bytes, metadata) {
                Ok(carried) => self.rings.inject_more(worker, carried),
                Err(error) => {
                    result = Err(error);
                    break;
                }
            }
            count += 1;
        }
        self.rings.injected(worker);
        (count, result)
    }

    /// Injects a packet that the program has punted, as it lies in its frame; its bytes may have been changed there
    /// ([`Punted::bytes_mut`]). Its metadata is what it was, but for what is given. It counts as injected then, and no
    /// longer as held.
    ///
    /// Nothing is copied, unless headers that were pushed in front of it have used up the room that the program needs
    /// there: then it is moved within its frame.
    ///
    /// # Errors
    /// The packet comes back with the reason.
    pub fn inject_punted(
        &self,
        worker: usize,
        input: Input,
        packet: Punted,
        metadata: &[(Field, u128)],
    ) -> Result<(), Refused> {
        match self.make_ready(worker, &packet, metadata) {
            Ok(()) => {
                let frame = packet.into_frame();
                self.rings.inject(worker, Carried { frame, channel: input.0 });
                Ok(())
            }
            Err(error) => Err(Refused { error, packet }),
        }
    }

    /// Makes a punted packet one to be injected, or changes nothing.
    fn make_ready(&self, worker: usize, packet: &Punted, metadata: &[(Field, u128)]) -> Result<(), InjectError> {
        let (rings, program) = (&self.rings, self.rings.program());
        let pool = rings.pool();
        if !Arc::ptr_eq(program, packet.rings().program()) || !Arc::ptr_eq(pool, packet.rings().pool()) {
            return Err(InjectError::Foreign);
        }
        self.check_worker(worker)?;
        self.check_metadata(metadata)?;
        let (frame, len) = (packet.frame(), packet.bytes().len());
        // SAFETY: the frame is the packet's, which the caller has.
        let must_move = unsafe { pool.offset(frame) } < program.limits.headroom as usize;
        if must_move && len > pool.max_packet() {
            return Err(InjectError::TooLong { len, most: pool.max_packet() });
        }
        if !rings.hand_on(packet.rings(), packet.worker()) {
            return Err(self.no_frame());
        }
        // SAFETY: as above. Both places lie in the frame, by the length that was checked, and may overlap; no other
        // reference to its bytes is there. The fields lie within the metadata.
        unsafe {
            if must_move {
                let from = pool.packet(frame).as_ptr();
                let to = pool.place(frame, pool.headroom() as usize, len).as_mut_ptr();
                std::ptr::copy(from, to, len);
            }
            for (field, number) in metadata {
                write_metadata(program, pool, frame, *field, *number);
            }
        }
        Ok(())
    }

    /// Puts a packet into a frame of its own.
    fn fill(&self, Input(channel): Input, bytes: &[u8], metadata: &[(Field, u128)]) -> Result<Carried, InjectError> {
        let (program, pool) = (self.rings.program(), self.rings.pool());
        let most = pool.max_packet();
        if bytes.len() > most {
            return Err(InjectError::TooLong { len: bytes.len(), most });
        }
        self.check_metadata(metadata)?;
        let frame = self.rings.frame().ok_or_else(|| self.no_frame())?;
        let rx_port = program.metadata[Program::RX_PORT.0 as usize].offset as usize;
        // SAFETY: the frame was just taken, so it is ours; the length was checked against the room behind the headroom;
        // the fields lie within the metadata.
        unsafe {
            pool.reset_metadata(frame, rx_port, 0);
            pool.place(frame, pool.headroom() as usize, bytes.len()).copy_from_slice(bytes);
            for (field, number) in metadata {
                write_metadata(program, pool, frame, *field, *number);
            }
        }
        Ok(Carried { frame, channel })
    }

    fn no_frame(&self) -> InjectError {
        if self.rings.is_gone() { InjectError::Gone } else { InjectError::Busy }
    }

    fn check_worker(&self, worker: usize) -> Result<(), InjectError> {
        let workers = self.rings.workers();
        if worker < workers { Ok(()) } else { Err(InjectError::Worker(workers)) }
    }

    fn check_metadata(&self, metadata: &[(Field, u128)]) -> Result<(), InjectError> {
        let width = |field: Field| self.rings.program().metadata[field.0.0 as usize].width;
        let fits = |(field, number): &(Field, u128)| width(*field) >= 128 || number >> width(*field) == 0;
        if metadata.iter().all(fits) { Ok(()) } else { Err(InjectError::OutOfRange) }
    }
}
