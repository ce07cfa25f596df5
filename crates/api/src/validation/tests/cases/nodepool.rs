use super::*;

const LABELS: &str = "/spec/template/metadata/labels";
const LABELS_FIELD: &str = "spec.template.metadata.labels";
const REQUIREMENTS: &str = "/spec/template/spec/requirements";
const REQUIREMENTS_FIELD: &str = "spec.template.spec.requirements";
const BUDGETS: &str = "/spec/disruption/budgets";
const BUDGETS_FIELD: &str = "spec.disruption.budgets";

fn base() -> Value {
    json!({
        "apiVersion": "karpenter.sh/v1", "kind": "NodePool", "metadata": {"name": "pool"},
        "spec": {"template": {"spec": {
            "nodeClassRef": {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "default"},
            "requirements": [{"key": "karpenter.sh/capacity-type", "operator": "Exists"}],
        }}},
    })
}

pub(super) fn cases() -> Vec<Case> {
    let mut table = Table::new(base());
    template_cases(
        &mut table,
        TemplateIds {
            durations: "API-NP-01",
            grace: "API-NP-02",
            taints: "API-NP-09",
            keys: "API-NP-10",
            operators: "API-NP-11",
            numeric: "API-NP-12",
            empty_in: "API-NP-13",
            min_values: "API-NP-14",
            lengths: "API-NP-15",
            same_key: "API-NP-16",
            class_ref: "API-NP-25",
        },
        TemplateFields {
            expire_after: "spec.template.spec.expireAfter",
            grace: "spec.template.spec.terminationGracePeriod",
            taints: "spec.template.spec.taints",
            startup_taints: "spec.template.spec.startupTaints",
            requirements: REQUIREMENTS_FIELD,
            class_ref: "spec.template.spec.nodeClassRef",
        },
        "/spec/template/spec",
    );
    disruption(&mut table);
    labels(&mut table);
    replicas(&mut table);
    changes(&mut table);
    table.cases
}

fn disruption(table: &mut Table) {
    let after = "/spec/disruption/consolidateAfter";
    table.admits("API-NP-01", after, texts(["30s", "1h30m5s", "Never"]));
    table.refuses("API-NP-01", "spec.disruption.consolidateAfter", after, texts(["-1s", "1hr", "FooNever"]));
    for policy in ["WhenEmpty", "WhenEmptyOrUnderutilized", "Balanced"] {
        for after in ["30s", "Never"] {
            table.admits(
                "API-NP-03",
                "/spec/disruption",
                [json!({"consolidationPolicy": policy, "consolidateAfter": after})],
            );
        }
    }
    let policy = "/spec/disruption/consolidationPolicy";
    let bad =
        ["0", "5", "10", "whenempty", "whenEmptyOrUnderutilized", "balanced", "", "WhenUnderutilized", "Sometimes"];
    table.refuses("API-NP-06", "spec.disruption.consolidationPolicy", policy, texts(bad));
    table.refuses("API-NP-06", "spec.disruption.consolidationPolicy", policy, [json!(3)]);

    let budget = |schedule: &str, duration: &str| json!([{"nodes": "10", "schedule": schedule, "duration": duration}]);
    table.refuses(
        "API-NP-07",
        BUDGETS_FIELD,
        BUDGETS,
        [
            budget("*", "20m"),
            budget("* * * *", "20m"),
            budget("* * * * *", "-20m"),
            budget("* * * * *", "30s"),
            json!([{"nodes": "-10"}]),
            json!([{"nodes": "-10%"}]),
            json!([{"nodes": "1000%"}]),
            json!([{"nodes": 10}]),
            json!([{"nodes": "10", "schedule": "* * * * *"}]),
            json!([{"nodes": "10", "duration": "20m"}]),
            json!([{"nodes": "10", "schedule": "* * * * *", "duration": "20m"}, {"nodes": "10", "duration": "20m"}]),
            json!(vec![json!({"nodes": "1"}); 51]),
        ],
    );
    table.admits(
        "API-NP-08",
        BUDGETS,
        [
            budget("* * * * *", "20m"),
            budget("* * * * *", "2h20m"),
            budget("* * * * *", "2h20m0s"),
            budget("@annually", "20m"),
            json!([{"nodes": "0%"}]),
            json!([{"nodes": "99%"}]),
            json!([{"nodes": "100%"}]),
            json!([{"nodes": "0"}]),
            json!([{"nodes": "1000"}]),
            json!([{}]),
            json!([]),
            json!([{"nodes": "10", "reasons": ["Drifted"]}, {"nodes": "10", "reasons": ["Underutilized"]}]),
            json!([{"nodes": "10", "reasons": ["Drifted", "Underutilized", "Empty"]}]),
            json!(vec![json!({"nodes": "1"}); 50]),
            // Half anchored, as in the reference: admitted here, and later failing to parse as a schedule.
            budget("@dailyfoo", "20m"),
        ],
    );
    table.refuses(
        "API-NP-08",
        BUDGETS_FIELD,
        BUDGETS,
        ["invalid", "expired", ""].map(|reason| json!([{"nodes": "10", "reasons": [reason]}])),
    );
    table.refuses("API-NP-08", BUDGETS_FIELD, BUDGETS, [json!([{"nodes": "10", "reasons": ["Empty", "Empty"]}])]);
}

