//! What the controller may do, right by right: nothing is missing and nothing is too much.

use std::collections::BTreeSet;

use serde_json::Value;

use super::helm::{Release, Rendered, chart, helm};

/// `group/resource name verb`, `core` for the nameless group and `*` for any name.
pub(crate) fn rights(role: &Value) -> BTreeSet<String> {
    let texts = |value: &Value| -> Vec<String> {
        value.as_array().into_iter().flatten().map(|text| text.as_str().unwrap().to_owned()).collect()
    };
    let mut all = BTreeSet::new();
    for rule in role["rules"].as_array().unwrap() {
        let names = match texts(&rule["resourceNames"]) {
            names if names.is_empty() => vec!["*".to_owned()],
            names => names,
        };
        for group in texts(&rule["apiGroups"]) {
            for resource in texts(&rule["resources"]) {
                for verb in texts(&rule["verbs"]) {
                    let group = if group.is_empty() { "core" } else { &group };
                    all.extend(names.iter().map(|name| format!("{group}/{resource} {name} {verb}")));
                }
            }
        }
    }
    all
}

/// A row: group, resources, name, verbs, each a list of words.
fn expected(rows: &[(&str, &str, &str, &str)]) -> BTreeSet<String> {
    let mut all = BTreeSet::new();
    for (group, resources, names, verbs) in rows {
        for resource in resources.split(' ') {
            for name in names.split(' ') {
                all.extend(verbs.split(' ').map(|verb| format!("{group}/{resource} {name} {verb}")));
            }
        }
    }
    all
}

const LOOK: &str = "get list watch";
const CONVERTED: &str = "nodepools.karpenter.sh nodeclaims.karpenter.sh ec2nodeclasses.karpenter.k8s.aws";

const AWS: &[(&str, &str, &str, &str)] = &[
    ("karpenter.k8s.aws", "ec2nodeclasses", "*", LOOK),
    ("karpenter.k8s.aws", "ec2nodeclasses ec2nodeclasses/status", "*", "patch update"),
];

const CORE: &[(&str, &str, &str, &str)] = &[
    (
        "karpenter.sh",
        "nodepools nodepools/status nodeclaims nodeclaims/status nodeoverlays nodeoverlays/status",
        "*",
        LOOK,
    ),
    ("autoscaling.x-k8s.io", "capacitybuffers capacitybuffers/status", "*", LOOK),
    (
        "core",
        "pods nodes persistentvolumes persistentvolumeclaims replicationcontrollers namespaces podtemplates events",
        "*",
        LOOK,
    ),
    ("storage.k8s.io", "storageclasses csinodes volumeattachments", "*", LOOK),
    ("apps", "daemonsets deployments replicasets statefulsets", "*", LOOK),
    ("policy", "poddisruptionbudgets", "*", LOOK),
    ("karpenter.sh", "nodeclaims nodeclaims/status", "*", "create delete update patch"),
    ("karpenter.sh", "nodepools nodepools/status nodeoverlays/status", "*", "update patch"),
    ("autoscaling.x-k8s.io", "capacitybuffers/status", "*", "update patch"),
    ("core", "events", "*", "create patch"),
    ("core", "nodes", "*", "patch delete update"),
    ("core", "pods/eviction", "*", "create"),
    ("core", "pods", "*", "delete"),
    // Beyond the tagged release.
    ("core", "services", "*", LOOK),
    ("autoscaling.k8s.io", "verticalpodautoscalers", "*", LOOK),
    ("apiextensions.k8s.io", "customresourcedefinitions", "*", "list watch"),
    // Ours: nominations.
    ("core", "pods/status", "*", "patch"),
];

const CORE_WEBHOOK: &[(&str, &str, &str, &str)] = &[
    ("apiextensions.k8s.io", "customresourcedefinitions", "*", "get"),
    ("apiextensions.k8s.io", "customresourcedefinitions", CONVERTED, "update"),
    ("apiextensions.k8s.io", "customresourcedefinitions/status", CONVERTED, "patch"),
];

const NAMESPACE: &[(&str, &str, &str, &str)] = &[
    ("coordination.k8s.io", "leases", "*", "get watch"),
    ("coordination.k8s.io", "leases", "karpenter-leader-election", "patch update"),
    ("coordination.k8s.io", "leases", "*", "create"),
    // Ours: the switch that stops voluntary disruption.
    ("core", "configmaps", "karpenter", "get"),
];

