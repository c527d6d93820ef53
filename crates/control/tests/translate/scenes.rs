//! Random scenes: clients, links, sources and settings of all kinds. What `watch` says must hold in each, the stream
//! must go on as soon as the link lets it, and nothing must be left when the connection has ended.

use proptest::prelude::*;

use dataplane::EngineKind;

use crate::client::{ACK, Options, RST};
use crate::program;
use crate::stream::{GROUP, number_of};
use crate::world::{HEAD, MS, Scene, World};

/// What happens to a connection in the end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    /// The client closes its side; the controller says so; it aborts; the client resets; it is heard no more.
    Fin,
    Close,
    Abort,
    Reset,
    Vanish,
}

/// What happens meanwhile.
#[derive(Clone, Copy, Debug)]
enum Event {
    StopsReading,
    Reads(usize),
    Restart { sequence: u16, ssrc: bool },
    Silence(u64),
}

/// A scene, and its story.
#[derive(Clone, Debug)]
struct Story {
    scene: Scene,
    /// Whether sequence numbers wrap around soon.
    wraps: bool,
    /// Milliseconds of the stream in front of the connection.
    lead: u64,
    /// Documents in front of the head of the response.
    documents: u8,
    events: Vec<(u64, Event)>,
    end: End,
    /// Whether the connection ends while the link is bad.
    ends_badly: bool,
}

fn client() -> impl Strategy<Value = Options> {
    let mss = prop::sample::select(vec![1460, 1460, 1400, 1380, 8960, 1316, 1200, 536, 100]);
    let scale = prop::option::weighted(0.8, 0u8..=14);
    let buffer = prop::sample::select(vec![1 << 20, 1 << 20, 1 << 18, 60_000, 20_000, 4000, 2000, 1000]);
    let first = prop_oneof![any::<u32>(), (u32::MAX - 100)..];
    let reneges = prop::sample::select(vec![0, 0, 0, 5, 60]);
    let delays = prop::sample::select(vec![0, 40, 40, 200]);
    (prop::bool::weighted(0.7), mss, scale, buffer, first, reneges, delays).prop_map(
        |(sack, mss, scale, buffer, first, reneges, delays)| {
            // A window of which nothing is left by its scale is none.
            let scale = scale.map(|scale: u8| if buffer < 60_000 { scale.min(7) } else { scale });
            Options { sack, mss, delays, scale, buffer, first, reneges }
        },
    )
}

fn link() -> impl Strategy<Value = (u64, u64, u64, u64, (u64, u64))> {
    let of = |most: u64| prop_oneof![2 => Just(0), 3 => 0..most];
    let outages = prop_oneof![2 => Just((0, 0)), 1 => (1..100u64, 1..600u64)];
    (0..120u64, of(200), of(300), of(150), outages)
}

type Source = ((u64, u64, u64, u64), u16, bool, bool, bool, u64);

fn source() -> impl Strategy<Value = Source> {
    let of = |most: u64| prop_oneof![2 => Just(0), 2 => 0..most];
    let sequence = prop_oneof![any::<u16>(), 65_400..=65_535u16];
    let period = prop::sample::select(vec![2, 3, 5, 5, 10, 30]);
    ((of(60), of(100), of(100), of(500)), sequence, any::<bool>(), any::<bool>(), prop::bool::weighted(0.2), period)
}

fn scene() -> impl Strategy<Value = Scene> {
    let settings = (
        prop::sample::select(vec![0, 5, 20, 100]),
        prop::sample::select(vec![0, 30, 200, 500, 3000]),
        prop::sample::select(vec![0, 100, 1000, 5000]),
    );
    let ways = (0..4u8, 0..3u8, 0..3u8, any::<u32>(), 0..1_000_000u64);
    let pictures = (any::<bool>(), prop::sample::select(vec![0, 100, 500, 2000]));
    let switches = prop::sample::select(vec![0, 0, 5, 50, 400]);
    let switches = (switches, pictures);
    (client(), link(), source(), settings, ways, switches).prop_map(|(client, link, source, settings, ways, more)| {
        let (switches, (pictures, start_ms)) = more;
        let (delay, loss, reordered, duplicated, outages) = link;
        let ((source_loss, source_reordered, source_duplicated, source_late), sequence, forms, sizes, bare, period) =
            source;
        let (fill, rate, policy, seed, start) = ways;
        Scene {
            client,
            start: start * MS,
            delay,
            loss,
            reordered,
            duplicated,
            source_loss,
            // What has no numbers comes in the order in which it comes.
            source_reordered: if bare { 0 } else { source_reordered },
            source_duplicated,
            source_late,
            switches,
            sequence,
            forms: forms && !bare,
            sizes,
            bare,
            form: if seed % 3 == 0 { 2 } else { u8::from(bare) },
            outages,
            settings: settings.into(),
            start_ms: if pictures { start_ms } else { 0 },
            pictures,
            rate_bytes: 131_600,
            policy,
            fill,
            rate,
            period,
            seed: seed.into(),
            engine: EngineKind::NATIVE,
            reads: 1 << 20,
        }
    })
}

