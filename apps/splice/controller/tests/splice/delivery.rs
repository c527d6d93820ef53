//! Packets that arrive: at Millrace, at the client, at servers.

use baker::ir::Program;
use baker::ir::interp::End;
use dataplane::step::StepOutput;
use splice::cluster::NegotiatedOptions;
use splice::splicer::Accepted;
use wire::segment::{ACK, RST, SYN, Segment, TcpOptions};

use super::{OWN_MACS, SERVER_MAC, World};
use crate::router;
use crate::tcp::Tcp;

impl World {
    /// The first packet of a path arrives.
    pub fn deliver(&mut self, path: usize) {
        let (frame, now) = {
            let mut shared = self.shared.borrow_mut();
            let Some(frame) = shared.paths[path].pop_front() else { return };
            (frame, shared.now)
        };
        if self.trace
            && let Some(segment) = Segment::parse(&frame)
        {
            let Segment { seq, ack, flags, window, payload, .. } = segment;
            println!(
                "{} ms, path {path}: seq {seq} ack {ack} flags {flags:x} window {window} {} bytes, {:?}",
                now / 1_000_000,
                payload.len(),
                segment.options.times
            );
        }
        if path >= 2 && !router::is_error(&frame) && frame.len() - 14 > self.hosts.routers.mtu[path - 2] {
            let error = router::too_big(&frame, self.hosts.routers.mtu[path - 2], self.hosts.routers.quote);
            self.shared.borrow_mut().paths[path - 2].push_back(error);
            return;
        }
        match path {
            0 | 1 => {
                // Some servers are at another port.
                let port = if path == 1 && is_of_third(&frame) { 3 } else { path as u8 + 1 };
                for frame in self.pieces(frame) {
                    let mut shared = self.shared.borrow_mut();
                    shared.stepper.set_now(now);
                    let outputs = shared.stepper.receive(port, &frame);
                    shared.leave(outputs);
                    drop(shared);
                    self.receive_punted();
                }
            }
            2 if router::is_error(&frame) => {
                let error = router::believable(&frame);
                if error.flow_key != self.client.flow_key {
                    return;
                }
                let frames = self.client.receive_error(&error, now);
                self.shared.borrow_mut().paths[0].extend(frames);
            }
            2 => {
                let Some(segment) = self.undamaged(&frame) else { return };
                if segment.flow_key.reversed() != self.client.flow_key {
                    return;
                }
                let frames = self.client.receive(&segment, now);
                self.shared.borrow_mut().paths[0].extend(frames);
                self.speak();
            }
            _ => self.at_server(&frame, now),
        }
    }

    /// What a frame is when it comes to Millrace, the last piece first now and then.
    fn pieces(&mut self, frame: Vec<u8>) -> Vec<Vec<u8>> {
        let Some(size) = self.hosts.fragments.filter(|size| frame[12..14] == [8, 0] && frame.len() - 14 > *size) else {
            return vec![frame];
        };
        self.fragmented += 1;
        let mut pieces = router::fragments(&frame, size, self.fragmented);
        if self.fragmented.is_multiple_of(2) {
            pieces.reverse();
        }
        pieces
    }

    pub(super) fn receive_punted(&mut self) {
        if self.busy > 0 {
            self.busy -= 1;
            return;
        }
        loop {
            let next = self.shared.borrow_mut().punted.pop_front().filter(|_| !self.down);
            let Some(StepOutput { end: End::Controller(channel), bytes, metadata }) = next else { return };
            let (name, of) = {
                let mut shared = self.shared.borrow_mut();
                shared.port = metadata[Program::RX_PORT.0 as usize];
                let of = |name: &str| metadata[shared.meta(name)];
                let scale = of("scale") as u8;
                let negotiated = NegotiatedOptions {
                    mss: of("mss") as u16,
                    scale: (scale < 15).then_some(scale),
                    sack: of("sack") != 0,
                    times: false,
                };
                let accepted = Accepted { port: of("rx.port") as u8, number: of("service") as u16, negotiated };
                (shared.program.channels[channel.0 as usize].name.clone(), accepted)
            };
            match name.as_str() {
                "accept.request_cc" => self.splicer.request(of, &bytes),
                "errors.held_cc" => self.splicer.error(&bytes),
                "fragments.fragment_cc" => self.splicer.fragment(of.port, &bytes),
                "entry.neighbour_cc" => self.splicer.neighbour(of.port, &bytes),
                _ => self.splicer.held(&bytes),
            }
            self.look();
        }
    }

