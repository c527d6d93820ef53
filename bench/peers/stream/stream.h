/* Fan-out of a stream by sockets, and the source of the stream. */
#ifndef STREAM_H
#define STREAM_H

#include <stdbool.h>
#include <stdint.h>

/* Of UDP, at the source and at all receivers. */
#define STREAM_PORT 5004

/* What was sent while it was measured. */
struct stream_sent {
	uint64_t bursts;
	uint64_t seconds_e9;
	/* Copies that did not come. */
	uint64_t lost;
};

/* Packets that come to this thread's network namespace go to all receivers, until *stop. With `gso`, those of a
 * receiver that came together are one message (UDP_SEGMENT). Returns 0, or the number of an error. */
int stream_fan_out(const uint32_t *receivers, uint32_t count, bool gso, const uint32_t *stop);

/* Sends a frame in bursts to an interface of this thread's network namespace for so many nanoseconds, each when all
 * `copies` of all packets of the one before have come by the sinks' count; waits by giving the CPU away. Where
 * `numbered` is not 0, the packets are RTP, whose sequence number lies there. Where `apart` is not 0, each packet of a
 * burst is of a stream of its own, to ports that lie so far apart, and all have the same number. One call at a time.
 * Returns 0, or the number of an error. */
int stream_source(uint32_t interface, const uint8_t *frame, uint32_t bytes, uint32_t numbered, uint32_t apart,
		  uint32_t burst, uint32_t copies, int counts, uint64_t nanoseconds, struct stream_sent *sent);

/* This thread, and those that it starts, don't take the CPU from another one when they wake up (SCHED_BATCH). */
int stream_yield_to_others(void);

#endif
