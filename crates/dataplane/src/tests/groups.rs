//! Packets to all members of a group: each gets a packet of its own, in order, once, on each engine.

use std::collections::BTreeMap;
use std::sync::Arc;

use baker::ir::{CounterSlots, DropId, Program, TableError, TableId, TableStore};
use baker::opt::Level;
use codegen::OptLevel;

use crate::controller::{Group, NamedTables};
use crate::step::Stepper;
use crate::testing::{SplitMix64, compiled};
use crate::{Access, EngineKind};

const ENGINES: [EngineKind; 3] =
    [EngineKind::Interp, EngineKind::Native(OptLevel::O0, Level::Base), EngineKind::NATIVE];

/// `type` says the group. A packet for a member says which it is, and what its value is.
pub(super) fn program(groups: u32, members: u32) -> Arc<Program> {
    compiled(&format!(
        "import \"net/ether\";
        drop_reason has_left;
        struct viewer_t {{ port : port_t; mac : mac_addr_t; }}
        module m {{
            in  ether input;
            out ether output;
            channel ether to_viewer;
            group<viewer_t> viewers[{groups}] of {members};
            ppf p(ether_packet_t *pkt) from input {{
                channel_put_all(to_viewer, viewers[pkt->type], pkt);
            }}
            ppf one(ether_packet_t *pkt) from to_viewer {{
                viewer_t *viewer = group_member(viewers, pkt);
                packet_require(viewer != null, has_left);
                pkt->dst = viewer->mac;
                pkt->type = (u16) pkt->metadata.member;
                pkt->metadata.tx.port = viewer->port;
                channel_put(output, pkt);
            }}
        }}
        program {{ rx -> m.input; m.output -> tx; }}"
    ))
}

/// A packet to a group, with a number.
pub(super) fn packet(group: u16, number: u64, len: usize) -> Vec<u8> {
    let mut packet = vec![0; 6];
    packet.extend(&number.to_be_bytes()[2..]);
    packet.extend(group.to_be_bytes());
    packet.extend((14..len).map(|at| (number as usize * 31 + at) as u8));
    packet
}

pub(super) fn number(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0, |number, byte| number << 8 | u64::from(*byte))
}

fn reason(program: &Program, name: &str) -> usize {
    let index = program.drop_reasons.iter().position(|reason| reason.name == name).unwrap();
    CounterSlots::new(program).drop(DropId(index as u32))
}

#[test]
fn each_member_gets_a_packet_of_its_own() {
    const GROUPS: u32 = 5;
    let program = program(GROUPS, 300);
    for seed in 0..4 {
        for engine in ENGINES {
            let mut random = SplitMix64(seed);
            let mut stepper = Stepper::new(program.clone(), engine).unwrap();
            let mut group: Group<(u8, u64)> =
                NamedTables::new(program.clone(), stepper.tables()).group("m.viewers").unwrap();
            let mut model: BTreeMap<(u32, u32), (u8, u64)> = BTreeMap::new();
            let (mut none, mut copies) = (0, 0);
            for step in 0..1500 {
                let of = random.below(u64::from(GROUPS)) as u32;
                match random.below(6) {
                    0..3 => {
                        let value = (random.below(200) as u8, random.below(1 << 48));
                        let free = (0..).find(|member| !model.contains_key(&(of, *member))).unwrap();
                        let wanted = if model.len() < 300 { Ok(free) } else { Err(TableError::Full) };
                        assert_eq!(group.join(of, &value), wanted);
                        wanted.into_iter().for_each(|member| _ = model.insert((of, member), value));
                    }
                    3 => {
                        let member = random.below(150) as u32;
                        assert_eq!(group.leave(of, member), model.remove(&(of, member)).is_some());
                    }
                    4 => {
                        let (member, value) = (random.below(60) as u32, (7, random.below(1 << 48)));
                        if model.contains_key(&(of, member)) {
                            group.set(of, member, &value).unwrap();
                            model.insert((of, member), value);
                        }
                        assert_eq!(group.get(of, member), model.get(&(of, member)).copied());
                    }
                    _ => {
                        // One group there is not.
                        let of = if random.below(20) == 0 { GROUPS } else { of };
                        let len = 60 + random.below(1300) as usize;
                        let sent = packet(of as u16, step, len);
                        let members = model.range((of, 0)..=(of, u32::MAX));
                        let wanted: Vec<(u8, Vec<u8>)> = members
                            .map(|((_, member), (port, mac))| {
                                let mut bytes = sent.clone();
                                bytes[..6].copy_from_slice(&mac.to_be_bytes()[2..]);
                                bytes[12..14].copy_from_slice(&(*member as u16).to_be_bytes());
                                (*port, bytes)
                            })
                            .collect();
                        none += u64::from(wanted.is_empty());
                        copies += wanted.len();
                        stepper.set_access(Access::ALL[random.below(3) as usize]);
                        let found = stepper.receive(1, &sent).into_iter();
                        let found: Vec<_> = found.map(|output| (output.metadata[1] as u8, output.bytes)).collect();
                        assert!(found == wanted, "{engine:?} seed {seed} step {step}");
                    }
                }
                assert_eq!(group.len(), model.len());
            }
            let members = model.range((1, 0)..(2, 0)).map(|((_, member), value)| (*member, *value));
            assert!(group.members(1).into_iter().eq(members));
            assert_eq!(stepper.counters()[reason(&program, "no_member")], none, "{engine:?}");
            assert!(copies > 1000 && none > 0, "{copies} {none}");
            stepper.check_frames().unwrap();
        }
    }
}

