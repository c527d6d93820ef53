//! Mistakes in `[controllers.firewall]`, and what is warned of.

#[path = "../../../../tests/support/compile.rs"]
mod common;

use std::path::Path;

use control::applications::Applications;
use control::config::Config;
use control::document::ConfigError;
use firewall::FirewallApplication;

const FIREWALL: Applications = Applications::new(&[&FirewallApplication]);

/// The firewall with the rules of a configuration; its errors, then its warnings.
fn firewall(rules: &str) -> (Vec<String>, Vec<String>) {
    let program = common::compile(&Path::new(env!("CARGO_MANIFEST_DIR")).join("../firewall.baker"));
    let text =
        format!("[ports.lan]\nnumber = 1\n[ports.outer]\nnumber = 70\n[controllers.firewall]\nrules = [\n{rules}\n]");
    let shown = |errors: &[ConfigError]| errors.iter().map(ToString::to_string).collect();
    match Config::parse("t.toml", &text, &program, FIREWALL) {
        Ok(config) => (Vec::new(), shown(&config.warnings)),
        Err(errors) => (shown(&errors), Vec::new()),
    }
}

#[test]
fn errors_of_firewall_rules() {
    let address = "an address or a prefix, such as \"10.0.1.0/24\" or \"2001:db8::/32\", a list of them, or \"any\"";
    for (rule, error) in [
        ("{}", "`action` is missing; accepted: permit or deny".to_owned()),
        ("{ action = \"permitt\" }", ".action: \"permitt\" is no action; did you mean `permit`?; accepted: permit or deny".into()),
        ("{ action = 1 }", ".action: this is an integer; accepted: permit or deny".into()),
        (
            "{ action = \"deny\", form = \"any\" }",
            ".form: unknown key; did you mean `from`?; accepted: name, action, entry, protocol, from, to, from_port, to_port, icmp_type"
                .into(),
        ),
        (
            "{ action = \"deny\", entry = \"lann\" }",
            ".entry: there is no such port \"lann\"; did you mean `lan`?; accepted: a port with a number below 64: lan".into(),
        ),
        ("{ action = \"deny\", entry = \"outer\" }", ".entry: there is no such port \"outer\"; accepted: a port with a number below 64: lan".into()),
        (
            "{ action = \"deny\", entry = [] }",
            ".entry: this list is empty, so nothing matches; accepted: at least one value".into(),
        ),
        (
            "{ action = \"deny\", protocol = \"tcpp\" }",
            ".protocol: \"tcpp\" is no protocol that is known by name; did you mean `tcp`?; accepted: one of tcp, udp, icmp, icmpv6, or a number from 0 to 255"
                .into(),
        ),
        (
            "{ action = \"deny\", from = [\"10.0.0.0/8\", \"10.0.0.1/8\"] }",
            format!(".from[1]: \"10.0.0.1/8\" is no prefix, or has bits beyond its length; accepted: {address}"),
        ),
        (
            "{ action = \"deny\", from = \"10.0.0.1\", to = \"::1\" }",
            "no packet has an IPv4 and an IPv6 address; accepted: `from` and `to` of one version".into(),
        ),
        (
            "{ action = \"deny\", to_port = 80 }",
            ".to_port: the protocol of this rule has none; accepted: with protocol tcp or udp".into(),
        ),
        (
            "{ action = \"deny\", protocol = \"tcp\", to_port = \"90-80\" }",
            ".to_port: not a value of this key; accepted: a port from 0 to 65535, \"FIRST-LAST\", or a list of them".into(),
        ),
        (
            "{ action = \"deny\", protocol = \"tcp\", icmp_type = 8 }",
            ".icmp_type: the protocol of this rule has none; accepted: with protocol icmp or icmpv6".into(),
        ),
        (
            "{ action = \"deny\", protocol = \"icmp\", icmp_type = [8, 256] }",
            ".icmp_type[1]: not a value of this key; accepted: a type from 0 to 255, \"TYPE/CODE\", or a list of them".into(),
        ),
    ] {
        let (errors, _) = firewall(&format!("{{ action = \"permit\" }},\n{rule}"));
        let colon = if error.starts_with('.') { "" } else { ": " };
        assert_eq!(errors, [format!("t.toml:8: controllers.firewall.rules[1]{colon}{error}")]);
    }
}

#[test]
fn errors_of_accounting() {
    let program = common::compile(&Path::new(env!("CARGO_MANIFEST_DIR")).join("../firewall.baker"));
    for (text, error) in [
        ("accounting = 1", "accounting: this is an integer; accepted: true or false"),
        ("acounting = true", "acounting: unknown key; did you mean `accounting`?; accepted: rules, accounting"),
    ] {
        let text = format!("[controllers.firewall]\n{text}");
        let errors = Config::parse("t.toml", &text, &program, FIREWALL).unwrap_err();
        let errors: Vec<String> = errors.iter().map(ToString::to_string).collect();
        assert_eq!(errors, [format!("t.toml:2: controllers.firewall.{error}")]);
    }
}

#[test]
fn rules_that_no_packet_reaches_are_named() {
    let rules = r#"
    { name = "all web", action = "permit", protocol = "tcp", to = "10.0.0.0/8", to_port = "1-1000" },
    { action = "deny", protocol = "tcp", to = "10.1.0.0/16", to_port = [80, 443] },
    { name = "web", action = "permit", protocol = "tcp", to = ["10.2.0.0/16", "10.3.0.0/16"], to_port = 80 },
    { name = "more", action = "permit", protocol = "tcp", to = ["10.2.0.0/16", "11.3.0.0/16"], to_port = 80 },
    { name = "end", action = "deny" },
    { name = "late", action = "permit", from = "10.0.0.1" },"#;
    let (errors, warnings) = firewall(rules);
    assert_eq!(errors, [""; 0]);
    let path = "controllers.firewall.rules";
    assert_eq!(
        warnings,
        [
            format!(
                "t.toml:9: {path}[1]: no packet reaches rule 2 (line 9): rule 1 \"all web\" (line 8) matches all that it matches, and permits it"
            ),
            format!(
                "t.toml:10: {path}[2]: no packet reaches rule 3 \"web\" (line 10): rule 1 \"all web\" (line 8) matches all that it matches, and does the same"
            ),
            format!(
                "t.toml:13: {path}[5]: no packet reaches rule 6 \"late\" (line 13): rule 5 \"end\" (line 12) matches all that it matches, and denies it"
            ),
        ]
    );
}
