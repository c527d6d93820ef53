//! Connections outlast the process: it is killed in mid-stream, changed, or ended and started again.

use std::io::Read;
use std::time::Duration;

use crate::network::{PATIENCE, PROXIES, Proxy};
use crate::sender::{PACKET, Sender, compare, without_nulls};
use crate::{BYTES, Client, during};

/// Viewers of one stream by both versions of IP.
fn viewers(proxy: &Proxy) -> Vec<Client> {
    PROXIES.map(|address| Client::ask(proxy, address, "/tower")).into()
}

#[test]
fn connections_outlast_a_process_that_is_killed() {
    let mut proxy = Proxy::start("xdp", &[("# at_end = \"keep\"", "at_end = \"keep\"")]);
    let mut sender = Sender::new(&proxy, "10.0.2.11:7100", "239.1.2.3:5004", false);
    let taken = during(&mut sender, || {
        let mut clients = viewers(&proxy);
        clients.iter_mut().for_each(|client| assert!(client.head().starts_with("HTTP/1.1 200 OK\r\n")));
        let mut taken: Vec<Vec<u8>> = clients.iter_mut().map(|client| client.take(BYTES)).collect();
        for kill in 0..2 {
            // An orderly end is none to them, either.
            if kill == 0 {
                proxy.kill_and_start()
            } else {
                proxy.end_and_start()
            }
            proxy.wait("nothing goes on", |proxy| proxy.said().contains("connections of the process before go on"));
            for (client, taken) in clients.iter_mut().zip(&mut taken) {
                let mut more = vec![0; BYTES];
                let read = client.0.read_exact(&mut more);
                read.unwrap_or_else(|error| panic!("kill {kill}: {error}: {}", proxy.said()));
                taken.extend(more);
            }
            assert_eq!(proxy.metric("translate_taken_up_total"), 2, "kill {kill}: {}", proxy.said());
            assert_eq!(proxy.metric("translate_not_taken_up_total"), 0, "kill {kill}");
        }
        // One that comes now has the same stream.
        let mut other = Client::ask(&proxy, PROXIES[0], "/tower");
        other.head();
        taken.push(other.take(BYTES));
        let shown = proxy.json(&["translate", "sessions"]);
        let first = &shown[0];
        assert_eq!((&first["request"], &first["state"]), (&"GET /tower HTTP/1.1".into(), &"plays".into()), "{shown}");
        taken
    });
    for taken in taken {
        // Whole packets, each once, in order; what was under way is null packets.
        let (packets, nulls) = without_nulls(&taken);
        assert!(nulls <= 256, "{nulls} null packets");
        compare(&packets, &sender.payloads, sender.payloads.len());
    }
    proxy.wait("something is left", |proxy| proxy.metric("translate_connections") == 0);
    assert_eq!(proxy.groups().contains("239.1.2.3"), proxy.metric("translate_streams") == 1);
    proxy.stop();
}

/// What packets change is lost there with the process, so clients are told by a reset, and come again.
#[test]
fn connections_that_do_not_outlast_it_are_reset() {
    let mut proxy = Proxy::start("afpacket", &[]);
    let mut sender = Sender::new(&proxy, "10.0.2.11:7100", "239.1.2.3:5004", false);
    during(&mut sender, || {
        let mut old = Client::ask(&proxy, PROXIES[0], "/tower");
        old.head();
        old.take(BYTES);
        // The state of what packets change is written every 10 s: of the other one nothing is there.
        std::thread::sleep(Duration::from_secs(11));
        let mut new = Client::ask(&proxy, PROXIES[1], "/tower");
        new.head();
        new.take(BYTES);
        proxy.kill_and_start();
        for mut client in [old, new] {
            // One answer in eight looks like a cookie's, until the period of those has ended.
            client.0.set_read_timeout(Some(3 * PATIENCE)).unwrap();
            let mut rest = Vec::new();
            let ended = client.0.read_to_end(&mut rest).expect_err("a reset");
            assert_eq!(ended.kind(), std::io::ErrorKind::ConnectionReset, "{}", proxy.said());
        }
        assert!(proxy.said().contains("is reset: what packets have changed last went"), "{}", proxy.said());
        assert_eq!(proxy.metric("translate_not_taken_up_total"), 2);
        let mut again = Client::ask(&proxy, PROXIES[0], "/tower");
        again.head();
        again.take(BYTES);
    });
    proxy.wait("something is left", |proxy| proxy.metric("translate_connections") == 0);
    proxy.stop();
}

/// Clients get it, and whoever comes meanwhile is refused.
#[test]
fn an_orderly_end_is_the_connections_end() {
    let mut proxy = Proxy::start("xdp", &[]);
    let mut sender = Sender::new(&proxy, "10.0.2.11:7100", "239.1.2.3:5004", false);
    let taken = during(&mut sender, || {
        let mut client = Client::ask(&proxy, PROXIES[0], "/tower");
        client.head();
        let mut taken = client.take(BYTES);
        let reading = std::thread::spawn(move || {
            let mut rest = Vec::new();
            client.0.read_to_end(&mut rest).expect("the end, and no reset");
            rest
        });
        proxy.end_and_start();
        taken.extend(reading.join().unwrap());
        let mut again = Client::ask(&proxy, PROXIES[1], "/tower");
        again.head();
        again.take(BYTES);
        let shown = proxy.json(&["translate", "sessions"]);
        assert!(shown.as_array().unwrap().iter().filter(|own| own["state"] == "plays").count() == 1, "{shown}");
        taken
    });
    assert_eq!(taken.len() % PACKET, 0, "whole packets");
    compare(&taken, &sender.payloads, 0);
    proxy.stop();
}
