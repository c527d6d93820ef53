//! Packets that enter a program again, by the channel behind a queue or a group.

use baker::ir::{ChannelId, CounterSlots, Program, Target};
use codegen::abi::{END_CHANNEL, END_HOST, END_TX, MAX_BATCH, Output};

use crate::packets::WorkerContext;

/// Packets with the channels by which they enter.
pub(crate) type Entering = [(u32, ChannelId); MAX_BATCH];

/// None of them yet.
pub(crate) const NOBODY: Entering = [(0, ChannelId(0)); MAX_BATCH];

/// What has no PPF behind its channel leaves the program; whether it does.
pub(super) fn leaves(
    (program, slots): (&Program, &CounterSlots),
    context: &mut WorkerContext,
    frame: u32,
    channel: ChannelId,
) -> bool {
    let end = match program.channels[channel.0 as usize].target {
        Target::Ppf(_) => return false,
        Target::Tx => END_TX,
        Target::Host => END_HOST,
        Target::Controller(_) | Target::Queue(..) | Target::Group(..) => END_CHANNEL + channel.0,
    };
    context.counters().add(slots.channel(channel), 1);
    context.output(Output { frame, end });
    true
}
