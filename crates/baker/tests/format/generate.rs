//! Random programs that follow the grammar, as lists of tokens. They need not make sense.

use proptest::collection::vec;
use proptest::prelude::*;

/// Tokens in their order.
pub type Tokens = Vec<String>;

/// Text with a blank between any two tokens, as tokens.
fn tokens(text: &str) -> Tokens {
    text.split(' ').filter(|t| !t.is_empty()).map(str::to_owned).collect()
}

/// Joins lists of tokens.
fn all(parts: impl IntoIterator<Item = Tokens>) -> Tokens {
    parts.into_iter().flatten().collect()
}

/// `start`, the parts with `between` between any two, `end`.
fn list(start: &str, parts: Vec<Tokens>, between: &str, end: &str) -> Tokens {
    let mut result = tokens(start);
    for (index, part) in parts.into_iter().enumerate() {
        if index > 0 {
            result.extend(tokens(between));
        }
        result.extend(part);
    }
    result.extend(tokens(end));
    result
}

fn name() -> impl Strategy<Value = Tokens> + Clone {
    let names =
        ["x", "y", "pkt", "ab", "type", "in", "metadata", "a_name_of_some_length", "length_in_units_of_four_bytes"];
    prop::sample::select(names.to_vec()).prop_map(tokens)
}

fn literal() -> impl Strategy<Value = Tokens> {
    let literals = [
        "0",
        "0xffff_ffff",
        "aa:bb:cc:dd:ee:ff",
        "10.0.0.1",
        "::1",
        "2001:db8::",
        "true",
        "null",
        "123456789012345678901234567890",
    ];
    prop::sample::select(literals.to_vec()).prop_map(tokens)
}

fn ty() -> impl Strategy<Value = Tokens> {
    prop::sample::select(vec!["u8", "u32", "mac_addr_t", "ether_packet_t *", "next_hop_t *"]).prop_map(tokens)
}

fn plain_type() -> impl Strategy<Value = Tokens> {
    prop::sample::select(vec!["u8", "u128", "ipv4_addr_t"]).prop_map(tokens)
}

/// An expression.
pub fn expr() -> impl Strategy<Value = Tokens> + Clone {
    let leaf = prop_oneof![name(), literal()];
    leaf.prop_recursive(6, 40, 6, |inner| {
        let operators = "|| && | ^ & == != < <= > >= << >> + - * / %";
        let operator = prop::sample::select(operators.split(' ').collect::<Vec<_>>()).prop_map(tokens);
        let prefix = prop::sample::select(vec!["!", "~", "-", "*", "( u8 )", "( u32 )"]).prop_map(tokens);
        // An operand that nothing binds tighter than.
        let tight = prop_oneof![name(), inner.clone().prop_map(|e| list("(", vec![e], "", ")"))];
        prop_oneof![
            4 => (inner.clone(), vec((operator, inner.clone()), 1..6))
                .prop_map(|(first, rest)| all([first].into_iter().chain(rest.into_iter().flat_map(|(o, e)| [o, e])))),
            1 => (prefix, tight.clone()).prop_map(|(p, e)| all([p, e])),
            1 => (tight.clone(), inner.clone(), inner.clone())
                .prop_map(|(c, a, b)| all([c, tokens("?"), a, tokens(":"), b])),
            1 => (tight.clone(), prop::sample::select(vec!["->", "."]), name())
                .prop_map(|(base, dot, field)| all([base, tokens(dot), field])),
            1 => (tight, inner.clone()).prop_map(|(base, index)| all([base, list("[", vec![index], "", "]")])),
            2 => (name(), vec(inner.clone(), 0..6)).prop_map(|(f, args)| all([f, list("(", args, ",", ")")])),
            1 => (name(), vec((name(), inner), 0..5), any::<bool>()).prop_map(|(name, fields, comma)| {
                let fields: Vec<_> = fields.into_iter().map(|(n, e)| all([n, tokens(":"), e])).collect();
                let end = if comma && !fields.is_empty() { ", }" } else { "}" };
                all([name, list("{", fields, ",", end)])
            }),
        ]
    })
}

