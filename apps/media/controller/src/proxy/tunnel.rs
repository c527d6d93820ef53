//! Tunnels: clients that speak RTSP over HTTP. The connection of the GET is the client, which all answers and packets
//! go to; the one of a POST is where its requests come from, and has none of its own.

use std::collections::HashMap;
use std::net::IpAddr;

use wire::keyed_map::KeyedMap;
use wire::refused::Refused;
use wire::rtsp::framing::Framer;
use wire::rtsp::tunnel::{self, Beginning, Decoder, Half, Opening};

use super::world::{Effect, World};
use super::{ClientId, Proxy};

/// All tunnels.
#[derive(Default)]
pub(super) struct Tunnels {
    /// By the client's address and its cookie: the connection of the GET.
    names: KeyedMap<(IpAddr, String), ClientId>,
    /// By the connection of the GET.
    gets: HashMap<ClientId, Tunnel>,
    /// By the connection of a POST.
    posts: HashMap<ClientId, Post>,
}

/// A tunnel.
struct Tunnel {
    name: (IpAddr, String),
    /// What has come of a message that is not whole, by whichever POST.
    framer: Framer,
    /// The connection that requests come by.
    post: Option<ClientId>,
}

/// A connection that requests come by.
struct Post {
    /// The connection of the GET.
    get: ClientId,
    decoder: Decoder,
    /// Bytes of the body that have not come. None: it has no end.
    left: Option<u64>,
    /// What has come behind a body that has ended.
    next: Vec<u8>,
}

impl Tunnels {
    /// Connections that are halves of tunnels, and the cookies of their clients.
    pub(super) fn len(&self) -> usize {
        self.names.len() + self.gets.len() + self.posts.len()
    }

    /// Whether a client has a tunnel.
    pub(super) fn is_client(&self, id: ClientId) -> bool {
        self.gets.contains_key(&id)
    }

    /// Whether a connection is the one that a client's requests come by: it lives as long as that client.
    pub(super) fn is_post(&self, id: ClientId) -> bool {
        self.posts.contains_key(&id)
    }
}

impl<W: World> Proxy<W> {
    /// A connection of a client turns out to be half of a tunnel; whether it may be.
    pub fn tunnel_opened(&mut self, id: ClientId, opening: Opening) -> bool {
        let Some(address) = self.clients.get(&id).map(|client| client.peer.ip()) else { return false };
        // Cookies are the clients' own to choose, so one is nobody's at another address.
        let name = (address, opening.cookie);
        let there = self.tunnels.names.get(&name).copied();
        match (opening.half, there) {
            (Half::Get, None) if !self.tunnels.is_post(id) => {
                self.counts.tunnels += 1;
                self.tunnels.names.insert(name.clone(), id);
                self.tunnels.gets.insert(id, Tunnel { name, framer: Framer::default(), post: None });
                self.effect(Effect::ToClient(id, tunnel::granted()));
            }
            (Half::Post, Some(get)) => {
                let post = Post { get, decoder: Decoder::default(), left: opening.length, next: Vec::new() };
                let earlier = self.tunnels.posts.insert(id, post).map(|own| own.get);
                self.forget_post(earlier, id);
                let before = self.tunnels.gets.get_mut(&get).and_then(|own| own.post.replace(id));
                before.filter(|before| *before != id).into_iter().for_each(|before| self.close_client(before));
            }
            (half, _) => {
                self.refuse_tunnel(id, if half == Half::Get { 409 } else { 404 });
                return false;
            }
        }
        true
    }

    /// What begins as half of a tunnel is none, or may not be one.
    pub fn refuse_tunnel(&mut self, id: ClientId, status: u16) {
        self.counts.refused += 1;
        self.effect(Effect::ToClient(id, tunnel::refused(status)));
        self.close_client(id);
    }

    /// Bytes have come on half of a tunnel; whether more can be read.
    pub fn tunnel_bytes(&mut self, id: ClientId, bytes: &[u8]) -> bool {
        let mut rest = bytes;
        loop {
            // On the connection of a GET they mean nothing.
            let Some(post) = self.tunnels.posts.get_mut(&id) else { return self.tunnels.is_client(id) };
            if post.left == Some(0) {
                post.next.extend_from_slice(rest);
                match tunnel::beginning(&post.next) {
                    Ok(Beginning::Unknown) => return true,
                    Ok(Beginning::Tunnel(opening, length)) => {
                        let next = post.next.split_off(length);
                        return self.tunnel_opened(id, opening) && self.tunnel_bytes(id, &next);
                    }
                    // The length was some number.
                    Ok(Beginning::Other) => {
                        post.left = None;
                        let next = std::mem::take(&mut post.next);
                        return self.tunnel_bytes(id, &next);
                    }
                    Err(refused) => {
                        self.refuse_tunnel(id, refused.0);
                        return false;
                    }
                }
            }
            let length =
                post.left.map_or(rest.len(), |left| rest.len().min(usize::try_from(left).unwrap_or(usize::MAX)));
            let (body, behind) = rest.split_at(length);
            let mut message = Vec::new();
            let decoded = post.decoder.decode(body, &mut message);
            post.left = post.left.map(|left| left - length as u64);
            let ended = post.left == Some(0);
            if ended && !post.decoder.is_whole() {
                post.left = None;
            }
            let (get, whole) = (post.get, post.decoder.is_whole());
            if !self.tunnelled(get, decoded.map(|()| message)) {
                return false;
            }
            if ended && whole {
                self.effect(Effect::ToClient(id, tunnel::taken()));
            }
            rest = behind;
            if rest.is_empty() {
                return true;
            }
        }
    }

    /// What a client has sent by its tunnel; whether more can be read.
    fn tunnelled(&mut self, get: ClientId, bytes: Result<Vec<u8>, Refused>) -> bool {
        let mut found = match (bytes, self.tunnels.gets.get_mut(&get)) {
            (Ok(bytes), Some(own)) => {
                own.framer.push(&bytes);
                own.framer.next_item()
            }
            (Err(refused), Some(_)) => Err(refused),
            (_, None) => return false,
        };
        loop {
            match found {
                Ok(None) => return true,
                Ok(Some(item)) => self.client_item(get, item),
                Err(refused) => {
                    self.client_failed(get, refused);
                    return false;
                }
            }
            let Some(own) = self.tunnels.gets.get_mut(&get) else { return false };
            found = own.framer.next_item();
        }
    }

    /// The connection of a client has ended. With that of a GET its tunnel ends; a POST may be followed by another.
    pub(super) fn end_tunnel(&mut self, id: ClientId) {
        if let Some(own) = self.tunnels.gets.remove(&id) {
            self.tunnels.names.remove(&own.name);
            own.post.into_iter().for_each(|post| self.close_client(post));
        }
        let post = self.tunnels.posts.remove(&id).map(|own| own.get);
        self.forget_post(post, id);
    }

    /// A tunnel has no POST any more, where it is this one.
    fn forget_post(&mut self, get: Option<ClientId>, post: ClientId) {
        let tunnel = get.and_then(|get| self.tunnels.gets.get_mut(&get)).filter(|own| own.post == Some(post));
        tunnel.into_iter().for_each(|own| own.post = None);
    }
}
