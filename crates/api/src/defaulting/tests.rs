use serde_json::json;

use super::*;

fn pool_with(disruption: Value, replicas: Value) -> Value {
    let mut pool = json!({
        "apiVersion": "karpenter.sh/v1", "kind": "NodePool", "metadata": {"name": "p"},
        "spec": {"template": {"spec": {"nodeClassRef": {"group": "g", "kind": "k", "name": "n"}, "requirements": []}}},
    });
    for (field, value) in [("disruption", disruption), ("replicas", replicas)] {
        if !value.is_null() {
            pool["spec"][field] = value;
        }
    }
    apply_defaults(Kind::NodePool, &mut pool);
    pool
}

#[test]
fn an_omitted_disruption_block_reads_back_in_full() {
    // covers: API-NP-05
    let pool = pool_with(Value::Null, Value::Null);
    assert_eq!(
        pool["spec"]["disruption"],
        json!({"consolidateAfter": "0s", "consolidationPolicy": "WhenEmptyOrUnderutilized", "budgets": [{"nodes": "10%"}]})
    );
    assert_eq!(pool["spec"]["template"]["spec"]["expireAfter"], "720h");
    assert_eq!(pool.get("status"), None, "a status is not made up");
}

#[test]
fn an_omitted_consolidate_after_reads_back_as_zero() {
    // covers: API-NP-04
    for disruption in [Value::Null, json!({}), json!({"consolidationPolicy": "WhenEmpty"}), json!({"budgets": []})] {
        for replicas in [Value::Null, json!(3)] {
            let pool = pool_with(disruption.clone(), replicas);
            assert_eq!(pool["spec"]["disruption"]["consolidateAfter"], "0s", "{disruption}");
        }
    }
    let kept =
        pool_with(json!({"consolidateAfter": "Never", "budgets": [], "consolidationPolicy": "Balanced"}), Value::Null);
    assert_eq!(
        kept["spec"]["disruption"],
        json!({"consolidateAfter": "Never", "budgets": [], "consolidationPolicy": "Balanced"})
    );
}

#[test]
fn defaults_reach_into_lists_and_replace_nulls() {
    let pool = pool_with(
        json!({"budgets": [{"reasons": ["Empty"], "schedule": null}], "consolidationPolicy": null}),
        Value::Null,
    );
    assert_eq!(pool["spec"]["disruption"]["budgets"], json!([{"reasons": ["Empty"], "nodes": "10%"}]));
    assert_eq!(pool["spec"]["disruption"]["consolidationPolicy"], "WhenEmptyOrUnderutilized");

    let mut class = json!({"spec": {"metadataOptions": {"httpTokens": "optional"}, "kubelet": {"maxPods": null}, "tags": {"a": null}}});
    apply_defaults(Kind::EC2NodeClass, &mut class);
    assert_eq!(
        class["spec"]["metadataOptions"],
        json!({"httpTokens": "optional", "httpEndpoint": "enabled", "httpProtocolIPv6": "disabled", "httpPutResponseHopLimit": 1})
    );
    assert_eq!(class["spec"]["kubelet"], json!({"maxPods": null}), "what is open is left alone");
    assert_eq!(class["spec"]["tags"], json!({}));

    let mut class = json!({"spec": {}});
    apply_defaults(Kind::EC2NodeClass, &mut class);
    assert_eq!(class["spec"]["metadataOptions"]["httpTokens"], "required");

    let mut buffer = json!({"spec": {}});
    apply_defaults(Kind::CapacityBuffer, &mut buffer);
    assert_eq!(buffer["spec"]["provisioningStrategy"], "buffer.x-k8s.io/active-capacity");

    let mut text = json!("not an object");
    apply_defaults(Kind::NodeClaim, &mut text);
    assert_eq!(text, "not an object");
}
