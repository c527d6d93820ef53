//! What the style is, rule by rule.

use crate::formatted;

/// Checks what becomes of a text.
#[track_caller]
fn becomes(text: &str, wanted: &str) {
    let wanted = wanted.strip_prefix('\n').unwrap_or(wanted);
    assert_eq!(formatted(text), wanted);
    assert_eq!(formatted(wanted), wanted);
}

/// The same of statements in a function.
#[track_caller]
fn statements(text: &str, wanted: &str) {
    let wanted: String =
        wanted.trim().lines().map(|line| format!("    {line}").trim_end().to_string() + "\n").collect();
    becomes(&format!("void f(){{\n{text}}}"), &format!("void f() {{\n{wanted}}}\n"));
}

#[test]
fn blanks() {
    statements("x=a+b*-c<<d&~e;", "x = a + b * -c << d & ~e;");
    statements("x=- -y;", "x = - -y;");
    statements("u32*p=t [ k ];", "u32 *p = t[k];");
    statements("* p+=1;", "*p += 1;");
    statements("x ++ ;", "x++;");
    statements("x=(u8)( y )->z . w;", "x = (u8) (y)->z.w;");
    statements("x=c?a:b;", "x = c ? a : b;");
    statements("x=s{a:1,b:2};", "x = s { a: 1, b: 2 };");
    statements("x=s{ };", "x = s { };");
    statements("return(x);", "return (x);");
    statements("for( ; ; ){f(a , b);}", "for (;;) { f(a, b); }");
    statements("for(u8 i=0;i<4;i++){f();}", "for (u8 i = 0; i < 4; i++) { f(); }");
    becomes(
        "protocol p{a:4=4;b:16 covers{header};demux{a<<2};};",
        "protocol p { a : 4 = 4; b : 16 covers { header }; demux { a << 2 }; };\n",
    );
    becomes("enum e:u8{A,B=2,}", "enum e : u8 { A, B = 2, }\n");
    becomes("m . p . ppf( ether_pkt_t * pkt ){}", "m.p.ppf(ether_pkt_t *pkt) { }\n");
    becomes("s*f (){return null;}", "s *f() { return null; }\n");
    becomes(
        "ppf_t f(){critical(p){*p=1;}critical (p)\n{x=1;\ny=2;}}",
        "ppf_t f() {\n    critical (p) { *p = 1; }\n    critical (p) {\n        x = 1;\n        y = 2;\n    }\n}\n",
    );
    becomes("program{rx->m.i;m.o->tx;}", "program { rx -> m.i; m.o -> tx; }\n");
    statements("const u8 A=1;x=::1+2001:db8::;", "const u8 A = 1;\nx = ::1 + 2001:db8::;");
    becomes(
        "module m( protocol  ip,const u8 A ,table t ){in ip i;}",
        "module m(protocol ip, const u8 A, table t) {\n    in ip i;\n}\n",
    );
    becomes("program{\nm ( ipv4,1+2 )a ,b;rx->a.i;}", "program {\n    m(ipv4, 1 + 2) a, b;\n    rx -> a.i;\n}\n");
    becomes("program{\nm a ,b;rx->a.i;}", "program {\n    m a, b;\n    rx -> a.i;\n}\n");
    becomes(
        "module m{hash < a , b >t [ 4 ] ;counter c[ 2 ];meter d [2]rate 1+1 burst 2 ;meter e;ppf p(a_pkt_t*x)from i;}",
        "
module m {
    hash<a, b> t[4];
    counter c[2];
    meter d[2] rate 1 + 1 burst 2;
    meter e;
    ppf p(a_pkt_t *x) from i;
}
",
    );
}

#[test]
fn switches() {
    statements(
        "switch(x){case 1 :case 2,3:f();break; case 4:{g();} default:return;}",
        "
switch (x) {
case 1:
case 2, 3:
    f();
    break;
case 4: { g(); }
default:
    return;
}
",
    );
    statements("switch (x) { }", "switch (x) { }");
    statements(
        "switch (x) { // a\n// b\ncase 1: // c\n{ f();\ng(); } // d\n\n// e\ncase 2:\n// f\n}",
        "
switch (x) {    // a
// b
case 1:     // c
    {
        f();
        g();
    }       // d

// e
case 2:
    // f
}
",
    );
}

