//! Fragments of known datagrams, and of any.

use proptest::prelude::*;

use super::*;

/// A fragment of a datagram with an identification, of TCP, from one host to another.
fn fragment(v6: bool, identification: u16, from: usize, more: bool, bytes: &[u8]) -> Vec<u8> {
    let place = (from as u16 & 0xfff8) | u16::from(more);
    let mut frame = vec![7; 12];
    if v6 {
        frame.extend([0x86, 0xdd, 0x60, 0, 0, 0]);
        frame.extend((8 + bytes.len() as u16).to_be_bytes());
        frame.extend([44, 64]);
        frame.extend([[0xfd; 16], [0xfe; 16]].concat());
        frame.extend([6, 0]);
        frame.extend(place.to_be_bytes());
        frame.extend(u32::from(identification).to_be_bytes());
    } else {
        frame.extend([8, 0, 0x45, 0]);
        frame.extend((20 + bytes.len() as u16).to_be_bytes());
        frame.extend(identification.to_be_bytes());
        frame.extend((place >> 3 | (place & 1) << 13).to_be_bytes());
        frame.extend([64, 6, 0, 0, 10, 0, 1, 11, 10, 0, 1, 80]);
    }
    frame.extend(bytes);
    frame
}

/// Takes fragments of the datagram 1, each with where it begins, whether more follows, and its bytes.
fn take(own: &mut Fragments, v6: bool, pieces: &[(usize, bool, &[u8])]) -> Option<Vec<u8>> {
    let mut whole = None;
    for (from, more, bytes) in pieces {
        assert_eq!(whole, None, "it is whole already");
        whole = own.take(1, &fragment(v6, 1, *from, *more, bytes), 0);
    }
    whole
}

fn counts(own: &Fragments) -> Vec<(&'static str, u64)> {
    Fate::ALL
        .into_iter()
        .zip(own.counts)
        .filter(|(_, count)| *count > 0)
        .map(|(fate, count)| (fate.name(), count))
        .collect()
}

#[test]
fn datagrams_are_put_together_in_any_order() {
    let pieces: [(usize, bool, &[u8]); 4] =
        [(0, true, &[1; 16]), (16, true, &[2; 8]), (24, true, &[3; 24]), (48, false, &[4; 5])];
    for order in [[0, 1, 2, 3], [3, 2, 1, 0], [1, 3, 0, 2], [2, 0, 3, 1]] {
        for v6 in [false, true] {
            let mut own = Fragments::default();
            let mut sent = order.map(|at| pieces[at]).to_vec();
            // One comes twice.
            sent.insert(2, sent[0]);
            let whole = take(&mut own, v6, &sent).expect("it is whole");
            let header = if v6 { 54 } else { 34 };
            assert_eq!(whole[header..], [[1; 16].to_vec(), vec![2; 8], vec![3; 24], vec![4; 5]].concat());
            if v6 {
                assert_eq!(whole[18..21], [0, 53, 6]);
            } else {
                assert_eq!((&whole[16..18], &whole[20..22]), (&[0, 73][..], &[0, 0][..]));
                // 4500 0049 0001 0000 4006 .... 0a00 010b 0a00 0150, added by hand.
                assert_eq!(whole[24..26], [0x64, 0x54]);
            }
            assert_eq!((own.memory, own.open.len(), own.order.len(), own.due()), (0, 0, 0, u64::MAX));
        }
    }
}

#[test]
fn what_contradicts_itself_is_dropped_with_all_that_follows() {
    for v6 in [false, true] {
        let bad: [[(usize, bool, &[u8]); 2]; 6] = [
            [(0, true, &[1; 16]), (8, true, &[2; 16])],
            [(8, true, &[1; 16]), (0, true, &[2; 16])],
            [(8, true, &[1; 8]), (0, true, &[1; 24])],
            [(0, true, &[1; 16]), (0, true, &[2; 16])],
            [(16, false, &[1; 8]), (24, true, &[1; 8])],
            [(16, false, &[1; 8]), (16, false, &[1; 9])],
        ];
        for pieces in bad {
            let mut own = Fragments::default();
            assert_eq!(take(&mut own, v6, &pieces), None);
            assert_eq!((counts(&own), own.memory), (vec![("overlapping", 1)], 0), "{pieces:?}");
            // All of it once more: it is too late.
            assert_eq!(take(&mut own, v6, &[(0, true, &[1; 16]), (16, false, &[1; 4])]), None);
            own.expire(LIFE);
            assert_eq!((counts(&own), own.open.len()), (vec![("overlapping", 1)], 0));
            assert!(take(&mut own, v6, &[(0, true, &[1; 16]), (16, false, &[1; 4])]).is_some());
        }
    }
}

