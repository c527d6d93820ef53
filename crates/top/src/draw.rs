//! The model on a screen.

use std::time::Duration;

use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Modifier, Style};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Clear, Paragraph};

use crate::columns::{Theme, lines};
use crate::grid::{Grid, Sort};
use crate::model::{Body, Model, Overview};
use crate::views;

/// The smallest screen that is of use.
const LEAST: (u16, u16) = (60, 12);
/// From so many columns on the overview has two parts beside each other in which names find room.
const WIDE: u16 = 120;

/// What keys do, as the help shows it.
const HELP: [(&str, &str); 11] = [
    ("1 … 9, tab, shift-tab", "another view"),
    ("← →, < >", "sort by the next column; left of the first: as they come"),
    ("r", "the other way round"),
    ("/", "only rows with a text; enter keeps it, escape clears it"),
    ("↑ ↓, page up, page down", "rows that find no room"),
    ("home, end", "the first rows, the last ones"),
    ("space", "pause, and go on"),
    ("+ -", "look less often, more often"),
    ("?, h", "this help"),
    ("q, ctrl-c", "quit"),
    ("", "Rates are of the time between two looks."),
];

/// Draws all.
pub fn draw(frame: &mut Frame, model: &mut Model, theme: Theme) {
    let area = frame.area();
    if area.width < LEAST.0 || area.height < LEAST.1 {
        let text = format!(
            "millrace top needs {} columns and {} lines; here are {} and {}. q quits.",
            LEAST.0, LEAST.1, area.width, area.height
        );
        let text = Paragraph::new(text).wrap(ratatui::widgets::Wrap { trim: true });
        frame.render_widget(text, area);
        return;
    }
    let notice = notice(model, theme);
    let said = u16::from(notice.is_some());
    let heights = [Constraint::Length(2), Constraint::Length(said), Constraint::Min(0), Constraint::Length(1)];
    let [head, said, body, foot] = Layout::vertical(heights).areas(area);
    frame.render_widget(Paragraph::new(vec![title(model, head.width), tabs(model, head.width, theme)]), head);
    frame.render_widget(Paragraph::new(notice.unwrap_or_default()), said);
    if model.is_help {
        frame.render_widget(Paragraph::new(help(theme)), body);
    } else {
        draw_body(frame, model, body, theme);
    }
    frame.render_widget(Paragraph::new(keys(model)), foot);
}

/// A line with something at its left and something at its right.
fn ends(left: &str, right: &str, width: u16) -> Line<'static> {
    let (left, right) = (Span::raw(left.to_owned()), Span::raw(right.to_owned()));
    let room = usize::from(width).saturating_sub(right.width() + 1);
    let mut text = left.content.into_owned();
    while Span::raw(text.as_str()).width() > room {
        text.pop();
    }
    let blanks = usize::from(width).saturating_sub(Span::raw(text.as_str()).width() + right.width());
    Line::from(vec![Span::styled(text, Style::new().add_modifier(Modifier::BOLD)), " ".repeat(blanks).into(), right])
}

fn title(model: &Model, width: u16) -> Line<'static> {
    let left = match model.span() {
        Some(span) => {
            let status = &span.now.status;
            let workers = format!("{} worker{}", status.workers, if status.workers == 1 { "" } else { "s" });
            let cpu_ns = span.rate(|counters| {
                let workers = &counters.workers;
                (!workers.is_empty()).then(|| workers.iter().map(|worker| worker.cpu_ns).sum())
            });
            // Of one CPU.
            let load = cpu_ns.map(|ns| format!(" at {:.0} % CPU", ns / 1e7)).unwrap_or_default();
            let up = cli::report::uptime(status.uptime_ms);
            let (name, engine) = (&status.instance, &status.engine);
            // The path of a program may be long, so it comes last.
            format!("{name}, pid {}, up {up}, {engine}, {workers}{load}: {}", status.pid, status.program)
        }
        None => "millrace top".to_owned(),
    };
    let right = if model.is_paused { "PAUSED".to_owned() } else { format!("every {}", seconds(model.every())) };
    ends(&left, &right, width)
}

fn seconds(time: Duration) -> String {
    format!("{} s", time.as_secs_f64())
}

/// The views with their keys, so many that the one that is shown is among them.
fn tabs(model: &Model, width: u16, theme: Theme) -> Line<'static> {
    let at = model.views.iter().position(|view| *view == model.view).unwrap_or(0);
    let name = |(place, view): (usize, &crate::views::View)| match place {
        0..9 => format!("{} {}", place + 1, view.name()),
        _ => view.name(),
    };
    let names: Vec<String> = model.views.iter().enumerate().map(name).collect();
    let wide = |range: std::ops::RangeInclusive<usize>| {
        names[range].iter().map(|name| Span::raw(name.as_str()).width() + 2).sum::<usize>()
    };
    // Names are shown whole; a mark at either end says that there are more.
    let room = usize::from(width).saturating_sub(4);
    let from = (0..=at).find(|from| wide(*from..=at) <= room).unwrap_or(at);
    let last = (at..names.len()).take_while(|last| wide(from..=*last) <= room + 2).last().unwrap_or(at);
    let mut spans = vec![Span::raw(if from > 0 { "… " } else { "" })];
    for (place, name) in names[from..=last].iter().enumerate() {
        spans.push(Span::styled(name.clone(), if from + place == at { theme.chosen() } else { Style::new() }));
        spans.push(Span::raw("  "));
    }
    spans.extend((last + 1 < names.len()).then(|| Span::raw("…")));
    Line::from(spans)
}

