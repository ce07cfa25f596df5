//! Instances: read, listed, terminated and tagged, with few calls.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures_util::FutureExt;
use karpenter_api::labels;
use karpenter_core::labels::{ON_DEMAND, RESERVED, SPOT};
use tokio::time::Instant;

use crate::batcher::{Batcher, Execute, Measure, Window};
use crate::calls::{Aws, AwsError, DescribeInstances, Filter, Instance, InstanceState, Result, Tags};

const WINDOW: Window = Window { idle: Duration::from_millis(100), longest: Duration::from_secs(1), most: 500 };
const PAGE: u32 = 1000;
/// How long EC2 may not know yet what it launched. Until then, not being found means nothing.
const LAG: Duration = Duration::from_secs(60);
/// Everything but `terminated`: such an instance is as good as gone.
const STATES: [InstanceState; 5] = [
    InstanceState::Pending,
    InstanceState::Running,
    InstanceState::Stopping,
    InstanceState::Stopped,
    InstanceState::ShuttingDown,
];

/// Ids of zones that are shifted away from just now.
pub type Shifted = Arc<dyn Fn() -> BTreeSet<String> + Send + Sync>;

pub struct Instances {
    aws: Aws,
    cluster: String,
    shifted: Shifted,
    /// As last told, until a list or a look finds it gone.
    cache: Mutex<BTreeMap<String, Known>>,
    describe: Batcher<(), String, Result<Instance>>,
    terminate: Batcher<(), String, Result<()>>,
}

#[derive(Clone, Debug)]
struct Known {
    instance: Instance,
    told: Told,
    at: Instant,
}

/// Who told of an instance.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Told {
    /// The fleet that launched it. All we decide by is known, but nothing of what others did to it since.
    Launch,
    Read,
}

impl Known {
    fn read(instance: Instance) -> Self {
        Self { instance, told: Told::Read, at: Instant::now() }
    }

    /// Too young to be missed.
    fn is_new(&self) -> bool {
        self.told == Told::Launch && self.at.elapsed() < LAG
    }
}

/// Whether the cache will do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Look {
    Cached,
    Fresh,
}

impl Instances {
    /// `measures` are of reads and terminations.
    pub fn new(aws: Aws, cluster: &str, shifted: Shifted, measures: [Measure; 2]) -> Self {
        let (describing, terminating) = (aws.clone(), aws.clone());
        let [of_reads, of_terminations] = measures;
        let describe: Execute<(), String, Result<Instance>> = Arc::new(move |(), ids| {
            let aws = describing.clone();
            async move { describe_all(&aws, ids).await }.boxed()
        });
        let terminate: Execute<(), String, Result<()>> = Arc::new(move |(), ids| {
            let aws = terminating.clone();
            async move { terminate_all(&aws, ids).await }.boxed()
        });
        Self {
            aws,
            cluster: cluster.to_owned(),
            shifted,
            cache: Mutex::default(),
            describe: Batcher::new(WINDOW, describe, of_reads),
            terminate: Batcher::new(WINDOW, terminate, of_terminations),
        }
    }

    pub async fn get(&self, id: &str, look: Look) -> Result<Instance> {
        let known = self.lock().get(id).map(|known| known.instance.clone());
        if let Some(instance) = known.filter(|known| look == Look::Cached || self.is_shifted(known)) {
            return Ok(instance);
        }
        let answer = match self.describe.add((), id.to_owned()).await {
            Ok(answer) => answer,
            Err(dropped) => return Err(AwsError::new("DescribeInstances", "Dropped", dropped.to_string())),
        };
        let mut cache = self.lock();
        match answer {
            Ok(instance) => {
                cache.insert(id.to_owned(), Known::read(instance.clone()));
                Ok(instance)
            }
            Err(error) if error.is_not_found() => match cache.get(id).filter(|known| known.is_new()) {
                Some(known) => Ok(known.instance.clone()),
                None => {
                    cache.remove(id);
                    Err(error)
                }
            },
            Err(error) => Err(error),
        }
    }

