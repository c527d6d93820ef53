//! Many viewers of one stream, who come and go at random: each gets every packet of its time, once and in order. What
//! they get is held against what the server sent, and nothing else.

use std::collections::HashMap;
use std::net::IpAddr;
use std::time::{Duration, Instant};

use serde_json::Value as Json;

use crate::network::{Media, PATIENCE, must};
use crate::origin::Options;
use crate::server::Server;
use crate::viewer::{Packet, Viewer};
use crate::{ORIGINS, PROXIES};

/// A viewer with what has come.
struct Own {
    viewer: Viewer,
    /// Every packet up to this one was sent before it played; none where none was.
    from: Option<u16>,
    /// Numbers at the server of what has come.
    numbers: Vec<u16>,
    /// What its numbers have more than those there.
    offsets: Option<(u16, u32)>,
}

/// What was sent, by payload: number and timestamp.
#[derive(Default)]
struct Sent {
    by_payload: HashMap<Vec<u8>, (u16, u32)>,
}

impl Sent {
    fn update(&mut self, server: &Server) -> u16 {
        let mut log = server.log.lock().unwrap();
        if let Some(sent) = log.sent.get_mut(&0) {
            self.by_payload.extend(sent.drain().map(|(number, (time, payload))| (payload, (number, time))));
        }
        log.last[&0]
    }
}

impl Own {
    fn take(&mut self, packets: Vec<Packet>, sent: &Sent) {
        for (sequence, timestamp, payload) in packets {
            let (number, time) = sent.by_payload.get(&payload).expect("a payload that was sent, byte by byte");
            let offsets = (sequence.wrapping_sub(*number), timestamp.wrapping_sub(*time));
            assert_eq!(*self.offsets.get_or_insert(offsets), offsets, "its numbers go on as they began");
            if let Some(last) = self.numbers.last() {
                let ahead = number.wrapping_sub(*last);
                assert!((1..0x8000).contains(&ahead), "{number} behind {last}: twice, or overtaken");
            }
            self.numbers.push(*number);
        }
    }

    /// Packets of its time that have not come.
    fn lost(&self) -> usize {
        let between: usize = self.numbers.windows(2).map(|two| usize::from(two[1].wrapping_sub(two[0])) - 1).sum();
        // Some that were sent before may have been under way when it joined.
        let ahead = self.from.map_or(1, |from| self.numbers[0].wrapping_sub(from) as i16);
        between + usize::try_from(ahead - 1).unwrap_or(0)
    }
}