/// What is to be known beside the view.
fn notice(model: &Model, theme: Theme) -> Option<Line<'static>> {
    if model.is_typing {
        return Some(Line::from(vec![
            Span::raw(format!("filter: {}", model.filter)),
            Span::styled(" ", theme.chosen()),
        ]));
    }
    if let Some(why) = &model.gone {
        let why = crate::grid::Cell::text(why).text;
        return Some(Line::styled(format!("connecting again: {why}"), theme.bad()));
    }
    if model.is_new {
        return Some(Line::styled("the instance was started again", theme.bad()));
    }
    (!model.filter.is_empty()).then(|| Line::raw(format!("filter: {}  (escape clears it)", model.filter)))
}

fn keys(model: &Model) -> Line<'static> {
    let text = match (model.is_typing, model.is_help) {
        (true, _) => "enter keeps the filter  escape clears it",
        (_, true) => "any key goes back  q quit",
        _ => "tab view  ←→ sort  r reverse  / filter  space pause  +- interval  ? help  q quit",
    };
    Line::styled(text, Style::new().add_modifier(Modifier::DIM))
}

fn help(theme: Theme) -> Vec<Line<'static>> {
    let line = |(keys, what): &(&'static str, &'static str)| {
        Line::from(vec![Span::styled(format!("  {keys:<24}"), theme.head()), Span::raw(*what)])
    };
    [Line::default()].into_iter().chain(HELP.iter().map(line)).collect()
}

fn draw_body(frame: &mut Frame, model: &mut Model, area: Rect, theme: Theme) {
    match model.body() {
        Body::Text(text) => frame.render_widget(Paragraph::new(text), area),
        Body::Overview(overview) => {
            let [sums, room] = Layout::vertical([Constraint::Length(1), Constraint::Min(0)]).areas(area);
            let text = model.span().map(views::sums).unwrap_or_default();
            frame.render_widget(Paragraph::new(text), sums);
            draw_overview(frame, &overview, room, theme);
        }
        Body::Grid(grid, beside, sort) => {
            let [room, last] = Layout::vertical([Constraint::Min(0), Constraint::Length(1)]).areas(area);
            model.room = usize::from(room.height).saturating_sub(1).max(1);
            model.above = model.above.min(grid.rows.len().saturating_sub(model.room));
            let size = (usize::from(room.width), usize::from(room.height));
            let (text, hidden) = lines(&grid, size, sort, model.above, theme);
            frame.render_widget(Paragraph::new(text), room);
            let shown = (model.above + 1).min(grid.rows.len())..(model.above + model.room).min(grid.rows.len());
            let mut said = vec![format!("rows {} to {} of {}", shown.start, shown.end, grid.rows.len())];
            said.extend((hidden > 0).then(|| format!("{hidden} columns more: → or a wider screen")));
            said.extend((!beside.is_empty()).then_some(beside));
            frame.render_widget(Paragraph::new(said.join("; ")), last);
        }
    }
}

/// Ports over all the width, then PPFs and drops beside each other, then controllers.
fn draw_overview(frame: &mut Frame, overview: &Overview, area: Rect, theme: Theme) {
    let height = |grid: &Grid| u16::try_from(grid.rows.len() + 1).unwrap_or(u16::MAX);
    let rows_if_any = |grid: &Grid| if grid.rows.is_empty() { 0 } else { height(grid) + 1 };
    let third = area.height / 3;
    let controllers = rows_if_any(&overview.controllers).min(third);
    let middle = height(&overview.ppfs).max(height(&overview.drops)) + 1;
    let ports = height(&overview.ports).min((area.height - controllers).saturating_sub(middle).max(third));
    let middle = middle.min(area.height.saturating_sub(ports + 1 + controllers));
    let heights = [ports + 1, middle, controllers].map(Constraint::Length);
    let [top, middle, bottom] = Layout::vertical(heights).areas(area);
    let halves = [Constraint::Fill(1), Constraint::Length(2), Constraint::Fill(1)];
    let [left, _, right] = Layout::horizontal(halves).areas(middle);
    part(frame, &overview.ports, top, theme);
    // Names are longer than numbers: where there is little room the numbers of greater use come first.
    let narrow = |grid: &Grid| if area.width < WIDE { without(grid, 1) } else { grid.clone() };
    part(frame, &narrow(&overview.ppfs), left, theme);
    match overview.drops.rows.is_empty() {
        true => frame.render_widget(Paragraph::new("no drops"), right),
        false => part(frame, &narrow(&overview.drops), right, theme),
    }
    part(frame, &overview.controllers, bottom, theme);
}

/// Without one column.
fn without(grid: &Grid, column: usize) -> Grid {
    let mut grid = grid.clone();
    grid.columns.remove(column);
    grid.rows.iter_mut().for_each(|row| drop(row.remove(column)));
    grid
}

/// A part of the overview; what finds no room is said in its last line.
fn part(frame: &mut Frame, grid: &Grid, area: Rect, theme: Theme) {
    let (width, height) = (usize::from(area.width), usize::from(area.height));
    if height < 2 || grid.rows.is_empty() {
        return;
    }
    frame.render_widget(Clear, area);
    // The last line stays empty, between this part and the next one.
    let room = (height - 1).min(grid.rows.len() + 1);
    let missing = (grid.rows.len() + 1).saturating_sub(room);
    let (mut text, _) = lines(grid, (width, room), Sort::default(), 0, theme);
    if missing > 0 {
        text.push(Line::styled(format!("{missing} more"), Style::new().add_modifier(Modifier::DIM)));
    }
    frame.render_widget(Paragraph::new(text), area);
}
