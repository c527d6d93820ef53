//! Viewers that come late to a live stream begin at its last access point.

use std::time::Duration;

use media::proxy::ClientId;
use media::tables::Leads;
use wire::rtp::{Header, Rewrite};
use wire::rtsp::framing::Item;
use wire::rtsp::rtp_info;

use crate::model::{CLIENT, Model, OTHER, URL};
use crate::origin::Options;

fn model(most: usize, tcp_only: bool) -> Model {
    let options = Options { live: true, tracks: 1, coding: Some(("H264", 96)), tcp_only, ..Options::default() };
    Model::with(options, |settings| settings.limits.late_join = most)
}

/// The origin's packets, one after the other.
struct Sender {
    /// The number of the next one.
    sequence: u16,
    timestamp: u32,
    /// How they come: on the connection, or from the program with a number of the flow entry.
    generation: Option<u32>,
}

impl Sender {
    /// A picture of so many packets comes: an IDR picture with its parameters, or one that refers to others.
    fn picture(&mut self, model: &mut Model, is_idr: bool, packets: usize) {
        self.timestamp += 3000;
        for at in 0..packets {
            let unit: &[u8] = match (is_idr, at) {
                (true, 0) => &[0x67, 0x42],
                (true, 1) => &[0x7c, 0x85, 7],
                (true, _) => &[0x7c, 0x05, 7],
                (false, _) => &[0x5c, 0x01, 7],
            };
            self.packet(model, at + 1 == packets, unit);
        }
    }

    fn packet(&mut self, model: &mut Model, marked: bool, unit: &[u8]) {
        let mut packet = vec![0x80, if marked { 0xe0 } else { 0x60 }];
        packet.extend(self.sequence.to_be_bytes());
        packet.extend(self.timestamp.to_be_bytes());
        packet.extend([1, 2, 3, 4]);
        packet.extend(unit);
        packet.extend(self.sequence.to_be_bytes());
        self.sequence += 1;
        match self.generation {
            Some(generation) => {
                let (_, flow) = model.flow_from(6970);
                model.proxy.deliver(flow.track, generation, &packet);
            }
            None => {
                let id = *model.origins.keys().last().unwrap();
                model.proxy.origin_item(id, Item::Data { channel: 0, packet });
            }
        }
        model.run();
    }
}

/// Sequence numbers that came to a port, and are forgotten, less what is added to them; the rest must be the origin's.
fn come_to(model: &mut Model, port: u16, rewrite: Rewrite) -> Vec<u16> {
    let (own, others) = std::mem::take(&mut model.datagrams).into_iter().partition(|(_, to, _)| to.port() == port);
    model.datagrams = others;
    let own: Vec<_> = own;
    own.iter().map(|(.., bytes)| number(bytes, rewrite)).collect()
}

fn number(packet: &[u8], rewrite: Rewrite) -> u16 {
    let header = Header::read(packet).unwrap();
    let sequence = header.sequence.wrapping_sub(rewrite.sequence);
    assert_eq!((header.ssrc, &packet[packet.len() - 2..]), (rewrite.ssrc, &sequence.to_be_bytes()[..]));
    sequence
}

/// A viewer that plays: its connection and session, and where PLAY says that it begins.
#[track_caller]
fn plays(model: &mut Model, from: &str, transport: &str) -> (ClientId, String, Option<(u16, u32)>) {
    let client = model.client(from);
    let answer = model.good(client, "SETUP", &format!("{URL}/trackID=0"), &[("Transport", transport)]);
    let session = answer.headers.get("session").unwrap().split(';').next().unwrap().to_owned();
    let answer = model.good(client, "PLAY", URL, &[("Session", &session)]);
    let infos = answer.headers.get("rtp-info").map(rtp_info::parse).unwrap_or_default();
    (client, session, infos.first().map(|own| (own.seq.unwrap(), own.rtptime.unwrap())))
}

