//! Reads who knows the members of a pool: `{ etcd = … }` or `{ kubernetes = … }` in the place of a list of servers.

use std::path::PathBuf;
use std::time::Duration;

use super::*;
use crate::settings::members::{Announce, Endpoint, Etcd, Kubernetes, ServicePort, Source, TlsFiles};

/// Endpoints of etcd at most.
const MOST_ENDPOINTS: usize = 16;
/// The port of etcd where none is said.
const ETCD_PORT: u16 = 2379;
/// Where pods find who they are at the API server.
const SERVICE_ACCOUNT: &str = "/var/run/secrets/kubernetes.io/serviceaccount";
const ENDPOINT: &str = "a URL without a path, such as \"http://10.0.0.5:2379\" or \"https://etcd.example\"";
const PREFIX: &str = "visible ASCII characters, a / at their end, such as \"/millrace/media/siblings/\"";
const SERVICE: &str = "a name of Kubernetes: small letters, digits, - and .";

impl Reader<'_, '_> {
    /// Who knows the members of a pool.
    pub(super) fn source(&mut self, value: &Value, path: &Path, pool: &str) -> Option<Source> {
        Some(self.source_with(value, path, pool, &[])?.0)
    }

    /// Who knows this proxy's siblings, and what it says of itself there.
    pub(super) fn source_of_siblings(
        &mut self,
        value: &Value,
        path: &Path,
        pool: &str,
    ) -> Option<(Source, Option<Announce>)> {
        self.source_with(value, path, pool, &["announce", "weight", "ttl"])
    }

    fn source_with(
        &mut self,
        value: &Value,
        path: &Path,
        pool: &str,
        of_own: &[&str],
    ) -> Option<(Source, Option<Announce>)> {
        let table = document::table(value, path, self.errors)?;
        if let Some(own) = table.get("kubernetes") {
            document::only(table, path, &["kubernetes"], self.errors);
            return Some((Source::Kubernetes(self.kubernetes(own, &path.key("kubernetes"))?), None));
        }
        if !table.contains_key("etcd") {
            let accepted = "a list of servers, or { etcd = … } or { kubernetes = … }";
            self.errors.add(value.span().start, path, "nobody is named who knows the servers", accepted);
            return None;
        }
        let known = [&["etcd", "prefix", "ca", "certificate", "key", "user", "password"], of_own].concat();
        document::only(table, path, &known, self.errors);
        let etcd = self.etcd(table, value, path, pool);
        let announce = if of_own.is_empty() { None } else { self.announce(table, value, path) };
        Some((Source::Etcd(etcd?), announce))
    }

    fn etcd(&mut self, table: &Table, value: &Value, path: &Path, pool: &str) -> Option<Etcd> {
        let endpoints = self.several(table, path, "etcd", ENDPOINT, |text| endpoint(text, ETCD_PORT));
        let given = table.get("etcd").and_then(|own| own.get_ref().as_array()).map_or(1, |all| all.len());
        if !(1..=MOST_ENDPOINTS).contains(&given) {
            let problem = format!("{given} endpoints");
            self.errors.add(value.span().start, &path.key("etcd"), problem, format!("1 to {MOST_ENDPOINTS}"));
        }
        let prefix = match table.get("prefix") {
            None => format!("/millrace/media/{pool}/"),
            Some(own) => self.parsed(own, &path.key("prefix"), PREFIX, |text| {
                let fits = text.ends_with('/') && text.bytes().all(|byte| byte.is_ascii_graphic());
                fits.then(|| text.to_owned())
            })?,
        };
        let tls = self.tls_files(table, value, path);
        if let Some(own) = endpoints.iter().find(|own| own.secure && tls.ca.is_none()) {
            let problem = format!("`ca` is missing, by which {own} is checked");
            self.errors.add(value.span().start, path, problem, "a file with certificates, in PEM");
        }
        let credentials = self.credentials(table, value, path);
        Some(Etcd { endpoints, prefix, tls, credentials })
    }

