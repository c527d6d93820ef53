//! Changes of the L3 switch's tables, without end, through its control socket.

use std::path::Path;

use control::socket::{Client, Request};
use serde_json::{Value as Json, json};

/// Entries that come and go.
const ENTRIES: u32 = 2000;

/// Sets and removes routes, neighbours and stations that no packet of a test goes to; in turn, so that all tables are
/// full of holes.
pub struct Churn {
    client: Client,
    step: u32,
    /// Changes made.
    pub changes: u64,
}

impl Churn {
    /// Connects to the switch's socket.
    pub fn new(socket: &str) -> Churn {
        Churn { client: Client::connect(Path::new(socket)).unwrap(), step: 0, changes: 0 }
    }

    fn ask(&mut self, request: &Request) {
        let _: Json = self.client.ask(request).unwrap_or_else(|error| panic!("{error}"));
        self.changes += 1;
    }

    /// Sets an entry of each table, and removes the one that was set half a round ago.
    pub fn step(&mut self) {
        let set = self.step % ENTRIES;
        for (table, key, value) in entries(set) {
            self.ask(&Request::TableSet { table, key, value });
        }
        if self.step >= ENTRIES / 2 {
            for (table, key, _) in entries((self.step - ENTRIES / 2) % ENTRIES) {
                self.ask(&Request::TableDel { table, key });
            }
        }
        self.step += 1;
    }

    /// Entries of all tables now.
    pub fn entries(&mut self) -> Json {
        self.client.ask(&Request::Tables).unwrap_or_else(|error| panic!("{error}"))
    }
}

fn entries(number: u32) -> [(String, Json, Json); 3] {
    let [high, low] = [number >> 8, number & 0xff];
    let mac = format!("02:00:00:01:{high:02x}:{low:02x}");
    // Routes of several lengths, on both sides of the 24 bits that a look-up takes at once.
    let length = 22 + number % 8;
    let prefix = 0x0a80_0000 + (number << 10);
    [
        ("l3_forward.fib".into(), json!(format!("{}/{length}", std::net::Ipv4Addr::from(prefix))), json!(1)),
        ("l3_forward.neighbours".into(), json!(format!("10.64.{high}.{low}")), json!({ "mac": mac, "heard": 0 })),
        ("l2_bridge.stations".into(), json!({ "domain": 1, "mac": mac }), json!({ "port": "p2", "heard": 0 })),
    ]
}
