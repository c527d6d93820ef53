//! Curves of `millrace sim`, as SVG.

use plotters::prelude::*;

use super::Build;

const SIZE: (u32, u32) = (800, 500);

/// Gbit/s by number of engines, a curve for each level.
pub fn rates(title: &str, builds: &[Build]) -> Result<String, String> {
    let mut svg = String::new();
    {
        let area = SVGBackend::with_string(&mut svg, SIZE).into_drawing_area();
        draw(&area, title, builds).map_err(|error| error.to_string())?;
        area.present().map_err(|error| error.to_string())?;
    }
    Ok(svg)
}

fn draw<'a>(
    area: &DrawingArea<SVGBackend<'a>, plotters::coord::Shift>,
    title: &str,
    builds: &[Build],
) -> Result<(), DrawingAreaErrorKind<<SVGBackend<'a> as DrawingBackend>::ErrorType>> {
    let gigabits = |rate: f64| rate / 1e9;
    let points = || builds.iter().flat_map(|build| &build.points);
    let most = points().map(|point| gigabits(point.bits_per_second)).fold(0.0, f64::max) * 1.1;
    let (from, to) = points().fold((usize::MAX, 0), |(a, b), point| (a.min(point.engines), b.max(point.engines)));
    area.fill(&WHITE)?;
    let mut chart = ChartBuilder::on(area)
        .caption(title, ("sans-serif", 22))
        .margin(12)
        .x_label_area_size(42)
        .y_label_area_size(56)
        .build_cartesian_2d(from as f64..to.max(from + 1) as f64, 0.0..most.max(0.001))?;
    chart
        .configure_mesh()
        .x_desc("engines")
        .y_desc("Gbit/s")
        .x_labels((to - from + 1).max(2))
        .x_label_formatter(&|engines| format!("{engines:.0}"))
        .y_label_formatter(&|rate| format!("{rate:.1}"))
        .draw()?;
    for (build, color) in builds.iter().zip([RED, BLUE, BLACK]) {
        let curve: Vec<(f64, f64)> =
            build.points.iter().map(|point| (point.engines as f64, gigabits(point.bits_per_second))).collect();
        let style = color.stroke_width(2);
        chart
            .draw_series(LineSeries::new(curve.clone(), style))?
            .label(build.traced.level.name())
            .legend(move |(x, y)| PathElement::new([(x, y), (x + 20, y)], style));
        chart.draw_series(curve.into_iter().map(|at| Circle::new(at, 4, color.filled())))?;
    }
    chart
        .configure_series_labels()
        .position(SeriesLabelPosition::UpperLeft)
        .background_style(WHITE)
        .border_style(BLACK)
        .draw()
}