#[test]
fn braces() {
    // What was on one line stays there; else each thing has a line.
    statements("if (x) { f(); return; }", "if (x) { f(); return; }");
    statements("if (x) { f();\nreturn; }", "if (x) {\n    f();\n    return;\n}");
    statements("if (x) { }", "if (x) { }");
    statements("if (x) {\n\n}", "if (x) { }");
    statements("if (x) { if (y) z(); }", "if (x) {\n    if (y)\n        z();\n}");
    // With `else`, a branch in braces has lines of its own.
    statements("if (x) { f(); } else { g(); }", "if (x) {\n    f();\n} else {\n    g();\n}");
    statements("if (x) f(); else if (y) g(); else h();", "if (x)\n    f();\nelse if (y)\n    g();\nelse\n    h();");
    statements("if (x) {\nf();\n}\nelse\n{\ng();\n}", "if (x) {\n    f();\n} else {\n    g();\n}");
    statements("if (x)\n\nf();", "if (x)\n    f();");
    statements("for (;;) for (;;) ;", "for (;;)\n    for (;;)\n        ;");
    statements("{ f(); }\n{\nf(); }", "{ f(); }\n{\n    f();\n}");
    becomes("module m { }", "module m { }\n");
    becomes("module m { counter c; }", "module m {\n    counter c;\n}\n");
    becomes("module m{queue q[ 4 ]of 8 drop lowest x ;}", "module m {\n    queue q[4] of 8 drop lowest x;\n}\n");
    becomes("struct s { a : u8 [ 4 ]; b:u16[N+1] ; }", "struct s { a : u8[4]; b : u16[N + 1]; }\n");
    statements("u32 a [ 8 ];a [ i ]=s->b [ 1 ];", "u32 a[8];\na[i] = s->b[1];");
    becomes("struct s { a : u8;\nb : u8; };", "struct s {\n    a : u8;\n    b : u8;\n};\n");
    becomes("enum e { A,\nB }", "enum e {\n    A,\n    B\n}\n");
    // What does not fit on a line never stays on one.
    let long = format!("f({}1);", "1234, ".repeat(17));
    statements(&format!("if (x) {{ {long} }}"), &format!("if (x) {{\n    {long}\n}}"));
}

#[test]
fn empty_lines() {
    becomes(
        "\n\n\nconst u8 A = 1;\n\n\n\nconst u8 B = 2;\nconst u8 C = 3;\n\n\n",
        "const u8 A = 1;\n\nconst u8 B = 2;\nconst u8 C = 3;\n",
    );
    becomes(
        "module m {\n\n\n    counter a;\n\n\n    counter b;\n\n}",
        "module m {\n    counter a;\n\n    counter b;\n}\n",
    );
    becomes(
        "module m {\n\n    // About a.\n\n    counter a;\n\n    // The end.\n\n}",
        "
module m {
    // About a.

    counter a;

    // The end.
}
",
    );
    becomes(" \n\t\n", "");
}

#[test]
fn ports_in_columns() {
    becomes(
        "module m { in a x; out longer y, z; channel much_longer c;\n\nin b w;\n}",
        "
module m {
    in  a      x;
    out longer y, z;
    channel much_longer c;

    in b w;
}
",
    );
    // A comment does not separate them.
    becomes(
        "module m { out a x;\n// why\nin abc y; // how\n}",
        "
module m {
    out a   x;
    // why
    in  abc y;      // how
}
",
    );
}

#[test]
fn comments_behind_lines() {
    becomes(
        "metadata {\na : u8; // one\nlonger_name : u8;// two\nb : u8;\nc : u8;     // three\n}",
        "
metadata {
    a : u8;                 // one
    longer_name : u8;       // two
    b : u8;
    c : u8;                 // three
}
",
    );
    // Two lines without a comment, an empty line or other indentation end a group.
    statements(
        "a(); // 1\nb();\nc();\nlong_one(); // 2\n\nlonger_one(); // 3\nif (x) // 4\ny(); // 5\n",
        "
a();    // 1
b();
c();
long_one();     // 2

longer_one();       // 3
if (x)              // 4
    y();    // 5
",
    );
    // Where a line would be too long, each stands for itself.
    let long = "x".repeat(95);
    statements(
        &format!("a(); // {long}\nthis_is_a_long_one(1, 2, 3, 4); // b\n"),
        &format!("a();    // {long}\nthis_is_a_long_one(1, 2, 3, 4);     // b"),
    );
}