const FIRST: &str = "RTP/AVP;unicast;client_port=5000-5001";
const SECOND: &str = "RTP/AVP;unicast;client_port=6000-6001";
const ON_CONNECTION: &str = "RTP/AVP/TCP;unicast;interleaved=0-1";

/// What is added to the numbers of the last session that has a track.
fn rewrite_of(model: &Model, sequence: u16, said: (u16, u32), timestamp: u32) -> Rewrite {
    let ssrc = model.proxy.session_states().last().unwrap().tracks[0].ssrc;
    Rewrite { ssrc, sequence: said.0.wrapping_sub(sequence), timestamp: said.1.wrapping_sub(timestamp) }
}

#[test]
fn the_program_takes_over_between_two_packets() {
    let mut model = model(1 << 20, false);
    plays(&mut model, CLIENT, FIRST);
    let (_, flow) = model.flow_from(6970);
    assert!(matches!(flow.leads, Leads::Receiver { .. }) && flow.tapped && flow.generation == 0);
    let mut sender = Sender { sequence: 100, timestamp: 0, generation: Some(0) };
    sender.picture(&mut model, false, 2);
    sender.picture(&mut model, true, 4);
    (0..20).for_each(|_| sender.picture(&mut model, false, 2));
    assert!(model.datagrams.is_empty(), "the program sends it to the first");
    let (_, session, said) = plays(&mut model, OTHER, SECOND);
    // The access point began with number 102.
    let rewrite = rewrite_of(&model, 102, said.unwrap(), 6000);
    let mut got = come_to(&mut model, 6000, rewrite);
    assert_eq!(got, (102..134).collect::<Vec<u16>>());
    assert_eq!((model.flow_from(6970).1, model.proxy.world.members.len()), (flow, 1));
    // Each packet that comes is followed by several, until it has all, at the end of a picture.
    sender.packet(&mut model, false, &[0x41]);
    got.extend(come_to(&mut model, 6000, rewrite));
    assert_eq!(got.len(), 36);
    for _ in 0..20 {
        sender.picture(&mut model, false, 3);
        if model.flow_from(6970).1.generation == 1 {
            break;
        }
    }
    got.extend(come_to(&mut model, 6000, rewrite));
    assert_eq!(got, (102..sender.sequence).collect::<Vec<u16>>(), "nothing is missing, none twice, all in order");
    let (_, shared) = model.flow_from(6970);
    assert_eq!((shared.leads, shared.generation, shared.tapped), (Leads::Group, 1, true));
    let since =
        |model: &Model, port| model.proxy.world.members.values().find(|own| own.to.port() == port).unwrap().since;
    assert_eq!((since(&model, 5000), since(&model, 6000)), (0, 1));
    // What passed the program before the change is the controller's to send, what did so later is not.
    sender.picture(&mut model, false, 2);
    let sequence = sender.sequence;
    assert_eq!(come_to(&mut model, 6000, rewrite), [sequence - 2, sequence - 1]);
    sender.generation = Some(1);
    (0..3).for_each(|_| sender.picture(&mut model, false, 2));
    assert!(model.datagrams.is_empty());
    // One that pauses, and plays on, goes on at once: it would get again what it has.
    let client = model.client(OTHER);
    model.good(client, "PAUSE", URL, &[("Session", &session)]);
    model.good(client, "PLAY", URL, &[("Session", &session)]);
    assert!(model.datagrams.is_empty());
    assert_eq!((model.proxy.world.members.len(), model.proxy.counts.late), (2, 1));
    // The process dies: numbers of flow entries go on, so both get each packet.
    model.die(Duration::from_secs(1), |_, _| {});
    assert_eq!(model.flow_from(6970).1.generation, 1);
    let client = model.client(OTHER);
    model.good(client, "TEARDOWN", URL, &[("Session", &session)]);
    model.wait(Duration::from_secs(70));
    model.is_empty();
}