fn labels(table: &mut Table) {
    let label = |key: &str| json!({key: "x"});
    let exists = |key: &str| json!([{"key": key, "operator": "Exists"}]);
    let ours =
        ["karpenter.sh/custom", "karpenter.sh/nodepool", "sub.karpenter.sh/x", "notkarpenter.sh/x", "foo.karpenter.sh"];
    table.refuses("API-NP-20", LABELS_FIELD, LABELS, ours.map(label));
    table.admits("API-NP-20", LABELS, [json!({"karpenter.sh/capacity-type": "spot"}), label("karpenter.shh/x")]);
    table.refuses("API-NP-21", LABELS_FIELD, LABELS, [label("kubernetes.io/hostname")]);
    let aws = ["karpenter.k8s.aws/custom", "sub.karpenter.k8s.aws/x", "karpenter.k8s.aws/instance-pods"];
    table.refuses("API-NP-22", LABELS_FIELD, LABELS, aws.map(label));
    table.admits("API-NP-22", LABELS, WELL_KNOWN_IN_AWS_DOMAIN.map(label));
    let kubernetes =
        ["kubernetes.io/x", "k8s.io/x", "sub.kubernetes.io/x", "sub.k8s.io/x", "kops.k8s.io/instancegroup"];
    table.admits("API-NP-23", LABELS, kubernetes.map(label));

    table.refuses("API-NP-24", REQUIREMENTS_FIELD, REQUIREMENTS, ours.map(exists));
    table.refuses("API-NP-24", REQUIREMENTS_FIELD, REQUIREMENTS, aws.map(exists));
    table.refuses("API-NP-24", REQUIREMENTS_FIELD, REQUIREMENTS, [exists("kubernetes.io/hostname")]);
    table.admits("API-NP-24", REQUIREMENTS, kubernetes.map(exists));
    table.admits("API-NP-24", REQUIREMENTS, WELL_KNOWN_IN_AWS_DOMAIN.map(exists));
    table.admits("API-NP-24", REQUIREMENTS, [exists("karpenter.sh/capacity-type"), exists("topology.k8s.aws/zone-id")]);

    // Admission looks at values and their number, not at the grammar of keys.
    let hundred: serde_json::Map<_, _> = (0..100).map(|i| (format!("l{i}"), json!("x"))).collect();
    let mut more = hundred.clone();
    more.insert("one-more".to_owned(), json!("x"));
    table.admits("API-NP-31", LABELS, [json!({"a key with spaces": "x"}), json!({"a": ""}), hundred.into()]);
    let long = "a".repeat(64);
    table.refuses("API-NP-31", LABELS_FIELD, LABELS, [json!({"a": "???"}), json!({"a": long}), more.into()]);
}

