//! Configurations to change between.

use std::net::Ipv4Addr;

use proptest::prelude::*;

/// A configuration.
#[derive(Clone, Debug)]
pub struct Setup {
    /// The last bytes of the addresses of the servers of some pools, by the pools' names; from 100 on they are at the
    /// third port.
    pub pools: Vec<(&'static str, Vec<u8>)>,
    /// Which of them the images belong to, if any, and everything else.
    pub images: Option<usize>,
    pub web: usize,
    /// The service that the clients ask.
    pub service: &'static str,
    /// Whether it has the address that they ask.
    pub has_address: bool,
    /// Services before and behind it in the alphabet.
    pub others: [bool; 2],
    /// Which of two own addresses servers see.
    pub own: [bool; 2],
    /// More settings of all pools.
    pub more: &'static str,
}

/// Names of pools, in the order of the alphabet, which is that of a configuration's, and servers.
const NAMES: [&str; 4] = ["aaa", "images", "web", "zzz"];
const SERVERS: [u8; 5] = [11, 12, 13, 14, 111];

fn server(last: u8) -> Ipv4Addr {
    if last < 100 { Ipv4Addr::new(10, 0, 2, last) } else { Ipv4Addr::new(10, 0, 3, last) }
}

impl Setup {
    /// As the configuration's file says it.
    pub fn text(&self) -> String {
        let mut text = "[ports.clients]\nnumber = 1\n[ports.servers]\nnumber = 2\n[ports.third]\nnumber = 3\n\
             [controllers.splice.interfaces.clients]\nmac = \"02:00:00:00:01:fe\"\n\
             [controllers.splice.interfaces.servers]\nmac = \"02:00:00:00:02:fe\"\n"
            .to_owned();
        let own: Vec<_> = (0..2).filter(|at| self.own[*at]).map(|at| format!("\"10.0.2.{}/24\"", 253 + at)).collect();
        text += &format!("addresses = [{}]\n", own.join(", "));
        if self.pools.iter().any(|(_, servers)| servers.iter().any(|own| *own >= 100)) {
            text +=
                "[controllers.splice.interfaces.third]\nmac = \"02:00:00:00:02:fe\"\naddresses = [\"10.0.3.254/24\"]\n";
        }
        for (name, servers) in &self.pools {
            let servers: Vec<_> = servers
                .iter()
                .map(|last| format!("{{ name = \"s{last}\", address = \"{}:80\" }}", server(*last)))
                .collect();
            text += &format!(
                "[controllers.splice.pools.{name}]\n{}\nservers = [{}]\n\
                 check = {{ interval = \"1s\", timeout = \"300ms\", fall = 100 }}\n",
                self.more,
                servers.join(", ")
            );
        }
        let web = self.pools[self.web].0;
        for (other, (name, last)) in self.others.iter().zip([("aa", 81), ("zz", 83)]) {
            if *other {
                let addresses = format!("[\"10.0.1.{last}:80\", \"10.0.1.{}:80\"]", last + 1);
                text += &format!("[controllers.splice.services.{name}]\naddress = {addresses}\npool = \"{web}\"\n");
            }
        }
        let address = if self.has_address { "[\"10.0.1.79:80\", \"10.0.1.80:80\"]" } else { "\"10.0.1.79:80\"" };
        text += &format!("[controllers.splice.services.{}]\naddress = {address}\npool = \"{web}\"\n", self.service);
        if let Some(images) = self.images {
            let images = self.pools[images].0;
            text += &format!("routes = [{{ path = \"/images/*\", method = [\"GET\"], pool = \"{images}\" }}]\n");
        }
        text + "[controllers.splice.timeouts]\nconnect = \"60s\"\n"
    }

    /// The servers that may serve each route.
    pub fn serving(&self) -> [Vec<Ipv4Addr>; 2] {
        [self.web, self.images.unwrap_or(self.web)].map(|at| self.pools[at].1.iter().map(|own| server(*own)).collect())
    }
}

/// Any of them, with these settings of pools.
pub fn setup(more: &'static str) -> impl Strategy<Value = Setup> {
    let servers = prop::sample::subsequence(SERVERS.to_vec(), 1..=SERVERS.len());
    let pools =
        (prop::sample::subsequence(NAMES.to_vec(), 1..=NAMES.len()), prop::collection::vec(servers, NAMES.len()));
    let places = (any::<prop::sample::Index>(), prop::option::of(any::<prop::sample::Index>()));
    let service = prop::sample::select(vec!["ss", "ss", "tt"]);
    let own = prop::sample::select(vec![[true, true], [true, false], [false, true]]);
    (pools, places, service, any::<bool>(), any::<[bool; 2]>(), own).prop_map(
        move |((names, servers), (web, images), service, has_address, others, own)| {
            let pools: Vec<_> = names.into_iter().zip(servers).collect();
            Setup {
                images: images.map(|images| images.index(pools.len())),
                web: web.index(pools.len()),
                pools,
                service,
                has_address,
                others,
                own,
                more,
            }
        },
    )
}
