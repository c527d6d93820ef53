//! What the controller orders, and the ways of delivery.

use crate::client::{ACK, FIN, Options};
use crate::world::{HEAD, Scene, World};
use crate::{ends, program, quiet, read};

#[test]
fn a_closed_connection_ends_behind_its_documents() {
    let mut world = World::new(&program(), quiet());
    let pages: Vec<Vec<u8>> = (0..5u8).map(|page| vec![page; 500]).collect();
    world.documents = pages.iter().map(|page| (page.clone(), 0)).collect();
    world.connect();
    world.order(2, 0);
    world.run(200);
    assert_eq!(world.client.data, pages.concat());
    assert!(world.client.finished && ends(&world).is_empty());
    world.close_client();
    world.run(3000);
    assert_eq!(ends(&world), [1]);
}

#[test]
fn a_closed_stream_stops_at_once() {
    let mut world = World::new(&program(), quiet());
    world.connect();
    world.run(300);
    world.order(2, 0);
    let sent = world.watch.first.len();
    world.run(200);
    assert!(world.client.finished);
    assert_eq!((world.watch.first.len(), world.client.data.len()), (sent, sent));
    read(&world.client.data);
}

#[test]
fn an_aborted_connection_is_reset() {
    let mut world = World::new(&program(), quiet());
    world.connect();
    world.run(300);
    world.order(3, 0);
    world.run(50);
    assert!(world.client.reset);
    assert_eq!((ends(&world), world.watch.resets, world.entries("clients.flows")), (vec![5], 1, 0));
}

#[test]
fn a_refused_request_is_reset() {
    let mut world = World::new(&program(), quiet());
    world.opens = None;
    world.connect();
    assert_eq!(world.entries("clients.flows"), 1);
    world.order(4, 0);
    world.run(50);
    assert!(world.client.reset && world.notices.is_empty());
    assert_eq!((world.watch.resets, world.entries("clients.flows")), (1, 0));
    // An opened one is not refused.
    let mut world = World::new(&program(), quiet());
    world.connect();
    world.order(4, 0);
    world.run(100);
    assert!(!world.client.reset && world.client.data.len() > HEAD.len());
}

#[test]
fn requests_are_taken_as_far_as_they_have_credit() {
    let mut world = World::new(&program(), quiet());
    world.documents = vec![(b"hello".to_vec(), 0)];
    world.connect();
    world.run(50);
    let mut all = world.requests.concat();
    let mut say = |world: &mut World, bytes: &[u8]| {
        let segment = world.client.segment(ACK, bytes);
        world.client_sends(vec![segment]);
        world.run(50);
        let taken = world.acknowledged == world.client.sent.wrapping_add(bytes.len() as u32);
        if taken {
            all.extend(bytes);
            world.client.sent = world.acknowledged;
        }
        taken
    };
    let taken = (0..20u8).filter(|own| say(&mut world, &[*own; 1000])).count();
    assert_eq!(taken, 16, "16384 bytes in all, of which the request has taken some");
    assert!(!say(&mut world, &[77; 1000]));
    world.order(5, 2000);
    assert!(say(&mut world, &[88; 1000]) && say(&mut world, &[99; 1000]) && !say(&mut world, &[11; 1000]));
    assert_eq!(world.requests.concat(), all);
}

#[test]
fn another_stream_follows_a_document() {
    let mut world = World::new(&program(), quiet());
    world.opens = Some(u32::MAX);
    world.documents = vec![(b"hello".to_vec(), 0)];
    world.connect();
    world.run(100);
    assert_eq!(world.client.data, b"hello");
    world.order(6, 3);
    world.document(1, HEAD, 1);
    world.run(300);
    let body = world.client.data.strip_prefix(b"hello").unwrap();
    assert!(read(body).packets > 40);
}

