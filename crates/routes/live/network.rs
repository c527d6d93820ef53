//! The network, with `millrace run examples/router` in the middle.

use std::time::{Duration, Instant};

use lab::{Flow, Generator, Host, LinkConfig, Mac, Namespace, Running, Signal, Sink, Traffic, Transport, veth};
use serde_json::Value as Json;

use crate::instance::Runtime;
use crate::process::{Done, ROOT};

/// Long enough for a loaded machine; nothing waits this long when all is well.
pub const PATIENCE: Duration = Duration::from_secs(20);

/// The same tests with the program in the kernel and on workers.
macro_rules! over_both {
    ($($test:ident),* $(,)?) => {
        mod on_workers {
            $(#[test] fn $test() { super::$test("afpacket") })*
        }
        mod in_the_kernel {
            $(#[test] fn $test() { super::$test("xdp") })*
        }
    };
}
pub(crate) use over_both;

/// The hosts' Ethernet addresses.
pub fn mac(host: u8) -> Mac {
    [2, 0, 0, 0, 0, 0x10 + host]
}

/// The router's, by port.
pub fn router(port: u8) -> Mac {
    [2, 0, 0, 0, port, 1]
}

/// Three hosts around a router.
pub struct Router {
    // Declared, so dropped, first: then Millrace is ended before its ports are.
    millrace: Running,
    arguments: Vec<String>,
    runtime: Runtime,
    driver: &'static str,
    pub box_: Namespace,
    pub hosts: Vec<Namespace>,
}

impl Router {
    /// With these settings of `[controllers.routes]`.
    pub fn start(driver: &'static str, settings: &str) -> Router {
        Router::start_with(driver, settings, &[])
    }

    /// The same, with more arguments for `millrace run`; in them `{}` is a directory.
    pub fn start_with(driver: &'static str, settings: &str, more: &[&str]) -> Router {
        let box_ = Namespace::new("router").unwrap_or_else(|error| panic!("{error}"));
        for (key, value) in [("net.ipv4.ip_forward", "0"), ("net.ipv6.conf.all.forwarding", "0")] {
            box_.set_sysctl(key, value).unwrap();
        }
        for key in ["net.ipv4.conf.all.rp_filter", "net.ipv4.conf.default.rp_filter"] {
            box_.set_sysctl(key, "0").unwrap();
        }
        let hosts = (1..=3).map(|number| host(&box_, driver, number)).collect();
        let runtime = Runtime::new();
        let mut config = String::from("[ports]\n");
        for number in 1..=3 {
            match driver {
                "xdp" => config += &format!("p{number} = {{ number = {number}, device = \"xdp:p{number}\" }}\n"),
                _ => {
                    let device = format!("device = \"{driver}:p{number}\", host = \"t{number}\"");
                    config += &format!("p{number} = {{ number = {number}, {device} }}\n");
                    config += &format!("t{number} = {{ number = {}, device = \"tap:svi{number}\" }}\n", 10 + number);
                }
            }
        }
        if driver != "xdp" {
            config += "[tables.classify.outer]\nt1 = \"p1\"\nt2 = \"p2\"\nt3 = \"p3\"\n";
        }
        let config = runtime.write("router.toml", &format!("{config}[controllers.routes]\n{settings}\n"));
        // With room for fewer routes, so that it takes less memory and time.
        let text = std::fs::read_to_string(format!("{ROOT}/examples/router/router.baker")).unwrap();
        let small = text.replace("next_hop(1048576, 524288)", "next_hop(16384, 4096)");
        assert_ne!(small, text, "the example declares other sizes");
        let program = runtime.write("router.baker", &small);
        let mut arguments: Vec<String> = ["run", &program, "-c", &config, "--socket"].map(str::to_owned).to_vec();
        arguments.push(runtime.path("socket"));
        arguments.extend(more.iter().map(|argument| argument.replace("{}", &runtime.path("state"))));
        let millrace = launch(&box_, &arguments);
        let router = Router { millrace, arguments, runtime, driver, box_, hosts };
        if driver != "xdp" {
            (1..=3).for_each(|number| addresses(&router.box_, &format!("svi{number}"), number));
        }
        router.in_step();
        router
    }

    /// The kernel's interface behind a port.
    pub fn interface(&self, port: u8) -> String {
        if self.driver == "xdp" { format!("p{port}") } else { format!("svi{port}") }
    }

    /// Runs ip(8) in the router's namespace; `{N}` is the kernel's interface behind port N.
    #[track_caller]
    pub fn ip(&self, arguments: &str) {
        let arguments = (1..=3)
            .fold(arguments.to_owned(), |text, port| text.replace(&format!("{{{port}}}"), &self.interface(port)));
        let words: Vec<&str> = std::iter::once("ip").chain(arguments.split_whitespace()).collect();
        self.box_.check(&words).unwrap_or_else(|error| panic!("{error}"));
    }

    /// As [`Router::ip`], while Millrace does not run.
    pub fn unheard(&mut self, arguments: &str) {
        self.millrace.signal(Signal::SIGSTOP).unwrap();
        self.ip(arguments);
        self.millrace.signal(Signal::SIGCONT).unwrap();
    }

    /// Asks Millrace: a subcommand with its arguments.
    pub fn ask(&self, arguments: &[&str]) -> Done {
        self.runtime.millrace(&[arguments, &["--socket", &self.runtime.path("socket")]].concat())
    }

    /// As [`Router::ask`], in JSON.
    pub fn json(&self, arguments: &[&str]) -> Json {
        self.runtime.json(&[arguments, &["--socket", &self.runtime.path("socket")]].concat())
    }

    /// Writes a file beside the configuration; its path.
    pub fn write(&self, name: &str, content: &str) -> String {
        self.runtime.write(name, content)
    }

    /// The path of a file there.
    pub fn path(&self, name: &str) -> String {
        self.runtime.path(name)
    }

    /// Waits until this holds of what `millrace routes` says.
    #[track_caller]
    pub fn until(&self, what: &str, holds: impl Fn(&Json) -> bool) -> Json {
        self.until_said(&["routes"], what, holds)
    }

    /// The same of a look-up of an address.
    #[track_caller]
    pub fn until_route(&self, address: &str, what: &str, holds: impl Fn(&Json) -> bool) -> Json {
        self.until_said(&["routes", address], what, holds)
    }

    #[track_caller]
    fn until_said(&self, command: &[&str], what: &str, holds: impl Fn(&Json) -> bool) -> Json {
        let start = Instant::now();
        loop {
            let said = self.json(command);
            if holds(&said) {
                return said;
            }
            assert!(start.elapsed() < PATIENCE, "{command:?}: not {what}: {said}");
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// Waits until the tables are as the kernel has it.
    #[track_caller]
    pub fn in_step(&self) {
        let has_ports = |said: &Json| said["ports"].as_array().unwrap().iter().any(|port| !port[1].is_null());
        self.until("in step", |said| said["state"] == "in step" && has_ports(said));
    }

    /// Waits until packets to an address go by a port.
    #[track_caller]
    pub fn leads_to(&self, address: &str, port: u8) -> Json {
        self.until_route(address, &format!("by p{port}"), |said| said["port"] == format!("p{port}"))
    }

    /// Packets that were dropped for a reason.
    pub fn dropped(&self, reason: &str) -> u64 {
        self.json(&["counters"])["drops"][reason].as_u64().unwrap_or(0)
    }

    /// Numbered packets from h1 to an address, in this many flows.
    pub fn flows(&self, to: &str, flows: u16) -> Vec<Flow> {
        let from = if to.contains(':') { "2001:db8:1::11" } else { "10.0.1.11" };
        let address = (from.parse().unwrap(), to.parse().unwrap());
        let flow = |port| Flow { mac: (mac(1), router(1)), address, transport: Transport::Udp { ports: (port, 9) } };
        (5000..5000 + flows).map(flow).collect()
    }

    /// Counts the numbered packets that come to a host.
    pub fn sink(&self, host: usize) -> Sink {
        Sink::start(&self.hosts[host - 1], Host::DEVICE, None).unwrap()
    }

    /// Sends from h1, so many packets per second, until it is stopped.
    pub fn stream(&self, to: &str, flows: u16, rate: u64) -> Generator {
        let traffic = Traffic::flows(&self.flows(to, flows), &[100]).unwrap().rate(rate);
        Generator::start(&self.hosts[0], Host::DEVICE, traffic).unwrap()
    }

    /// Sends so many packets from h1, a few thousand per second.
    pub fn send(&self, to: &str, flows: u16, count: u64) {
        let traffic = Traffic::flows(&self.flows(to, flows), &[100]).unwrap().rate(3000).count(count);
        let sent = Generator::start(&self.hosts[0], Host::DEVICE, traffic).unwrap().wait(PATIENCE).unwrap();
        assert_eq!((sent.packets, sent.refused), (count, 0));
    }

    /// Sends packets from h1 to an address; all come to this host.
    #[track_caller]
    pub fn arrives(&self, to: &str, host: usize) {
        let sink = self.sink(host);
        self.send(to, 4, 50);
        let received = sink.stop_after(50, PATIENCE).unwrap();
        assert_eq!((received.packets, received.duplicated), (50, 0), "{to}: {received:?}");
    }

    /// Kills Millrace, waits so long, and starts it again.
    pub fn kill_and_start(&mut self, pause: Duration) {
        self.millrace.signal(Signal::SIGKILL).unwrap();
        self.millrace.wait(PATIENCE).unwrap();
        std::thread::sleep(pause);
        self.millrace = launch(&self.box_, &self.arguments);
    }

    /// Ends Millrace; it must end well.
    pub fn stop(self) {
        self.stop_with(0);
    }

    /// Ends Millrace, with this exit status.
    pub fn stop_with(mut self, status: i32) {
        self.ask(&["stop"]).ok();
        let output = self.millrace.wait(PATIENCE).unwrap_or_else(|error| panic!("{error}"));
        assert_eq!(output.status.code(), Some(status), "{output}");
        assert!(!output.both().contains("panicked"), "{output}");
    }
}

/// Starts Millrace and waits until packets pass.
fn launch(box_: &Namespace, arguments: &[String]) -> Running {
    let mut millrace = box_.command(env!("CARGO_BIN_EXE_millrace")).args(arguments).spawn().unwrap();
    millrace.wait_for_start(PATIENCE).unwrap_or_else(|error| panic!("{error}"));
    millrace
}

/// A host with its link to the router.
fn host(box_: &Namespace, driver: &str, number: u8) -> Namespace {
    let ns = Namespace::new(&format!("h{number}")).unwrap();
    let port = format!("p{number}");
    veth(&ns, Host::DEVICE, box_, &port).unwrap();
    let config = LinkConfig::host().mac(mac(number)).ipv6(true).address(format!("10.0.{number}.1{number}/24"));
    ns.configure(Host::DEVICE, &config.address(format!("2001:db8:{number}::1{number}/64"))).unwrap();
    if driver == "xdp" {
        box_.configure(&port, &LinkConfig::host().mac(router(number)).ipv6(true)).unwrap();
        addresses(box_, &port, number);
        // So that it takes packets from the kernel's part of the program.
        ns.check(&["ethtool", "-K", Host::DEVICE, "gro", "on"]).unwrap();
    } else {
        box_.configure(&port, &LinkConfig::port()).unwrap();
    }
    box_.wait_running(&port, PATIENCE).unwrap();
    ns.wait_running(Host::DEVICE, PATIENCE).unwrap();
    ns.check(&["ip", "route", "add", "default", "via", &format!("10.0.{number}.1")]).unwrap();
    ns.check(&["ip", "-6", "route", "add", "default", "via", &format!("2001:db8:{number}::1")]).unwrap();
    ns
}

/// The kernel's addresses in the subnet of a port.
fn addresses(box_: &Namespace, device: &str, number: u8) {
    let config = LinkConfig::host().mac(router(number)).ipv6(true).keep_offloads();
    let config = config.address(format!("10.0.{number}.1/24")).address(format!("2001:db8:{number}::1/64"));
    box_.configure(device, &config).unwrap();
}
