use super::*;

const REQUIREMENTS: &str = "/spec/requirements";

fn base() -> Value {
    json!({
        "apiVersion": "karpenter.sh/v1", "kind": "NodeClaim", "metadata": {"name": "claim"},
        "spec": {
            "nodeClassRef": {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "default"},
            "requirements": [{"key": "karpenter.sh/capacity-type", "operator": "Exists"}],
            "resources": {"requests": {"cpu": "1", "memory": 1000}},
        },
    })
}

pub(super) fn cases() -> Vec<Case> {
    let mut table = Table::new(base());
    const SAME: &str = "API-NC-02";
    template_cases(
        &mut table,
        TemplateIds {
            durations: SAME,
            grace: SAME,
            taints: SAME,
            keys: SAME,
            operators: SAME,
            numeric: SAME,
            empty_in: SAME,
            min_values: SAME,
            lengths: "API-NC-04",
            same_key: SAME,
            class_ref: SAME,
        },
        TemplateFields {
            expire_after: "spec.expireAfter",
            grace: "spec.terminationGracePeriod",
            taints: "spec.taints",
            startup_taints: "spec.startupTaints",
            requirements: "spec.requirements",
            class_ref: "spec.nodeClassRef",
        },
        "/spec",
    );
    let exists = |key: &str| json!([{"key": key, "operator": "Exists"}]);
    table.admits("API-NC-03", REQUIREMENTS, ["karpenter.sh/nodepool", "karpenter.sh/capacity-type"].map(exists));
    table.admits("API-NC-03", REQUIREMENTS, nodepool::WELL_KNOWN_IN_AWS_DOMAIN.map(exists));
    table.refuses(
        "API-NC-03",
        "spec.requirements",
        REQUIREMENTS,
        ["karpenter.sh/other", "kubernetes.io/hostname", "karpenter.k8s.aws/instance-pods", "x.karpenter.k8s.aws/y"]
            .map(exists),
    );
    for (pointer, value) in [
        ("/spec/expireAfter", json!("1h")),
        (REQUIREMENTS, json!([])),
        ("/spec/taints", json!([{"key": "a", "effect": "NoSchedule"}])),
        ("/spec/resources/requests/cpu", json!("2")),
        ("/spec/nodeClassRef/name", json!("other")),
    ] {
        table.update("API-NC-01", Some("spec"), &[], &[(pointer, value)]);
    }
    table.update("API-NC-01", None, &[], &[("/metadata/labels", json!({"a": "b"}))]);
    table.cases
}
