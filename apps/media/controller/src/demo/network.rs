//! The demo's hosts, and the proxy between them.
//!
//! ```text
//! viewers 10.0.1.11, 2001:db8:1::11 ── viewers  proxy  servers ── servers 10.0.2.11, 2001:db8:2::11
//!                       10.0.1.1, 2001:db8:1::1          10.0.2.1, 2001:db8:2::1
//! ```

use std::sync::Arc;
use std::time::Duration;

use baker::ir::Program;
use baker::opt::Level;
use cli::failure::Failure;
use cli::say;
use control::application::Registry;
use control::applications::Applications;
use control::config::Config;
use dataplane::ports::{Driver, PortSpec, kernel_options};
use dataplane::xdp::FastPath;
use dataplane::{Instance, Options};
use lab::{LinkConfig, Namespace, veth};
use routes::RoutesApplication;
use serde::de::DeserializeOwned;
use serde_json::Value as Json;

use crate::MediaApplication;

/// What the program needs.
const NEEDED: Applications = Applications::new(&[&MediaApplication, &RoutesApplication]);
/// How long anything may take that takes a moment on a quiet machine.
pub const PATIENCE: Duration = Duration::from_secs(30);

/// All hosts.
pub struct Network {
    proxy: Namespace,
    pub viewers: Namespace,
    pub servers: Namespace,
}

impl Network {
    /// Hosts with addresses of both versions of IP.
    pub fn new() -> lab::Result<Network> {
        let (proxy, viewers, servers) =
            (Namespace::new("proxy")?, Namespace::new("viewers")?, Namespace::new("servers")?);
        for (net, host, port) in [(1, &viewers, "viewers"), (2, &servers, "servers")] {
            veth(host, "eth0", &proxy, port)?;
            let config = |last: u32| {
                let config = LinkConfig::host().ipv6(true).address(format!("10.0.{net}.{last}/24"));
                config.address(format!("2001:db8:{net}::{last}/64"))
            };
            proxy.configure(port, &config(1))?;
            host.configure("eth0", &config(11))?;
            // A veth device takes packets from the kernel's fast path only where its other end has this.
            host.check(&["ethtool", "-K", "eth0", "gro", "on"])?;
        }
        for (host, device) in [(&proxy, "viewers"), (&proxy, "servers"), (&viewers, "eth0"), (&servers, "eth0")] {
            host.wait_running(device, PATIENCE)?;
        }
        Ok(Network { proxy, viewers, servers })
    }
}

/// The running proxy.
pub struct Running {
    instance: Instance,
    registry: Registry,
}

impl Running {
    /// In the kernel where it lets this process, else on workers.
    pub fn start(program: &Arc<Program>, network: &Network) -> Result<Running, Failure> {
        let made = network.proxy.enter(|| FastPath::new(program, Level::Cgpc, kernel_options([])));
        let (program, fast_path) = match made.map_err(Failure::refused)? {
            Ok(Some((workers, path))) => (workers, Some(Arc::new(path))),
            _ => {
                say!("not in the kernel, which lets this process load nothing: all of it runs on workers");
                (program.clone(), None)
            }
        };
        let config = Config::parse("demo.toml", include_str!("demo.toml"), &program, NEEDED)
            .map_err(|errors| Failure::wrong(errors[0].to_string()))?;
        let devices = ["viewers", "servers"].map(|name| {
            let interface = name.to_owned();
            let driver = match fast_path {
                Some(_) => Driver::Xdp { interface },
                None => Driver::AfPacket { interface },
            };
            PortSpec { name: name.to_owned(), driver }
        });
        let ports = config.port_configs(&devices).map_err(|errors| Failure::several(&errors))?;
        let needed = NEEDED.of_program(&program).map_err(|error| Failure::wrong(error.to_string()))?;
        needed.begin(&config.controllers).map_err(Failure::refused)?;
        let (frames, controller_frames) = (config.frames, config.controller_frames.clone());
        let options = Options { frames, controller_frames, fast_path, ..Options::default() };
        let (controllers, queries) = (needed.controllers, needed.query_targets);
        // Controllers have their sockets where they are started.
        let begin = || {
            let prepared = Instance::prepare_with(program.clone(), &options, &ports, controllers);
            let prepared = prepared.map_err(Failure::refused)?;
            config.fill(&program, &mut prepared.tables()).map_err(Failure::wrong)?;
            prepared.run().map_err(Failure::refused)
        };
        let instance = network.proxy.enter(begin).map_err(Failure::refused)??;
        Ok(Running { instance, registry: Registry::new(queries) })
    }

    /// Asks the proxy.
    pub fn ask<T: DeserializeOwned>(&self, query: &str) -> Result<T, Failure> {
        let (_, queries) = self.registry.find("media", query).map_err(Failure::refused)?;
        let answer = queries.ask(query, Json::Null).ok_or_else(|| Failure::refused("the proxy does not answer"))?;
        serde_json::from_value(answer.map_err(Failure::refused)?).map_err(Failure::refused)
    }

    /// Ends it.
    pub fn stop(self) -> Result<(), Failure> {
        let done = self.instance.stop();
        if done.errors.is_empty() && done.free_frames == done.frames {
            return Ok(());
        }
        Err(Failure::refused(format!("frames are missing; {}", done.errors.join("; "))))
    }
}
