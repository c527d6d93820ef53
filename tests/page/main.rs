//! The web page in a real browser: what it shows of a running instance, on a phone and on a desk, by keyboard alone.
//! Run by `make compat`.
//!
//! Needs Chromium (`tools/setup compat` installs it), and fails without. Pictures of views are compared with those of
//! docs/pictures, which UPDATE_DOCUMENTS=1 writes anew.

use std::collections::BTreeSet;
use std::os::unix::fs::PermissionsExt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use base64::Engine;
use lab::{LinkConfig, Namespace, RawPort, Signal, veth};
use serde_json::json;

#[allow(dead_code)]
#[path = "../support/devtools.rs"]
mod devtools;
#[allow(dead_code)]
#[path = "../support/instance.rs"]
mod instance;
#[allow(dead_code)]
#[path = "../support/process.rs"]
mod process;

use devtools::Browser;
use instance::{Instance, Runtime};
use process::ROOT;

/// Nothing takes so long when all is well.
const PATIENCE: Duration = Duration::from_secs(60);
const TOKEN: &str = "0123456789abcdef0123456789abcdef";
const PHONE: (u32, u32) = (360, 740);
const DESK: (u32, u32) = (1280, 800);
const VIEWS: [&str; 7] = ["overview", "graph", "traces", "costs", "tables", "controllers", "instance-view"];
/// Views of which pictures are kept.
const KEPT: [(&str, &str, &str); 5] = [
    ("overview", "desk", "dark"),
    ("graph", "desk", "light"),
    ("graph", "phone", "dark"),
    ("tables", "phone", "light"),
    ("instance-view", "desk", "light"),
];

/// An application without devices but for a port that a capture comes in at; where its page is.
fn start<'r>(runtime: &'r Runtime, app: &str, ports: &[(&str, &str)]) -> (Instance<'r>, String) {
    let token = runtime.write("token", TOKEN);
    std::fs::set_permissions(&token, PermissionsExt::from_mode(0o600)).unwrap();
    let text = std::fs::read_to_string(format!("{ROOT}/apps/{app}/{app}.toml")).unwrap();
    let config = runtime.write("w.toml", &format!("[web]\nlisten = 0\ntoken_file = \"{token}\"\n{text}"));
    let ports: Vec<String> = ports.iter().map(|(name, device)| format!("--port={name}={device}")).collect();
    let ports = ports.iter().map(String::as_str);
    let start: Vec<&str> = [app, "-c", &config, "--engine", "worker"].into_iter().chain(ports).collect();
    let instance = runtime.start(&start);
    let url = instance.stdout().lines().find_map(|line| line.strip_prefix("web: ").map(str::to_owned)).unwrap();
    (instance, url)
}

fn switch(runtime: &Runtime) -> (Instance<'_>, String) {
    let capture = format!("pcap:{ROOT}/examples/first.pcap");
    let ports = ["p2", "p3", "p4", "svi1p", "svi2p"].map(|name| (name, "mem:"));
    start(runtime, "l3switch", &[&[("p1", &*capture)][..], &ports].concat())
}

fn browser(runtime: &Runtime) -> Browser {
    let folder = runtime.path("browser");
    std::fs::create_dir(&folder).unwrap();
    Browser::start(&folder)
}

fn is_updating() -> bool {
    std::env::var_os("UPDATE_DOCUMENTS").is_some()
}

/// Keeps a picture beside the documents.
fn keep(picture: &str, path: &str) {
    let picture = base64::engine::general_purpose::STANDARD.decode(picture).unwrap();
    assert!(picture.len() < 100_000, "{path}: {} bytes", picture.len());
    std::fs::create_dir_all(format!("{ROOT}/docs/pictures")).unwrap();
    std::fs::write(path, picture).unwrap();
}

