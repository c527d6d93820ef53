//! Where the members of a pool are found that are not listed: in etcd, or among the endpoints of a Kubernetes service.

use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use wire::rtsp::url::authority;

use super::Credentials;

/// Who knows the members of a pool.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Source {
    /// Keys of etcd.
    Etcd(Etcd),
    /// Endpoints of a service of Kubernetes.
    Kubernetes(Kubernetes),
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Source::Etcd(own) => write!(f, "etcd {}", own.prefix),
            Source::Kubernetes(own) => match &own.namespace {
                Some(namespace) => write!(f, "kubernetes {namespace}/{}", own.service),
                None => write!(f, "kubernetes {}", own.service),
            },
        }
    }
}

/// A server that is asked by HTTP.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Endpoint {
    /// Whether by TLS.
    pub secure: bool,
    /// Its host, by name or address, without brackets.
    pub host: String,
    /// Its port.
    pub port: u16,
}

impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scheme = if self.secure { "https" } else { "http" };
        write!(f, "{scheme}://{}", authority(&self.host, Some(self.port)))
    }
}

/// Files of TLS, in PEM. They are read for each connection, so that new ones are in force without a reload.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TlsFiles {
    /// Certificates that servers are checked by.
    pub ca: Option<PathBuf>,
    /// Who this proxy is: its certificate with those above it, and its private key.
    pub own: Option<(PathBuf, PathBuf)>,
}

/// Keys of etcd: each is a member's name behind a prefix, its value says where it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Etcd {
    /// Servers of one cluster; one is asked, and the next one where that fails.
    pub endpoints: Vec<Endpoint>,
    /// The prefix, which ends with `/`.
    pub prefix: String,
    /// How servers by TLS are asked.
    pub tls: TlsFiles,
    /// Who asks, where etcd has users of its own.
    pub credentials: Option<Credentials>,
}

/// Endpoints of a service of Kubernetes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Kubernetes {
    /// The service.
    pub service: String,
    /// Its namespace; none: that of this proxy's pod.
    pub namespace: Option<String>,
    /// The port of RTSP; none: the only one that endpoints have.
    pub port: Option<ServicePort>,
    /// The API server; none: the one that pods are told.
    pub api: Option<Endpoint>,
    /// How it is asked by TLS.
    pub tls: TlsFiles,
    /// The file of the token that says who asks; none: without.
    pub token: Option<PathBuf>,
}

/// A port of a service's endpoints.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ServicePort {
    /// By its name in the service.
    Named(String),
    /// By its number.
    Number(u16),
}

/// What this proxy says of itself in etcd.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Announce {
    /// Where its siblings reach it: a host, by name or address, without brackets.
    pub host: String,
    /// Its port; none: that of RTSP.
    pub port: Option<u16>,
    /// Its share of the streams.
    pub weight: u32,
    /// After so long without a sign of it etcd removes it.
    pub ttl: Duration,
}
