//! What was kept is there again.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use baker::ir::{Program, TableEntry, TableId, TableStore};
use dataplane::ports::{Driver, MemPort};
use dataplane::{EngineKind, Instance, Options, PortConfig, Prepared, TableAccess};

use super::*;
use crate::application::Kept;

fn program(declared: &str) -> Arc<Program> {
    let text = format!(
        "import \"net/ether\";\nmodule m {{ in ether input; out ether output; {declared}\n\
         ppf p(ether_packet_t *p) from input {{\n\
             u32 *count = seen[p->type]; if (count != null) *count = *count + 1; channel_put(output, p); }} }}\n\
         program {{ rx -> m.input; m.output -> tx; }}"
    );
    let found = baker::check::check("test.baker", &text, &baker::library::Library);
    Arc::new(baker::ir::lower(&found.program.unwrap_or_else(|| panic!("{:?}", found.diagnostics))))
}

fn prepared(program: &Arc<Program>, engine: EngineKind) -> Prepared {
    let ports = [PortConfig::new("a", 1, Driver::Mem(MemPort::default()))];
    Instance::prepare(program.clone(), &Options { engine, ..Options::default() }, &ports).unwrap()
}

fn tables(program: &Arc<Program>) -> TableAccess {
    prepared(program, EngineKind::NATIVE).tables()
}

struct Scratch(PathBuf);

impl Scratch {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("millrace-state-{name}-{}", std::process::id()));
        // It is there only where an earlier test was killed.
        let _ = std::fs::remove_dir_all(&path);
        Scratch(path)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn entry(key: u128, prefix_len: Option<u32>, value: u128) -> TableEntry {
    TableEntry { key: vec![key], prefix_len, value: vec![value] }
}

const TABLES: &str = "lpm<u32, u32> fib[1000]; hash<u16, u32> seen[16]; array<u32> limits[8]; hash<u32, u32> gone[4];";

#[test]
fn changes_are_kept_as_they_are_made() {
    let scratch = Scratch::new("changes");
    let before = program(TABLES);
    let mut store = tables(&before);
    store.insert(TableId(0), &entry(0x0a00_0000, Some(8), 1)).unwrap();
    let configured = vec![("m.fib".to_owned(), entry(0x0a00_0000, Some(8), 1))];
    let persister = Persister::start(
        Store::open(&scratch.0).unwrap(),
        before.clone(),
        configured.clone(),
        store.clone(),
        Vec::new(),
    )
    .unwrap();
    for n in 0..900u32 {
        store.insert(TableId(0), &entry(u128::from(n) << 8, Some(24), n.into())).unwrap();
    }
    store.remove(TableId(0), &[5 << 8], Some(24)).unwrap();
    store.insert_all(TableId(2), &mut [entry(3, None, 30), entry(4, None, 40)].iter()).unwrap();
    store.remove(TableId(2), &[4], None).unwrap();
    store.insert(TableId(1), &entry(0x800, None, 7)).unwrap();
    store.insert(TableId(3), &entry(1, None, 1)).unwrap();
    let dumps = |tables: &TableAccess| [0, 1, 2].map(|id| tables.dump(TableId(id)));
    let wanted = dumps(&store);
    let second = Store::open(&scratch.0).unwrap_err().to_string();
    assert!(second.contains("another instance has it"), "{second}");
    drop(persister);
    // Other tables, and one that is declared otherwise.
    let after = program(
        "array<u32> new[2]; lpm<u32, u32> fib[1000]; hash<u16, u32> seen[16]; array<u32> limits[8]; hash<u32, u8> gone[4];",
    );
    let mut again = tables(&after);
    let restored = restore(&Store::open(&scratch.0).unwrap(), &after, &mut again).unwrap();
    assert_eq!([1, 2, 3].map(|id| again.dump(TableId(id))), wanted);
    assert_eq!((restored.entries, restored.configured), (902, configured));
    assert_eq!(restored.notes, ["table m.gone was declared otherwise: it starts empty"]);
    // Less room, and a table that is no more.
    let smaller = program("lpm<u32, u32> fib[100]; hash<u16, u32> seen[16];");
    let mut less = tables(&smaller);
    let restored = restore(&Store::open(&scratch.0).unwrap(), &smaller, &mut less).unwrap();
    assert_eq!((less.count(TableId(0)), restored.entries), (100, 101));
    assert_eq!(
        restored.notes,
        [
            "table m.fib has become smaller: 800 of its 900 entries are left out",
            "table m.gone is no more: its entries are left out",
            "table m.limits is no more: its entries are left out",
        ]
    );
}

