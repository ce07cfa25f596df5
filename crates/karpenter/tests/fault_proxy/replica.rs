//! The controller in a process of its own, with somebody who plays its kubelet: restarts it when it ends, and when
//! `/healthz` asks for that.

use std::collections::BTreeSet;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep, timeout};

/// As the chart has it.
const INITIAL_DELAY: Duration = Duration::from_secs(30);
const PERIOD: Duration = Duration::from_secs(10);
const TIMEOUT: Duration = Duration::from_secs(30);
const FAILURES: u32 = 3;
/// It is asked to end, and then ended.
const GRACE: Duration = Duration::from_secs(30);
const LOOK: Duration = Duration::from_millis(200);

/// Runs until it is dropped.
pub(crate) struct Replica {
    ends: Arc<Mutex<Vec<End>>>,
    health: u16,
    finish: watch::Sender<bool>,
    kubelet: JoinHandle<()>,
}

/// Why a process ended that nobody asked to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum End {
    LostLease,
    /// What hung.
    Hung(String),
    /// What it said last.
    Exited(String),
}

impl Drop for Replica {
    fn drop(&mut self) {
        self.kubelet.abort();
    }
}

impl Replica {
    /// `folder` is where its log goes.
    pub(crate) fn start(kubeconfig: &Path, of_region: &Path, folder: &Path) -> Self {
        let (health, metrics) = (free_port(), free_port());
        let process = Process {
            kubeconfig: kubeconfig.to_owned(),
            of_region: of_region.to_owned(),
            log: folder.join("controller.log"),
            health,
            metrics,
        };
        let ends = Arc::new(Mutex::new(Vec::new()));
        let (finish, finishes) = watch::channel(false);
        let kubelet = tokio::spawn(look_after(process, ends.clone(), finishes));
        Self { ends, health, finish, kubelet }
    }

    /// How often it had to be started again so far, and why.
    pub(crate) fn ends(&self) -> Vec<End> {
        self.ends.lock().unwrap().clone()
    }

    pub(crate) async fn is_ready(&self) -> bool {
        matches!(probe(self.health, "/readyz").await, Ok(()))
    }

    /// Ends it in good order, for the next one to begin at once.
    pub(crate) async fn finish(mut self) {
        self.finish.send_replace(true);
        let _ = (&mut self.kubelet).await;
    }
}

struct Process {
    kubeconfig: PathBuf,
    of_region: PathBuf,
    log: PathBuf,
    health: u16,
    metrics: u16,
}

/// A child that does not outlive whoever started it.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Process {
    fn start(&self) -> Running {
        let log = std::fs::OpenOptions::new().create(true).append(true).open(&self.log).unwrap();
        // Another build of it, say.
        let program = std::env::var_os("KARPENTER").unwrap_or_else(|| env!("CARGO_BIN_EXE_karpenter").into());
        let mut command = Command::new(program);
        command.env_clear().env("KUBECONFIG", &self.kubeconfig).env("SYSTEM_NAMESPACE", "kube-system");
        // What `.ci/planted-faults` has compiled in.
        command.envs(std::env::var_os("PLANTED_FAULT").map(|fault| ("PLANTED_FAULT", fault)));
        command.args(["controller", "--simulate-region", "us-east-1", "--boot-delay", "0s"]);
        command.arg("--simulate-kubeconfig").arg(&self.of_region);
        command.args([format!("--health-probe-port={}", self.health), format!("--metrics-port={}", self.metrics)]);
        command.stdin(Stdio::null()).stdout(log.try_clone().unwrap()).stderr(log);
        Running(command.spawn().unwrap())
    }

    /// Why it ended, by the last line of its log.
    fn end(&self) -> End {
        let log = std::fs::read_to_string(&self.log).unwrap_or_default();
        match log.lines().last().unwrap_or_default() {
            last if last.contains("leader election lost") => End::LostLease,
            last => End::Exited(last.to_owned()),
        }
    }
}

async fn look_after(process: Process, ends: Arc<Mutex<Vec<End>>>, mut finish: watch::Receiver<bool>) {
    let mut asked = std::pin::pin!(async move {
        let _ = finish.wait_for(|finish| *finish).await;
    });
    loop {
        let mut running = process.start();
        let end = tokio::select! {
            end = watch_over(&process, &mut running) => end,
            () = &mut asked => {
                let _ = Command::new("kill").args(["-TERM", &running.0.id().to_string()]).status();
                let _ = timeout(GRACE, ended(&mut running)).await;
                return;
            }
        };
        ends.lock().unwrap().push(end);
    }
}

async fn watch_over(process: &Process, running: &mut Running) -> End {
    tokio::select! {
        () = ended(running) => process.end(),
        hung = hangs(process.health) => End::Hung(hung),
    }
}

async fn ended(running: &mut Running) {
    while running.0.try_wait().unwrap().is_none() {
        sleep(LOOK).await;
    }
}

/// Waits until the probe has failed often enough; what it said.
async fn hangs(port: u16) -> String {
    sleep(INITIAL_DELAY).await;
    let mut failures = 0;
    loop {
        let next = Instant::now() + PERIOD;
        match probe(port, "/healthz").await {
            Ok(()) => failures = 0,
            Err(why) => {
                failures += 1;
                if failures == FAILURES {
                    return why;
                }
            }
        }
        tokio::time::sleep_until(next).await;
    }
}

async fn probe(port: u16, path: &str) -> Result<(), String> {
    let asked = async {
        let mut stream = tokio::net::TcpStream::connect(("127.0.0.1", port)).await?;
        stream.write_all(format!("GET {path} HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n").as_bytes()).await?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await?;
        std::io::Result::Ok(answer)
    };
    match timeout(TIMEOUT, asked).await {
        Ok(Ok(answer)) if answer.starts_with("HTTP/1.1 200") => Ok(()),
        Ok(Ok(answer)) => Err(answer),
        Ok(Err(error)) => Err(error.to_string()),
        Err(_) => Err("no answer in time".to_owned()),
    }
}

/// One that nobody was given before.
fn free_port() -> u16 {
    static GIVEN: Mutex<BTreeSet<u16>> = Mutex::new(BTreeSet::new());
    loop {
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        if GIVEN.lock().unwrap().insert(port) {
            return port;
        }
    }
}