#[test]
fn what_is_no_fragment_and_what_is_too_long_is_counted() {
    let mut own = Fragments::default();
    let mut other = fragment(false, 1, 0, true, &[1; 8]);
    other[23] = 17;
    let short = fragment(false, 1, 0, true, &[1; 8]);
    for frame in [&other, &short[..41], &fragment(true, 1, 0, true, &[1; 7]), &fragment(false, 1, 8, false, &[])] {
        assert_eq!(own.take(1, frame, 0), None);
    }
    assert_eq!(take(&mut own, true, &[(LONGEST - 8, true, &[1; 16])]), None);
    assert_eq!(counts(&own), [("too_long", 1), ("malformed", 4)]);
}

/// Others' datagrams, and those of other ports, are not mixed up.
#[test]
fn datagrams_are_told_apart() {
    let mut own = Fragments::default();
    assert_eq!(own.take(1, &fragment(false, 1, 0, true, &[1; 8]), 0), None);
    assert_eq!(own.take(2, &fragment(false, 1, 8, false, &[1; 8]), 0), None);
    assert_eq!(own.take(1, &fragment(false, 2, 8, false, &[1; 8]), 0), None);
    let mut other = fragment(false, 1, 8, false, &[1; 8]);
    other[29] += 1;
    assert_eq!(own.take(1, &other, 0), None);
    assert!(own.take(1, &fragment(false, 1, 8, false, &[1; 8]), 0).is_some());
}

#[test]
fn marks_of_congestion_are_kept() {
    let marked = |mark: u8, from, more| {
        let mut frame = fragment(false, 1, from, more, &[1; 8]);
        frame[15] |= mark;
        frame
    };
    let mut own = Fragments::default();
    own.take(1, &marked(2, 0, true), 0);
    assert_eq!(own.take(1, &marked(3, 8, false), 0).map(|whole| whole[15]), Some(3));
    own.take(1, &marked(0, 0, true), 0);
    assert_eq!(own.take(1, &marked(3, 8, false), 0), None);
    assert_eq!(counts(&own), [("malformed", 1)]);
}

#[test]
fn there_is_a_bound_to_everything() {
    let mut own = Fragments::default();
    for identification in 0..3 * MOST as u16 {
        own.take(1, &fragment(false, identification, 8, true, &[1; 8]), u64::from(identification));
        assert!(own.open.len() <= MOST && own.order.len() == own.open.len());
    }
    assert_eq!(counts(&own), [("evicted", 2 * MOST as u64)]);
    // The oldest have gone.
    assert!(own.take(1, &fragment(false, 3 * MOST as u16 - 1, 0, true, &[1; 8]), 9).is_none());
    own.expire(LIFE + 3 * MOST as u64);
    assert_eq!((counts(&own), own.memory), (vec![("expired", MOST as u64), ("evicted", 2 * MOST as u64)], 0));
    for identification in 0..MOST as u16 {
        own.take(1, &fragment(false, identification, LONGEST - 8, false, &[1; 8]), LIFE * 2);
        assert!(own.memory <= MEMORY, "{}", own.memory);
    }
    let held: usize = own.open.values().map(|own| own.bytes.capacity()).sum();
    assert_eq!(held, own.memory);
}

proptest! {
    /// However a datagram is cut and its fragments come, it is what was sent, or nothing; and memory is counted right.
    #[test]
    fn any_fragments_give_what_was_sent(
        length in 1usize..300,
        cuts in prop::collection::vec((0usize..40, 1usize..20, any::<bool>()), 1..60),
        v6: bool,
    ) {
        let sent: Vec<u8> = (0..length).map(|at| (at * 7) as u8).collect();
        let mut own = Fragments::default();
        for (from, eights, damaged) in cuts {
            let (from, to) = ((from * 8).min(length / 8 * 8), ((from + eights) * 8).min(length));
            let mut bytes = sent[from.min(to)..to].to_vec();
            if damaged && from % 5 == 0 {
                bytes.iter_mut().for_each(|byte| *byte ^= 1);
            }
            if let Some(whole) = own.take(1, &fragment(v6, 9, from, to < length, &bytes), 0) {
                let (found, other): (&[u8], Vec<u8>) = (&whole[if v6 { 54 } else { 34 }..], sent.iter().map(|byte| byte ^ 1).collect());
                // Each byte is of a fragment, and none is made up.
                prop_assert_eq!(found.len(), length);
                prop_assert!(found.iter().zip(sent.iter().zip(&other)).all(|(own, (a, b))| own == a || own == b));
            }
            let held: usize = own.open.values().map(|own| own.bytes.capacity()).sum();
            prop_assert_eq!(held, own.memory);
            for datagram in own.open.values() {
                prop_assert!(datagram.had.windows(2).all(|two| two[0].1 < two[1].0));
            }
        }
    }

    #[test]
    fn nothing_that_comes_is_a_panic(mut frame in prop::collection::vec(any::<u8>(), 0..120), v6: bool) {
        if frame.len() > 54 {
            frame[12..15].copy_from_slice(if v6 { &[0x86, 0xdd, 0x60] } else { &[8, 0, 0x45] });
            (frame[23], frame[20], frame[54]) = (6, if v6 { 44 } else { frame[20] }, 6);
        }
        let _ = Fragments::default().take(1, &frame, 0);
    }
}