/// Compares what is seen with the picture that is kept beside the documents, or keeps it. What is another number each
/// time is left out.
fn compare(browser: &mut Browser, name: &str) {
    // Squares of so many pixels are compared by their mean colours, in which the shapes of letters do not matter.
    const SQUARE: u32 = 8;
    // Of 255.
    const ALIKE: u32 = 32;
    browser.wait("document.querySelectorAll('.edge.busy').length === 0");
    browser.value(
        "(() => { for (const own of document.querySelectorAll('#about, td.number, .now, #status td:last-child, \
         .chart path, .small.bad')) own.textContent = ''; \
         for (const own of document.querySelectorAll('.chart path')) own.setAttribute('d', ''); })()",
    );
    let picture = browser.picture();
    let path = format!("{ROOT}/docs/pictures/{name}.webp");
    let base64 = base64::engine::general_purpose::STANDARD;
    if is_updating() {
        return keep(&picture, &path);
    }
    let kept = std::fs::read(&path).unwrap_or_else(|error| panic!("{path}: {error}"));
    // A page without the policy of ours reads them.
    browser.open("about:blank", DESK, false);
    let found = browser.value(&format!(
        "(async () => {{ \
         const read = async (text) => {{ const own = new Image(); own.src = 'data:image/webp;base64,' + text; \
           await own.decode(); const [width, height] = [own.width, own.height]; \
           const canvas = new OffscreenCanvas(Math.ceil(width / {SQUARE}), Math.ceil(height / {SQUARE})); \
           const to = canvas.getContext('2d'); to.imageSmoothingQuality = 'high'; \
           to.drawImage(own, 0, 0, canvas.width, canvas.height); \
           return {{ width, height, data: to.getImageData(0, 0, canvas.width, canvas.height).data }}; }}; \
         const [now, kept] = [await read({picture:?}), await read({:?})]; \
         if (now.width !== kept.width || now.height !== kept.height) return 1; \
         let other = 0; \
         for (let at = 0; at < now.data.length; at += 4) \
           if ([0, 1, 2].some((c) => Math.abs(now.data[at + c] - kept.data[at + c]) > {ALIKE})) other += 1; \
         return other / (now.data.length / 4); }})()",
        base64.encode(kept)
    ));
    let share = found.as_f64().unwrap();
    // Where a font of another version has letters of another width, some squares differ.
    assert!(share < 0.02, "{name}: {:.1} % of what is seen is not as in {path}", share * 100.0);
}

#[test]
fn every_view_fits_on_a_phone_and_on_a_desk() {
    let runtime = Runtime::new();
    let (_instance, url) = switch(&runtime);
    let mut browser = browser(&runtime);
    for (size, is_dark) in [(PHONE, false), (DESK, true), (DESK, false), (PHONE, true)] {
        for view in VIEWS {
            browser.open(&format!("{url}#{view}"), size, is_dark);
            browser.wait("document.getElementById('connection')?.textContent === 'Live'");
            browser.wait(&format!("!document.getElementById('{view}').hidden"));
            match view {
                "overview" => browser.wait("document.querySelectorAll('#ports tbody tr').length === 6"),
                "graph" => browser.wait("document.querySelectorAll('#drawing .node').length > 10"),
                "tables" => browser.wait("document.querySelectorAll('#entries tbody tr').length > 0"),
                _ => browser.wait("document.body.innerText.length > 100"),
            }
            // Only what can be scrolled by itself is wider.
            let wide = browser.value("[document.documentElement.scrollWidth, innerWidth]");
            assert!(wide[0].as_u64() <= wide[1].as_u64(), "{view} at {size:?}: {wide}");
            let is_problem = browser.value("!document.getElementById('problem').hidden");
            assert_eq!(is_problem, false, "{view}: {}", browser.value("document.body.innerText"));
            // What a finger is to hit is large enough.
            let small = browser.value(
                "[...document.querySelectorAll('button, select, nav a')].filter((own) => own.offsetHeight > 0 && \
                 own.offsetHeight < 36).map((own) => own.outerHTML)",
            );
            assert_eq!(small, json!([]), "{view}");
            // Everything that can be used has a name.
            let nameless = browser.value(
                "[...document.querySelectorAll('input, select, button, [role=region], [role=button]')].filter((own) => \
                 !(own.labels?.length || own.textContent.trim() || own.getAttribute('aria-label'))).length",
            );
            assert_eq!(nameless, 0, "{view}");
            let (where_, light) =
                (if size == PHONE { "phone" } else { "desk" }, if is_dark { "dark" } else { "light" });
            if KEPT.contains(&(view, where_, light)) {
                compare(&mut browser, &format!("web-{view}-{where_}"));
            }
        }
    }
    assert_eq!(browser.complaints(), Vec::<String>::new());
}

