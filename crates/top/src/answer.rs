//! What a controller answers, as rows. No query is known here: a list of objects is a table, an object is a list of
//! names and values.

use cli::report::{grouped, rate};
use serde_json::{Map, Value as Json};

use crate::grid::{Cell, Grid};

/// What the names of times in milliseconds end with.
const MILLISECONDS: &str = "_ms";
/// Where an object stands without a name: in a list of plain values.
const VALUE: &str = "value";

/// An answer as rows, and what it says beside them.
pub fn grid(answer: &Json) -> (Grid, String) {
    match answer {
        Json::Array(list) => (rows(list), String::new()),
        Json::Object(object) => match only_list(object) {
            Some((name, list)) => (rows(list), beside(object, name)),
            None => (pairs(object), String::new()),
        },
        plain => (Grid::with(&[VALUE], [vec![cell("", plain)]]), String::new()),
    }
}

/// The list of an object that has one and beside it numbers alone, such as how long the whole list is.
fn only_list(object: &Map<String, Json>) -> Option<(&str, &[Json])> {
    let mut lists = object.iter().filter_map(|(name, value)| Some((name.as_str(), value.as_array()?.as_slice())));
    let only = lists.next().filter(|_| lists.next().is_none());
    only.filter(|(name, _)| object.iter().all(|(own, value)| own == name || value.is_number()))
}

/// `fit 12, all 300`.
fn beside(object: &Map<String, Json>, list: &str) -> String {
    let others = object.iter().filter(|(name, _)| *name != list);
    let said = others.map(|(name, value)| format!("{} {}", title(name), cell(name, value).text));
    said.collect::<Vec<_>>().join(", ")
}

/// An object's names and values.
fn pairs(object: &Map<String, Json>) -> Grid {
    let mut all = Vec::new();
    flatten("", object, &mut all);
    let row = |(name, value): (String, &Json)| vec![Cell::text(&title(&name)), cell(&name, value)];
    Grid::with(&["name", VALUE], all.into_iter().map(row))
}

/// The fields of an object, those of objects in it by `OUTER.INNER`.
fn flatten<'j>(outer: &str, object: &'j Map<String, Json>, all: &mut Vec<(String, &'j Json)>) {
    for (name, value) in object {
        let name = if outer.is_empty() { name.clone() } else { format!("{outer}.{name}") };
        match value {
            Json::Object(inner) => flatten(&name, inner, all),
            value => all.push((name, value)),
        }
    }
}

/// A list of objects: a row for each, or for each of the objects in the first list of objects that it has.
fn rows(list: &[Json]) -> Grid {
    let flat: Vec<Vec<(String, &Json)>> = list.iter().flat_map(lines).collect();
    let mut names: Vec<&str> = Vec::new();
    for row in &flat {
        let mut behind = 0;
        // What one object has and another has not stands where that one has it.
        for (name, _) in row.iter().filter(|(_, value)| !is_nothing(value)) {
            match names.iter().position(|known| known == name) {
                Some(at) => behind = at + 1,
                None => {
                    names.insert(behind, name);
                    behind += 1;
                }
            }
        }
    }
    let find = |row: &[(String, &Json)], name: &str| {
        row.iter().find(|(own, _)| own == name).map_or_else(Cell::nothing, |(_, value)| cell(name, value))
    };
    let cells = |row: &Vec<(String, &Json)>| names.iter().map(|name| find(row, name)).collect();
    let titles: Vec<String> = names.iter().map(|name| title(name)).collect();
    Grid { columns: titles, rows: flat.iter().map(cells).collect() }
}

fn is_nothing(value: &Json) -> bool {
    value.is_null() || value.as_array().is_some_and(Vec::is_empty)
}

/// An object as one row, or as one for each of the objects in it.
fn lines<'j>(item: &'j Json) -> Vec<Vec<(String, &'j Json)>> {
    let Json::Object(object) = item else { return vec![vec![(VALUE.to_owned(), item)]] };
    let mut fields = Vec::new();
    flatten("", object, &mut fields);
    let is_list =
        |value: &Json| value.as_array().is_some_and(|list| !list.is_empty() && list.iter().all(Json::is_object));
    let Some(at) = fields.iter().position(|(_, value)| is_list(value)) else { return vec![fields] };
    let (outer, list) = fields.remove(at);
    let line = |object: &'j Map<String, Json>| {
        let mut inner = Vec::new();
        flatten("", object, &mut inner);
        for (name, _) in &mut inner {
            if fields.iter().any(|(own, _)| own == name) {
                *name = format!("{outer}.{name}");
            }
        }
        let mut row = fields.clone();
        row.splice(at..at, inner);
        row
    };
    list.as_array().into_iter().flatten().filter_map(Json::as_object).map(line).collect()
}

