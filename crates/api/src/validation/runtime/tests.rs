use serde_json::{Value, json};

use super::*;
use crate::defaulting::apply_defaults;
use crate::validation::validate;
use crate::{Kind, Object};

fn pool(labels: Value, spec: Value) -> NodePool {
    let mut template = json!({"nodeClassRef": {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "c"}, "requirements": []});
    template.as_object_mut().unwrap().extend(spec.as_object().unwrap().clone());
    serde_json::from_value(
        json!({"metadata": {"name": "p"}, "spec": {"template": {"metadata": {"labels": labels}, "spec": template}}}),
    )
    .unwrap()
}

fn fields(faults: Vec<Fault>) -> Vec<String> {
    faults.into_iter().map(|fault| fault.field).collect()
}

fn label_faults(labels: Value) -> Vec<String> {
    fields(nodepool(&pool(labels, json!({}))))
}

fn requirement_faults(requirement: Value) -> Vec<String> {
    let faults = fields(nodepool(&pool(json!({}), json!({"requirements": [requirement]}))));
    faults.iter().map(|field| field.replacen("spec.template.spec.requirements[0]", "", 1)).collect()
}

#[test]
fn template_labels_must_be_labels() {
    // covers: API-NP-31, API-NP-34
    let long_name = "a".repeat(64);
    let long_prefix = format!("{}.com/a", "a".repeat(250));
    for bad in [
        "a key with spaces",
        &long_name,
        &long_prefix,
        "a/b/c",
        "/a",
        "karpenter.sh/nodepool",
        "karpenter.sh/other",
        "sub.karpenter.k8s.aws/x",
        "kubernetes.io/hostname",
        "karpenter.k8s.aws/ec2nodeclass",
    ] {
        assert!(!label_faults(json!({bad: "x"})).is_empty(), "{bad}");
    }
    for good in [
        "team",
        "example.com/team",
        "notkarpenter.sh/x",
        "foo.karpenter.sh",
        "kubernetes.io/x",
        "kops.k8s.io/x",
        "karpenter.sh/capacity-type",
        "karpenter.k8s.aws/instance-family",
    ] {
        assert_eq!(label_faults(json!({good: "x"})), Vec::<String>::new(), "{good}");
    }
    assert_eq!(label_faults(json!({"a": "not a value"})), ["spec.template.metadata.labels[a]"]);
    assert_eq!(label_faults(json!({"a": ""})), Vec::<String>::new());
}

#[test]
fn taints_have_grammar_and_no_twins() {
    // covers: API-NP-32, API-NP-33
    let faults = |taints: Value, startup: Value| {
        fields(nodepool(&pool(json!({}), json!({"taints": taints, "startupTaints": startup}))))
    };
    let taint = |key: &str, effect: &str| json!({"key": key, "effect": effect});
    let twin = taint("a", "NoSchedule");
    assert_eq!(faults(json!([twin, taint("a", "NoExecute")]), json!([])), Vec::<String>::new());
    assert_eq!(faults(json!([twin, twin]), json!([])), ["spec.template.spec.taints[1]"]);
    assert_eq!(faults(json!([twin]), json!([twin])), ["spec.template.spec.startupTaints[0]"]);
    let long = "a".repeat(64);
    assert_eq!(faults(json!([taint(&long, "NoSchedule")]), json!([])), ["spec.template.spec.taints[0].key"]);
    assert_eq!(
        faults(json!([]), json!([{"key": "a", "value": long, "effect": "Never"}])),
        ["spec.template.spec.startupTaints[0].value", "spec.template.spec.startupTaints[0].effect"]
    );
}