fn replicas(table: &mut Table) {
    let replicas = "/spec/replicas";
    table.admits("API-NP-26", replicas, [json!(0), json!(5), json!(1000)]);
    table.refuses("API-NP-26", "spec.replicas", replicas, [json!(-1), json!("5")]);
    let set = |pointer: &'static str, value: Value| [(replicas, json!(3)), (pointer, value)];
    table.refuses_all("API-NP-27", "spec", &set("/spec/weight", json!(10)));
    table.refuses_all("API-NP-27", "spec", &set("/spec/limits", json!({"cpu": "1"})));
    table.refuses_all("API-NP-27", "spec", &set("/spec/limits", json!({"nodes": "1", "cpu": "1"})));
    table.admits_all("API-NP-27", &set("/spec/limits", json!({})));
    table.admits_all("API-NP-27", &set("/spec/limits", json!({"nodes": "10"})));
    table.admits("API-NP-27", "/spec/weight", [json!(1), json!(100)]);
    table.refuses("API-NP-27", "spec.weight", "/spec/weight", [json!(0), json!(101)]);
    for (pointer, value) in [
        (LABELS, json!({"team": "a"})),
        ("/spec/template/metadata/annotations", json!({"anything goes": "here ?"})),
        ("/spec/template/spec/taints", json!([{"key": "a", "effect": "NoSchedule"}])),
        ("/spec/template/spec/startupTaints", json!([{"key": "a", "effect": "NoSchedule"}])),
        (REQUIREMENTS, json!([{"key": "a", "operator": "In", "values": ["x", "y"], "minValues": 2}])),
        ("/spec/template/spec/expireAfter", json!("24h")),
        ("/spec/template/spec/terminationGracePeriod", json!("1h")),
        (BUDGETS, json!([{"nodes": "10%"}])),
        ("/spec/limits", json!({"nodes": 5})),
    ] {
        table.admits_all("API-NP-29", &set(pointer, value));
    }
    table.update(
        "API-NP-29",
        None,
        &set("/spec/limits", json!({"nodes": "5"})),
        &set("/spec/limits", json!({"nodes": "9"})),
    );
    table.admits(
        "API-NP-39",
        "/spec/limits",
        [json!({"cpu": 1000, "memory": "1000Gi", "ephemeral-storage": "1Ti", "pods": "110", "nodes": 3,
            "nvidia.com/gpu": "2", "gpu": 4, "example.com/anything": "1k"})],
    );
    table.refuses(
        "API-NP-39",
        "spec.limits",
        "/spec/limits",
        [json!({"cpu": "lots"}), json!({"cpu": true}), json!({"cpu": 0.5})],
    );
}

fn changes(table: &mut Table) {
    let reference = "/spec/template/spec/nodeClassRef";
    let class = |group: &str, kind: &str, name: &str| json!({"group": group, "kind": kind, "name": name});
    let before = [(reference, class("karpenter.k8s.aws", "EC2NodeClass", "default"))];
    let field = Some("spec.template.spec.nodeClassRef");
    table.update("API-NP-25", None, &before, &[(reference, class("karpenter.k8s.aws", "EC2NodeClass", "other"))]);
    table.update("API-NP-25", field, &before, &[(reference, class("other", "EC2NodeClass", "default"))]);
    table.update("API-NP-25", field, &before, &[(reference, class("karpenter.k8s.aws", "Other", "default"))]);

    let with = [("/spec/replicas", json!(3))];
    table.update("API-NP-28", None, &with, &[("/spec/replicas", json!(7))]);
    table.update("API-NP-28", Some("spec"), &with, &[]);
    table.update("API-NP-28", Some("spec"), &[], &with);
}

/// The keys of the AWS domain a template may carry.
pub(super) const WELL_KNOWN_IN_AWS_DOMAIN: [&str; 29] = [
    "karpenter.k8s.aws/capacity-reservation-id",
    "karpenter.k8s.aws/capacity-reservation-interruptible",
    "karpenter.k8s.aws/capacity-reservation-type",
    "karpenter.k8s.aws/ec2nodeclass",
    "karpenter.k8s.aws/instance-accelerator-count",
    "karpenter.k8s.aws/instance-accelerator-manufacturer",
    "karpenter.k8s.aws/instance-accelerator-name",
    "karpenter.k8s.aws/instance-capability-flex",
    "karpenter.k8s.aws/instance-category",
    "karpenter.k8s.aws/instance-cpu",
    "karpenter.k8s.aws/instance-cpu-manufacturer",
    "karpenter.k8s.aws/instance-cpu-sustained-clock-speed-mhz",
    "karpenter.k8s.aws/instance-ebs-bandwidth",
    "karpenter.k8s.aws/instance-encryption-in-transit-supported",
    "karpenter.k8s.aws/instance-family",
    "karpenter.k8s.aws/instance-generation",
    "karpenter.k8s.aws/instance-gpu-count",
    "karpenter.k8s.aws/instance-gpu-manufacturer",
    "karpenter.k8s.aws/instance-gpu-memory",
    "karpenter.k8s.aws/instance-gpu-name",
    "karpenter.k8s.aws/instance-hypervisor",
    "karpenter.k8s.aws/instance-local-nvme",
    "karpenter.k8s.aws/instance-memory",
    "karpenter.k8s.aws/instance-network-bandwidth",
    "karpenter.k8s.aws/instance-size",
    "karpenter.k8s.aws/instance-tenancy",
    "karpenter.k8s.aws/nitro-sandbox",
    "karpenter.k8s.aws/placement-group-id",
    "karpenter.k8s.aws/placement-group-partition",
];