/// A column's name: without underscores, and without the unit that its cells show.
fn title(name: &str) -> String {
    Cell::text(&name.strip_suffix(MILLISECONDS).unwrap_or(name).replace('_', " ")).text
}

fn cell(name: &str, value: &Json) -> Cell {
    match value {
        Json::Null => Cell::nothing(),
        Json::Bool(true) => Cell::text("yes"),
        Json::Bool(false) => Cell::text("no"),
        Json::String(text) => Cell::text(text),
        Json::Number(number) => {
            let value = number.as_f64().unwrap_or(f64::NAN);
            let text = match number.as_u64() {
                _ if name.ends_with(MILLISECONDS) => time(value),
                Some(whole) => grouped(whole),
                None if number.is_i64() => number.to_string(),
                None => rate(value),
            };
            Cell::number(value, text)
        }
        Json::Array(list) => {
            let all: Vec<String> = list.iter().filter(|own| !own.is_null()).map(|own| cell("", own).text).collect();
            if all.is_empty() { Cell::nothing() } else { Cell::text(&all.join(" ")) }
        }
        Json::Object(_) => Cell::text(&value.to_string()),
    }
}

/// Milliseconds as a person reads them.
fn time(ms: f64) -> String {
    match ms {
        ms if ms < 1000.0 => format!("{ms:.0} ms"),
        ms if ms < 100_000.0 => format!("{:.1} s", ms / 1e3),
        ms if ms < 7_200_000.0 => format!("{:.0} min", ms / 60e3),
        ms if ms < 172_800_000.0 => format!("{:.0} h", ms / 3_600e3),
        ms => format!("{:.0} d", ms / 86_400e3),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn shown(answer: Json) -> String {
        let (grid, beside) = grid(&answer);
        let line = |cells: Vec<&str>| cells.join(" | ");
        let mut out = vec![line(grid.columns.iter().map(String::as_str).collect())];
        out.extend(grid.rows.iter().map(|row| line(row.iter().map(|cell| cell.text.as_str()).collect())));
        out.push(beside);
        out.join("\n")
    }

    #[test]
    fn a_list_of_objects_is_a_table() {
        let list = json!([
            {"id": 1, "request": null, "age_ms": 12_340, "modes": ["held", null], "up": true},
            {"id": 1000, "request": {"method": "GET", "status": 200}, "age_ms": 999, "modes": [null, null], "more": 0.5},
        ]);
        let expected = "id | request.method | request.status | age | modes | more | up\n\
                        1 | - | - | 12.3 s | held | - | yes\n\
                        1 000 | GET | 200 | 999 ms | - | 0.50 | -\n";
        assert_eq!(shown(list), expected);
        assert_eq!(shown(json!([])), "\n");
        assert_eq!(shown(json!(["a", -2])), "value\na\n-2\n");
    }

    #[test]
    fn a_list_in_a_list_has_a_row_for_each() {
        let list = json!([
            {"id": 1, "tracks": [{"kind": "video", "id": 7}, {"kind": "audio", "id": 8}], "url": "u"},
            {"id": 2, "tracks": [], "url": "v"},
        ]);
        let expected = "id | kind | tracks.id | url\n\
                        1 | video | 7 | u\n\
                        1 | audio | 8 | u\n\
                        2 | - | - | v\n";
        assert_eq!(shown(list), expected);
    }

    #[test]
    fn other_answers_are_shown_as_they_are() {
        assert_eq!(shown(json!({"sessions": [{"id": 1}], "fit": 1, "all": 3000})), "id\n1\nfit 1, all 3 000");
        let state = json!({"state": "running", "since_ms": 7_200_000, "ports": {"a": "eth0"}, "list": [1, 2]});
        assert_eq!(shown(state), "name | value\nstate | running\nsince | 2 h\nports.a | eth0\nlist | 1 2\n");
        assert_eq!(shown(json!("x\u{1b}")), "value\nx\u{fffd}\n");
    }
}
