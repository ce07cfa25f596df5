//! What every provider must do, as tests that any of them can run.
//!
//! A provider's tests make a [`World`] for each case: a cloud of its own, a node class that is ready, a pool that uses
//! it. Each case is told by name, so that a failure says which promise was broken.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use futures_util::future::join_all;
use karpenter_api::{NodeClaim, NodePool};
use karpenter_core::labels::{CAPACITY_TYPE, INSTANCE_TYPE, NODEPOOL, ZONE};

use crate::{CloudProvider, DeleteError, GetError, LaunchError, Machine};

/// A cloud and a cluster around the provider under test.
#[async_trait]
pub trait World: Send + Sync {
    fn provider(&self) -> Arc<dyn CloudProvider>;

    /// The provider as a new process would have it, over the same cloud and cluster.
    async fn restarted(&self) -> Arc<dyn CloudProvider>;

    /// A pool whose node class is ready.
    async fn pool(&self) -> NodePool;

    /// A new claim of that pool, as the provisioner would write it, with a UID. Claims of one world are alike.
    async fn claim(&self, name: &str) -> NodeClaim;

    /// From now on the cloud has nothing to sell, until told otherwise.
    async fn sold_out(&self, sold_out: bool);

    /// The node class says that it is not ready.
    async fn spoil_node_class(&self);

    /// The node class is gone.
    async fn delete_node_class(&self);

    /// Lets time pass, long enough for the cloud to make up its mind: reads to catch up, terminations to end.
    async fn pass_time(&self);
}

/// How often a case asks before it gives up.
const PATIENCE: usize = 100;

/// A promise that was broken.
pub type Broken = String;

macro_rules! promise {
    ($holds:expr, $($words:tt)+) => {
        if !$holds {
            return Err(format!($($words)+));
        }
    };
}

/// Names of all cases, for [`run`].
pub const CASES: [&str; 11] = [
    "tells who it is",
    "a machine is what the claim asked for",
    "a launched machine can be read and listed",
    "alike claims launched together get machines of their own",
    "launching again after a crash gives the same machine",
    "deletion ends in not found",
    "unknown machines are not found",
    "a provider id that cannot be read is an error",
    "selling out is told as such and passes",
    "a node class that is not ready launches nothing",
    "a missing node class launches nothing and sells nothing",
];

/// Runs one case in a world of its own.
pub async fn run(case: &str, world: &dyn World) -> Result<(), Broken> {
    match case {
        "tells who it is" => tells_who_it_is(world).await,
        "a machine is what the claim asked for" => machine_fits_claim(world).await,
        "a launched machine can be read and listed" => read_and_list(world).await,
        "alike claims launched together get machines of their own" => together(world).await,
        "launching again after a crash gives the same machine" => idempotent(world).await,
        "deletion ends in not found" => deletion(world).await,
        "unknown machines are not found" => unknown(world).await,
        "a provider id that cannot be read is an error" => unreadable(world).await,
        "selling out is told as such and passes" => sold_out(world).await,
        "a node class that is not ready launches nothing" => not_ready(world).await,
        "a missing node class launches nothing and sells nothing" => missing_class(world).await,
        other => Err(format!("there is no case {other:?}")),
    }
}

async fn tells_who_it_is(world: &dyn World) -> Result<(), Broken> {
    let provider = world.provider();
    promise!(!provider.name().is_empty(), "a provider has a name");
    promise!(!provider.node_class_kinds().is_empty(), "a provider has a kind of node class");
    for policy in provider.repair_policies() {
        promise!(!policy.toleration.is_zero(), "{} is not borne at all", policy.condition_type);
    }
    let types = provider.instance_types(&world.pool().await).await.map_err(|error| error.to_string())?;
    promise!(!types.is_empty(), "a ready node class can run something");
    let names: BTreeSet<&str> = types.iter().map(|kind| &*kind.name).collect();
    promise!(names.len() == types.len(), "a type is listed twice");
    Ok(())
}

async fn launch(world: &dyn World, claim: &NodeClaim) -> Result<Machine, Broken> {
    for _ in 0..PATIENCE {
        match world.provider().create(claim).await {
            Ok(machine) => return Ok(machine),
            // A cloud may be busy; everything else is an answer.
            Err(LaunchError::Throttled { .. } | LaunchError::Other { .. }) => world.pass_time().await,
            Err(error) => return Err(format!("launching failed: {error}")),
        }
    }
    Err("the launch never came to an end".to_owned())
}

