//! Leaves secrets out: what a configuration has under names of secrets, wherever that stands, and what looks like a
//! secret in logs.

use std::sync::LazyLock;

use regex::{Captures, Regex};
use toml::{Table, Value};

/// What stands in the place of a secret.
pub const LEFT_OUT: &str = "(left out)";
/// Words of names whose values are secrets.
const WORDS: &str = "passw(?:or)?d|passphrase|pass|pwd|secrets?|tokens?|credentials?|authorization|auth|cookies?|psk|\
                     bearer|community|private|keys?|apikey";
/// Names that have passwords by the names of users, where they are tables.
const USERS: [&str; 2] = ["users", "accounts"];
/// The section whose entries have keys that are no secrets, and how these are named.
const TABLES: (&str, &str) = ("tables", "key");
/// A secret that is shorter is not looked for in other texts: it would be found in any.
const SHORTEST: usize = 4;

/// A pattern of this file.
fn pattern(text: &str) -> Regex {
    Regex::new(text).expect("patterns of this file can be read")
}

/// Names of secrets: the words of a name are apart, by `_`, `-` or `.`, or by a capital.
static NAME: LazyLock<Regex> = LazyLock::new(|| pattern(&format!("(?i)(?:^|[_.-])(?:{WORDS})(?:$|[_.-])")));
/// What stands in front of the host in a URL.
static USER: LazyLock<Regex> = LazyLock::new(|| pattern(r#"(://)[^\s"'<>]*@"#));
/// An argument of a URL.
static ARGUMENT: LazyLock<Regex> = LazyLock::new(|| pattern(r#"([?&]([\w.-]+)=)([^&\s"'<>#]+)"#));
/// A field of HTTP or RTSP: to the end of the text where that is JSON's, else to the end of the line.
static FIELD: LazyLock<Regex> = LazyLock::new(|| {
    pattern(
        r#"(?i)((?:proxy-)?authorization|(?:set-)?cookie)(?:("\s*:\s*")(?:\\.|[^"\\\r\n])*|(\\?"?\s*[:=]\s*)[^\r\n]+)"#,
    )
});
/// `name=value`, `name: value`, `"name":"value"`.
static PAIR: LazyLock<Regex> = LazyLock::new(|| {
    pattern(r#"([A-Za-z][\w.-]*)(\\?"?\s*[:=]\s*)(\\?"(?:[^"\\]|\\[^"])*\\?"|'[^']*'|[^\s,;&"'{}\[\]]+)"#)
});

/// Whether what has this name is a secret.
fn is_secret(name: &str) -> bool {
    // `apiKey` is `api_key`.
    let mut words = String::new();
    for c in name.chars() {
        if c.is_ascii_uppercase() && words.ends_with(|before: char| before.is_ascii_lowercase()) {
            words.push('_');
        }
        words.push(c);
    }
    NAME.is_match(&words)
}

/// The secrets that are known.
#[derive(Debug, Default)]
pub struct Secrets(Vec<String>);

impl Secrets {
    /// A configuration without secrets, and without comments, which may have some. From now on they are known.
    ///
    /// # Errors
    /// It can't be read, so its secrets are not known.
    pub fn configuration(&mut self, text: &str) -> Result<String, String> {
        // The error of the parser would show the line.
        let mut table: Table =
            text.parse().map_err(|_| "it is not TOML, so its secrets can't be told from the rest")?;
        for (section, value) in &mut table {
            self.value(section, value, section == TABLES.0, false);
        }
        let text = toml::to_string_pretty(&table).map_err(|error| error.to_string())?;
        Ok(self.known(&text))
    }

    fn value(&mut self, name: &str, value: &mut Value, is_table: bool, is_inside: bool) {
        let is_key = is_table && name == TABLES.1;
        let is_users = USERS.contains(&name) && value.is_table();
        let is_inside = is_inside || is_users || is_secret(name) && !is_key;
        match value {
            Value::Table(own) => own.iter_mut().for_each(|(name, own)| self.value(name, own, is_table, is_inside)),
            Value::Array(own) => own.iter_mut().for_each(|own| self.value(name, own, is_table, is_inside)),
            own if is_inside => {
                match &*own {
                    Value::String(text) => self.learn(text),
                    other => self.learn(&other.to_string()),
                }
                *own = Value::String(LEFT_OUT.into());
            }
            Value::String(text) => {
                // `user:password`
                let users = USER.find_iter(text).map(|found| found.as_str()[3..found.len() - 1].to_owned());
                let users: Vec<String> = users.collect();
                for user in users {
                    user.split_once(':').into_iter().for_each(|(_, password)| self.learn(password));
                }
                for found in ARGUMENT.captures_iter(text).filter(|found| is_secret(&found[2])) {
                    self.learn(&found[3]);
                }
                *text = urls(text);
            }
            _ => {}
        }
    }

    fn learn(&mut self, secret: &str) {
        if secret.len() < SHORTEST {
            return;
        }
        let json = serde_json::Value::from(secret).to_string();
        let all = [secret.to_owned(), json[1..json.len() - 1].to_owned(), percent(secret)];
        for own in all {
            if !self.0.contains(&own) {
                self.0.push(own);
            }
        }
        // One may be a part of another.
        self.0.sort_by_key(|own| std::cmp::Reverse(own.len()));
    }

    /// A text, such as JSON, without the secrets that are known, and without those in URLs.
    pub fn known(&self, text: &str) -> String {
        let text = self.0.iter().fold(text.to_owned(), |text, secret| text.replace(secret, LEFT_OUT));
        urls(&text)
    }

    /// A text that people have written, such as a log: also without what its names say are secrets.
    pub fn log(&self, text: &str) -> String {
        let text = FIELD.replace_all(&self.known(text), format!("${{1}}${{2}}${{3}}{LEFT_OUT}")).into_owned();
        let pair = |found: &Captures| {
            let (all, name, between, value) = (&found[0], &found[1], &found[2], &found[3]);
            // Log lines say which key of a table was changed.
            if !is_secret(name) || name == TABLES.1 || value.starts_with(LEFT_OUT.trim_end_matches(" out)")) {
                return all.to_owned();
            }
            let quote = if value.starts_with('\\') {
                "\\\""
            } else {
                value.get(..1).filter(|q| ["\"", "'"].contains(q)).unwrap_or("")
            };
            format!("{name}{between}{quote}{LEFT_OUT}{quote}")
        };
        PAIR.replace_all(&text, pair).into_owned()
    }
}

/// Without users, passwords and tokens in URLs.
fn urls(text: &str) -> String {
    let text = USER.replace_all(text, format!("${{1}}{LEFT_OUT}@"));
    let argument = |found: &Captures| match is_secret(&found[2]) {
        true => format!("{}{LEFT_OUT}", &found[1]),
        false => found[0].to_owned(),
    };
    ARGUMENT.replace_all(&text, argument).into_owned()
}

/// As it stands in a URL.
fn percent(text: &str) -> String {
    let byte = |byte: u8| match byte {
        b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => char::from(byte).to_string(),
        byte => format!("%{byte:02X}"),
    };
    text.bytes().map(byte).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const CONFIGURATION: &str = r#"
# password = "planted-0"
[frames]
count = 16384
[controllers.media]
listen = ["0.0.0.0:8554"]               # token = "planted-1"
[controllers.media.streams.door]
url = "rtsp://viewer:planted-2@10.0.2.11:8554/door?token=planted-3&quality=high"
password = "planted \"4\"/"
[controllers.media.users]
alice = "planted-5"
[controllers.media.viewers]
users = ["alice"]
tokens = ["planted-6", "planted-7"]
[controllers.media.tls]
key = "/etc/planted-8.key"
apiKey = 1234598
[controllers.media.secret]
deep = { more = ["planted-9"] }
[[tables.l2_bridge.stations]]
key = { domain = 2, mac = "02:00:00:00:00:13" }
value = { port = "p3" }
"#;

    #[test]
    fn a_configuration_has_no_secrets_left() {
        let mut secrets = Secrets::default();
        let text = secrets.configuration(CONFIGURATION).unwrap();
        assert!(!text.contains("planted") && !text.contains("12345"), "{text}");
        for kept in
            ["16384", "0.0.0.0:8554", "quality=high", "10.0.2.11:8554/door", "\"alice\"", "02:00:00:00:00:13", "p3"]
        {
            assert!(text.contains(kept), "{kept} in {text}");
        }
        assert!(text.parse::<Table>().is_ok(), "{text}");
        // Wherever else they stand, in any form.
        let elsewhere =
            r#"{"about": "planted \"4\"/", "url": "?x=planted%20%224%22%2F", "n": "planted-7 planted-9 1234598"}"#;
        let text = secrets.known(elsewhere);
        assert!(!text.contains("planted") && serde_json::from_str::<serde_json::Value>(&text).is_ok(), "{text}");
        let error = Secrets::default().configuration("password = planted-0").unwrap_err();
        assert!(!error.contains("planted"), "{error}");
    }

    #[test]
    fn logs_have_no_secrets_left() {
        let secrets = Secrets::default();
        for line in [
            "WARN origin rtsp://user:planted@10.0.2.11/door failed",
            "GET /index.m3u8?token=planted&x=1 HTTP/1.1",
            "Authorization: Basic planted planted",
            "Authorization: Digest username=\"planted\", nonce=\"planted\"",
            r#"{"message":"asked","authorization":"Digest username=\"planted\", nonce=\"planted\""}"#,
            r#"{"fields":"{\"password\":\"planted\"}"}"#,
            "password=planted",
            "db_password = 'planted planted', next",
            r#"{"api-key": "planted"}"#,
            "set-cookie: id=planted; Path=/",
            "run media --secret=planted",
        ] {
            let text = secrets.log(line);
            assert!(!text.contains("planted") && text.contains(LEFT_OUT), "{line}: {text}");
            let is_json = |text: &str| serde_json::from_str::<serde_json::Value>(text).is_ok();
            assert_eq!(is_json(line), is_json(&text), "{text}");
        }
        for line in [
            "INFO table entry set table=l3_forward.fib key=10.9.0.0/16 value=2",
            "compass=north passing: 3",
            "keyed hash: monkey=1",
            "http://10.0.0.1:9464/metrics",
        ] {
            assert_eq!(secrets.log(line), line);
        }
    }
}
