//! What the passes must bring, in numbers of accesses, and what they must leave.

use baker::ir::interp::Machine;
use baker::ir::{Program, verify};
use baker::opt::{Level, optimise};

use super::{accesses, compiled};

fn forwarder(body: &str) -> Program {
    compiled(&format!(
        "import \"net/ether\";\nimport \"net/ipv4\";\nmodule m {{\n in ether input;\n out ether output;\n\
         ppf p(ether_packet_t *pkt) from input {{\n{body}\npkt->metadata.tx.port = 1;\nchannel_put(output, pkt);\n}}\n}}\n\
         program {{ rx -> m.input; m.output -> tx; }}\n"
    ))
}

/// Frames that leave at each level.
fn sent(program: &Program, frame: &[u8]) -> Vec<Vec<u8>> {
    let run = |level| {
        let optimised = optimise(program, level);
        verify(&optimised).unwrap_or_else(|errors| panic!("{errors:?}"));
        let outputs = Machine::new(optimised).receive(1, frame);
        assert_eq!(outputs.len(), 1);
        outputs.into_iter().next().unwrap().packet
    };
    Level::ALL.into_iter().map(run).collect()
}

#[test]
fn fields_of_a_header_are_loaded_and_stored_once() {
    let program = forwarder("mac_addr_t dst = pkt->dst;\npkt->dst = pkt->src;\npkt->src = dst;\npkt->type += 1;");
    assert_eq!(accesses(&program), 6);
    // 14 bytes are two registers: two loads, two stores.
    assert_eq!(accesses(&optimise(&program, Level::Cgpc)), 4);
}

#[test]
fn a_program_that_reads_nothing_accesses_nothing() {
    let program = forwarder("");
    assert_eq!(accesses(&optimise(&program, Level::Cgpc)), 0);
}

#[test]
fn what_is_dropped_is_not_written_back() {
    let program = compiled(
        "import \"net/ether\";\ndrop_reason no;\nmodule m {\n in ether input;\n ppf p(ether_packet_t *pkt) from input {\n\
         pkt->type = 5;\n packet_drop(pkt, no);\n}\n}\nprogram { rx -> m.input; }\n",
    );
    assert_eq!(accesses(&optimise(&program, Level::Cgpc)), 0);
}

#[test]
fn bit_fields_that_share_bytes() {
    let program = forwarder("ipv4_packet_t *ip = packet_peek(pkt);\nip->dscp = 46;\nip->ecn = 1;\nip->flags = 2;");
    let mut frame = vec![0u8; 34];
    frame[14] = 0x45;
    frame[20..22].copy_from_slice(&[0x12, 0x34]);
    let sent = sent(&program, &frame);
    assert_eq!(sent[0][15], 46 << 2 | 1);
    assert_eq!(sent[0][20..22], [0x52, 0x34]);
    assert!(sent.iter().all(|packet| packet == &sent[0]));
}

/// A handle promises no more than its header: an access to bytes that are not there would be a fault.
#[test]
fn short_packets_stay_what_they_are() {
    let program = forwarder("pkt->type = 7;");
    let sent = sent(&program, &[1; 14]);
    assert!(sent.iter().all(|packet| packet[..] == [[1; 12].to_vec(), vec![0, 7]].concat()));
}

/// Instructions of the bodies that packets come to.
fn size(source: &str) -> usize {
    let optimised = optimise(&compiled(source), Level::Cgpc);
    let reached = optimised.reached_ppfs();
    let bodies = optimised.ppfs.iter().zip(reached).filter(|(_, reached)| *reached);
    bodies.flat_map(|(ppf, _)| &ppf.body.blocks).map(|block| block.insts.len()).sum()
}

/// A chain of PPFs is one body, without a copy for each way through it: code grows with the program, not faster.
#[test]
fn code_grows_with_the_program() {
    let (few, many) = (size(&chain(15)), size(&chain(60)));
    assert!(many < 6 * few, "{few} instructions with 15 PPFs, {many} with 60");
}

/// Nor with the number of aggregates times that of the PPFs behind all of them.
#[test]
fn code_grows_with_aggregates_that_share_what_follows() {
    let (few, many) = (size(&mirrors(20)), size(&mirrors(80)));
    assert!(many < 6 * few, "{few} instructions with 20 aggregates, {many} with 80");
}

/// As many PPFs that send a copy into a PPF of its own, as many that all these copies may come to.
fn mirrors(count: usize) -> String {
    let dispatch = |name: &str| {
        let outputs: String = (0..count).map(|i| format!(", r{i}")).collect();
        let puts: String =
            (0..count).map(|i| format!("if (pkt->type == {i}) {{ channel_put(r{i}, pkt); return; }}\n")).collect();
        format!(
            "module {name} {{\n in ether input;\n out ether other{outputs};\n ppf p(ether_packet_t *pkt) from input {{\n\
             {puts}channel_put(other, pkt);\n}}\n}}\n"
        )
    };
    let ppf = |name: String, outputs: &str, body: String| {
        format!(
            "module {name} {{\n in ether input;\n out ether {outputs};\n ppf p(ether_packet_t *pkt) from input {{\n\
             {body}channel_put(o, pkt);\n}}\n}}\n"
        )
    };
    let mut text = format!("import \"net/ether\";\n{}{}", dispatch("first"), dispatch("second"));
    let mut wires = String::from("rx -> first.input;\nfirst.other -> tx;\nsecond.other -> tx;\n");
    for i in 0..count {
        text += &ppf(format!("a{i}"), "o, c", "channel_put(c, packet_copy(pkt));\n".into());
        text += &ppf(format!("x{i}"), "o", format!("pkt->src = {i};\n"));
        text += &ppf(format!("y{i}"), "o", format!("pkt->dst = {i};\n"));
        wires += &format!("first.r{i} -> a{i}.input;\na{i}.c -> x{i}.input;\na{i}.o -> tx;\n");
        wires += &format!("x{i}.o -> second.input;\nsecond.r{i} -> y{i}.input;\ny{i}.o -> tx;\n");
    }
    format!("{text}program {{\n{wires}}}\n")
}

/// PPFs behind each other; every one has two ways to the next.
fn chain(ppfs: usize) -> String {
    let mut text = String::from("import \"net/ether\";\n");
    let mut wires = String::from("rx -> m0.input;\n");
    for i in 0..ppfs {
        text += &format!(
            "module m{i} {{\n in ether input;\n out ether a, b;\n ppf p(ether_packet_t *pkt) from input {{\n\
             if (pkt->type == {i}) {{ pkt->src = pkt->dst; channel_put(a, pkt); }} else {{ channel_put(b, pkt); }}\n}}\n}}\n"
        );
        let next = if i + 1 == ppfs { "tx".into() } else { format!("m{}.input", i + 1) };
        wires += &format!("m{i}.a -> {next};\nm{i}.b -> {next};\n");
    }
    format!("{text}program {{\n{wires}}}\n")
}
