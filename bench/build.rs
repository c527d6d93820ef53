//! Builds the C peers, with clang where there is one.
//!
//! Twice: for this processor, as Millrace's own code generator targets it, and without AVX-512 for valgrind, which does
//! not know it (Millrace then sees a processor without it, too).

fn main() {
    println!("cargo::rerun-if-changed=peers");
    println!("cargo::rerun-if-env-changed=CC");
    let clang = ["clang-19", "clang"].into_iter().find(|name| {
        let version = std::process::Command::new(name).arg("--version").output();
        version.is_ok_and(|output| output.status.success())
    });
    for (build, cpu) in [("native", "native"), ("v3", "x86-64-v3")] {
        let mut cc = cc::Build::new();
        if let Some(clang) = clang
            && std::env::var_os("CC").is_none()
        {
            cc.compiler(clang);
        }
        cc.files(["peers/l3.c", "peers/tables.c"])
            .define("L3_BUILD", build)
            .opt_level(3)
            .flag(format!("-march={cpu}"))
            .flag("-std=gnu11")
            .warnings_into_errors(true)
            .compile(&format!("l3_{build}"));
    }
    let compiler = clang.unwrap_or("cc");
    println!("cargo::rustc-env=BENCH_CC={compiler} -O3 -march=native");
}
