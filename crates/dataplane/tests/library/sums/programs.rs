//! Random programs that write to the headers of packets of one shape, in all scopes and in any order.

use super::packets::Shape;
use crate::keeping::SplitMix64;

/// A handle in scope, and where its header lies in the received packet.
#[derive(Clone)]
struct Handle {
    name: String,
    protocol: &'static str,
    at: usize,
}

pub struct Program {
    pub text: String,
    /// How many checksums of IP headers are taken off, the outermost first.
    pub removed: usize,
    /// Whether a header of IPv4 is put in front.
    pub added: bool,
}

struct Writer<'a> {
    n: &'a mut SplitMix64,
    shape: Shape,
    names: usize,
    out: String,
    functions: String,
    /// Bytes that stores must leave alone: they say what the packet is.
    kept: Vec<usize>,
    /// Bytes cut off so far, at most as many as there are of payload.
    cut: u64,
}

const BLOB: &str = "protocol blob { a : 8; b : 16; c : 32; demux { 7 }; }\n";

fn fields(protocol: &str) -> &'static [(&'static str, u32)] {
    match protocol {
        "ipv4" => {
            &[("src", 32), ("dst", 32), ("src", 32), ("ttl", 8), ("identification", 16), ("ecn", 2), ("flags", 3)]
        }
        "ipv6" => &[("src", 128), ("dst", 128), ("hop_limit", 8), ("flow_label", 20)],
        "tcp" => &[("src_port", 16), ("seq", 32), ("flags", 8), ("window", 16), ("urgent", 16)],
        "udp" => &[("src_port", 16), ("dst_port", 16)],
        "blob" => &[("a", 8), ("b", 16), ("c", 32)],
        _ => &[("type", 8), ("code", 8), ("rest", 32)],
    }
}

