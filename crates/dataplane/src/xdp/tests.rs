//! Small programs in the kernel, as they run at ports: without a record of what they do.

mod deadlines;
mod fragments;
mod pins;
mod stand_in;
mod taps;
mod tc;

use std::sync::Arc;
use std::sync::atomic::Ordering;

use baker::ir::{CounterId, CounterSlots, DropId, Program, TableEntry, TableId};
use baker::opt::Level;
use codegen::CodegenError;
use codegen::bpf::vm::{Image, Machine, Map};
use codegen::bpf::{self, Refusal, Tier};
use codegen::kernel::{Memory, Object, Options, Punt, TABLES, TableLocation, Verdict};

use super::load::Loaded;
use super::memory::SharedMemory;

const HEAD: &str = "protocol ether { dst : u48; src : u48; type : u16; demux { 14 }; }\n";
const INNER: &str = "protocol inner { first : u8; second : u8; demux { 2 }; }\n";
const PORT: u8 = 3;
const LOOPBACK: u32 = 1;

fn program(text: &str) -> Arc<Program> {
    let text = format!("{HEAD}{INNER}{text}");
    let checked = baker::check::check("t.baker", &text, &baker::library::Library);
    let Some(typed) = checked.program else {
        panic!("{}", baker::diag::render(&checked.diagnostics, &checked.sources, false));
    };
    Arc::new(baker::ir::lower(&typed))
}

struct Rig {
    program: Arc<Program>,
    memory: SharedMemory,
    loaded: Loaded,
}

impl Rig {
    fn new(text: &str) -> Rig {
        Rig::with(text, Options::default())
    }

    fn with(text: &str, options: Options) -> Rig {
        let program = program(text);
        assert_eq!(bpf::obstacles(&program), []);
        let memory = SharedMemory::new(&program).unwrap();
        memory.set_port(LOOPBACK, PORT, None, true);
        let loaded = Loaded::compile(&program, Level::Cgpc, &memory, options).unwrap();
        Rig { program, memory, loaded }
    }

    fn dropped(&self, reason: DropId) -> u64 {
        self.memory.counter(CounterSlots::new(&self.program).drop(reason))
    }
}

fn packet() -> Vec<u8> {
    (0..60).collect()
}

fn to_port(number: &str) -> String {
    format!(
        "module m {{ in ether input; out ether output;
            ppf p(ether_packet_t *pkt) from input {{
                pkt->type = 7; pkt->metadata.tx.port = {number}; channel_put(output, pkt);
            }} }}
        program {{ rx -> m.input; m.output -> tx; }}"
    )
}

#[test]
fn out_of_the_same_port_another_one_and_none() {
    let rig = Rig::new(&to_port("pkt->metadata.rx.port"));
    let ran = rig.loaded.run(&packet()).unwrap();
    assert_eq!(ran.verdict, Verdict::Transmit as u32);
    assert_eq!(ran.packet[12..14], [0, 7]);
    // An interface that cannot send what came in by it.
    rig.memory.set_port(LOOPBACK, PORT, None, false);
    assert_eq!(rig.loaded.run(&packet()).unwrap().verdict, Verdict::Drop as u32);
    assert_eq!(rig.dropped(DropId::NO_WORKER), 1);
    let rig = Rig::new(&to_port("9"));
    assert_eq!(rig.loaded.run(&packet()).unwrap().verdict, Verdict::Drop as u32);
    assert_eq!(rig.dropped(DropId::NO_WORKER), 1, "a port of workers, or none: they know");
    rig.loaded.ports().set_device(9, Some(LOOPBACK)).unwrap();
    assert_eq!(rig.loaded.run(&packet()).unwrap().verdict, Verdict::Redirect as u32);
    assert_eq!(rig.dropped(DropId::NO_WORKER), 1);
    // Nothing is port 0, not even the interface of no port.
    let rig = Rig::new(&to_port("0"));
    rig.memory.set_port(LOOPBACK, 0, None, true);
    let ran = rig.loaded.run(&packet()).unwrap();
    assert_eq!((ran.verdict, rig.dropped(DropId::NO_WORKER)), (Verdict::Drop as u32, 1));
    let (punt, _, rest) = Punt::read(&rig.program, &ran.packet).unwrap();
    assert_eq!((punt, rest[12..14].to_vec()), (Punt { channel: 1, generation: 0, head: 0 }, vec![0, 7]));
}

