//! What was counted, as `millrace metrics` shows it.

use control::application::metrics::{Family, Kind};
use media_cache::End;

use crate::proxy::Proxy;
use crate::proxy::http::Numbers;
use crate::proxy::members::SourceState;
use crate::proxy::origins::OriginState;
use crate::proxy::world::World;

/// All of it; what receivers say of each session, of which there may be very many, only where it is `detailed`.
pub fn families<W: World>(proxy: &mut Proxy<W>, detailed: bool) -> Vec<Family> {
    let (clients, sessions, streams) = proxy.sizes();
    let counts = proxy.counts;
    let plain = |kind, name: &str, about: &str, value: u64| single(kind, name, about, Some(value));
    let mut all = vec![
        plain(Kind::Gauge, "media_connections", "connections of clients", clients as u64),
        plain(Kind::Gauge, "media_sessions", "sessions of clients", sessions as u64),
        plain(Kind::Gauge, "media_streams", "presentations that come from origins", streams as u64),
    ];
    let counters: [(&str, &str, u64); 39] = [
        ("media_requests_total", "requests of clients", counts.requests),
        ("media_refused_total", "requests that were answered with a status of 400 or more", counts.refused),
        ("media_loops_total", "requests that had been here, or come through too many proxies", counts.loops),
        ("media_sessions_begun_total", "sessions that began", counts.sessions),
        ("media_vanished_total", "sessions whose clients were not heard of any more", counts.vanished),
        ("media_streams_asked_total", "presentations that were asked for at origins", counts.upstreams),
        ("media_published_total", "presentations that clients have published", counts.published),
        ("media_tunnels_total", "tunnels over HTTP that clients have begun", counts.tunnels),
        ("media_wrong_credentials_total", "passwords and tokens of clients that were wrong", counts.wrong),
        ("media_locked_total", "requests of clients that had been wrong too often", counts.locked),
        ("media_streams_failed_total", "presentations that lost their origin by its fault", counts.failed),
        ("media_streams_replaced_total", "presentations that went on from another origin", counts.replaced),
        ("media_packets_at_sockets_total", "RTP packets that came before their flow was known", counts.at_sockets),
        ("media_packets_tapped_total", "RTP packets that the controller got to deliver", counts.tapped),
        ("media_sources_silent_total", "sources without RTSP of which nothing came any more", counts.silences),
        ("media_senders_changed_total", "senders that took the place of others", counts.senders),
        ("media_datagrams_foreign_total", "datagrams of others than a stream's sender", counts.strangers),
        ("media_datagrams_malformed_total", "datagrams of sources that are not what they send", counts.malformed),
        ("media_packets_relayed_total", "packets that came on connections, or without RTP", counts.relayed),
        ("media_packets_delivered_total", "deliveries of RTP packets by the controller", counts.delivered),
        ("media_packets_slow_total", "deliveries that their receivers had no room for", counts.slow),
        ("media_packets_thinned_total", "deliveries left out before, of pictures nothing refers to", counts.thinned),
        ("media_late_joins_total", "tracks that began at the last access point", counts.late),
        ("media_late_lost_total", "times that kept packets were dropped before a viewer had them", counts.late_lost),
        ("media_receivers_refused_total", "tracks that had as many receivers as they may", counts.group_full),
        ("media_returns_hasty_total", "streams whose next packets may have overtaken some", counts.hasty),
        ("media_ways_sought_total", "viewers whose way was not known when they were to play", counts.sought),
        ("media_flows_refused_total", "flow entries that the program's table had no room for", counts.no_flow),
        ("media_sessions_taken_up_total", "sessions of a process before that went on", counts.taken_up),
        ("media_sessions_not_taken_up_total", "sessions of a process before that could not", counts.not_taken_up),
        ("media_state_failed_total", "attempts to keep sessions on disk that failed", counts.unwritten),
        ("media_film_hits_total", "films that began from the cache", counts.film_hits),
        ("media_film_partial_total", "of these, films that went on at their origins", counts.film_partial),
        (
            "media_film_repeated_total",
            "packets that origins sent again where copies ended, and viewers had",
            counts.film_repeated,
        ),
        ("media_film_misses_total", "films of which the cache had nothing", counts.film_misses),
        ("media_film_revalidated_total", "films that were as their origins have them", counts.film_revalidated),
        ("media_film_bytes_total", "bytes of films' packets that came from the cache", counts.film_bytes),
        ("media_log_lines_total", "lines of the access log that were written", counts.log_written),
        ("media_log_lines_lost_total", "lines of the access log that were lost", counts.log_lost),
    ];
    all.extend(counters.map(|(name, about, value)| plain(Kind::Counter, name, about, value)));
    all.extend(recordings(&proxy.world));
    all.extend(http(counts.http.as_ref()));
    if detailed {
        all.extend(receivers(proxy));
    }
    all.extend(origins(&proxy.origin_states()));
    all.extend(members(&proxy.source_states()));
    all
}

