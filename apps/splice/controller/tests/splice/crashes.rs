//! The process dies in the middle of what it does about a packet.

use wire::segment::TcpOptions;

use super::plan::{Exchange, Hosts};
use super::run::{run, run_with};
use super::world::World;

/// Requests that go to one server and to another, and the process dies behind any of the changes that it makes for
/// them: the next one goes on with the connection, and each response comes once.
#[test]
fn a_request_that_goes_to_another_server_outlasts_the_process() {
    let options =
        TcpOptions { mss: Some(1460), scale: Some(7), sack: true, times: Some((6 << 29, 0)), ..TcpOptions::default() };
    let get = |second| Exchange { second, post: false, up: 0, down: 3000, chunked: second, last: false };
    let post = |second| Exchange { second: false, post: true, up: 7000, down: 3000, chunked: second, last: false };
    let order = [false, true, false, false, true, true, false];
    let pools = ["", "reuse = \"never\"", "reuse = \"always\"", "addressing = \"transparent\""];
    outlasts(options, &pools, &order.map(get));
    outlasts(options, &pools[..1], &order.map(post));
}

fn outlasts(options: TcpOptions, pools: &[&'static str], all: &[Exchange]) {
    for settings in pools.iter().copied() {
        let hosts = Hosts { settings, ..Hosts::alike(options, [1, 9]) };
        let mut world = World::new(hosts, all.to_vec());
        assert!(run(&mut world, &[]), "{settings}");
        for times in 1.. {
            let mut crashed = false;
            world.next_client(options, 1, all.to_vec());
            world.die_after(times);
            let done = run_with(&mut world, &[], |world, _| {
                if world.is_down() && !crashed {
                    crashed = true;
                    world.kill_or_start();
                }
            });
            assert!(done, "{settings} {times}: {} bytes came", world.client.received.len());
            assert_eq!(world.lost, 0, "{settings} {times}");
            assert!(world.passthrough() == 0 || all[0].post, "{settings} {times}");
            assert_eq!(world.client.received, world.expected(), "{settings} {times}");
            if !crashed {
                assert!(times > 50, "{settings}: {times} changes in all");
                break;
            }
        }
    }
}
