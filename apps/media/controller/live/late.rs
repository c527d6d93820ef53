//! Viewers that come late to a live stream begin at its last access point.

use crate::network::Media;
use crate::origin::Options;
use crate::server::{ACCESS, Server};
use crate::viewer::{Packet, Viewer, compare};
use crate::{ORIGINS, PROXIES, viewer};

/// Packets as a receiver puts them in order, by their numbers; how many had been overtaken.
fn ordered(mut all: Vec<Packet>) -> (Vec<Packet>, usize) {
    let first = all[0].0;
    let overtaken = all.windows(2).filter(|two| two[1].0.wrapping_sub(two[0].0) > 0x8000).count();
    all.sort_by_key(|own| own.0.wrapping_sub(first));
    (all, overtaken)
}

fn comes_late(driver: &str) {
    let media = Media::start(driver, &[("late_join = 0 ", "late_join = 1048576 ")]);
    let options = Options { live: true, tracks: 1, coding: Some(("H264", 33)), ..Options::default() };
    let server = Server::start(&media.servers, &ORIGINS, &options);
    let path = format!("{}/live", ORIGINS[0]);
    let sent = || server.log.lock().unwrap().sent[&0].clone();
    let mut first = viewer(&media, PROXIES[0], &path, 1);
    first.play();
    let mut all = first.receive(0, ACCESS as usize / 2 * 3);
    if driver == "xdp" {
        assert_eq!(media.channel("forward4.shared"), 0, "one viewer's packets are sent on in the kernel");
    }
    for (nth, proxy) in PROXIES.into_iter().enumerate() {
        let mut late = viewer(&media, proxy, &path, 1);
        // On a busy machine the stream may have begun before the first viewer's PLAY.
        let joins = media.metric("media_late_joins_total");
        late.play();
        // Until the program has taken over, and some more.
        let mut received = Vec::new();
        let by_program = |media: &Media| ["fan4", "copy46"].map(|own| media.channel(&format!("{own}.output")));
        let before = by_program(&media);
        while by_program(&media)[nth] < before[nth] + 100 {
            received.extend(late.receive(0, 50));
        }
        let delivered = media.metric("media_packets_delivered_total");
        received.extend(late.receive(0, 100));
        assert_eq!(media.metric("media_packets_delivered_total"), delivered, "the program has taken over");
        assert_eq!(media.metric("media_late_joins_total"), joins + 1);
        assert_eq!((received[0].0, received[0].1), late.begin(0).unwrap(), "where PLAY said");
        assert_eq!(received[0].2[0], 0x65, "an access point");
        let (received, overtaken) = ordered(received);
        assert_eq!(compare(&received, &sent()), 0, "none is missing, none came twice");
        assert!(overtaken <= 3, "{overtaken}");
        late.good("TEARDOWN", &late.url.clone(), &[]);
    }
    // On a connection none is overtaken, either.
    let mut carried = Viewer::connect(&media.viewers, PROXIES[0].0, &path);
    carried.set_up_interleaved(0);
    carried.play();
    let received = carried.receive(0, 2 * ACCESS as usize);
    assert_eq!((received[0].0, received[0].1), carried.begin(0).unwrap());
    assert_eq!((received[0].2[0], compare(&received, &sent())), (0x65, 0));
    // Nobody was disturbed.
    all.extend(first.come(0));
    assert_eq!(compare(&all, &sent()), 0);
    media.stop();
}

#[test]
fn late_in_the_kernel() {
    comes_late("xdp");
}

#[test]
fn late_on_workers() {
    comes_late("afpacket");
}
