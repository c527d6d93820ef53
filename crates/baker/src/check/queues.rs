//! Queues: lines in which packets wait for their time.

use super::access::Cell;
use super::code::CodeChecker;
use super::hir::{StmtKind, Type};
use super::names::{Checker, ModuleId, Symbol};
use super::types::unsigned;
use crate::diag::Diagnostic;
use crate::ir::{MetaId, Queue, QueueDrops, QueueId};
use crate::source::FileId;
use crate::syntax::ast;

/// Lines of one declaration at most, and packets in one.
const MAX_LINES: u32 = 1 << 20;
const MAX_DEPTH: u32 = 1 << 16;
/// Packets in all lines of one declaration at most.
const MAX_PACKETS: u32 = 1 << 24;

/// Packets in a line at most where each that finds it full looks for the lowest.
const MAX_SEARCHED: u32 = 256;

impl Checker<'_> {
    pub(super) fn queue(&mut self, file: FileId, module: ModuleId, item: &ast::Queue) {
        let Some(name) = item.name() else { return };
        let scope = Some(module);
        let lines = match item.size() {
            Some(size) => self.size(file, scope, &size, "the size of a queue", (1, MAX_LINES)).unwrap_or(1),
            None => 1,
        };
        let Some(of) = item.depth() else { return };
        let depth = self.size(file, scope, &of, "what a queue holds", (1, MAX_DEPTH)).unwrap_or(1);
        if lines.saturating_mul(depth) > MAX_PACKETS {
            let error = Diagnostic::new("queue-size", self.span(file, &of), "this queue holds too many packets");
            self.error(error.label(format!("{lines} times {depth}, and {MAX_PACKETS} is the most")));
        }
        let Some(drops) = self.queue_drops(file, item, depth) else { return };
        let full = self.reason_of_language(Queue::FULL);
        let id = QueueId(self.hir.queues.len() as u32);
        self.hir.queues.push(Queue {
            name: self.full_name(module, name.text()),
            lines,
            depth,
            drops,
            full,
            span: Some(name.span(file)),
        });
        self.bind(file, scope, &name, Symbol::Queue(id));
    }

    /// Which packet is dropped where a line of so many packets is full.
    fn queue_drops(&mut self, file: FileId, item: &ast::Queue, depth: u32) -> Option<QueueDrops> {
        let Some(drops) = item.drops() else { return Some(QueueDrops::Newest) };
        let error = |span, title: String| Diagnostic::new("queue-drops", span, title);
        let by = item.drops_by();
        let wrong = match (drops.text(), &by) {
            ("newest", None) => return Some(QueueDrops::Newest),
            ("oldest", None) => return Some(QueueDrops::Oldest),
            ("lowest", Some(by)) => {
                let Some(field) = self.hir.metadata.iter().position(|field| field.name == by.text()) else {
                    let title = format!("there is no metadata `{}`", by.text());
                    let known: Vec<&str> = self.hir.metadata.iter().map(|field| field.name.as_str()).collect();
                    let hint = format!("the metadata is {}", known.join(", "));
                    let error = Diagnostic::new("unknown-metadata", by.span(file), title);
                    self.error(error.label("not declared").hint(hint));
                    return None;
                };
                if depth <= MAX_SEARCHED {
                    return Some(QueueDrops::Lowest(MetaId(field as u32)));
                }
                let title = format!("a line in which the lowest is looked for holds {MAX_SEARCHED} packets at most");
                error(drops.span(file), title).label(format!("holds {depth}"))
            }
            ("lowest", None) => error(drops.span(file), "`lowest` needs metadata to go by".into())
                .label("by which metadata?")
                .hint("write `drop lowest NAME`, a name of the metadata"),
            ("newest" | "oldest", Some(by)) => {
                error(by.span(file), "only `lowest` goes by metadata".into()).label("not needed")
            }
            _ => error(drops.span(file), "a full queue drops `newest`, `oldest` or `lowest NAME`".into())
                .label("none of them"),
        };
        self.error(wrong);
        None
    }
}

impl CodeChecker<'_, '_> {
    /// `channel_put_at(channel, queue[i], packet, time)`
    pub(super) fn channel_put_at(&mut self, args: &[ast::Expr]) -> Option<StmtKind> {
        let put = self.channel_put(&[args[0].clone(), args[2].clone()]);
        let line = self.line(&args[1]);
        let at = self.expr(&args[3], None);
        let at = self.coerce(at, unsigned(64));
        let (StmtKind::Put(channel, packet), (queue, line), at) = (put?, line?, at?) else { return None };
        debug_assert!(matches!(packet.ty, Type::Packet(_)));
        Some(StmtKind::PutAt(channel, queue, packet, line, at))
    }

    /// A queue, or one of several.
    fn line(&mut self, expr: &ast::Expr) -> Option<(QueueId, super::hir::Expr)> {
        let Cell { base, index, span } = self.cell(expr)?;
        let Some(Symbol::Queue(queue)) = self.named(&base) else {
            let error = Diagnostic::new("not-a-queue", span, "a queue is needed here").label("not a queue");
            self.error(self.with_hidden(error, &base));
            return None;
        };
        let lines = self.checker.hir.queues[queue.0 as usize].lines;
        Some((queue, self.cell_index("queue", lines, index, span)?))
    }
}