/// Viewers come until there are so many, then some come and go, so many times.
pub fn comes_and_goes(most: usize, pause: Duration, turns: usize) {
    let media = Media::start("xdp", &[("per_client = 64", "per_client = 4096")]);
    let server =
        Server::paced(&media.servers, &ORIGINS, &Options { live: true, tracks: 1, ..Options::default() }, pause);
    let path = format!("{}/live", ORIGINS[0]);
    let lost_before = lost_on_the_way(&media);
    let (mut sent, mut here, mut gone) = (Sent::default(), Vec::<Own>::new(), Vec::<Own>::new());
    let (mut state, start) = (most as u64, Instant::now());
    let mut random = |below: usize| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) as usize % below
    };
    let join = |number: usize| {
        let (proxy, own) = PROXIES[number % 2];
        let mut viewer = Viewer::connect(&media.viewers, proxy, &path);
        let own: IpAddr = own.parse().unwrap();
        viewer.set_up(&media.viewers, own, 0);
        viewer.play();
        let from = server.log.lock().unwrap().last.get(&0).copied();
        Own { viewer, from: from.filter(|_| number != 0), numbers: Vec::new(), offsets: None }
    };
    let receive = |here: &mut [Own], sent: &mut Sent| {
        for own in here {
            let packets = own.viewer.come(0);
            sent.update(&server);
            own.take(packets, sent);
        }
    };
    // A viewer that leaves has waited for all that was sent by then.
    let leave = |mut own: Own, sent: &mut Sent| {
        let last = sent.update(&server);
        let begun = Instant::now();
        while own.numbers.last().is_none_or(|number| (1..0x8000).contains(&last.wrapping_sub(*number))) {
            assert!(begun.elapsed() < PATIENCE, "{last} has not come: {:?}", own.numbers.last());
            std::thread::sleep(Duration::from_millis(2));
            let packets = own.viewer.come(0);
            sent.update(&server);
            own.take(packets, sent);
        }
        own.viewer.good("TEARDOWN", &own.viewer.url.clone(), &[]);
        own
    };
    let (mut count, mut left) = (0, turns);
    while left > 0 {
        // The first one stays. More come than go until all are there, and then as many.
        let full = left < turns;
        if here.len() == most || here.len() > 1 && random(if full { 2 } else { 5 }) == 0 {
            let own = here.swap_remove(1 + random(here.len() - 1));
            gone.push(leave(own, &mut sent));
        } else {
            here.push(join(count));
            count += 1;
        }
        if here.len() == most || full {
            left -= 1;
        }
        if (count + left) % 8 == 0 {
            receive(&mut here, &mut sent);
        }
        std::thread::sleep(pause / 4);
    }
    let all = here.len();
    // From several to one and back, a few times.
    for _ in 0..3 {
        while here.len() > 1 {
            let own = here.pop().unwrap();
            gone.push(leave(own, &mut sent));
            receive(&mut here, &mut sent);
        }
        let direct = media.channel("forward4.output");
        media.wait("the only viewer's packets do not stay in the kernel", |media| {
            media.channel("forward4.output") > direct
        });
        for _ in 0..2 {
            here.push(join(count));
            count += 1;
        }
    }
    while let Some(own) = here.pop() {
        gone.push(leave(own, &mut sent));
    }
    media.wait("something is left", |media| media.json(&["media", "streams"]).as_array().unwrap().is_empty());
    let lost: usize = gone.iter().map(Own::lost).sum();
    let packets: usize = gone.iter().map(|own| own.numbers.len()).sum();
    let counted = lost_on_the_way(&media) - lost_before;
    println!(
        "{} viewers, {all} of {most} after {turns} turns, {packets} packets in {:.1} s, {lost} lost, {counted} losses counted",
        gone.len(),
        start.elapsed().as_secs_f64()
    );
    // A packet that does not come to the proxy is missing at each viewer.
    assert!(lost <= counted * most, "{lost} packets are missing, and {counted} are counted");
    assert_eq!(media.metric("media_returns_hasty_total"), 0);
    assert_eq!(media.metric("media_packets_tapped_total"), 0, "the controller has seen none");
    assert_eq!(server.count("PLAY"), 1);
    assert_eq!(media.json(&["table", "dump", "streams.receivers"]).to_string().matches("member").count(), 0);
    media.stop();
}

/// What was lost by queues that were full, as the kernel and Millrace count it.
fn lost_on_the_way(media: &Media) -> usize {
    let mut all = 0;
    for host in [&media.viewers, &media.servers, &media.proxy] {
        let links: Json = serde_json::from_str(&must(host.check(&["ip", "-s", "-j", "link"])).text()).unwrap();
        for (link, way) in links.as_array().unwrap().iter().flat_map(|link| [(link, "rx"), (link, "tx")]) {
            all += link["stats64"][way]["dropped"].as_u64().unwrap();
        }
    }
    let ports = media.json(&["ports"]);
    all += ports.as_object().unwrap().values().filter_map(|port| port["rx_dropped"].as_u64()).sum::<u64>();
    let counters = media.json(&["counters"]);
    let drops = counters["drops"].as_object().unwrap();
    let expected = ["nobody_plays", "no_member", "has_left", "ended"];
    all += drops
        .iter()
        .filter(|(name, _)| !expected.contains(&name.as_str()))
        .filter_map(|(_, n)| n.as_u64())
        .sum::<u64>();
    all as usize
}
