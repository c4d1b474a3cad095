//! TLS: certificates and keys from PEM files, for the server and for the way to Prometheus.

use std::path::Path;
use std::sync::Arc;

use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ClientConfig, RootCertStore, ServerConfig};

/// Why a certificate or key cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("cannot use {file}: {why}")]
pub struct TlsError {
    file: String,
    why: String,
}

fn wrong(file: &Path, why: impl std::fmt::Display) -> TlsError {
    TlsError { file: file.display().to_string(), why: why.to_string() }
}

fn certificates(file: &Path) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let all = CertificateDer::pem_file_iter(file).map_err(|error| wrong(file, error))?;
    let all = all.collect::<Result<Vec<_>, _>>().map_err(|error| wrong(file, error))?;
    if all.is_empty() { Err(wrong(file, "it holds no certificate in PEM form")) } else { Ok(all) }
}

fn key(file: &Path) -> Result<PrivateKeyDer<'static>, TlsError> {
    PrivateKeyDer::from_pem_file(file).map_err(|error| wrong(file, error))
}

/// Settings of a server with this certificate.
pub fn server(certificate_file: &Path, key_file: &Path) -> Result<Arc<ServerConfig>, TlsError> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| wrong(certificate_file, error))?;
    let config = builder
        .with_no_client_auth()
        .with_single_cert(certificates(certificate_file)?, key(key_file)?)
        .map_err(|error| wrong(certificate_file, format!("{error} (key: {})", key_file.display())))?;
    Ok(Arc::new(config))
}

/// Settings of a client that trusts this CA, with a certificate of its own if one is given.
pub fn client(ca_file: &Path, own: Option<(&Path, &Path)>) -> Result<Arc<ClientConfig>, TlsError> {
    let mut roots = RootCertStore::empty();
    for certificate in certificates(ca_file)? {
        roots.add(certificate).map_err(|error| wrong(ca_file, error))?;
    }
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| wrong(ca_file, error))?
        .with_root_certificates(roots);
    let config = match own {
        None => builder.with_no_client_auth(),
        Some((certificate_file, key_file)) => builder
            .with_client_auth_cert(certificates(certificate_file)?, key(key_file)?)
            .map_err(|error| wrong(certificate_file, error))?,
    };
    Ok(Arc::new(config))
}
