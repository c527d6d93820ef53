//! The shape of trees, the parts that the typed views give, and the places they name.

mod syntax_support;

use baker::source::{FileId, Sources};
use baker::syntax::ast::*;
use baker::syntax::{Parse, SyntaxNode, parse};
use syntax_support::{SLIDE, TOUR};

const FILE: FileId = FileId(0);

/// Parses a right program.
fn right(text: &str) -> Parse {
    let parse = parse(FILE, text);
    assert_eq!(parse.errors(), [], "{text}");
    parse
}

/// The first node of a type.
fn first<N: AstNode>(parse: &Parse) -> N {
    parse.syntax().descendants().find_map(N::cast).expect("such a node")
}

/// The body of a function around these statements.
fn stmts(text: &str) -> Vec<Stmt> {
    let parse = right(&format!("void f() {{ {text} }}"));
    first::<Block>(&parse).stmts().collect()
}

fn snapshot(name: &str, tree: &str) {
    insta::with_settings!({ snapshot_path => "syntax_trees", prepend_module_to_snapshot => false, omit_expression => true }, {
        insta::assert_snapshot!(name, tree);
    });
}

#[test]
fn tree_of_the_slide() {
    snapshot("slide", &format!("{:#?}", right(SLIDE).syntax()));
}

/// The tree without blanks and places: a node's kind, then its tokens, then its nodes one level deeper.
fn outline(node: &SyntaxNode, level: usize, out: &mut String) {
    let tokens = node.children_with_tokens().filter_map(|e| e.into_token()).filter(|t| !t.kind().is_trivia());
    let tokens: Vec<String> = tokens.map(|t| format!(" {}", t.text())).collect();
    *out += &format!("{}{:?}{}\n", "  ".repeat(level), node.kind(), tokens.concat());
    node.children().for_each(|child| outline(&child, level + 1, out));
}

#[test]
fn tree_of_the_tour() {
    let mut tree = String::new();
    outline(&right(TOUR).syntax(), 0, &mut tree);
    snapshot("tour", &tree);
}

/// An expression with every operator's operands in parentheses.
fn grouped(expr: &Expr) -> String {
    let part = |e: Option<Expr>| grouped(&e.expect("a complete expression"));
    match expr {
        Expr::Literal(e) => e.text(),
        Expr::Name(e) => e.name().expect("a name").text().to_owned(),
        Expr::Paren(e) => part(e.inner()),
        Expr::Unary(e) => format!("({:?} {})", e.op().expect("an operator"), part(e.operand())),
        Expr::Binary(e) => format!("({} {:?} {})", part(e.lhs()), e.op().expect("an operator"), part(e.rhs())),
        Expr::Ternary(e) => {
            format!("({} ? {} : {})", part(e.condition()), part(e.then_value()), part(e.else_value()))
        }
        Expr::Cast(e) => {
            let ty = e.ty().and_then(|t| t.name()).expect("a type");
            format!("(as {} {})", ty.text(), part(e.operand()))
        }
        Expr::Member(e) => {
            let sign = if e.is_arrow() { "->" } else { "." };
            format!("({}{sign}{})", part(e.base()), e.field().expect("a field").text())
        }
        Expr::Index(e) => format!("({}[{}])", part(e.base()), part(e.index())),
        Expr::Call(e) => {
            let args: Vec<String> = e.args().map(|a| grouped(&a)).collect();
            format!("({}({}))", part(e.callee()), args.join(", "))
        }
        Expr::StructValue(e) => {
            let field = |f: StructValueField| format!("{}: {}", f.name().expect("a name").text(), part(f.value()));
            let fields: Vec<String> = e.fields().map(field).collect();
            format!("{}{{{}}}", e.name().expect("a name").text(), fields.join(", "))
        }
    }
}

