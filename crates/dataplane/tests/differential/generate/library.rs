//! What generated programs take from the library: protocols and functions. They are as the files in `lib/` have them.

use super::types::{Ty, Value, unsigned};
use super::world::{Function, Param, Protocol};
use crate::numbers::SplitMix64;

/// Files that a program imports.
#[derive(Clone, Copy, Default)]
pub struct Imports {
    pub ipv4: bool,
    pub udp: bool,
    pub siphash: bool,
}

impl Imports {
    pub fn random(n: &mut SplitMix64) -> Imports {
        let ipv4 = n.chance(30);
        Imports { ipv4, udp: ipv4 && n.chance(50), siphash: n.chance(30) }
    }

    pub fn files(self) -> Vec<&'static str> {
        let all = [(self.ipv4, "net/ipv4"), (self.udp, "net/udp"), (self.siphash, "hash/siphash")];
        all.into_iter().filter(|(there, _)| *there).map(|(_, file)| file).collect()
    }

    /// Puts the library's protocols in the places of others; `ether` is the first.
    pub fn protocols(self, protocols: &mut Vec<Protocol>) {
        if self.ipv4 {
            let names = [("dst", 48), ("src", 48), ("type", 16)];
            protocols[0] = protocol("ether", &names, 14);
            let names = [
                ("version", 4),
                ("ihl", 4),
                ("dscp", 6),
                ("ecn", 2),
                ("total_length", 16),
                ("identification", 16),
                ("flags", 3),
                ("fragment_offset", 13),
                ("ttl", 8),
                ("protocol", 8),
                ("checksum", 16),
                ("src", 32),
                ("dst", 32),
            ];
            let lengths = Some((1, vec![5, 5, 6, 8]));
            protocols[1] = Protocol {
                checksum: Some(10),
                covers: "header",
                pseudo: vec![11, 12],
                lengths,
                ..protocol("ipv4", &names, 20)
            };
        }
        if self.udp {
            let names = [("src_port", 16), ("dst_port", 16), ("length", 16), ("checksum", 16)];
            let covers = "optional, pseudo, header, payload";
            let udp = Protocol { checksum: Some(3), covers, pseudo_sum: true, ..protocol("udp", &names, 8) };
            protocols.push(udp);
        }
    }

    /// The library's functions, for protocols in the places where [`Imports::protocols`] puts them.
    pub fn functions(self, protocols: &[Protocol]) -> Vec<Function> {
        let place = |name: &str| protocols.iter().position(|protocol| protocol.name == name).expect("it is imported");
        let number = |width: u32| Param::Value(Value::Scalar(unsigned(width)));
        let mut functions = Vec::new();
        let mut add = |name: &str, params: Vec<Param>, result: Ty, size: usize, calm: bool| {
            let result = Some(Value::Scalar(result));
            let name = name.to_string();
            functions.push(Function {
                name,
                module: None,
                params,
                result,
                size,
                trips: 1,
                copies: 0,
                calm,
                library: true,
            });
        };
        if self.ipv4 {
            let ip = || vec![Param::Packet(place("ipv4"))];
            add("mac_is_group", vec![number(48)], Ty::Bool, 1, true);
            add("ipv4_checksum_ok", ip(), Ty::Bool, 3, false);
            add("ipv4_padding", ip(), unsigned(32), 2, true);
            add("ipv4_is_fragment", ip(), Ty::Bool, 1, true);
            add("ipv4_pseudo_sum", vec![number(32), number(32), number(8), number(32)], unsigned(32), 2, true);
            add("ipv4_source_is_martian", vec![number(32)], Ty::Bool, 1, true);
        }
        if self.udp {
            add("udp_length_ok", vec![Param::Packet(place("udp"))], Ty::Bool, 1, true);
        }
        if self.siphash {
            add("siphash2", (0..4).map(|_| number(64)).collect(), unsigned(64), 60, true);
        }
        functions
    }
}

fn protocol(name: &str, fields: &[(&str, u32)], bytes: u32) -> Protocol {
    Protocol {
        name: name.into(),
        fields: fields.iter().map(|(name, width)| (name.to_string(), unsigned(*width))).collect(),
        checksum: None,
        covers: "",
        pseudo_sum: false,
        pseudo: Vec::new(),
        length: None,
        bytes,
        demux: String::new(),
        lengths: None,
        imported: true,
    }
}
