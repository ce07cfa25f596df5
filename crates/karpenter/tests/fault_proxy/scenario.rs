//! What happens while a fault lasts, and what must have happened some time after its end.
//!
//! ```text
//!   before       web: two pods with a budget of one    spare: a pod of a pool that consolidates    a node that is empty
//!   the fault    a pod nobody may evict comes to the empty node, whose claim is deleted, as are those of web;
//!                spare is not needed any more; another pod waits for a node
//!   after it     that pod may be evicted; one more waits     ⇒ all of it is decided within DECIDED, and done within DONE
//! ```

use std::time::Duration;

use serde_json::json;
use tokio::time::{Instant, sleep};

use crate::cluster::{BUDGETS, CLAIMS, DEPLOYMENTS, NODES, Outcome, PODS, POOLS, Users};
use crate::matrix::Cell;
use crate::proxy::Proxy;
use crate::replica::{End, Replica};
use crate::witness::Witness;

/// So long a fault lasts: a lease is lost in it, and so are requests of every kind. What is half-open stays so anyway.
const LASTS: Duration = Duration::from_secs(15);
/// And so long after the last thing that happened in it.
const SETTLES: Duration = Duration::from_secs(8);
/// Decisions go on within this of a fault's end.
const DECIDED: Duration = Duration::from_secs(90);
/// Consolidation decides in a pass every ten seconds, and looks again fifteen seconds later before it acts.
const LOOKS_AGAIN: Duration = Duration::from_secs(25);
/// A machine has to boot before a pod is on it, which is no decision of ours.
const BOOTS: Duration = Duration::from_secs(20);
/// And then everything takes its course.
const DONE: Duration = Duration::from_secs(210);
/// While nothing is wrong but that the machine is busy.
const CALM: Duration = Duration::from_secs(240);

pub(crate) struct Place<'a> {
    pub(crate) users: Users,
    pub(crate) proxy: &'a Proxy,
    pub(crate) replica: &'a Replica,
    pub(crate) witness: &'a Witness,
}

/// What a cell came to.
pub(crate) struct Report {
    struck: usize,
    decided: Duration,
    ends: Vec<End>,
}

impl std::fmt::Display for Report {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { struck, decided, ends } = self;
        write!(out, "{struck} struck, decided {} s after the end", decided.as_secs())?;
        if !ends.is_empty() {
            write!(out, ", restarted: {ends:?}")?;
        }
        Ok(())
    }
}

/// What a fault finds.
struct Before {
    web: Vec<String>,
    web_claims: Vec<String>,
    empty_node: String,
    empty_claim: String,
    spare_claim: String,
}