/// A client stops for a while, and goes on; numbers of what it has read, and at which number of the source it went on.
fn stopped(scene: Scene, ms: u64) -> (World, Vec<u32>, u32) {
    let client = Options { buffer: 8000, ..scene.client.clone() };
    let mut world = World::new(&program(), Scene { client, delay: 2, ..scene });
    world.connect();
    world.run(300);
    world.scene.reads = 0;
    world.run(ms);
    world.scene.reads = 1 << 20;
    let resumed = world.source;
    world.run(ms);
    let numbers = world.watch.check_stream();
    world.watch.check_read(&world.client.data, world.client.took_part);
    (world, numbers, resumed)
}

/// Ranges that are left out.
fn gaps(numbers: &[u32]) -> Vec<(u32, u32)> {
    numbers.windows(2).filter(|two| two[0] + 1 != two[1]).map(|two| (two[0] + 1, two[1])).collect()
}

#[test]
fn the_oldest_or_the_newest_packets_are_left_out() {
    // Each 5 ms a packet: in 3 s 600, of which 1 s may wait.
    let (_, oldest, resumed) = stopped(quiet(), 3000);
    let gap = gaps(&oldest)[0];
    assert!(
        gap.1 + 210 > resumed && gap.1 < resumed,
        "{gap:?}: what is there is from the last second before {resumed}"
    );
    let (_, newest, resumed) = stopped(Scene { policy: 1, ..quiet() }, 3000);
    let gap = gaps(&newest)[0];
    // It has the packets behind those that it had, and in the end the newest ones all the same.
    assert!(gap.0 > 60 + 80 && gap.0 + 250 < resumed, "{gap:?} before {resumed}");
    assert!(*newest.last().unwrap() + 5 > resumed + 600, "{:?}", newest.last());
}

/// Who goes on reading, but too slowly, has what is old; what comes meanwhile does not wait, too.
#[test]
fn a_slow_reader_loses_the_newest_packets_again_and_again() {
    let client = Options { buffer: 8000, ..quiet().client };
    let mut world = World::new(&program(), Scene { client, policy: 1, delay: 2, ..quiet() });
    world.connect();
    world.run(300);
    // A packet each 5 ms is 263 bytes a millisecond.
    world.scene.reads = 100;
    world.run(12_000);
    world.scene.reads = 1 << 20;
    world.run(3000);
    let numbers = world.watch.check_stream();
    let gaps = gaps(&numbers);
    assert!(gaps.len() > 2, "{gaps:?}");
    // The older half of a second is read in 1.3 s.
    assert!(world.watch.lag < 2000, "a packet left {} ms after it came", world.watch.lag);
    let lost: u32 = gaps.iter().map(|(from, to)| to - from).sum();
    assert!((0.5..0.75).contains(&(f64::from(lost) / 2400.0)), "{lost} of 2400: {gaps:?}");
    world.watch.check_read(&world.client.data, world.client.took_part);
}

#[test]
fn rates_are_kept() {
    // Half a second behind: with no rate at once, at the stream's own a quarter faster than it comes.
    let behind = |rate: u8, after: u64| {
        let client = Options { buffer: 8000, ..quiet().client };
        let mut world = World::new(&program(), Scene { rate, client, delay: 2, rate_bytes: 263_200, ..quiet() });
        world.connect();
        world.run(300);
        world.scene.reads = 0;
        world.run(500);
        world.scene.reads = 1 << 20;
        let before = world.client.data.len();
        world.run(after);
        (world.client.data.len() - before, world.watch.check_stream(), world.source)
    };
    let (bytes, numbers, source) = behind(2, 200);
    assert!(bytes > 100 * 1316 && numbers.last().unwrap() + 4 > source, "{bytes} {source}");
    for after in [200, 1000] {
        let (bytes, _, _) = behind(1, after);
        let most = 263_200 * 5 / 4 * after as usize / 1000;
        assert!(bytes < most + 10 * 1316 && bytes * 10 > most * 8, "{bytes} of {most}");
    }
    let (_, numbers, source) = behind(1, 3000);
    assert!(numbers.last().unwrap() + 4 > source, "it has caught up");
}

