//! What a reload takes away: pools, servers, services and addresses, under load. No client loses anything by that.

use crate::network::Splice;
use crate::outlast::under_load;
use crate::web::Client;
use crate::{VIRTUAL, VIRTUAL6, servers, wait_until_up};

/// What the example has besides: a pool before all others in the alphabet, and one behind; a service before the other
/// one, and one behind; another own address. Each is what one of [`REMOVALS`] takes away.
const MORE: [(&str, &str); 5] = [
    (
        "[controllers.splice.pools.images]",
        "[controllers.splice.pools.aaa]\nservers = [{ name = \"a\", address = \"10.0.2.11:80\" }]\npreconnect = 2\n\n\
         [controllers.splice.pools.zimages]\npreconnect = 2",
    ),
    (
        "    { path = \"/images/*\", method = [\"GET\", \"HEAD\"], pool = \"images\" },\n    { host = \"images.example\", pool = \"images\" },\n",
        "    { path = \"/images/*\", method = [\"GET\", \"HEAD\"], pool = \"zimages\" },\n    { host = \"images.example\", pool = \"zimages\" },\n    \
         { path = \"/bytes/*\", method = [\"PATCH\"], pool = \"aaa\" },\n",
    ),
    (
        "[controllers.splice.services.www]",
        "[controllers.splice.services.other]\naddress = [\"10.0.1.81:80\", \"10.0.1.80:8080\"]\npool = \"web\"\n\n\
         [controllers.splice.services.www]",
    ),
    (
        "[controllers.splice.timeouts]",
        "[controllers.splice.services.xxx]\naddress = \"10.0.1.82:80\"\npool = \"web\"\n\n[controllers.splice.timeouts]",
    ),
    ("addresses = [\"10.0.2.254/24\", ", "addresses = [\"10.0.2.254/24\", \"10.0.2.253/24\", "),
];

/// Reloads, one after the other: what is replaced by what.
const REMOVALS: [(&str, &[(&str, &str)]); 8] = [
    (
        "the first pool",
        &[
            (
                "[controllers.splice.pools.aaa]\nservers = [{ name = \"a\", address = \"10.0.2.11:80\" }]\npreconnect = 2\n",
                "",
            ),
            ("    { path = \"/bytes/*\", method = [\"PATCH\"], pool = \"aaa\" },\n", ""),
        ],
    ),
    (
        "the first service",
        &[(
            "[controllers.splice.services.other]\naddress = [\"10.0.1.81:80\", \"10.0.1.80:8080\"]\npool = \"web\"\n",
            "",
        )],
    ),
    ("a server", &[("    { name = \"b\", address = \"10.0.2.12:80\" },\n", "")]),
    (
        "the last pool",
        &[
            (
                "[controllers.splice.pools.zimages]\npreconnect = 2\nservers = [{ name = \"b\", address = \"10.0.2.12:80\" }, { name = \"b6\", address = \"[2001:db8:2::12]:80\" }]\n",
                "",
            ),
            (
                "    { path = \"/images/*\", method = [\"GET\", \"HEAD\"], pool = \"zimages\" },\n    { host = \"images.example\", pool = \"zimages\" },\n",
                "",
            ),
        ],
    ),
    ("the last service", &[("[controllers.splice.services.xxx]\naddress = \"10.0.1.82:80\"\npool = \"web\"\n", "")]),
    (
        "another server, for the one before",
        &[(
            "    { name = \"a\", address = \"10.0.2.11:80\" },\n",
            "    { name = \"b\", address = \"10.0.2.12:80\" },\n",
        )],
    ),
    (
        "an own address that is in use",
        &[("addresses = [\"10.0.2.254/24\", \"10.0.2.253/24\", ", "addresses = [\"10.0.2.253/24\", ")],
    ),
    (
        "a virtual address that is in use",
        &[("address = [\"10.0.1.80:80\", \"[2001:db8:1::80]:80\"]", "address = \"10.0.1.80:80\"")],
    ),
];

#[test]
fn what_is_removed_cuts_nothing() {
    let mut splice = Splice::start("xdp", &MORE, None);
    let _servers = servers(&splice);
    wait_until_up(&splice);
    // Those without requests meanwhile, one of them on an address that goes.
    let mut quiet = [VIRTUAL, VIRTUAL6].map(|address| Client::connect(&splice.client, address).unwrap());
    quiet.iter_mut().for_each(|client| assert_eq!(client.get("/images/quiet").unwrap().status, 200));
    under_load(&mut splice, [VIRTUAL, VIRTUAL6], 5_000_000, REMOVALS.len(), |splice, time| {
        let (what, changes) = REMOVALS[time];
        assert_eq!(splice.reload(changes)["controllers"], serde_json::json!(["splice"]), "{what}");
        let shown = splice.json(&["servers"]);
        assert!(shown.as_array().is_some_and(|all| all.len() >= 2), "{what}: {shown}");
    });
    quiet.iter_mut().for_each(|client| assert_eq!(client.get("/images/later").unwrap().status, 200));
    // A client of an address that is there no more is told so.
    for address in ["10.0.1.80:8080", VIRTUAL6] {
        assert!(Client::connect(&splice.client, address).is_err(), "{address}");
    }
    let shown = splice.json(&["servers"]).to_string();
    assert!(!shown.contains("aaa") && !shown.contains("\"a\""), "{shown}");
    splice.stop();
}