/// A family of one sample, or of none.
fn single(kind: Kind, name: &str, about: &str, value: Option<u64>) -> Family {
    let mut family = Family::new(kind, name, about);
    value.into_iter().for_each(|value| family.add(&[], value));
    family
}

/// What was recorded, where there is a cache.
fn recordings<W: World>(world: &W) -> Vec<Family> {
    let (counts, status) = world.recordings().unzip();
    let (counts, status) = (counts.as_ref(), status.as_ref());
    let about = "recordings that ended before their streams, by reason";
    let mut broken = Family::new(Kind::Counter, "media_recordings_broken_total", about);
    let by_reason = counts.into_iter().flat_map(|own| End::BROKEN.iter().zip(own.broken));
    by_reason.for_each(|(end, count)| broken.add(&[("reason", end.name())], count));
    let now = status.map(|own| own.recordings as u64);
    let counters: [(&str, &str, Option<u64>); 7] = [
        ("media_recordings_begun_total", "recordings of tracks that began", counts.map(|own| own.begun)),
        ("media_recorded_packets_total", "packets that were recorded", counts.map(|own| own.packets)),
        ("media_recorded_lost_total", "packets of recorded tracks that never came", counts.map(|own| own.lost)),
        (
            "media_recorded_dropped_total",
            "packets that came twice, late, or are not of their stream",
            counts.map(|own| own.dropped),
        ),
        ("media_cache_writes_total", "writes to the disk", status.map(|own| own.writes)),
        ("media_cache_wakeups_total", "times that the writer was woken", status.map(|own| own.wake_ups)),
        ("media_cache_removed_total", "segments that were removed to make room", status.map(|own| own.removed)),
    ];
    let gauges: [(&str, &str, Option<u64>); 5] = [
        ("media_recordings", "tracks that are recorded now", now),
        ("media_cache_bytes", "bytes that recordings take on the disk", status.map(|own| own.used)),
        ("media_cache_limit_bytes", "bytes that they may take: the quota", status.map(|own| own.limit)),
        ("media_cache_memory_bytes", "bytes of memory that the disk has not yet", status.map(|own| own.memory)),
        ("media_cache_memory_limit_bytes", "bytes of memory for that", status.map(|own| own.memory_limit)),
    ];
    let mut all: Vec<Family> = gauges.map(|(name, about, value)| single(Kind::Gauge, name, about, value)).into();
    all.push(broken);
    all.extend(counters.map(|(name, about, value)| single(Kind::Counter, name, about, value)));
    all
}

