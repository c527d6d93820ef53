//! Programs whose code was kept on disk: they do what their packet cases say, and code that is taken from there is what
//! would be compiled.

#[path = "../../../tests/support/compile.rs"]
mod common;

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use baker::ir::Program;
use baker::opt::Level;
use baker::place::Split;
use codegen::bpf::{self, Accepted, Refusal};
use codegen::kernel::{Hook, Memory, Object, Options};
use codegen::{CodegenError, OptLevel, cache};
use control::applications::Applications;
use control::cases::{self, Case, Suite};
use dataplane::EngineKind;
use dataplane::step::{Compiled, place};
use dataplane::xdp::SharedMemory;

const FOLDER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/nat44");

/// A directory for code, of one test at a time, for a process has one cache. It goes away with the value.
struct Directory {
    path: PathBuf,
    _alone: MutexGuard<'static, ()>,
}

impl Directory {
    fn new(name: &str) -> Self {
        static ALONE: Mutex<()> = Mutex::new(());
        let alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
        let path = std::env::temp_dir().join(format!("millrace-compiled-{name}-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&path);
        cache::keep_in(Some(&path));
        cache::take_notes();
        Directory { path, _alone: alone }
    }

    fn files(&self) -> Vec<PathBuf> {
        std::fs::read_dir(&self.path).unwrap().map(|entry| entry.unwrap().path()).collect()
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        cache::keep_in(None);
        let _ = std::fs::remove_dir_all(&self.path);
    }
}

fn program() -> Arc<Program> {
    common::compile(&Path::new(FOLDER).join("nat44.baker"))
}

/// How many parts are compiled and taken while this is done.
fn counted<T>(done: impl FnOnce() -> T) -> (T, [u64; 2]) {
    let before = cache::activity();
    let result = done();
    let after = cache::activity();
    (result, [after.compiled - before.compiled, after.taken - before.taken])
}

/// All cases on workers, and between kernel and workers.
fn run(program: &Arc<Program>, cases: &[Case]) {
    let mut suite = Suite::default();
    suite.add_worker(program).unwrap();
    suite.add(
        "kernel",
        Compiled::new(program.clone(), EngineKind::Kernel(Level::Cgpc)).unwrap(),
        &[Default::default()],
    );
    let failures = suite.failures(cases);
    assert!(failures.is_empty(), "{}", failures[0]);
}

#[test]
fn kept_programs_pass_their_cases_and_bad_files_are_not_used() {
    let directory = Directory::new("cases");
    let program = program();
    let cases = cases::load_all(&Path::new(FOLDER).join("cases"), &program, Applications::NONE).unwrap();
    assert!(!cases.is_empty());
    let ((), [compiled, taken]) = counted(|| run(&program, &cases));
    // Code of workers, of those beside the kernel, and for the kernel, or for the machine that stands in for it.
    assert_eq!((compiled, taken, directory.files().len()), (3, 0, 3));
    let ((), counts) = counted(|| run(&program, &cases));
    assert_eq!((counts, cache::take_notes()), ([0, 3], Vec::new()), "all is taken");

    for path in directory.files() {
        let mut bytes = std::fs::read(&path).unwrap();
        let middle = bytes.len() / 2;
        bytes[middle] ^= 0x10;
        std::fs::write(&path, bytes).unwrap();
    }
    let ((), counts) = counted(|| run(&program, &cases));
    let notes = cache::take_notes();
    assert_eq!((counts, notes.len()), ([3, 0], 3), "{notes:?}");
    assert!(notes.iter().all(|note| note.contains("is damaged: its hash is another one")), "{notes:?}");
    let ((), counts) = counted(|| run(&program, &cases));
    assert_eq!(counts, [0, 3], "good files are in their places");

    std::fs::set_permissions(&directory.path, std::fs::Permissions::from_mode(0o777)).unwrap();
    let before = directory.files();
    let (_, counts) = counted(|| Compiled::new(program.clone(), EngineKind::NATIVE).unwrap());
    let notes = cache::take_notes();
    assert_eq!((counts, notes.len(), directory.files()), ([1, 0], 1, before), "{notes:?}");
    assert!(notes[0].contains("others may write to") && notes[0].ends_with("it is compiled anew"), "{notes:?}");
}

#[test]
fn starts_at_the_same_time_share_a_directory() {
    let directory = Directory::new("together");
    let program = program();
    let compile = || Compiled::new(program.clone(), EngineKind::NATIVE).unwrap();
    let ((), [compiled, taken]) = counted(|| {
        std::thread::scope(|scope| (0..3).for_each(|_| drop(scope.spawn(compile))));
    });
    assert_eq!((compiled + taken, directory.files().len(), cache::take_notes()), (3, 1, Vec::new()));
    assert_eq!(counted(compile).1, [0, 1]);
}

/// Code for the kernel's part, in the first form that is offered.
fn code(split: &Split, memory: &Memory, level: Level, options: Options, taker: &str) -> Accepted<Object> {
    let take = |object: &Object| Ok::<_, Refusal<CodegenError>>(object.clone());
    let accepted = bpf::compile_tiered(&split.kernel, level, memory, options, taker, take);
    accepted.unwrap_or_else(|_| panic!("something is taken"))
}

#[test]
fn code_that_is_taken_is_what_would_be_compiled() {
    let directory = Directory::new("same");
    let split = place(&program(), &[], Hook::Xdp);
    // Each has keys of hash functions, and lies, where no other one does.
    let [first, second] = [(); 2].map(|()| SharedMemory::private(&split.workers).unwrap());
    let (first, second) = (first.memory(), second.memory());
    assert!(first.base != second.base && first.tables != second.tables);
    for options in [Options::default(), Options { apart: true, ..Options::default() }] {
        let of = |memory| code(&split, memory, Level::Cgpc, options, bpf::ANYTHING);
        let (compiled, counts) = counted(|| of(first));
        assert_eq!(counts, [1, 0]);
        let (taken, counts) = counted(|| of(second));
        assert_eq!(counts, [0, 1]);
        assert!(compiled != taken && !taken.first.numbers.is_empty(), "each has its own numbers");
        cache::keep_in(None);
        let (anew, counts) = counted(|| of(second));
        assert_eq!(counts, [1, 0]);
        assert_eq!(taken, anew);
        assert_eq!(compiled, of(first));
        cache::keep_in(Some(&directory.path));
    }
}

#[test]
fn whatever_code_depends_on_is_part_of_the_key() {
    let _directory = Directory::new("keys");
    let split = place(&program(), &[], Hook::Xdp);
    let memory = SharedMemory::private(&split.workers).unwrap();
    let memory = memory.memory();
    let of = |split: &Split, memory: &Memory, level, options, taker: &str| {
        counted(|| code(split, memory, level, options, taker)).1
    };
    let (compiled, taken, options) = ([1, 0], [0, 1], Options::default());
    assert_eq!(of(&split, memory, Level::Base, options, "a"), compiled);
    assert_eq!(of(&split, memory, Level::Base, options, "a"), taken);
    assert_eq!(of(&split, memory, Level::Pac, options, "a"), compiled);
    assert_eq!(of(&split, memory, Level::Base, options, "b"), compiled, "another kernel may take another form");
    for options in [
        Options { recorded: true, ..options },
        Options { spill: true, ..options },
        Options { apart: true, ..options },
        Options { generation: 1, ..options },
        Options { frags: true, ..options },
    ] {
        assert_eq!(of(&split, memory, Level::Base, options, "a"), compiled, "{options:?}");
    }
    let text = Options { text: true, ..options };
    assert_eq!(of(&split, memory, Level::Base, text, "a"), compiled);
    assert_eq!(of(&split, memory, Level::Base, text, "a"), compiled, "text is for people, and is not kept");
    for memory in [
        Memory { own: memory.own + 4096, ..memory.clone() },
        Memory { cpus: memory.cpus * 2, ..memory.clone() },
        Memory { epoch: memory.epoch + 8, ..memory.clone() },
    ] {
        assert_eq!(of(&split, &memory, Level::Base, options, "a"), compiled);
    }
    let moved = Memory { base: memory.base + 4096, ..memory.clone() };
    assert_eq!(of(&split, &moved, Level::Base, options, "a"), taken);

    // Machine code, by program, its profile, and how hard the compiler tries.
    let program = program();
    let native = |program: &Program, opt, level| {
        counted(|| Compiled::new(Arc::new(program.clone()), EngineKind::Native(opt, level)).unwrap()).1
    };
    assert_eq!(native(&program, OptLevel::O0, Level::Base), compiled);
    assert_eq!(native(&program, OptLevel::O0, Level::Base), taken);
    assert_eq!(native(&program, OptLevel::O0, Level::Pac), compiled);
    assert_eq!(native(&program, OptLevel::O3, Level::Base), compiled);
    let mut other = (*program).clone();
    other.ppfs[0].body.blocks[0].counts = Some(baker::ir::Counts { runs: 1, taken: [0; 2] });
    assert_eq!(native(&other, OptLevel::O0, Level::Base), compiled, "a profile");
    let mut other = (*program).clone();
    other.tables.iter_mut().find(|table| table.capacity > 64).unwrap().capacity -= 1;
    assert_eq!(native(&other, OptLevel::O0, Level::Base), compiled, "the size of a table");
}
