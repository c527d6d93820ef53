//! The kernel's part as BPF code, in an explanation: instructions by program and by PPF, and stack.

use std::collections::{BTreeMap, BTreeSet};

use baker::source::Span;
use cli::report::table;
use codegen::kernel::{Location, Object};
use dataplane::xdp::KernelAnswer;
use serde_json::{Value, json};

use super::view::View;

/// Code in front of the first PPF, or of a part: it reads the packet's pointers and hands packets over.
const FRONT: &str = "(entry)";

impl View<'_> {
    /// The programs that the kernel gets, by the PPF that each begins with.
    fn programs(&self) -> Vec<(&str, &Object)> {
        let Some(accepted) = self.kernel else { return Vec::new() };
        let parts = accepted.parts.iter().map(|(ppf, object)| (self.ppf(*ppf), object));
        std::iter::once(("rx", &accepted.first)).chain(parts).collect()
    }

    /// Instructions by PPF. Where PPFs have the same source (instances of one module), they are counted together.
    fn by_ppf(&self) -> BTreeMap<String, usize> {
        let mut owners: BTreeMap<(u32, u32, u32), BTreeSet<&str>> = BTreeMap::new();
        let key = |span: Span| (span.file.0, span.start, span.end);
        for ppf in &self.program.ppfs {
            for span in
                ppf.body.blocks.iter().flat_map(|block| &block.insts).filter_map(|inst| inst.span).chain(ppf.span)
            {
                owners.entry(key(span)).or_default().insert(&ppf.name);
            }
        }
        let name = |location: &Location| match location.span.and_then(|span| owners.get(&key(span))) {
            Some(names) if names.contains(location.ppf.as_str()) => location.ppf.clone(),
            Some(names) => names.iter().copied().collect::<Vec<_>>().join(", "),
            None if self.program.ppfs.iter().any(|ppf| ppf.name == location.ppf) => location.ppf.clone(),
            None => FRONT.to_owned(),
        };
        let mut counts = BTreeMap::new();
        for (location, count) in self.programs().into_iter().flat_map(|(_, object)| object.runs()) {
            *counts.entry(name(location)).or_default() += count;
        }
        counts
    }

    /// What the kernel says of the code: for people.
    pub(super) fn answer_text(&self) -> String {
        match self.answer {
            _ if self.kernel.is_none() => String::new(),
            KernelAnswer::Accepted => "the kernel takes it\n".into(),
            KernelAnswer::NotTried(why) => format!(
                "the kernel was not asked: {why}. A PPF that is too much for it runs on workers, and `millrace run` says so\n"
            ),
            KernelAnswer::Refused(why) => {
                format!("the kernel does not take it, so `millrace run` leaves all of it to workers: {why}\n")
            }
        }
    }

    /// The same as JSON: null where the kernel has nothing of the program.
    pub(super) fn answer_json(&self) -> Value {
        match self.answer {
            _ if self.kernel.is_none() => Value::Null,
            KernelAnswer::Accepted => json!({"asked": true, "takes": true}),
            KernelAnswer::NotTried(why) => json!({"asked": false, "takes": null, "why": why.to_string()}),
            KernelAnswer::Refused(why) => json!({"asked": true, "takes": false, "why": why.to_string()}),
        }
    }

    /// For people.
    pub(super) fn kernel_text(&self, out: &mut String) {
        let Some(accepted) = self.kernel else { return };
        *out += &format!("\nBPF code: {}\n", accepted.tier.text());
        let (mut rows, mut all) = (Vec::new(), 0);
        for (name, object) in self.programs() {
            rows.push(vec![name.to_owned(), object.instructions().to_string(), object.stack.to_string()]);
            all += object.instructions();
        }
        if rows.len() > 1 {
            rows.push(vec!["all".into(), all.to_string(), String::new()]);
        }
        table(out, &["program from", "instructions", "stack bytes"], rows);
        out.push('\n');
        let rows = self.by_ppf().into_iter().map(|(ppf, count)| vec![ppf, count.to_string()]);
        table(out, &["code of", "instructions"], rows.collect());
    }

    /// As JSON.
    pub(super) fn kernel_json(&self) -> Value {
        let Some(accepted) = self.kernel else { return Value::Null };
        let program = |(name, object): (&str, &Object)| json!({"from": name, "instructions": object.instructions(), "stack": object.stack});
        let programs: Vec<_> = self.programs().into_iter().map(program).collect();
        let all: usize = self.programs().iter().map(|(_, object)| object.instructions()).sum();
        let ppfs = self.by_ppf().into_iter().map(|(ppf, count)| json!({"ppf": ppf, "instructions": count}));
        json!({
            "tier": accepted.tier.name(), "instructions": all, "programs": programs, "ppfs": ppfs.collect::<Vec<_>>(),
        })
    }
}