#[test]
fn operators_group_as_in_c() {
    for (text, expected) in [
        ("a + b + c", "((a Add b) Add c)"),
        ("a - b * c % d", "(a Sub ((b Mul c) Rem d))"),
        ("a || b && c | d ^ e & f", "(a Or (b And (c BitOr (d BitXor (e BitAnd f)))))"),
        ("a & b == c < d << e + f", "(a BitAnd (b Eq (c Lt (d Shl (e Add f)))))"),
        (
            "a + b << c < d == e & f ^ g | h && i || j",
            "(((((((((a Add b) Shl c) Lt d) Eq e) BitAnd f) BitXor g) BitOr h) And i) Or j)",
        ),
        ("a ? b : c ? d : e", "(a ? b : (c ? d : e))"),
        ("a ? b ? c : d : e", "(a ? (b ? c : d) : e)"),
        ("a || b ? c : d || e", "((a Or b) ? c : (d Or e))"),
        ("-a * !b", "((Neg a) Mul (Not b))"),
        ("- - ~a", "(Neg (Neg (BitNot a)))"),
        ("*p->x", "(Deref (p->x))"),
        ("p->metadata.rx.port[1](x, y)", "(((((p->metadata).rx).port)[1])(x, y))"),
        ("(u8) a + b", "((as u8 a) Add b)"),
        ("(u8) -a", "(as u8 (Neg a))"),
        ("(u8) (u16) a", "(as u8 (as u16 a))"),
        ("(t) a", "(as t a)"),
        ("(t)(a)", "(as t a)"),
        ("(t) 1", "(as t 1)"),
        ("(a) - b", "(a Sub b)"),
        ("(a) * b", "(a Mul b)"),
        ("(u8) * b", "(as u8 (Deref b))"),
        ("(u129) - b", "(u129 Sub b)"),
        ("(a)[b]", "(a[b])"),
        ("s { }", "s{}"),
        ("s { a: 1, type: b + 2, }", "s{a: 1, type: (b Add 2)}"),
        ("module + in->if", "(module Add (in->if))"),
    ] {
        let parse = right(&format!("const u32 X = {text};"));
        assert_eq!(grouped(&first::<Const>(&parse).value().expect("a value")), expected, "{text}");
    }
}

#[test]
fn literals_have_values() {
    for (text, expected) in [
        ("1_000", LiteralValue::Int(1000)),
        ("0xffff_ffff_ffff_ffff_ffff_ffff_ffff_ffff", LiteralValue::Int(u128::MAX)),
        ("0b101", LiteralValue::Int(5)),
        ("fe:00:00:00:00:01", LiteralValue::Mac(0xfe00_0000_0001)),
        ("00:00:00:00:00:0F", LiteralValue::Mac(15)),
        ("192.168.0.1", LiteralValue::Ipv4(0xc0a8_0001)),
        ("2001:db8::1", LiteralValue::Ipv6(0x2001_0db8 << 96 | 1)),
        ("::ffff:10.0.0.1", LiteralValue::Ipv6(0xffff_0a00_0001)),
        ("true", LiteralValue::Bool(true)),
        ("false", LiteralValue::Bool(false)),
        ("null", LiteralValue::Null),
    ] {
        let parse = right(&format!("const u32 X = {text};"));
        assert_eq!(first::<Literal>(&parse).value(), Ok(expected));
    }
    let parse = parse(FILE, "const u32 X = 10.0.0.256;");
    assert_eq!(first::<Literal>(&parse).value(), Err(LiteralError::Ipv4Part));
    assert_eq!(parse.errors().len(), 1);
}

#[test]
fn statements_are_told_apart() {
    let kind = |s: &Stmt| format!("{s:?}").split('(').next().map(str::to_owned);
    for (text, expected) in [
        ("a b;", "Let"),
        ("a *b = 1;", "Let"),
        ("type type = 1;", "Let"),
        ("a = 1;", "Assign"),
        ("a <<= 1;", "Assign"),
        ("*a = 1;", "Assign"),
        ("a++;", "IncDec"),
        ("a(b);", "Expr"),
        ("a.b * c;", "Expr"),
        ("{ }", "Block"),
        (";", "Empty"),
        ("return;", "Return"),
        ("return\n 1;", "Return"),
        ("break;", "Break"),
        ("continue;", "Continue"),
        ("if (a) ;", "If"),
        ("for (;;) ;", "For"),
    ] {
        let stmts = stmts(text);
        assert_eq!(stmts.len(), 1, "{text}");
        assert_eq!(kind(&stmts[0]).as_deref(), Some(expected), "{text}");
    }
    let [Stmt::Assign(shift), Stmt::IncDec(down)] = &stmts("a <<= b + 1; c--;")[..] else { panic!("two statements") };
    assert_eq!(shift.op(), Some(AssignOp::Update(BinaryOp::Shl)));
    assert_eq!(shift.target().map(|e| grouped(&e)).as_deref(), Some("a"));
    assert_eq!(shift.value().map(|e| grouped(&e)).as_deref(), Some("(b Add 1)"));
    assert_eq!(down.op(), Some(IncDecOp::Decrement));
}

