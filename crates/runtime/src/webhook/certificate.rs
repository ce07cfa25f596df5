//! The webhook's certificate, kept in a Secret so that all replicas show the same one.

use std::collections::BTreeMap;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::Secret;
use kube::api::{ObjectMeta, PostParams};
use kube::{Api, Client};
use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair, KeyUsagePurpose,
};
use rustls::ServerConfig;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};

/// A year, as long as clocks are not too far apart.
const VALID: SignedDuration = SignedDuration::from_hours(365 * 24);
/// Renewed when so much is left of it.
const RENEW: SignedDuration = SignedDuration::from_hours(30 * 24);
/// Clocks of API servers that are behind ours accept it as well.
const BEFORE: SignedDuration = SignedDuration::from_hours(24);
/// How often replicas look whether another one has renewed it.
pub(super) const LOOK_AGAIN: Duration = Duration::from_secs(60);

// The names that upstream's webhook had for these.
const SERVER_KEY: &str = "server-key.pem";
const SERVER_CERT: &str = "server-cert.pem";
const CA_CERT: &str = "ca-cert.pem";
/// Ours: when the certificate ends, so that nobody needs to take it apart.
const EXPIRES: &str = "expires";

#[derive(Debug, thiserror::Error)]
pub enum CertificateError {
    #[error("cannot make a certificate")]
    Make(#[from] rcgen::Error),
    #[error("the certificate cannot be used")]
    Tls(#[from] rustls::Error),
    #[error("the certificate cannot be read: {0}")]
    Pem(String),
    #[error("Secret {name}")]
    Secret {
        name: String,
        #[source]
        source: kube::Error,
    },
}

/// A certificate, its key and who vouches for it, as PEM.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Certificate {
    key: String,
    certificate: String,
    authority: String,
    expires: Timestamp,
}

impl Certificate {
    /// For these host names, from now on.
    pub fn make(names: &[String], now: Timestamp) -> Result<Self, CertificateError> {
        let expires = now + VALID;
        let dated = |mut params: CertificateParams| {
            let date = |at: Timestamp| {
                let date = at.to_zoned(jiff::tz::TimeZone::UTC).date();
                rcgen::date_time_ymd(date.year().into(), date.month().unsigned_abs(), date.day().unsigned_abs())
            };
            params.not_before = date(now - BEFORE);
            // The day after, because days are all the date has.
            params.not_after = date(expires + SignedDuration::from_hours(24));
            params
        };
        let ca_key = KeyPair::generate()?;
        let mut ca = dated(CertificateParams::new(Vec::new())?);
        ca.distinguished_name.push(DnType::CommonName, "karpenter-webhook-ca");
        ca.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        ca.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::DigitalSignature];
        let authority = ca.self_signed(&ca_key)?;
        let issuer = Issuer::from_params(&ca, &ca_key);
        let key = KeyPair::generate()?;
        let mut server = dated(CertificateParams::new(names.to_vec())?);
        server.distinguished_name.push(DnType::CommonName, names.first().map_or("karpenter", String::as_str));
        server.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        let certificate = server.signed_by(&key, &issuer)?;
        Ok(Self { key: key.serialize_pem(), certificate: certificate.pem(), authority: authority.pem(), expires })
    }

    /// As `caBundle` wants it: base64 of the PEM.
    pub fn ca_bundle(&self) -> String {
        STANDARD.encode(&self.authority)
    }

    pub fn authority(&self) -> &str {
        &self.authority
    }

    pub(super) fn server_config(&self) -> Result<ServerConfig, CertificateError> {
        let unreadable = |error: rustls::pki_types::pem::Error| CertificateError::Pem(error.to_string());
        let certificate = CertificateDer::from_pem_slice(self.certificate.as_bytes()).map_err(unreadable)?;
        let key = PrivateKeyDer::from_pem_slice(self.key.as_bytes()).map_err(unreadable)?;
        let provider = std::sync::Arc::new(rustls::crypto::ring::default_provider());
        let config = ServerConfig::builder_with_provider(provider).with_safe_default_protocol_versions()?;
        Ok(config.with_no_client_auth().with_single_cert(vec![certificate], key)?)
    }

    fn is_fresh(&self, now: Timestamp) -> bool {
        now + RENEW < self.expires
    }

    fn read(secret: &Secret) -> Option<Self> {
        let data = secret.data.as_ref()?;
        let text = |key: &str| String::from_utf8(data.get(key)?.0.clone()).ok().filter(|text| !text.is_empty());
        Some(Self {
            key: text(SERVER_KEY)?,
            certificate: text(SERVER_CERT)?,
            authority: text(CA_CERT)?,
            expires: text(EXPIRES)?.parse().ok()?,
        })
    }

    fn data(&self) -> BTreeMap<String, ByteString> {
        let expires = self.expires.to_string();
        [(SERVER_KEY, &self.key), (SERVER_CERT, &self.certificate), (CA_CERT, &self.authority), (EXPIRES, &expires)]
            .map(|(name, text)| (name.to_owned(), ByteString(text.as_bytes().to_vec())))
            .into()
    }
}

/// Looks after the Secret.
pub struct Keeper {
    client: Client,
    secrets: Api<Secret>,
    secret: String,
    names: Vec<String>,
}

impl Keeper {
    /// For a Service; the Secret is called after it.
    pub fn new(client: Client, namespace: &str, service: &str) -> Self {
        let names = [
            format!("{service}.{namespace}.svc"),
            format!("{service}.{namespace}.svc.cluster.local"),
            format!("{service}.{namespace}"),
            service.to_owned(),
        ];
        let secrets = Api::namespaced(client.clone(), namespace);
        Self { secrets, client, secret: format!("{service}-cert"), names: names.to_vec() }
    }

    pub(super) fn client(&self) -> &Client {
        &self.client
    }

    /// One that nobody keeps, for a start before the Secret can be read.
    pub fn makeshift(&self, now: Timestamp) -> Result<Certificate, CertificateError> {
        Certificate::make(&self.names, now)
    }

    /// The one in the Secret, or a new one that is put there.
    pub async fn current(&self, now: Timestamp) -> Result<Certificate, CertificateError> {
        let failed = |source| CertificateError::Secret { name: self.secret.clone(), source };
        loop {
            let found = self.secrets.get_opt(&self.secret).await.map_err(failed)?;
            if let Some(kept) = found.as_ref().and_then(Certificate::read).filter(|kept| kept.is_fresh(now)) {
                return Ok(kept);
            }
            let made = Certificate::make(&self.names, now)?;
            let written = match found {
                Some(mut secret) => {
                    secret.data = Some(made.data());
                    self.secrets.replace(&self.secret, &PostParams::default(), &secret).await
                }
                None => {
                    let metadata = ObjectMeta { name: Some(self.secret.clone()), ..ObjectMeta::default() };
                    let secret = Secret { metadata, data: Some(made.data()), ..Secret::default() };
                    self.secrets.create(&PostParams::default(), &secret).await
                }
            };
            match written {
                Ok(_) => return Ok(made),
                // Another replica was faster: theirs it is.
                Err(kube::Error::Api(status)) if status.code == 409 => {}
                Err(source) => return Err(failed(source)),
            }
        }
    }
}