#[test]
fn an_exact_stream_has_nothing_else() {
    for seed in 1..4 {
        let settings = [20, 1, 1000];
        let scene = Scene { fill: 3, loss: 100, seed, settings, ..quiet() };
        let mut world = World::new(&program(), scene);
        world.connect();
        world.run(3000);
        world.running = false;
        world.scene.loss = 0;
        world.run(3000);
        assert_eq!((world.watch.nulls, world.watch.fresh), (0, 0));
        assert!(world.watch.again > 20 && !world.client.reset);
        assert_eq!(world.client.data, world.watch.first);
    }
}

#[test]
fn an_exact_stream_that_can_t_be_is_reset() {
    let mut world = World::new(&program(), Scene { fill: 3, period: 1, ..quiet() });
    world.connect();
    world.run(300);
    world.deaf = true;
    world.run(2500);
    world.deaf = false;
    world.run(2000);
    assert_eq!(ends(&world), [4]);
    assert_eq!(world.client.data, world.watch.first[..world.client.data.len()]);
}

#[test]
fn newer_data_is_put_only_where_nothing_behind_was_received() {
    let mut fresh = 0;
    for seed in 1..6 {
        let scene = Scene { fill: 2, loss: 250, period: 40, delay: 30, seed, ..quiet() };
        let mut world = World::new(&program(), scene);
        world.connect();
        world.run(4000);
        world.running = false;
        world.scene.loss = 0;
        world.run(3000);
        // That it is the newest, and that nothing behind was told of, says `watch` of each segment.
        world.watch.check_stream();
        world.watch.check_read(&world.client.data, world.client.took_part);
        fresh += world.watch.fresh;
        assert!(world.watch.nulls > 10, "{}", world.watch.nulls);
    }
    assert!(fresh > 10, "{fresh}");
}

#[test]
fn a_fin_with_data_is_one() {
    let mut world = World::new(&program(), quiet());
    world.documents = vec![(b"hello".to_vec(), 2)];
    world.connect();
    world.run(50);
    let last = world.client.segment(FIN | ACK, b"bye");
    world.client_sends(vec![last]);
    world.client.sent = world.client.sent.wrapping_add(4);
    world.run(3000);
    assert_eq!((ends(&world), &world.requests[1][..], &world.client.data[..]), (vec![1], &b"bye"[..], &b"hello"[..]));
}

/// The FIN is lost, and then the client takes more again: it is sent again none the less.
#[test]
fn a_lost_fin_is_sent_again_when_the_window_opens() {
    let client = Options { buffer: 20_000, ..quiet().client };
    let mut world = World::new(&program(), Scene { client, ..quiet() });
    world.connect();
    world.run(300);
    world.scene.reads = 0;
    world.run(1000);
    world.running = false;
    world.close_client();
    world.step();
    world.scene.loss = 1000;
    world.run(15);
    assert_eq!((world.acknowledged, world.client.finished), (world.client.sent, false), "a FIN was sent, and lost");
    world.scene.loss = 0;
    world.scene.reads = 1 << 20;
    world.run(3000);
    assert!(world.client.finished, "it came");
    assert_eq!(ends(&world), [1]);
}

/// What is under way when a client vanishes is not sent to it again and again: a segment at each timeout.
#[test]
fn a_client_that_is_gone_gets_a_segment_at_a_timeout() {
    for rate in [0, 1, 2] {
        let mut world = World::new(&program(), Scene { rate, ..quiet() });
        world.connect();
        world.run(1000);
        world.deaf = true;
        world.run(100);
        world.running = false;
        world.run(150_000);
        assert_eq!(ends(&world), [3]);
        assert!((5..=16).contains(&world.watch.again), "rate {rate}: {}", world.watch.again);
    }
}
