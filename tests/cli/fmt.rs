//! `millrace fmt`.

use std::fs;
use std::process::Command;

use crate::PATCH;
use crate::process::{Done, ROOT, Scratch, millrace, run_with_input};

/// `millrace` with arguments and an input.
fn with_input(arguments: &[&str], input: &str) -> Done {
    let mut command = Command::new(env!("CARGO_BIN_EXE_millrace"));
    command.args(arguments);
    run_with_input(command, input.as_bytes())
}

const UGLY: &str = "const u8 A=1 ;\n\n\n// x\nconst u8 B=2;";
const NICE: &str = "const u8 A = 1;\n\n// x\nconst u8 B = 2;\n";

#[test]
fn files_are_formatted_in_place() {
    let scratch = Scratch::new();
    let (ugly, nice) = (scratch.write("ugly.baker", UGLY), scratch.write("nice.baker", NICE));
    let before = fs::metadata(&nice).unwrap().modified().unwrap();
    assert_eq!(millrace(&["fmt", &ugly, &nice]).ok(), "");
    assert_eq!(fs::read_to_string(&ugly).unwrap(), NICE);
    assert_eq!(fs::read_to_string(&nice).unwrap(), NICE);
    assert_eq!(fs::metadata(&nice).unwrap().modified().unwrap(), before, "written without need");
}

#[test]
fn the_formatted_programs_stay() {
    for path in ["lib", "apps", "examples/patch.baker"] {
        assert_eq!(millrace(&["fmt", "--check", &format!("{ROOT}/{path}")]).ok(), "");
    }
    assert_eq!(with_input(&["fmt", "-"], &fs::read_to_string(PATCH).unwrap()).ok(), fs::read_to_string(PATCH).unwrap());
}

#[test]
fn check_lists_and_changes_nothing() {
    let scratch = Scratch::new();
    for directory in ["d", "d/sub", "d/.hidden"] {
        fs::create_dir(scratch.path(directory)).unwrap();
    }
    let (a, b) = (scratch.write("d/a.baker", UGLY), scratch.write("d/sub/b.baker", UGLY));
    for other in ["d/nice.baker", "d/.hidden/c.baker", "d/readme.txt"] {
        scratch.write(other, if other.contains("nice") { NICE } else { UGLY });
    }
    std::os::unix::fs::symlink(scratch.path("d"), scratch.path("d/loop")).unwrap();
    let directory = scratch.path("d");
    let done = millrace(&["fmt", "--check", &directory]);
    assert_eq!((done.status, done.stdout), (Some(1), format!("{a}\n{b}\n")));
    assert_eq!(done.stderr, "error: 2 files are not formatted: run `millrace fmt` on them\n");
    assert_eq!(fs::read_to_string(&a).unwrap(), UGLY);
    assert_eq!(millrace(&["fmt", &directory]).ok(), "");
    assert_eq!(millrace(&["fmt", "--check", &directory]).ok(), "");
    for (path, wanted) in
        [("d/a.baker", NICE), ("d/sub/b.baker", NICE), ("d/.hidden/c.baker", UGLY), ("d/readme.txt", UGLY)]
    {
        assert_eq!(fs::read_to_string(scratch.path(path)).unwrap(), wanted, "{path}");
    }
    let done = with_input(&["fmt", "--check", "-"], UGLY);
    assert_eq!((done.status, done.stdout.as_str()), (Some(1), "standard input\n"));
    assert_eq!(with_input(&["fmt", "--check", "-"], NICE).ok(), "");
}

#[test]
fn standard_input_goes_to_standard_output() {
    assert_eq!(with_input(&["fmt", "-"], UGLY).ok(), NICE);
    assert_eq!(with_input(&["fmt", "-"], "").ok(), "");
    let text = with_input(&["fmt", "-"], "const u8 A = ;").failed(1);
    assert!(text.contains("--> standard input:1:14"), "{text}");
}

#[test]
fn wrong_files_are_left_alone() {
    let scratch = Scratch::new();
    let (bad, ugly) = (scratch.write("bad.baker", "const u8   A = ;"), scratch.write("ugly.baker", UGLY));
    let bytes = scratch.write("bytes.baker", b"\xff\xfe");
    let missing = scratch.path("missing.baker");
    let text = millrace(&["fmt", &bad, &missing, &bytes, &ugly]).failed(1);
    for part in ["bad.baker:1:16", "missing.baker: No such file", "bytes.baker: stream did not contain valid UTF-8"] {
        assert!(text.contains(part), "{part} in {text}");
    }
    assert_eq!(fs::read_to_string(&bad).unwrap(), "const u8   A = ;");
    assert_eq!(fs::read(&bytes).unwrap(), b"\xff\xfe");
    assert_eq!(fs::read_to_string(&ugly).unwrap(), NICE, "the others are formatted");
    millrace(&["fmt", "--check", &bad]).failed(1);
    millrace(&["fmt"]).failed(1);
    let empty = scratch.path("empty");
    fs::create_dir(&empty).unwrap();
    assert_eq!(millrace(&["fmt", &empty]).ok(), "");
}
