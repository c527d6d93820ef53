//! Which tables a program writes itself.

use baker::check::check;
use baker::ir::lower;
use baker::library::Library;

/// Each table is named for what is done with it.
const PROGRAM: &str = "import \"net/ether\";
struct pair_t { a : u32; b : u32; }
module m {
    in  ether input;
    out ether output;
    array<pair_t> read[8];
    array<pair_t> stored[8];
    array<pair_t> assigned[8];
    array<pair_t> locked[8];
    array<pair_t> stored_by_choice[8];
    array<pair_t> stored_in_loop[8];
    array<pair_t> stored_by_timer[8];
    array<pair_t> read_by_timer[8];
    hash<u16, pair_t> inserted[8];
    hash<u16, pair_t> looked_up[8];
    set<u16> removed[8];
    set<u16> tested[8];
    lpm<u32, pair_t> routes[8];
    meter taken rate 1 burst 1;
    meter unused;
    ppf work(ether_packet_t *pkt) from input {
        u32 sum = read[1].a;
        pair_t *stored_here = stored[2];
        if (stored_here != null) stored_here->b = 1;
        assigned[3] = pair_t { a: 1, b: 2 };
        pair_t *l = locked[4];
        critical (l) { sum += l->a; }
        pair_t *choice = read[pkt->type];
        if (pkt->src == 7) choice = stored_by_choice[pkt->type];
        pair_t *kept = choice;
        if (pkt->dst == 7) kept = read[1];
        if (kept != null) sum += kept->a;
        pair_t *target = stored_by_choice[1];
        for (u32 i = 0; i < 3; i++) {
            if (target != null) target->a = i;
            target = stored_in_loop[i];
        }
        if (!table_insert(inserted, pkt->type, pair_t { a: 1, b: 1 })) sum += 1;
        if (table_remove(removed, pkt->type)) sum += 1;
        if (tested[pkt->type] && looked_up[pkt->type] != null && routes[sum] != null && meter_take(taken, 1)) sum += 1;
        pkt->src = sum;
        channel_put(output, pkt);
    }
    timer write(u32 index, pair_t *pair) over stored_by_timer every 1s { pair->a = index; }
    timer look(u32 index, pair_t *pair) over read_by_timer every 1s { assigned[index] = pair_t { a: pair->a, b: 1 }; }
}
program { rx -> m.input; m.output -> tx; }
";

#[test]
fn tables_that_a_program_writes() {
    let compilation = check("test.baker", PROGRAM, &Library);
    let text = baker::diag::render(&compilation.diagnostics, &compilation.sources, false);
    let program = lower(&compilation.program.unwrap_or_else(|| panic!("{text}")));
    let tables = program.tables.iter().zip(program.written_tables());
    let written: Vec<&str> = tables.filter(|(_, written)| *written).map(|(table, _)| &table.name[2..]).collect();
    let expected = [
        "stored",
        "assigned",
        "locked",
        "stored_by_choice",
        "stored_in_loop",
        "stored_by_timer",
        "inserted",
        "removed",
        "taken",
    ];
    assert_eq!(written, expected);
}