/// An assignment or the like, without `;`.
fn simple() -> impl Strategy<Value = Tokens> {
    let operators = "= += -= *= /= %= &= |= ^= <<= >>=";
    let operator = prop::sample::select(operators.split(' ').collect::<Vec<_>>()).prop_map(tokens);
    // In front of what is set: no struct value, which would be taken for a block.
    let target = prop_oneof![tokens_of("* p"), tokens_of("pkt -> ttl"), tokens_of("t [ k + 1 ]"), tokens_of("x")];
    prop_oneof![
        (target.clone(), operator, expr()).prop_map(|(t, o, e)| all([t, o, e])),
        (target, prop::sample::select(vec!["++", "--"])).prop_map(|(t, o)| all([t, tokens(o)])),
        vec(expr(), 0..4).prop_map(|args| list("f (", args, ",", ")")),
    ]
}

fn tokens_of(text: &'static str) -> BoxedStrategy<Tokens> {
    Just(tokens(text)).boxed()
}

fn variable() -> impl Strategy<Value = Tokens> {
    (ty(), prop::option::of(expr())).prop_map(|(ty, value)| {
        let value = value.map_or(Vec::new(), |value| all([tokens("="), value]));
        all([ty, tokens("v"), value])
    })
}

fn statement() -> BoxedStrategy<Tokens> {
    let end = |part: Tokens| all([part, tokens(";")]);
    let leaf = prop_oneof![
        6 => simple().prop_map(end),
        2 => variable().prop_map(end),
        1 => prop::option::of(expr()).prop_map(move |e| end(all([tokens("return"), e.unwrap_or_default()]))),
        1 => prop::sample::select(vec!["break ;", "continue ;", ";"]).prop_map(tokens),
    ];
    leaf.prop_recursive(4, 24, 4, |inner| {
        let block = vec(inner.clone(), 0..4).prop_map(|body| list("{", body, "", "}"));
        let branch = prop_oneof![3 => block.clone(), 1 => inner.clone()];
        let header = (simple(), prop::option::of(expr()), prop::option::of(simple()));
        prop_oneof![
            1 => block.clone(),
            // In braces where an `else` follows, or it might belong to another `if`.
            2 => (expr(), block.clone(), branch.clone()).prop_map(|(condition, then, other)| {
                all([list("if (", vec![condition], "", ")"), then, tokens("else"), other])
            }),
            1 => (expr(), block.clone()).prop_map(|(e, body)| all([list("critical (", vec![e], "", ")"), body])),
            2 => (expr(), branch.clone()).prop_map(|(c, then)| all([list("if (", vec![c], "", ")"), then])),
            1 => (expr(), vec((vec(expr(), 0..3), vec(inner, 0..3)), 0..4)).prop_map(|(value, arms)| {
                let arm = |(labels, body): (Vec<Tokens>, Vec<Tokens>)| {
                    let label =
                        if labels.is_empty() { tokens("default :") } else { list("case", labels, ",", ":") };
                    all([label, all(body)])
                };
                let arms = arms.into_iter().map(arm).collect();
                all([list("switch (", vec![value], "", ")"), list("{", arms, "", "}")])
            }),
            1 => (header, branch).prop_map(|((init, condition, step), body)| {
                let header = [init, tokens(";"), condition.unwrap_or_default(), tokens(";"), step.unwrap_or_default()];
                all([tokens("for ("), all(header), tokens(")"), body])
            }),
        ]
    })
    .boxed()
}

fn body() -> impl Strategy<Value = Tokens> {
    vec(statement(), 0..5).prop_map(|statements| list("{", statements, "", "}"))
}

fn function() -> impl Strategy<Value = Tokens> {
    let param = ty().prop_map(|ty| all([ty, tokens("p")]));
    (ty(), vec(param, 0..8), body())
        .prop_map(|(ty, params, body)| all([ty, tokens("compute"), list("(", params, ",", ")"), body]))
}

fn fields(keyword: &'static str) -> impl Strategy<Value = Tokens> {
    let field = (name(), plain_type()).prop_map(|(name, ty)| all([name, tokens(":"), ty, tokens(";")]));
    vec(field, 0..5).prop_map(move |fields| list(keyword, fields, "", "}"))
}

