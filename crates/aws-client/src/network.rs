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

#[cfg(test)]
mod tests {
    use super::*;

    fn read(env: &[(&str, &str)]) -> Surroundings {
        Surroundings::read(&|name| env.iter().find(|(key, _)| *key == name).map(|(_, value)| (*value).to_owned()))
    }

    #[test]
    fn the_environment_names_proxy_and_certificates() {
        let found = read(&[
            ("HTTPS_PROXY", "http://outer:3128"),
            ("https_proxy", "inner:3128"),
            ("HTTP_PROXY", "http://other"),
            ("NO_PROXY", ".internal,10.0.0.0/8"),
            ("AWS_CA_BUNDLE", "/etc/ca.pem"),
        ]);
        assert_eq!(found.proxy, Some(("https_proxy", "inner:3128".to_owned())));
        assert_eq!(found.no_proxy.as_deref(), Some(".internal,10.0.0.0/8"));
        assert_eq!(found.ca_bundle, Some(PathBuf::from("/etc/ca.pem")));
        assert!(found.proxy().is_ok(), "a scheme may be left out");
        assert_eq!(read(&[("HTTP_PROXY", "http://other"), ("HTTPS_PROXY", "")]), Surroundings::default());
        assert_eq!(read(&[("ALL_PROXY", "http://all")]).proxy, Some(("ALL_PROXY", "http://all".to_owned())));
    }

    #[test]
    fn what_cannot_be_used_is_named() {
        let error = read(&[("HTTPS_PROXY", "ftp://x")]).http_client().unwrap_err();
        assert_eq!(error.to_string(), "HTTPS_PROXY: \"ftp://x\" is no address of a proxy");
        let error = read(&[("AWS_CA_BUNDLE", "/nowhere/ca.pem")]).http_client().unwrap_err();
        assert_eq!(error.to_string(), "AWS_CA_BUNDLE: cannot read /nowhere/ca.pem");
        let error = read(&[("AWS_CA_BUNDLE", concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.toml"))]);
        let error = error.http_client().unwrap_err();
        assert!(error.to_string().ends_with("Cargo.toml holds no certificate in PEM form"), "{error}");
    }
}
