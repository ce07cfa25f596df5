//! The node class reconcilers, run by the engine.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use karpenter_api::EC2NodeClass;
use karpenter_controllers::{Action, Backoff, Context, Error, Reconciler, Result};
use karpenter_index::{Change, Key};
use karpenter_provider_aws::NodeClassController;
use karpenter_provider_aws::node_class::Next;
use kube::{Api, Client};

use super::discovered;

/// Whole node classes. The index keeps what all clouds have in common; the provider needs the rest, and there are few of
/// them, so each is read again when the index has seen a newer one.
pub(crate) struct Classes {
    client: Client,
    read: Mutex<BTreeMap<String, Arc<EC2NodeClass>>>,
}

impl Classes {
    pub(crate) fn new(client: Client) -> Self {
        Self { client, read: Mutex::default() }
    }

    pub(crate) async fn get(&self, name: &str, context: &Context) -> kube::Result<Option<Arc<EC2NodeClass>>> {
        let Some(seen) = context.index.node_class(name) else {
            self.lock().remove(name);
            return Ok(None);
        };
        let held = self.lock().get(name).cloned();
        if let Some(held) = held.filter(|held| held.metadata.resource_version == seen.metadata.resource_version) {
            return Ok(Some(held));
        }
        let read = Api::<EC2NodeClass>::all(self.client.clone()).get_opt(name).await;
        if let Err(kube::Error::SerdeError(why)) = &read {
            context.unreadable_class(&seen, &why.to_string());
        }
        let read = read?.map(Arc::new);
        if let Some(read) = &read {
            let before = self.lock().insert(name.to_owned(), read.clone());
            discovered::tell(name, before.and_then(|class| class.status.clone()).as_ref(), read.status.as_ref());
        }
        Ok(read)
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, BTreeMap<String, Arc<EC2NodeClass>>> {
        self.read.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// After an outage of AWS nothing is launched from a class that was new or edited before somebody has looked at it again.
const RETRIES: Backoff =
    Backoff { first: Duration::from_millis(100), last: Duration::from_mins(1), per_second: 10, burst: 100 };

/// The controller `nodeclass`.
pub(crate) struct NodeClasses {
    pub(crate) controller: Arc<NodeClassController>,
    pub(crate) classes: Arc<Classes>,
}

#[async_trait]
impl Reconciler for NodeClasses {
    fn name(&self) -> &'static str {
        "nodeclass"
    }

    /// A class on its way out waits for the last of its claims.
    fn wake(&self, change: &Change, _context: &Context) -> Vec<Key> {
        if let Some(claims) = change.node_claim() {
            let gone = claims.old.as_ref().filter(|_| claims.new.is_none());
            return gone.map(|claim| Key::cluster(&claim.spec.node_class_ref.name)).into_iter().collect();
        }
        class_key(change).into_iter().collect()
    }

    async fn reconcile(&self, key: &Key, context: &Context) -> Result<Action> {
        let Some(class) = self.classes.get(&key.name, context).await? else { return Ok(Action::Done) };
        let next = self.controller.reconcile(&class).await;
        Ok(match next.map_err(|error| Error::provider("EC2NodeClass", error))? {
            Next::Never => Action::Done,
            Next::After(Duration::ZERO) => Action::Again,
            Next::After(delay) => Action::After(delay),
        })
    }

    fn backoff(&self) -> Backoff {
        RETRIES
    }
}

/// The controller `nodeclass.hash`.
pub(crate) struct NodeClassHashes {
    pub(crate) controller: Arc<NodeClassController>,
    pub(crate) classes: Arc<Classes>,
}

#[async_trait]
impl Reconciler for NodeClassHashes {
    fn name(&self) -> &'static str {
        "nodeclass.hash"
    }

    fn wake(&self, change: &Change, _context: &Context) -> Vec<Key> {
        class_key(change).into_iter().collect()
    }

    async fn reconcile(&self, key: &Key, context: &Context) -> Result<Action> {
        if let Some(class) = self.classes.get(&key.name, context).await? {
            let hashed = self.controller.reconcile_hash(&class).await;
            hashed.map_err(|error| Error::provider("EC2NodeClass", error))?;
        }
        Ok(Action::Done)
    }
}

fn class_key(change: &Change) -> Option<Key> {
    change.node_class()?.new.as_ref().map(|_| change.key.clone())
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use karpenter_apiserver::{ApiServer, Options};
    use karpenter_aws_sim::{Options as SimOptions, Region};
    use karpenter_controllers::{Clock, Settings};
    use karpenter_index::{Kind, Object};

    use super::*;
    use crate::{Amazon, Autoscaler};

    /// A cluster that answers every question with this.
    fn answering(text: String) -> Client {
        let service = tower::service_fn(move |_: http::Request<kube::client::Body>| {
            let answer = http::Response::new(kube::client::Body::from(text.clone().into_bytes()));
            async move { Ok::<_, Infallible>(answer) }
        });
        Client::new(service, "default")
    }

    #[tokio::test(start_paused = true)]
    async fn a_class_that_cannot_be_read_is_named() {
        let clock = Clock::starting_at("2026-01-02T00:00:00Z".parse().unwrap());
        let client = Client::new(ApiServer::new(Options::new()).service(), "default");
        let of_region = clock.clone();
        let region = Region::new(SimOptions::new("us-east-1", 1, "shop"), Arc::new(move || of_region.now()));
        let facts = karpenter_provider_aws::Settings::new("shop", "https://shop.example", "");
        let amazon = Amazon::start(client.clone(), &clock, region.aws(), facts).await.unwrap();
        let context = Autoscaler::new(client, clock, &amazon, Settings::default()).context;
        let class = |version: u32, spec: &str| {
            let metadata = format!(r#"{{"name": "main", "uid": "u", "resourceVersion": "{version}"}}"#);
            format!(r#"{{"metadata": {metadata}, "spec": {spec}, "status": {{}}}}"#)
        };
        let saw = |text: &str| context.saw(Object::read(Kind::NodeClass, text).unwrap());
        let odd = class(5, r#"{"amiSelectorTerms": "those of tomorrow"}"#);
        saw(&odd);
        let read = Classes::new(answering(odd)).get("main", &context).await;
        assert!(matches!(read, Err(kube::Error::SerdeError(_))), "{read:?}");
        assert_eq!(context.index.unreadable_keys(Kind::NodeClass), [Key::cluster("main")]);
        assert!(context.index.unreadable(Kind::NodeClass, &Key::cluster("main")).is_none(), "the rest of it counts");
        let mended = class(6, "{}");
        saw(&mended);
        assert!(context.index.unreadable_keys(Kind::NodeClass).is_empty(), "that was another version of it");
        let read = Classes::new(answering(mended)).get("main", &context).await;
        assert!(matches!(read, Ok(Some(_))), "{read:?}");
        assert!(context.index.unreadable_keys(Kind::NodeClass).is_empty());
    }
}
