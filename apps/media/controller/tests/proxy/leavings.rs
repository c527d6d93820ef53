//! Sessions that come and go leave nothing.

use std::time::Duration;

use crate::model::{Model, URL};
use crate::origin::Options;

const SESSIONS: usize = 1000;

/// Half of them over UDP; they end in each way that there is: live streams, and films with a presentation each.
#[test]
fn a_thousand_sessions_leave_nothing() {
    for live in [true, false] {
        let mut model = Model::with(Options { live, tracks: 1, ..Options::default() }, |settings| {
            settings.limits.connections = 2 * SESSIONS;
            settings.limits.sessions = SESSIONS;
            settings.timeouts.silence = Duration::ZERO;
        });
        model.watches = false;
        let before = model.proxy.held();
        let mut most_tracks = None;
        for _ in 0..2 {
            let mut all = Vec::new();
            for number in 0..SESSIONS {
                let from = format!("10.1.{}.{}:50000", number / 250, 1 + number % 250);
                let client = model.client(&from);
                model.good(client, "DESCRIBE", URL, &[]);
                let session = if number % 2 == 0 {
                    model.set_up(client, URL, 1, 5000)
                } else {
                    let transport = [("Transport", "RTP/AVP/TCP;unicast")];
                    let answer = model.good(client, "SETUP", &format!("{URL}/trackID=0"), &transport);
                    answer.headers.get("session").unwrap().split(';').next().unwrap().to_owned()
                };
                if number % 16 != 0 {
                    model.good(client, "PLAY", URL, &[("Session", &session)]);
                }
                all.push((client, session));
            }
            let held = model.proxy.held();
            assert_eq!(
                (held["sessions"], held["names of sessions"], held["sources of viewers"]),
                (SESSIONS, SESSIONS, SESSIONS)
            );
            assert_eq!(held["presentations"], if live { 1 } else { SESSIONS });
            let ids: Vec<_> = model.proxy.session_states().iter().map(|own| own.id).collect();
            for (number, ((client, session), id)) in all.into_iter().zip(ids).enumerate() {
                match number / 2 % 4 {
                    0 => _ = model.good(client, "TEARDOWN", URL, &[("Session", &session)]),
                    1 => assert!(model.proxy.kill(id)),
                    // Over UDP it is ended by its timeout.
                    2 => {}
                    _ => model.proxy.client_closed(client),
                }
                model.run();
                model.proxy.client_closed(client);
                model.got.remove(&client);
            }
            model.run();
            model.wait(Duration::from_secs(62));
            assert_eq!(model.proxy.held(), before);
            model.is_empty();
            model.origins.clear();
            model.places.clear();
            model.closed_origins.clear();
            // Places of tracks are those of the round before.
            let places = model.proxy.world.progress.len();
            assert!(most_tracks.is_none_or(|most| places <= most + 64), "{most_tracks:?}, {places}");
            most_tracks = Some(places);
        }
    }
}
