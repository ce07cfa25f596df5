//! Who leads: of several replicas the one that holds the Lease works, and the others wait.
//!
//! The clocks of replicas need not agree: a lease counts as expired when it has not changed for its duration by the
//! clock of whoever looks at it. What a holder may rely on counts from the moment it *sent* the request that renewed:
//! an answer that took long is no reason to believe in the lease for longer. See [`crate::leadership`].

mod thread;

use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;
use karpenter_controllers::Clock;
use kube::api::{ObjectMeta, PostParams};
use kube::{Api, Client};
use tokio::time::{Instant, sleep, timeout};

use crate::leadership::Leadership;
pub use thread::{Candidacy, ElectionThread, StartError};

/// So long nobody else takes a lease that is not renewed.
pub const DURATION: Duration = Duration::from_secs(15);
/// A holder that could not renew for so long gives up, well before somebody else takes over.
pub const RENEW_DEADLINE: Duration = Duration::from_secs(10);
/// Between two tries.
pub const RETRY: Duration = Duration::from_secs(2);
/// A try that hangs, as on a connection that nobody answers on, leaves time for another one on a new connection.
const ATTEMPT: Duration = Duration::from_secs(3);

/// One replica's part in the election.
pub struct Election {
    leases: Api<Lease>,
    name: String,
    identity: String,
    clock: Clock,
    leadership: Leadership,
    seen: Option<Seen>,
    /// When the last request that got or renewed the lease was sent.
    renewed: Option<Instant>,
}

/// The lease as it was last seen to change.
struct Seen {
    lease: Lease,
    at: Instant,
}

/// What to do about a lease.
#[derive(Debug, PartialEq)]
enum Step {
    Write(Box<LeaseSpec>),
    /// It is somebody else's.
    Wait,
}

#[derive(Debug, thiserror::Error)]
enum Failure {
    #[error(transparent)]
    Api(#[from] kube::Error),
    #[error("no answer in time")]
    Late,
}

impl Election {
    /// The client should be one of its own, so that nothing we do can keep a renewal waiting; and not a fenced one, which
    /// would wait for what it is about to get. The leadership begins, goes on and ends with the lease.
    pub fn new(
        client: Client,
        clock: Clock,
        namespace: &str,
        name: &str,
        identity: &str,
        leadership: Leadership,
    ) -> Self {
        let leases = Api::namespaced(client, namespace);
        let (name, identity) = (name.to_owned(), identity.to_owned());
        Self { leases, name, identity, clock, leadership, seen: None, renewed: None }
    }

    pub fn name(&self) -> &str {
        &self.name
    }

    /// Waits until we lead.
    pub async fn acquire(&mut self) {
        loop {
            // It has to look before it writes, and nothing is lost by waiting for both answers.
            match self.attempt(RENEW_DEADLINE).await {
                // Nobody can count on a lease that was granted too late.
                Ok(true) if !self.left().is_zero() => {
                    tracing::info!(lease = self.name, identity = self.identity, "successfully acquired lease");
                    return;
                }
                Ok(_) => {}
                Err(error) => tracing::error!(lease = self.name, %error, "cannot ask for the lease"),
            }
            sleep(RETRY).await;
        }
    }

    /// Renews until the lease is lost, and with it leadership.
    pub async fn hold(&mut self) {
        loop {
            sleep(RETRY.min(self.left())).await;
            match self.attempt(ATTEMPT.min(self.left())).await {
                Ok(true) => {}
                // Somebody else has it. A write of ours that came too late is tried again.
                Ok(false) if !self.is_ours() => break,
                Ok(false) => {}
                Err(error) => tracing::error!(lease = self.name, %error, "cannot renew the lease"),
            }
            if self.left().is_zero() {
                break;
            }
        }
        self.leadership.end();
    }

    /// For how long we still try to renew.
    fn left(&self) -> Duration {
        self.renewed.map_or(Duration::ZERO, |sent| RENEW_DEADLINE.saturating_sub(sent.elapsed()))
    }

    fn is_ours(&self) -> bool {
        self.seen.as_ref().is_some_and(|seen| holder(&seen.lease) == self.identity)
    }

    /// Lets go, so that another replica need not wait for the lease to expire.
    pub async fn release(&mut self) {
        self.leadership.end();
        let Some(seen) = self.seen.take().filter(|seen| holder(&seen.lease) == self.identity) else { return };
        let mut lease = seen.lease;
        let spec = lease.spec.get_or_insert_default();
        spec.holder_identity = Some(String::new());
        spec.lease_duration_seconds = Some(1);
        spec.renew_time = Some(MicroTime(self.clock.now()));
        let params = PostParams::default();
        let released = self.leases.replace(&self.name, &params, &lease);
        match timeout(RETRY, released).await {
            Ok(Ok(_)) => tracing::info!(lease = self.name, "released the lease"),
            Ok(Err(error)) => tracing::error!(lease = self.name, %error, "cannot release the lease"),
            Err(_) => tracing::error!(lease = self.name, "cannot release the lease in time"),
        }
    }