#[test]
fn requirement_keys_are_normalised_then_judged() {
    // covers: API-NP-32, API-NP-34, SCH-REQ-35, SCH-REQ-36
    let exists = |key: &str| requirement_faults(json!({"key": key, "operator": "Exists"}));
    for good in [
        "beta.kubernetes.io/arch",
        "failure-domain.beta.kubernetes.io/zone",
        "topology.ebs.csi.aws.com/zone",
        "topology.k8s.aws/zone-id",
        "team",
        "kubernetes.io/x",
        "notkarpenter.sh/x",
    ] {
        assert_eq!(exists(good), Vec::<String>::new(), "{good}");
    }
    let long = format!("a.com/{}", "a".repeat(64));
    for bad in [
        "kubernetes.io/hostname",
        "karpenter.sh/x",
        "sub.karpenter.sh/x",
        "karpenter.k8s.aws/ec2nodeclass",
        "karpenter.k8s.aws/instance-pods",
        "karpenter.sh/nodepool",
        &long,
        "a b",
    ] {
        assert_eq!(exists(bad), [".key"], "{bad}");
    }
}

#[test]
fn known_values_must_be_among_those_given() {
    // covers: API-NP-35, SCH-REQ-37
    let by = |key: &str, op: &str, values: &[&str], floor: Option<i64>| json!({"key": key, "operator": op, "values": values, "minValues": floor});
    let (capacity, tenancy) = ("karpenter.sh/capacity-type", "karpenter.k8s.aws/instance-tenancy");
    for (requirement, want) in [
        (by(capacity, "In", &["spot"], None), vec![]),
        (by(capacity, "In", &["on-demand", "spot", "reserved"], Some(3)), vec![]),
        (by(capacity, "In", &["spot", "bogus"], None), vec![]),
        (by(capacity, "In", &["bogus"], None), vec![".values"]),
        (by(capacity, "In", &["spot", "bogus"], Some(2)), vec![".values"]),
        (by(capacity, "NotIn", &["bogus"], None), vec![]),
        (by(tenancy, "In", &["default", "dedicated"], None), vec![]),
        (by(tenancy, "In", &["host"], None), vec![".values"]),
        (by("kubernetes.io/arch", "In", &["bogus"], None), vec![]),
    ] {
        assert_eq!(requirement_faults(requirement.clone()), want, "{requirement}");
    }
    let mixed: NodeSelectorRequirement = serde_json::from_value(by(capacity, "In", &["spot", "bogus"], None)).unwrap();
    assert_eq!(ignored_values(&mixed), ["bogus"]);
    let free: NodeSelectorRequirement = serde_json::from_value(by("team", "In", &["any"], None)).unwrap();
    assert_eq!(ignored_values(&free), Vec::<&str>::new());
}

#[test]
fn requirement_values_are_label_values_in_the_right_number() {
    // covers: API-NP-36
    for (requirement, want) in [
        (json!({"key": "a", "operator": "In", "values": ["ok", "not ok"]}), vec![".values[1]"]),
        (json!({"key": "a", "operator": "In", "values": []}), vec![".values"]),
        (json!({"key": "a", "operator": "In", "values": ["x"], "minValues": 2}), vec![".values"]),
        (json!({"key": "a", "operator": "NotIn", "values": []}), vec![]),
        (json!({"key": "a", "operator": "Gt", "values": ["1"]}), vec![]),
        (json!({"key": "a", "operator": "Gte", "values": []}), vec![".values"]),
        (json!({"key": "a", "operator": "Lt", "values": ["one"]}), vec![".values"]),
        (json!({"key": "a", "operator": "Lte", "values": ["-1"]}), vec![".values[0]", ".values"]),
        (json!({"key": "a", "operator": "Eq", "values": ["1"]}), vec![".operator"]),
    ] {
        assert_eq!(requirement_faults(requirement.clone()), want, "{requirement}");
    }
}

