//! Namespaces appear, hold only what was put in, and disappear.

use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::MetadataExt;
use std::panic::{AssertUnwindSafe, catch_unwind};

use crate::common::eventually;
use lab::{Error, Namespace, veth};

fn names(ns: &Namespace) -> Vec<String> {
    ns.devices().unwrap().into_iter().map(|device| device.name).collect()
}

fn identity(path: &str) -> u64 {
    std::fs::metadata(path).unwrap().ino()
}

#[test]
fn new_namespace_holds_only_loopback() {
    let ns = Namespace::new("x").unwrap();
    assert_eq!(names(&ns), ["lo"]);
    assert!(ns.device("lo").unwrap().running);
    assert_eq!(ns.name(), format!("mr-{}-x", std::process::id()));
    assert!(matches!(ns.device("eth9"), Err(Error::System { .. })));
}

#[test]
fn programs_and_closures_run_inside() {
    let outside = identity("/proc/thread-self/ns/net");
    let (a, b) = (Namespace::new("same").unwrap(), Namespace::new("same").unwrap());
    let inside = a.enter(|| identity("/proc/thread-self/ns/net")).unwrap();
    assert_ne!(inside, outside);
    assert_ne!(inside, b.enter(|| identity("/proc/thread-self/ns/net")).unwrap());
    assert_eq!(identity(&a.path()), inside);
    assert_eq!(identity("/proc/thread-self/ns/net"), outside, "the caller stays where it is");
    let seen = a.check(&["readlink", "/proc/self/ns/net"]).unwrap().text();
    assert_eq!(seen.trim(), format!("net:[{inside}]"));
    let listed = a.check(&["ip", "-oneline", "link"]).unwrap().text();
    assert_eq!(listed.lines().count(), 1, "{listed}");
    assert!(listed.starts_with("1: lo: "), "{listed}");
}

#[test]
fn sockets_opened_inside_work_outside() {
    let ns = Namespace::new("x").unwrap();
    let listener = ns.enter(|| TcpListener::bind("127.0.0.1:0")).unwrap().unwrap();
    let address = listener.local_addr().unwrap();
    assert!(ns.enter(|| TcpStream::connect(address)).unwrap().is_ok());
    assert!(Namespace::new("y").unwrap().enter(|| TcpStream::connect(address)).unwrap().is_err());
}

#[test]
fn dropping_a_namespace_removes_its_links() {
    let stays = Namespace::new("stays").unwrap();
    let goes = Namespace::new("goes").unwrap();
    veth(&goes, "one", &stays, "two").unwrap();
    assert_eq!(names(&stays), ["lo", "two"]);
    assert_eq!(names(&goes), ["lo", "one"]);
    let path = goes.path();
    drop(goes);
    assert!(std::fs::metadata(path).is_err());
    eventually("the link's other end is gone", || names(&stays) == ["lo"]);
}

#[test]
fn a_panic_removes_the_namespace() {
    let stays = Namespace::new("stays").unwrap();
    let panic = catch_unwind(AssertUnwindSafe(|| {
        let goes = Namespace::new("goes").unwrap();
        veth(&goes, "one", &stays, "two").unwrap();
        assert_eq!(names(&stays), ["lo", "two"]);
        goes.enter(|| panic!("a failed assertion inside")).unwrap();
    }));
    assert_eq!(panic.unwrap_err().downcast_ref::<&str>(), Some(&"a failed assertion inside"));
    eventually("the link's other end is gone", || names(&stays) == ["lo"]);
}

#[test]
fn kernel_parameters_are_the_namespaces_own() {
    let (a, b) = (Namespace::new("a").unwrap(), Namespace::new("b").unwrap());
    for (ns, value) in [(&a, "61"), (&b, "62")] {
        ns.set_sysctl("net.ipv4.ip_default_ttl", value).unwrap();
    }
    assert_eq!(a.sysctl("net.ipv4.ip_default_ttl").unwrap(), "61");
    assert_eq!(b.sysctl("net.ipv4.ip_default_ttl").unwrap(), "62");
    let error = a.set_sysctl("net.ipv4.no_such_thing", "1").unwrap_err().to_string();
    assert!(error.contains("net.ipv4.no_such_thing = 1"), "{error}");
}