#[test]
fn to_the_host_without_a_header() {
    let rig = Rig::new(
        "module m { in ether input; out ether output;
            ppf p(ether_packet_t *pkt) from input {
                inner_packet_t *i = packet_decap(pkt); i->first = 9;
                ether_packet_t *e = packet_encap(i); channel_put(output, packet_encap(e));
            } }
        program { rx -> m.input; m.output -> host; }",
    );
    let ran = rig.loaded.run(&packet()).unwrap();
    assert_eq!(ran.verdict, Verdict::Pass as u32);
    let good = |packet: &[u8]| {
        assert_eq!(packet.len(), 74, "two headers of 14 bytes in place of one");
        assert_eq!((&packet[..28], packet[28], packet[29]), (&[0; 28][..], 9, 15));
    };
    good(&ran.packet);
    // To a port that takes it: to its device, or a worker.
    rig.memory.set_port(LOOPBACK, PORT, Some(7), true);
    let ran = rig.loaded.run(&packet()).unwrap();
    assert_eq!((ran.verdict, rig.dropped(DropId::NO_WORKER)), (Verdict::Drop as u32, 1));
    let (punt, _, rest) = Punt::read(&rig.program, &ran.packet).unwrap();
    assert_eq!(punt, Punt { channel: 1, generation: 0, head: 0 });
    good(rest);
    rig.loaded.ports().set_device(7, Some(LOOPBACK)).unwrap();
    let ran = rig.loaded.run(&packet()).unwrap();
    assert_eq!(ran.verdict, Verdict::Redirect as u32);
    good(&ran.packet);
}

#[test]
fn what_goes_on_outside_has_channel_head_and_metadata_in_front() {
    let rig = Rig::new(
        "metadata { note : u32; }
        module m { in ether input; out inner punted;
            ppf p(ether_packet_t *pkt) from input {
                pkt->metadata.note = 0x01020304; channel_put(punted, packet_decap(pkt));
            } }
        program { rx -> m.input; m.punted -> controller c; }",
    );
    // It is not taken, but it can be looked at.
    let ran = rig.loaded.run(&packet()).unwrap();
    assert_eq!(ran.verdict, Verdict::Drop as u32);
    assert_eq!(rig.dropped(DropId::NO_WORKER), 1);
    let (punt, metadata, rest) = Punt::read(&rig.program, &ran.packet).unwrap();
    assert_eq!(punt, Punt { channel: 1, generation: 0, head: 14 });
    let field = rig.program.metadata.iter().find(|field| field.name == "note").unwrap();
    assert_eq!(metadata[field.offset as usize..][..4], 0x01020304u32.to_ne_bytes());
    assert_eq!(metadata[rig.program.metadata[0].offset as usize], PORT);
    assert_eq!(rest, &packet()[14..]);
    assert_eq!(Punt::read(&rig.program, &ran.packet[..10]), None);
}

const LEARN: &str = "module m { in ether input; hash<u48, u32> known[16]; counter full;
        ppf p(ether_packet_t *pkt) from input {
            if (!table_insert(known, pkt->src, 5)) counter_add(full, 1);
            packet_drop(pkt, malformed);
        } }
    program { rx -> m.input; }";

#[test]
fn the_process_sees_what_the_kernel_inserts() {
    let rig = Rig::new(LEARN);
    for last in 0..20 {
        let mut packet = packet();
        packet[11] = last;
        rig.loaded.run(&packet).unwrap();
    }
    let (tables, known) = (rig.memory.tables(), TableId(0));
    assert_eq!(tables.count(known), 16);
    let key = u128::from_be_bytes([0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 6, 7, 8, 9, 10, 3]);
    assert_eq!(tables.get(known, &[key], None).unwrap(), [5]);
    let slots = CounterSlots::new(&rig.program);
    assert_eq!(rig.memory.counter(slots.user(CounterId(0))), 4);
    assert_eq!(rig.memory.counter(slots.table_full(known)), 4);
    // What the process removes makes room.
    tables.remove(known, &[key], None).unwrap();
    tables.insert(known, &TableEntry { key: vec![7], prefix_len: None, value: vec![1] }).unwrap();
    assert_eq!(tables.count(known), 16);
}

