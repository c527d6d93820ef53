//! What an instance is started with.

use std::sync::Arc;

use crate::controller::PortInfo;
use crate::engine::EngineKind;
use crate::packets::{Access, FrameConfig};
use crate::ports::{Driver, Gso, OwnAddresses, PortSpec};
use crate::tables::MAX_READERS;
use crate::workers::PollMode;
use crate::xdp::FastPath;

/// Workers of an instance at most. Half of the threads that may read tables, so that others that read tables have
/// theirs.
pub const MAX_WORKERS: usize = MAX_READERS / 2;

/// How to run a program.
#[derive(Clone, Debug)]
pub struct Options {
    /// What runs it.
    pub engine: EngineKind,
    /// Where a part of the program runs in the kernel, that part; the program is the workers' ([`baker::place::Split`])
    /// then.
    pub fast_path: Option<Arc<FastPath>>,
    /// Take XDP programs of others off the interfaces of ports that need one.
    pub replace_xdp: bool,
    /// The name by which others hear of it, such as those that want its interfaces.
    pub name: String,
    /// Its frames.
    pub frames: FrameConfig,
    /// Frames that controllers may have, by name. One that is not named has its part of a fourth of all that ports do
    /// not need, the same for each controller.
    pub controller_frames: Vec<(String, u32)>,
    /// What a worker does when it has nothing to do.
    pub poll: PollMode,
    /// Number of workers.
    pub workers: usize,
    /// CPU to pin each worker to. Where empty, several workers are pinned to the first CPUs that this process may use,
    /// and a single one runs where the kernel has it.
    pub cpus: Vec<usize>,
}

impl Default for Options {
    fn default() -> Self {
        Options {
            engine: EngineKind::NATIVE,
            fast_path: None,
            replace_xdp: false,
            name: "millrace".into(),
            frames: FrameConfig::default(),
            controller_frames: Vec::new(),
            poll: PollMode::Interrupt,
            workers: 1,
            cpus: Vec::new(),
        }
    }
}

/// A port and its place in the program.
#[derive(Clone, Debug)]
pub struct PortConfig {
    /// Name and driver.
    pub spec: PortSpec,
    /// Its number: what `rx.port` and `tx.port` say.
    pub number: u8,
    /// Number of the port that takes the packets that came in here and go to the host; `None`: they are dropped with
    /// the reason `no_host`.
    pub host: Option<u8>,
    /// How workers get at its packets.
    pub access: Access,
    /// The receiver of those for its interface's own addresses.
    pub own: OwnAddresses,
    /// Whether it sends super-packets.
    pub gso: Gso,
    /// What it sends at most, in bytes behind the Ethernet header, even where its interface sends more.
    pub mtu: Option<u32>,
}

impl PortConfig {
    /// What controllers see of it.
    pub(crate) fn info(&self) -> PortInfo {
        let PortConfig { spec, number, host, .. } = self;
        PortInfo {
            number: *number,
            name: spec.name.clone(),
            interface: spec.driver.interface().map(str::to_owned),
            is_tap: matches!(spec.driver, Driver::Tap { .. }),
            in_kernel: spec.driver.hook().is_some(),
            host: *host,
        }
    }

    /// A port with a driver given directly and no host port.
    pub fn new(name: &str, number: u8, driver: Driver) -> Self {
        PortConfig {
            spec: PortSpec { name: name.to_owned(), driver },
            number,
            host: None,
            access: Access::default(),
            own: OwnAddresses::default(),
            gso: Gso::default(),
            mtu: None,
        }
    }
}
