//! Expressions.

use super::body::Body;
use super::types::{Expr, Ty, Value, literal, unsigned, width};
use super::world::Kind;

impl Body<'_> {
    /// An expression of any scalar type. What is not a name or a call stands in parentheses.
    pub fn expr(&mut self, depth: u32) -> Expr {
        self.fuel -= 1;
        if depth == 0 || self.fuel < 0 || self.n.chance(25) {
            return self.leaf();
        }
        let depth = depth - 1;
        match self.n.below(22) {
            0..=5 => self.arithmetic(depth),
            6 | 7 => self.shift(depth),
            8 => {
                let operand = self.number(depth);
                let op = self.n.pick(&["-", "~"]);
                Expr { text: format!("({op}{})", operand.text), ty: operand.ty.promoted(), ..operand }
            }
            9 => {
                let ty = Ty::Int { width: width(self.n), signed: self.n.chance(40) };
                self.expr(depth).cast(ty)
            }
            10 | 11 => self.ternary(depth),
            12 | 13 => self.comparison(depth),
            14 | 15 => self.truth(depth),
            16 | 17 => self.call_value(depth),
            18..=21 if self.locked => self.leaf(),
            18 => self.table_change(depth),
            19 => self.take(depth),
            21 => self.member(depth),
            _ => self.pointer_test(),
        }
    }

    /// A condition: anything that is a truth value, a number or a pointer.
    pub fn condition(&mut self, depth: u32) -> String {
        if self.n.chance(5) {
            return self.n.pick(&["true", "false", "3 > 2", "C0", "(4 & 3)", "1 == 2"]).to_string();
        }
        if self.n.chance(40) { self.comparison(depth).text } else { self.expr(depth).text }
    }

    fn arithmetic(&mut self, depth: u32) -> Expr {
        let op = *self.n.pick(&["+", "-", "*", "/", "%", "&", "|", "^"]);
        let a = self.number(depth);
        if self.n.chance(35) {
            let b = literal(self.n, a.ty.promoted());
            return a.with_literal(op, &b, self.n.chance(30));
        }
        let b = self.number(depth);
        join(&a, op, b)
    }

    fn shift(&mut self, depth: u32) -> Expr {
        let a = self.number(depth);
        let ty = a.ty.promoted();
        let count = self.shift_count(ty, depth);
        let op = self.n.pick(&["<<", ">>"]);
        Expr { text: format!("({} {op} {count})", a.text), ty, ..a }
    }

    /// An unsigned number that fits the type that the shift is computed in.
    pub fn shift_count(&mut self, ty: Ty, depth: u32) -> String {
        if self.n.chance(40) {
            return self.n.range(0, 140).to_string();
        }
        let count = self.number(depth);
        let fits = !count.ty.is_signed() && count.natural <= ty.width() && !count.constant;
        if fits { count.text } else { count.cast(unsigned(8)).text }
    }

    fn ternary(&mut self, depth: u32) -> Expr {
        let condition = self.condition(depth);
        let a = self.expr(depth);
        if a.ty == Ty::Bool {
            let b = self.expr(depth).cast(Ty::Bool);
            return Expr::new(format!("({condition} ? {} : {})", a.text, b.text), Ty::Bool);
        }
        let made = if self.n.chance(20) {
            a.with_literal(":", &literal(self.n, a.ty.promoted()), self.n.chance(50))
        } else {
            let b = self.number(depth);
            join(&a, ":", b)
        };
        Expr { text: format!("({condition} ? {}", &made.text[1..]), constant: false, ..made }
    }

    fn comparison(&mut self, depth: u32) -> Expr {
        let a = self.expr(depth);
        if a.ty == Ty::Bool {
            let (op, b) = (*self.n.pick(&["==", "!="]), self.expr(depth).cast(Ty::Bool));
            let constant = a.constant && b.constant;
            return Expr { constant, ..Expr::new(format!("({} {op} {})", a.text, b.text), Ty::Bool) };
        }
        let op = *self.n.pick(&["==", "!=", "<", "<=", ">", ">="]);
        let made = if self.n.chance(45) {
            a.with_literal(op, &literal(self.n, a.ty.promoted()), false)
        } else {
            let b = self.number(depth);
            join(&a, op, b)
        };
        Expr { ty: Ty::Bool, natural: 1, ..made }
    }

    fn truth(&mut self, depth: u32) -> Expr {
        let text = match self.n.below(4) {
            0 => {
                let operand = self.expr(depth);
                return Expr { text: format!("(!{})", operand.text), ty: Ty::Bool, natural: 1, ..operand };
            }
            1 => {
                let op = *self.n.pick(&["&", "|", "^"]);
                let [a, b] = [(); 2].map(|_| self.expr(depth).cast(Ty::Bool).text);
                format!("({a} {op} {b})")
            }
            _ => {
                let op = *self.n.pick(&["&&", "||"]);
                let [a, b] = [(); 2].map(|_| self.condition(depth));
                format!("({a} {op} {b})")
            }
        };
        Expr::new(text, Ty::Bool)
    }

    /// Tokens from a meter.
    fn take(&mut self, depth: u32) -> Expr {
        let modules: Vec<_> = self.world.modules.iter().filter(|module| !module.meters.is_empty()).collect();
        let Some(module) = modules.get(self.n.below(modules.len())) else { return self.leaf() };
        let (name, size, _) = self.n.pick(&module.meters);
        let base = *self.n.pick(&module.known_as());
        let cell = match size {
            1 => String::new(),
            size if self.n.chance(70) => format!("[{}]", self.n.below(*size as usize + 1)),
            _ => format!("[{}]", self.scalar(unsigned(32), depth)),
        };
        let tokens = match self.n.below(3) {
            0 => self.n.below(3).to_string(),
            1 => self.n.pick(&["64", "7", "1500"]).to_string(),
            _ => self.scalar(unsigned(64), depth),
        };
        Expr::new(format!("meter_take({base}.{name}{cell}, {tokens})"), Ty::Bool)
    }

    fn call_value(&mut self, depth: u32) -> Expr {
        let externs = self.module.map_or(&[][..], |module| &self.world.modules[module].externs);
        if !externs.is_empty() && !self.locked && self.n.chance(50) {
            let called = self.n.pick(externs);
            let args: Vec<String> = called.params.iter().map(|ty| self.scalar(*ty, depth.min(1))).collect();
            return Expr::new(format!("{}({})", called.name, args.join(", ")), called.result);
        }
        let with_value = |f: &usize| self.world.functions[*f].result.is_some();
        let functions: Vec<usize> = self.callable().into_iter().filter(with_value).collect();
        if functions.is_empty() {
            return self.leaf();
        }
        let function = *self.n.pick(&functions);
        let text = self.call(function, depth.min(1));
        match self.world.functions[function].result {
            Some(Value::Struct(index)) => self.field_of(&format!("{text}."), index),
            Some(Value::Scalar(ty)) => Expr::new(text, ty),
            None => unreachable!("filtered"),
        }
    }

    /// `table_insert` and `table_remove` as values.
    fn table_change(&mut self, depth: u32) -> Expr {
        if let Some(deadline) = self.deadline(depth) {
            return deadline;
        }
        let Some((name, table)) = self.pick_table(|_, table| table.kind != Kind::Lpm) else { return self.leaf() };
        let key = self.key(table.key, table.kind, depth.min(1));
        // Takes no number, so that other programs stay what they are.
        let new = if key.len().is_multiple_of(2) { "_new" } else { "" };
        if table.kind == Kind::Set {
            let change = *self.n.pick(&["insert", "insert", "remove"]);
            let change = if change == "insert" { format!("{change}{new}") } else { change.into() };
            return Expr::new(format!("table_{change}({name}, {key})"), Ty::Bool);
        }
        if table.kind == Kind::Hash && self.n.chance(40) {
            return Expr::new(format!("table_remove({name}, {key})"), Ty::Bool);
        }
        let value = self.value(table.value, depth.min(1));
        let new = if table.kind == Kind::Hash { new } else { "" };
        Expr::new(format!("table_insert{new}({name}, {key}, {value})"), Ty::Bool)
    }

    /// Sets or cancels a deadline. Not one so soon that timers which set it again run very often.
    fn deadline(&mut self, depth: u32) -> Option<Expr> {
        let at_deadline = |module: usize, index: usize| {
            let mut timers = self.world.modules[module].timers.iter();
            timers.any(|timer| timer.period == 0 && timer.table == Some(index))
        };
        let tables: Vec<_> =
            self.tables().into_iter().filter(|(_, (module, index))| at_deadline(*module, *index)).collect();
        if tables.is_empty() || !self.n.chance(30) {
            return None;
        }
        let (name, (module, index)) = self.n.pick(&tables).clone();
        let table = &self.world.modules[module].tables[index];
        let key = self.key(table.key, table.kind, depth.min(1));
        let text = match self.n.below(8) {
            0 => format!("timer_cancel({name}[{key}])"),
            1 => format!("timer_set({name}[{key}], 0)"),
            _ => {
                let after = *self.n.pick(&["100s", "100s", "250s", "7min", "700_000_000_001"]);
                format!("timer_set({name}[{key}], now_ns() + {after})")
            }
        };
        Some(Expr::new(text, Ty::Bool))
    }

    /// Whether a key is in a set.
    fn member(&mut self, depth: u32) -> Expr {
        let Some((name, table)) = self.pick_table(|_, table| table.kind == Kind::Set) else { return self.leaf() };
        let key = self.key(table.key, table.kind, depth.min(1));
        Expr::new(format!("{name}[{key}]"), Ty::Bool)
    }

    /// A pointer, or a look-up, compared with null; or a value behind a pointer where it is not null.
    fn pointer_test(&mut self) -> Expr {
        let op = *self.n.pick(&["==", "!="]);
        if self.scope.pointers.is_empty() || self.n.chance(30) {
            let (lookup, to) = self.lookup();
            if to == Value::Scalar(Ty::Bool) {
                // The checker takes an entry of `array<bool>` for its value here.
                return self.leaf();
            }
            return Expr::new(format!("({lookup} {op} null)"), Ty::Bool);
        }
        let pointer = self.n.pick(&self.scope.pointers).clone();
        let name = &pointer.name;
        match (self.n.below(3), pointer.to) {
            (0, Value::Scalar(Ty::Bool)) => Expr::new(format!("({name} == null ? true : *{name})"), Ty::Bool),
            (0, Value::Scalar(ty)) => {
                let other = literal(self.n, ty.promoted());
                let made = Expr::new(format!("*{name}"), ty).with_literal(":", &other, false);
                Expr { text: format!("({name} != null ? {}", &made.text[1..]), ..made }
            }
            (1, Value::Scalar(_)) => Expr::new(format!("({name} != null && *{name})"), Ty::Bool),
            (1, Value::Struct(index)) => {
                let field = self.field_of(&format!("{name}->"), index).text;
                Expr::new(format!("({name} == null || {field})"), Ty::Bool)
            }
            _ => Expr::new(format!("({name} {op} null)"), Ty::Bool),
        }
    }

    /// A look-up and what it points to; a null pointer where there is no entry.
    pub fn lookup(&mut self) -> (String, Value) {
        let found = self.pick_table(|_, table| table.kind != Kind::Set);
        let (name, table) = found.expect("the first module has such a table");
        let key = self.key(table.key, table.kind, 1);
        (format!("{name}[{key}]"), table.value)
    }

    /// A key: mostly from a small range, so that entries are found.
    pub fn key(&mut self, ty: Value, kind: Kind, depth: u32) -> String {
        match ty {
            Value::Struct(index) => {
                let fields = &self.world.structs[index];
                let parts: Vec<String> = fields
                    .named()
                    .map(|(name, ty)| format!("{name}: {}", self.key(Value::Scalar(*ty), kind, 0)))
                    .collect();
                format!("{} {{ {} }}", fields.name, parts.join(", "))
            }
            Value::Scalar(ty) if ty == Ty::Bool || self.n.chance(15) => self.scalar(ty, depth),
            Value::Scalar(ty) => {
                let small = self.number(depth);
                let mask = self.n.pick(&[1, 3, 7, 15]);
                match kind {
                    Kind::Lpm => format!("(({}) (((u32) {}) & 0x{mask}0f | 10.0.0.0))", ty.name(), small.text),
                    _ => format!("(({}) ({} & {mask}))", ty.name(), small.text),
                }
            }
        }
    }

    /// A field of the struct behind `base`, which ends with `.` or `->`.
    pub fn field_of(&mut self, base: &str, index: usize) -> Expr {
        let (name, ty) = self.n.pick(&self.world.structs[index].fields).clone();
        if let Some((array, _)) = name.split_once('[')
            && self.n.chance(70)
        {
            let element =
                if self.n.chance(20) { self.number(1).cast(unsigned(32)) } else { self.number(1).cast(unsigned(3)) };
            // A constant one is known to lie beyond the end.
            if !element.constant {
                self.world.note("an element found at run time");
                return Expr::new(format!("{base}{array}[{}]", element.text), ty);
            }
        }
        Expr::new(format!("{base}{name}"), ty)
    }

    /// A name, a field, an entry, a constant.
    fn leaf(&mut self) -> Expr {
        for _ in 0..4 {
            if let Some(found) = self.try_leaf() {
                return found;
            }
        }
        let ty = Ty::random(self.n);
        let literal = Expr { constant: true, ..Expr::new(literal(self.n, ty).text, ty) };
        if ty == Ty::Bool { literal } else { literal.cast(ty) }
    }

    fn try_leaf(&mut self) -> Option<Expr> {
        match self.n.below(13) {
            12 => Some(Expr::new("now_ns()", unsigned(64))),
            0..=2 if !self.scope.variables.is_empty() => {
                let variable = self.n.pick(&self.scope.variables).clone();
                Some(match variable.ty {
                    Value::Scalar(ty) => Expr::new(variable.name, ty),
                    Value::Struct(index) => self.field_of(&format!("{}.", variable.name), index),
                })
            }
            3..=5 if !self.scope.handles.is_empty() => {
                let handle = self.n.pick(&self.scope.handles).clone();
                let (name, ty) = self.n.pick(&self.world.protocols[handle.protocol].fields);
                Some(Expr::new(format!("{}->{name}", handle.name), *ty))
            }
            6 | 7 if !self.scope.handles.is_empty() => {
                let handle = self.n.pick(&self.scope.handles).clone();
                let ports = [("rx.port".to_string(), unsigned(8)), ("tx.port".to_string(), unsigned(8))];
                let all: Vec<_> = self.world.metadata.iter().chain(&ports).collect();
                let (name, ty) = *self.n.pick(&all);
                Some(Expr::new(format!("{}->metadata.{name}", handle.name), *ty))
            }
            8 if !self.scope.handles.is_empty() => {
                let handle = self.n.pick(&self.scope.handles);
                Some(Expr::new(format!("packet_length({})", handle.name), unsigned(32)))
            }
            9 => {
                let (name, ty, _) = self.n.pick(&self.world.consts);
                Some(Expr { constant: true, ..Expr::new(name, *ty) })
            }
            10 => {
                let tested: Vec<_> = self.scope.pointers.iter().filter(|p| p.tested).cloned().collect();
                let pointer = tested.get(self.n.below(tested.len()))?;
                Some(match pointer.to {
                    Value::Scalar(ty) => Expr::new(format!("*{}", pointer.name), ty),
                    Value::Struct(index) => self.field_of(&format!("{}->", pointer.name), index),
                })
            }
            11 => {
                let (entry, ty) = self.array_entry(0)?;
                Some(match ty {
                    Value::Scalar(ty) => Expr::new(entry, ty),
                    Value::Struct(index) => self.field_of(&format!("{entry}."), index),
                })
            }
            _ => None,
        }
    }

    /// An entry of an array, whose index may be out of range.
    pub fn array_entry(&mut self, depth: u32) -> Option<(String, Value)> {
        if self.fuel < -20 || self.locked {
            return None;
        }
        let (name, table) = self.pick_table(|_, table| table.kind == Kind::Array)?;
        let index = if self.n.chance(50) {
            self.n.below(table.capacity as usize + 2).to_string()
        } else {
            self.fuel -= 5;
            self.key(table.key, Kind::Array, depth)
        };
        Some((format!("{name}[{index}]"), table.value))
    }

    /// A value of a struct type.
    pub fn structure(&mut self, index: usize, depth: u32) -> String {
        let ty = Value::Struct(index);
        let mut known: Vec<String> =
            self.scope.variables.iter().filter(|v| v.ty == ty).map(|v| v.name.clone()).collect();
        known.extend(self.scope.pointers.iter().filter(|p| p.tested && p.to == ty).map(|p| format!("*{}", p.name)));
        if let Some((entry, _)) = self.array_entry(0).filter(|(_, found)| *found == ty) {
            known.push(entry);
        }
        if !known.is_empty() && self.n.chance(60) {
            let one = self.n.pick(&known).clone();
            if self.n.chance(75) {
                return one;
            }
            let other = self.n.pick(&known).clone();
            return format!("({} ? {one} : {other})", self.condition(depth.min(1)));
        }
        let world = self.world;
        let fields = world.structs[index].named();
        let parts: Vec<String> =
            fields.map(|(name, ty)| format!("{name}: {}", self.scalar(*ty, depth.min(1)))).collect();
        format!("{} {{ {} }}", world.structs[index].name, parts.join(", "))
    }
}

/// Two numbers with an operator between them, the second cast where their signs do not mix.
fn join(a: &Expr, op: &str, b: Expr) -> Expr {
    a.with(op, &b).unwrap_or_else(|| {
        let to = Ty::Int { width: b.ty.width(), signed: a.ty.is_signed() };
        a.with(op, &b.cast(to)).expect("two numbers of one sign")
    })
}