    /// A segment that has come to a host; none where it was damaged.
    fn undamaged<'f>(&self, frame: &'f [u8]) -> Option<Segment<'f>> {
        let segment = Segment::parse(frame);
        assert!(segment.is_some() || self.damaged > 0, "a wrong checksum");
        segment
    }

    fn at_server(&mut self, frame: &[u8], now: u64) {
        if frame[12..14] == [8, 6] {
            // An ARP request: both addresses are at the same station.
            let mut answer = frame.to_vec();
            answer[..6].copy_from_slice(&frame[6..12]);
            answer[6..12].copy_from_slice(&SERVER_MAC);
            answer[21] = 2;
            answer[22..28].copy_from_slice(&SERVER_MAC);
            answer[28..32].copy_from_slice(&frame[38..42]);
            answer[32..42].copy_from_slice(&frame[22..32]);
            self.shared.borrow_mut().paths[1].push_back(answer);
            return;
        }
        if frame[12..14] == [0x86, 0xdd] {
            return;
        }
        if router::is_error(frame) {
            let error = router::believable(frame);
            let Some((tcp, _)) = self.servers.get_mut(&error.flow_key.reversed()) else {
                panic!("an error about nothing")
            };
            let frames = tcp.receive_error(&error, now);
            self.shared.borrow_mut().paths[1].extend(frames);
            return;
        }
        let Some(segment) = self.undamaged(frame) else { return };
        if segment.has(SYN) {
            self.syns.push((segment.flow_key.reversed(), segment.seq, now));
        }
        let server = segment.flow_key.dst.to_ipv4_mapped().expect("all servers have IPv4");
        if segment.has(SYN) && self.silent.contains(&server) {
            return;
        }
        if segment.has(SYN) && self.refusing.contains(&server) {
            let refusal = Segment {
                dst_mac: segment.src_mac,
                src_mac: segment.dst_mac,
                flow_key: segment.flow_key.reversed(),
                seq: 0,
                ack: segment.end(),
                flags: RST | ACK,
                window: 0,
                options: TcpOptions::default(),
                payload: &[],
            };
            self.shared.borrow_mut().paths[1].push_back(refusal.frame());
            return;
        }
        let is_new = self.servers.get(&segment.flow_key).is_none_or(|(tcp, _)| tcp.was_reset || tcp.forgotten);
        if segment.has(SYN) && is_new {
            let first = self.hosts.server_first.wrapping_add(self.servers.len() as u32 * 1_000_003);
            let mut tcp = Tcp::new(segment.flow_key.reversed(), (SERVER_MAC, OWN_MACS[1]), first, self.hosts.server);
            // What Millrace itself takes of a request may be more than a server has room for.
            (tcp.ordered, tcp.window_matters) = (self.ordered, false);
            // Once it is connected a client may echo the clock of a server before it, with data that was sent already.
            tcp.echoes_matter = false;
            tcp.listener = self.listener;
            self.servers.insert(segment.flow_key, (tcp, 0));
            self.closed.remove(&segment.flow_key);
        }
        let Some((tcp, answered)) = self.servers.get_mut(&segment.flow_key) else { return };
        if self.closed.contains(&segment.flow_key) && tcp.is_news(&segment) {
            let reset = Segment {
                dst_mac: segment.src_mac,
                src_mac: segment.dst_mac,
                flow_key: segment.flow_key.reversed(),
                seq: segment.ack,
                ack: 0,
                flags: RST,
                window: 0,
                options: TcpOptions::default(),
                payload: &[],
            };
            self.shared.borrow_mut().paths[1].push_back(reset.frame());
            return;
        }
        let mut frames = tcp.receive(&segment, now);
        // Requests that have come whole are answered; they say which they are.
        loop {
            // What is not read passes, empty lines too, which servers pass over.
            if tcp.received[*answered..].starts_with(b"\r\n")
                && self.passthrough + self.splicer.metrics.all_passthrough() > 0
            {
                *answered += 2;
            }
            let rest = &tcp.received[*answered..];
            let text = String::from_utf8_lossy(rest).into_owned();
            let Some(at) = text.find("X-Number: ") else { break };
            let Some(number) = text[at + 10..].split("\r\n").next().and_then(|n| n.parse::<usize>().ok()) else {
                break;
            };
            let exchange = &self.exchanges[number];
            // What the client says of its connection the server hears where its own ends, too.
            let forms = [exchange.request(number), exchange.request_to_last(number)];
            let Some(request) = forms.iter().find(|form| rest.iter().zip(*form).all(|(came, byte)| came == byte))
            else {
                panic!("request {number} is damaged: {text}");
            };
            if rest.len() < request.len() {
                break;
            }
            let closes = exchange.last && *request == forms[0];
            self.closes_told += usize::from(closes);
            // By a configuration that was in force since it was sent, or is now.
            let mut may = self.serving[self.asked[number]..].iter().map(|own| &own[usize::from(exchange.second)]);
            let fits = may.any(|own| own.contains(&server));
            assert!(
                fits || self.passthrough + self.splicer.metrics.all_passthrough() > 0,
                "{number} is served by {server}"
            );
            *answered += request.len();
            self.answered += 1;
            self.last_served = Some(server);
            match self.mute {
                true => tcp.close(),
                false => tcp.write(&exchange.response(number)),
            }
            if closes || self.hosts.curt {
                tcp.close();
                self.closed.insert(segment.flow_key);
            }
        }
        if tcp.peer_closed {
            tcp.close();
        }
        frames.extend(tcp.pump(now));
        self.shared.borrow_mut().paths[1].extend(frames);
    }
}

/// Whether a frame of a server is of the network at the third port.
fn is_of_third(frame: &[u8]) -> bool {
    let third = |at: usize| frame.get(at..at + 3) == Some(&[10, 0, 3]);
    if frame[12..14] == [8, 6] { third(28) } else { third(26) }
}
