//! Certificate and key, from files in PEM.

use std::fmt::{self, Debug};
use std::path::Path;
use std::sync::Arc;

use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::pki_types::pem::{self, PemObject};
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::rustls::{ServerConfig, crypto};

/// What an endpoint proves itself by.
#[derive(Clone)]
pub struct Tls {
    /// As files have them: where these are the same, so is this.
    files: [Vec<u8>; 2],
    config: Arc<ServerConfig>,
}

impl PartialEq for Tls {
    fn eq(&self, other: &Tls) -> bool {
        self.files == other.files
    }
}

impl Debug for Tls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Not the key.
        f.debug_struct("Tls").finish_non_exhaustive()
    }
}

impl Tls {
    /// Reads the files of a certificate, with those that lead to its root, and of its key.
    ///
    /// # Errors
    /// Which file can't be read or is not what it should be, and why.
    pub fn read(certificate: &Path, key: &Path) -> Result<Tls, String> {
        let read = |path: &Path| std::fs::read(path).map_err(|error| format!("{}: {error}", path.display()));
        let files = [read(certificate)?, read(key)?];
        let of = |path: &Path, error: &dyn fmt::Display| format!("{}: {error}", path.display());
        let none = |path: &Path, what: &str, error: pem::Error| match error {
            pem::Error::NoItemsFound => format!("{}: there is no {what} in it", path.display()),
            error => of(path, &error),
        };
        let all: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&files[0]).collect();
        let all = all.map_err(|error| none(certificate, "certificate", error))?;
        if all.is_empty() {
            return Err(of(certificate, &"there is no certificate in it"));
        }
        let own = PrivateKeyDer::from_pem_slice(&files[1]).map_err(|error| none(key, "key", error))?;
        let builder = ServerConfig::builder_with_provider(Arc::new(crypto::ring::default_provider()));
        let builder = builder.with_safe_default_protocol_versions().map_err(|error| of(certificate, &error))?;
        let config = builder.with_no_client_auth().with_single_cert(all, own);
        let mut config = config.map_err(|error| of(certificate, &format_args!("with {}: {error}", key.display())))?;
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        Ok(Tls { files, config: Arc::new(config) })
    }

    pub(crate) fn acceptor(&self) -> TlsAcceptor {
        self.config.clone().into()
    }
}
