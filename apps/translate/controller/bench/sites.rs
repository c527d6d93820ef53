//! For each system the same three hosts and two emulated links, so that all are measured at one time.
//!
//! ```text
//! servers 10.0.2.11 eth0 ═ before ═ servers 10.0.2.1 | proxy | 10.0.1.1 viewers ═ behind ═ eth0 10.0.1.11 viewers
//! ```

use std::net::Ipv4Addr;
use std::time::Duration;

use lab::{Direction, Emulator, Impairments, LinkConfig, LinkCounters, Loss, Namespace, Wire};

use crate::text;

/// The CPU of the links, which no other work disturbs.
const LINKS_CPU: usize = 0;
pub const SERVER: Ipv4Addr = Ipv4Addr::new(10, 0, 2, 11);
pub const PROXY_AT_SERVERS: Ipv4Addr = Ipv4Addr::new(10, 0, 2, 1);
pub const PROXY: Ipv4Addr = Ipv4Addr::new(10, 0, 1, 1);
/// Until a device runs.
const PATIENCE: Duration = Duration::from_secs(20);

/// One system's hosts.
pub struct Site {
    pub servers: Namespace,
    pub proxy: Namespace,
    pub viewers: Namespace,
}

/// All hosts, and their links.
pub struct Sites {
    pub sites: Vec<Site>,
    emulator: Emulator,
}

impl Sites {
    /// So many of them, whose links do nothing yet.
    pub fn new(count: usize) -> Result<Sites, String> {
        let namespace = |label| Namespace::new(label).map_err(text);
        let site =
            |_| Ok(Site { servers: namespace("servers")?, proxy: namespace("proxy")?, viewers: namespace("viewers")? });
        let sites = (0..count).map(site).collect::<Result<Vec<_>, String>>()?;
        let none = Impairments::default();
        let wires: Vec<_> = sites
            .iter()
            .flat_map(|site| {
                [
                    Wire::new((&site.proxy, "viewers"), (&site.viewers, "eth0"), none.clone()),
                    Wire::new((&site.servers, "eth0"), (&site.proxy, "servers"), none.clone()),
                ]
            })
            .collect();
        let emulator = Emulator::start_on(Some(LINKS_CPU), &wires, 1).map_err(text)?;
        for site in &sites {
            site.configure()?;
        }
        emulator.wait_running().map_err(text)?;
        Ok(Sites { sites, emulator })
    }

    /// From now on the way to a site's viewers and back takes so long, and loses one of so many packets to them, behind
    /// the proxy or before it. Nothing is lost on the way back.
    pub fn set(&self, site: usize, round_trip: Duration, loss: f64, behind: bool) -> Result<(), String> {
        let delayed = Impairments { delay: round_trip / 2, ..Impairments::default() };
        let lost = |lossy| if lossy && loss > 0.0 { Loss::Random(loss) } else { Loss::default() };
        self.set_way(site, &Impairments { loss: lost(behind), ..delayed }, round_trip / 2)?;
        let far = Impairments { loss: lost(!behind), ..Impairments::default() };
        self.emulator.set(2 * site + 1, Direction::Forward, far).map_err(text)
    }

    /// From now on the link behind a site's proxy does so much to packets to viewers, and delays those back.
    pub fn set_way(&self, site: usize, to_viewers: &Impairments, back: Duration) -> Result<(), String> {
        let set = |direction, own| self.emulator.set(2 * site, direction, own).map_err(text);
        set(Direction::Forward, to_viewers.clone())?;
        set(Direction::Backward, Impairments { delay: back, ..Impairments::default() })
    }

    /// What has come to the link behind a site's proxy, to viewers.
    pub fn passed(&self, site: usize) -> LinkCounters {
        self.emulator.counters(2 * site, Direction::Forward)
    }
}

impl Site {
    fn configure(&self) -> Result<(), String> {
        for (net, host, port) in [(1, &self.viewers, "viewers"), (2, &self.servers, "servers")] {
            let config = |last: u32| LinkConfig::host().address(format!("10.0.{net}.{last}/24"));
            self.proxy.configure(port, &config(1)).map_err(text)?;
            host.configure("eth0", &config(11)).map_err(text)?;
        }
        self.servers.route("10.0.1.0/24", "10.0.2.1").map_err(text)?;
        self.viewers.route("10.0.2.0/24", "10.0.1.1").map_err(text)?;
        self.proxy.set_sysctl("net.ipv4.ip_forward", "1").map_err(text)?;
        for host in [&self.servers, &self.proxy] {
            // A connection begins as the first one did.
            host.set_sysctl("net.ipv4.tcp_no_metrics_save", "1").map_err(text)?;
        }
        for (host, device) in
            [(&self.proxy, "viewers"), (&self.proxy, "servers"), (&self.viewers, "eth0"), (&self.servers, "eth0")]
        {
            host.wait_running(device, PATIENCE).map_err(text)?;
        }
        Ok(())
    }
}
