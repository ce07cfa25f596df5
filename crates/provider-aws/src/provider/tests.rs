use super::*;
use crate::testing::{class, facts, instance, types};
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