    fn tls_files(&mut self, table: &Table, value: &Value, path: &Path) -> TlsFiles {
        let mut file = |key| document::text_at(table, path, key, "a file in PEM", self.errors).map(PathBuf::from);
        let (ca, certificate, key) = (file("ca"), file("certificate"), file("key"));
        if certificate.is_some() != key.is_some() {
            let (problem, accepted) = ("`certificate` and `key` belong together", "both of them, or neither");
            self.errors.add(value.span().start, path, problem, accepted);
        }
        TlsFiles { ca, own: certificate.zip(key) }
    }

    fn announce(&mut self, table: &Table, value: &Value, path: &Path) -> Option<Announce> {
        let weight = self.number(table, path, "weight", 0, 1000, 1) as u32;
        let ttl = self.ttl(table, path);
        let Some(given) = table.get("announce") else {
            if let Some(key) = ["weight", "ttl"].into_iter().find(|key| table.contains_key(*key)) {
                let problem = format!("`announce` is missing, which `{key}` belongs to");
                let accepted = "the host and the port where siblings reach this proxy";
                self.errors.add(value.span().start, path, problem, accepted);
            }
            return None;
        };
        let (host, port) = self.address(given, &path.key("announce"))?;
        Some(Announce { host, port, weight, ttl })
    }

    fn ttl(&mut self, table: &Table, path: &Path) -> Duration {
        let usual = Duration::from_secs(15);
        let Some(value) = table.get("ttl") else { return usual };
        let accepted = "a time from \"2s\" to \"10min\", such as \"15s\"";
        let found = self.parsed(value, &path.key("ttl"), accepted, |text| {
            let time = baker::syntax::duration(text).map(Duration::from_nanos)?;
            (2..=600).contains(&time.as_secs()).then_some(Duration::from_secs(time.as_secs()))
        });
        found.unwrap_or(usual)
    }

    fn kubernetes(&mut self, value: &Value, path: &Path) -> Option<Kubernetes> {
        let table = document::table(value, path, self.errors)?;
        let known = ["service", "namespace", "port", "api", "ca", "certificate", "key", "token"];
        document::only(table, path, &known, self.errors);
        let Some(service) = table.get("service") else {
            self.errors.add(value.span().start, path, "`service` is missing", SERVICE);
            return None;
        };
        let service = self.parsed(service, &path.key("service"), SERVICE, kubernetes_name)?;
        let namespace = match table.get("namespace") {
            Some(own) => Some(self.parsed(own, &path.key("namespace"), SERVICE, kubernetes_name)?),
            None => None,
        };
        let port = match table.get("port") {
            None => None,
            Some(own) if own.get_ref().as_str().is_some() => {
                let accepted = "a port's name in the service, or its number at the endpoints";
                Some(ServicePort::Named(self.parsed(own, &path.key("port"), accepted, kubernetes_name)?))
            }
            Some(_) => Some(ServicePort::Number(self.number(table, path, "port", 1, 65535, 1) as u16)),
        };
        let api = match table.get("api") {
            Some(own) => Some(self.parsed(own, &path.key("api"), ENDPOINT, |text| endpoint(text, 443))?),
            None => None,
        };
        let mut tls = self.tls_files(table, value, path);
        let mut token = document::text_at(table, path, "token", "a file", self.errors).map(PathBuf::from);
        // Who asks in the clear shows no token that it was not told to show.
        if api.as_ref().is_none_or(|own| own.secure) {
            tls.ca.get_or_insert_with(|| format!("{SERVICE_ACCOUNT}/ca.crt").into());
            token.get_or_insert_with(|| format!("{SERVICE_ACCOUNT}/token").into());
        }
        Some(Kubernetes { service, namespace, port, api, tls, token })
    }
}

/// `http://host:port`, `https://[address]`.
fn endpoint(text: &str, usual: u16) -> Option<Endpoint> {
    let (scheme, rest) = text.split_once("://")?;
    let secure = match scheme {
        "https" => true,
        "http" => false,
        _ => return None,
    };
    let (host, port) = host_port(rest.strip_suffix('/').unwrap_or(rest))?;
    Some(Endpoint { secure, host: host.to_ascii_lowercase(), port: port.unwrap_or(usual) })
}

fn kubernetes_name(text: &str) -> Option<String> {
    let plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"-.".contains(&byte);
    ((1..=253).contains(&text.len()) && text.bytes().all(plain)).then(|| text.to_owned())
}
