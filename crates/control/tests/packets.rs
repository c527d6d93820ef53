//! Packets as text.

#[path = "../../../tests/support/compile.rs"]
mod common;

use std::path::Path;
use std::sync::Arc;

use baker::ir::Program;
use control::packet::{Condition, Definitions, build, describe, differences, dissect, text};
use proptest::prelude::*;

fn program() -> Arc<Program> {
    common::compile(Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/common/every.baker")))
}

fn definitions() -> Definitions {
    let pairs = [
        ("h1", "02:00:00:00:00:11"),
        ("me", "h1"),
        ("eth", "ether(src=me, type=0x0800)"),
        ("whole", "eth/ipv4(ttl=3)"),
        ("loop_a", "loop_b"),
        ("loop_b", "loop_a"),
        ("bad", "ether(tpye=1)"),
    ];
    pairs.map(|(name, text)| (name.to_owned(), text.to_owned())).into()
}

fn bytes(text: &str) -> Vec<u8> {
    build(&program(), text, &definitions()).unwrap_or_else(|error| panic!("{text}: {error}"))
}

fn error(text: &str) -> String {
    build(&program(), text, &definitions()).unwrap_err().to_string()
}

/// RFC 1071 over a header that holds its checksum: all ones.
fn sums_to_ones(header: &[u8]) -> bool {
    let sum: u32 = header.chunks(2).map(|pair| u32::from(pair[0]) << 8 | u32::from(pair[1])).sum();
    (sum & 0xffff) + (sum >> 16) == 0xffff
}

#[test]
fn layers_and_fields() {
    let frame = bytes("ether(dst=ff:ff:ff:ff:ff:ff, src=02:00:00:00:00:11, type=0x0806)");
    assert_eq!(frame, [0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 2, 0, 0, 0, 0, 0x11, 8, 6]);
    assert_eq!(bytes("hex(00 01f2\n aB)"), [0, 1, 0xf2, 0xab]);
    assert!(bytes("hex()").is_empty());
    assert_eq!(bytes(r#"text("a\"\\\n\r\t\x00é")"#), b"a\"\\\n\r\t\0\xc3\xa9");
    assert_eq!(bytes("hex(01)/zero(3)/hex(02)"), [1, 0, 0, 0, 2]);
    assert_eq!(bytes("hex(01 02)/pad(5)"), [1, 2, 0, 0, 0]);
    assert_eq!(bytes(" ether ( ) / hex ( 01 ) "), [vec![0; 14], vec![1]].concat());
    assert_eq!(bytes("ether"), vec![0; 14]);
}

#[test]
fn bit_fields_defaults_and_checksum() {
    // The header of the example in Wikipedia's "Internet checksum": its checksum is b861.
    let header = "ipv4(total_length=115, flags=2, ttl=64, protocol=17, src=192.168.0.1, dst=192.168.0.199)";
    let expected = [0x45, 0, 0, 0x73, 0, 0, 0x40, 0, 0x40, 0x11, 0xb8, 0x61, 0xc0, 0xa8, 0, 1, 0xc0, 0xa8, 0, 0xc7];
    assert_eq!(bytes(header), expected);
    let fields = bytes("ipv4(dscp=0b101110, ecn=3, flags=5, fragment_offset=0x1555, checksum=0x1234)");
    assert_eq!(fields[..2], [0x45, 0b1011_1011]);
    assert_eq!(fields[6..8], [0b1011_0101, 0x55]);
    assert_eq!(fields[10..12], [0x12, 0x34]);
}

#[test]
fn the_checksum_covers_options_but_not_the_payload() {
    let with = bytes("ipv4(ihl=6, ttl=1)+hex(94 04 00 01)/hex(ff ff)");
    assert_eq!(with.len(), 26);
    assert!(sums_to_ones(&with[..24]));
    let without = bytes("ipv4(ihl=6, ttl=1)/hex(94 04 00 01)");
    assert!(sums_to_ones(&without[..20]));
    assert_ne!(with[10..12], without[10..12]);
    assert_eq!(bytes("ipv4(checksum=7)+hex(01 01 01 01)")[10..12], [0, 7]);
}

#[test]
fn definitions_stand_for_packets_and_values() {
    assert_eq!(bytes("whole/hex(01)"), bytes("ether(src=02:00:00:00:00:11, type=0x0800)/ipv4(ttl=3)/hex(01)"));
    assert_eq!(bytes("ether(dst=me)"), bytes("ether(dst=02:00:00:00:00:11)"));
}

#[test]
fn errors_name_the_column() {
    let layers = "ether, ipv4, arp, hex, text, zero, pad, bad, eth, h1, loop_a, loop_b, me, whole";
    let same = |text: &str, expected: &str| assert_eq!(error(text), expected, "{text}");
    same("", &format!("column 1: expected a layer, found the end; use one of {layers}"));
    same("ether()/", &format!("column 9: expected a layer, found the end; use one of {layers}"));
    same("ether()/ipv6()", &format!("column 9: there is no layer `ipv6`; did you mean `ipv4`?; there are {layers}"));
    same("ether() ipv4()", "column 9: expected `/` or `+` and a layer, or the end, found `i`");
    same("ether(dst=1, tpye=2)", "column 14: ether has no field `tpye`; did you mean `type`?; it has dst, src, type");
    same("ether(dst=1, dst=2)", "column 14: `dst` is given twice");
    same("ether(dst 1)", "column 11: expected `=` after ether.dst, found `1`");
    same("ether(dst=1", "column 12: expected `)` or `,` after ether.dst, found the end");
    same("ether(type=65536)", "column 12: \"65536\" is no value for `type`; use a number from 0 to 65535");
    same("ether(type=-1)", "column 12: \"-1\" is no value for `type`; use a number from 0 to 65535");
    same(
        "ether(dst=10.0.0.1)",
        "column 11: \"10.0.0.1\" is no value for `dst`; \
         use a number from 0 to 281474976710655, or an Ethernet address such as 02:00:00:00:00:01",
    );
    same("é", &format!("column 1: expected a layer, found `é`; use one of {layers}"));
    same("text(\"é\")/hex(0)", "column 15: expected two hexadecimal digits for each byte");
    same("hex(0x12)", "column 5: expected two hexadecimal digits for each byte");
    same("hex(00", "column 7: expected `)` at the end of hex(…), found the end");
    same("hex 00", "column 5: expected `(` after hex, found `0`");
    same("text(hello)", "column 6: expected `\"` before the text, found `h`");
    same("text(\"hello)", "column 6: the text has no closing `\"`");
    same("text(\"\\q\")", "column 6: unknown escape in the text: use \\n \\r \\t \\\\ \\\" or \\xNN");
    same("zero(99999)", "column 6: \"99999\" is not a number of bytes from 0 to 65535");
    same("zero(65535)/zero(1)", "column 13: the packet is longer than 65535 bytes");
    same("zero(9)/pad(8)", "column 13: the packet has 9 bytes already");
    same("hex(00)+hex(01)", "column 9: there is no header that these bytes could be added to");
    same(
        "bad",
        "column 1: in definition bad, column 7: ether has no field `tpye`; did you mean `type`?; it has dst, src, type",
    );
    assert!(error("loop_a").contains("definitions lead to each other more than 16 times"));
    assert!(error("ether(type=loop_a)").contains("definitions lead to each other more than 16 times"));
}

#[test]
fn packets_are_shown_with_their_fields() {
    let program = program();
    let frame =
        bytes("eth/ipv4(ihl=6, total_length=26, ttl=64, src=10.0.1.11, dst=10.0.2.13)+hex(94 04 00 00)/hex(61 62)");
    assert_eq!(
        describe(&program, &frame),
        "ether: dst 00:00:00:00:00:00, src 02:00:00:00:00:11, type 0x0800\n\
         ipv4: version 4, ihl 6, dscp 0, ecn 0, total_length 26, identification 0, flags 0, fragment_offset 0, ttl 64, \
         protocol 0, checksum 0xcec8, src 10.0.1.11, dst 10.0.2.13, 4 bytes of options\n\
         40 bytes, 2 after these headers\n\
         0000  00 00 00 00 00 00 02 00 00 00 00 11 08 00 46 00\n\
         0010  00 1a 00 00 00 00 40 00 ce c8 0a 00 01 0b 0a 00\n\
         0020  02 0d 94 04 00 00 61 62\n"
    );
    assert_eq!(
        text(&program, &frame),
        "ether(src=02:00:00:00:00:11, type=0x0800)\
         /ipv4(ihl=6, total_length=26, ttl=64, src=10.0.1.11, dst=10.0.2.13)+hex(94 04 00 00)/hex(61 62)"
    );
    let arp = bytes("ether(type=0x0806)/arp(operation=1, sender_mac=h1, sender_ip=10.0.1.11)/zero(18)");
    assert_eq!(
        text(&program, &arp),
        "ether(type=0x0806)/arp(operation=1, sender_mac=02:00:00:00:00:11, sender_ip=10.0.1.11)/zero(18)"
    );
    assert_eq!(text(&program, &[1, 2, 3]), "hex(01 02 03)");
    assert_eq!(text(&program, &[]), "hex()");
    assert_eq!(describe(&program, &[]), "0 bytes, 0 after these headers\n");
}

#[test]
fn a_wrong_checksum_is_shown_and_a_right_one_is_not() {
    let program = program();
    let right = bytes("eth/ipv4(ttl=9)");
    assert!(!text(&program, &right).contains("checksum"));
    let mut wrong = right.clone();
    wrong[24] ^= 1;
    assert!(text(&program, &wrong).contains("checksum=0x"));
}

#[test]
fn headers_cut_short_are_bytes() {
    let program = program();
    let whole = bytes("eth/ipv4(ihl=6)+hex(01 01 01 01)");
    assert_eq!(dissect(&program, &whole).len(), 2);
    assert_eq!(dissect(&program, &whole[..37]).len(), 1, "options beyond the end");
    assert_eq!(dissect(&program, &whole[..13]).len(), 0);
}

#[test]
fn differences_by_field_and_byte() {
    let program = program();
    let a = bytes("eth/ipv4(ttl=64, dst=10.0.2.13)/hex(01)");
    let b = bytes("eth/ipv4(ttl=63, dst=10.0.2.13)/hex(01 02)");
    assert_eq!(differences(&program, &a, &a), "");
    assert_eq!(
        differences(&program, &a, &b),
        "length: expected 35, found 36\n\
         ipv4.ttl: expected 64, found 63\n\
         ipv4.checksum: expected 0x6ef2, found 0x6ff2\n\
         0010  expected  00 00 00 00 00 00 40 00 6e f2 00 00 00 00 0a 00\n\
         \u{20}     found     00 00 00 00 00 00 3f 00 6f f2 00 00 00 00 0a 00\n\
         \u{20}                                 ^^    ^^\n\
         0020  expected  02 0d 01\n\
         \u{20}     found     02 0d 01 02\n\
         \u{20}                        ^^\n"
    );
}

thread_local! { static SHARED: Arc<Program> = program(); }

proptest! {
    /// What is shown is what was: for arbitrary bytes, also where they look like headers.
    #[test]
    fn shown_text_builds_the_same_bytes(
        kind in prop::sample::select(vec![0x0800u16, 0x0806, 0x1234]),
        first in prop::sample::select(vec![0x45u8, 0x46, 0x4f, 0x40, 0x65]),
        rest in prop::collection::vec(any::<u8>(), 0..90),
        cut in 0usize..110,
    ) {
        let program = SHARED.with(Arc::clone);
        let mut frame = [&[2; 12][..], &kind.to_be_bytes(), &[first], &rest].concat();
        frame.truncate(cut);
        let shown = text(&program, &frame);
        prop_assert_eq!(build(&program, &shown, &Definitions::new()), Ok(frame.clone()), "{}", shown);
        let other: Vec<u8> = frame.iter().rev().copied().collect();
        prop_assert_eq!(differences(&program, &frame, &other).is_empty(), frame == other);
    }

    /// No text makes the reader of conditions panic, and no packet what it has read.
    #[test]
    fn any_condition_is_read_or_refused(
        text in "((ether|ipv4|dst|ttl|==|!=|<=|&&|\\|\\||[a-f0-9(). !&|^+*/%<>=~;?:-]){0,4})*",
        packet in prop::collection::vec(any::<u8>(), 0..80),
    ) {
        let program = SHARED.with(Arc::clone);
        if let Ok(condition) = Condition::read(&program, &text) {
            condition.holds(&program, &packet);
        }
    }

    /// No text makes the builder panic.
    #[test]
    fn any_text_gives_bytes_or_an_error(
        text in "((ether|ipv4|hex|text|zero|pad|whole|loop_a|dst|ttl)?[a-f0-9(),/+=:.\" \\\\é]{0,6})*",
    ) {
        let program = SHARED.with(Arc::clone);
        if let Err(error) = build(&program, &text, &definitions()) {
            prop_assert!((1..=text.chars().count() + 1).contains(&error.column));
        }
    }
}

#[test]
fn fields_of_any_header_are_compared() {
    let program = program();
    let packet = build(&program, "ether(type=0x0800)/ipv4(ttl=9, dst=10.0.1.80)/hex(01)", &Definitions::default());
    let packet = packet.unwrap();
    for (text, holds) in [
        ("ipv4.ttl=9", true),
        ("ipv4.ttl = 0x9", true),
        ("ether.type=0x0800", true),
        ("ipv4.dst=10.0.1.80", true),
        ("ipv4.dst=10.0.1.81", false),
        ("ipv4.dst == 10.0.1.80", true),
        ("ipv4.dst != 10.0.1.80", false),
        ("ipv4.ttl < 9", false),
        ("ipv4.ttl <= 9 && 9 <= ipv4.ttl", true),
        ("ipv4.ttl > 8 && !(ipv4.ttl >= 10)", true),
        ("ipv4.ttl=8 || ipv4.dst=10.0.1.80", true),
        ("ipv4.dst == 10.0.0.0/8", true),
        ("ipv4.dst = 10.0.1.80/32 && 10.0.1.0/26 != ipv4.dst", true),
        ("ipv4.dst != 0.0.0.0/0", false),
        ("(ipv4.dst & 0xffff0000) == 10.0.0.0", true),
        ("(ipv4.dst & 0xffff0000) == 10.1.0.0", false),
        ("ipv4.dst >> 24 == 10", true),
        ("ipv4.ttl + 1 == 10", true),
        ("ipv4.ttl / ipv4.identification == 1", false),
        ("ipv4.src == ipv4.dst", false),
        ("ipv4.src != ipv4.dst", true),
        ("ipv4", true),
        ("ether && !ipv4", false),
        ("ipv4 // has it", true),
        ("ether.type == 0x0800 && ipv4.ttl == 9", true),
    ] {
        assert_eq!(Condition::read(&program, text).unwrap().holds(&program, &packet), holds, "{text}");
    }
    for (text, why) in [
        ("ttl", "no protocol \"ttl\""),
        ("ipv4=3", "\"ipv4\" is no field, such as ipv4.dst"),
        ("ipv.ttl=3", "no protocol \"ipv\"; did you mean"),
        ("ipv4.hops=3", "ipv4 has no field \"hops\""),
        ("ipv4.ttl=256", "ipv4.ttl has 8 bits, too few for 256"),
        ("256 > ipv4.ttl", "ipv4.ttl has 8 bits, too few for 256"),
        ("ipv4.ttl=-1", "\"-1\" is no field, such as ipv4.dst, and no value"),
        ("ipv4.ttl=", "expected"),
        ("", "expected"),
        ("ipv4.ttl", "\"ipv4.ttl\" is a number; compare it with another one, such as ipv4.ttl == 1"),
        ("ipv4.ttl & 1", "\"ipv4.ttl & 1\" is a number"),
        ("ipv4.ttl & 1 == 1", "the comparison comes first; put what is compared in parentheses"),
        ("ipv4.dst == 10.0.0.0/33", "this is no prefix of 32 bits, which ipv4.dst has"),
        ("ipv4.ttl == 10.0.0.0/8", "this is no prefix of 8 bits, which ipv4.ttl has"),
        ("1 == 10.0.0.0/8", "a prefix is compared with a field, by == or !="),
        ("ipv4.dst < 10.0.0.0/8", "a prefix is compared with a field, by == or !="),
        ("ipv4.dst & 10.0.0.0/8 == 1", "the comparison comes first"),
        ("ipv4.dst + (10.0.0.0/8) == 1", "a prefix is compared with a field, by == or !="),
        ("ipv4.dst in 10.0.0.0", "`in` is too much, or an operator is missing in front of it"),
        ("ipv4.ttl <", "expected an expression, but there it ends"),
        ("(ipv4.ttl == 1) == 1", "\"ipv4.ttl == 1\" is no number"),
        ("1 == 1", "\"1 == 1\" says nothing of packets"),
        ("f(ipv4) == 1", "is no field"),
        ("ipv4->ttl == 1", "is no field"),
        ("ipv4; import \"net/ether\"", "it is more than an expression"),
        ("(ipv4", "expected"),
    ] {
        let error = Condition::read(&program, text).unwrap_err();
        assert!(error.contains(why), "{text}: {error}");
    }
}