fn story() -> impl Strategy<Value = Story> {
    let event = prop_oneof![
        Just(Event::StopsReading),
        (10..3000usize).prop_map(Event::Reads),
        (any::<u16>(), any::<bool>()).prop_map(|(sequence, ssrc)| Event::Restart { sequence, ssrc }),
        (1..400u64).prop_map(Event::Silence),
    ];
    let events = prop::collection::vec((0..2500u64, event), 0..5);
    let end = prop::sample::select(vec![End::Fin, End::Fin, End::Close, End::Abort, End::Reset, End::Vanish]);
    let lead = prop::sample::select(vec![30, 30, 200, 1000]);
    let begins = (prop::bool::weighted(0.2), lead, 0..3u8);
    (scene(), begins, events, end, prop::bool::weighted(0.3)).prop_map(
        |(scene, (wraps, lead, documents), mut events, end, ends_badly)| {
            events.sort_by_key(|own| own.0);
            Story { scene, wraps, lead, documents, events, end, ends_badly }
        },
    )
}

/// The client's first number, with which the program's first one is near the end.
fn near_the_end(world: &mut World) -> u32 {
    let first = world.scene.client.first;
    let bit = |time: u64| (time / 64_000_000_000) & 1 == 1;
    // A number of a period has one bit, and the three in front of it depend on nothing but the period.
    for _ in 0..200 {
        if bit(world.scene.start) && world.base_for(first) >> 20 & 15 == 15 {
            break;
        }
        world.scene.start += 64_000_000_000;
    }
    let mut all = (0..1_000_000u32).map(|more| first.wrapping_add(more));
    all.find(|first| world.base_for(*first) > u32::MAX - 600_000).expect("a number near the end")
}

/// The world at the beginning of a story.
fn begin(story: &Story, engine: EngineKind) -> World {
    let mut scene = Scene { engine, ..story.scene.clone() };
    if story.wraps {
        let mut finder = World::new(&program(), Scene { engine: EngineKind::NATIVE, ..scene.clone() });
        scene.client.first = near_the_end(&mut finder);
        scene.start = finder.scene.start;
    }
    let mut world = World::new(&program(), scene);
    let mut documents: Vec<(Vec<u8>, u8)> = (0..story.documents).map(|own| (vec![own; 300], 0)).collect();
    documents.push((HEAD.to_vec(), 1));
    world.watch.document = documents.iter().map(|own| own.0.len()).sum();
    world.documents = documents;
    world
}

fn ended(world: &World) -> Vec<u8> {
    world.notices.iter().filter(|notice| notice[0] == 3).map(|notice| notice[1]).collect()
}

/// Lets time go by until something is so, in steps that become longer where nothing happens.
fn wait(world: &mut World, most_ms: u64, mut is: impl FnMut(&World) -> bool) -> bool {
    let mut left = most_ms;
    while left > 0 {
        if is(world) {
            return true;
        }
        left = left.saturating_sub(world.pass());
    }
    is(world)
}

/// Runs a story; what has come out of it.
fn run(story: &Story, engine: EngineKind) -> World {
    let mut world = begin(story, engine);
    world.run(story.lead);
    world.watch.viewed = world.watch.newest;
    world.connect();
    let mut at = 0;
    for (time, event) in &story.events {
        world.run(time - at);
        at = *time;
        match *event {
            Event::StopsReading => world.scene.reads = 0,
            Event::Reads(most) => world.scene.reads = most,
            Event::Restart { sequence, ssrc } => world.restart_source(sequence, ssrc),
            Event::Silence(ms) => {
                world.running = false;
                world.run(ms);
                world.running = true;
            }
        }
    }
    world.run(500);
    let lost = ended(&world).first() == Some(&4);
    if !lost && !story.ends_badly {
        calm(story, &mut world);
    }
    finish(story, &mut world);
    world
}

/// The link is good from now on, and the client reads: the stream goes on.
fn calm(story: &Story, world: &mut World) {
    (world.scene.loss, world.scene.reordered, world.scene.outages) = (0, 0, (0, 0));
    (world.scene.source_loss, world.scene.source_reordered, world.scene.source_late) = (0, 0, 0);
    world.scene.reads = 1 << 20;
    let begun = (world.now, world.source);
    let received = |world: &World| {
        let data = &world.client.data;
        let last = world.watch.first[..data.len()].rchunks_exact(188).next();
        last.filter(|_| data.len() > world.watch.document).map(|ts| number_of(ts).0)
    };
    // A timeout may have been put off for a minute at most, and a rate may have fallen to a segment in 64 seconds.
    let is_small = story.scene.client.buffer < 1316;
    let goes_on = wait(world, 140_000, |world| {
        is_small || received(world).is_some_and(|last| last > begun.1) || ended(world).contains(&4)
    });
    assert!(goes_on, "the stream has stopped: {:?} of {}", received(world), world.source);
    world.running = false;
    let all =
        wait(world, 140_000, |world| world.client.data.len() == world.watch.first.len() || ended(world).contains(&4));
    assert!(all, "{} bytes of {} have come", world.client.data.len(), world.watch.first.len());
    if ended(world).is_empty() {
        world.running = true;
        world.run(100);
    }
}

