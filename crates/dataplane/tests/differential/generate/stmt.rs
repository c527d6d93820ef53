//! Statements that leave all handles as they are.

use super::body::{Body, Pointer, Variable};
use super::types::{Expr, Ty, Value, literal, unsigned};
use super::world::{Kind, Table};

impl Body<'_> {
    pub fn statements(&mut self, count: usize) {
        for _ in 0..count {
            if self.fuel > 0 {
                self.statement();
            }
        }
    }

    pub fn statement(&mut self) {
        self.fuel -= 2;
        self.size += 1;
        if self.locked {
            return self.locked_statement();
        }
        match self.n.below(49) {
            43..=45 => self.critical(),
            46 | 47 => self.note_fault(),
            48 => self.require(),
            0..=3 => self.variable(),
            4..=7 => self.assign_variable(),
            8..=11 => self.assign_header(),
            12 | 13 => self.assign_metadata(),
            14..=16 => self.change_table(),
            17 | 31 | 32 => self.count(),
            18 | 19 => self.choice(),
            33 | 34 => self.switch(),
            20 | 21 => self.repeat(),
            22 | 23 => self.pointer(),
            24 | 25 => self.copy(),
            26 => self.call_statement(),
            27 => self.leave_loop(),
            28 => self.leave_early(),
            29 => self.assign_pointed(),
            35..=42 => self.packet_statement(),
            _ => {
                let count = self.n.range(1, 2);
                self.block("", |body| body.statements(count));
            }
        }
    }

    /// What may stand in a critical section.
    fn locked_statement(&mut self) {
        match self.n.below(17) {
            12 => self.call_statement(),
            13 | 14 => self.leave_loop(),
            15 if self.calm => self.leave_early(),
            16 => self.repeat(),
            0 => self.variable(),
            1 | 2 => self.assign_variable(),
            3 | 4 => self.assign_header(),
            5 => self.assign_metadata(),
            6 => self.choice(),
            7 => self.switch(),
            8 => self.repeat(),
            _ => self.assign_pointed(),
        }
    }

    /// A critical section of an entry that is there.
    fn critical(&mut self) {
        let tested: Vec<_> = self.scope.pointers.iter().filter(|p| p.tested).cloned().collect();
        let Some(pointer) = tested.get(self.n.below(tested.len())) else { return self.pointer() };
        let (before, count) = (std::mem::replace(&mut self.locked, true), self.n.range(1, 3));
        // Nothing leads out of it.
        let exits = std::mem::take(&mut self.exits);
        self.block(&format!("critical ({})", pointer.name), |body| {
            body.assign_pointed();
            body.statements(count);
        });
        (self.locked, self.exits) = (before, exits);
    }

    fn variable(&mut self) {
        let ty = self.world.value(self.n);
        let name = self.name("v");
        let ty_name = self.world.value_name(ty);
        if self.n.chance(10) {
            self.line(format!("{ty_name} {name};"));
        } else {
            let value = self.value(ty, 3);
            self.line(format!("{ty_name} {name} = {value};"));
        }
        self.scope.variables.push(Variable { name, ty, settable: true });
    }

    pub fn assign_variable(&mut self) {
        let settable: Vec<_> = self.scope.variables.iter().filter(|v| v.settable).cloned().collect();
        let Some(variable) = settable.get(self.n.below(settable.len())) else { return self.variable() };
        match variable.ty {
            Value::Struct(index) if self.n.chance(70) => {
                let field = self.field_of(&format!("{}.", variable.name), index);
                self.assign(&field);
            }
            ty @ Value::Struct(_) => {
                let value = self.value(ty, 2);
                self.line(format!("{} = {value};", variable.name));
            }
            Value::Scalar(ty) => self.assign(&Expr::new(&variable.name, ty)),
        }
    }

    /// Stores into a scalar: plainly, with an operator, or by a step.
    fn assign(&mut self, target: &Expr) {
        let text = &target.text;
        if self.n.chance(50) {
            let value = self.scalar(target.ty, 3);
            return self.line(format!("{text} = {value};"));
        }
        let Ty::Int { width, .. } = target.ty else {
            let op = *self.n.pick(&["&=", "|=", "^="]);
            let value = self.expr(2).cast(Ty::Bool).text;
            return self.line(format!("{text} {op} {value};"));
        };
        // The 1 of a step does not fit into an i1.
        if target.ty != (Ty::Int { width: 1, signed: true }) && self.n.chance(20) {
            let op = *self.n.pick(&["++", "--"]);
            return self.line(format!("{text}{op};"));
        }
        if self.n.chance(20) {
            let (op, count) = (*self.n.pick(&["<<=", ">>="]), self.shift_count(unsigned(width).promoted(), 2));
            return self.line(format!("{text} {op} {count};"));
        }
        let op = *self.n.pick(&["+=", "-=", "*=", "/=", "%=", "&=", "|=", "^="]);
        let value = if self.n.chance(30) {
            literal(self.n, target.ty).text
        } else {
            let value = self.number(2);
            if value.fits(target.ty) { value.text } else { value.cast(target.ty).text }
        };
        self.line(format!("{text} {op} {value};"));
    }

    fn assign_header(&mut self) {
        if self.scope.handles.is_empty() {
            return self.assign_variable();
        }
        let handle = self.n.pick(&self.scope.handles).clone();
        let protocol = &self.world.protocols[handle.protocol];
        let index = self.n.below(protocol.fields.len());
        // A program that writes the checksum keeps it itself: seldom, so that it is mostly kept for it.
        if protocol.checksum == Some(index) && self.n.chance(70) {
            return;
        }
        let (name, ty) = &protocol.fields[index];
        self.assign(&Expr::new(format!("{}->{name}", handle.name), *ty));
    }

    fn assign_metadata(&mut self) {
        if self.scope.handles.is_empty() {
            return self.assign_variable();
        }
        let handle = self.n.pick(&self.scope.handles).clone();
        let index = self.n.below(self.world.metadata.len() + 1);
        let (name, ty) = match self.world.metadata.get(index) {
            Some((name, ty)) => (name.as_str(), *ty),
            None => ("tx.port", unsigned(8)),
        };
        self.assign(&Expr::new(format!("{}->metadata.{name}", handle.name), ty));
    }

    fn change_table(&mut self) {
        let Some((name, table)) = self.pick_table(|_, _| true) else { return };
        match table.kind {
            Kind::Set => {
                let (key, change) = (self.key(table.key, table.kind, 2), *self.n.pick(&["insert", "insert", "remove"]));
                self.line(format!("table_{change}({name}, {key});"));
            }
            Kind::Lpm => self.pointer(),
            Kind::Array if self.n.chance(50) => {
                let Some((entry, ty)) = self.array_entry(1) else { return };
                let target = match ty {
                    Value::Scalar(ty) => Expr::new(entry, ty),
                    Value::Struct(index) => self.field_of(&format!("{entry}."), index),
                };
                self.assign(&target);
            }
            kind => {
                let key = self.key(table.key, kind, 2);
                if kind == Kind::Hash && self.n.chance(25) {
                    return self.line(format!("table_remove({name}, {key});"));
                }
                let value = self.value(table.value, 2);
                if self.n.chance(50) {
                    self.line(format!("{name}[{key}] = {value};"));
                } else {
                    self.line(format!("table_insert({name}, {key}, {value});"));
                }
            }
        }
    }

    fn count(&mut self) {
        let module = self.n.pick(&self.world.modules);
        let (name, size) = self.n.pick(&module.counters);
        let base = *self.n.pick(&module.known_as());
        let amount = self.scalar(unsigned(64), 2);
        let cell = match size {
            1 => String::new(),
            size if self.n.chance(50) => format!("[{}]", self.n.below(*size as usize + 1)),
            _ => format!("[{}]", self.scalar(unsigned(32), 2)),
        };
        self.line(format!("counter_add({base}.{name}{cell}, {amount});"));
    }

    fn choice(&mut self) {
        let condition = self.condition(3);
        let (then, other) = (self.n.range(0, 2), self.n.range(1, 2));
        self.block(&format!("if ({condition})"), |body| body.statements(then));
        if self.n.chance(50) {
            self.block("else", |body| body.statements(other));
        }
    }

    /// Arms for a few of the values, some of them shared.
    fn switch(&mut self) {
        let ty = unsigned(*self.n.pick(&[1, 2, 3, 8, 48]));
        let Ty::Int { width, .. } = ty else { unreachable!("an integer type") };
        let value = self.scalar(ty, 2);
        self.line(format!("switch ((u{width}) {value}) {{"));
        self.exits.push((false, self.held()));
        let values = (1u64 << width.min(4)).min(6);
        let default = self.n.chance(60).then(|| self.n.below(values as usize) as u64);
        let mut next = 0;
        while next < values {
            let more = next + self.n.range(1, 2) as u64;
            let labels: Vec<String> = (next..more.min(values)).map(|value| value.to_string()).collect();
            let mut head = format!("case {}:", labels.join(", "));
            if default.is_some_and(|at| (next..more).contains(&at)) {
                head += " default:";
            }
            let count = self.n.range(0, 2);
            self.line(head);
            self.block("", |body| body.statements(count));
            if self.n.chance(20) {
                self.line("break;");
            }
            next = more + self.n.below(2) as u64;
        }
        self.exits.pop();
        self.line("}");
    }

    /// A pointer, and mostly a test of it.
    fn pointer(&mut self) {
        let (lookup, to) = self.lookup();
        let aside = if self.n.chance(30) { self.aside(&lookup, to) } else { Vec::new() };
        let name = self.name("q");
        let ty_name = self.world.value_name(to);
        self.line(format!("{ty_name} *{name} = {lookup};"));
        let at = self.scope.pointers.len();
        self.scope.pointers.push(Pointer { name: name.clone(), to, tested: false });
        if self.n.chance(20) {
            return;
        }
        let op = *self.n.pick(&["!= null", "== null"]);
        let count = self.n.range(1, 2);
        if op == "!= null" {
            let more = if self.n.chance(30) { format!(" && {}", self.condition(1)) } else { String::new() };
            self.block(&format!("if ({name} {op}{more})"), |body| {
                body.scope.pointers[at].tested = true;
                for line in &aside {
                    body.line(line);
                    body.assign_pointed();
                }
                body.assign_pointed();
                body.statements(count);
            });
        } else {
            let more = if self.n.chance(30) { format!(" || {}", self.condition(1)) } else { String::new() };
            self.block(&format!("if ({name} {op}{more})"), |body| body.statements(count));
            self.block("else", |body| {
                body.scope.pointers[at].tested = true;
                body.assign_pointed();
            });
        }
        if self.n.chance(10) {
            // Behind this the pointer leads elsewhere.
            let first = lookup.split_once('[').expect("a look-up").0;
            let (_, table) = self.pick_table(|name, _| name == first).expect("where it was looked up");
            // A pointer leads into tables that age, or into others.
            let ages = table.idle.is_some();
            let of_type =
                |_: &str, table: &Table| table.value == to && table.idle.is_some() == ages && table.kind != Kind::Set;
            let (table, found) = self.pick_table(of_type).expect("the same at least");
            let key = self.key(found.key, found.kind, 1);
            self.line(format!("{name} = {table}[{key}];"));
        }
    }

    /// Changes of an entry that are made while a pointer leads to it.
    fn aside(&mut self, lookup: &str, to: Value) -> Vec<String> {
        let (name, key) = lookup.split_once('[').expect("a look-up");
        let key = key.strip_suffix(']').expect("a look-up");
        let found = self.tables().into_iter().find(|(known, _)| known == name);
        let Some((_, (module, index))) = found else { return Vec::new() };
        let remove = format!("table_remove({name}, {key});");
        let insert = format!("{name}[{key}] = {};", self.value(to, 1));
        match (self.world.modules[module].tables[index].kind, self.n.below(3)) {
            (Kind::Lpm, _) => Vec::new(),
            (Kind::Hash, 0) => vec![remove],
            (Kind::Hash, 1) => vec![remove, insert],
            _ => vec![insert],
        }
    }

    /// Stores through a pointer that was tested.
    fn assign_pointed(&mut self) {
        let tested: Vec<_> = self.scope.pointers.iter().filter(|p| p.tested).cloned().collect();
        let Some(pointer) = tested.get(self.n.below(tested.len())) else { return };
        match pointer.to {
            Value::Scalar(ty) => self.assign(&Expr::new(format!("*{}", pointer.name), ty)),
            Value::Struct(index) if self.n.chance(60) => {
                let field = self.field_of(&format!("{}->", pointer.name), index);
                self.assign(&field);
            }
            ty @ Value::Struct(_) => {
                let value = self.value(ty, 2);
                self.line(format!("*{} = {value};", pointer.name));
            }
        }
    }

    fn call_statement(&mut self) {
        let functions = self.callable();
        if let Some(function) = functions.get(self.n.below(functions.len())) {
            let call = self.call(*function, 2);
            self.line(format!("{call};"));
        }
    }
}
