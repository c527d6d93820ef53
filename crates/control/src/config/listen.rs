//! What sections have in common by which an instance listens: an address, names of this machine.

use std::net::{Ipv4Addr, SocketAddr};

use toml::de::DeValue;

use crate::document::{self, Errors, Path, Table, Value};

/// An address to listen at, as the configuration and the command line have it: with `port` as an example.
pub(super) fn address(text: &str, port: u16) -> Result<SocketAddr, String> {
    let own = || text.parse().ok().map(|port| SocketAddr::from((Ipv4Addr::LOCALHOST, port)));
    text.parse().ok().or_else(own).ok_or_else(|| format!("accepted: {}", accepted(port)))
}

fn accepted(port: u16) -> String {
    format!("an address and port such as \"127.0.0.1:{port}\" or \"[::1]:{port}\", or a port on loopback: {port}")
}

/// `listen` of a section, which must be there.
pub(super) fn listen(at: &Value, table: &Table, path: &Path, port: u16, errors: &mut Errors) -> Option<SocketAddr> {
    let Some(listen) = table.get("listen") else {
        errors.add(at.span().start, path, "`listen` is missing", accepted(port));
        return None;
    };
    let path = path.key("listen");
    match listen.get_ref() {
        DeValue::Integer(_) => {
            let port = document::integer(listen, &path, 0, u16::MAX.into(), errors)?;
            Some(SocketAddr::from((Ipv4Addr::LOCALHOST, u16::try_from(port).ok()?)))
        }
        _ => document::parsed(listen, &path, &accepted(port), errors, |text| address(text, port).ok()),
    }
}

/// `hosts` of a section, in small letters.
pub(super) fn hosts(table: &Table, path: &Path, errors: &mut Errors) -> Vec<String> {
    const NAME: &str = "a name of this machine, such as \"edge.example.net\"";
    let Some(value) = table.get("hosts") else { return Vec::new() };
    let path = path.key("hosts");
    let Some(all) = document::array(value, &path, errors) else { return Vec::new() };
    let is_part = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '.' | '_');
    let name = |text: &str| (!text.is_empty() && text.chars().all(is_part)).then(|| text.to_ascii_lowercase());
    let named = all.iter().enumerate();
    named.filter_map(|(at, one)| document::parsed(one, &path.index(at), NAME, errors, name)).collect()
}