fn finish(story: &Story, world: &mut World) {
    let was_over = !ended(world).is_empty();
    match story.end {
        End::Fin => {
            world.close_client();
        }
        End::Close => world.order(2, 0),
        End::Abort => world.order(3, 0),
        End::Reset => {}
        End::Vanish => world.deaf = true,
    }
    if story.end == End::Close {
        let closes = wait(world, 150_000, |world| world.client.finished || !ended(world).is_empty());
        assert!(closes, "no FIN came");
        world.close_client();
    }
    if story.end == End::Reset {
        for _ in 0..100 {
            let reset = world.client.segment(RST | ACK, &[]);
            world.client_sends(vec![reset]);
            world.run(100);
            if !ended(world).is_empty() {
                break;
            }
        }
    }
    let is_over = wait(world, 600_000, |world| !ended(world).is_empty());
    assert!(is_over, "the connection has not ended");
    world.running = false;
    world.run(3000);
    let ends = ended(world);
    assert_eq!(ends.len(), 1, "{ends:?}");
    let lost = story.scene.fill == 3 && ends[0] == 4;
    let expected: &[u8] = match story.end {
        End::Fin | End::Close => &[1, 3],
        End::Abort => &[5],
        End::Reset => &[2],
        End::Vanish => &[3],
    };
    assert!(was_over || lost || expected.contains(&ends[0]), "{ends:?}");
    check(story, world);
}

/// Where a viewer may begin that has come when a packet of the source was the newest one.
fn check_begin(scene: &Scene, first: u32, newest: u32) {
    // Packets may wait for those in front of them.
    if first + 32 >= newest {
        return;
    }
    assert!(scene.start_ms != 0, "a viewer of {newest} begins with {first}");
    // It begins with the last access point, or the tables in front of that, of which those of two may be lost.
    assert!(first + 32 + 3 * GROUP >= newest || scene.source_loss != 0, "{first} is far in front of {newest}");
    let age = u64::from(newest - first - 32) * scene.period;
    let most = u64::from(scene.start_ms) + u64::from(2 * GROUP) * scene.period;
    assert!(age <= most, "{first} is {age} ms old");
    // What is late may be left out before anything was sent.
    let is_late = scene.settings[2] < 5000 || scene.client.buffer < 20_000;
    assert!(is_late || first % GROUP <= 2, "{first} is no place to begin at");
}

/// What must be so when all is over.
fn check(story: &Story, world: &mut World) {
    let watch = &world.watch;
    let numbers = watch.check_stream();
    if let Some(first) = numbers.first() {
        check_begin(&story.scene, *first, watch.viewed);
    }
    watch.check_read(&world.client.data, world.client.took_part);
    assert!(!world.client.broken_end, "something came behind a FIN");
    if world.client.finished {
        assert_eq!(Some(world.client.data.len()), watch.fin, "a FIN came behind all data");
    }
    assert!(watch.resets <= 1, "{} resets", watch.resets);
    assert_eq!(world.entries("clients.flows"), 0, "the flow entry is gone");
    let shared = ["segment_blocks", "document_pages"].map(|pool| crate::blocks::taken(world, pool));
    assert_eq!(shared, [0, 0], "what connections share is given back");
    world.stepper.check_frames().unwrap();
    if std::env::var("SHOW").is_ok() {
        println!(
            "{:?} {} documents, {} packets of {}, again {} nulls {} fresh {}",
            ended(world),
            story.documents,
            numbers.len(),
            world.source,
            world.watch.again,
            world.watch.nulls,
            world.watch.fresh
        );
    }
}

/// Cases of one test.
fn cases(part: u32) -> ProptestConfig {
    let own = ProptestConfig::default();
    ProptestConfig { cases: own.cases / part + 1, failure_persistence: None, max_shrink_iters: 50, ..own }
}

proptest! {
    #![proptest_config(cases(1))]
    #[test]
    fn random_scenes(story in story()) {
        run(&story, EngineKind::NATIVE);
    }
}

proptest! {
    #![proptest_config(cases(32))]
    #[test]
    fn engines_agree_in_random_scenes(story in story()) {
        let story = Story { end: if story.end == End::Vanish { End::Abort } else { story.end }, ..story };
        let [native, interpreted] = [EngineKind::NATIVE, EngineKind::Interp].map(|engine| run(&story, engine));
        prop_assert_eq!(native.hash, interpreted.hash);
        prop_assert_eq!(native.client.data, interpreted.client.data);
        prop_assert_eq!(native.notices, interpreted.notices);
    }
}