    /// Whether we hold it now.
    async fn attempt(&mut self, most: Duration) -> Result<bool, Failure> {
        timeout(most, self.ask()).await.map_err(|_| Failure::Late)?
    }

    async fn ask(&mut self) -> Result<bool, Failure> {
        if let Some(renewed) = self.renew_at_once().await {
            return renewed;
        }
        let Some(lease) = self.leases.get_opt(&self.name).await? else { return self.create().await };
        let changed = |seen: &Seen| seen.lease.metadata.resource_version != lease.metadata.resource_version;
        if self.seen.as_ref().is_none_or(changed) {
            self.seen = Some(Seen { lease: lease.clone(), at: Instant::now() });
        }
        let unchanged_for = self.seen.as_ref().map_or(Duration::ZERO, |seen| seen.at.elapsed());
        match step(&lease, &self.identity, unchanged_for, self.clock.now()) {
            Step::Wait => Ok(false),
            Step::Write(spec) => {
                let wanted = Lease { spec: Some(*spec), ..lease };
                let sent = Instant::now();
                self.wrote(sent, self.leases.replace(&self.name, &PostParams::default(), &wanted).await)
            }
        }
    }

    /// Whoever holds the lease knows how it stands and need not ask first: where every answer takes seconds, one of them
    /// comes in time more often than two. Nothing if it stands otherwise by now.
    async fn renew_at_once(&mut self) -> Option<Result<bool, Failure>> {
        self.renewed?;
        let lease = self.seen.as_ref().filter(|seen| holder(&seen.lease) == self.identity)?.lease.clone();
        let Step::Write(spec) = step(&lease, &self.identity, Duration::ZERO, self.clock.now()) else { return None };
        let wanted = Lease { spec: Some(*spec), ..lease };
        let sent = Instant::now();
        match self.leases.replace(&self.name, &PostParams::default(), &wanted).await {
            Err(kube::Error::Api(status)) if matches!(status.code, 404 | 409) => None,
            outcome => Some(self.wrote(sent, outcome)),
        }
    }

    async fn create(&mut self) -> Result<bool, Failure> {
        let metadata = ObjectMeta { name: Some(self.name.clone()), ..ObjectMeta::default() };
        let spec = Some(ours(&self.identity, self.clock.now(), 0));
        let sent = Instant::now();
        let made = self.leases.create(&PostParams::default(), &Lease { metadata, spec }).await;
        self.wrote(sent, made)
    }

    /// Somebody else may have been faster, which is no failure.
    fn wrote(&mut self, sent: Instant, outcome: kube::Result<Lease>) -> Result<bool, Failure> {
        match outcome {
            Ok(lease) => {
                self.renewed = Some(sent);
                self.leadership.extend(sent);
                self.seen = Some(Seen { lease, at: Instant::now() });
                Ok(true)
            }
            Err(kube::Error::Api(status)) if status.code == 409 => Ok(false),
            Err(error) => Err(error.into()),
        }
    }
}

fn holder(lease: &Lease) -> &str {
    lease.spec.as_ref().and_then(|spec| spec.holder_identity.as_deref()).unwrap_or_default()
}

/// A lease that is ours is renewed, one that is nobody's or has not changed for its duration is taken.
fn step(lease: &Lease, identity: &str, unchanged_for: Duration, now: Timestamp) -> Step {
    let spec = lease.spec.clone().unwrap_or_default();
    let held_by = holder(lease);
    if held_by == identity {
        let renewed = LeaseSpec { renew_time: Some(MicroTime(now)), lease_duration_seconds: Some(seconds()), ..spec };
        return Step::Write(Box::new(renewed));
    }
    let theirs = spec.lease_duration_seconds.and_then(|seconds| u64::try_from(seconds).ok()).map(Duration::from_secs);
    if !held_by.is_empty() && unchanged_for < theirs.unwrap_or(DURATION) {
        return Step::Wait;
    }
    Step::Write(Box::new(ours(identity, now, spec.lease_transitions.unwrap_or(0) + 1)))
}

fn ours(identity: &str, now: Timestamp, transitions: i32) -> LeaseSpec {
    LeaseSpec {
        holder_identity: Some(identity.to_owned()),
        lease_duration_seconds: Some(seconds()),
        acquire_time: Some(MicroTime(now)),
        renew_time: Some(MicroTime(now)),
        lease_transitions: Some(transitions),
        ..LeaseSpec::default()
    }
}

fn seconds() -> i32 {
    i32::try_from(DURATION.as_secs()).unwrap_or(i32::MAX)
}

#[cfg(test)]
mod tests;