#[test]
fn a_lock_that_is_not_given_up_drops_the_packet() {
    let rig = Rig::new(LEARN);
    let TableLocation::Hash { numbers, .. } = rig.memory.memory().tables[0] else { panic!("a hash table") };
    // The lock is the first word.
    let lock = rig.memory.word(numbers as usize);
    lock.store(1, Ordering::Relaxed);
    assert_eq!(rig.loaded.run(&packet()).unwrap().verdict, Verdict::Drop as u32);
    assert_eq!((rig.dropped(DropId::TABLE_BUSY), rig.dropped(DropId::MALFORMED)), (1, 0));
    lock.store(0, Ordering::Relaxed);
    rig.loaded.run(&packet()).unwrap();
    assert_eq!((rig.dropped(DropId::TABLE_BUSY), rig.dropped(DropId::MALFORMED)), (1, 1));
    assert_eq!(rig.memory.tables().count(TableId(0)), 1);
}

#[test]
fn instructions_know_where_they_come_from() {
    let program = program(LEARN);
    let memory = SharedMemory::new(&program).unwrap();
    let object = bpf::compile(&program, Level::Base, memory.memory(), Options::default()).unwrap();
    let span = |index: usize| object.location(index).and_then(|location| location.span);
    let in_ppf = (0..object.code.len() / 8).filter(|index| span(*index).is_some());
    assert!(in_ppf.count() > 100, "{:?}", object.locations);
    assert!(object.locations.iter().any(|(_, location)| location.ppf == "m.p" && location.span.is_some()));
    assert!(object.stack <= 512);
}

#[test]
fn what_the_kernel_cannot_do_has_a_reason_and_a_place() {
    let program = program(
        "module m { in ether input; out ether output; extern u8 ask(u8 n);
            ppf p(ether_packet_t *pkt) from input {
                if (pkt->src == 1) channel_put(output, packet_copy(pkt));
                pkt->metadata.tx.port = ask(1);
                channel_put(output, pkt);
            } }
        program { rx -> m.input; m.output -> tx; }",
    );
    let obstacles = bpf::obstacles(&program);
    let said: Vec<String> = obstacles.iter().map(|obstacle| obstacle.reason.to_string()).collect();
    let wanted = ["copies the packet", "calls a function of a controller"];
    assert_eq!(said.len(), wanted.len(), "{said:?}");
    assert!(said.iter().zip(wanted).all(|(said, wanted)| said.starts_with(wanted)), "{said:?}");
    assert!(obstacles.iter().all(|obstacle| obstacle.span.is_some()));
}

/// `heavy` goes through more instructions than the verifier does. `others` are PPFs in front of it.
fn heavy(channels: &str, others: &str, from: &str) -> Arc<Program> {
    program(&format!(
        "module m {{ in ether input; out ether output; {channels} hash<u32, u32> marks[256];
            {others}
            ppf heavy(ether_packet_t *pkt) from {from} {{
                u32 n = (u32) pkt->src;
                for (u32 i = 0; i < 4000; i++) {{
                    u32 *mark = marks[n];
                    if (mark != null) n = n * 3 + *mark;
                    u32 *other = marks[n + 1];
                    if (other != null) n = n * 5 + *other;
                }}
                pkt->src = (u48) n;
                channel_put(output, pkt);
            }} }}
        program {{ rx -> m.input; m.output -> tx; }}"
    ))
}