#[test]
fn it_shows_what_the_instance_counts() {
    let runtime = Runtime::new();
    let (_instance, url) = switch(&runtime);
    let mut browser = browser(&runtime);
    browser.open(&url, DESK, false);
    browser.wait("document.querySelectorAll('#ports tbody tr').length === 6");
    let counters = runtime.json(&["counters"]);
    let received = counters["ports"]["p1"]["rx_packets"].to_string();
    browser.wait(&format!("document.querySelector('#ports tbody tr').cells[6].textContent === '{received}'"));
    let dropped = counters["drops"].as_object().unwrap().values().filter(|count| **count != 0).count();
    assert!(dropped > 0);
    browser.wait(&format!("document.querySelectorAll('#drops tbody tr').length === {dropped}"));
    browser.open(&format!("{url}#graph"), DESK, false);
    let graph = runtime.json(&["graph"]);
    // Each port comes in on one side and goes out on the other.
    let nodes = graph["nodes"].as_array().unwrap().len() + 2 * 6;
    browser.wait(&format!("document.querySelectorAll('#drawing .node').length === {nodes}"));
    let wires = graph["edges"].as_array().unwrap().len();
    browser.wait(&format!("document.querySelectorAll('#wires tbody tr').length === {wires}"));
    // What runs them is seen by colour, and read.
    browser.wait("document.querySelectorAll('.node.worker').length > 5");
    assert_eq!(browser.value("document.querySelectorAll('.node.worker .small').length > 5"), true);
    let overlaps = browser.value(
        "(() => { const all = [...document.querySelectorAll('.node rect')].map((own) => own.getBoundingClientRect()); \
         return all.filter((a, at) => all.slice(at + 1).some((b) => a.left < b.right && b.left < a.right && \
         a.top < b.bottom && b.top < a.bottom)).length; })()",
    );
    assert_eq!(overlaps, 0);
    assert_eq!(browser.complaints(), Vec::<String>::new());
}

#[test]
fn a_keyboard_is_enough() {
    let runtime = Runtime::new();
    let (instance, url) = switch(&runtime);
    let mut browser = browser(&runtime);
    browser.open(&url, DESK, false);
    browser.wait("document.getElementById('connection')?.textContent === 'Live'");
    // From one thing to the next, to the one that a selector tells.
    let go = |browser: &mut Browser, selector: &str| {
        for _ in 0..60 {
            browser.press("Tab");
            if browser.value(&format!("document.activeElement.matches({selector:?})")) == true {
                return;
            }
        }
        panic!("no way to {selector}");
    };
    go(&mut browser, "#token-button");
    browser.press("Enter");
    browser.wait("document.getElementById('token-dialog').open && document.activeElement.id === 'token'");
    browser.write("not the token");
    browser.press("Enter");
    browser.wait("document.getElementById('problem').textContent === 'This is not the token.'");
    go(&mut browser, "#token-button");
    browser.press("Enter");
    browser.write(TOKEN);
    browser.press("Enter");
    browser.wait("document.getElementById('token-button').textContent === 'Token ✓'");
    go(&mut browser, "nav a[href='#tables']");
    browser.press("Enter");
    browser.wait("document.querySelectorAll('#table option').length > 3");
    browser.value("document.getElementById('table').value = 'l3_forward.fib'");
    browser.value("document.getElementById('table').dispatchEvent(new Event('change'))");
    browser.wait("document.querySelectorAll('#entries tbody tr').length === 2");
    go(&mut browser, "#set-key");
    browser.write("10.9.0.0/16");
    go(&mut browser, "#set-value");
    browser.write("2");
    browser.press("Enter");
    browser.wait("document.querySelectorAll('#entries tbody tr').length === 3");
    assert_eq!(runtime.json(&["table", "get", "l3_forward.fib", "10.9.0.0/16"])["value"], 2);
    go(&mut browser, "#entries button[aria-label='Remove 10.9.0.0/16']");
    browser.press("Enter");
    browser.wait("document.getElementById('confirm').open");
    go(&mut browser, "#confirm button[value=yes]");
    browser.press("Enter");
    browser.wait("document.querySelectorAll('#entries tbody tr').length === 2");
    go(&mut browser, "nav a[href='#graph']");
    browser.press("Enter");
    go(&mut browser, ".node[aria-label^='l3_forward.route']");
    browser.press("Enter");
    browser.wait("document.getElementById('node').innerText.includes('bad_checksum')");
    go(&mut browser, "nav a[href='#instance-view']");
    browser.press("Enter");
    go(&mut browser, "#stop");
    browser.press("Enter");
    go(&mut browser, "#confirm button[value=yes]");
    browser.press("Enter");
    instance.end().ok();
    browser.wait("document.getElementById('connection').className === 'lost'");
}

