//! What each kind of syntax error looks like. A snapshot holds the source and the rendered errors side by side.
//!
//! `CASES` gives a name and a source to each; a source with the wrong number of errors fails before its snapshot is
//! compared, as one cause must give one error.

use baker::diag::render;
use baker::source::Sources;
use baker::syntax::parse;

/// Name, number of causes, source.
const CASES: &[(&str, usize, &str)] = &[
    ("missing_semicolon_at_brace", 1, "void f() {\n    x = 1\n}\n"),
    ("missing_semicolon_at_line_end", 1, "void f() {\n    x = 1\n    g(x);\n    return;\n}\n"),
    ("missing_semicolon_on_line", 1, "void f() {\n    x = 1 y = 2;\n    g(x);\n}\n"),
    ("missing_semicolon_after_import", 1, "import \"net/ether\"\nimport \"net/ipv4\";\n"),
    ("missing_expression", 1, "void f() {\n    x = ;\n    y = 2;\n}\n"),
    ("missing_expression_at_line_end", 1, "void f() {\n    x = 1 +\n}\n"),
    ("missing_operand", 1, "const u32 X = 1 + * ;\n"),
    ("missing_closing_parenthesis", 1, "void f() {\n    x = (1 + 2;\n    g();\n}\n"),
    ("missing_parenthesis_of_if", 1, "void f() {\n    if (a == 1 {\n        g();\n    }\n}\n"),
    ("assignment_in_condition", 1, "void f() {\n    if (x = 1)\n        g();\n    if (y == 1)\n        g();\n}\n"),
    ("module_parameter_without_kind", 1, "module m(ip) {\n    in ip input;\n}\nconst u8 X = 1;\n"),
    ("module_parameters_not_closed", 1, "module m(protocol ip {\n    in ip input;\n}\nconst u8 X = 1;\n"),
    ("module_parameter_of_no_type", 1, "module m(const 5) {\n    in ip input;\n}\nconst u8 X = 1;\n"),
    ("constant_without_value", 1, "void f() {\n    const u8 A;\n    g(A);\n}\n"),
    ("bad_ipv6_addresses", 2, "const u128 A = 1::2::3;\nconst u128 B = ::12345;\n"),
    ("if_without_parentheses", 1, "void f() {\n    if a == 1 {\n        g();\n    }\n}\n"),
    ("missing_comma_in_call", 1, "void f() {\n    channel_put(arp_cc packet_copy(pkt));\n    g();\n}\n"),
    ("missing_bracket", 1, "void f() {\n    x = t[1;\n    g();\n}\n"),
    ("missing_brace_at_end", 1, "void f() {\n    if (a) {\n        g();\n}\n"),
    (
        "missing_brace_before_ppf",
        1,
        "module m {\n    ppf a(ether_pkt_t *p) from x {\n        if (b) {\n            g(p);\n    }\n\n    ppf b(ether_pkt_t *p) from y {\n        g(p);\n    }\n}\n",
    ),
    ("missing_brace_before_module", 1, "module a {\n    in ether x;\n\nmodule b {\n    in ether y;\n}\n"),
    ("missing_open_brace", 1, "void f()\n    g();\n}\n"),
    ("missing_body", 1, "int f(int x);\nint g(int x) { return x; }\n"),
    ("brace_too_many", 1, "void f() {\n    g();\n}\n}\nconst u8 X = 1;\n"),
    ("module_closed_too_early", 1, "module m {\n    in ether x;\n    }\n    out ether y;\n    counter c;\n}\n"),
    ("else_without_if", 1, "void f() {\n    if (a)\n        g();\n        h();\n    else\n        k();\n}\n"),
    ("meter_without_burst", 1, "module m {\n    meter all rate 10;\n    counter c;\n}\n"),
    ("clause_outside_of_items", 1, "idle 5;\nconst u8 X = 1;\n"),
    ("critical_without_block", 1, "void f() {\n    critical (p)\n        *p = 1;\n    g();\n}\n"),
    ("critical_without_entry", 1, "void f() {\n    critical {\n        g();\n    }\n}\n"),
    ("reserved_word_as_name", 1, "void f() {\n    u8 if = 1;\n    g();\n}\n"),
    ("reserved_word_as_constant", 1, "const u8 return = 1;\nconst u8 Y = 2;\n"),
    (
        "misspelt_item",
        1,
        "modul m {\n    in ether x;\n    ppf a(ether_pkt_t *p) from x { g(p); }\n}\nconst u8 X = 1;\n",
    ),
    ("variable_outside_function", 1, "u32 total = 0;\nconst u8 X = 1;\n"),
    ("two_variables_in_one", 1, "void f() {\n    u8 a = 1, b = 2;\n    g(a);\n}\n"),
    ("statement_before_case", 1, "void f() {\n    switch (x) {\n        g();\n    case 1:\n        h();\n    }\n}\n"),
    (
        "case_without_colon",
        1,
        "void f() {\n    switch (x) {\n    case 1\n        g();\n    case 2:\n        h();\n    }\n}\n",
    ),
    ("case_without_switch", 1, "void f() {\n    case 1:\n        g();\n}\n"),
    ("while_loop", 1, "void f() {\n    while (x) {\n        g();\n    }\n}\n"),
    ("for_with_comma", 1, "void f() {\n    for (int i = 0, i < 4; i++) {\n        g(i);\n    }\n}\n"),
    ("c_initializer", 1, "void f() {\n    next_hop_t n = { 1, 2 };\n    g(n);\n}\n"),
    ("struct_value_without_comma", 1, "void f() {\n    x = next_hop_t { port: 1 dst: 2 };\n    g(x);\n}\n"),
    ("struct_field_without_colon", 1, "struct s {\n    a u32;\n    b : u32;\n}\n"),
    ("field_without_width", 1, "protocol p {\n    a : ;\n    b : 4;\n    demux { 8 }\n}\n"),
    ("demux_with_semicolon", 1, "protocol p {\n    a : 64;\n    demux { 8; };\n}\n"),
    ("enumerators_without_comma", 1, "enum e : u8 {\n    A = 1\n    B = 2,\n    C,\n}\n"),
    ("port_without_name", 1, "module m {\n    in ether;\n    out ether y;\n}\n"),
    ("table_without_size", 1, "module m {\n    array<u32> t;\n    counter c;\n}\n"),
    ("table_without_types", 1, "module m {\n    hash t[4];\n    counter c;\n}\n"),
    ("ppf_without_from", 1, "module m {\n    ppf a(ether_pkt_t *p) {\n        g(p);\n    }\n}\n"),
    ("ppf_with_two_parameters", 1, "module m {\n    ppf a(ether_pkt_t *p, u8 x) from i {\n        g(p);\n    }\n}\n"),
    ("item_in_module", 1, "module m {\n    protocol p { a : 8; demux { 1 } }\n    counter c;\n}\n"),
    ("wire_chain", 1, "program {\n    rx -> a.b -> tx;\n    a.c -> host;\n}\n"),
    ("wire_without_end", 1, "program {\n    rx -> ;\n    a.c -> host;\n}\n"),
    ("batch_without_time", 1, "program {\n    a.b -> controller c batch 256;\n    a.c -> host;\n}\n"),
    ("string_as_value", 1, "const u8 X = \"one\";\nconst u8 Y = 1;\n"),
    ("unknown_character", 1, "# pragma\nconst u8 Y = 1;\n"),
    ("pin_without_ppf", 1, "module m {\n    in ether a;\n    @kernel counter n;\n    counter k;\n}\n"),
    ("pin_outside_of_a_module", 1, "@kernel ppf f(ether_packet_t *pkt) from a { }\nconst u8 Y = 1;\n"),
    ("pin_without_name", 1, "module m {\n    @ ppf f(ether_packet_t *pkt) from a { }\n}\n"),
    ("unknown_character_in_expression", 1, "void f() {\n    x = 1 $ 2;\n    g();\n}\n"),
    ("non_ascii_name", 1, "void f() {\n    u8 größe = 1;\n}\n"),
    ("non_ascii_blank", 1, "void f() {\n    u8\u{a0}x = 1;\n}\n"),
    ("unterminated_string", 1, "import \"net/ether;\nconst u8 X = 1;\n"),
    ("unterminated_comment", 1, "const u8 X = 1;\n/* begins here\nmodule m {\n"),
    ("number_too_big", 1, "const u128 X = 0x1_0000_0000_0000_0000_0000_0000_0000_0000;\n"),
    ("bad_numbers", 4, "const u8 A = 0b12;\nconst u8 B = 60sec;\nconst u8 C = 1.5;\nconst u8 D = 1__0;\n"),
    ("bad_addresses", 3, "const u32 A = 10.0.0.256;\nconst u32 B = 10.0.0.1.2;\nconst u48 C = aa:bb:cc:dd:ee;\n"),
    ("three_causes", 3, "import net;\nvoid f() {\n    x = (1;\n    g(;\n}\n"),
    ("tabs_and_wide_characters", 1, "void f() {\n\tg(); /* größe 漢字 */ x = 1 +;\n}\n"),
    ("empty_function_at_end_of_file", 1, "void f("),
    ("only_a_keyword", 1, "module"),
];

#[test]
fn errors() {
    for (name, causes, source) in CASES {
        let mut sources = Sources::default();
        let file = sources.add("test.baker", *source);
        let parse = parse(file, source);
        let rendered = render(parse.errors(), &sources, false);
        assert_eq!(parse.syntax().text().to_string(), *source, "{name}");
        assert_eq!(parse.errors().len(), *causes, "{name}:\n{source}\n{rendered}");
        insta::with_settings!({ snapshot_path => "syntax_errors", prepend_module_to_snapshot => false, omit_expression => true }, {
            insta::assert_snapshot!(*name, format!("{source}\n--------\n{rendered}"));
        });
    }
}
