//! What is shown, and what keys change of it.

use std::collections::HashMap;
use std::time::Duration;

use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

use crate::answer;
use crate::asker::{Said, Wanted};
use crate::grid::{Grid, Sort};
use crate::look::{Detail, Look, Topic};
use crate::rates::{Span, is_same_process};
use crate::views::{self, View};

/// Between two looks: what may be chosen, in milliseconds.
const INTERVALS: [u64; 7] = [250, 500, 1000, 2000, 5000, 10_000, 30_000];
/// Characters of a filter at most.
const LONGEST_FILTER: usize = 60;

/// All that is shown.
#[derive(Debug)]
pub struct Model {
    /// The views that there are.
    pub views: Vec<View>,
    /// The one that is shown.
    pub view: View,
    /// The last look, and the one before it.
    now: Option<Look>,
    before: Option<Look>,
    detail: Option<Detail>,
    /// Why there is no instance.
    pub gone: Option<String>,
    /// Whether another process has taken its place since the last look.
    pub is_new: bool,
    sorts: HashMap<View, Sort>,
    /// What rows must have.
    pub filter: String,
    /// Whether keys go into the filter.
    pub is_typing: bool,
    /// Whether nothing further is asked.
    pub is_paused: bool,
    /// Which of [`INTERVALS`].
    interval: usize,
    /// Whether the help is shown.
    pub is_help: bool,
    /// How many rows are above the screen.
    pub above: usize,
    /// How many rows the screen had room for when it was last drawn.
    pub room: usize,
}

/// What is shown below the head.
#[derive(Debug)]
pub enum Body {
    /// Nothing is known yet, or why nothing is.
    Text(String),
    /// Rows, what is said beside them, and how they are sorted.
    Grid(Grid, String, Sort),
    /// Several.
    Overview(Box<Overview>),
}

/// The parts of the overview.
#[derive(Debug)]
pub struct Overview {
    /// Ports.
    pub ports: Grid,
    /// PPFs.
    pub ppfs: Grid,
    /// Drops.
    pub drops: Grid,
    /// Controllers.
    pub controllers: Grid,
}

impl Model {
    /// Before the first look.
    pub fn new(every: Duration) -> Model {
        let near = |ms: &u64| u128::from(*ms) >= every.as_millis();
        Model {
            views: View::ALL.to_vec(),
            view: View::Overview,
            now: None,
            before: None,
            detail: None,
            gone: None,
            is_new: false,
            sorts: HashMap::new(),
            filter: String::new(),
            is_typing: false,
            is_paused: false,
            interval: INTERVALS.iter().position(near).unwrap_or(INTERVALS.len() - 1),
            is_help: false,
            above: 0,
            room: 1,
        }
    }

    /// Between two looks.
    pub fn every(&self) -> Duration {
        Duration::from_millis(INTERVALS[self.interval])
    }

    /// What is to be asked.
    pub fn wanted(&self) -> Wanted {
        Wanted { view: self.view.clone(), every: (!self.is_paused).then(|| self.every()) }
    }

    /// Takes what the instance said.
    pub fn take(&mut self, said: Said) {
        match said {
            Said::Look(look) => {
                self.gone = None;
                self.is_new = self.now.as_ref().is_some_and(|now| !is_same_process(now, &look));
                let topics = look.topics.iter().cloned().map(View::Topic);
                self.views = View::ALL.into_iter().chain(topics).collect();
                if !self.views.contains(&self.view) {
                    self.show(View::Overview);
                }
                self.before = self.now.replace(*look);
            }
            Said::Detail(detail) => self.detail = Some(detail),
            Said::Gone(why) => self.gone = Some(why),
        }
    }