const NAMESPACE_WEBHOOK: &[(&str, &str, &str, &str)] = &[("core", "secrets", "karpenter-cert", "get update")];

const ADMIN: &[(&str, &str, &str, &str)] = &[
    (
        "karpenter.sh",
        "nodepools nodepools/status nodeclaims nodeclaims/status",
        "*",
        "get list watch create delete patch",
    ),
    ("karpenter.k8s.aws", "ec2nodeclasses", "*", "get list watch create delete patch"),
];

fn compare(made: &Rendered, kind: &str, name: &str, rows: &[&[(&str, &str, &str, &str)]]) {
    let (found, wanted) = (rights(made.get(kind, name)), expected(&rows.concat()));
    let missing: Vec<&String> = wanted.difference(&found).collect();
    let needless: Vec<&String> = found.difference(&wanted).collect();
    assert!(missing.is_empty() && needless.is_empty(), "{kind} {name}: missing {missing:?}, needless {needless:?}");
}

#[test]
fn the_controller_has_the_rights_of_the_tables_and_no_more() {
    // covers: API-RB-01, API-RB-02, API-RB-03, API-RB-04, API-RB-05, API-RB-06, API-RB-07, API-RB-08, API-RB-09, API-RB-10
    // covers: API-RB-11, API-RB-12, API-RB-13, API-RB-14, API-RB-16, API-RB-18, API-RB-19, API-RB-20, API-RB-21, API-RB-22
    let Some(helm) = helm() else { return };
    let with = helm.template(&Release::default());
    let off = ["settings.clusterName=shop", "webhook.enabled=false"];
    let without = helm.template(&Release { set: &off, ..Release::default() });
    for made in [&with, &without] {
        compare(made, "ClusterRole", "karpenter", &[AWS]);
        compare(made, "ClusterRole", "karpenter-admin", &[ADMIN]);
        compare(made, "Role", "karpenter-dns", &[&[("core", "services", "kube-dns", "get")]]);
        let admin = made.get("ClusterRole", "karpenter-admin");
        assert_eq!(admin["metadata"]["labels"]["rbac.authorization.k8s.io/aggregate-to-admin"], "true");
        for kind in ["Role", "ClusterRole"] {
            for binding in made.objects.iter().filter(|object| object["kind"] == format!("{kind}Binding")) {
                assert_eq!(binding["roleRef"]["kind"], kind);
                assert_eq!(binding["roleRef"]["name"], binding["metadata"]["name"]);
            }
        }
    }
    compare(&with, "ClusterRole", "karpenter-core", &[CORE, CORE_WEBHOOK]);
    compare(&without, "ClusterRole", "karpenter-core", &[CORE]);
    compare(&with, "Role", "karpenter", &[NAMESPACE, NAMESPACE_WEBHOOK]);
    compare(&without, "Role", "karpenter", &[NAMESPACE]);
}

#[test]
fn devices_are_not_allocated_and_the_chart_says_so() {
    // covers: API-RB-17
    let Some(helm) = helm() else { return };
    for value in ["false", "true"] {
        let set = ["settings.clusterName=shop".to_owned(), format!("settings.ignoreDRARequests={value}")];
        let set: Vec<&str> = set.iter().map(String::as_str).collect();
        let release = Release { set: &set, ..Release::default() };
        match helm.try_template(&chart("karpenter"), &release) {
            Ok(made) => {
                assert_eq!(value, "true");
                compare(&made, "ClusterRole", "karpenter-core", &[CORE, CORE_WEBHOOK]);
            }
            Err(error) => {
                assert_eq!(value, "false");
                assert!(error.contains("settings.ignoreDRARequests: false is not supported"), "{error}");
            }
        }
    }
}

#[test]
fn the_operators_own_rules_are_appended() {
    // covers: API-RB-15
    let Some(helm) = helm() else { return };
    let values = "{settings: {clusterName: shop}, additionalClusterRoleRules: [{apiGroups: [x.example], resources: [things], verbs: [get]}]}";
    let made = helm.template(&Release { set: &[], values: Some(values), ..Release::default() });
    compare(&made, "ClusterRole", "karpenter-core", &[CORE, CORE_WEBHOOK, &[("x.example", "things", "*", "get")]]);
}