/// What may stand in a file and in a module.
fn common_item() -> impl Strategy<Value = Tokens> {
    prop_oneof![
        (plain_type(), expr()).prop_map(|(ty, e)| all([tokens("const"), ty, tokens("LIMIT ="), e, tokens(";")])),
        plain_type().prop_map(|ty| all([tokens("type t_t ="), ty, tokens(";")])),
        (vec(prop::option::of(expr()), 0..8), any::<bool>()).prop_map(|(values, comma)| {
            let one =
                |value: Option<Tokens>| all([tokens("NAME"), value.map_or(Vec::new(), |v| all([tokens("="), v]))]);
            let end = if comma && !values.is_empty() { ", }" } else { "} ;" };
            list("enum e_t : u8 {", values.into_iter().map(one).collect(), ",", end)
        }),
        fields("struct s_t {"),
        vec(name(), 1..20).prop_map(|names| list("drop_reason", names, ",", ";")),
        function(),
    ]
}

fn module_item() -> impl Strategy<Value = Tokens> {
    let port = (prop::sample::select(vec!["ether", "ipv4", "a_long_protocol"]), vec(name(), 1..9));
    prop_oneof![
        2 => common_item(),
        6 => port.prop_flat_map(|(protocol, names)| {
            prop::sample::select(vec!["in", "out", "channel"])
                .prop_map(move |kind| all([tokens(kind), tokens(protocol), list("", names.clone(), ",", ";")]))
        }),
        2 => expr().prop_map(|size| all([tokens("hash < u32 , s_t > table ["), size, tokens("] ;")])),
        1 => tokens_of("counter seen ;"),
        1 => (expr(), expr()).prop_map(|(rate, burst)| {
            all([tokens("meter m [ 4 ] rate"), rate, tokens("burst"), burst, tokens(";")])
        }),
        2 => body().prop_map(|body| all([tokens("ppf p ( ether_packet_t * pkt ) from input"), body])),
        1 => tokens_of("ppf q ( ipv4_packet_t * pkt ) from input ;"),
    ]
}

fn protocol_field() -> impl Strategy<Value = Tokens> {
    (expr(), prop::option::of(expr()), vec(name(), 0..9), any::<bool>()).prop_map(|(width, value, parts, counts)| {
        let value = value.map_or(Vec::new(), |value| all([tokens("="), value]));
        let open = if counts { "counts {" } else { "covers {" };
        let parts = if parts.is_empty() { Vec::new() } else { list(open, parts, ",", "}") };
        all([tokens("field :"), width, value, parts, tokens(";")])
    })
}

fn item() -> impl Strategy<Value = Tokens> {
    let param = (prop::sample::select(vec!["protocol", "type", "const u16", "table"]), name())
        .prop_map(|(kind, name)| all([tokens(kind), name]));
    let wires = vec(Just(tokens("rx -> m . input ;")), 0..4);
    prop_oneof![
        4 => common_item(),
        1 => tokens_of("import \"net/ipv4\" ;"),
        2 => (vec(protocol_field(), 0..5), vec(name(), 1..9)).prop_map(|(fields, names)| {
            let pseudo = list("pseudo {", names, ",", "} ;");
            list("protocol p {", [fields, vec![pseudo]].concat(), "", "length { 4 + field } ; demux { 4 } ; }")
        }),
        1 => fields("metadata {"),
        4 => (vec(param, 0..8), vec(module_item(), 0..8)).prop_map(|(params, items)| {
            let params = if params.is_empty() { Vec::new() } else { list("(", params, ",", ")") };
            all([tokens("module m"), params, list("{", items, "", "}")])
        }),
        1 => body().prop_map(|body| all([tokens("m . p . ppf ( ether_pkt_t * pkt )"), body])),
        1 => (vec(name(), 0..20), vec(expr(), 0..5), wires).prop_map(|(names, args, wires)| {
            let args = if args.is_empty() { Vec::new() } else { list("(", args, ",", ")") };
            let instances = if names.is_empty() { Vec::new() } else { all([tokens("m"), args, list("", names, ",", ";")]) };
            list("program {", [vec![instances], wires].concat(), "", "}")
        }),
    ]
}

/// A file.
pub fn file() -> impl Strategy<Value = Tokens> {
    vec(item(), 0..6).prop_map(all)
}