#[test]
fn an_else_belongs_to_the_nearest_if() {
    let [Stmt::If(outer)] = &stmts("if (a) if (b) x(); else y();")[..] else { panic!("one statement") };
    assert!(outer.else_branch().is_none());
    let Some(Stmt::If(inner)) = outer.then_branch() else { panic!("an inner `if`") };
    assert!(matches!(inner.else_branch(), Some(Stmt::Expr(_))));
}

#[test]
fn parts_of_for() {
    let [Stmt::For(all), Stmt::For(none)] = &stmts("for (u8 i = 0; i < 4; i++) f(i); for (;;) { }")[..] else {
        panic!("two statements")
    };
    assert!(matches!(all.init(), Some(Stmt::Let(_))));
    assert_eq!(all.condition().map(|e| grouped(&e)).as_deref(), Some("(i Lt 4)"));
    assert!(matches!(all.step(), Some(Stmt::IncDec(_))));
    assert!(matches!(all.body(), Some(Stmt::Expr(_))));
    assert!(none.init().is_none() && none.condition().is_none() && none.step().is_none());
    assert!(matches!(none.body(), Some(Stmt::Block(_))));
}

/// The text of each name, joined by blanks.
fn texts(names: impl Iterator<Item = Name>) -> String {
    names.map(|n| n.text().to_owned()).collect::<Vec<_>>().join(" ")
}

#[test]
fn parts_of_modules() {
    let parse = right(TOUR);
    let module = first::<Module>(&parse);
    assert_eq!(module.name().expect("a name").text(), "m");
    let mut ports = Vec::new();
    let mut tables = Vec::new();
    let mut ppfs = Vec::new();
    for item in module.items() {
        match item {
            ModuleItem::Port(p) => {
                let protocol = p.protocol().expect("a protocol");
                ports.push((p.kind().expect("a kind"), protocol.text().to_owned(), texts(p.names())));
            }
            ModuleItem::Table(t) => {
                let types = texts(t.types().filter_map(|t| t.name()));
                tables.push((t.kind().expect("a kind").text().to_owned(), types, texts(t.name().into_iter())));
            }
            ModuleItem::Ppf(p) => {
                let param = p.param().expect("a parameter");
                assert!(param.star().is_some());
                ppfs.push((texts(p.name().into_iter()), texts(p.from().into_iter()), p.body().is_some()));
            }
            _ => {}
        }
    }
    let own = |s: &str| s.to_owned();
    assert_eq!(
        ports,
        [
            (PortKind::In, own("ether"), own("input")),
            (PortKind::Out, own("ipv4"), own("a b")),
            (PortKind::Channel, own("ipv4"), own("inner"))
        ]
    );
    assert_eq!(
        tables,
        [
            (own("array"), own("mac_addr_t"), own("macs")),
            (own("hash"), own("u32 next_hop_t"), own("flows")),
            (own("lpm"), own("u32 u32"), own("fib"))
        ]
    );
    assert_eq!(ppfs, [(own("route"), own("input"), false), (own("next"), own("inner"), true)]);
}

