//! Loops, and what leads out of them.

use super::body::{Body, MAX_TRIPS, Variable};
use super::types::{Ty, Value};

impl Body<'_> {
    /// A loop.
    pub fn repeat(&mut self) {
        let Some((head, variable, trips)) = self.loop_head() else { return };
        let before = self.trips;
        if trips * before > MAX_TRIPS {
            return;
        }
        self.trips = trips.max(1) * before;
        self.most_trips = self.most_trips.max(self.trips);
        self.exits.push((true, self.held()));
        let count = self.n.range(1, 3);
        self.block(&head, |body| {
            body.scope.variables.push(variable);
            body.statements(count);
            if body.locked && body.n.chance(70) {
                body.leave_loop();
                body.statements(1);
            }
        });
        self.exits.pop();
        self.trips = before;
    }

    /// The head of a loop, its counter, and how often it runs. The counter may wrap.
    fn loop_head(&mut self) -> Option<(String, Variable, usize)> {
        let ty = Ty::Int { width: self.n.range(3, 64) as u32, signed: self.n.chance(40) };
        let Ty::Int { width, signed } = ty else { return None };
        let modulus = 1i128 << width;
        let least = if signed { -(modulus / 2) } else { 0 };
        let wrap = |value: i128| (value - least).rem_euclid(modulus) + least;
        let extremes = [least, least + modulus - 1, 0];
        let near = if self.n.chance(20) { *self.n.pick(&extremes) } else { 0 };
        let [start, limit] = [(); 2].map(|_| wrap(near + self.n.range(0, 6) as i128 - 3));
        let step = self.n.range(1, 3) as i128;
        let (up, op) = (self.n.chance(65), *self.n.pick(&["<", "<=", "!=", ">", ">="]));
        let mut value = start;
        let mut trips = 0;
        loop {
            let goes_on = match op {
                "<" => value < limit,
                "<=" => value <= limit,
                "!=" => value != limit,
                ">" => value > limit,
                _ => value >= limit,
            };
            if !goes_on {
                break;
            }
            trips += 1;
            if trips > 8 {
                return None;
            }
            value = wrap(if up { value + step } else { value - step });
        }
        let name = self.name("i");
        let next = match (step, up) {
            (1, true) => format!("{name}++"),
            (1, false) => format!("{name}--"),
            (_, true) => format!("{name} += {step}"),
            (_, false) => format!("{name} = {name} - {step}"),
        };
        let more = if self.n.chance(20) { format!(" && {}", self.condition(1)) } else { String::new() };
        let head = format!("for ({} {name} = {start}; {name} {op} {limit}{more}; {next})", ty.name());
        Some((head, Variable { name, ty: Value::Scalar(ty), settable: false }, trips))
    }

    /// Names of the handles that are held.
    pub fn held(&self) -> Vec<String> {
        let own = self.scope.handles.iter().filter(|handle| handle.looks_into.is_none());
        own.map(|handle| handle.name.clone()).collect()
    }

    /// `break` or `continue` out of a loop or `switch`, where the same packets are held as at the loop's head.
    pub fn leave_loop(&mut self) {
        let (word, exit) = match self.n.below(2) {
            0 => ("break", self.exits.last()),
            _ => ("continue", self.exits.iter().rev().find(|(is_loop, _)| *is_loop)),
        };
        if exit.map(|(_, held)| held) != Some(&self.held()) {
            return self.assign_variable();
        }
        let condition = self.condition(2);
        self.block(&format!("if ({condition})"), |body| {
            if body.n.chance(30) {
                body.assign_variable();
            }
            body.line(format!("{word};"));
        });
        if self.is_critical() {
            self.world.note(if word == "break" {
                "break while an entry is locked"
            } else {
                "continue while an entry is locked"
            });
        }
    }
}