#[test]
fn who_is_no_member_is_refused() {
    let program = program(4, 10);
    for engine in ENGINES {
        let mut stepper = Stepper::new(program.clone(), engine).unwrap();
        let mut entry = |group: u128, member: u128| {
            let entry = baker::ir::TableEntry { key: vec![group, member], prefix_len: None, value: vec![1, 2] };
            stepper.insert(TableId(0), &entry)
        };
        assert_eq!(entry(4, 0), Err(TableError::OutOfRange));
        assert_eq!(entry(0, 10), Err(TableError::OutOfRange));
        assert_eq!(entry(3, 9), Ok(()));
        let mut group: Group<(u8, u64)> =
            NamedTables::new(program.clone(), stepper.tables()).group("m.viewers").unwrap();
        assert!(!group.leave(4, 0) && !group.leave(3, 10) && !group.leave(3, 8));
        assert_eq!(group.join(4, &(1, 1)), Err(TableError::OutOfRange));
        assert!((0..9).all(|member| group.join(3, &(1, 1)) == Ok(member)));
        assert_eq!(group.join(3, &(1, 1)), Err(TableError::Full));
        assert_eq!(group.join(0, &(1, 1)), Err(TableError::Full));
        let found = stepper.receive(1, &packet(3, 1, 60));
        assert!(found.iter().map(|output| number(&output.bytes[12..14])).eq(0..10));
    }
}

#[test]
fn what_is_behind_a_group_may_wait_again() {
    let program = compiled(
        "import \"net/ether\";
        module m {
            in  ether input;
            out ether output, all;
            channel ether first, second, paced;
            group<u16> outer[2] of 50;
            group<u32> inner of 50;
            queue line of 500;
            ppf p(ether_packet_t *pkt) from input {
                ether_packet_t *copy = packet_copy(pkt);
                channel_put_all(first, outer[pkt->type], pkt);
                channel_put_all(all, inner, copy);
            }
            ppf one(ether_packet_t *pkt) from first {
                u16 *of = group_member(outer, pkt);
                u32 *other = group_member(inner, pkt);
                if (other != null || of == null) { packet_drop(pkt, malformed); return; }
                pkt->type = *of;
                channel_put_all(second, inner, pkt);
            }
            ppf two(ether_packet_t *pkt) from second {
                u32 *of = group_member(inner, pkt);
                u16 *other = group_member(outer, pkt);
                if (other != null || of == null) { packet_drop(pkt, malformed); return; }
                pkt->dst = *of;
                channel_put_at(paced, line, pkt, now_ns() + 1ms);
            }
            ppf three(ether_packet_t *pkt) from paced {
                u32 *of = group_member(inner, pkt);
                pkt->src = of != null ? *of + pkt->metadata.group : 0;
                channel_put(output, pkt);
            }
        }
        program { rx -> m.input; m.output -> tx; m.all -> host; }",
    );
    for engine in ENGINES {
        let mut stepper = Stepper::new(program.clone(), engine).unwrap();
        let tables = NamedTables::new(program.clone(), stepper.tables());
        let (outer, mut inner) = (tables.group::<u16>("m.outer").unwrap(), tables.group::<u32>("m.inner").unwrap());
        (0..3).for_each(|n| assert_eq!(outer.join(1, &(n + 100)), Ok(u32::from(n))));
        (0..4).for_each(|n| assert_eq!(inner.join(0, &(n + 1000)), Ok(n)));
        let now = stepper.receive(1, &packet(1, 77, 1000));
        assert!(now.iter().all(|output| output.bytes == packet(1, 77, 1000)));
        assert_eq!(now.len(), 4, "what goes to no PPF leaves");
        inner.leave(0, 2);
        let later = stepper.advance(1_000_000);
        let found: Vec<_> =
            later.iter().map(|output| [12..14, 0..6, 6..12].map(|bytes| number(&output.bytes[bytes]))).collect();
        let wanted = (100..103)
            .flat_map(|first| (1000..1004).map(move |second| [first, second, if second == 1002 { 0 } else { second }]));
        assert_eq!(found, wanted.collect::<Vec<_>>(), "{engine:?}");
        stepper.check_frames().unwrap();
    }
}
