//! What was counted, as `millrace metrics` shows it.

use control::application::metrics::{Family, Kind};

use crate::proxy::Proxy;
use crate::proxy::world::World;

/// All of it.
pub fn families<W: World>(proxy: &mut Proxy<W>) -> Vec<Family> {
    let (clients, sessions, streams) = proxy.sizes();
    let counts = proxy.counts;
    let plain = |kind, name: &str, about: &str, value: u64| {
        let mut family = Family::new(kind, name, about);
        family.add(&[], value);
        family
    };
    let mut all = vec![
        plain(Kind::Gauge, "media_connections", "connections of clients", clients as u64),
        plain(Kind::Gauge, "media_sessions", "sessions of clients", sessions as u64),
        plain(Kind::Gauge, "media_streams", "presentations that come from origins", streams as u64),
    ];
    let counters: [(&str, &str, u64); 13] = [
        ("media_requests_total", "requests of clients", counts.requests),
        ("media_refused_total", "requests that were answered with a status of 400 or more", counts.refused),
        ("media_sessions_total", "sessions that began", counts.sessions),
        ("media_vanished_total", "sessions whose clients were not heard of any more", counts.vanished),
        ("media_streams_total", "presentations that were asked for at origins", counts.upstreams),
        ("media_streams_failed_total", "presentations that ended by a fault of their origin", counts.failed),
        ("media_packets_at_sockets_total", "RTP packets that came before their flow was known", counts.at_sockets),
        ("media_packets_tapped_total", "RTP packets that the controller got to deliver", counts.tapped),
        ("media_packets_delivered_total", "deliveries of RTP packets by the controller", counts.delivered),
        ("media_packets_slow_total", "deliveries that their receivers had no room for", counts.slow),
        ("media_receivers_refused_total", "tracks that had as many receivers as they may", counts.group_full),
        ("media_returns_hasty_total", "streams whose next packets may have overtaken some", counts.hasty),
        ("media_flows_refused_total", "flow entries that the program's table had no room for", counts.no_flow),
    ];
    all.extend(counters.map(|(name, about, value)| plain(Kind::Counter, name, about, value)));
    all.extend(receivers(proxy));
    all
}

/// What receivers say, by session and track.
fn receivers<W: World>(proxy: &Proxy<W>) -> [Family; 3] {
    let mut loss = Family::new(Kind::Gauge, "media_receiver_loss_percent", "packets that a receiver has lost of late");
    let mut jitter = Family::new(Kind::Gauge, "media_receiver_jitter_us", "jitter at a receiver, in microseconds");
    let mut trip =
        Family::new(Kind::Gauge, "media_receiver_round_trip_us", "round trip to a receiver, in microseconds");
    for session in proxy.session_states() {
        let id = session.id.to_string();
        for (track, own) in session.tracks.iter().enumerate() {
            let track = format!("{track}:{}", own.kind);
            let labels = [("session", id.as_str()), ("client", session.client.as_str()), ("track", track.as_str())];
            own.loss_percent.into_iter().for_each(|value| loss.add(&labels, value.round() as u64));
            own.jitter_ms.into_iter().for_each(|value| jitter.add(&labels, (value * 1000.0) as u64));
            own.round_trip_ms.into_iter().for_each(|value| trip.add(&labels, (value * 1000.0) as u64));
        }
    }
    [loss, jitter, trip]
}
