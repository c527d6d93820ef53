//! What a client sends: messages and packets of RTSP, or a half of a tunnel over HTTP.

use wire::rtsp::framing::Framer;
use wire::rtsp::tunnel::{self, Beginning};

use super::connection;
use super::shared::Shared;
use crate::proxy::ClientId;

/// How the connection of a client is read.
#[derive(Debug)]
pub enum Inbound {
    /// It is not known yet; what has come.
    Begins(Vec<u8>),
    /// As RTSP.
    Rtsp(Framer),
    /// As a half of a tunnel.
    Tunnel,
}

impl Default for Inbound {
    fn default() -> Self {
        Inbound::Begins(Vec::new())
    }
}

impl Inbound {
    /// Takes what has come; whether more can be read.
    pub fn take(&mut self, id: ClientId, bytes: &[u8], shared: &Shared) -> bool {
        match self {
            Inbound::Tunnel => shared.event(|proxy| proxy.tunnel_bytes(id, bytes)),
            Inbound::Rtsp(framer) => connection::items(framer, bytes, |item| {
                shared.event(|proxy| match item {
                    Ok(item) => proxy.client_item(id, item),
                    Err(refused) => proxy.client_failed(id, refused),
                });
            }),
            Inbound::Begins(held) => {
                held.extend_from_slice(bytes);
                match tunnel::beginning(held) {
                    Ok(Beginning::Unknown) => true,
                    Ok(Beginning::Other) => {
                        let bytes = std::mem::take(held);
                        *self = Inbound::Rtsp(Framer::default());
                        self.take(id, &bytes, shared)
                    }
                    Ok(Beginning::Tunnel(opening, length)) => {
                        let rest = held.split_off(length);
                        *self = Inbound::Tunnel;
                        shared.event(|proxy| proxy.tunnel_opened(id, opening) && proxy.tunnel_bytes(id, &rest))
                    }
                    Err(refused) => {
                        shared.event(|proxy| proxy.refuse_tunnel(id, refused.0));
                        false
                    }
                }
            }
        }
    }
}
