//! What sections have in common by which an instance sends to collectors: their addresses.

use std::net::{IpAddr, SocketAddr};

use collectors::sockets::MOST_COLLECTORS;

use crate::document::{self, Errors, Path, Table, Value};

/// `collectors` of a section, which must be there: addresses, with this port where none is said.
pub(super) fn collectors(
    (at, table): (&Value, &Table),
    path: &Path,
    port: u16,
    errors: &mut Errors,
) -> Option<Vec<SocketAddr>> {
    let accepted = format!("addresses such as \"192.0.2.1\" or \"[2001:db8::1]:{port}\", {MOST_COLLECTORS} at most");
    let Some(value) = table.get("collectors") else {
        errors.add(at.span().start, path, "`collectors` is missing", accepted);
        return None;
    };
    let path = path.key("collectors");
    let all = document::array(value, &path, errors)?;
    if all.is_empty() || all.len() > MOST_COLLECTORS {
        errors.add(value.span().start, &path, format!("there are {}", all.len()), accepted);
        return None;
    }
    let address = |text: &str| {
        let alone = || text.parse().ok().map(|address: IpAddr| SocketAddr::from((address, port)));
        text.parse().ok().or_else(alone).filter(|own: &SocketAddr| own.port() != 0 && !own.ip().is_unspecified())
    };
    let read = |(at, one)| document::parsed(one, &path.index(at), &accepted, errors, address);
    let read: Vec<_> = all.iter().enumerate().map(read).collect();
    let mut found: Vec<SocketAddr> = read.into_iter().collect::<Option<_>>()?;
    let mut seen = Vec::new();
    found.retain(|own| {
        !seen.contains(own) && {
            seen.push(*own);
            true
        }
    });
    Some(found)
}
