//! Servers that see the clients' addresses.

use crate::network::{PATIENCE, Splice, must};
use crate::web::{Client, pattern};
use crate::{VIRTUAL, VIRTUAL6, servers, wait_until_up};

fn servers_see_the_client(driver: &str) {
    let changes = [("balance = \"round_robin\"", "addressing = \"transparent\"\nbalance = \"round_robin\"")];
    // Whatever goes to clients goes by way of Millrace.
    let splice = Splice::start_with(driver, &changes, None, |_, servers| {
        for (version, gateway) in [("-4", "10.0.2.254"), ("-6", "2001:db8:2::254")] {
            must(servers.check(&["ip", version, "route", "add", "default", "via", gateway]));
        }
        None
    });
    let _servers = servers(&splice);
    wait_until_up(&splice);
    for address in [VIRTUAL, VIRTUAL6] {
        let mut client = Client::connect(&splice.client, address).unwrap();
        for size in [10, 1_000_000] {
            let seen = client.get("/peer").unwrap();
            assert_eq!(String::from_utf8_lossy(&seen.body), client.own_address());
            assert_eq!(client.get(&format!("/bytes/{size}")).unwrap().body, pattern(size));
            assert_eq!(client.get("/images/x").unwrap().server, "b");
        }
        assert_eq!(client.put("/images/up", b"abc", true).unwrap().body, b"/images/up");
    }
    // The same client port again and again, while the servers still remember it.
    for address in ["10.0.1.80", "[2001:db8:1::80]"] {
        for _ in 0..4 {
            // It is the server that closes, so the client does not wait with its port.
            let url = format!("http://{address}/close/10000");
            let curl = splice.client.command("curl").args(["-sS", "--fail", "--local-port", "50000"]);
            let done = must(curl.args(["--max-time", "20", &url]).limit(PATIENCE).check());
            assert!(done.stdout == pattern(10_000), "{}", done.stdout.len());
        }
    }
    splice.stop();
}

#[test]
fn servers_see_the_client_on_workers() {
    servers_see_the_client("afpacket");
}

#[test]
fn servers_see_the_client_in_the_kernel() {
    servers_see_the_client("xdp");
}
