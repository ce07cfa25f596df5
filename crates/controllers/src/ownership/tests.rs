use super::*;
use serde_json::{Value, json};

const KINDS: [NodeClassKind; 1] =
    [NodeClassKind { group: "karpenter.k8s.aws", version: "v1", kind: "EC2NodeClass", plural: "ec2nodeclasses" }];

fn node(value: Value) -> Node {
    serde_json::from_value(value).unwrap()
}

#[test]
fn the_kind_of_node_class_decides_what_is_ours() {
    // covers: LC-GEN-01, LC-GEN-02
    for (group, kind, want) in [
        ("karpenter.k8s.aws", "EC2NodeClass", true),
        ("karpenter.k8s.aws", "OtherNodeClass", false),
        ("eks.amazonaws.com", "EC2NodeClass", false),
        ("eks.amazonaws.com", "NodeClass", false),
    ] {
        let reference = NodeClassReference { group: group.into(), kind: kind.into(), name: "default".into() };
        let (mut claim, mut pool) = (NodeClaim::default(), NodePool::default());
        claim.spec.node_class_ref = reference.clone();
        pool.spec.template.spec.node_class_ref = reference;
        assert_eq!(is_managed_claim(&claim, &KINDS), want, "{group} {kind}");
        assert_eq!(is_managed_pool(&pool, &KINDS), want, "{group} {kind}");
    }
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
