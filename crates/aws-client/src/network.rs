//! How bytes reach AWS: rustls with ring, through a proxy where one is set, trusting whom the operator trusts.

use std::path::PathBuf;

use aws_smithy_http_client::proxy::ProxyConfig;
use aws_smithy_http_client::tls::rustls_provider::CryptoMode;
use aws_smithy_http_client::tls::{self, TlsContext, TrustStore};
use aws_smithy_http_client::{Builder, Connector};
use aws_smithy_runtime_api::client::http::SharedHttpClient;

#[derive(Debug, thiserror::Error)]
pub enum NetworkError {
    #[error("AWS_CA_BUNDLE: cannot read {path}")]
    Bundle {
        path: PathBuf,
        #[source]
        source: std::io::Error,
    },
    #[error("AWS_CA_BUNDLE: {path} holds no certificate in PEM form")]
    NoCertificate { path: PathBuf },
    #[error("{variable}: {url:?} is no address of a proxy")]
    Proxy { variable: &'static str, url: String },
    #[error("the certificates cannot be used")]
    Trust(#[source] Box<dyn std::error::Error + Send + Sync>),
}

/// What the environment says about the network, each from the variable named like it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Surroundings {
    pub(crate) proxy: Option<(&'static str, String)>,
    pub(crate) no_proxy: Option<String>,
    pub(crate) ca_bundle: Option<PathBuf>,
}

impl Surroundings {
    /// As other tools read them: lower case first, empty counts as absent. AWS is reached over HTTPS alone; what
    /// answers over plain HTTP is on this machine (metadata service, Pod Identity agent) and never behind a proxy, so
    /// HTTP_PROXY is no concern of ours.
    pub(crate) fn read(env: &dyn Fn(&str) -> Option<String>) -> Self {
        let set = |name: &str| env(name).filter(|value| !value.is_empty());
        let first = |names: [&'static str; 2]| names.into_iter().find_map(|name| Some((name, set(name)?)));
        Self {
            proxy: first(["https_proxy", "HTTPS_PROXY"]).or_else(|| first(["all_proxy", "ALL_PROXY"])),
            no_proxy: first(["no_proxy", "NO_PROXY"]).map(|(_, list)| list),
            ca_bundle: set("AWS_CA_BUNDLE").map(PathBuf::from),
        }
    }

    fn proxy(&self) -> Result<ProxyConfig, NetworkError> {
        let Some((variable, given)) = &self.proxy else { return Ok(ProxyConfig::disabled()) };
        // People leave the scheme out.
        let url = if given.contains("://") { given.clone() } else { format!("http://{given}") };
        let proxy = ProxyConfig::https(url.as_str());
        let proxy = proxy.map_err(|_| NetworkError::Proxy { variable, url: given.clone() })?;
        Ok(match &self.no_proxy {
            Some(list) => proxy.no_proxy(list),
            None => proxy,
        })
    }

    fn trust(&self) -> Result<TlsContext, NetworkError> {
        let store = match &self.ca_bundle {
            None => TrustStore::default(),
            // Instead of the system's, as the other SDKs have it.
            Some(path) => {
                let pem = std::fs::read(path).map_err(|source| NetworkError::Bundle { path: path.clone(), source })?;
                if !String::from_utf8_lossy(&pem).contains("-----BEGIN CERTIFICATE-----") {
                    return Err(NetworkError::NoCertificate { path: path.clone() });
                }
                TrustStore::empty().with_pem_certificate(pem)
            }
        };
        let context = TlsContext::builder().with_trust_store(store).build();
        context.map_err(|error| NetworkError::Trust(Box::new(error)))
    }

    /// The one HTTP client of all services, so that they share connections.
    pub(crate) fn http_client(&self) -> Result<SharedHttpClient, NetworkError> {
        let (proxy, trust) = (self.proxy()?, self.trust()?);
        Ok(Builder::new().build_with_connector_fn(move |settings, components| {
            let mut connector = Connector::builder()
                .tls_provider(tls::Provider::Rustls(CryptoMode::Ring))
                .tls_context(trust.clone())
                .proxy_config(proxy.clone());
            connector.set_connector_settings(settings.cloned());
            connector.set_sleep_impl(components.and_then(|components| components.sleep_impl()));
            connector.build()
        }))
    }
}

// By its path, which holds from `tests/unit.rs` too.
#[cfg(test)]
#[path = "network/tests.rs"]
mod tests;