async fn machine_fits_claim(world: &dyn World) -> Result<(), Broken> {
    let (claim, pool) = (world.claim("fits").await, world.pool().await);
    let machine = launch(world, &claim).await?;
    promise!(!machine.provider_id.is_empty() && !machine.image_id.is_empty(), "ids are missing: {machine:?}");
    promise!(!machine.deleting, "a new machine is on its way out");
    let label = |key: &str| machine.labels.get(key).cloned().unwrap_or_default();
    promise!(label(INSTANCE_TYPE) == machine.instance_type, "the type's label says {}", label(INSTANCE_TYPE));
    promise!(label(ZONE) == machine.zone, "the zone's label says {}", label(ZONE));
    promise!(label(CAPACITY_TYPE) == machine.capacity_type, "the capacity type's label says {}", label(CAPACITY_TYPE));
    let name = pool.metadata.name.unwrap_or_default();
    promise!(label(NODEPOOL) == name && machine.node_pool.as_deref() == Some(&name), "the pool is not told");
    let types = world.provider().instance_types(&world.pool().await).await.map_err(|error| error.to_string())?;
    let kind = types.iter().find(|kind| *kind.name == *machine.instance_type);
    promise!(kind.is_some(), "{} is not among the types of the pool", machine.instance_type);
    promise!(!machine.capacity.is_empty(), "the capacity is not told");
    for (resource, amount) in machine.allocatable.iter() {
        promise!(amount <= machine.capacity.get(resource), "{resource}: more allocatable than there is");
    }
    for (resource, amount) in machine.capacity.iter().chain(machine.allocatable.iter()) {
        promise!(!amount.is_zero(), "{resource} is told although there is none");
    }
    for requirement in &claim.spec.requirements {
        let allowed = requirement.values();
        if requirement.operator == "In" && machine.labels.contains_key(&requirement.key) {
            let value = label(&requirement.key);
            promise!(allowed.contains(&value), "{}: {value} is none of {allowed:?}", requirement.key);
        }
    }
    Ok(())
}

/// Reads may lag behind writes, but not for ever.
async fn find(world: &dyn World, machine: &Machine) -> Result<Machine, Broken> {
    for _ in 0..PATIENCE {
        match world.provider().get(&machine.provider_id).await {
            Ok(found) => return Ok(found),
            Err(_) => world.pass_time().await,
        }
    }
    Err(format!("{} was launched and cannot be read", machine.provider_id))
}

async fn read_and_list(world: &dyn World) -> Result<(), Broken> {
    let machine = launch(world, &world.claim("read").await).await?;
    let found = find(world, &machine).await?;
    promise!(found.provider_id == machine.provider_id, "another machine was read: {}", found.provider_id);
    let told = |machine: &Machine| (machine.instance_type.clone(), machine.zone.clone(), machine.capacity_type.clone());
    promise!(told(&found) == told(&machine), "{:?} was launched, {:?} read", told(&machine), told(&found));
    promise!(found.image_id == machine.image_id, "the image changed");
    promise!(found.capacity == machine.capacity, "the capacity changed");
    promise!(found.annotations.is_empty(), "annotations come from launches only");
    for _ in 0..PATIENCE {
        let listed = world.provider().list().await.unwrap_or_default();
        if let Some(listed) = listed.iter().find(|listed| listed.provider_id == machine.provider_id) {
            promise!(told(listed) == told(&machine), "{:?} was launched, {:?} listed", told(&machine), told(listed));
            return Ok(());
        }
        world.pass_time().await;
    }
    Err("the machine is never listed".to_owned())
}

async fn together(world: &dyn World) -> Result<(), Broken> {
    let mut claims = Vec::new();
    for number in 0..20 {
        claims.push(world.claim(&format!("together-{number}")).await);
    }
    let machines = join_all(claims.iter().map(|claim| launch(world, claim))).await;
    let machines: Vec<Machine> = machines.into_iter().collect::<Result<_, _>>()?;
    let ids: BTreeSet<&str> = machines.iter().map(|machine| machine.provider_id.as_str()).collect();
    promise!(ids.len() == machines.len(), "{} claims share {} machines", machines.len(), ids.len());
    Ok(())
}

async fn idempotent(world: &dyn World) -> Result<(), Broken> {
    let claim = world.claim("again").await;
    let machine = launch(world, &claim).await?;
    let restarted = world.restarted().await;
    let again = restarted.create(&claim).await.map_err(|error| format!("launching again failed: {error}"))?;
    promise!(again.provider_id == machine.provider_id, "{} and then {}", machine.provider_id, again.provider_id);
    Ok(())
}