#[test]
fn a_ppf_that_is_too_much_goes_to_workers() {
    for apart in [false, true] {
        let program = heavy(
            "channel ether all, even;",
            "ppf p(ether_packet_t *pkt) from input { pkt->dst = 1; channel_put(even, pkt); }
            ppf light(ether_packet_t *pkt) from even {
                pkt->metadata.tx.port = pkt->metadata.rx.port;
                if (pkt->type == 7) channel_put(output, pkt); else channel_put(all, pkt);
            }",
            "all",
        );
        let partitioned = super::partition(&program, Level::Cgpc, Options { apart, ..Options::default() }).unwrap();
        let why: Vec<_> = partitioned.placement.stages.iter().map(|stage| format!("{stage:?}")).collect();
        assert_eq!(why[..2], ["Kernel([])", "Kernel([])"]);
        assert!(why[2].contains("is too much for the kernel: the kernel's verifier gives up"), "{why:?}");
        let (memory, loaded) = partitioned.made.unwrap();
        assert_eq!(loaded.tier(), if apart { Tier::Aggregates } else { Tier::Whole });
        memory.set_port(LOOPBACK, PORT, None, true);
        let mut packet = packet();
        packet[12..14].copy_from_slice(&[0, 7]);
        let ran = loaded.run(&packet).unwrap();
        assert_eq!((ran.verdict, &ran.packet[..6]), (Verdict::Transmit as u32, &[0, 0, 0, 0, 0, 1][..]));
        packet[13] = 8;
        // What goes on outside is not taken.
        assert_eq!(loaded.run(&packet).unwrap().verdict, Verdict::Drop as u32);
        let slots = CounterSlots::new(&partitioned.split.workers);
        assert_eq!(memory.counter(slots.drop(DropId::NO_WORKER)), 1);
    }
}

#[test]
fn where_nothing_is_left_for_the_kernel() {
    let program = heavy("", "", "input");
    let partitioned = super::partition(&program, Level::Cgpc, Options::default()).unwrap();
    assert!(partitioned.made.is_none() && !partitioned.placement.any_kernel());
}

/// A put that something follows, one that nothing follows, metadata and the time on the way.
const HANDED_ON: &str = "metadata { mark : u32; }
        module m { in ether input; out ether output; channel ether one, two; channel inner inside; counter seen[4];
            ppf p(ether_packet_t *pkt) from input {
                pkt->metadata.mark = (u32) now_ns();
                if (pkt->type == 1) { channel_put(one, pkt); counter_add(seen[0], 1); }
                else channel_put(inside, packet_decap(pkt));
            }
            ppf first(ether_packet_t *pkt) from one {
                counter_add(seen[1], 1);
                pkt->metadata.tx.port = pkt->metadata.rx.port;
                channel_put(two, pkt);
            }
            ppf second(ether_packet_t *pkt) from two { pkt->dst = (u48) pkt->metadata.mark; channel_put(output, pkt); }
            ppf deep(inner_packet_t *pkt) from inside {
                pkt->first = 9;
                ether_packet_t *out = packet_encap(pkt);
                out->src = (u48) out->metadata.mark;
                out->metadata.tx.port = out->metadata.rx.port;
                channel_put(output, out);
            } }
        program { rx -> m.input; m.output -> tx; }";

#[test]
fn parts_hand_on_what_they_know() {
    let program = program(HANDED_ON);
    let memory = SharedMemory::new(&program).unwrap();
    memory.set_port(LOOPBACK, PORT, None, true);
    memory.set_now(0x01020304);
    for spill in [false, true] {
        let options = Options { apart: true, spill, recorded: true, ..Options::default() };
        // Each PPF by itself.
        let loaded = Loaded::compile(&program, Level::Pac, &memory, options).unwrap();
        assert_eq!(loaded.tier(), Tier::Aggregates);
        let mut packet = packet();
        packet[12..14].copy_from_slice(&[0, 1]);
        let ran = loaded.run(&packet).unwrap();
        assert_eq!((ran.verdict, &ran.packet[..6]), (Verdict::Transmit as u32, &[0, 0, 1, 2, 3, 4][..]));
        packet[13] = 2;
        let ran = loaded.run(&packet).unwrap();
        assert_eq!(ran.verdict, Verdict::Transmit as u32);
        assert_eq!(ran.packet[6..15], [0, 0, 1, 2, 3, 4, 0, 0, 9]);
    }
    let slots = CounterSlots::new(&program);
    assert_eq!([0, 1].map(|cell| memory.counter(slots.user(CounterId(0)) + cell)), [2, 2]);
}

const LOOKS_UP: &str = "module m { in ether input; out ether output; lpm<u48, u32> far[64]; hash<u48, u64> known[16];
        ppf p(ether_packet_t *pkt) from input {
            u32 *mark = far[pkt->dst];
            if (mark != null) pkt->type = (u16) (*mark % 1000);
            u64 *seen = known[pkt->src];
            if (seen == null) table_insert(known, pkt->src, 1); else *seen = *seen * 3;
            pkt->metadata.tx.port = pkt->metadata.rx.port;
            channel_put(output, pkt);
        } }
    program { rx -> m.input; m.output -> tx; }";

