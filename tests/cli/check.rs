//! `millrace check` and `millrace emit`.

use std::fs;
use std::process::Command;

use crate::PATCH;
use crate::process::{ROOT, Scratch, millrace, run};

#[test]
fn programs_without_mistakes() {
    let by_name = millrace(&["check", "l3switch"]).ok();
    assert!(by_name.starts_with("apps/l3switch/l3switch.baker: ok; 10 PPFs, "), "{by_name}");
    let from = |text: &str| text.split_once(": ok;").unwrap().1.to_owned();
    for path in ["apps/l3switch", "apps/l3switch/", "apps/l3switch/l3switch.baker"] {
        let by_path = millrace(&["check", &format!("{ROOT}/{path}")]).ok();
        assert_eq!(from(&by_path), from(&by_name), "{path}");
    }
    let patch = millrace(&["check", PATCH]).ok();
    // The built-in reasons and those of net/ipv4.
    assert!(patch.ends_with("patch.baker: ok; 2 PPFs, 4 channels, 0 tables, 20 drop reasons\n"), "{patch}");
    for library in ["ether", "arp", "ipv4"] {
        let text = millrace(&["check", &format!("{ROOT}/lib/net/{library}.baker")]).ok();
        assert!(text.ends_with(": ok; a library: it has no `program` block\n"), "{text}");
    }
    let scratch = Scratch::new();
    let empty = millrace(&["check", &scratch.write("empty.baker", "")]).ok();
    assert!(empty.contains("ok; a library"), "{empty}");
}

/// As `/media` is, where services of systemd start.
#[test]
fn a_directory_of_an_applications_name_is_not_the_application() {
    let scratch = Scratch::new();
    let check = |name: &str| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_millrace"));
        command.args(["check", name]).current_dir(scratch.path("."));
        run(command)
    };
    for name in ["media", "other"] {
        fs::create_dir(scratch.path(name)).unwrap();
    }
    let text = check("media").ok();
    assert!(text.starts_with("apps/media/media.baker: ok; "), "{text}");
    assert_eq!(check("other").failed(1), "error: other/other.baker: No such file or directory (os error 2)\n");
    // It is one where it has such a program.
    fs::copy(PATCH, scratch.path("media/media.baker")).unwrap();
    let text = check("media").ok();
    assert!(text.starts_with("media/media.baker: ok; 2 PPFs, "), "{text}");
}

#[test]
fn programs_with_mistakes() {
    let good = fs::read_to_string(PATCH).unwrap();
    let scratch = Scratch::new();
    let check = |text: &str| {
        let path = scratch.write("bad.baker", text);
        for command in [&["check", &path][..], &["emit", &path, "--target", "ir"], &["run", &path, "--port", "a=mem:"]]
        {
            assert_eq!(millrace(command).failed(1), millrace(&["check", &path]).failed(1), "{command:?}");
        }
        millrace(&["check", &path]).failed(1).replace(&path, "bad.baker")
    };
    let changed = |from: &str, to: &str| {
        let text = good.replace(from, to);
        assert_ne!(text, good, "{from}");
        check(&text)
    };
    let text = changed("            return;\n", "");
    assert_eq!(
        text,
        "error[handle-perhaps-gone]: the packet `pkt` may no longer be here
  --> bad.baker:22:29
   |
20 |             channel_put(output, pkt);
   |                                 --- consumed here on some paths
21 |         }
22 |         ipv4_packet_t *ip = packet_decap(pkt);      // pkt is gone from here on
   |                             ^^^^^^^^^^^^^^^^^ used here
   |
   = help: return after consuming it, or move this into the path that still holds it

bad.baker: 1 error
"
    );
    let text = changed("ip->ttl -= 1", "ip->tll -= 1");
    assert!(text.contains("`ipv4` has no field `tll`") && text.contains("bad.baker:34:13"), "{text}");
    let text = check(&good.replace("ip->ttl -= 1", "ip->tll -= 1").replace("(bytes,", "(bits,"));
    assert!(text.contains("bad.baker:15:21") && text.contains("bad.baker:34:13"), "{text}");
    assert!(text.ends_with("\n\nbad.baker: 2 errors\n"), "{text}");
    let text = check(&good[..good.len() / 2]);
    assert!(text.ends_with("\n\nbad.baker: 1 error\n"), "{text}");
    let text = changed("net/ipv4", "net/ipv5");
    assert!(text.contains("there is no file for `net/ipv5`"), "{text}");
    let text = check("import \"../../../../etc/passwd\";");
    assert!(text.contains("bad.baker:1:8"), "{text}");
    // Imports are found beside the file that has them.
    scratch.write("mine.baker", "const u8 MINE = 1;");
    let path = scratch.write("importer.baker", "import \"mine\"; const u8 MORE = MINE + 1;");
    millrace(&["check", &path]).ok();
    scratch.write("mine.baker", "const u8 MINE = ;");
    let text = millrace(&["check", &path]).failed(1);
    assert!(text.contains("mine.baker:1:17"), "{text}");
}

#[test]
fn a_pin_that_the_kernel_cannot_keep() {
    let good = fs::read_to_string(format!("{ROOT}/apps/l3switch/l3switch.baker")).unwrap();
    let scratch = Scratch::new();
    let pinned = scratch.write("pinned.baker", good.replace("    ppf spread", "    @kernel ppf spread"));
    let said = millrace(&["check", &pinned]).failed(1);
    assert!(said.contains("error[cannot-be-pinned]: `l2_bridge.spread` cannot run in the kernel"), "{said}");
    assert!(said.contains("packet_copy(pkt);\n") && said.contains("copies the packet"), "{said}");
}