#[test]
fn changes_are_on_disk_soon_and_what_packets_change_at_the_end() {
    let scratch = Scratch::new("soon");
    let program = program(TABLES);
    let mut packet = vec![2u8; 60];
    packet[12..14].copy_from_slice(&[8, 0]);
    let ports = [PortConfig::new("a", 1, Driver::Mem(MemPort::generator(vec![packet], 1000)))];
    let prepared = Instance::prepare(program.clone(), &Options::default(), &ports).unwrap();
    let mut tables = prepared.tables();
    tables.insert(TableId(1), &entry(0x800, None, 0)).unwrap();
    let persister =
        Persister::start(Store::open(&scratch.0).unwrap(), program.clone(), Vec::new(), tables.clone(), Vec::new())
            .unwrap();
    prepared.run().unwrap().wait();
    tables.insert(TableId(0), &entry(0, Some(0), 9)).unwrap();
    // A process that is killed now leaves the database as it is: a copy of it shows that.
    let (copy, start) = (Scratch::new("copy"), Instant::now());
    std::fs::create_dir_all(&copy.0).unwrap();
    loop {
        std::fs::copy(scratch.0.join("tables.redb"), copy.0.join("tables.redb")).unwrap();
        let found = Store::open(&copy.0).ok().and_then(|store| store.entries("m.fib").ok());
        if found.is_some_and(|entries| entries == [entry(0, Some(0), 9)]) {
            break;
        }
        assert!(start.elapsed() < Duration::from_secs(10), "the change is not on disk");
        std::thread::sleep(Duration::from_millis(10));
    }
    drop(persister);
    assert_eq!(Store::open(&scratch.0).unwrap().entries("m.seen").unwrap(), [entry(0x800, None, 1000)]);
}

#[test]
fn what_ages_goes_on_ageing() {
    let scratch = Scratch::new("ages");
    let text = "import \"net/ether\";
        module m { in ether input; out ether output; hash<u16, u32> learned[16] idle 5s;
        ppf p(ether_packet_t *p) from input {
            if (learned[p->type] == null && !table_insert(learned, p->type, 1)) { packet_drop(p, malformed); return; }
            channel_put(output, p); } }
        program { rx -> m.input; m.output -> tx; }";
    let found = baker::check::check("test.baker", text, &baker::library::Library);
    let program = Arc::new(baker::ir::lower(&found.program.unwrap_or_else(|| panic!("{:?}", found.diagnostics))));
    let mut packet = vec![2u8; 60];
    packet[12..14].copy_from_slice(&[8, 0]);
    let ports = [PortConfig::new("a", 1, Driver::Mem(MemPort::generator(vec![packet], 1)))];
    let prepared = Instance::prepare(program.clone(), &Options::default(), &ports).unwrap();
    let mut tables = prepared.tables();
    let persister =
        Persister::start(Store::open(&scratch.0).unwrap(), program.clone(), Vec::new(), tables.clone(), Vec::new())
            .unwrap();
    tables.insert(TableId(0), &entry(7, None, 70)).unwrap();
    prepared.run().unwrap().wait();
    drop(persister);
    let mut again = self::tables(&program);
    assert_eq!(restore(&Store::open(&scratch.0).unwrap(), &program, &mut again).unwrap().entries, 2);
    assert_eq!(again.dump(TableId(0)), [entry(7, None, 70), entry(0x800, None, 1)]);
    // A test has no day to wait: the clock is that of the tables.
    again.expire(u64::MAX / 2);
    assert_eq!(again.dump(TableId(0)), [entry(7, None, 70)], "what the control plane set stays");
}

