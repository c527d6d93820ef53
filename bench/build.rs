//! Builds the C peers, with clang where there is one, and with DPDK's look-up where its headers are installed.
//!
//! Twice: for this processor, as Millrace's own code generator targets it, and without AVX-512 for valgrind, which does
//! not know it (Millrace then sees a processor without it, too).

use std::process::Command;

fn main() {
    println!("cargo::rerun-if-changed=peers");
    println!("cargo::rerun-if-env-changed=CC");
    let clang = ["clang-19", "clang"].into_iter().find(|name| output(name, &["--version"]).is_some());
    let dpdk = output("pkg-config", &["--cflags-only-I", "libdpdk"]);
    if dpdk.is_none() {
        // A file that is never there: to look again in the next build.
        println!("cargo::rerun-if-changed=peers/dpdk-is-installed");
    }
    // Where none is found, the error names the one that `tools/setup test` installs.
    xdp(clang.unwrap_or("clang-19"));
    cc::Build::new()
        .files(["peers/media/relay.c", "peers/stream/fan_out.c", "peers/stream/source.c"])
        .opt_level(3)
        .flag("-march=native")
        .flag("-std=gnu11")
        .warnings_into_errors(true)
        .compile("stream");
    for (build, cpu) in [("native", "native"), ("v3", "x86-64-v3")] {
        let mut cc = cc::Build::new();
        if let Some(clang) = clang
            && std::env::var_os("CC").is_none()
        {
            cc.compiler(clang);
        }
        cc.files(["peers/staged.c", "peers/straight.c", "peers/tables.c"]);
        if let Some(flags) = &dpdk {
            // As a system's headers, so that only our own code is warned of.
            flags.split_whitespace().filter_map(|flag| flag.strip_prefix("-I")).for_each(|folder| {
                cc.flag("-isystem").flag(folder);
            });
            cc.file("peers/dpdk.c").define("HAVE_DPDK", None);
        }
        cc.define("L3_BUILD", build)
            .opt_level(3)
            .flag(format!("-march={cpu}"))
            .flag("-std=gnu11")
            // clang 19 warns of its own name for AVX10.1 where `native` is a processor that has it.
            .flag_if_supported("-Wno-invalid-feature-combination")
            .warnings_into_errors(true)
            .compile(&format!("l3_{build}"));
    }
}

/// The kernel's programs by hand, which only clang can compile.
fn xdp(clang: &str) {
    let folder = std::env::var("OUT_DIR").unwrap_or_default();
    // Where Debian has the kernel's <asm/types.h>, which clang does not look for with another target.
    let headers = format!("/usr/include/{}-linux-gnu", std::env::consts::ARCH);
    for name in ["xdp/fib", "xdp/l3", "xdp/line", "stream/sink.bpf", "media/sink.bpf", "translate/sink.bpf"] {
        let (from, to) = (format!("peers/{name}.c"), format!("{folder}/{}.o", name.replace('/', "-")));
        let flags = ["-target", "bpf", "-mcpu=v3", "-O2", "-g", "-Wall", "-Wextra", "-Werror", "-I", &headers];
        let status = Command::new(clang).args(flags).args(["-c", &from, "-o", &to]).status();
        assert!(status.is_ok_and(|status| status.success()), "{clang} does not compile {from}");
    }
}

/// What a program prints; `None` where it is not there or fails.
fn output(program: &str, arguments: &[&str]) -> Option<String> {
    let output = Command::new(program).args(arguments).output().ok()?;
    output.status.success().then(|| String::from_utf8_lossy(&output.stdout).into_owned())
}
