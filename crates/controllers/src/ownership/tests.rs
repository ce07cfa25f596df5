use super::*;
use serde_json::{Value, json};

const KINDS: [NodeClassKind; 1] =
    [NodeClassKind { group: "karpenter.k8s.aws", version: "v1", kind: "EC2NodeClass", plural: "ec2nodeclasses" }];

fn node(value: Value) -> Node {
    serde_json::from_value(value).unwrap()
}

#[test]
fn a_node_is_ours_by_the_label_of_its_node_class() {
    for (labels, want) in [
        (json!({"karpenter.k8s.aws/ec2nodeclass": "default"}), true),
        (json!({"karpenter.k8s.aws/ec2nodeclass": ""}), true),
        (json!({"eks.amazonaws.com/nodeclass": "default", "karpenter.sh/nodepool": "default"}), false),
        (json!(null), false),
    ] {
        assert_eq!(is_managed_node(&node(json!({"metadata": {"labels": labels}})), &KINDS), want, "{labels}");
    }
}

#[test]
fn an_empty_provider_id_is_none() {
    // covers: LC-GEN-03
    assert_eq!(node_provider_id(&node(json!({"spec": {"providerID": ""}}))), None);
    assert_eq!(node_provider_id(&node(json!({}))), None);
    assert_eq!(node_provider_id(&node(json!({"spec": {"providerID": "aws:///a/i-1"}}))), Some("aws:///a/i-1"));
    let mut claim = NodeClaim::default();
    assert_eq!(claim_provider_id(&claim), None);
    claim.status.get_or_insert_default().provider_id = Some(String::new());
    assert_eq!(claim_provider_id(&claim), None);
}

#[test]
fn several_is_not_one() {
    // covers: LC-GEN-04
    assert_eq!(Matches::<i32>::from_iter([]), Matches::None);
    assert_eq!(Matches::from_iter([1]), Matches::One(1));
    assert_eq!(Matches::from_iter([1, 1]), Matches::Several);
    assert_eq!(Matches::from_iter([1, 2]).one(), None);
}