    /// What a fleet told of an instance it launched, so that nobody has to ask for it.
    pub(crate) fn launched(&self, instance: &Instance) {
        let known = Known { instance: instance.clone(), told: Told::Launch, at: Instant::now() };
        self.lock().insert(instance.id.clone(), known);
    }

    /// Of this cluster, by id.
    pub async fn list(&self) -> Result<Vec<Instance>> {
        let filters = vec![
            Filter::new("tag-key", [labels::NODEPOOL]),
            Filter::new("tag-key", [labels::EC2_NODE_CLASS]),
            Filter::new(format!("tag:{}", labels::EKS_CLUSTER_NAME_TAG), [self.cluster.as_str()]),
            states(),
        ];
        let request = DescribeInstances { ids: Vec::new(), filters, max_results: Some(PAGE) };
        let mut found = self.aws.ec2.describe_instances(&request).await?;
        // EC2 may not see the machines of a zone that is not well; they are not gone for that.
        let seen: BTreeSet<String> = found.iter().map(|instance| instance.id.clone()).collect();
        let unseen: Vec<Known> =
            self.lock().values().filter(|known| !seen.contains(&known.instance.id)).cloned().collect();
        let shifted = unseen.iter().map(|known| &known.instance).filter(|known| self.is_shifted(known)).cloned();
        found.extend(shifted);
        found.sort_by(|a, b| a.id.cmp(&b.id));
        let mut cache = self.lock();
        // What was launched while the list was under way is not in it either.
        cache.retain(|_, known| known.is_new());
        cache.extend(found.iter().map(|instance| (instance.id.clone(), Known::read(instance.clone()))));
        drop(cache);
        Ok(found)
    }

    pub async fn terminate(&self, id: &str) -> Result<()> {
        self.refuse_shifted("TerminateInstances", id)?;
        match self.terminate.add((), id.to_owned()).await {
            Ok(answer) => answer,
            Err(dropped) => Err(AwsError::new("TerminateInstances", "Dropped", dropped.to_string())),
        }
    }

    pub async fn tag(&self, id: &str, tags: &Tags) -> Result<()> {
        self.refuse_shifted("CreateTags", id)?;
        self.aws.ec2.create_tags(&[id.to_owned()], tags).await?;
        if let Some(known) = self.lock().get_mut(id) {
            known.instance.tags.extend(tags.clone());
        }
        Ok(())
    }

    fn is_shifted(&self, instance: &Instance) -> bool {
        instance.zone_id.as_ref().is_some_and(|zone| (self.shifted)().contains(zone))
    }