#[test]
fn a_traced_packet_is_shown_on_the_graph() {
    // A network of this thread's own, and of what it starts.
    nix::sched::unshare(nix::sched::CloneFlags::CLONE_NEWNET).unwrap();
    let ip = |arguments: &str| {
        let done = std::process::Command::new("ip").args(arguments.split(' ')).status().unwrap();
        assert!(done.success(), "ip {arguments}");
    };
    ip("link set lo up");
    let runtime = Runtime::new();
    let ports = ["p2", "p3", "p4", "svi1p", "svi2p"].map(|name| (name, "mem:"));
    let (_instance, url) = start(&runtime, "l3switch", &[&[("p1", "tap:host")][..], &ports].concat());
    ip("link set host up");
    ip("addr add 10.99.0.1/24 dev host");
    let mut browser = browser(&runtime);
    browser.open(&format!("{url}#traces"), DESK, false);
    browser.wait("document.getElementById('connection')?.textContent === 'Live'");
    // It shows what hosts say to each other to nobody without the token.
    assert_eq!(browser.value("document.getElementById('trace').hidden"), true);
    browser.value(&format!("sessionStorage.setItem('millrace-token', {TOKEN:?})"));
    browser.open("about:blank", DESK, false);
    browser.open(&format!("{url}#traces"), DESK, false);
    browser.wait(
        "document.getElementById('trace')?.hidden === false && document.querySelectorAll('#trace-port option').length === 7",
    );
    browser.value("document.getElementById('trace-packets').value = '1'");
    browser.value("document.getElementById('trace-port').value = 'p1'");
    browser.value("document.getElementById('trace').requestSubmit()");
    browser.wait("document.getElementById('trace-about').textContent.includes('awaited')");
    // The kernel asks for the address on the interface.
    let socket = std::net::UdpSocket::bind("10.99.0.1:0").unwrap();
    socket.send_to(b"hello", "10.99.0.2:9").unwrap();
    browser.wait("document.querySelectorAll('#traces-list tbody tr').length === 1");
    let found = runtime.json(&["trace", "show"]);
    browser.value("document.querySelector('#traces-list button').click()");
    browser.wait("document.querySelectorAll('#trace-steps li').length > 0");
    let steps = found["traces"][0]["steps"].as_array().unwrap();
    let entered: Vec<&str> =
        steps.iter().filter(|step| step["step"] == "enter").map(|step| step["ppf"].as_str().unwrap()).collect();
    assert!(!entered.is_empty());
    let shown = browser.value("document.querySelectorAll('#trace-steps li, #trace-steps h4').length");
    assert_eq!(shown, steps.len());
    browser.value("document.querySelector('#trace-steps button').click()");
    browser.wait("document.querySelectorAll('.node.walked').length > 0");
    for ppf in &entered {
        browser.wait(&format!("document.querySelector(\".node.walked[aria-label^='{ppf}']\") !== null"));
    }
    browser.wait("document.querySelector(\".node.walked[aria-label^='p1']\") !== null");
    compare(&mut browser, "web-trace-desk");
    browser.open(&format!("{url}#traces"), DESK, false);
    browser.wait("document.querySelectorAll('#traces-list button').length === 1");
    browser.value("document.querySelector('#traces-list button').click()");
    browser.value("document.querySelector('#trace-steps button').click()");
    browser.wait("document.querySelectorAll('.node.walked').length > 0");
    browser.value("document.getElementById('walked-forget').click()");
    browser.wait("document.querySelectorAll('.walked').length === 0");

    // What the packet costs, in each PPF that it came to.
    browser.open(&format!("{url}#costs"), DESK, false);
    browser.wait("document.getElementById('connection')?.textContent === 'Live'");
    browser.wait("document.getElementById('timing').hidden === false");
    browser.value("document.getElementById('accesses-measure').click()");
    browser.wait("document.querySelectorAll('#accesses tbody tr').length > 0");
    let own = "[...document.querySelectorAll('#accesses tbody tr')].map((own) => own.cells[0].textContent)";
    let shown: BTreeSet<String> = serde_json::from_value(browser.value(own)).unwrap();
    assert_eq!(shown, entered.iter().map(|ppf| (*ppf).to_owned()).collect());
    let sum = |browser: &mut Browser, cell: usize| {
        let cells = format!(
            "[...document.querySelectorAll('#accesses tbody tr')].map((own) => Number(own.cells[{cell}].textContent))"
        );
        browser.value(&format!("{cells}.reduce((sum, own) => sum + own, 0)")).as_f64().unwrap()
    };
    // Accesses to the packet, as the program is written and as it is optimised.
    let (base, optimised) = (sum(&mut browser, 2), sum(&mut browser, 3));
    assert!(0.0 < optimised && optimised < base, "{base} {optimised}");

    // And how long packets are there, measured while they come.
    browser.value("document.getElementById('timing-seconds').value = '5'");
    browser.value("document.getElementById('timing').requestSubmit()");
    browser.wait("document.getElementById('timing-about').textContent.includes('left')");
    while browser.value("document.getElementById('timing-about').textContent.includes('left')") == true {
        socket.send_to(b"hello", "10.99.0.255:9").ok();
        socket.send_to(b"hello", "10.99.0.2:9").unwrap();
        thread::sleep(Duration::from_millis(20));
    }
    let found = browser.value("fetch('/api/v1/timing').then((answer) => answer.json())");
    let found: Vec<&str> = found["ppfs"].as_array().unwrap().iter().map(|own| own["ppf"].as_str().unwrap()).collect();
    assert!(found.contains(&"l3_switch.l2_clsfr"), "{found:?}");
    let shown =
        browser.value("[...document.querySelectorAll('#times tbody tr')].map((own) => own.cells[0].textContent)");
    assert_eq!(shown, json!(found));
    browser.value("document.querySelector('#times button').click()");
    browser.wait("document.querySelectorAll('.bars rect').length > 0");
    assert_eq!(browser.complaints(), Vec::<String>::new());
}

