//! The demo's hosts, and the proxy between them.
//!
//! ```text
//! servers 10.0.2.11 eth0 ── servers 10.0.2.1 | proxy | 10.0.1.1 viewers ═ 100 ms, lossy ═ eth0 10.0.1.11 viewers
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
use lab::{Direction, Emulator, Impairments, LinkConfig, Loss, Namespace, Wire};
use routes::RoutesApplication;
use serde::de::DeserializeOwned;
use serde_json::Value as Json;

use crate::TranslateApplication;

/// What the program needs.
const NEEDED: Applications = Applications::new(&[&TranslateApplication, &RoutesApplication]);
/// How long anything may take that takes a moment on a quiet machine.
pub const PATIENCE: Duration = Duration::from_secs(30);

/// All hosts, and the links between them.
pub struct Network {
    pub servers: Namespace,
    proxy: Namespace,
    pub viewers: Namespace,
    emulator: Emulator,
}

impl Network {
    /// Hosts whose links do nothing yet.
    pub fn new() -> lab::Result<Network> {
        let (servers, proxy, viewers) =
            (Namespace::new("servers")?, Namespace::new("proxy")?, Namespace::new("viewers")?);
        let none = Impairments::default();
        let wires = [
            Wire::new((&proxy, "viewers"), (&viewers, "eth0"), none.clone()),
            Wire::new((&servers, "eth0"), (&proxy, "servers"), none),
        ];
        let emulator = Emulator::start(&wires, 1)?;
        for (net, host, port) in [(1, &viewers, "viewers"), (2, &servers, "servers")] {
            let config = |last: u32| LinkConfig::host().address(format!("10.0.{net}.{last}/24"));
            proxy.configure(port, &config(1))?;
            host.configure("eth0", &config(11))?;
        }
        servers.route("10.0.1.0/24", "10.0.2.1")?;
        viewers.route("10.0.2.0/24", "10.0.1.1")?;
        proxy.set_sysctl("net.ipv4.ip_forward", "1")?;
        for (host, device) in [(&proxy, "viewers"), (&proxy, "servers"), (&viewers, "eth0"), (&servers, "eth0")] {
            host.wait_running(device, PATIENCE)?;
        }
        emulator.wait_running()?;
        Ok(Network { servers, proxy, viewers, emulator })
    }

    /// From now on the way to the viewers and back takes so long, and loses so much of what goes to them.
    pub fn set(&self, round_trip: Duration, loss: f64) -> lab::Result<()> {
        let delayed = Impairments { delay: round_trip / 2, ..Impairments::default() };
        let lossy = Impairments { loss: Loss::Random(loss), ..delayed.clone() };
        self.emulator.set(0, Direction::Forward, lossy)?;
        self.emulator.set(0, Direction::Backward, delayed)
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
                // There the kernel gets copies of all packets, and would reset connections that it knows nothing of.
                let rules =
                    "table inet quiet { chain input { type filter hook input priority 0; tcp dport 8080 drop; }; }";
                network.proxy.check(&["nft", rules]).map_err(Failure::refused)?;
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
        let (_, queries) = self.registry.find("translate", query).map_err(Failure::refused)?;
        let answer = queries.ask(query, Json::Null).ok_or_else(|| Failure::refused("the proxy does not answer"))?;
        serde_json::from_value(answer.map_err(Failure::refused)?).map_err(Failure::refused)
    }

    /// Ends it.
    pub fn stop(self) -> Result<(), Failure> {
        let done = self.instance.stop();
        match done.errors.is_empty() {
            true => Ok(()),
            false => Err(Failure::refused(done.errors.join("; "))),
        }
    }
}
