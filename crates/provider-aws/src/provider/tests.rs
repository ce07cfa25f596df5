use super::*;
use crate::launch::template::EFA;
use crate::testing::{Fake, at, claim, class, facts, instance, types};
use serde_json::json;

#[test]
fn a_machine_tells_what_is_certain() {
    // covers: AWS-CP-09, AWS-CP-10, AWS-CP-11, AWS-CP-23
    let kind = types(&facts(), &["m6i.32xlarge"]).remove(0);
    let mut class = class(json!({}));
    class.status.as_mut().unwrap().subnets.as_mut().unwrap()[0].zone_id = Some("use1-az6".into());
    let mut seen = instance("i-1");
    seen.instance_type = "m6i.32xlarge".into();
    seen.tags.insert(labels::NODEPOOL.to_owned(), "pool".to_owned());
    let machine = describe(&seen, Some(&kind), Some(&class), "spot");
    let label = |key: &str| machine.labels.get(key).map(String::as_str);
    assert_eq!(label("karpenter.k8s.aws/instance-family"), Some("m6i"));
    assert_eq!(label("topology.kubernetes.io/zone"), Some("us-east-1a"), "several are possible, this is the one");
    assert_eq!(label("topology.k8s.aws/zone-id"), Some("use1-az6"));
    assert_eq!((label("karpenter.sh/capacity-type"), label("karpenter.sh/nodepool")), (Some("spot"), Some("pool")));
    assert_eq!(label("karpenter.k8s.aws/instance-tenancy"), Some("default"));
    assert!(machine.labels.keys().all(|key| !key.contains("capacity-reservation")));
    assert!(!machine.capacity.0.contains_key(EFA) && !machine.capacity.0.contains_key("nvidia.com/gpu"));
    seen.efa_interfaces = 1;
    assert!(describe(&seen, Some(&kind), Some(&class), "spot").capacity.get(EFA).units() > 0);
    let bare = describe(&seen, None, None, "on-demand");
    assert!(bare.capacity.is_empty() && !bare.labels.contains_key("topology.k8s.aws/zone-id"));
    for (state, deleting) in
        [(InstanceState::Running, false), (InstanceState::ShuttingDown, true), (InstanceState::Terminated, true)]
    {
        seen.state = state;
        assert_eq!(describe(&seen, None, None, "on-demand").deleting, deleting);
    }
}

struct OneClass(EC2NodeClass);

/// Objects of which no type takes any.
struct Unreadable;

#[async_trait]
impl Objects for Unreadable {
    async fn node_class(&self, _name: &str) -> Result<Option<Arc<EC2NodeClass>>, BoxError> {
        Err(unreadable())
    }

    async fn node_pool(&self, _name: &str) -> Result<Option<Arc<NodePool>>, BoxError> {
        Err(unreadable())
    }

    async fn node_pools(&self) -> Result<Vec<Arc<NodePool>>, BoxError> {
        Err(unreadable())
    }

    async fn node_claims(&self) -> Result<Vec<Arc<NodeClaim>>, BoxError> {
        Err(unreadable())
    }

    async fn node(&self, _name: &str) -> Result<Option<Arc<k8s_openapi::api::core::v1::Node>>, BoxError> {
        Err(unreadable())
    }

    async fn end_claim(&self, _claim: &NodeClaim, _deadline: Option<jiff::Timestamp>) -> Result<bool, BoxError> {
        Err(unreadable())
    }
}

/// As `kube` says it of an answer with an unknown value of an enum, say.
fn unreadable() -> BoxError {
    let text = serde_json::from_str::<u8>("\"no number\"").expect_err("it is none");
    kube::Error::SerdeError(text).into()
}

#[tokio::test]
async fn a_class_that_cannot_be_read_hides_no_machine() {
    let fake = Arc::new(Fake::default());
    let mut machine = instance("i-1");
    machine.tags.insert(labels::NODEPOOL.to_owned(), "pool".to_owned());
    machine.tags.insert(labels::EC2_NODE_CLASS.to_owned(), "main".to_owned());
    *fake.instances.lock().unwrap() = vec![machine];
    let settings = Settings::new("here", "https://api", "1.36");
    let silent = Arc::new(karpenter_provider::Silent);
    let parts =
        Parts::new(fake.aws(), settings, Arc::new(|| at(0)), Arc::new(Unreadable), silent, Arc::new(Unobserved));
    let provider = AwsProvider::new(parts);
    let ids: Vec<String> = provider.list().await.unwrap().into_iter().map(|machine| machine.provider_id).collect();
    assert_eq!(ids, ["aws:///us-east-1a/i-1"], "or nothing is swept any more");
    assert!(provider.get(&ids[0]).await.is_ok(), "or no node whose machine is gone is let go");
    let gone = provider.get("aws:///us-east-1a/i-2").await;
    assert!(matches!(gone, Err(GetError::NotFound { .. })), "{gone:?}");
}

