//! The hosts of a lab, their devices and links, and the captures of them.

use std::collections::HashMap;
use std::path::Path;
use std::time::Duration;

use lab::{Capture, Captured, Direction, Emulator, LinkConfig, LinkCounters, Namespace, Result, Tap, Wire, veth};

use labfile::{CaptureTo, End, Host, Plan};

/// How long a device may take until it carries frames.
const PATIENCE: Duration = Duration::from_secs(10);
/// Kernel parameters that a new namespace may have taken from the machine.
const PARAMETERS: [(&str, &str); 2] = [("net.ipv4.conf.all.rp_filter", "0"), ("net.ipv4.conf.default.rp_filter", "0")];

/// A lab that is there.
pub struct Network {
    captures: Vec<Capture>,
    emulator: Option<Emulator>,
    /// Number of the emulator's link for each link of the plan that the lab carries.
    emulated: HashMap<usize, usize>,
    hosts: Vec<Namespace>,
}

/// What a lab counted.
pub struct Counted {
    /// Index of the link in the plan, and both directions.
    pub links: Vec<(usize, [LinkCounters; 2])>,
    /// File and packets, or what went wrong.
    pub captures: Vec<(String, Result<Captured>)>,
}

impl Network {
    /// Builds everything and waits until all links carry frames.
    pub fn build(plan: &Plan, folder: &Path) -> Result<Network> {
        let hosts = plan.hosts.iter().map(|host| Namespace::new(&host.name)).collect::<Result<Vec<_>>>()?;
        let place = |end: &'_ End| -> (&Namespace, String) { (&hosts[end.host], end.device.clone()) };
        let mut emulated = HashMap::new();
        let mut wires = Vec::new();
        let ends: Vec<_> = plan.links.iter().map(|link| link.ends.each_ref().map(place)).collect();
        for (index, (link, [(a, device_a), (b, device_b)])) in plan.links.iter().zip(&ends).enumerate() {
            if link.is_carried() {
                emulated.insert(index, wires.len());
                let [forward, backward] = link.impairments.clone();
                let (a, b) = ((*a, device_a.as_str()), (*b, device_b.as_str()));
                wires.push(Wire { a, b, forward, backward, mtu: link.mtu, captured: link.captured });
            } else {
                veth(a, device_a, b, device_b)?;
            }
        }
        let emulator = match wires.is_empty() {
            true => None,
            false => Some(Emulator::start_on(plan.emulator_cpu, &wires, plan.seed)?),
        };
        for (host, namespace) in plan.hosts.iter().zip(&hosts) {
            let forward = if host.forwarding { "1" } else { "0" };
            for (key, value) in PARAMETERS.into_iter().chain([("net.ipv4.ip_forward", forward)]) {
                namespace.set_sysctl(key, value)?;
            }
            namespace.set_sysctl("net.ipv6.conf.all.forwarding", forward)?;
        }
        for link in &plan.links {
            for end in &link.ends {
                hosts[end.host].configure(&end.device, &config(&plan.hosts[end.host], &end.device, link.mtu))?;
            }
        }
        for end in plan.links.iter().flat_map(|link| &link.ends) {
            hosts[end.host].wait_running(&end.device, PATIENCE)?;
        }
        if let Some(emulator) = &emulator {
            emulator.wait_running()?;
        }
        for (host, namespace) in plan.hosts.iter().zip(&hosts) {
            for (to, gateway) in &host.routes {
                namespace.route(to, gateway)?;
            }
            for (key, value) in &host.sysctls {
                namespace.set_sysctl(key, value)?;
            }
        }
        let mut network = Network { captures: Vec::new(), emulator, emulated, hosts };
        let captures = plan.captures.iter().map(|capture| network.start(plan, capture, folder));
        network.captures = captures.collect::<Result<_>>()?;
        Ok(network)
    }

    /// Starts a capture.
    fn start(&self, plan: &Plan, capture: &CaptureTo, folder: &Path) -> Result<Capture> {
        let labels: Vec<_> = capture.taps.iter().map(|end| end.show(&plan.hosts)).collect();
        let taps = capture.taps.iter().zip(&labels).map(|(end, label)| self.tap(plan, end, label));
        Capture::start(&taps.collect::<Vec<_>>(), &folder.join(&capture.file))
    }

    /// Where a device is captured: at the lab's own end of its link where Millrace has it, else at itself.
    fn tap<'a>(&'a self, plan: &Plan, end: &'a End, label: &'a str) -> Tap<'a> {
        let found = plan.links.iter().enumerate().find(|(_, link)| link.ends.contains(end));
        if let Some((index, link)) = found.filter(|_| end.is_port(&plan.hosts))
            && let (Some(emulator), Some(&carried)) = (&self.emulator, self.emulated.get(&index))
        {
            return emulator.tap(carried, usize::from(link.ends[1] == *end), label);
        }
        let mtu = found.map_or(1500, |(_, link)| link.mtu);
        Tap { namespace: &self.hosts[end.host], device: &end.device, label, mtu, mirrored: false }
    }

    /// The hosts in the order of the plan.
    pub fn hosts(&self) -> &[Namespace] {
        &self.hosts
    }

    /// Ends the captures; what was counted.
    pub fn finish(mut self) -> Counted {
        let file = |capture: &Capture| capture.path().display().to_string();
        let captures = self.captures.drain(..).map(|capture| (file(&capture), capture.stop())).collect();
        let mut links: Vec<_> = self
            .emulated
            .iter()
            .filter_map(|(&index, &link)| {
                let emulator = self.emulator.as_ref()?;
                Some((
                    index,
                    [Direction::Forward, Direction::Backward].map(|direction| emulator.counters(link, direction)),
                ))
            })
            .collect();
        links.sort_by_key(|(index, _)| *index);
        Counted { links, captures }
    }
}

/// How a device is set up.
fn config(host: &Host, device: &str, mtu: u32) -> LinkConfig {
    let Some(device) = host.devices.iter().find(|known| known.name == device) else {
        return LinkConfig::host().mtu(mtu);
    };
    let mut config = if device.port { LinkConfig::port() } else { LinkConfig::host() };
    config = config.mtu(mtu).ipv6(device.addresses.iter().any(|address| address.contains(':')));
    if let Some(mac) = device.mac {
        config = config.mac(mac);
    }
    device.addresses.iter().fold(config, |config, address| config.address(address))
}
