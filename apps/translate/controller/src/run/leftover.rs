//! Connections that another process has left, or a controller that has failed: the program has them still, and nobody
//! knows what they were for.

use baker::ir::{Program, TableId, TableStore};
use dataplane::controller::NamedTables;

/// Their numbers and generations.
pub fn connections(program: &Program, tables: &NamedTables) -> Result<Vec<(u32, u32)>, String> {
    const NAME: &str = "sender.connections";
    let found = program.tables.iter().enumerate().find(|(_, table)| table.name == NAME);
    let (index, table) = found.ok_or_else(|| format!("the program has no table {NAME}"))?;
    let layout = program.shown_value(table);
    let place = |name: &str| {
        let found = layout.fields.iter().position(|field| field.name == name);
        found.ok_or_else(|| format!("table {NAME} has no field {name}"))
    };
    let (state, generation) = (place("state")?, place("generation")?);
    let access = tables.access();
    let one = |number: u32| {
        let values = access.get(TableId(index as u32), &[number.into()], None).ok()?;
        (*values.get(state)? != 0).then_some((number, *values.get(generation)? as u32))
    };
    Ok((1..table.capacity).filter_map(one).collect())
}
