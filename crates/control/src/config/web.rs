//! `[web]`: where the web page and the HTTP API of the instance are, and who may use them.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::str::FromStr;

use super::listen;
use crate::document::{self, Errors, Path, Value};

/// A port, for examples.
const PORT: u16 = 9480;
const KEYS: &[&str] = &["listen", "hosts", "token_file", "readers", "certificate", "key"];

/// Where the web page and the HTTP API are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Web {
    /// Where clients connect to.
    pub listen: SocketAddr,
    /// Names that they may call this machine, in small letters, beside its addresses and `localhost`.
    pub hosts: Vec<String>,
    /// The file with the token of those who may change something; without it nobody may.
    pub token_file: Option<PathBuf>,
    /// Who may read, where it says so.
    pub readers: Option<Readers>,
    /// Certificate and key, by which connections are encrypted.
    pub tls: Option<(PathBuf, PathBuf)>,
}

/// Who may read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Readers {
    /// Whoever can connect.
    All,
    /// Who has the token.
    Token,
}

impl FromStr for Readers {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        match text {
            "all" => Ok(Readers::All),
            "token" => Ok(Readers::Token),
            _ => Err(()),
        }
    }
}

/// Where the command line has it listen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WebAddress(SocketAddr);

impl FromStr for WebAddress {
    type Err = String;

    /// `ADDRESS:PORT`, or a port on loopback.
    fn from_str(text: &str) -> Result<Self, String> {
        listen::address(text, PORT).map(WebAddress)
    }
}

impl Web {
    /// What the configuration says, at the address of the command line where that has one.
    ///
    /// # Errors
    /// Nobody has said who may use it there.
    pub fn at(address: Option<WebAddress>, configured: Option<&Web>) -> Result<Option<Web>, String> {
        let Some(WebAddress(listen)) = address else { return Ok(configured.cloned()) };
        let alone = Web { listen, hosts: Vec::new(), token_file: None, readers: None, tls: None };
        let web = configured.map_or(alone, |web| Web { listen, ..web.clone() });
        web.check().map_err(|(problem, accepted)| format!("web: {problem}; [web] needs {accepted}"))?;
        Ok(Some(web))
    }

    /// Who may read. On loopback, which is this machine's, everyone, unless it says otherwise.
    pub fn readers(&self) -> Readers {
        let usual = if self.listen.ip().is_loopback() { Readers::All } else { Readers::Token };
        self.readers.unwrap_or(usual)
    }

    /// What is wrong, and what is accepted.
    fn check(&self) -> Result<(), (String, &'static str)> {
        if self.readers() == Readers::All || self.token_file.is_some() {
            return Ok(());
        }
        let problem = match self.readers {
            Some(_) => "who may read is to have the token, and there is none".to_owned(),
            None => format!("other machines can connect to {}, and nothing says who may read", self.listen),
        };
        Err((problem, "`token_file`, or `readers = \"all\"`"))
    }
}

/// `[web]`. What its files say, and whether the address can be had, is seen when the instance starts.
pub(super) fn web(value: Option<&Value>, errors: &mut Errors) -> Option<Web> {
    let root = Path::Root;
    let (value, path) = (value?, root.key("web"));
    let table = document::table(value, &path, errors)?;
    document::only(table, &path, KEYS, errors);
    let hosts = listen::hosts(table, &path, errors);
    let mut file = |key: &str| document::text_at(table, &path, key, "the path of a file", errors).map(PathBuf::from);
    let (token_file, certificate, key) = (file("token_file"), file("certificate"), file("key"));
    let readers = table.get("readers").and_then(|value| {
        const READERS: &str = "\"all\": whoever can connect; or \"token\": who has the token";
        document::parsed(value, &path.key("readers"), READERS, errors, |text| text.parse().ok())
    });
    let tls = match (certificate, key) {
        (Some(certificate), Some(key)) => Some((certificate, key)),
        (None, None) => None,
        _ => {
            errors.add(value.span().start, &path, "one of `certificate` and `key` is missing", "both, or none");
            None
        }
    };
    let listen = listen::listen(value, table, &path, PORT, errors)?;
    let web = Web { listen, hosts, token_file, readers, tls };
    // What is wrong with its parts was said.
    if let (true, Err((problem, accepted))) = (errors.is_empty(), web.check()) {
        errors.add(value.span().start, &path, problem, accepted);
    }
    Some(web)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<Option<Web>, Vec<String>> {
        let mut errors = Errors::new("test.toml", text);
        let root = document::root(text, &mut errors);
        let found = web(root.get("web"), &mut errors);
        let all: Vec<_> = errors.finish().iter().map(ToString::to_string).collect();
        if all.is_empty() { Ok(found) } else { Err(all) }
    }

    #[test]
    fn who_may_read_depends_on_where_it_listens() {
        let readers = |text: &str| read(&format!("[web]\n{text}")).unwrap().unwrap().readers();
        assert_eq!(read(""), Ok(None));
        assert_eq!(readers("listen = 9480"), Readers::All);
        assert_eq!(readers("listen = \"[::1]:9480\"\ntoken_file = \"t\""), Readers::All);
        assert_eq!(readers("listen = 9480\ntoken_file = \"t\"\nreaders = \"token\""), Readers::Token);
        assert_eq!(readers("listen = \"10.0.0.1:9480\"\ntoken_file = \"t\""), Readers::Token);
        assert_eq!(readers("listen = \"10.0.0.1:9480\"\nreaders = \"all\""), Readers::All);
    }

    #[test]
    fn mistakes_are_told() {
        for (text, said) in [
            ("", "web: `listen` is missing"),
            ("listen = \"10.0.0.1:1\"", "web: other machines can connect to 10.0.0.1:1"),
            ("listen = \"[::]:1\"", "accepted: `token_file`, or `readers = \"all\"`"),
            ("listen = 1\nreaders = \"token\"", "web: who may read is to have the token, and there is none"),
            ("listen = 1\nreaders = \"some\"", "web.readers: \"some\" is none"),
            ("listen = 1\ncertificate = \"c\"", "web: one of `certificate` and `key` is missing"),
            ("listen = 1\nhosts = [\"a b\"]", "web.hosts[0]: \"a b\" is none"),
            ("listen = 1\ntoken = \"x\"", "web.token: unknown key"),
            ("listen = 70000", "web.listen: 70000 is out of range"),
        ] {
            let errors = read(&format!("[web]\n{text}")).unwrap_err();
            assert!(errors.len() == 1 && errors[0].contains(said), "{text}: {errors:?}");
        }
    }

    #[test]
    fn the_address_of_the_command_line_comes_first() {
        let configured = read("[web]\nlisten = 1\ntoken_file = \"t\"").unwrap();
        let at = |address: &str| address.parse().unwrap();
        let web = Web::at(Some(at("10.0.0.1:2")), configured.as_ref()).unwrap().unwrap();
        assert_eq!((web.listen.to_string(), web.readers()), ("10.0.0.1:2".into(), Readers::Token));
        assert_eq!(web.token_file, Some("t".into()));
        assert_eq!(Web::at(None, configured.as_ref()), Ok(configured));
        let error = Web::at(Some(at("0.0.0.0:2")), None).unwrap_err();
        assert!(error.starts_with("web: other machines can connect to 0.0.0.0:2"), "{error}");
        assert!(Web::at(Some(at("2")), None).unwrap().is_some());
        assert!("localhost".parse::<WebAddress>().unwrap_err().contains("9480"));
    }
}