/// What the kernel does the virtual machine does, too, and counts; tables are the same bytes afterwards.
#[test]
fn the_virtual_machine_does_what_the_kernel_does() {
    let mut counts = Vec::new();
    let ways = [(LEARN, false, false), (HANDED_ON, false, false), (HANDED_ON, true, true), (LOOKS_UP, false, true)];
    for (text, apart, spill) in ways {
        let program = program(text);
        let memory = SharedMemory::new(&program).unwrap();
        memory.set_port(LOOPBACK, PORT, None, true);
        memory.set_now(0x01020304);
        if text == LOOKS_UP {
            for len in [0, 3, 8, 20, 33, 48] {
                let key = 0x0001_0203_0405u128 >> (48 - len) << (48 - len);
                let entry = TableEntry { key: vec![key], prefix_len: Some(len), value: vec![u128::from(len) * 77] };
                memory.tables().insert(TableId(0), &entry).unwrap();
            }
        }
        let options = Options { apart, spill, recorded: true, ..Options::default() };
        let take = |object: &Object| Ok::<_, Refusal<CodegenError>>(object.clone());
        let accepted = bpf::compile_tiered(&program, Level::Pac, memory.memory(), options, bpf::ANYTHING, take);
        let Ok(accepted) = accepted else { panic!("too much") };
        let parts: Vec<_> = accepted.parts.iter().map(|(ppf, part)| (ppf.0, part)).collect();
        let mut machine = Machine::of(&accepted.first, &parts, Map::Memory(memory.contents()));
        let loaded = Loaded::compile(&program, Level::Pac, &memory, options).unwrap();
        let mut instructions = 0;
        for n in 0..40u8 {
            let mut packet = packet();
            (packet[n as usize % 6], packet[11]) = (n, n % 24);
            packet[12..14].copy_from_slice(&[0, n % 3]);
            packet.truncate(60 - n as usize % 4);
            let found = machine.run(&packet, LOOPBACK, 0).unwrap();
            let ran = loaded.run(&packet).unwrap();
            assert_eq!((found.verdict, &found.packet), (ran.verdict, &ran.packet), "packet {n}");
            instructions += found.instructions;
        }
        let Memory { own, cpus, .. } = *memory.memory();
        let behind = (own + Memory::of_cpus(&program, cpus)) as usize;
        let (wanted, found) = (memory.contents(), machine.memory(0).unwrap());
        // What is the CPUs' own may be another one's.
        assert!(wanted[TABLES as usize..own as usize] == found[TABLES as usize..own as usize], "tables differ");
        assert!(wanted[behind..] == found[behind..], "what is behind them differs");
        counts.push(instructions);
    }
    assert!(counts.iter().all(|count| (40 * 20..40 * 5000).contains(count)), "{counts:?}");
    assert!(counts[2] > counts[1], "{counts:?}: parts and values in memory cost something");
}

#[test]
fn faults_of_code_are_said() {
    let run = |code: &[[u8; 8]]| {
        let image = Image { code: code.concat(), maps: Vec::new() };
        Machine::new(vec![image], Vec::new()).run(&packet(), 1, 0).map_err(|fault| fault.to_string())
    };
    // r0 = 2; exit
    let two = [[0xb7, 0, 0, 0, 2, 0, 0, 0], [0x95, 0, 0, 0, 0, 0, 0, 0]];
    assert_eq!(run(&two).map(|ran| (ran.verdict, ran.instructions, ran.calls)), Ok((2, 2, 0)));
    assert_eq!(run(&two[..1]).unwrap_err(), "instruction 1: the end of the code");
    // goto -1
    assert!(run(&[[0x05, 0, 0xff, 0xff, 0, 0, 0, 0]]).unwrap_err().contains("more than"));
    // call 9999
    assert!(run(&[[0x85, 0, 0, 0, 0x0f, 0x27, 0, 0]]).unwrap_err().contains("function 9999"));
    // r0 = *(u64 *)(r10 + 0), behind the stack
    assert!(run(&[[0x79, 0xa0, 0, 0, 0, 0, 0, 0]]).unwrap_err().starts_with("instruction 0: 8 bytes at"));
}
