//! What befalls a fleet: at the press of a key, or by a script.

use anyhow::Context as _;
use karpenter_sim::world::send;
use serde_json::{Value, json};

use super::stage::Stage;
use super::world::World;

const POOLS: &str = "/apis/karpenter.sh/v1/nodepools";
const DEPLOYMENTS: &str = "/apis/apps/v1/namespaces/default/deployments";
/// The pool whose nodes expire, and what runs there.
const FLEETING: &str = "demo-fleeting";
/// Nodes of a pool drift when this changes in its template.
const GENERATION: &str = "example.com/generation";
/// How long a node that is to expire lives, unless the script says.
const SHORT_LIFE: &str = "2m";

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Happening {
    /// The template of a pool changes, or that of all pools.
    Drift(Option<String>),
    /// Nodes come that live for so long only.
    Expiry(Option<String>),
    /// EC2 wants so many spot instances back.
    Reclaim(usize),
}

impl Happening {
    /// What a key on the keyboard makes happen.
    pub(crate) fn of_key(key: char) -> Option<Self> {
        match key {
            'd' => Some(Self::Drift(None)),
            'e' => Some(Self::Expiry(None)),
            'r' => Some(Self::Reclaim(1)),
            _ => None,
        }
    }

    pub(crate) async fn happen(&self, world: &World, stage: &Stage) -> anyhow::Result<()> {
        match self {
            Self::Drift(pool) => drift(world, stage, pool.as_deref()).await,
            Self::Expiry(life) => expire(world, stage, life.as_deref().unwrap_or(SHORT_LIFE)).await,
            Self::Reclaim(count) => {
                reclaim(world, stage, *count);
                Ok(())
            }
        }
    }
}

async fn drift(world: &World, stage: &Stage, only: Option<&str>) -> anyhow::Result<()> {
    let pools = world.context.index.node_pools();
    let named = pools.iter().filter_map(|pool| Some((pool.metadata.name.as_deref()?, pool)));
    let meant: Vec<_> = named.filter(|(name, _)| only.is_none_or(|only| only == *name)).collect();
    if let Some(only) = only.filter(|_| meant.is_empty()) {
        anyhow::bail!("drift: there is no NodePool {only}");
    }
    for (name, pool) in meant {
        let labels = pool.spec.template.metadata.as_ref().and_then(|metadata| metadata.labels.as_ref());
        let generation: u32 = labels.and_then(|labels| labels.get(GENERATION)?.parse().ok()).unwrap_or(1) + 1;
        stage.step(&format!("the template of pool {name} changes: its nodes drift"));
        let labels = json!({"spec": {"template": {"metadata": {"labels": {GENERATION: generation.to_string()}}}}});
        let path = format!("{POOLS}/{name}");
        let changed = send(&world.client, "PATCH", &path, "application/merge-patch+json", &labels).await;
        changed.with_context(|| format!("NodePool {name}"))?;
    }
    Ok(())
}

/// A pool like the first one whose nodes live for so long, and a pod that runs nowhere else. They go when asked for again.
async fn expire(world: &World, stage: &Stage, life: &str) -> anyhow::Result<()> {
    if forget_fleeting(world).await? {
        stage.step("no more nodes that expire");
        return Ok(());
    }
    let pools = send(&world.client, "GET", POOLS, "application/json", &Value::Null).await?;
    let first =
        pools["items"].as_array().and_then(|pools| pools.first()).context("expire: there is no NodePool yet")?;
    let mut spec = first["spec"].clone();
    spec["template"]["spec"]["expireAfter"] = json!(life);
    spec["template"]["spec"]["taints"] = json!([{"key": FLEETING, "effect": "NoSchedule"}]);
    let pool =
        json!({"apiVersion": "karpenter.sh/v1", "kind": "NodePool", "metadata": {"name": FLEETING}, "spec": spec});
    let labels = json!({"app": FLEETING});
    let pod = json!({
        "nodeSelector": {"karpenter.sh/nodepool": FLEETING},
        "tolerations": [{"key": FLEETING, "operator": "Exists"}],
        "terminationGracePeriodSeconds": 5,
        "containers": [{"name": "main", "image": "fleeting", "resources": {"requests": {"cpu": "500m", "memory": "512Mi"}}}],
    });
    let deployment = json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": FLEETING},
        "spec": {"replicas": 1, "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": pod}}});
    stage.step(&format!("a pod that runs only on nodes that expire after {life}"));
    send(&world.client, "POST", POOLS, "application/json", &pool).await.context("NodePool demo-fleeting")?;
    send(&world.client, "POST", DEPLOYMENTS, "application/json", &deployment)
        .await
        .context("Deployment demo-fleeting")?;
    Ok(())
}

/// Whether there was something to forget.
pub(crate) async fn forget_fleeting(world: &World) -> anyhow::Result<bool> {
    let mut found = false;
    for path in [DEPLOYMENTS, POOLS] {
        let body = json!({"propagationPolicy": "Background"});
        match send(&world.client, "DELETE", &format!("{path}/{FLEETING}"), "application/json", &body).await {
            Ok(_) => found = true,
            Err(kube::Error::Api(status)) if status.code == 404 => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(found)
}

/// The oldest first: they are the most likely to be full.
fn reclaim(world: &World, stage: &Stage, count: usize) {
    let mut spot: Vec<_> = world.region.instances().into_iter().filter(|one| one.ended_at.is_none()).collect();
    spot.retain(|one| one.instance.lifecycle.as_deref() == Some("spot"));
    spot.sort_by_key(|one| one.instance.launched_at);
    if spot.is_empty() {
        stage.step("EC2 wants spot instances back, but none is running");
    }
    for one in spot.into_iter().take(count) {
        stage.step(&format!("EC2 wants the spot instance {} back in two minutes", one.instance.id));
        world.region.recall(&one.instance.id);
    }
}