#[test]
fn programs_that_are_not_there() {
    let text = millrace(&["check", "l3swich"]).failed(1);
    assert!(
        text.contains("l3swich") && text.contains("applications: firewall, l3switch, media, mpls, splice, translate"),
        "{text}"
    );
    let scratch = Scratch::new();
    let text = millrace(&["check", &scratch.path("")]).failed_in_one_line(1);
    assert!(text.contains(".baker: No such file"), "{text}");
    let text = millrace(&["check", &scratch.write("x.baker", b"\xff\xfe\x00")]).failed_in_one_line(1);
    assert!(text.contains("x.baker") && text.contains("UTF-8"), "{text}");
    for name in ["../l3switch", "l3switch/l3switch", "", "/nosuch/x.baker"] {
        millrace(&["check", name]).failed(1);
    }
    let library = format!("{ROOT}/lib/net/ipv4.baker");
    for command in [&["run", &library][..], &["emit", &library, "--target", "ir"]] {
        let text = millrace(command).failed(1);
        assert!(text.contains("there is no `program` block"), "{text}");
    }
}

#[test]
fn wrong_command_lines() {
    for command in [
        &["chekc"][..],
        &["check"],
        &["emit", "l3switch"],
        &["emit", "l3switch", "--target", "spir-v"],
        &["emit", "l3switch", "--target", "ir", "-O", "7"],
        &["run", "l3switch", "--duration", "inf"],
        &["run", "l3switch", "--duration", "1e30"],
        &["run", "l3switch", "--duration=-1"],
        &["run", "l3switch", "--cpu", "x"],
        &["demo", "--seconds", "nan"],
        &["demo", "--megabytes", "99999999999999999"],
        &["replay", "l3switch"],
    ] {
        millrace(command).failed(1);
    }
    assert_eq!(millrace(&[]).status, Some(1));
    assert!(millrace(&["--help"]).ok().contains("replay"));
    assert!(millrace(&["--version"]).ok().starts_with("millrace "));
    let help = millrace(&["run", "--help"]).ok();
    assert!(help.contains("afpacket:INTERFACE") && help.contains("afxdp:INTERFACE"));
}

#[test]
fn every_target_is_emitted() {
    let emit = |app: &str, target: &str, level: &str| millrace(&["emit", app, "--target", target, "-O", level]).ok();
    for app in ["l3switch", PATCH] {
        for level in ["0", "3"] {
            let (ir, dot) = (emit(app, "ir", level), emit(app, "dot", level));
            assert!(app != "l3switch" || dot.contains("l2_bridge.age\\nover l2_bridge.stations every 10s"), "{dot}");
            let (llvm, asm) = (emit(app, "llvm", level), emit(app, "asm", level));
            assert!(ir.starts_with("program ") && ir.contains("protocol ipv4 (20 bytes)"), "{ir}");
            assert!(dot.starts_with("digraph ") && dot.trim_end().ends_with('}') && dot.contains(" -> "), "{dot}");
            assert!(llvm.contains("\ndefine ") && llvm.contains("target triple"), "{llvm}");
            assert!(asm.contains("\t.text") && asm.contains("ret"), "{asm}");
        }
        // Optimised code is other code.
        assert_ne!(emit(app, "llvm", "0"), emit(app, "llvm", "3"));
        assert_eq!(emit(app, "llvm", "3"), millrace(&["emit", app, "--target", "llvm"]).ok());
    }
    let ir = emit("l3switch", "ir", "3");
    for line in ["ppf l3_switch.l2_clsfr", "ppf l2_bridge.bridge", "lpm l3_forward.fib[1048576]"] {
        assert!(ir.contains(line), "{line}: {ir}");
    }
}

/// The first hundred mistakes are shown, and how many more there are; so a file that is something else floods no
/// terminal.
#[test]
fn many_mistakes() {
    let scratch = Scratch::new();
    let lines: String = (0..5000).map(|line| format!("const u8 A{line} = {};\n", 256 + line)).collect();
    let path = scratch.write("many.baker", lines);
    for command in [&["check", &path][..], &["run", &path, "--port", "a=mem:"]] {
        let text = millrace(command).failed(1);
        assert_eq!(text.matches("error[constant-out-of-range]").count(), 100, "{}", text.len());
        assert!(text.contains("many.baker:100:") && !text.contains("many.baker:101:"), "{text}");
        let end = "\n\nand 4900 more errors, which are not shown\n\n";
        assert!(text.ends_with(&format!("{end}{path}: 5000 errors\n")), "{}", &text[text.len() - 200..]);
    }
    // The parser itself gives up after as many.
    let path = scratch.write("text.baker", "const u8 A = ;\n".repeat(5000));
    for command in [["check", &path], ["fmt", &path]] {
        let text = millrace(&command).failed(1);
        let shown =
            ["\nerror[expected-", "error[too-many-errors]: there are more syntax errors from here on", "not shown"];
        assert_eq!(shown.map(|what| text.matches(what).count()), [98, 1, 0], "{}", &text[text.len() - 300..]);
    }
}