#[test]
fn members_of_groups_get_packets_again() {
    let scratch = Scratch::new("members");
    let text = "import \"net/ether\";
        module m { in ether input; out ether output; channel ether to_one; group<u32> viewers[4] of 8;
        ppf p(ether_packet_t *p) from input { channel_put_all(to_one, viewers[1], p); }
        ppf q(ether_packet_t *p) from to_one { p->metadata.tx.port = 1; channel_put(output, p); } }
        program { rx -> m.input; m.output -> tx; }";
    let found = baker::check::check("test.baker", text, &baker::library::Library);
    let program = Arc::new(baker::ir::lower(&found.program.unwrap_or_else(|| panic!("{:?}", found.diagnostics))));
    let (viewers, store) = (TableId(0), || Store::open(&scratch.0).unwrap());
    let mut tables = tables(&program);
    let persister = Persister::start(store(), program.clone(), Vec::new(), tables.clone(), Vec::new()).unwrap();
    // One leaves, so that there is a gap.
    let joined = [7, 8, 9].map(|value| tables.join(viewers, 1, &[value]).unwrap());
    assert_eq!((joined, tables.join(viewers, 3, &[5])), ([0, 1, 2], Ok(0)));
    tables.remove(viewers, &[1, 1], None).unwrap();
    let wanted = tables.dump(viewers);
    drop((persister, tables));
    for engine in [EngineKind::NATIVE, EngineKind::Interp] {
        let ports = [PortConfig::new("a", 1, Driver::Mem(MemPort::generator(vec![vec![2; 60]], 100)))];
        let options = Options { engine, ..Options::default() };
        let prepared = Instance::prepare(program.clone(), &options, &ports).unwrap();
        let mut again = prepared.tables();
        assert_eq!(restore(&store(), &program, &mut again).unwrap().entries, 3);
        assert_eq!(again.dump(viewers), wanted);
        let report = prepared.run().unwrap().wait();
        assert_eq!((report.snapshot.channel("m.output"), report.snapshot.dropped("no_member")), (200, 0), "{engine:?}");
        assert_eq!([1, 2].map(|group| again.join(viewers, group, &[1])), [Ok(1), Ok(0)], "the least that is free");
    }
}

#[test]
fn what_controllers_keep_is_there_again() {
    let scratch = Scratch::new("kept");
    let (program, store) = (program(TABLES), || Store::open(&scratch.0).unwrap());
    let kept: [Kept; 2] = Default::default();
    let all = || vec![("one", kept[0].clone()), ("other", kept[1].clone())];
    let own = |key: &str, value: &str| (key.to_owned(), Some(value.as_bytes().to_vec()));
    // What was kept before anything was written, changes, and values of another controller under the same keys.
    kept[0].change([own("a", "1"), own("b", "2")]);
    let persister = Persister::start(store(), program.clone(), Vec::new(), tables(&program), all()).unwrap();
    let start = Instant::now();
    let mut copies = 0;
    kept[0].change([own("b", "3"), own("c", "4"), ("a".to_owned(), None)]);
    kept[1].change([own("b", "5")]);
    let copy = Scratch::new("kept-copy");
    std::fs::create_dir_all(&copy.0).unwrap();
    let expected = |name: &str| match name {
        "one" => vec![("b".to_owned(), b"3".to_vec()), ("c".to_owned(), b"4".to_vec())],
        "other" => vec![("b".to_owned(), b"5".to_vec())],
        _ => Vec::new(),
    };
    // A process that is killed now leaves them.
    loop {
        std::fs::copy(scratch.0.join("tables.redb"), copy.0.join("tables.redb")).unwrap();
        let found = |name| Store::open(&copy.0).ok().and_then(|store| store.kept(name).ok());
        if ["one", "other", "on"].iter().all(|name| found(name) == Some(expected(name))) {
            break;
        }
        copies += 1;
        assert!(start.elapsed() < Duration::from_secs(10), "not on disk after {copies} looks");
        std::thread::sleep(Duration::from_millis(10));
    }
    drop(persister);
    // Another program without the second controller: what that kept is gone.
    let again = Kept::default();
    again.load(store().kept("one").unwrap());
    let persister =
        Persister::start(store(), program.clone(), Vec::new(), tables(&program), vec![("one", again.clone())]).unwrap();
    again.change([own("d", "6")]);
    drop(persister);
    assert_eq!(again.all().len(), 3);
    let found = store();
    assert_eq!((found.kept("one").unwrap(), found.kept("other").unwrap()), (again.all(), Vec::new()));
}

#[test]
fn what_is_damaged_is_said() {
    let scratch = Scratch::new("damaged");
    std::fs::create_dir_all(&scratch.0).unwrap();
    std::fs::write(scratch.0.join("tables.redb"), vec![7u8; 5000]).unwrap();
    let error = Store::open(&scratch.0).unwrap_err().to_string();
    assert!(error.contains("tables.redb: ") && error.ends_with("to start without it, remove it"), "{error}");
    let interpreter = prepared(&program(TABLES), EngineKind::Interp);
    let fresh = Scratch::new("interp");
    let store = Store::open(&fresh.0).unwrap();
    let error =
        Persister::start(store, program(TABLES), Vec::new(), interpreter.tables(), Vec::new()).unwrap_err().to_string();
    assert!(error.contains("the interpreter's tables are not kept"), "{error}");
}
