//! The two clusters that are asked.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use karpenter_cluster::clock::Clock;
use karpenter_cluster::kubelet::Machine;
use karpenter_cluster::{Cluster, Parts, Settings, furniture};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};

use crate::normal;

/// `karpenter cluster`, until this is dropped.
pub(crate) struct Embedded {
    child: Child,
    pub(crate) kubeconfig: PathBuf,
}

impl Embedded {
    pub(crate) fn start() -> Self {
        let kubeconfig = scratch("embedded.kubeconfig");
        let mut command = Command::new(env!("CARGO_BIN_EXE_karpenter"));
        command.args(["cluster", "--rbac", "--kubeconfig"]).arg(&kubeconfig).stdout(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let out = child.stdout.take().unwrap();
        let running = Self { child, kubeconfig };
        let ready = BufReader::new(out).lines().any(|line| line.unwrap().starts_with("export KUBECONFIG="));
        assert!(ready, "the embedded cluster ended before it was ready");
        running
    }
}

impl Drop for Embedded {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A real control plane, with our kubelets as its nodes until this is dropped.
pub(crate) struct Reference {
    pub(crate) kubeconfig: PathBuf,
    _cluster: Cluster,
    _runtime: tokio::runtime::Runtime,
}

impl Reference {
    pub(crate) fn furnish(kubeconfig: &Path) -> Self {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        let cluster = runtime.block_on(async {
            let read = Kubeconfig::read_from(kubeconfig).unwrap();
            let config = Config::from_custom_kubeconfig(read, &KubeConfigOptions::default()).await.unwrap();
            let client = Client::try_from(config).unwrap();
            furniture::install(&client).await.unwrap();
            let parts = Parts { kubelets: true, ..Parts::NONE };
            #[expect(clippy::disallowed_methods, reason = "the cluster is a real one")]
            let clock = Clock::starting_at(jiff::Timestamp::now());
            let cluster = Cluster::start(client, clock, Settings { parts, ..Settings::default() });
            for n in 1..=3 {
                let machine = Machine::new(&format!("node-{n}"), "4", "16Gi");
                cluster.handle().add_machine(machine).await.unwrap();
            }
            cluster
        });
        Self { kubeconfig: kubeconfig.to_owned(), _cluster: cluster, _runtime: runtime }
    }
}

/// One of the two, as commands see it.
pub(crate) struct Side {
    home: PathBuf,
    path: String,
    kubeconfig: PathBuf,
}

impl Side {
    pub(crate) fn new(name: &str, programs: &Path, kubeconfig: &Path) -> Self {
        let home = scratch(name);
        std::fs::create_dir_all(&home).unwrap();
        let path = format!("{}:{}", programs.display(), std::env::var("PATH").unwrap());
        Self { home, path, kubeconfig: kubeconfig.to_owned() }
    }

    /// Makes a namespace for a script and waits until pods can be created in it.
    pub(crate) fn enter(&self, namespace: &str) {
        let wait = "kubectl wait --for=create serviceaccount/default configmap/kube-root-ca.crt --timeout=30s";
        let ready = "kubectl wait --for=condition=Ready nodes --all --timeout=30s";
        let answer = self.run(&format!("kubectl create namespace {namespace} && {wait} && {ready}"), namespace);
        assert!(answer.ends_with("status 0"), "{answer}");
    }

    /// What a command prints on both outputs, made comparable, and its exit status.
    pub(crate) fn run(&self, command: &str, namespace: &str) -> String {
        let kubeconfig = self.home.join(format!("{namespace}.kubeconfig"));
        if !kubeconfig.exists() {
            let text = std::fs::read_to_string(&self.kubeconfig).unwrap();
            std::fs::write(&kubeconfig, text).unwrap();
            self.run(&format!("kubectl config set-context --current --namespace={namespace}"), namespace);
        }
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/kubectl/files");
        let output = Command::new("bash")
            .args(["-c", &format!("{{ {command}\n}} 2>&1")])
            .current_dir(folder)
            .env_clear()
            .env("HOME", &self.home)
            .env("PATH", &self.path)
            .env("KUBECONFIG", &kubeconfig)
            .output()
            .unwrap();
        let text = String::from_utf8_lossy(&output.stdout);
        format!("{}\nstatus {}", normal::text(&text), output.status.code().unwrap_or(-1))
    }
}

fn scratch(name: &str) -> PathBuf {
    Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("kubectl-{}-{name}", std::process::id()))
}
