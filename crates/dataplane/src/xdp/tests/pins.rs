//! Names in a BPF file system.

use std::fs;
use std::os::fd::OwnedFd;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;

use crate::xdp::bpf_fs::c_path;
use crate::xdp::pins::{Named, Pins, forget_in};
use crate::xdp::sys::{self, MapType};
use crate::xdp::{left_by, old_place};

/// A directory with a BPF file system in `root`, and other ones for states.
struct Scratch(PathBuf);

impl Scratch {
    fn new(name: &str) -> Scratch {
        let path = std::env::temp_dir().join(format!("millrace-pins-{name}-{}", std::process::id()));
        let scratch = Scratch(path);
        scratch.mount("root");
        ["one", "other"].iter().for_each(|state| fs::create_dir_all(scratch.0.join(state)).unwrap());
        scratch
    }

    fn mount(&self, name: &str) {
        let at = self.0.join(name);
        fs::create_dir_all(&at).unwrap();
        sys::mount_bpf_fs(&c_path(&at).unwrap()).unwrap();
    }

    fn open(&self, state: &str, name: &str) -> Pins {
        Pins::open_in(&self.0.join("root"), &self.0.join(state), name).unwrap()
    }

    fn names(&self, of: &str) -> Vec<String> {
        let entries = fs::read_dir(self.0.join(of)).unwrap();
        let mut names: Vec<_> = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.retain(|name| !name.ends_with(".debug"));
        names.sort();
        names
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        for mounted in ["root", "one/bpf"] {
            // The second one is not always there.
            let _ = sys::unmount(&c_path(&self.0.join(mounted)).unwrap());
        }
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn map() -> OwnedFd {
    sys::map_create(MapType::Array, 8, 1, 0, "test").unwrap()
}

fn named(object: &OwnedFd, tables: &str) -> Named<'static> {
    let object: &'static OwnedFd = Box::leak(Box::new(object.try_clone().unwrap()));
    Named { objects: vec![("program", object)], tables: tables.into() }
}

#[test]
fn whatever_else_lies_there_programs_get_a_number() {
    let scratch = Scratch::new("numbers");
    let pins = scratch.open("one", "edge");
    for other in ["18446744073709551615", "4294967295", "4294967296", "007", "x", "link-x", "link-07"] {
        fs::create_dir(scratch.0.join("root/edge").join(other)).unwrap();
    }
    let (map, text) = (map(), "12\nhash 1 2\tm.t\tdeclared\n".repeat(5000));
    assert_eq!([pins.name(&named(&map, &text)).unwrap(), pins.name(&named(&map, "")).unwrap()], [1, 2]);
    assert_eq!(pins.programs().unwrap(), [1, 2, u32::MAX]);
    assert_eq!(pins.interfaces().unwrap(), []);
    assert_eq!([1, 2, 3].map(|number| pins.tables(number).unwrap()), [Some(text), Some(String::new()), None]);
    assert_eq!(sys::object_id(&pins.object(1, "program").unwrap().unwrap()).unwrap(), sys::object_id(&map).unwrap());
    pins.keep_only(Some(2)).unwrap();
    assert_eq!(pins.programs().unwrap(), [2]);
    assert_eq!(fs::metadata(scratch.0.join("root")).unwrap().mode() & 0o777, 0o700);
    assert_eq!(fs::metadata(scratch.0.join("root/edge")).unwrap().mode() & 0o777, 0o700);
}

#[test]
fn names_belong_to_states() {
    let scratch = Scratch::new("states");
    let (one, other) = (scratch.open("one", "a.b"), scratch.open("other", "a.b"));
    let map = map();
    assert_eq!([&one, &other].map(|pins| pins.name(&named(&map, "")).unwrap()), [1, 1]);
    assert_eq!(scratch.names("root"), ["a_b", "a_b-2"]);
    assert_eq!(scratch.names("root/a_b-2"), ["1", "state"]);
    // While one has it no other does, whatever the state: such as of another root directory with the same path.
    let third = scratch.open("one", "a.b");
    assert_eq!(scratch.names("root"), ["a_b", "a_b-2", "a_b-3"]);
    drop(third);
    // What has named nothing leaves nothing; what has, is found again by the state under any name.
    assert_eq!(scratch.names("root"), ["a_b", "a_b-2"]);
    drop((one, other));
    let again = scratch.open("other", "c");
    assert_eq!((scratch.names("root"), again.programs().unwrap()), (vec!["a_b".into(), "a_b-2".into()], vec![1]));
    again.clear().unwrap();
    // A directory without an owner, since its process died just then, is as good as none.
    fs::create_dir(scratch.0.join("root/d")).unwrap();
    let left = scratch.open("other", "d");
    assert_eq!(scratch.names("root"), ["a_b", "d"]);
    drop(left);
    assert_eq!(scratch.names("root"), ["a_b"]);
    assert!(left_by(u32::MAX).is_none());
    // An instance that takes over nothing takes what is there out of the kernel, but nothing of one that lives or of
    // others.
    let root = scratch.0.join("root");
    let alive = scratch.open("one", "b");
    forget_in(&root, &scratch.0.join("one")).unwrap();
    assert_eq!(scratch.names("root"), ["a_b"]);
    drop(alive);
    forget_in(&root, &scratch.0.join("other")).unwrap();
    assert_eq!(scratch.names("root"), ["a_b"]);
    forget_in(&root, &scratch.0.join("one")).unwrap();
    assert!(!root.join("a_b").exists());
}

/// What ends has given its directory away before it is dropped.
#[test]
fn the_end_of_one_instance_leaves_the_next_one_of_its_name_alone() {
    let scratch = Scratch::new("next");
    let (map, one) = (map(), scratch.open("one", "edge"));
    one.clear().unwrap();
    let next = scratch.open("other", "edge");
    one.clear().unwrap();
    drop(one);
    next.set_link(1, &map).unwrap();
    assert_eq!((next.interfaces().unwrap(), scratch.names("root")), (vec![1], vec!["edge".to_owned()]));
}

#[test]
fn names_in_the_states_own_directory_move() {
    let scratch = Scratch::new("move");
    scratch.mount("one/bpf");
    // As earlier versions named them.
    let (map, state) = (map(), scratch.0.join("one"));
    fs::create_dir(state.join("bpf/7")).unwrap();
    for name in ["7/program", "7/memory", "link-9"] {
        sys::pin(&map, &c_path(&state.join("bpf").join(name)).unwrap()).unwrap();
    }
    fs::write(state.join("kernel-7.tables"), "12\n").unwrap();
    fs::write(state.join("tables.redb"), "").unwrap();
    let pins = scratch.open("one", "edge");
    old_place::take_over(&pins, &state).unwrap();
    assert_eq!(scratch.names("one"), ["tables.redb"]);
    assert_eq!(
        (scratch.names("root/edge"), scratch.names("root/edge/1")),
        (vec!["1".into(), "link-9".into(), "state".into()], vec!["memory".into(), "program".into(), "tables".into()])
    );
    assert_eq!((pins.tables(1).unwrap(), pins.interfaces().unwrap()), (Some("12\n".into()), vec![9]));
    // Where its file system has gone with its process there is an empty directory.
    fs::create_dir(state.join("bpf")).unwrap();
    old_place::take_over(&pins, &state).unwrap();
    assert_eq!(scratch.names("one"), ["tables.redb"]);
}
