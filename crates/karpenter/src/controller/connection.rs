//! The cluster we were told about, and what of it must be known before the start.

use std::path::Path;

use anyhow::{Context as _, bail};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use k8s_openapi::api::core::v1::Service;
use karpenter_provider_aws::Settings;
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Api, Client, Config};
use serde_json::Value;

use crate::settings::controller::ControllerSettings;

/// The cluster's name, where nobody gave one.
const DEFAULT_NAME: &str = "simulated";
const CRDS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
const FIELD_MANAGER: &str = "karpenter";

pub(crate) struct Connection {
    pub(crate) client: Client,
    config: Config,
}

impl Connection {
    /// KUBECONFIG, the usual file at home, or the service account of the pod we run in.
    pub(crate) async fn from_environment() -> anyhow::Result<Self> {
        let config = Config::infer().await.context("no cluster: set KUBECONFIG")?;
        Self::new(config)
    }

    pub(crate) async fn from_file(file: &Path) -> anyhow::Result<Self> {
        let read = Kubeconfig::read_from(file).with_context(|| format!("cannot read {}", file.display()))?;
        let config = Config::from_custom_kubeconfig(read, &KubeConfigOptions::default()).await;
        Self::new(config.with_context(|| format!("{} is no usable kubeconfig", file.display()))?)
    }

    fn new(config: Config) -> anyhow::Result<Self> {
        let client = Client::try_from(config.clone()).context("cannot connect")?;
        Ok(Self { client, config })
    }

    /// Where we keep what is ours.
    pub(crate) fn namespace(&self) -> String {
        let given = std::env::var("SYSTEM_NAMESPACE").ok().filter(|name| !name.is_empty());
        given.unwrap_or_else(|| self.config.default_namespace.clone())
    }

    pub(crate) async fn install_crds(&self) -> anyhow::Result<()> {
        for crd in karpenter_api::crds() {
            let name = crd["metadata"]["name"].as_str().unwrap_or_default().to_owned();
            let path = format!("{CRDS}/{name}?fieldManager={FIELD_MANAGER}&force=true");
            let request = http::Request::patch(path).header(http::header::CONTENT_TYPE, "application/apply-patch+yaml");
            let request = request.body(crd.to_string().into_bytes()).context("the request is well-formed")?;
            self.client.request::<Value>(request).await.with_context(|| format!("cannot apply the CRD {name}"))?;
        }
        // Definitions are served a moment after they are written.
        for _ in 0..100 {
            if self.missing_kinds().await?.is_empty() {
                break;
            }
            tokio::time::sleep(std::time::Duration::from_millis(100)).await;
        }
        Ok(())
    }

    /// Without our kinds nothing can be watched: better to say so than to wait.
    pub(crate) async fn check_crds(&self) -> anyhow::Result<()> {
        let missing = self.missing_kinds().await?;
        if !missing.is_empty() {
            bail!(
                "the cluster does not know {}: run `karpenter crds | kubectl apply --server-side -f -`, or start with \
                 --install-crds",
                missing.join(", ")
            );
        }
        Ok(())
    }

    async fn missing_kinds(&self) -> anyhow::Result<Vec<String>> {
        let mut missing = Vec::new();
        for (group, kinds) in
            [("karpenter.sh/v1", &["NodePool", "NodeClaim"][..]), ("karpenter.k8s.aws/v1", &["EC2NodeClass"])]
        {
            let request = http::Request::get(format!("/apis/{group}")).body(Vec::new())?;
            let served = match self.client.request::<Value>(request).await {
                Ok(list) => list["resources"].as_array().cloned().unwrap_or_default(),
                Err(kube::Error::Api(status)) if status.code == 404 => Vec::new(),
                Err(error) => return Err(error).context("cannot ask the cluster which kinds it knows"),
            };
            let known = |kind: &str| served.iter().any(|resource| resource["kind"] == kind);
            missing.extend(kinds.iter().filter(|kind| !known(kind)).map(|kind| format!("{kind} ({group})")));
        }
        Ok(missing)
    }

    /// What machines are told about the cluster.
    pub(crate) async fn facts(&self, given: &ControllerSettings) -> anyhow::Result<Settings> {
        let version = self.client.apiserver_version().await.context("cannot ask the cluster for its version")?;
        let minor = version.minor.trim_end_matches(|c: char| !c.is_ascii_digit());
        let name = given.cluster_name.clone().unwrap_or_else(|| DEFAULT_NAME.to_owned());
        let endpoint = given.cluster_endpoint.clone();
        let endpoint = endpoint.unwrap_or_else(|| self.config.cluster_url.to_string().trim_end_matches('/').to_owned());
        Ok(Settings {
            ca_bundle: given.cluster_ca_bundle.clone().or_else(|| self.ca_bundle()),
            cluster_dns: self.dns_address().await,
            disable_dry_run: given.disable_dry_run,
            ec2: given.shared.ec2,
            strict_min_values: given.shared.core.min_values == karpenter_core::settings::MinValuesPolicy::Strict,
            ..Settings::new(&name, &endpoint, &format!("{}.{minor}", version.major))
        })
    }

    /// The certificate authority we trust ourselves, as PEM in base64.
    fn ca_bundle(&self) -> Option<String> {
        let pem = |der: &Vec<u8>| {
            let text = STANDARD.encode(der);
            let lines: Vec<&str> =
                text.as_bytes().chunks(64).filter_map(|line| std::str::from_utf8(line).ok()).collect();
            format!("-----BEGIN CERTIFICATE-----\n{}\n-----END CERTIFICATE-----\n", lines.join("\n"))
        };
        let all: String = self.config.root_cert.as_ref()?.iter().map(pem).collect();
        (!all.is_empty()).then(|| STANDARD.encode(all))
    }

    /// A cluster without the service, or one we may not read, is served all the same.
    async fn dns_address(&self) -> Option<String> {
        let services: Api<Service> = Api::namespaced(self.client.clone(), "kube-system");
        let service = services.get_opt("kube-dns").await.ok().flatten()?;
        service.spec?.cluster_ip.filter(|address| !address.is_empty() && address != "None")
    }
}