#[test]
fn parts_of_other_items() {
    let parse = right(TOUR);
    let count = |pick: fn(&Item) -> bool| parse.tree().items().filter(pick).count();
    assert_eq!(count(|i| matches!(i, Item::Enum(_))), 2);
    assert_eq!(count(|i| matches!(i, Item::Function(_))), 3);
    assert_eq!(count(|i| matches!(i, Item::OutOfBody(_))), 3);
    assert_eq!(first::<Import>(&parse).path().as_deref(), Some("net/ether"));

    let protocol = first::<Protocol>(&parse);
    let fields: Vec<Field> = protocol.fields().collect();
    assert_eq!(texts(fields.iter().filter_map(|f| f.name())), "ver ihl protocol if length csum");
    assert_eq!(fields[0].width().map(|e| grouped(&e)).as_deref(), Some("4"));
    assert_eq!(fields[0].value().map(|e| grouped(&e)).as_deref(), Some("4"));
    assert!(fields[0].covers().is_none() && fields[2].value().is_none());
    assert!(matches!(fields[3].width(), Some(Expr::Name(_))), "a type is a name for the checker to tell");
    assert!(matches!(fields[5].width(), Some(Expr::Paren(_))), "not a cast of `covers {{…}}`");
    assert_eq!(texts(fields[5].covers().expect("covers").names()), "ver ihl protocol");
    assert_eq!(protocol.demuxes().filter_map(|d| d.size()).map(|e| grouped(&e)).collect::<String>(), "(ihl Shl 2)");

    let out_of_body: Vec<OutOfBody> = parse.syntax().descendants().filter_map(OutOfBody::cast).collect();
    let paths: Vec<String> = out_of_body.iter().map(|o| texts(o.path().expect("a path").segments())).collect();
    assert_eq!(paths, ["m route", "m other", "m third"]);
    assert_eq!(out_of_body.iter().map(OutOfBody::has_ppf).collect::<Vec<_>>(), [true, false, true]);
    assert_eq!(out_of_body.iter().map(|o| o.ty().is_some()).collect::<Vec<_>>(), [false, true, true]);
    assert!(out_of_body[2].star().is_some());

    let wires: Vec<Wire> = first::<Program>(&parse).wires().collect();
    let end = |e: Option<WireEnd>| texts(e.expect("an end").segments());
    assert_eq!(
        wires.iter().map(|w| (end(w.from()), end(w.to()))).collect::<Vec<_>>(),
        [
            ("rx".to_owned(), "m input".to_owned()),
            ("m a".to_owned(), "tx".to_owned()),
            ("m b".to_owned(), "host".to_owned())
        ]
    );
}

#[test]
fn spans_hold_no_blanks_or_comments() {
    let text = "  // first\n  const /* a */ u32 /* b */ X /* c */ = /* d */ a /* e */ + f ( 1 /* g */ ) /* h */ ; // i\n\n\
                void f ( ) /* j */ { /* k */ if /* l */ ( x ) /* m */ y = 2 /* n */ ; /* o */ } // p\n";
    let mut sources = Sources::default();
    let file = sources.add("test.baker", text);
    let parse = parse(file, text);
    assert_eq!(parse.errors(), []);
    let constant = first::<Const>(&parse);
    let shown = |span| sources.text(span);
    assert_eq!(shown(constant.ty().expect("a type").span(file)), "u32");
    assert_eq!(shown(constant.name().expect("a name").span(file)), "X");
    assert_eq!(shown(constant.value().expect("a value").span(file)), "a /* e */ + f ( 1 /* g */ )");
    assert_eq!(shown(first::<CallExpr>(&parse).arg_list().expect("arguments").span(file)), "( 1 /* g */ )");
    assert_eq!(shown(first::<AssignStmt>(&parse).span(file)), "y = 2 /* n */ ;");
    assert_eq!(shown(first::<IfStmt>(&parse).condition().expect("a condition").span(file)), "x");
    assert_eq!(shown(first::<BinaryExpr>(&parse).op_token().map(|t| token_span(&t, file)).expect("an operator")), "+");
    assert!(shown(parse.tree().span(file)).starts_with("const") && shown(parse.tree().span(file)).ends_with("o */ }"));
    // And so for every node.
    for text in [text, SLIDE, TOUR] {
        let mut sources = Sources::default();
        let file = sources.add("test.baker", text);
        for node in right(text).syntax().descendants() {
            let span = node_span(&node, file);
            let first = node.descendants_with_tokens().filter_map(|e| e.into_token()).find(|t| !t.kind().is_trivia());
            assert_eq!(first.map(|t| token_span(&t, file).start), Some(span.start), "{node:?}");
            assert_eq!(sources.text(span).trim(), sources.text(span), "{node:?}");
        }
    }
}
