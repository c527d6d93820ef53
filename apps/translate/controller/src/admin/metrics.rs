//! What was counted, as `millrace metrics` shows it.

use control::application::metrics::{Family, Kind};

use crate::proxy::Proxy;
use crate::proxy::world::World;

/// All of it.
pub fn families<W: World>(proxy: &mut Proxy<W>) -> Vec<Family> {
    let (connections, reading, streams) = proxy.sizes();
    let counts = proxy.counts;
    let plain = |kind, name: &str, about: &str, value: u64| {
        let mut family = Family::new(kind, name, about);
        family.add(&[], value);
        family
    };
    let mut all = vec![
        plain(Kind::Gauge, "translate_connections", "connections that are answered", connections as u64),
        plain(Kind::Gauge, "translate_reading", "connections whose request is not whole yet", reading as u64),
        plain(Kind::Gauge, "translate_streams", "streams that are asked for, or come", streams as u64),
    ];
    let counters: [(&str, &str, u64); 16] = [
        ("translate_requests_total", "requests of clients", counts.requests),
        ("translate_refused_total", "requests that were answered with a status of 400 or more", counts.refused),
        ("translate_reset_total", "connections that were reset without an answer", counts.reset),
        ("translate_viewers_total", "connections that were given a stream", counts.viewers),
        ("translate_relayed_total", "requests for the HTTP server of the host", counts.relayed),
        ("translate_tunnels_total", "connections that are TLS or WebSocket with a server of the host", counts.tunnels),
        ("translate_streams_asked_total", "streams that were asked for at their sources", counts.streams),
        ("translate_streams_failed_total", "streams that ended by a fault of their source", counts.failed),
        ("translate_wrong_credentials_total", "passwords and tokens of clients that were wrong", counts.wrong),
        ("translate_locked_total", "requests of clients that had been wrong too often", counts.locked),
        ("translate_taken_up_total", "connections of a process before that go on", counts.taken_up),
        ("translate_not_taken_up_total", "connections of a process before that were reset", counts.not_taken_up),
        ("translate_packets_relayed_total", "packets of streams that came on connections", counts.relayed_packets),
        ("translate_packets_malformed_total", "such packets without an MPEG transport stream", counts.malformed),
        ("translate_log_lines_total", "lines of the access log that were written", counts.log_written),
        ("translate_log_lines_lost_total", "lines of the access log that were lost", counts.log_lost),
    ];
    all.extend(counters.map(|(name, about, value)| plain(Kind::Counter, name, about, value)));
    let mut viewers = Family::new(Kind::Gauge, "translate_stream_viewers", "connections that have a stream");
    let mut packets = Family::new(Kind::Counter, "translate_stream_packets_total", "packets that came of a stream");
    let mut lost = Family::new(Kind::Counter, "translate_stream_lost_total", "packets of a stream that did not come");
    for own in proxy.stream_states() {
        let labels = [("stream", own.stream.as_str())];
        viewers.add(&labels, own.viewers as u64);
        packets.add(&labels, own.packets);
        lost.add(&labels, u64::from(own.lost));
    }
    all.extend([viewers, packets, lost]);
    all
}