#[test]
fn long_lines() {
    let [a, b, c] = ["a", "b", "c"].map(|n| n.repeat(50));
    // At the outermost place, as late as possible.
    statements(&format!("x = {a} && {b} * {c};"), &format!("x = {a}\n    && {b} * {c};"));
    statements(&format!("x = {a} + {b} + {c};"), &format!("x = {a} + {b}\n    + {c};"));
    statements(&format!("x = f({a}, {b}, {c});"), &format!("x = f({a}, {b},\n    {c});"));
    statements(&format!("x = {a}{b} * 2;"), &format!("x = {a}{b} * 2;"));
    statements(&format!("x = {a}{b}{c};"), &format!("x =\n    {a}{b}{c};"));
    // What goes on under a header is told from its body.
    statements(&format!("if ({a} || {b} || {c}) f();"), &format!("if ({a} || {b}\n        || {c})\n    f();"));
    becomes(
        &format!("void f(u8 {a}, u8 {b}, u8 {c}) {{ g(); }}"),
        &format!("void f(u8 {a}, u8 {b},\n        u8 {c}) {{\n    g();\n}}\n"),
    );
}

#[test]
fn places_where_the_writer_breaks_a_line() {
    statements("x = a\n&& b\n+ c;", "x = a\n    && b\n    + c;");
    statements("x = a &&\nb;", "x = a\n    && b;");
    statements("x =\na;", "x =\n    a;");
    statements("f(a,\nb);", "f(a,\n    b);");
    statements("f(\na,\nb +\nc\n);", "f(\n    a,\n    b\n        + c\n);");
    statements("x = s {\na: 1,\nb: g(\n2\n),\n};", "x = s {\n    a: 1,\n    b: g(\n        2\n    ),\n};");
    // Elsewhere a line is not broken.
    statements("x\n=\na\n[\nb\n]\n.\nc\n(\n)\n;", "x =\n    a[b].c();");
    statements("f(a\n,b\n);", "f(a, b);");
}

/// A comment in front of a statement counts for the length of its line.
#[test]
fn comments_in_front() {
    let condition =
        ["first_long_condition", "second_long_condition", "third_long_condition", "the_fourth_condition"].join(" || ");
    statements(
        &format!("{{ /* c */ if ({condition}) {{ f(); }} }}"),
        &format!("{{\n    /* c */ if ({condition}) {{\n        f();\n    }}\n}}"),
    );
}

#[test]
fn comments_in_odd_places() {
    statements(
        "/*1*/x/*2*/=/*3*/f/*4*/(/*5*/a/*6*/,/*7*/b/*8*/)/*9*/;/*10*/",
        "/*1*/ x /*2*/ = /*3*/ f /*4*/ (/*5*/ a /*6*/, /*7*/ b /*8*/) /*9*/;     /*10*/",
    );
    statements(
        "x // 1\n= // 2\nf // 3\n( // 4\na // 5\n, b) // 6\n; // 7\n",
        "
x                   // 1
    =               // 2
    f               // 3
    (               // 4
        a           // 5
            , b)    // 6
    ;               // 7
",
    );
    statements(
        "if // 1\n(x) // 2\n{ // 3\nf(); // 4\n} // 5\nelse // 6\n{ // 7\n} // 8\n",
        "
if              // 1
        (x)     // 2
        {       // 3
    f();    // 4
}               // 5
else            // 6
        {       // 7
}               // 8
",
    );
    statements(
        "if (x)\n// why\nf();\n// or\nelse\n// else\ng();\n// end\n",
        "
if (x)
    // why
    f();
// or
else
    // else
    g();
// end
",
    );
    statements("f(/* none */);", "f(/* none */);");
    statements("if (x) { /* nothing */ }", "if (x) { /* nothing */ }");
    becomes("// only", "// only\n");
    becomes("/* a */ /* b */ const u8 X = 1;", "/* a */ /* b */ const u8 X = 1;\n");
    becomes("const u8 X = 1; /* a\r\n    b */ const u8 Y = 2;", "const u8 X = 1;\n/* a\n    b */\nconst u8 Y = 2;\n");
    becomes(
        "module m { // opens\n// inside\n} // closes\n// end",
        "module m {      // opens\n    // inside\n}       // closes\n// end\n",
    );
    becomes("enum e { A, // a\nB // b\n}", "enum e {\n    A,      // a\n    B       // b\n}\n");
    becomes("\u{feff}// first\r\nconst u8 X = 1;\r\n", "// first\nconst u8 X = 1;\n");
}
