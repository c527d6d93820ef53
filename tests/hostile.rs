//! Damaged packets through the applications: nothing panics or hangs, and the interpreter and machine code agree on
//! what becomes of each.

#[path = "../crates/millrace/src/applications.rs"]
mod applications;
#[path = "support/compile.rs"]
mod common;

use std::path::Path;
use std::sync::Arc;

use baker::ir::Program;
use baker::ir::interp::End;
use control::config::Config;
use dataplane::EngineKind;
use dataplane::ports::read_trace;
use dataplane::step::{Compiled, StepOutput, Stepper};

use applications::BUILT_IN;

/// Packets of each application.
const PACKETS: usize = 6000;

/// Numbers as good as drawn by lot (xorshift64*).
struct Random(u64);

impl Random {
    fn below(&mut self, end: usize) -> usize {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 33) as usize % end
    }
}

/// Changes some bytes, mostly of the headers, or the length.
fn damage(packet: &mut Vec<u8>, random: &mut Random) {
    for _ in 0..random.below(4) {
        let headers = if random.below(4) == 0 { packet.len() } else { packet.len().min(60) };
        let at = random.below(headers);
        packet[at] = match random.below(4) {
            0 => 0,
            1 => 0xff,
            2 => packet[at] ^ 1 << random.below(8),
            _ => random.below(256) as u8,
        };
    }
    match random.below(8) {
        0 => packet.truncate(random.below(packet.len()) + 1),
        1 => packet.resize(packet.len() + random.below(200), 0),
        // Bytes twice: a deeper stack, a header in a header.
        2 => {
            let (from, at) = (random.below(packet.len()), random.below(packet.len()));
            let piece = packet[from..(from + 4 * (1 + random.below(10))).min(packet.len())].to_vec();
            packet.splice(at..at, piece);
        }
        _ => {}
    }
}

/// The checksum of an IPv4 header behind Ethernet, made right: else most of what is damaged would go no further.
fn mend(packet: &mut [u8]) {
    if packet.len() < 34 || packet[12..14] != [8, 0] || packet[14] != 0x45 {
        return;
    }
    packet[24..26].fill(0);
    let mut sum: u32 = packet[14..34].chunks(2).map(|pair| u32::from(pair[0]) << 8 | u32::from(pair[1])).sum();
    sum = (sum & 0xffff) + (sum >> 16);
    packet[24..26].copy_from_slice(&(!((sum & 0xffff) + (sum >> 16)) as u16).to_be_bytes());
}

fn stepper(program: &Arc<Program>, config: &Config, engine: EngineKind) -> Stepper {
    let mut stepper = Compiled::new(program.clone(), engine).unwrap().stepper(None).unwrap();
    config.fill(program, &mut stepper).unwrap();
    stepper
}

/// What is seen of an output from outside.
fn seen(output: StepOutput) -> (End, Vec<u8>, Option<u128>) {
    let port = (output.end == End::Tx).then(|| output.metadata[Program::TX_PORT.0 as usize]);
    (output.end, output.bytes, port)
}

fn application(name: &str) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../apps").join(name);
    let program = common::compile(&folder.join(format!("{name}.baker")));
    let own = ["trace.toml".to_owned(), format!("{name}.toml")].map(|file| std::fs::read_to_string(folder.join(file)));
    let text = own.into_iter().find_map(Result::ok).unwrap();
    let config = Config::parse("t.toml", &text, &program, BUILT_IN).unwrap_or_else(|errors| panic!("{errors:?}"));
    let trace = read_trace("trace", &std::fs::read(folder.join("trace.pcapng")).unwrap()).unwrap().packets;
    let mut engines = [EngineKind::Interp, EngineKind::NATIVE].map(|engine| stepper(&program, &config, engine));
    let (names, mut random) = (config.port_names(), Random(7));
    for number in 0..PACKETS {
        let packet = &trace[random.below(trace.len())];
        let port = names.number(packet.interface.as_deref().unwrap()).unwrap();
        let mut bytes = packet.frame.clone();
        damage(&mut bytes, &mut random);
        if random.below(2) == 0 {
            mend(&mut bytes);
        }
        bytes.truncate(1500);
        let outputs = engines.each_mut().map(|engine| engine.receive(port, &bytes));
        let [expected, found] = outputs.map(|outputs| outputs.into_iter().map(seen).collect::<Vec<_>>());
        assert_eq!(found, expected, "{name}: packet {number} at port {port}: {bytes:02x?}");
        let [expected, found] = engines.each_ref().map(Stepper::counters);
        assert_eq!(found, expected, "{name}: counters after packet {number} at port {port}: {bytes:02x?}");
        engines.iter_mut().for_each(|engine| engine.check_frames().unwrap());
    }
}

#[test]
fn damaged_packets_of_the_firewall() {
    application("firewall");
}

#[test]
fn damaged_packets_of_label_switching() {
    application("mpls");
}

#[test]
fn damaged_packets_of_the_splicer() {
    application("splice");
}