impl Writer<'_> {
    fn name(&mut self) -> String {
        self.names += 1;
        format!("h{}", self.names)
    }

    fn value(&mut self, width: u32) -> String {
        match width {
            128 => format!("(((u128) {} << 64) | {})", self.n.bits(64), self.n.bits(64)),
            width => self.n.bits(width).to_string(),
        }
    }

    /// The handle of the next header: its protocol, and where it lies behind this one.
    fn next(&mut self, handle: &Handle) -> Option<(&'static str, usize, String)> {
        let shape = self.shape;
        let ip = |index: usize| if shape.ips[index] == 4 { "ipv4" } else { "ipv6" };
        let index = (0..shape.ips.len()).find(|&index| shape.ip_at(index) == handle.at);
        match (handle.protocol, index) {
            ("ether", _) if shape.vlan => Some(("vlan", 14, String::new())),
            ("ether", _) if shape.labels > 0 => Some(("mpls", 14, String::new())),
            ("mpls", _) if handle.at + 4 < shape.ip_at(0) => Some(("mpls", 4, String::new())),
            ("ether" | "vlan" | "mpls", _) => Some((ip(0), shape.ip_at(0) - handle.at, String::new())),
            (_, Some(index)) if index + 1 < shape.ips.len() => {
                Some((ip(index + 1), shape.ip_at(index + 1) - handle.at, String::new()))
            }
            (_, Some(_)) => {
                let bytes = shape.upper_at() - handle.at;
                // By the demux where that is right, or by the number of bytes.
                let by_demux = handle.protocol == "ipv4" || shape.options == 0;
                let said = if by_demux && self.n.below(2) == 0 { String::new() } else { format!(", {bytes}") };
                Some((shape.upper, bytes, said))
            }
            ("blob", _) => None,
            _ => {
                let bytes = shape.header() + self.n.below(8) as usize;
                Some(("blob", bytes, format!(", {bytes}")))
            }
        }
    }

    fn peek(&mut self, handle: &Handle) -> Option<Handle> {
        let (protocol, bytes, said) = self.next(handle)?;
        let inner = Handle { name: self.name(), protocol, at: handle.at + bytes };
        self.out += &format!("{protocol}_packet_t *{} = packet_peek({}{said});\n", inner.name, handle.name);
        Some(inner)
    }

    fn write(&mut self, handle: &Handle) {
        let known = fields(handle.protocol);
        if matches!(handle.protocol, "ether" | "vlan" | "mpls") {
            return;
        }
        let (field, width) = self.n.pick(known);
        let value = self.value(width);
        self.out += &format!("{}->{field} = {value};\n", handle.name);
    }

    /// Another length, that no header is cut by and none of the fields of what is in the payload.
    fn length(&mut self, handle: &Handle) {
        let header = self.shape.upper_at() + self.shape.header();
        let end = header + if self.n.below(4) == 0 { 0 } else { 16 + self.n.below(50) as usize };
        let (field, from) = match handle.protocol {
            "ipv4" => ("total_length", handle.at),
            "ipv6" => ("payload_length", handle.at + 40),
            "udp" => ("length", handle.at),
            _ => return,
        };
        self.out += &format!("{}->{field} = {};\n", handle.name, end - from);
    }

    fn store(&mut self, handle: &Handle, known: bool) {
        let width = self.n.pick(&[8, 16, 24, 32, 64]);
        let offset = self.n.below(70) as usize;
        let range = handle.at + offset..handle.at + offset + width as usize / 8;
        let own_end = match handle.protocol {
            "ether" => 14,
            "vlan" | "mpls" => 4,
            "ipv4" => 12,
            "ipv6" => 8,
            _ => usize::MAX,
        };
        // What lies behind must be known, and be reached from where the handle is.
        if self.kept.iter().any(|at| range.contains(at)) || (!known && offset + range.len() > own_end) {
            return;
        }
        let value = self.n.bits(width);
        self.out +=
            &format!("if (packet_store({}, {offset}, (u{width}) {value})) counter_add(done, 1);\n", handle.name);
    }

    fn function(&mut self, handle: &Handle) {
        let name = format!("f{}", self.names);
        let outside = std::mem::take(&mut self.out);
        let own = Handle { name: "given".into(), ..handle.clone() };
        let mut handles = vec![own.clone()];
        if self.n.below(3) > 0 {
            handles.extend(self.peek(&own));
        }
        for _ in 0..1 + self.n.below(3) {
            let handle = self.pick(&handles);
            self.write(&handle);
            if self.n.below(5) == 0 {
                self.out += &format!("if (given->{} == 7) return;\n", fields(own.protocol)[0].0);
            }
        }
        let body = std::mem::replace(&mut self.out, outside);
        self.functions += &format!("void {name}({}_packet_t *given) {{\n{body}}}\n", handle.protocol);
        self.out += &format!("{name}({});\n", handle.name);
        self.names += 1;
    }

    fn pick(&mut self, handles: &[Handle]) -> Handle {
        // The last ones lead to where there is more to be written.
        let from = if self.n.below(2) == 0 { handles.len().saturating_sub(3) } else { 0 };
        handles[from + self.n.below((handles.len() - from) as u64) as usize].clone()
    }

    fn statements(&mut self, handles: &[Handle], known: bool, depth: u32) {
        for _ in 0..1 + self.n.below(4) {
            self.statement(handles, known, depth);
        }
    }

    fn statement(&mut self, handles: &[Handle], known: bool, depth: u32) {
        let handle = self.pick(handles);
        match self.n.below(16) {
            0..=4 => self.write(&handle),
            5 => self.length(&handle),
            6 => self.store(&handle, known),
            7 if !matches!(handle.protocol, "ether" | "vlan" | "mpls") => self.function(&handle),
            8 if !matches!(handle.protocol, "ether" | "vlan" | "mpls" | "ipv6" | "blob") => {
                self.out += &format!("counter_add(done, {}->checksum);\n", handle.name);
            }
            9..=11 if depth > 0 => {
                self.out += "{\n";
                let mut inside = handles.to_vec();
                for _ in 0..1 + self.n.below(3) {
                    let from = self.pick(&inside);
                    inside.extend(self.peek(&from));
                }
                self.statements(&inside, known, depth - 1);
                self.out += "}\n";
            }
            12 | 13 if depth > 0 => {
                self.out += "if (packet_length(ether) % 3 == 1) {\n";
                let mut inside = handles.to_vec();
                inside.extend(self.peek(&handle));
                self.statements(&inside, known, depth - 1);
                self.out += "} else {\n";
                let mut inside = handles.to_vec();
                inside.extend(self.peek(&handle));
                self.statements(&inside, known, depth - 1);
                self.out += "}\n";
            }
            14 if depth > 0 => {
                let i = self.name();
                self.out += &format!("for (u32 {i} = 0; {i} < {}; {i}++) {{\n", 1 + self.n.below(4));
                let mut inside = handles.to_vec();
                if self.n.below(2) == 0 {
                    inside.extend(self.peek(&handle));
                }
                self.statements(&inside, known, depth - 1);
                if self.n.below(2) == 0 {
                    let word = self.n.pick(&["break", "continue"]);
                    self.out += &format!("if (packet_length(ether) > {i} + 90) {word};\n");
                    self.statements(&inside, known, depth - 1);
                }
                self.out += "}\n";
            }
            15 if depth > 0 => self.switch(&handle, handles, known, depth),
            _ => {}
        }
    }

    /// As address translation is written: what lies behind is told apart, then the address is written.
    fn switch(&mut self, handle: &Handle, handles: &[Handle], known: bool, depth: u32) {
        let last = self.shape.ip_at(self.shape.ips.len() - 1);
        let field = match handle.protocol {
            "ipv4" if handle.at == last => "protocol",
            "ipv6" if handle.at == last && self.shape.options == 0 => "next_header",
            _ => return,
        };
        self.out += &format!("switch ({}->{field}) {{\n", handle.name);
        for (number, protocol) in [(6, "tcp"), (17, "udp"), (1, "icmp"), (58, "icmpv6")] {
            self.out += &format!("case {number}:\n");
            let inner = Handle { name: self.name(), protocol, at: self.shape.upper_at() };
            self.out += &format!("{protocol}_packet_t *{} = packet_peek({});\n", inner.name, handle.name);
            self.write(&inner);
            if protocol == self.shape.upper {
                let inside: Vec<Handle> = handles.iter().cloned().chain([inner]).collect();
                self.statements(&inside, known, depth - 1);
            }
        }
        let other = self.n.pick(&["checksum_none(GIVEN);\n", "packet_drop(ether, other); return;\n", "break;\n"]);
        self.out += &format!("default:\n{}}}\n", other.replace("GIVEN", &handle.name));
        self.write(handle);
    }

    /// Statements between two changes of the packet as a whole.
    fn phase(&mut self) {
        let root = Handle { name: "ether".into(), protocol: "ether", at: 0 };
        let mut handles = vec![root.clone()];
        let depth = if self.n.below(3) > 0 { 9 } else { self.n.below(5) };
        let mut at = root;
        let mut known = false;
        for _ in 0..depth {
            if at.protocol == self.shape.upper {
                known = true;
                break;
            }
            let Some(inner) = self.peek(&at) else { break };
            handles.push(inner.clone());
            at = inner;
        }
        self.statements(&handles, known, 3);
    }

    fn resize(&mut self) {
        let left = 24 - self.cut;
        let bytes = 1 + self.n.below(20);
        match self.n.below(4) {
            0 | 1 if bytes <= left => {
                self.cut += bytes;
                // What is cut off without a look at the headers is the program's own business.
                let outside = std::mem::take(&mut self.out);
                let mut at = Handle { name: "ether".into(), protocol: "ether", at: 0 };
                while at.protocol != self.shape.upper {
                    at = self.peek(&at).expect("there is one");
                }
                let peeks = std::mem::replace(&mut self.out, outside).replace('\n', " ");
                let trim = format!("if (!packet_trim_tail(ether, {bytes})) counter_add(done, 1);\n");
                self.out += &format!("{{ {peeks}}} {trim}");
            }
            2 => self.out += &format!("if (!packet_grow_tail(ether, {bytes})) counter_add(done, 1);\n"),
            _ => {}
        }
    }

    /// Takes headers off, does something with what is then in front, and puts others there.
    fn reframe(&mut self) -> (usize, bool) {
        let mut root = Handle { name: "ether".into(), protocol: "ether", at: 0 };
        let (mut removed, mut outer) = (0, 0);
        let steps = 1 + self.n.below(4);
        for step in 0..steps {
            let Some((protocol, bytes, said)) = self.next(&root) else { break };
            if protocol == self.shape.upper {
                break;
            }
            let into = Handle { name: self.name(), protocol, at: root.at + bytes };
            if matches!(root.protocol, "ipv4" | "ipv6") {
                (removed, outer) = (removed + usize::from(root.protocol == "ipv4"), outer + 1);
            }
            // What was looked at before, and written, is not lost.
            if step > 0 && self.n.below(2) == 0 {
                let seen = self.peek(&root).expect("there is one");
                self.write(&seen);
            }
            self.out += &format!("{protocol}_packet_t *{} = packet_decap({}{said});\n", into.name, root.name);
            root = into;
        }
        if !matches!(root.protocol, "ipv4" | "ipv6") {
            // Labels and tags are taken off as a whole.
            while !matches!(root.protocol, "ipv4" | "ipv6") {
                let (protocol, bytes, said) = self.next(&root).expect("there is IP");
                let into = Handle { name: self.name(), protocol, at: root.at + bytes };
                self.out += &format!("{protocol}_packet_t *{} = packet_decap({}{said});\n", into.name, root.name);
                root = into;
            }
        }
        let mut handles = vec![root.clone()];
        for _ in 0..self.n.below(4) {
            let from = handles[handles.len() - 1].clone();
            handles.extend(self.peek(&from));
        }
        for _ in 0..self.n.below(4) {
            let handle = self.pick(&handles);
            self.write(&handle);
        }
        let _ = outer;
        let mut kind = if root.protocol == "ipv4" { 0x0800 } else { 0x86dd };
        let added = self.n.below(3) == 0;
        if added {
            let name = self.name();
            let number = if kind == 0x0800 { 4 } else { 41 };
            // The length is the compiler's, or the program's own.
            let own = if self.n.below(2) == 0 { "" } else { "NAME->total_length = (u16) packet_length(NAME);\n" };
            self.out +=
                &format!("ipv4_packet_t *{name} = packet_encap({});\n{}", root.name, own.replace("NAME", &name));
            self.out += &format!(
                "{name}->protocol = {number}; {name}->src = {}; {name}->ttl = {};\n",
                self.n.bits(32),
                self.n.bits(8)
            );
            (root.name, kind) = (name, 0x0800);
        }
        let name = self.name();
        self.out += &format!("ether_packet_t *{name} = packet_encap({});\n{name}->type = {kind};\n", root.name);
        self.out += &format!("channel_put(output, {name});\n");
        (removed, added)
    }
}