#[test]
fn on_connections_all_of_it_is_the_controllers() {
    for tcp_only in [false, true] {
        let mut model = model(1 << 20, tcp_only);
        plays(&mut model, CLIENT, FIRST);
        let mut sender = Sender { sequence: 100, timestamp: 0, generation: (!tcp_only).then_some(0) };
        sender.picture(&mut model, true, 4);
        (0..30).for_each(|_| sender.picture(&mut model, false, 2));
        let last = sender.sequence;
        model.datagrams.clear();
        let (client, _, said) = plays(&mut model, OTHER, ON_CONNECTION);
        let rewrite = rewrite_of(&model, 100, said.unwrap(), 3000);
        let first: Vec<u16> = model.data(client).iter().map(|(_, packet)| number(packet, rewrite)).collect();
        assert_eq!(first, (100..132).collect::<Vec<u16>>());
        (0..10).for_each(|_| sender.picture(&mut model, false, 2));
        sender.picture(&mut model, true, 4);
        (0..10).for_each(|_| sender.picture(&mut model, false, 2));
        let rest: Vec<u16> = model.data(client).iter().map(|(_, packet)| number(packet, rewrite)).collect();
        assert_eq!([first, rest].concat(), (100..sender.sequence).collect::<Vec<u16>>());
        if tcp_only {
            // And one over UDP, from the connection of the origin.
            model.datagrams.clear();
            let (_, _, said) = plays(&mut model, OTHER, SECOND);
            let began = sender.sequence - 24;
            let rewrite = rewrite_of(&model, began, said.unwrap(), sender.timestamp - 30_000);
            (0..10).for_each(|_| sender.picture(&mut model, false, 2));
            assert_eq!(come_to(&mut model, 6000, rewrite), (began..sender.sequence).collect::<Vec<u16>>());
        }
        assert!(last < sender.sequence);
        model.proxy.end();
        model.run();
        model.is_empty();
    }
}

#[test]
fn what_has_no_room_is_not_kept() {
    // Not asked for: nothing goes to the controller.
    let mut model = model(0, false);
    plays(&mut model, CLIENT, FIRST);
    assert!(!model.flow_from(6970).1.tapped);
    // Room for a few packets: the access point is gone, and who comes gets what comes.
    let mut model = self::model(100, false);
    plays(&mut model, CLIENT, FIRST);
    let mut sender = Sender { sequence: 100, timestamp: 0, generation: Some(0) };
    sender.picture(&mut model, true, 4);
    (0..5).for_each(|_| sender.picture(&mut model, false, 2));
    plays(&mut model, OTHER, SECOND);
    assert_eq!((model.proxy.world.members.len(), model.proxy.counts.late), (2, 0));
    // What somebody has not had yet is kept as long as there is room, also behind another access point.
    let mut model = self::model(4000, false);
    plays(&mut model, CLIENT, FIRST);
    sender.picture(&mut model, true, 4);
    (0..60).for_each(|_| sender.picture(&mut model, false, 2));
    let (_, session, said) = plays(&mut model, OTHER, SECOND);
    let rewrite = rewrite_of(&model, sender.sequence - 124, said.unwrap(), sender.timestamp - 180_000);
    sender.picture(&mut model, true, 200);
    for _ in 0..100 {
        sender.picture(&mut model, false, 2);
    }
    let got = come_to(&mut model, 6000, rewrite);
    assert_eq!(got, (sender.sequence - 524..sender.sequence).collect::<Vec<u16>>());
    assert_eq!(model.proxy.counts.late_lost, 0);
    // A viewer that pauses while it is behind is forgotten.
    let client = model.client(OTHER);
    model.good(client, "TEARDOWN", URL, &[("Session", &session)]);
    let (client, session, _) = plays(&mut model, OTHER, SECOND);
    model.good(client, "PAUSE", URL, &[("Session", &session)]);
    model.datagrams.clear();
    (0..5).for_each(|_| sender.picture(&mut model, false, 2));
    assert!(model.datagrams.is_empty());
    model.proxy.end();
    model.run();
    model.is_empty();
}
