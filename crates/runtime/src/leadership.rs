//! Whether this replica leads, for how much longer that is certain, and a fence that nothing passes without it.
//!
//! ```text
//!   Election, on its own thread ──extend(sent)──▶ Leadership ◀──guard── every write to the API server   (`Fenced`)
//!                               ──end()────────▶             ◀──guard── every call to AWS that changes  (`fence_aws`)
//! ```
//!
//! Another replica takes the lease over when it has not seen it change for [`DURATION`]. It cannot have seen our
//! renewal before we sent it, so until then plus [`DURATION`] nobody else leads, whatever the clocks say. An effect
//! begins only while that leaves it [`EFFECT`], and is cut off at the end: a decision that took long, a thread that was
//! not scheduled or a process that was stopped finds the fence closed when it goes on.

mod aws;
mod requests;

use std::time::Duration;

use futures_util::FutureExt as _;
use futures_util::future::{Either, select};
use kube::Client;
use tokio::sync::watch;
use tokio::time::{Instant, sleep_until};
use tower::{Layer as _, service_fn};

use crate::lease::{DURATION, RENEW_DEADLINE};

pub use aws::fence_aws;
pub use requests::{Fenced, FencedService};

/// So long an effect may take. What is left of a lease at the moment its holder gives up is just enough.
pub const EFFECT: Duration = DURATION.saturating_sub(RENEW_DEADLINE);

/// Shared by the election, which knows, and everything that acts.
#[derive(Clone, Debug)]
pub struct Leadership {
    term: watch::Sender<Term>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Term {
    NotYet,
    /// Nobody else leads before then.
    Until(Instant),
    /// There is no election.
    Unlimited,
    Over,
}

/// Why an effect did not happen, or was given up.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("this replica does not lead, or not for long enough")]
pub struct NotLeading;

impl Leadership {
    /// Without an election we lead from the start and for ever.
    pub fn without_election() -> Self {
        Self { term: watch::Sender::new(Term::Unlimited) }
    }

    /// Nothing happens before an election is won.
    pub fn elected() -> Self {
        Self { term: watch::Sender::new(Term::NotYet) }
    }

    /// A request that was sent then got or renewed the lease. What has ended stays so: whatever was decided under the
    /// old term is void.
    pub(crate) fn extend(&self, sent: Instant) {
        let until = sent + DURATION;
        self.term.send_if_modified(|term| {
            let later = match *term {
                Term::NotYet => true,
                Term::Until(before) => before < until,
                Term::Unlimited | Term::Over => false,
            };
            if later {
                *term = Term::Until(until);
            }
            later
        });
    }

    /// Nothing begins any more, and what is under way is cut off.
    pub(crate) fn end(&self) {
        self.term.send_replace(Term::Over);
    }

    /// Whether it is certain that nobody else leads for that long.
    pub fn holds_for(&self, effect: Duration) -> bool {
        match *self.term.borrow() {
            Term::Until(until) => Instant::now() + effect <= until,
            Term::Unlimited => true,
            Term::NotYet | Term::Over => false,
        }
    }

    /// Does it while we lead: not at all if leadership may end before it is done, and no further than to that end.
    pub async fn guard<T>(&self, effect: impl Future<Output = T>) -> Result<T, NotLeading> {
        if !self.holds_for(EFFECT) {
            return Err(NotLeading);
        }
        match select(std::pin::pin!(effect), self.ended().boxed()).await {
            Either::Left((done, _)) => Ok(done),
            Either::Right(((), _)) => Err(NotLeading),
        }
    }

    /// A client that reads like this one, and writes while we lead.
    pub fn fence(&self, client: Client) -> Client {
        let namespace = client.default_namespace().to_owned();
        let inner = service_fn(move |request| {
            let client = client.clone();
            async move { client.send(request).await }
        });
        Client::new(Fenced(self.clone()).layer(inner), namespace)
    }

    /// Until somebody else may lead.
    async fn ended(&self) {
        let mut changes = self.term.subscribe();
        loop {
            let term = *changes.borrow_and_update();
            let changed = changes.changed();
            match term {
                Term::NotYet | Term::Over => return,
                // We hold the sender ourselves: it does not go away.
                Term::Unlimited => drop(changed.await),
                Term::Until(until) => match select(std::pin::pin!(changed), std::pin::pin!(sleep_until(until))).await {
                    Either::Left(_) => {}
                    Either::Right(_) => return,
                },
            }
        }
    }
}

#[cfg(test)]
mod tests;
