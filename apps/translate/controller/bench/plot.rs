//! The bandwidth that comes to each system's client, over time, as SVG.

use std::fmt::Write;
use std::path::Path;

use super::client::BIN;
use crate::text;

const WIDTH: f64 = 900.0;
/// Of one system.
const HEIGHT: f64 = 120.0;
const MARGIN: f64 = 60.0;
const COLOURS: [&str; 5] = ["#1f77b4", "#d62728", "#2ca02c", "#9467bd", "#8c564b"];

/// Writes `target/bench/translate/CASE.svg`: a curve for each system, one below the other, with the same scale.
pub fn write(case: &str, series: &[(&str, &Vec<u64>)]) -> Result<(), String> {
    let folder = Path::new("target/bench/translate");
    std::fs::create_dir_all(folder).map_err(text)?;
    let name = case.replace(", ", "-").replace(['/', ' ', '%'], "");
    std::fs::write(folder.join(name + ".svg"), svg(case, series)).map_err(text)
}

fn svg(case: &str, series: &[(&str, &Vec<u64>)]) -> String {
    let mbit = |bytes: u64| bytes as f64 * 8.0 / BIN.as_secs_f64() / 1e6;
    let top = series.iter().flat_map(|(_, bins)| *bins).copied().map(mbit).fold(0.1, f64::max);
    let bins = series.iter().map(|(_, bins)| bins.len()).max().unwrap_or(1).max(1);
    let (right, bottom) = (WIDTH + 2.0 * MARGIN, series.len() as f64 * HEIGHT + 2.0 * MARGIN);
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {right} {bottom}\" font-family=\"sans-serif\" \
         font-size=\"12\">\n<rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n\
         <text x=\"{MARGIN}\" y=\"24\">{case}: Mbit/s of each 100 ms, to {top:.1}, for {:.0} s</text>\n",
        bins as f64 * BIN.as_secs_f64()
    );
    for (row, ((name, own), colour)) in series.iter().zip(COLOURS.iter().cycle()).enumerate() {
        let base = MARGIN + HEIGHT * (row + 1) as f64;
        let end = MARGIN + WIDTH;
        // Writing to a string does not fail.
        let _ = writeln!(svg, "<path d=\"M{MARGIN},{base}H{end}\" stroke=\"#cccccc\"/>");
        let _ = writeln!(svg, "<text x=\"8\" y=\"{base}\" fill=\"{colour}\">{name}</text>");
        let _ = write!(svg, "<path fill=\"none\" stroke=\"{colour}\" d=\"M");
        for (at, bytes) in own.iter().enumerate() {
            let x = MARGIN + at as f64 / bins as f64 * WIDTH;
            let y = base - mbit(*bytes) / top * (HEIGHT - 12.0);
            let _ = write!(svg, "{x:.1},{y:.1} ");
        }
        svg += "\"/>\n";
    }
    svg + "</svg>\n"
}