    /// The last look, with the one before it.
    pub fn span(&self) -> Option<Span<'_>> {
        Some(Span::new(self.now.as_ref()?, self.before.as_ref()))
    }

    /// How the rows of the view stand.
    pub fn sort(&self) -> Sort {
        self.sorts.get(&self.view).copied().unwrap_or_else(|| self.view.sort())
    }

    /// What is shown below the head.
    pub fn body(&self) -> Body {
        let Some(span) = self.span() else { return Body::Text("the instance has not answered yet".into()) };
        let mut beside = String::new();
        let mut grid = match &self.view {
            View::Overview => return self.overview(span),
            View::Ports => views::ports_in_full(span),
            View::Ppfs => views::ppfs(span),
            View::Drops => views::drops(span),
            View::Counters => views::counters(span),
            View::Tables => match &self.detail {
                Some(Detail::Tables(tables)) => views::tables(span, tables),
                _ => return Body::Text("asked for".into()),
            },
            View::Topic(topic) => match self.answer(topic) {
                Some(Ok(answer)) => {
                    let (grid, said) = answer::grid(answer);
                    beside = said;
                    grid
                }
                Some(Err(why)) => return Body::Text(why.clone()),
                None => return Body::Text("asked for".into()),
            },
        };
        if grid.rows.is_empty() {
            let none = if beside.is_empty() { String::new() } else { format!(" ({beside})") };
            return Body::Text(format!("none{none}"));
        }
        grid.filter(&self.filter);
        grid.sort(self.sort());
        Body::Grid(grid, beside, self.sort())
    }

    fn answer(&self, topic: &Topic) -> Option<&Result<serde_json::Value, String>> {
        match &self.detail {
            Some(Detail::Answer(about, answer)) if about == topic => Some(answer),
            _ => None,
        }
    }

    fn overview(&self, span: Span) -> Body {
        let filtered = |mut grid: Grid, column: Option<usize>| {
            grid.filter(&self.filter);
            grid.sort(Sort { column, reversed: false });
            grid
        };
        // PPFs by all that was counted, so that they stay where they are; drops by what happens now.
        Body::Overview(Box::new(Overview {
            ports: filtered(views::ports(span), None),
            ppfs: filtered(views::ppfs(span), Some(1)),
            drops: filtered(views::drops(span), Some(2)),
            controllers: filtered(views::controllers(span), None),
        }))
    }

    fn show(&mut self, view: View) {
        (self.view, self.above) = (view, 0);
    }

    /// Takes a key. Whether it goes on.
    pub fn key(&mut self, key: KeyEvent) -> bool {
        let is_control = key.modifiers.contains(KeyModifiers::CONTROL);
        match key.code {
            KeyCode::Char('c' | 'd') if is_control => return false,
            _ if is_control => {}
            code if self.is_typing => self.type_in(code),
            code if self.is_help => {
                self.is_help = false;
                return code != KeyCode::Char('q');
            }
            KeyCode::Char('q') => return false,
            code => self.command(code),
        }
        true
    }

    fn type_in(&mut self, code: KeyCode) {
        match code {
            KeyCode::Enter => self.is_typing = false,
            KeyCode::Esc => (self.is_typing, self.filter) = (false, String::new()),
            KeyCode::Backspace => _ = self.filter.pop(),
            KeyCode::Char(c) if !c.is_control() && self.filter.chars().count() < LONGEST_FILTER => self.filter.push(c),
            _ => {}
        }
        self.above = 0;
    }

    fn command(&mut self, code: KeyCode) {
        match code {
            KeyCode::Char('?' | 'h') => self.is_help = true,
            KeyCode::Char('/') => self.is_typing = true,
            KeyCode::Esc => self.filter.clear(),
            KeyCode::Char(' ') => self.is_paused = !self.is_paused,
            KeyCode::Char('+' | '=') => self.interval = (self.interval + 1).min(INTERVALS.len() - 1),
            KeyCode::Char('-') => self.interval = self.interval.saturating_sub(1),
            KeyCode::Char(digit @ '1'..='9') => {
                let chosen = self.views.get(digit as usize - '1' as usize).cloned();
                chosen.into_iter().for_each(|view| self.show(view));
            }
            KeyCode::Tab => self.turn(1),
            KeyCode::BackTab => self.turn(self.views.len() - 1),
            KeyCode::Right | KeyCode::Char('>') => self.choose(true),
            KeyCode::Left | KeyCode::Char('<') => self.choose(false),
            KeyCode::Char('r') => {
                let Sort { column, reversed } = self.sort();
                self.sorts.insert(self.view.clone(), Sort { column: column.or(Some(0)), reversed: !reversed });
            }
            code => self.scroll(code),
        }
    }

    fn scroll(&mut self, code: KeyCode) {
        let rows = match self.body() {
            Body::Grid(grid, ..) => grid.rows.len(),
            _ => 0,
        };
        let wanted = match code {
            KeyCode::Down | KeyCode::Char('j') => self.above + 1,
            KeyCode::Up | KeyCode::Char('k') => self.above.saturating_sub(1),
            KeyCode::PageDown => self.above + self.room,
            KeyCode::PageUp => self.above.saturating_sub(self.room),
            KeyCode::Home => 0,
            KeyCode::End => rows,
            _ => return,
        };
        self.above = wanted.min(rows.saturating_sub(self.room));
    }

    /// The view so many further.
    fn turn(&mut self, by: usize) {
        let at = self.views.iter().position(|view| *view == self.view).unwrap_or(0);
        self.show(self.views[(at + by) % self.views.len()].clone());
    }

    /// The next column to the right or the left; left of the first one is none.
    fn choose(&mut self, is_right: bool) {
        let Body::Grid(grid, ..) = self.body() else { return };
        let sort = self.sort();
        let place = sort.column.map_or(0, |column| column + 1);
        let place = if is_right { (place + 1).min(grid.columns.len()) } else { place.saturating_sub(1) };
        self.sorts.insert(self.view.clone(), Sort { column: place.checked_sub(1), ..sort });
    }
}
