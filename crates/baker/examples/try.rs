use baker::*;
fn main() {
    let path = std::env::args().nth(1).unwrap();
    let text = std::fs::read_to_string(&path).unwrap();
    let c = check::check(&path, &text, &library::Library);
    println!("{}", diag::render(&c.diagnostics, &c.sources, false));
    if let Some(p) = c.program {
        let ir = ir::lower(&p);
        println!("{}", ir::print(&ir));
        println!("{:?}", ir.limits);
        match ir::verify(&ir) { Ok(()) => println!("verified"), Err(e) => for e in e { println!("VERIFY {e}") } }
    }
}
