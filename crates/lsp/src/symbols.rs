//! The outline of a document.

use baker::syntax::SyntaxNode;
use baker::syntax::ast::{self, AstNode, Item, ModuleItem};
use lsp_types::{DocumentSymbol, SymbolKind};

use crate::position::LineIndex;

/// All declarations of a document with those within them, in their order.
pub fn symbols(tree: &ast::SourceFile, index: &LineIndex) -> Vec<DocumentSymbol> {
    let outline = Outline { index };
    tree.items().filter_map(|item| outline.item(&item)).collect()
}

struct Outline<'a> {
    index: &'a LineIndex<'a>,
}

impl Outline<'_> {
    fn item(&self, item: &Item) -> Option<DocumentSymbol> {
        let node = item.syntax();
        match item {
            Item::Const(item) => self.symbol(item.name(), SymbolKind::CONSTANT, node, Vec::new()),
            Item::Alias(item) => self.symbol(item.name(), SymbolKind::CLASS, node, Vec::new()),
            Item::Enum(item) => self.enumeration(item),
            Item::Struct(item) => self.structure(item),
            Item::Protocol(item) => {
                let fields =
                    item.fields().filter_map(|f| self.symbol(f.name(), SymbolKind::FIELD, f.syntax(), Vec::new()));
                self.symbol(item.name(), SymbolKind::INTERFACE, node, fields.collect())
            }
            Item::Metadata(item) => {
                let fields =
                    item.fields().filter_map(|f| self.symbol(f.name(), SymbolKind::FIELD, f.syntax(), Vec::new()));
                self.named("metadata", SymbolKind::OBJECT, node, node, fields.collect())
            }
            Item::Reasons(item) => self.reasons(item),
            Item::Module(item) => {
                let children = item.items().flat_map(|item| self.module_item(&item));
                self.symbol(item.name(), SymbolKind::MODULE, node, children.collect())
            }
            Item::Function(item) => self.symbol(item.name(), SymbolKind::FUNCTION, node, Vec::new()),
            Item::OutOfBody(item) => {
                let path = item.path()?;
                let name = path.segments().map(|n| n.text().to_string()).collect::<Vec<_>>().join(".");
                self.named(&name, SymbolKind::FUNCTION, node, path.syntax(), Vec::new())
            }
            Item::Program(item) => {
                let instances = item.instances().flat_map(|item| {
                    item.names()
                        .filter_map(move |name| self.symbol(Some(name), SymbolKind::MODULE, item.syntax(), Vec::new()))
                });
                let instances = instances.collect();
                self.named("program", SymbolKind::OBJECT, node, node, instances)
            }
            Item::Import(_) => None,
        }
    }

    fn module_item(&self, item: &ModuleItem) -> Vec<DocumentSymbol> {
        let node = item.syntax();
        let one = |name, kind| self.symbol(name, kind, node, Vec::new()).into_iter().collect();
        match item {
            ModuleItem::Port(item) => {
                item.names().filter_map(|name| self.symbol(Some(name), SymbolKind::EVENT, node, Vec::new())).collect()
            }
            ModuleItem::Table(item) => one(item.name(), SymbolKind::ARRAY),
            ModuleItem::Counter(item) => one(item.name(), SymbolKind::NUMBER),
            ModuleItem::Queue(item) => one(item.name(), SymbolKind::ARRAY),
            ModuleItem::Meter(item) => one(item.name(), SymbolKind::NUMBER),
            ModuleItem::Ppf(item) => one(item.name(), SymbolKind::FUNCTION),
            ModuleItem::Extern(item) => one(item.name(), SymbolKind::FUNCTION),
            ModuleItem::Timer(item) => one(item.name(), SymbolKind::FUNCTION),
            ModuleItem::Const(item) => one(item.name(), SymbolKind::CONSTANT),
            ModuleItem::Alias(item) => one(item.name(), SymbolKind::CLASS),
            ModuleItem::Enum(item) => self.enumeration(item).into_iter().collect(),
            ModuleItem::Struct(item) => self.structure(item).into_iter().collect(),
            ModuleItem::Reasons(item) => self.reasons(item).into_iter().collect(),
            ModuleItem::Function(item) => one(item.name(), SymbolKind::FUNCTION),
        }
    }

    fn enumeration(&self, item: &ast::Enum) -> Option<DocumentSymbol> {
        let values =
            item.enumerators().filter_map(|e| self.symbol(e.name(), SymbolKind::ENUM_MEMBER, e.syntax(), Vec::new()));
        self.symbol(item.name(), SymbolKind::ENUM, item.syntax(), values.collect())
    }

    fn structure(&self, item: &ast::Struct) -> Option<DocumentSymbol> {
        let fields = item.fields().filter_map(|f| self.symbol(f.name(), SymbolKind::FIELD, f.syntax(), Vec::new()));
        self.symbol(item.name(), SymbolKind::STRUCT, item.syntax(), fields.collect())
    }

    fn reasons(&self, item: &ast::Reasons) -> Option<DocumentSymbol> {
        let names = item.names().filter_map(|n| {
            let node = item.syntax();
            self.symbol(Some(n), SymbolKind::EVENT, node, Vec::new())
        });
        self.named("drop_reason", SymbolKind::OBJECT, item.syntax(), item.syntax(), names.collect())
    }

    fn symbol(
        &self,
        name: Option<ast::Name>,
        kind: SymbolKind,
        node: &SyntaxNode,
        children: Vec<DocumentSymbol>,
    ) -> Option<DocumentSymbol> {
        let name = name?;
        let range = name.syntax().text_range();
        let mut symbol = self.named(name.text(), kind, node, node, children)?;
        symbol.selection_range = self.index.range(range.start().into(), range.end().into());
        Some(symbol)
    }

    #[expect(deprecated, reason = "the field `deprecated` must be given")]
    fn named(
        &self,
        name: &str,
        kind: SymbolKind,
        node: &SyntaxNode,
        selected: &SyntaxNode,
        children: Vec<DocumentSymbol>,
    ) -> Option<DocumentSymbol> {
        // Editors refuse symbols without a name, such as that of a half-typed path.
        let range =
            |node: &SyntaxNode| self.index.range(node.text_range().start().into(), node.text_range().end().into());
        (!name.is_empty()).then(|| DocumentSymbol {
            name: name.to_string(),
            detail: None,
            kind,
            tags: None,
            deprecated: None,
            range: range(node),
            selection_range: range(selected),
            children: Some(children),
        })
    }
}
