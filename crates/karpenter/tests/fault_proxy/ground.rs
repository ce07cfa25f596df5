//! What the proxy stands before: an embedded server with everything around it, or a control plane of its own.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use karpenter_apiserver::{ApiServer, Clock as _, Listening, Options, SystemClock};
use karpenter_cluster::clock::Clock;
use karpenter_cluster::{Cluster, Settings, furniture};
use karpenter_sim::world::send;
use kube::Client;
use kube::config::{KubeConfigOptions, Kubeconfig};
use serde_json::Value;
use tokio::time::sleep;

const CRDS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
const LAST_KIND: &str = "/apis/karpenter.k8s.aws/v1/ec2nodeclasses";

/// An API server that serves our kinds.
pub(crate) struct Ground {
    /// Past the proxy: the way of users and of everybody else in the cluster.
    pub(crate) client: Client,
    /// The same way for the simulated region.
    pub(crate) kubeconfig: PathBuf,
    embedded: Option<(Cluster, Listening)>,
}

impl Ground {
    pub(crate) async fn embedded(folder: &Path) -> Self {
        let clock = SystemClock;
        let now = clock.now();
        let server = ApiServer::new(Options { clock: Arc::new(clock), seed: 1, ..Options::new() });
        let listening = server.listen(0).await.unwrap();
        let kubeconfig = folder.join("direct.kubeconfig");
        std::fs::write(&kubeconfig, listening.kubeconfig()).unwrap();
        let client = Client::new(server.service(), "default");
        let settings = Settings { root_ca: Some(listening.ca_pem.clone()), ..Settings::default() };
        let cluster = Cluster::start(client.clone(), Clock::starting_at(now), settings);
        furniture::install(&client).await.unwrap();
        serve_our_kinds(&client).await;
        Self { client, kubeconfig, embedded: Some((cluster, listening)) }
    }

    pub(crate) async fn of_control_plane(kubeconfig: &Path) -> Self {
        let read = Kubeconfig::read_from(kubeconfig).unwrap();
        let mut config = kube::Config::from_custom_kubeconfig(read, &KubeConfigOptions::default()).await.unwrap();
        // Whoever is refused by a budget has to learn of it.
        config.default_retry = false;
        let client = Client::try_from(config).unwrap();
        serve_our_kinds(&client).await;
        Self { client, kubeconfig: kubeconfig.to_owned(), embedded: None }
    }

    /// It goes when this is dropped, with all that is on it.
    pub(crate) fn is_embedded(&self) -> bool {
        self.embedded.is_some()
    }
}

async fn serve_our_kinds(client: &Client) {
    for crd in karpenter_api::crds() {
        match send(client, "POST", CRDS, "application/json", &crd).await {
            Ok(_) => {}
            // Of an earlier run.
            Err(kube::Error::Api(status)) if status.code == 409 => {}
            Err(error) => panic!("our kinds: {error}"),
        }
    }
    while send(client, "GET", LAST_KIND, "application/json", &Value::Null).await.is_err() {
        sleep(Duration::from_millis(100)).await;
    }
}