impl Place<'_> {
    /// One cell, to the end of all that follows from its fault.
    pub(crate) async fn live_through(&self, cell: Cell) -> Outcome<Report> {
        let before = self.prepare().await?;
        let ends = self.replica.ends().len();
        self.proxy.strike(Some(cell));
        let began = Instant::now();
        let late = self.trouble(&before).await?;
        sleep(SETTLES.max(LASTS.saturating_sub(began.elapsed()))).await;
        let struck = self.proxy.struck();
        self.proxy.strike(None);
        let decided = self.recover(&before, &late).await?;
        let ends = self.replica.ends().split_off(ends);
        let mut faults = self.witness.terminated_under_pods().await;
        faults.extend(self.proxy.deleted_pods().into_iter().map(|path| format!("deleted, not evicted: {path}")));
        if struck == 0 {
            faults.push("nothing was struck, so nothing was tried".to_owned());
        }
        let excused = ends.iter().all(|end| matches!(end, End::LostLease | End::Hung(_)));
        if ends.len() > 1 || !excused {
            faults.push(format!("restarted: {ends:?}"));
        }
        if faults.is_empty() { Ok(Report { struck, decided, ends }) } else { Err(faults.join("\n")) }
    }

    async fn prepare(&self) -> Outcome<Before> {
        let users = &self.users;
        users.until("the controller is ready", CALM, async || Ok(self.replica.is_ready().await)).await?;
        users.node_class().await?;
        users.pool("still", json!({"consolidationPolicy": "WhenEmpty", "consolidateAfter": "Never"})).await?;
        let lively = json!({"consolidationPolicy": "WhenEmptyOrUnderutilized", "consolidateAfter": "1s",
            "budgets": [{"nodes": "100%"}]});
        users.pool("lively", lively).await?;
        users.until("pools are ready", CALM, async || users.are_ready(POOLS, 2).await).await?;
        users.budget("web", 1).await?;
        users.deploy("web", 2, "still").await?;
        users.deploy("tenant", 1, "still").await?;
        users.deploy("spare", 1, "lively").await?;
        let all =
            async || Ok(users.run("web", 2).await? && users.run("tenant", 1).await? && users.run("spare", 1).await?);
        users.until("all pods run", CALM, all).await?;
        let node = async |app: &str| -> Outcome<String> {
            users.pods(app).await?.pop().and_then(|pod| pod.node).ok_or_else(|| format!("{app} has no pod"))
        };
        let (empty_node, spare_node) = (node("tenant").await?, node("spare").await?);
        users.scale("tenant", 0).await?;
        users.until("the tenant is gone", CALM, async || users.run("tenant", 0).await).await?;
        let web = users.pods("web").await?;
        let mut web_claims = Vec::new();
        for node in web.iter().filter_map(|pod| pod.node.as_ref()) {
            web_claims.push(users.claim_of(node).await?);
        }
        Ok(Before {
            web: web.into_iter().map(|pod| pod.uid).collect(),
            web_claims,
            empty_claim: users.claim_of(&empty_node).await?,
            empty_node,
            spare_claim: users.claim_of(&spare_node).await?,
        })
    }

    /// What happens meanwhile; the uid of the pod that came late.
    async fn trouble(&self, before: &Before) -> Outcome<String> {
        let users = &self.users;
        users.budget("late", 1).await?;
        users.bound("late", &before.empty_node).await?;
        // No budget holds for pods that do not run yet.
        users.until("the late pod runs", CALM, async || users.run("late", 1).await).await?;
        users.deploy("new", 1, "still").await?;
        users.scale("spare", 0).await?;
        for claim in before.web_claims.iter().chain([&before.empty_claim]) {
            users.delete(&format!("{CLAIMS}/{claim}")).await?;
        }
        let late = users.pods("late").await?.pop().ok_or("the late pod is gone at once")?;
        Ok(late.uid)
    }

    /// How long after the fault's end everything was decided.
    async fn recover(&self, before: &Before, late: &str) -> Outcome<Duration> {
        let users = &self.users;
        let ended = Instant::now();
        let stays = users.pods("late").await?.iter().any(|pod| pod.uid == late && !pod.leaves);
        if !stays {
            return Err("a pod that nobody may evict was ended".to_owned());
        }
        users.delete(&format!("{BUDGETS}/late")).await?;
        users.deploy("after", 1, "still").await?;
        let left = async |app: &str, uid: &str| -> Outcome<bool> {
            Ok(!users.pods(app).await?.iter().any(|pod| pod.uid == uid && !pod.leaves))
        };
        let placed = async |app: &str| -> Outcome<bool> {
            let pods = users.pods(app).await?;
            Ok(!pods.is_empty() && pods.iter().all(|pod| pod.node.is_some()))
        };
        let within = |most: Duration| most.saturating_sub(ended.elapsed());
        users.until("the late pod is evicted", within(DECIDED), async || left("late", late).await).await?;
        let web = async || Ok(left("web", &before.web[0]).await? || left("web", &before.web[1]).await?);
        users.until("a pod of web is evicted", within(DECIDED), web).await?;
        let spare = async || users.is_leaving(&before.spare_claim).await;
        users.until("the spare node goes", within(DECIDED + LOOKS_AGAIN), spare).await?;
        let pods = async || Ok(placed("new").await? && placed("after").await?);
        users.until("new pods have nodes", within(DECIDED + BOOTS), pods).await?;
        let decided = ended.elapsed();
        let done = async || {
            let apps = [("web", 2), ("new", 1), ("after", 1), ("late", 0), ("spare", 0)];
            for (app, count) in apps {
                if !users.run(app, count).await? {
                    return Ok(false);
                }
            }
            let old = before.web_claims.iter().chain([&before.empty_claim, &before.spare_claim]);
            let claims = users.list(CLAIMS).await?;
            let names: Vec<&str> = claims.iter().filter_map(|claim| claim["metadata"]["name"].as_str()).collect();
            let running = self.witness.instances().await.iter().filter(|one| one.ended.is_none()).count();
            Ok(!old.into_iter().any(|name| names.contains(&name.as_str()))
                && names.len() == running
                && users.list(NODES).await?.len() == running)
        };
        users.until("everything is done", within(DONE), done).await?;
        Ok(decided)
    }

    /// Leaves nothing behind, for the next cell on the same ground.
    pub(crate) async fn clear(&self) -> Outcome<()> {
        let users = &self.users;
        for path in [BUDGETS, DEPLOYMENTS, POOLS, CLAIMS, PODS] {
            for one in users.list(path).await? {
                users.delete(&format!("{path}/{}", one["metadata"]["name"].as_str().unwrap_or_default())).await?;
            }
        }
        let empty = async || {
            Ok(users.list(CLAIMS).await?.is_empty()
                && users.list(NODES).await?.is_empty()
                && users.list(PODS).await?.is_empty()
                && users.list(POOLS).await?.is_empty())
        };
        users.until("nothing is left", CALM, empty).await.map(drop)
    }
}