fn with_id(mut claim: NodeClaim, provider_id: &str) -> NodeClaim {
    claim.status.get_or_insert_default().provider_id = Some(provider_id.to_owned());
    claim
}

async fn deletion(world: &dyn World) -> Result<(), Broken> {
    let claim = world.claim("delete").await;
    let machine = launch(world, &claim).await?;
    find(world, &machine).await?;
    let claim = with_id(claim, &machine.provider_id);
    for round in 0..PATIENCE {
        match world.provider().delete(&claim).await {
            Ok(()) | Err(DeleteError::Other(_)) => {}
            Err(DeleteError::NotFound { provider_id }) => {
                promise!(round > 0, "a running machine was not found");
                promise!(provider_id == machine.provider_id, "about another machine: {provider_id}");
                let gone = world.provider().get(&machine.provider_id).await;
                promise!(matches!(gone, Err(GetError::NotFound { .. })), "deleted, but still read: {gone:?}");
                return Ok(());
            }
        }
        world.pass_time().await;
    }
    Err("the machine is never gone".to_owned())
}

async fn unknown(world: &dyn World) -> Result<(), Broken> {
    let machine = launch(world, &world.claim("unknown").await).await?;
    // A good id of a machine that never was.
    let id: String = machine.provider_id.chars().map(|c| if c.is_ascii_digit() { '9' } else { c }).collect();
    promise!(id != machine.provider_id, "the suite cannot make up another id");
    let got = world.provider().get(&id).await;
    promise!(matches!(got, Err(GetError::NotFound { .. })), "reading {id}: {got:?}");
    let deleted = world.provider().delete(&with_id(world.claim("gone").await, &id)).await;
    promise!(matches!(deleted, Err(DeleteError::NotFound { .. })), "deleting {id}: {deleted:?}");
    Ok(())
}

async fn unreadable(world: &dyn World) -> Result<(), Broken> {
    for id in ["", "nonsense", "://", "a:///b"] {
        let got = world.provider().get(id).await;
        promise!(matches!(got, Err(GetError::Other(_))), "reading {id:?}: {got:?}");
        let deleted = world.provider().delete(&with_id(world.claim("unreadable").await, id)).await;
        promise!(matches!(deleted, Err(DeleteError::Other(_))), "deleting {id:?}: {deleted:?}");
    }
    Ok(())
}

async fn sold_out(world: &dyn World) -> Result<(), Broken> {
    world.sold_out(true).await;
    let refused = world.provider().create(&world.claim("sold-out").await).await;
    promise!(matches!(refused, Err(LaunchError::InsufficientCapacity { .. })), "sold out, but: {refused:?}");
    world.sold_out(false).await;
    for round in 0..PATIENCE {
        match world.provider().create(&world.claim(&format!("later-{round}")).await).await {
            Ok(_) => return Ok(()),
            Err(_) => world.pass_time().await,
        }
    }
    Err("there is capacity again, but it is never found".to_owned())
}

async fn not_ready(world: &dyn World) -> Result<(), Broken> {
    world.spoil_node_class().await;
    let refused = world.provider().create(&world.claim("not-ready").await).await;
    promise!(matches!(refused, Err(LaunchError::NodeClassNotReady { .. })), "not ready, but: {refused:?}");
    let listed = world.provider().list().await.map_err(|error| error.to_string())?;
    promise!(listed.is_empty(), "something was launched: {listed:?}");
    Ok(())
}

async fn missing_class(world: &dyn World) -> Result<(), Broken> {
    let (claim, pool) = (world.claim("missing").await, world.pool().await);
    let machine = launch(world, &claim).await?;
    world.delete_node_class().await;
    let refused = world.provider().create(&world.claim("refused").await).await;
    promise!(matches!(refused, Err(LaunchError::InsufficientCapacity { .. })), "no node class, but: {refused:?}");
    let types = world.provider().instance_types(&pool).await.map_err(|error| error.to_string())?;
    promise!(types.is_empty(), "{} types of a node class that is not there", types.len());
    // What runs already can still be found, and so be deleted.
    for _ in 0..PATIENCE {
        let listed = world.provider().list().await.map_err(|error| error.to_string())?;
        if listed.iter().any(|listed| listed.provider_id == machine.provider_id) {
            return Ok(());
        }
        world.pass_time().await;
    }
    Err("the machine of a deleted node class is not listed".to_owned())
}

/// A while that is long for every cloud; worlds in virtual time pass it at once.
pub const A_WHILE: Duration = Duration::from_secs(10);