/// What was served by HTTP, where it is.
fn http(counts: Option<&Numbers>) -> Vec<Family> {
    type Value = fn(&Numbers) -> u64;
    let now = counts.map(|own| own.connections);
    let counters: [(&str, &str, Value); 8] = [
        ("media_http_accepted_total", "connections by HTTP that were accepted", |own| own.accepted),
        ("media_http_beyond_total", "connections by HTTP that were closed at once, beyond limits", |own| own.beyond),
        ("media_http_slow_total", "connections by HTTP whose clients took nothing for too long", |own| own.slow),
        ("media_http_requests_total", "requests by HTTP", |own| own.requests),
        ("media_http_refused_total", "those answered with a status of 400 or more", |own| own.refused),
        ("media_http_bytes_total", "bytes of segments and playlists that were sent", |own| own.bytes),
        ("media_http_reads_total", "blocks of segments that were read for viewers by HTTP", |own| own.reads),
        ("media_http_shared_total", "blocks of segments that another viewer had read", |own| own.shared),
    ];
    let mut all = vec![single(Kind::Gauge, "media_http_connections", "connections of viewers by HTTP", now)];
    all.extend(counters.map(|(name, about, value)| single(Kind::Counter, name, about, counts.map(value))));
    all
}

/// What is known of origins; what checks find is known of those of pools alone.
fn origins(states: &[OriginState]) -> Vec<Family> {
    type Value = fn(&OriginState) -> Option<u64>;
    let families: [(Kind, &str, &str, Value); 8] = [
        (Kind::Gauge, "media_origin_up", "1 where checks find an origin working", |own| {
            own.server.as_ref()?.up.map(u64::from)
        }),
        (Kind::Gauge, "media_origin_state_ms", "time since that changed", |own| {
            own.server.as_ref().map(|own| own.since_ms)
        }),
        (Kind::Gauge, "media_origin_streams", "presentations that come from an origin", |own| Some(own.streams as u64)),
        (Kind::Gauge, "media_origin_sessions", "sessions of clients that watch them", |own| Some(own.sessions as u64)),
        (Kind::Counter, "media_origin_asked_total", "presentations that an origin was asked for", |own| {
            Some(own.asked)
        }),
        (Kind::Counter, "media_origin_failed_total", "presentations that ended by a fault of an origin", |own| {
            Some(own.failed)
        }),
        (Kind::Counter, "media_origin_checks_total", "health checks of an origin", |own| {
            own.server.as_ref().map(|own| own.checks)
        }),
        (Kind::Counter, "media_origin_checks_failed_total", "health checks of an origin that failed", |own| {
            own.server.as_ref().map(|own| own.checks_failed)
        }),
    ];
    let family = |(kind, name, about, value): (Kind, &str, &str, Value)| {
        let mut family = Family::new(kind, name, about);
        for state in states {
            let (pool, server) = state.server.as_ref().map_or(("", ""), |own| (&own.pool, &own.name));
            let labels = [("origin", state.origin.as_str()), ("pool", pool), ("server", server)];
            value(state).into_iter().for_each(|value| family.add(&labels, value));
        }
        family
    };
    families.into_iter().map(family).collect()
}

/// How members of pools are known that are found.
fn members(states: &[SourceState]) -> Vec<Family> {
    type Value = fn(&SourceState) -> Option<u64>;
    let families: [(Kind, &str, &str, Value); 5] = [
        (Kind::Gauge, "media_members", "members of a pool that are found", |own| Some(own.members as u64)),
        (Kind::Gauge, "media_members_watched", "1 where changes of members are seen at once", |own| {
            Some(own.connected.is_some().into())
        }),
        (Kind::Gauge, "media_members_registered", "1 where this proxy is registered", |own| {
            own.registered.map(u64::from)
        }),
        (Kind::Counter, "media_members_changes_total", "changes of members", |own| Some(own.changes)),
        (Kind::Counter, "media_members_lost_total", "times that the watch of members was lost", |own| Some(own.lost)),
    ];
    let family = |(kind, name, about, value): (Kind, &str, &str, Value)| {
        let mut family = Family::new(kind, name, about);
        for own in states {
            value(own).into_iter().for_each(|value| family.add(&[("pool", own.pool.as_str())], value));
        }
        family
    };
    let mut all: Vec<Family> = families.into_iter().map(family).collect();
    let about = "what was found and is no member, by what is wrong with it";
    let mut left_out = Family::new(Kind::Counter, "media_members_left_out_total", about);
    for own in states {
        for (why, count) in &own.left_out_total {
            left_out.add(&[("pool", own.pool.as_str()), ("reason", why)], *count);
        }
    }
    all.push(left_out);
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
