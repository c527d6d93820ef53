//! Streams that come to groups, and from sources without RTSP, go on in the next process.

use std::time::Duration;

use media::proxy::world::Interface;
use media::tables::Progress;
use wire::rtp as packets;

use crate::model::{CLIENT, Model, OTHER};
use crate::source::{A, B, DOOR, HALL, comes, grouped, hall, model, plays, receiver, rtp};

const SOON: Duration = Duration::from_secs(2);

/// Sessions that went on, and that did not.
fn counts(model: &Model) -> (u64, u64) {
    (model.proxy.counts.taken_up, model.proxy.counts.not_taken_up)
}

/// A packet has just come to the program.
fn heard(model: &mut Model, track: u32, highest: u32) {
    let heard = model.now.as_nanos() as u64;
    let progress = Progress { packets: 10, seen: 1, highest, timestamp: 900, ssrc: 7, heard, ..Progress::default() };
    model.proxy.world.progress.insert(track, progress);
}

#[test]
fn a_source_without_rtsp_goes_on() {
    let mut model = model("rtp://239.1.2.3:5004", None);
    let session = plays(&mut model, CLIENT, 5000);
    comes(&mut model, A, &rtp(9, 900, 7));
    let (track, rewrite, _) = receiver(&model);
    heard(&mut model, track, 9);
    let (flows, members) = (model.flows.clone(), model.proxy.world.members.clone());
    model.die(SOON, |_, world| world.listening.clear());
    assert_eq!((counts(&model), &model.flows), ((1, 0), &flows));
    assert_eq!(model.proxy.world.members, members);
    assert!(model.origins.is_empty(), "nobody is asked");
    // Its group is joined as before, and its sender is known: others are not listened to.
    let [listening] = &model.proxy.world.listening[..] else { panic!() };
    let group = "239.1.2.3".parse().unwrap();
    let named = Interface::Named("servers".into());
    assert_eq!((listening.address, listening.port, &listening.interface), (group, 5004, &named));
    comes(&mut model, B, &rtp(50, 50, 8));
    assert_eq!((model.proxy.counts.strangers, &model.flows), (1, &flows));
    // Another viewer joins it, on the socket that there is.
    let other = plays(&mut model, OTHER, 6000);
    assert_eq!((model.audience().len(), model.proxy.world.listening.len()), (2, 1));
    // Its sender is gone: the next one's numbers follow.
    model.wait(Duration::from_secs(3));
    comes(&mut model, B, &rtp(50, 50, 8));
    assert_eq!((model.proxy.counts.senders, model.proxy.counts.silences), (1, 0));
    // And the process dies once more, before the program has had a packet of that one.
    model.die(SOON, |_, _| {});
    let (_, flow) = model.flow_from(7000);
    assert!(flow.tapped);
    model.proxy.deliver(flow.track, 0, &rtp(51, 60, 8));
    model.run();
    let (_, to, bytes) = model.datagrams.iter().rfind(|(_, to, _)| to.port() == 5000).expect("it is handed over");
    let header = packets::Header::read(bytes).unwrap();
    assert_eq!(to.to_string(), "10.0.1.11:5000");
    assert_eq!((header.ssrc, header.sequence), (rewrite.ssrc, 10u16.wrapping_add(rewrite.sequence)));
    let client = model.client(CLIENT);
    model.good(client, "TEARDOWN", HALL, &[("Session", &session)]);
    let client = model.client(OTHER);
    model.good(client, "TEARDOWN", HALL, &[("Session", &other)]);
    model.is_empty();
}

#[test]
fn a_source_that_is_not_as_it_was_ends() {
    // Its port is another program's; the configuration has it no more; it comes to another port.
    for change in ["taken", "gone", "moved"] {
        let mut model = model("rtp://239.1.2.3:5004", None);
        plays(&mut model, CLIENT, 5000);
        comes(&mut model, A, &rtp(9, 900, 7));
        model.die(SOON, |settings, world| match change {
            "taken" => _ = world.no_port.insert(5004),
            "gone" => _ = settings.streams.pop(),
            _ => {
                settings.streams.pop();
                let mut own = hall("rtp://239.1.2.3:5006", None);
                own.url = "rtp://239.1.2.3:5004".into();
                settings.streams.push(own);
            }
        });
        assert_eq!(model.logged.last().unwrap().ended, "origin_lost", "{change}");
        assert_eq!(model.proxy.counts.not_taken_up, u64::from(change != "taken"), "{change}");
        model.is_empty();
    }
}

#[test]
fn a_bare_stream_keeps_its_numbers() {
    let mut model = model("udp://239.1.2.3:5004", None);
    plays(&mut model, CLIENT, 5000);
    let payload: Vec<u8> = [0x47].into_iter().chain([0; 187]).collect();
    let next = |model: &mut Model| {
        model.datagrams.clear();
        comes(model, A, &payload);
        packets::Header::read(&model.datagrams[0].2).unwrap()
    };
    let before = next(&mut model);
    model.die(SOON, |_, _| {});
    let after = next(&mut model);
    assert_eq!((after.ssrc, after.sequence.wrapping_sub(before.sequence)), (before.ssrc, 1));
    assert_eq!(after.timestamp.wrapping_sub(before.timestamp), 2 * 90_000);
    // Its sender is known.
    comes(&mut model, B, &payload);
    assert_eq!((counts(&model), model.proxy.counts.strangers), ((1, 0), 1));
}

#[test]
fn groups_of_servers_are_joined_again() {
    let mut model = grouped("239.9.9.9");
    let client = model.client(CLIENT);
    let session = model.set_up(client, DOOR, 2, 5000);
    model.good(client, "PLAY", DOOR, &[("Session", &session)]);
    let group = "239.9.9.9".parse().unwrap();
    model.proxy.media_at_socket(group, 6102, "10.0.2.99:9000".parse().unwrap(), &rtp(1, 1, 1));
    model.run();
    let (flows, listening) = (model.flows.clone(), model.proxy.world.listening.clone());
    model.die(SOON, |_, world| world.listening.clear());
    assert_eq!((&model.flows, &model.proxy.world.listening), (&flows, &listening));
    // The server is asked whether it knows the session, and nothing else.
    assert_eq!((counts(&model), model.methods()), ((1, 0), vec!["GET_PARAMETER"]));
    // Where the group's port can't be had, it is asked for the stream anew.
    model.die(SOON, |_, world| _ = world.no_port.insert(6100));
    model.proxy.world.no_port.clear();
    model.wait(Duration::from_secs(2));
    assert_eq!((model.count("camera.example", "PLAY"), model.proxy.world.listening.len()), (1, 4));
    let client = model.client(CLIENT);
    model.good(client, "TEARDOWN", DOOR, &[("Session", &session)]);
    model.is_empty();
}
