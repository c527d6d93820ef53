//! Streams: asked for by the first viewer, given up some seconds after the last.
//!
//! A viewer gets the head of its answer with the first packet of the stream, and not before: so where nothing comes it
//! is told why, by a status. A stream that there is begins at once.

use std::collections::BTreeSet;
use std::time::Duration;

use super::Proxy;
use super::connections::State;
use super::world::{Effect, Ending, World};
use crate::http::answer;
use crate::http::refusal::{OF_STREAM, Refusal, SILENT, STREAMS};
use crate::http::target::Source;
use crate::settings::{Delivery, Settings};
use crate::tables::Next;

/// A stream that is asked for, or comes.
pub(super) struct Stream {
    pub(super) source: Source,
    pub(super) delivery: Delivery,
    /// Connections that have it, or wait for it.
    pub(super) viewers: BTreeSet<u32>,
    pub(super) since: Duration,
    /// Since when nobody does.
    pub(super) unused: Option<Duration>,
    /// Packets that the program had counted in its place before.
    pub(super) before: u64,
    /// Whether its first packet has come.
    pub(super) came: bool,
}

impl<W: World> Proxy<W> {
    /// The stream of a source: one that is there, or a new one, which is asked for.
    ///
    /// # Errors
    /// Why there may not be one more viewer, or stream.
    pub(super) fn stream_for(&mut self, source: &Source) -> Result<u32, Refusal> {
        let limits = self.settings.limits;
        if let Some(number) = self.by_source.get(source) {
            let full = self.streams.get(number).is_some_and(|own| own.viewers.len() >= limits.per_stream);
            return if full { Err(OF_STREAM) } else { Ok(*number) };
        }
        if self.streams.len() >= limits.streams {
            // One that nobody views makes room.
            let unused = self.streams.iter().filter(|(_, own)| own.viewers.is_empty());
            let oldest = unused.min_by_key(|(_, own)| own.unused).map(|(number, _)| *number).ok_or(STREAMS)?;
            self.close_stream(oldest);
        }
        let number = self.new_stream().ok_or(STREAMS)?;
        self.counts.streams += 1;
        let delivery = self.settings.delivery(source.name()).clone();
        let own = Stream {
            source: source.clone(),
            delivery: delivery.clone(),
            viewers: BTreeSet::new(),
            since: self.now,
            unused: Some(self.now),
            before: self.world.stream(number).packets,
            came: false,
        };
        self.streams.insert(number, own);
        self.by_source.insert(source.clone(), number);
        self.effect(Effect::OpenStream { stream: number, source: source.clone(), delivery });
        Ok(number)
    }

    /// A connection is to have a stream.
    pub(super) fn view(&mut self, connection: u32, number: u32) {
        let Some(stream) = self.streams.get_mut(&number) else { return };
        stream.viewers.insert(connection);
        stream.unused = None;
        let (came, shown) = (stream.came, stream.source.shown());
        if let Some(own) = self.connections.get_mut(&connection) {
            (own.state, own.stream) = (State::Waits(number), Some(shown));
        }
        self.touch(connection);
        if came {
            self.play(connection);
        }
    }

    /// A connection gets the head of its answer, and then the stream.
    fn play(&mut self, connection: u32) {
        let Some(own) = self.connections.get_mut(&connection) else { return };
        let State::Waits(number) = own.state else { return };
        own.state = State::Plays(number);
        own.outgoing.push(&answer::stream(false));
        own.outgoing.finish(Next::Stream);
        self.counts.viewers += 1;
        self.effect(Effect::Join(number, connection));
        self.flush(connection);
    }

    /// A connection has no stream any more.
    pub(super) fn leave(&mut self, number: u32, connection: u32) {
        self.touch(connection);
        self.effect(Effect::Leave(number, connection));
        let now = self.now;
        if let Some(stream) = self.streams.get_mut(&number) {
            stream.viewers.remove(&connection);
            if stream.viewers.is_empty() {
                stream.unused = Some(now);
            }
        }
    }

    /// Whether the first packet of a stream is awaited.
    pub fn is_awaiting(&self) -> bool {
        self.streams.values().any(|own| !own.came && !own.viewers.is_empty())
    }

    pub(super) fn streams_tick(&mut self) {
        let (now, timeouts) = (self.now, self.settings.timeouts);
        let numbers: Vec<u32> = self.streams.keys().copied().collect();
        for number in numbers {
            let Some(own) = self.streams.get_mut(&number) else { continue };
            if !own.came && self.world.stream(number).packets != own.before {
                own.came = true;
                let viewers: Vec<u32> = own.viewers.iter().copied().collect();
                viewers.into_iter().for_each(|connection| self.play(connection));
                continue;
            }
            if own.unused.is_some_and(|since| now.saturating_sub(since) >= timeouts.linger) {
                self.close_stream(number);
                continue;
            }
            if !own.came {
                let viewers: Vec<u32> = own.viewers.iter().copied().collect();
                for connection in viewers {
                    let waits = self.connections.get(&connection).filter(|own| matches!(own.state, State::Waits(_)));
                    let since = waits.map_or(now, |own| own.since);
                    if now.saturating_sub(since) >= timeouts.first {
                        self.leave(number, connection);
                        self.refuse(connection, SILENT);
                    }
                }
            }
        }
    }

    /// A stream's source can't be had, has ended it, or is lost for good: those who wait are told why, and those who
    /// have it are at its end.
    pub fn source_ended(&mut self, number: u32, refusal: Refusal) {
        let Some(own) = self.streams.get(&number) else { return };
        tracing::warn!(stream = %own.source.shown(), "{}", refusal.reason);
        self.counts.failed += 1;
        let viewers: Vec<u32> = own.viewers.iter().copied().collect();
        for connection in viewers {
            match self.connections.get(&connection).map(|own| &own.state) {
                Some(State::Waits(_)) => {
                    self.leave(number, connection);
                    self.refuse(connection, refusal);
                }
                _ => self.close(connection, Ending::Source),
            }
        }
        self.close_stream(number);
    }

    fn close_stream(&mut self, number: u32) {
        let Some(own) = self.streams.remove(&number) else { return };
        if self.by_source.get(&own.source) == Some(&number) {
            self.by_source.remove(&own.source);
        }
        self.free_streams.push_back(number);
        self.effect(Effect::CloseStream(number));
    }

    /// The settings are others: streams that would be others now are for nobody more.
    pub(super) fn forget_changed(&mut self, before: &Settings) {
        let (settings, streams) = (&self.settings, &self.streams);
        self.by_source.retain(|source, number| {
            let of = |settings: &Settings| source.name().and_then(|name| settings.sources.stream(name).cloned());
            let same = of(before) == of(settings) && settings.sources.pools == before.sources.pools;
            same && streams.get(number).is_some_and(|own| own.delivery == *settings.delivery(source.name()))
        });
    }
}
