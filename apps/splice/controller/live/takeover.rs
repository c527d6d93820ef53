//! Another program takes over, by a reload or by another process, under load: connections, requests and what is known
//! of servers go on.

use std::thread;
use std::time::Duration;

use crate::network::{PATIENCE, Splice};
use crate::outlast::{make_patient, under_load};
use crate::web::Client;
use crate::{VIRTUAL, VIRTUAL6, servers, wait_until_up};

/// The splicer's program as files of a test's own.
fn program() -> Vec<(&'static str, String)> {
    macro_rules! files {
        ($($name:literal),*) => { vec![$(($name, include_str!(concat!("../../", $name)).to_owned())),*] };
    }
    files!(
        "accept.baker",
        "closing.baker",
        "flow.baker",
        "entry.baker",
        "errors.baker",
        "fragments.baker",
        "shared.baker",
        "heads.baker",
        "slow_path.baker",
        "rewrite.baker",
        "splice.baker",
        "spliced.baker",
        "verify.baker"
    )
}

/// The same with a second controller, the responder of the examples, which answers for one more address.
fn program_of_two() -> Vec<(&'static str, String)> {
    let mut program = program();
    let root = program.iter_mut().find(|(name, _)| *name == "splice.baker").unwrap();
    let wires = "    rx -> responder.input;
    responder.through -> entry.input;
    responder.arp_requests -> controller responder;
    responder.echo_requests -> controller responder;
    controller responder -> responder.answers;
    responder.output -> tx;
";
    assert!(root.1.contains("    rx -> entry.input;\n"));
    root.1 = root
        .1
        .replace("    rx -> entry.input;\n", wires)
        .replace("import \"slow_path\";", "import \"slow_path\";\nimport \"responder\";");
    let responder = "import \"net/arp\";
import \"net/ether\";
import \"net/icmp\";
import \"net/ipv4\";

struct host_t { address : ipv4_addr_t; port : u8; requests : u32; }

module responder {
    in  ether input, answers;
    out ether arp_requests, echo_requests, through, output;

    hash<ipv4_addr_t, mac_addr_t> addresses[64];
    hash<mac_addr_t, host_t> hosts[1024];

    ppf sort(ether_packet_t *pkt) from input {
        if (pkt->type == ETH_TYPE_ARP) {
            arp_packet_t *request = packet_peek(pkt);
            if (request->operation == ARP_REQUEST && addresses[request->target_ip] != null) {
                channel_put(arp_requests, pkt);
                return;
            }
        }
        if (pkt->type == ETH_TYPE_IPV4) {
            ipv4_packet_t *ip = packet_peek(pkt);
            if (ip->protocol == IP_PROTO_ICMP && ip->ihl == 5 && addresses[ip->dst] != null) {
                channel_put(echo_requests, pkt);
                return;
            }
        }
        channel_put(through, pkt);
    }

    ppf answer(ether_packet_t *pkt) from answers { channel_put(output, pkt); }
}
";
    program.push(("responder.baker", responder.to_owned()));
    program
}

/// The addresses that the second controller answers for.
const ASKED: &str = "10.0.1.90";
const RESPONDER: (&str, &str) = (
    "[controllers.splice.limits]",
    "[tables.responder.addresses]\n\"10.0.1.90\" = \"02:00:00:00:01:fe\"\n\n[controllers.splice.limits]",
);

/// Changes of the program, each from the program as it was: what is declared moves the numbers of channels, counters,
/// tables and metadata.
const CHANGES: [&[(&str, &str, &str)]; 3] = [
    &[("spliced.baker", "    counter expired;", "    counter before; counter expired;")],
    &[
        (
            "entry.baker",
            "    array<mac_addr_t> macs[64]; ",
            "    array<u32> more[8]; hash<u32, u64> others[16];\n    array<mac_addr_t> macs[64]; ",
        ),
        ("splice.baker", "drop_reason no_interface,", "drop_reason another_one, no_interface,"),
    ],
    &[],
];

/// The program changes under load, several times; with the last change the configuration, too.
fn programs_take_over(program: Vec<(&'static str, String)>, more: &[(&str, &str)]) {
    let mut splice = Splice::start_program(program, "xdp", more, None, |_, _| None);
    let _servers = servers(&splice);
    wait_until_up(&splice);
    let mut quiet = [VIRTUAL, VIRTUAL6].map(|address| Client::connect(&splice.client, address).unwrap());
    quiet.iter_mut().for_each(|client| assert_eq!(client.get("/images/quiet").unwrap().status, 200));
    assert_eq!(splice.millrace(&["servers", "drain", "web/b"]).status, Some(0));
    under_load(&mut splice, [VIRTUAL, VIRTUAL6], 5_000_000, CHANGES.len(), |splice, time| {
        let served = |splice: &Splice| splice.metric("service_requests", &["www", "complete"]);
        let before = (served(splice), splice.server("web/a")["since_ms"].as_u64().unwrap());
        splice.reprogram(CHANGES[time]);
        if time == 2 {
            splice.reconfigure(&[("path = \"/images/*\"", "path = \"/pictures/*\"")]);
        }
        assert_eq!(splice.json(&["reload"])["replaced"], true);
        // What it knew it knows still.
        assert!(served(splice) >= before.0, "what was counted begins anew");
        let (a, b) = (splice.server("web/a"), splice.server("web/b"));
        assert!(a["up"] == true && a["since_ms"].as_u64().unwrap() >= before.1, "{a}");
        assert_eq!(b["admin"], "drain");
        if !more.is_empty() {
            assert!(splice.client.ping(ASKED, PATIENCE).unwrap(), "{}", splice.counters());
        }
    });
    quiet.iter_mut().for_each(|client| assert_eq!(client.get("/images/later").unwrap().status, 200));
    // The settings came with the program: only one server of the web is not drained, and the images' route is gone.
    let mut client = Client::connect(&splice.client, VIRTUAL).unwrap();
    assert!((0..4).all(|_| client.get("/images/x").unwrap().server == "a"));
    splice.stop();
}

#[test]
fn connections_outlast_a_changed_program() {
    programs_take_over(program(), &[]);
}

#[test]
fn connections_outlast_a_changed_program_of_two_controllers() {
    programs_take_over(program_of_two(), &[RESPONDER]);
}

/// The process is replaced, as by another version of Millrace, and its program is another one.
#[test]
fn connections_outlast_an_upgrade() {
    let mut splice = Splice::start_program(program_of_two(), "xdp", &[RESPONDER], None, |_, _| None);
    make_patient(&splice);
    let _servers = servers(&splice);
    wait_until_up(&splice);
    assert_eq!(splice.millrace(&["servers", "drain", "web/b"]).status, Some(0));
    under_load(&mut splice, [VIRTUAL, VIRTUAL6], 10_000_000, 2, |splice, time| {
        thread::sleep(Duration::from_millis(300));
        splice.reprogram(CHANGES[time]);
        // By a crash, and as a service manager does it.
        splice.restart([lab::Signal::SIGKILL, lab::Signal::SIGTERM][time], Duration::ZERO);
        splice.wait("nothing is taken up", |splice| splice.said().contains("connections taken up"));
        assert_eq!(splice.server("web/b")["admin"], "drain");
        assert!(splice.client.ping(ASKED, PATIENCE).unwrap(), "{}", splice.counters());
    });
    splice.stop();
}
