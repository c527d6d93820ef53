//! Every example of docs/kernel.md runs where the text says that it does. What follows `program` or `body` in a fence:
//!
//! * `kernel`: the PPF `work` runs in the kernel, whatever packet comes.
//! * `handed-over REASON`: it does, but for packets that are handed over to a worker for a reason that contains this.
//! * `tap`: it does, whatever packet comes, and copies leave it by a ring.
//! * `worker REASON`: it runs on workers, for such a reason.

#[path = "../../../tests/support/examples.rs"]
mod examples;

use baker::check::check;
use baker::ir;
use baker::library::Library;
use baker::place::{Placement, Stage};
use codegen::bpf;

use examples::{Example, body, examples};

const DOCUMENT: &str = include_str!("../../../docs/kernel.md");

#[test]
fn every_example_runs_where_the_document_says() {
    let examples = examples(DOCUMENT);
    let of = |place: &str| examples.iter().filter(|example| example.kind.split(' ').nth(1) == Some(place)).count();
    assert!(
        of("kernel") >= 6 && of("handed-over") >= 2 && of("worker") >= 4 && of("tap") >= 1,
        "the examples were not found"
    );
    let wrong: Vec<String> = examples.iter().filter_map(problem).collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// What is otherwise than an example says.
fn problem(Example { line, kind, text }: &Example) -> Option<String> {
    let (form, said) = kind.split_once(' ').unwrap_or_else(|| panic!("line {line}: where does it run?"));
    let source = if form == "body" { body(text) } else { text.clone() };
    let compilation = check("example.baker", &source, &Library);
    let program = ir::lower(&compilation.program.unwrap_or_else(|| panic!("{line}: {:?}", compilation.diagnostics)));
    let placement = match Placement::new(&program, &bpf::limits(&program)) {
        Ok(placement) => placement,
        Err(errors) => return Some(format!("line {line}: {errors:?}")),
    };
    let work = program.ppfs.iter().position(|ppf| ppf.name.ends_with(".work")).expect("a PPF `work`");
    let stage = &placement.stages[work];
    let has_taps = !placement.taps[work].is_empty();
    let is_so = match (said.split_once(' ').unwrap_or((said, "")), stage) {
        (("kernel", ""), Stage::Kernel(handed_over)) => handed_over.is_empty() && !has_taps,
        (("tap", ""), Stage::Kernel(handed_over)) => handed_over.is_empty() && has_taps,
        (("handed-over", why), Stage::Kernel(handed_over)) => {
            handed_over.len() == 1 && !why.is_empty() && handed_over[0].reason.contains(why)
        }
        (("worker", why), Stage::Cannot(obstacle)) => !why.is_empty() && obstacle.reason.contains(why),
        _ => false,
    };
    (!is_so).then(|| format!("line {line}: {kind}: {stage:?}"))
}
