//! Sessions for collectors of IPFIX: a flow for each way by which a session's client got packets, once it is over.

use std::time::{Duration, SystemTime};

use collectors::ipfix::{End, Flow};

use crate::proxy::accounts::{Carried, Ended};
use crate::proxy::session::Ending;

/// Numbers of TCP and UDP.
const TCP: u8 = 6;
const UDP: u8 = 17;

/// Of a session that has ended now.
pub fn of(ended: &Ended, carried: &Carried, now: SystemTime) -> Flow {
    let began = now.checked_sub(Duration::from_millis(ended.duration_ms)).unwrap_or(SystemTime::UNIX_EPOCH);
    Flow {
        client: carried.client,
        server: carried.local,
        chosen: None,
        protocol: if carried.over_udp { UDP } else { TCP },
        time: [began, now],
        octets: [0, carried.bytes],
        packets: [0, carried.packets],
        end: match ended.why {
            Ending::Teardown | Ending::StreamEnded => End::Done,
            Ending::Vanished => End::Idle,
            Ending::Closed | Ending::OriginLost | Ending::Refused | Ending::Killed | Ending::Stopped => End::Forced,
        },
        status: None,
        application: ended.stream.clone().unwrap_or_else(|| ended.url.clone()),
    }
}