#[async_trait]
impl Objects for OneClass {
    async fn node_class(&self, name: &str) -> Result<Option<Arc<EC2NodeClass>>, BoxError> {
        Ok((name == "main").then(|| Arc::new(self.0.clone())))
    }

    async fn node_pool(&self, _name: &str) -> Result<Option<Arc<NodePool>>, BoxError> {
        Err("the API server does not answer".into())
    }

    async fn node_pools(&self) -> Result<Vec<Arc<NodePool>>, BoxError> {
        Ok(Vec::new())
    }

    async fn node_claims(&self) -> Result<Vec<Arc<NodeClaim>>, BoxError> {
        Ok(Vec::new())
    }

    async fn node(&self, _name: &str) -> Result<Option<Arc<k8s_openapi::api::core::v1::Node>>, BoxError> {
        Ok(None)
    }

    async fn end_claim(&self, _claim: &NodeClaim, _deadline: Option<jiff::Timestamp>) -> Result<bool, BoxError> {
        Ok(false)
    }
}

fn provider(mut class: EC2NodeClass) -> (Arc<Fake>, AwsProvider) {
    let ready = json!([{
        "type": "Ready", "status": "True", "reason": "Ready", "message": "", "observedGeneration": 1,
        "lastTransitionTime": "2026-01-01T00:00:00Z",
    }]);
    class.status.as_mut().unwrap().conditions = serde_json::from_value(ready).unwrap();
    let fake = Arc::new(Fake::default());
    let settings = Settings::new("here", "https://api", "1.36");
    let now: Now = Arc::new(|| at(0));
    let silent = Arc::new(karpenter_provider::Silent);
    let parts = Parts::new(fake.aws(), settings, now, Arc::new(OneClass(class)), silent, Arc::new(Unobserved));
    (fake, AwsProvider::new(parts))
}

#[tokio::test]
async fn a_class_that_cannot_be_used_says_why() {
    // covers: AWS-CP-05, AWS-CP-06
    let (fake, cloud) = provider(class(json!({"tags": {"karpenter.sh/nodepool": "mine"}})));
    let refused = cloud.create(&claim(&[])).await.unwrap_err();
    assert!(matches!(refused, LaunchError::NodeClassNotReady { .. }), "{refused}");
    let (_, cloud) = provider(class(json!({})));
    match cloud.create(&claim(&[])).await.unwrap_err() {
        LaunchError::Create { condition_reason, .. } => assert_eq!(condition_reason, "InstanceTypeResolutionFailed"),
        other => panic!("{other:?}"),
    }
    assert!(fake.asked().is_empty());
}

#[tokio::test(start_paused = true)]
async fn an_unreadable_id_makes_no_call_and_a_failing_lookup_is_no_verdict() {
    // covers: AWS-CP-13, AWS-DRIFT-01
    let (fake, cloud) = provider(class(json!({})));
    assert!(matches!(cloud.get("aws:///nowhere").await, Err(GetError::Other(_))));
    assert!(fake.asked().is_empty());
    assert!(cloud.is_drifted(&claim(&[])).await.is_err(), "the pool could not be read");
    let mut alone = claim(&[]);
    alone.metadata.labels = None;
    assert_eq!(cloud.is_drifted(&alone).await.unwrap(), None);
}

#[test]
fn unhealthy_conditions_are_borne_for_a_while() {
    // covers: AWS-REPAIR-01, AWS-REPAIR-02, AWS-REPAIR-03, AWS-REPAIR-04, API-CD-60, API-CD-61, API-CD-62, API-CD-63
    let (_, cloud) = provider(class(json!({})));
    let policies = cloud.repair_policies();
    let told: Vec<(&str, &str, u64)> = policies
        .iter()
        .map(|policy| (policy.condition_type, policy.unhealthy.as_str(), policy.toleration.as_secs() / 60))
        .collect();
    let want = [
        ("Ready", "False", 30),
        ("Ready", "Unknown", 30),
        ("AcceleratedHardwareReady", "False", 10),
        ("StorageReady", "False", 30),
        ("NetworkingReady", "False", 30),
        ("KernelReady", "False", 30),
        ("ContainerRuntimeReady", "False", 30),
    ];
    assert_eq!(told, want);
}