    fn refuse_shifted(&self, operation: &'static str, id: &str) -> Result<()> {
        let known = self.lock().get(id).map(|known| known.instance.clone());
        match known.filter(|known| self.is_shifted(known)) {
            Some(known) => {
                let message = format!("zone {} is shifted away from", known.zone);
                Err(AwsError::new(operation, crate::errors::ZONE_SHIFTED, message))
            }
            None => Ok(()),
        }
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<String, Known>> {
        self.cache.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn states() -> Filter {
    Filter::new("instance-state-name", STATES.map(InstanceState::as_str))
}

fn by_id(ids: Vec<String>) -> DescribeInstances {
    DescribeInstances { ids, filters: vec![states()], max_results: None }
}

/// One call for all; what it does not answer is asked for alone, since EC2 fails a whole call over one unknown id.
async fn describe_all(aws: &Aws, ids: Vec<String>) -> Vec<Result<Instance>> {
    let distinct: BTreeSet<String> = ids.iter().cloned().collect();
    let mut answers: BTreeMap<String, Result<Instance>> = BTreeMap::new();
    match aws.ec2.describe_instances(&by_id(distinct.iter().cloned().collect())).await {
        Ok(found) => answers.extend(found.into_iter().map(|instance| (instance.id.clone(), Ok(instance)))),
        Err(error) if error.is_passing() => return same_for_all(&ids, &error),
        Err(_) => {}
    }
    for id in &distinct {
        if !answers.contains_key(id) {
            let answer = aws.ec2.describe_instances(&by_id(vec![id.clone()])).await;
            if let Some(error) = answer.as_ref().err().filter(|error| error.is_passing()) {
                return or_else_all(&ids, &answers, error);
            }
            let answer =
                answer.and_then(|found| found.into_iter().find(|found| found.id == *id).ok_or_else(|| gone(id)));
            answers.insert(id.clone(), answer);
        }
    }
    ids.iter().map(|id| answers[id].clone()).collect()
}

/// A service that does not answer, or has no time to, says nothing about any of them, and to ask it for each would take
/// minutes: whoever waits for one of them would seem to have hung.
fn same_for_all<T>(ids: &[String], error: &AwsError) -> Vec<Result<T>> {
    ids.iter().map(|_| Err(error.clone())).collect()
}

/// What was answered so far, and this error for the others.
fn or_else_all<T: Clone>(ids: &[String], answers: &BTreeMap<String, Result<T>>, error: &AwsError) -> Vec<Result<T>> {
    ids.iter().map(|id| answers.get(id).cloned().unwrap_or_else(|| Err(error.clone()))).collect()
}

fn gone(id: &str) -> AwsError {
    AwsError::new("DescribeInstances", "InvalidInstanceID.NotFound", format!("no instance {id} that is not terminated"))
}

async fn terminate_all(aws: &Aws, ids: Vec<String>) -> Vec<Result<()>> {
    let distinct: Vec<String> = ids.iter().cloned().collect::<BTreeSet<_>>().into_iter().collect();
    let mut answers: BTreeMap<String, Result<()>> = BTreeMap::new();
    let done = |state: InstanceState| matches!(state, InstanceState::ShuttingDown | InstanceState::Terminated);
    match aws.ec2.terminate_instances(&distinct).await {
        Ok(changes) => {
            let ended = changes.into_iter().filter(|change| done(change.state));
            answers.extend(ended.map(|change| (change.id, Ok(()))));
        }
        Err(error) if error.is_passing() => return same_for_all(&ids, &error),
        // One id that is not known, may not be terminated or is protected fails the call for all of them.
        Err(_) => {}
    }
    for id in &distinct {
        if !answers.contains_key(id) {
            let answer = aws.ec2.terminate_instances(std::slice::from_ref(id)).await;
            if let Some(error) = answer.as_ref().err().filter(|error| error.is_passing()) {
                return or_else_all(&ids, &answers, error);
            }
            answers.insert(id.clone(), answer.map(|_| ()));
        }
    }
    ids.iter().map(|id| answers[id].clone()).collect()
}

/// An instance that slipped into an open reservation stays on-demand: it was not bought as reserved.
pub fn capacity_type(instance: &Instance, reserved_capacity: bool) -> &'static str {
    let only_reserved = instance.reservation_preference.as_deref() == Some("capacity-reservations-only");
    // A fleet does not tell the request of a spot instance, only that it is one.
    if instance.spot_request_id.is_some() || instance.lifecycle.as_deref() == Some(SPOT) {
        SPOT
    } else if reserved_capacity && instance.capacity_reservation_id.is_some() && only_reserved {
        RESERVED
    } else {
        ON_DEMAND
    }
}

/// `aws:///us-east-1a/i-0123456789abcdef0`.
pub fn provider_id(zone: &str, id: &str) -> String {
    format!("aws:///{zone}/{id}")
}

/// The instance id of `<anything>:///<zone>/<id>`.
pub fn instance_id(provider_id: &str) -> Option<&str> {
    let (scheme, rest) = provider_id.split_once(":///")?;
    let (zone, id) = rest.split_once('/')?;
    let plain = |text: &str| !text.is_empty() && !text.contains('/');
    (plain(scheme) && plain(zone) && plain(id)).then_some(id)
}

#[cfg(test)]
mod tests;