#[test]
fn every_well_known_label_passes_admission_and_controller() {
    // covers: API-LB-01, SCH-REQ-29
    let special = [labels::NODEPOOL, labels::CAPACITY_TYPE, labels::INSTANCE_TENANCY];
    for key in labels::WELL_KNOWN.into_iter().filter(|key| !special.contains(key)) {
        let requirement = json!([{"key": key, "operator": "In", "values": ["anything"]}]);
        let pool = pool(json!({}), json!({"requirements": requirement}));
        assert_eq!(nodepool(&pool), [], "{key}");
        let mut raw = pool.to_value();
        apply_defaults(Kind::NodePool, &mut raw);
        assert_eq!(validate(Kind::NodePool, &raw), [], "{key}");
    }
    let distinct: std::collections::BTreeSet<_> = labels::WELL_KNOWN.into_iter().collect();
    assert_eq!(distinct.len(), labels::WELL_KNOWN.len());
}

#[test]
fn overlays() {
    // covers: API-NO-05, AWS-IT-47
    let faults = |spec: Value| {
        let mut full = json!({"requirements": []});
        full.as_object_mut().unwrap().extend(spec.as_object().unwrap().clone());
        let overlay: NodeOverlay = serde_json::from_value(json!({"metadata": {"name": "o"}, "spec": full})).unwrap();
        fields(nodeoverlay(&overlay))
    };
    assert_eq!(faults(json!({"capacity": {"example.com/device": "1", "nvidia.com/gpu": 1}})), Vec::<String>::new());
    for name in WELL_KNOWN_RESOURCES {
        assert_eq!(faults(json!({"capacity": {name: "1"}})), [format!("spec.capacity[{name}]")]);
    }
    let by =
        |key: &str, op: &str, values: Value| json!({"requirements": [{"key": key, "operator": op, "values": values}]});
    assert_eq!(faults(by("karpenter.sh/nodepool", "In", json!(["a"]))), Vec::<String>::new());
    assert_eq!(faults(by("kubernetes.io/hostname", "In", json!(["a"]))), ["spec.requirements[0].key"]);
    assert_eq!(faults(by(&"a".repeat(64), "Exists", json!([]))), ["spec.requirements[0].key"]);
    assert_eq!(faults(by("a", "NotIn", json!([]))), ["spec.requirements[0].values"]);
    assert_eq!(faults(by("a", "In", json!(["?"]))), ["spec.requirements[0].values[0]"]);
}

#[test]
fn tags_the_controller_sets() {
    // covers: AWS-TAG-04
    for (key, refused) in [
        ("kubernetes.io/cluster/mine", true),
        ("karpenter.sh/nodepool", true),
        ("karpenter.sh/nodeclaim", true),
        ("karpenter.k8s.aws/ec2nodeclass", true),
        ("eks:eks-cluster-name", true),
        ("", true),
        ("kubernetes.io/role", false),
        ("Name", false),
        ("karpenter.sh/discovery", false),
    ] {
        let class: EC2NodeClass = serde_json::from_value(json!({"spec": {"tags": {key: "v"}}})).unwrap();
        assert_eq!(!ec2nodeclass_tags(&class).is_empty(), refused, "{key}");
        let admission = validate(Kind::EC2NodeClass, &class.to_value());
        assert_eq!(admission.iter().any(|fault| fault.field.starts_with("spec.tags")), refused, "{key}");
    }
}

#[test]
fn classes_are_judged_by_their_family() {
    let faults = |alias: &str| {
        let class: EC2NodeClass = serde_json::from_value(json!({"spec": {
            "amiSelectorTerms": [{"alias": alias}],
            "kubelet": {"bogus": 1, "podsPerCore": 3},
            "tags": {"karpenter.sh/nodepool": "mine"},
        }}))
        .unwrap();
        fields(ec2nodeclass(&class))
    };
    assert_eq!(faults("al2023@latest"), ["spec.kubelet.bogus", "spec.tags[karpenter.sh/nodepool]"]);
    assert_eq!(
        faults("bottlerocket"),
        ["spec.kubelet.bogus", "spec.kubelet.bogus", "spec.tags[karpenter.sh/nodepool]"],
        "podsPerCore is ignored there, as upstream does"
    );
}
