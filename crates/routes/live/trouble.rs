//! Interfaces that come and go, events that are lost, a kernel that can't be asked.

use std::time::Duration;

use lab::Namespace;
use serde_json::Value as Json;

use crate::network::{PATIENCE, Router, over_both};

over_both!(links_go_down_and_come_back);

fn links_go_down_and_come_back(driver: &'static str) {
    let router = Router::start(driver, "unresolved = \"drop\"");
    router.ip("route add 10.9.0.0/16 via 10.0.2.12");
    router.ip("route add 10.9.0.0/16 via 10.0.3.13 metric 100");
    router.ip("route add 10.8.0.0/16 nexthop via 10.0.2.12 nexthop via 10.0.3.13");
    router.leads_to("10.9.1.1", 2);
    router.arrives("10.9.1.1", 2);
    router.ip("link set {2} down");
    router.leads_to("10.9.1.1", 3);
    router.arrives("10.9.1.1", 3);
    router.arrives("10.8.1.1", 3);
    router.ip("link set {2} up");
    // The kernel has forgotten the first one, and so have the tables.
    router.until_route("10.0.2.99", "connected again", |said| said["reason"] == "neighbour_unresolved");
    router.leads_to("10.9.1.1", 3);
    router.ip("route add 10.9.0.0/16 via 10.0.2.12");
    router.leads_to("10.9.1.1", 2);
    router.arrives("10.9.1.1", 2);
    // Its address and MTU change.
    router.ip("link set {2} mtu 1400");
    router.until_route("10.9.1.1", "shorter", |said| said["mtu"] == 1400);
    router.ip("route flush table main root 10.8.0.0/15");
    router.until_route("10.9.1.1", "flushed", |said| said["reason"] == "no_route");
    router.stop();
}

/// An interface that is moved to another namespace is no port any more, and one that comes in its place is.
#[test]
fn an_interface_is_taken_away_and_another_one_comes() {
    let router = Router::start("xdp", "unresolved = \"drop\"");
    router.ip("route add 10.9.0.0/16 via 10.0.2.12");
    router.ip("route add 10.9.0.0/16 via 10.0.3.13 metric 100");
    router.leads_to("10.9.1.1", 2);
    let away = Namespace::new("away").unwrap();
    let id = away.path();
    let id = id.split('/').nth(4).unwrap();
    router.ip(&format!("link set p2 netns {id}"));
    router.until("without p2", |said| said["ports"][1][1].is_null());
    router.leads_to("10.9.1.1", 3);
    router.arrives("10.9.1.1", 3);
    router.ip("link add p2 type veth peer name other");
    router.until("with another p2", |said| said["ports"][1][1] == "p2");
    router.ip("link del p2");
    router.until("without it", |said| said["ports"][1][1].is_null());
    router.arrives("10.9.1.1", 3);
    drop(away);
    // One of its ports has no interface.
    router.stop_with(2);
}

/// More happens at once than the kernel has room to tell.
#[test]
fn lost_events_are_made_up_for() {
    const ROUTES: u32 = 5000;
    let mut router = Router::start("xdp", "receive_buffer = 4096\ncheck = \"24h\"");
    router.ip("neigh add 10.0.2.12 lladdr 02:00:00:00:00:12 dev {2}");
    let count = |said: &Json| said["routes4"].as_u64().unwrap();
    // A neighbour is a route, too.
    router.leads_to("10.0.2.12", 2);
    let before = count(&router.until("in step", |said| said["state"] == "in step"));
    let (mut add, mut change) = (String::new(), String::new());
    for number in 0..ROUTES {
        let prefix = format!("10.{}.{}.0/24", 32 + number / 256, number % 256);
        add += &format!("route add {prefix} via 10.0.2.12\n");
        match number % 2 {
            0 => change += &format!("route del {prefix}\n"),
            _ => change += &format!("route replace {prefix} via 10.0.2.12 mtu 1300\n"),
        }
    }
    let (add, change) = (router.write("add", &add), router.write("change", &change));
    router.unheard(&format!("-batch {add}"));
    router.until("all routes", |said| count(said) == before + u64::from(ROUTES) && said["state"] == "in step");
    router.unheard(&format!("-batch {change}"));
    let said = router.until("half of them", |said| count(said) == before + u64::from(ROUTES) / 2);
    let last = format!("10.{}.{}.1", 32 + (ROUTES - 1) / 256, (ROUTES - 1) % 256);
    router.until_route(&last, "changed", |said| said["mtu"] == 1300);
    assert!(said["overruns"].as_u64().unwrap() > 0, "{said}");
    router.stop();
}

/// Another program takes over, and settings change, while routes stay in force.
#[test]
fn reloads_keep_the_routes() {
    let router = Router::start("xdp", "unresolved = \"drop\"");
    router.ip("route add 10.9.0.0/16 via 10.0.2.12");
    let before = router.leads_to("10.9.1.1", 2);
    let sink = router.sink(2);
    let stream = router.stream("10.9.1.1", 4, 2000);
    let config = router.path("router.toml");
    let text = std::fs::read_to_string(&config).unwrap();
    for settings in ["mirror = false", "mirror = true\nunreachable = \"host\""] {
        let (head, _) = text.split_once("[controllers.routes]").unwrap();
        std::fs::write(&config, format!("{head}[controllers.routes]\n{settings}\n")).unwrap();
        router.ask(&["reload"]).ok();
        let wanted = if settings.contains("false") { "off" } else { "in step" };
        router.until(wanted, |said| said["state"] == wanted);
        assert_eq!(router.json(&["routes", "10.9.1.1"]), before);
    }
    router.until_route("192.0.2.1", "the host's", |said| said["to"] == "host");
    let sent = stream.stop().unwrap();
    let received = sink.stop_after(sent.packets, PATIENCE).unwrap();
    assert_eq!((received.lost(&sent), received.duplicated), (0, 0), "{sent:?} {received:?}");
    let wrong = text.replace("[controllers.routes]", "[controllers.routes]\nunresolved = \"keep\"\ntabel = 1");
    std::fs::write(&config, wrong.replace("unresolved = \"drop\"", "")).unwrap();
    let refused = router.ask(&["reload"]).failed(1);
    assert!(refused.contains("controllers.routes.unresolved") && refused.contains("did you mean `table`"), "{refused}");
    router.stop();
}

/// The process is killed, and routes change before the next one is there. Packets pass all the time.
#[test]
fn packets_pass_while_the_process_is_gone() {
    let kept = ["--state", "{}", "--instance", "routes-live"];
    let mut router = Router::start_with("xdp", "unresolved = \"drop\"", &kept);
    router.ip("route add 10.9.0.0/16 via 10.0.2.12");
    router.ip("route add 10.10.0.0/16 via 10.0.2.12");
    router.leads_to("10.9.1.1", 2);
    router.leads_to("10.10.1.1", 2);
    // Until it is on disk.
    std::thread::sleep(Duration::from_millis(500));
    let sink = router.sink(2);
    let stream = router.stream("10.9.1.1", 4, 1000);
    router.kill_and_start(Duration::from_millis(300));
    router.leads_to("10.9.1.1", 2);
    router.in_step();
    router.ip("route replace 10.10.0.0/16 via 10.0.3.13");
    router.leads_to("10.10.1.1", 3);
    let sent = stream.stop().unwrap();
    let received = sink.stop_after(sent.packets, PATIENCE).unwrap();
    assert_eq!((received.lost(&sent), received.duplicated), (0, 0), "{sent:?} {received:?}");
    router.stop();
}