/// A program for packets of this shape.
pub fn program(shape: Shape, n: &mut SplitMix64) -> Program {
    let mut kept = vec![12, 13];
    if shape.vlan {
        kept.extend([16, 17]);
    }
    kept.extend((0..shape.labels).map(|label| 14 + label * 4 + 2));
    for (index, &version) in shape.ips.iter().enumerate() {
        let at = shape.ip_at(index);
        kept.extend(if version == 4 { [at, at + 2, at + 3, at + 9] } else { [at, at + 4, at + 5, at + 6] });
        if version == 6 && shape.options > 0 {
            kept.extend([at + 40, at + 41]);
        }
    }
    let upper = shape.upper_at();
    if shape.upper == "udp" {
        kept.extend([upper + 4, upper + 5, upper + 6, upper + 7]);
    }
    let mut writer = Writer { n, shape, names: 0, out: String::new(), functions: String::new(), kept, cut: 0 };
    let phases = 1 + writer.n.below(3);
    for phase in 0..phases {
        if phase > 0 {
            writer.resize();
        }
        // Names of one phase are not those of the next one.
        writer.phase();
    }
    let (removed, added) = if writer.n.below(3) == 0 {
        writer.reframe()
    } else {
        writer.out += "channel_put(output, ether);\n";
        (0, false)
    };
    let imports = ["ether", "vlan", "mpls", "ipv4", "ipv6", "tcp", "udp", "icmp", "icmpv6"];
    let imports: String = imports.iter().map(|file| format!("import \"net/{file}\";\n")).collect();
    let text = format!(
        "{imports}{BLOB}drop_reason other;\nmodule m {{\nin ether input;\nout ether output;\ncounter done;\n{}\
         ppf work(ether_packet_t *ether) from input {{\n{}}}\n}}\nprogram {{ rx -> m.input; m.output -> tx; }}\n",
        writer.functions, writer.out
    );
    Program { text, removed, added }
}
