//! Instances of a module have their own tables, counters and channels, and share its code.

use std::sync::Arc;

use baker::check::check;
use baker::diag::render;
use baker::ir::interp::Machine;
use baker::ir::{Program, lower, verify};
use baker::library::Library;

/// Frames with an odd source go through `left`, others through `right`, and those of `left` through `right`, too, where
/// the module `fork` has seen the destination in `left`.
const PROGRAM: &str = "import \"net/ether\";
module count {
    in ether input;
    out ether output;
    channel ether inner;
    hash<mac_addr_t, u32> seen[8];
    counter frames;
    counter repeated;
    u32 old(ether_packet_t *pkt) {
        u32 *n = seen[pkt->src];
        return n == null ? 0 : read(*n);
    }
    u32 read(u32 n) { counter_add(repeated, 1); return n; }
    ppf note(ether_packet_t *pkt) from input {
        seen[pkt->src] = old(pkt) + 1;
        counter_add(frames, 1);
        channel_put(inner, pkt);
    }
    ppf pass(ether_packet_t *pkt) from inner { channel_put(output, pkt); }
}
module fork {
    in ether input;
    out ether odd, even;
    ppf fork(ether_packet_t *pkt) from input {
        if ((pkt->src & 1) == 1) { channel_put(odd, pkt); } else { channel_put(even, pkt); }
    }
}
module again {
    in ether input;
    out ether known, unknown;
    ppf again(ether_packet_t *pkt) from input {
        if (left.seen[pkt->dst] != null) { channel_put(known, pkt); } else { channel_put(unknown, pkt); }
    }
}
program {
    count left, right;
    rx -> fork.input;
    fork.odd -> left.input;
    fork.even -> right.input;
    left.output -> again.input;
    again.known -> right.input;
    again.unknown -> tx;
    right.output -> host;
}
";

fn program() -> Arc<Program> {
    let compilation = check("instances.baker", PROGRAM, &Library);
    let rendered = render(&compilation.diagnostics, &compilation.sources, false);
    assert!(rendered.is_empty(), "{rendered}");
    let program = lower(compilation.program.as_ref().unwrap());
    assert_eq!(baker::ir::verify(&program), Ok(()));
    Arc::new(program)
}

#[test]
fn names_are_those_of_the_instances() {
    let program = program();
    let names = |names: Vec<&String>| names.into_iter().map(String::as_str).collect::<Vec<_>>().join(" ");
    assert_eq!(names(program.tables.iter().map(|t| &t.name).collect()), "left.seen right.seen");
    assert_eq!(
        names(program.counters.iter().map(|c| &c.name).collect()),
        "left.frames left.repeated right.frames right.repeated"
    );
    assert_eq!(
        names(program.ppfs.iter().map(|p| &p.name).collect()),
        "left.note left.pass right.note right.pass fork.fork again.again"
    );
    assert_eq!(
        names(program.channels.iter().map(|c| &c.name).collect()),
        "rx left.output left.inner right.output right.inner fork.odd fork.even again.known again.unknown"
    );
}

#[test]
fn each_instance_works_on_its_own_items() {
    let program = program();
    let mut machine = Machine::new(program.clone());
    let frame = |dst: u8, src: u8| {
        let mut frame = [0; 60];
        (frame[5], frame[11]) = (dst, src);
        frame
    };
    for (dst, src, left, right) in [
        // What `left` has seen, and what `right` has: source and how often.
        (9, 1, &[(1, 1)][..], &[][..]),
        (9, 2, &[(1, 1)], &[(2, 1)]),
        (9, 2, &[(1, 1)], &[(2, 2)]),
        // Known as a destination to `left`: through both.
        (1, 3, &[(1, 1), (3, 1)], &[(2, 2), (3, 1)]),
        (2, 3, &[(1, 1), (3, 2)], &[(2, 2), (3, 1)]),
    ] {
        assert_eq!(machine.receive(1, &frame(dst, src)).len(), 1);
        for (name, wanted) in [("left.seen", left), ("right.seen", right)] {
            let table = program.tables.iter().position(|t| t.name == name).unwrap() as u32;
            let entries = baker::ir::TableStore::dump(&machine, baker::ir::TableId(table));
            let found: Vec<_> = entries.iter().map(|e| (e.key[0], e.value[0])).collect();
            assert_eq!(found, wanted, "{name} after {src} to {dst}");
        }
    }
    let first = machine.slots().user(baker::ir::CounterId(0));
    assert_eq!(machine.counters()[first..first + 4], [3, 1, 3, 1]);
}

#[test]
fn a_ppf_may_have_the_name_of_a_channel_of_its_module() {
    for (first, second) in [("channel ether rest;", ""), ("", "channel ether rest;")] {
        let text = format!(
            "import \"net/ether\";
            module m {{
                in ether input;
                out ether output;
                {first}
                ppf input(ether_packet_t *pkt) from input {{ channel_put(rest, pkt); }}
                ppf rest(ether_packet_t *pkt) from rest;
                {second}
            }}
            m.rest.ppf(ether_packet_t *pkt) {{ channel_put(output, pkt); }}
            program {{ rx -> m.input; m.output -> tx; }}"
        );
        let compilation = check("names.baker", &text, &Library);
        let rendered = render(&compilation.diagnostics, &compilation.sources, false);
        assert!(rendered.is_empty(), "{rendered}");
        let program = lower(compilation.program.as_ref().unwrap());
        let names: Vec<&str> = program.ppfs.iter().map(|ppf| ppf.name.as_str()).collect();
        assert_eq!(names, ["m.input", "m.rest"]);
        assert_eq!(verify(&program), Ok(()));
    }
}