#[test]
fn controllers_answer_in_tables() {
    let runtime = Runtime::new();
    let (_instance, url) = start(&runtime, "splice", &[("clients", "mem:"), ("servers", "mem:")]);
    let mut browser = browser(&runtime);
    browser.open(&format!("{url}#controllers"), PHONE, true);
    browser.wait("document.querySelectorAll('#queries option').length > 3");
    browser.wait("document.querySelectorAll('#states tbody tr').length >= 1");
    browser.value(
        "(() => { const own = document.getElementById('queries'); own.value = [...own.options].findIndex((one) => \
                   one.textContent === 'splice: servers'); document.getElementById('query').requestSubmit(); })()",
    );
    browser.wait("document.querySelectorAll('#answer table').length > 0");
    let wide = browser.value("[document.documentElement.scrollWidth, innerWidth]");
    assert!(wide[0].as_u64() <= wide[1].as_u64(), "{wide}");
    assert_eq!(browser.complaints(), Vec::<String>::new());
}

/// A frame of a station, bridged by the switch.
fn bridged(to: u8, from: u8) -> Vec<u8> {
    let station = |number: u8| [2, 0, 0, 0, 9, number];
    [&station(to)[..], &station(from), &[0x88, 0xb5], &[7; 100]].concat()
}

#[test]
fn it_is_live_where_the_kernel_forwards() {
    for driver in ["xdp", "tc"] {
        let runtime = Runtime::new();
        let box_ = Namespace::new("page").unwrap();
        let hosts = ["h1", "h2"].map(|name| Namespace::new(name).unwrap());
        for (host, port) in hosts.iter().zip(["p1", "p2"]) {
            veth(host, "eth0", &box_, port).unwrap();
            box_.configure(port, &LinkConfig::port()).unwrap();
            host.configure("eth0", &LinkConfig::host()).unwrap();
            // Else what the kernel forwards there is dropped.
            host.check(&["ethtool", "-K", "eth0", "gro", "on"]).unwrap();
        }
        let ports = [("p1", driver), ("p2", driver), ("p3", "mem"), ("p4", "mem"), ("svi1p", "mem"), ("svi2p", "mem")];
        let devices = ports.map(|(port, kind)| match kind {
            "mem" => format!("--port={port}=mem:"),
            kind => format!("--port={port}={kind}:{port}"),
        });
        let socket = runtime.path("sock");
        let command = box_.command(env!("CARGO_BIN_EXE_millrace")).args(["run", "l3switch", "--web", "0"]);
        let mut running = command.args(["--socket", &socket]).args(&devices).spawn().unwrap();
        running.wait_for_text("running on 6 ports", PATIENCE).unwrap();
        let said = running.both();
        let url = said.lines().find_map(|line| line.strip_prefix("web: ")).unwrap_or_else(|| panic!("{said}"));

        let mut browser = box_.enter(|| browser(&runtime)).unwrap();
        browser.open(&format!("{url}#graph"), DESK, false);
        browser.wait(&format!("document.querySelectorAll('.node.{driver}').length > 4"));
        assert_eq!(browser.value("document.querySelectorAll('.edge.busy').length"), 0);
        let [one, other] = hosts.each_ref().map(|host| RawPort::open(host, "eth0").unwrap());
        other.send(&bridged(1, 2)).unwrap();
        let stop = AtomicBool::new(false);
        thread::scope(|scope| {
            // Some hundred packets a second between two stations; one in five is dropped, for a group has sent it.
            let sender = scope.spawn(|| {
                let (mut sent, end) = (0u64, Instant::now() + 2 * PATIENCE);
                while !stop.load(Ordering::Relaxed) && Instant::now() < end {
                    one.send(&bridged(2, 1)).unwrap();
                    if sent.is_multiple_of(4) {
                        one.send(&[&bridged(2, 1)[..6], &[3, 0, 0, 0, 9, 1], &bridged(2, 1)[12..]].concat()).unwrap();
                    }
                    sent += 1;
                    thread::sleep(Duration::from_millis(2));
                }
                sent
            });
            browser.wait("document.querySelectorAll('.edge.busy').length >= 3");
            browser.wait(
                "[...document.querySelectorAll('.node .small.bad')].some((own) => own.textContent.includes('drops '))",
            );
            browser.open(&format!("{url}#overview"), DESK, false);
            // What is shown is a rate as it was sent: between 100 and 600 a second, however busy the machine.
            browser.wait(
                "(() => { const own = Number(document.querySelector('#ports tbody tr')?.cells[2].textContent); \
                 return own > 100 && own < 700; })()",
            );
            browser.wait(
                "[...document.querySelectorAll('#drops tbody tr')].some((own) => \
                 own.cells[0].textContent === 'group_source' && Number(own.cells[1].textContent) > 10)",
            );
            // With numbers that are others each time, so they are not compared.
            if driver == "xdp" && is_updating() {
                for view in ["overview", "graph"] {
                    browser.open(&format!("{url}#{view}"), DESK, false);
                    browser.wait("document.getElementById('connection')?.textContent === 'Live'");
                    // Rates are there from the second look on.
                    thread::sleep(Duration::from_secs(4));
                    keep(&browser.picture(), &format!("{ROOT}/docs/pictures/web-live-{view}.webp"));
                }
                browser.open(&format!("{url}#overview"), DESK, false);
                browser.wait("document.querySelectorAll('#ports tbody tr').length === 6");
            }
            stop.store(true, Ordering::Relaxed);
            let sent = sender.join().unwrap();
            // In the end all of them are counted, and nobody else's.
            browser.wait(&format!(
                "Number(document.querySelector('#ports tbody tr').cells[6].textContent.replace(/\\D/g, '')) === {}",
                sent + sent.div_ceil(4)
            ));
            let dropped = format!(
                "[...document.querySelectorAll('#drops tbody tr')].some((own) => own.cells[0].textContent === \
                 'group_source' && Number(own.cells[2].textContent.replace(/\\D/g, '')) === {})",
                sent.div_ceil(4)
            );
            browser.wait(&dropped);
        });
        assert_eq!(browser.complaints(), Vec::<String>::new());
        drop(browser);
        running.signal(Signal::SIGINT).unwrap();
        running.wait(PATIENCE).unwrap();
    }
}
