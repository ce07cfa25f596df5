//! An election on a thread of its own, with a runtime of its own: no plan that takes long, no queue and no thread that is
//! busy keeps a renewal waiting.

use kube::Client;
use tokio::sync::{oneshot, watch};

use super::Election;
use crate::leadership::Leadership;
use karpenter_controllers::Clock;

/// Where a replica stands. What it stands for is [`Leadership`]'s business.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Standing {
    Waiting,
    Leading,
    Over,
}

#[derive(Debug, thiserror::Error)]
pub enum StartError {
    #[error("cannot start the thread that holds the lease")]
    Thread(#[from] std::io::Error),
    #[error("cannot connect")]
    Connect(#[from] kube::Error),
    #[error("the thread that holds the lease ended")]
    Ended,
}

/// The lease, and who we are among those who want it.
#[derive(Clone, Debug)]
pub struct Candidacy {
    pub namespace: String,
    pub lease: String,
    pub identity: String,
}

/// Dropped, it ends without letting go, as in a crash.
#[derive(Debug)]
pub struct ElectionThread {
    standing: watch::Receiver<Standing>,
    finish: watch::Sender<bool>,
}

impl ElectionThread {
    /// `connect` is called on the thread: a client works on the runtime that it was made on.
    pub async fn start<C>(
        connect: C,
        candidacy: Candidacy,
        clock: Clock,
        leadership: Leadership,
    ) -> Result<Self, StartError>
    where
        C: FnOnce() -> kube::Result<Client> + Send + 'static,
    {
        let (standing, seen) = watch::channel(Standing::Waiting);
        let (finish, asked) = watch::channel(false);
        let (started, start) = oneshot::channel::<Result<(), StartError>>();
        std::thread::Builder::new().name("lease".to_owned()).spawn(move || {
            let runtime = match tokio::runtime::Builder::new_current_thread().enable_all().build() {
                Ok(runtime) => runtime,
                Err(error) => return drop(started.send(Err(error.into()))),
            };
            runtime.block_on(async move {
                let client = match connect() {
                    Ok(client) => client,
                    Err(error) => return drop(started.send(Err(error.into()))),
                };
                let Candidacy { namespace, lease, identity } = candidacy;
                let election = Election::new(client, clock, &namespace, &lease, &identity, leadership);
                drop(started.send(Ok(())));
                take_part(election, &standing, asked).await;
                standing.send_replace(Standing::Over);
            });
        })?;
        start.await.map_err(|_| StartError::Ended)??;
        Ok(Self { standing: seen, finish })
    }

    /// Waits until we lead. For ever, if the thread ends before that: [`ElectionThread::over`] says so.
    pub async fn leads(&self) {
        if self.standing.clone().wait_for(|standing| *standing == Standing::Leading).await.is_err() {
            std::future::pending::<()>().await;
        }
    }

    /// Waits until the lease is lost or let go.
    pub async fn over(&self) {
        // A thread that ended without a word ended all the same.
        drop(self.standing.clone().wait_for(|standing| *standing == Standing::Over).await);
    }

    /// Lets go, so that another replica need not wait for the lease to expire.
    pub async fn release(self) {
        self.finish.send_replace(true);
        self.over().await;
    }
}

async fn take_part(mut election: Election, standing: &watch::Sender<Standing>, mut asked: watch::Receiver<bool>) {
    let part = async {
        election.acquire().await;
        standing.send_replace(Standing::Leading);
        election.hold().await;
    };
    let released = tokio::select! {
        () = part => false,
        asked = asked.wait_for(|asked| *asked) => asked.is_ok(),
    };
    if released {
        election.release().await;
    }
}
