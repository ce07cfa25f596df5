//! Objects at random, as an API server might hold them.

use proptest::collection::{btree_map, vec};
use proptest::option;
use proptest::prelude::*;
use proptest::sample::select;
use serde_json::{Map, Value, json};

use super::super::{ALIAS_VERSION, KUBELET, MIGRATED, NODE_CLASS_REFERENCE};
use crate::kind::Kind;

/// An object from fields, each there or not.
fn fields(parts: Vec<(&'static str, BoxedStrategy<Value>)>) -> BoxedStrategy<Value> {
    let empty = Just(Map::new()).boxed();
    let all = parts.into_iter().fold(empty, |all, (name, value)| {
        (all, option::weighted(0.6, value))
            .prop_map(move |(mut map, value)| {
                map.extend(value.map(|value| (name.to_owned(), value)));
                map
            })
            .boxed()
    });
    all.prop_map(Value::Object).boxed()
}

fn one_of(values: &'static [&'static str]) -> BoxedStrategy<Value> {
    select(values).prop_map(Value::from).boxed()
}

fn number(range: std::ops::Range<i64>) -> BoxedStrategy<Value> {
    range.prop_map(Value::from).boxed()
}

fn boolean() -> BoxedStrategy<Value> {
    any::<bool>().prop_map(Value::from).boxed()
}

fn tags() -> BoxedStrategy<Value> {
    btree_map("[a-z]{1,3}", "[a-z]{0,3}", 1..3).prop_map(|map| json!(map)).boxed()
}

fn list(items: BoxedStrategy<Value>) -> BoxedStrategy<Value> {
    vec(items, 1..4).prop_map(Value::from).boxed()
}

const DURATIONS: &[&str] = &["0s", "30s", "720h", "1h30m5s", "60m"];
const DURATIONS_OR_NEVER: &[&str] = &["0s", "30s", "720h", "24h0m", "Never"];

fn requirement(operators: &'static [&'static str]) -> BoxedStrategy<Value> {
    (select(operators), 0..9i64, option::of(1..4i64))
        .prop_map(|(operator, bound, floor)| {
            let mut map = json!({"key": "k.io/x", "operator": operator});
            if !matches!(operator, "Exists" | "DoesNotExist") {
                map["values"] = json!([bound.to_string()]);
            }
            if let Some(floor) = floor {
                map["minValues"] = floor.into();
            }
            map
        })
        .boxed()
}

fn taint() -> BoxedStrategy<Value> {
    fields(vec![("value", one_of(&["", "v"]))])
        .prop_map(|mut taint| {
            taint["key"] = "k".into();
            taint["effect"] = "NoSchedule".into();
            taint
        })
        .boxed()
}

fn condition() -> BoxedStrategy<Value> {
    one_of(&["Ready", "Launched"]).prop_map(|kind| json!({"type": kind, "status": "True", "reason": "R"})).boxed()
}

fn kubelet() -> BoxedStrategy<Value> {
    fields(vec![("maxPods", number(0..200)), ("clusterDNS", list(one_of(&["1.2.3.4"]))), ("systemReserved", tags())])
}

fn metadata(annotations: Vec<(&'static str, BoxedStrategy<Value>)>) -> BoxedStrategy<Value> {
    let annotations = fields(annotations);
    (annotations, option::of(tags()), option::of(select(vec!["p", "q"])))
        .prop_map(|(annotations, labels, pool)| {
            let mut metadata = json!({"name": "n", "uid": "u", "finalizers": ["f"]});
            if annotations != json!({}) {
                metadata["annotations"] = annotations;
            }
            if let Some(labels) = labels {
                metadata["labels"] = labels;
            }
            if let Some(pool) = pool {
                metadata["labels"]["karpenter.sh/nodepool"] = pool.into();
            }
            metadata
        })
        .boxed()
}

fn object(
    kind: Kind,
    version: String,
    metadata: BoxedStrategy<Value>,
    spec: BoxedStrategy<Value>,
    status: BoxedStrategy<Value>,
) -> BoxedStrategy<(Kind, Value)> {
    (metadata, spec, option::of(status))
        .prop_map(move |(metadata, spec, status)| {
            let mut out = json!({"apiVersion": version, "kind": kind.as_str(), "metadata": metadata, "spec": spec});
            if let Some(status) = status {
                out["status"] = status;
            }
            (kind, out)
        })
        .boxed()
}

const OLD: &[&str] = &["In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt"];
const ALL: &[&str] = &["In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt", "Gte", "Lte"];

fn shared(operators: &'static [&'static str]) -> Vec<(&'static str, BoxedStrategy<Value>)> {
    vec![
        ("requirements", vec(requirement(operators), 0..4).prop_map(Value::from).boxed()),
        ("taints", list(taint())),
        ("startupTaints", list(taint())),
    ]
}

fn v1_claim_spec(resources: bool) -> BoxedStrategy<Value> {
    let reference = (select(vec!["karpenter.k8s.aws", "x.io"]), select(vec!["EC2NodeClass", "K"]), "[a-c]")
        .prop_map(|(group, kind, name)| json!({"group": group, "kind": kind, "name": name}));
    let mut parts = shared(ALL);
    parts.push(("nodeClassRef", reference.boxed()));
    parts.push(("expireAfter", one_of(DURATIONS_OR_NEVER)));
    parts.push(("terminationGracePeriod", one_of(DURATIONS)));
    if resources {
        parts.push(("resources", tags().prop_map(|requests| json!({"requests": requests})).boxed()));
    }
    fields(parts)
}

fn v1beta1_claim_spec(resources: bool) -> BoxedStrategy<Value> {
    let reference = fields(vec![
        ("apiVersion", one_of(&["karpenter.k8s.aws/v1beta1", "x.io/v2", "nogroup"])),
        ("kind", one_of(&["EC2NodeClass", "K"])),
    ]);
    let reference = (reference, "[a-c]").prop_map(|(mut reference, name)| {
        reference["name"] = name.into();
        reference
    });
    let mut parts = shared(OLD);
    parts.push(("nodeClassRef", reference.boxed()));
    parts.push(("kubelet", kubelet()));
    if resources {
        parts.push(("resources", tags().prop_map(|requests| json!({"requests": requests})).boxed()));
    }
    fields(parts)
}

fn pool_spec(template: BoxedStrategy<Value>, disruption: BoxedStrategy<Value>, replicas: bool) -> BoxedStrategy<Value> {
    let meta = fields(vec![("labels", tags()), ("annotations", tags())]);
    let template = (option::of(meta), template).prop_map(|(meta, spec)| {
        let mut template = json!({"spec": spec});
        if let Some(meta) = meta {
            template["metadata"] = meta;
        }
        template
    });
    let mut parts = vec![("disruption", disruption), ("limits", tags()), ("weight", number(1..100))];
    if replicas {
        parts.push(("replicas", number(0..9)));
    }
    (fields(parts), template)
        .prop_map(|(mut spec, template)| {
            spec["template"] = template;
            spec
        })
        .boxed()
}

fn v1_disruption() -> BoxedStrategy<Value> {
    let budget = fields(vec![("reasons", list(one_of(&["Empty", "Drifted"]))), ("nodes", one_of(&["1", "10%"]))]);
    fields(vec![
        ("consolidationPolicy", one_of(&["WhenEmpty", "WhenEmptyOrUnderutilized", "Balanced"])),
        ("consolidateAfter", one_of(DURATIONS_OR_NEVER)),
        ("budgets", list(budget)),
    ])
}

/// Only what v1beta1 admitted.
fn v1beta1_disruption() -> BoxedStrategy<Value> {
    let budget = fields(vec![("nodes", one_of(&["1", "10%"])), ("schedule", one_of(&["@daily"]))]);
    let parts = fields(vec![("expireAfter", one_of(DURATIONS_OR_NEVER)), ("budgets", list(budget))]);
    (parts, select(vec![None, Some("WhenEmpty"), Some("WhenUnderutilized")]), select(DURATIONS_OR_NEVER), any::<bool>())
        .prop_map(|(mut parts, policy, after, never)| {
            if let Some(policy) = policy {
                parts["consolidationPolicy"] = policy.into();
            }
            match policy {
                Some("WhenEmpty") => parts["consolidateAfter"] = after.into(),
                _ if never => parts["consolidateAfter"] = "Never".into(),
                _ => {}
            }
            parts
        })
        .boxed()
}

fn device(v1: bool) -> BoxedStrategy<Value> {
    let mut ebs = vec![("volumeSize", one_of(&["20Gi"])), ("encrypted", boolean())];
    if v1 {
        ebs.push(("volumeInitializationRate", number(100..300)));
    }
    fields(vec![("deviceName", one_of(&["/dev/xvda", "/dev/sda1"])), ("rootVolume", boolean()), ("ebs", fields(ebs))])
}

fn class_parts(v1: bool) -> Vec<(&'static str, BoxedStrategy<Value>)> {
    vec![
        ("role", one_of(&["r"])),
        ("tags", tags()),
        ("userData", one_of(&["", "#!/bin/sh"])),
        ("blockDeviceMappings", list(device(v1))),
        ("subnetSelectorTerms", list(tags().prop_map(|tags| json!({"tags": tags})).boxed())),
        ("metadataOptions", fields(vec![("httpPutResponseHopLimit", number(1..4))])),
        ("instanceStorePolicy", one_of(&["RAID0"])),
        ("detailedMonitoring", boolean()),
        ("context", one_of(&["c"])),
    ]
}

fn v1_class_spec() -> BoxedStrategy<Value> {
    let alias = one_of(&["al2@latest", "al2023@v20240807", "bottlerocket", "windows2022@latest", "windows2025@latest"]);
    let alias = alias.prop_map(|alias| json!([{"alias": alias}])).boxed();
    let term = fields(vec![("id", one_of(&["ami-1"])), ("name", one_of(&["n"])), ("ssmParameter", one_of(&["/p"]))]);
    let mut parts = class_parts(true);
    parts.extend([
        ("amiFamily", one_of(&["AL2", "AL2023", "Custom", "Windows2019", "Windows2025"])),
        ("amiSelectorTerms", prop_oneof![alias, list(term)].boxed()),
        ("kubelet", kubelet()),
        ("capacityReservationSelectorTerms", list(one_of(&["x"]))),
        ("placementGroupSelector", fields(vec![("name", one_of(&["g"]))])),
        ("ipPrefixCount", number(0..3)),
        ("networkInterfaces", list(number(0..3))),
        ("connectionTracking", fields(vec![("udpTimeout", number(30..60))])),
        ("cpuOptions", fields(vec![("nestedVirtualization", one_of(&["enabled"]))])),
    ]);
    fields(parts)
}

fn v1beta1_class_spec() -> BoxedStrategy<Value> {
    let term = one_of(&["ami-1", "ami-2"]).prop_map(|id| json!({"id": id})).boxed();
    let family = select(vec!["AL2", "AL2023", "Bottlerocket", "Ubuntu", "Custom", "Windows2019", "Windows2022"]);
    (fields(class_parts(false)), family, option::of(list(term)))
        .prop_map(|(mut spec, family, terms)| {
            spec["amiFamily"] = family.into();
            match terms {
                Some(terms) => spec["amiSelectorTerms"] = terms,
                // Without any, it would have been refused.
                None if family == "Custom" => spec["amiSelectorTerms"] = json!([{"id": "ami-3"}]),
                None => {}
            }
            spec
        })
        .boxed()
}

fn class_status(v1: bool) -> BoxedStrategy<Value> {
    let mut parts =
        vec![("instanceProfile", one_of(&["i"])), ("conditions", list(condition())), ("subnets", list(tags()))];
    if v1 {
        parts.push(("capacityReservations", list(tags())));
    }
    fields(parts)
}

pub(super) fn v1() -> BoxedStrategy<(Kind, Value)> {
    let meta = || {
        metadata(vec![
            ("team", one_of(&["a"])),
            (KUBELET, one_of(&[r#"{"maxPods":1}"#, r#"{ "maxPods": 1 }"#, "broken"])),
            (NODE_CLASS_REFERENCE, one_of(&[r#"{"name":"a"}"#, "null", "broken"])),
            (MIGRATED, one_of(&["true"])),
        ])
    };
    let pool_status = fields(vec![("nodes", number(0..9)), ("resources", tags()), ("conditions", list(condition()))]);
    let claim_status =
        fields(vec![("nodeName", one_of(&["n"])), ("lastPodEventTime", one_of(&["t"])), ("capacity", tags())]);
    let class_meta =
        metadata(vec![("team", one_of(&["a"])), (super::super::UBUNTU, one_of(&["amiFamily,blockDeviceMappings"]))]);
    let version = |kind: Kind| kind.api_version().to_owned();
    prop_oneof![
        object(
            Kind::NodePool,
            version(Kind::NodePool),
            meta(),
            pool_spec(v1_claim_spec(false), v1_disruption(), true),
            pool_status
        ),
        object(Kind::NodeClaim, version(Kind::NodeClaim), meta(), v1_claim_spec(true), claim_status),
        object(Kind::EC2NodeClass, version(Kind::EC2NodeClass), class_meta, v1_class_spec(), class_status(true)),
    ]
    .boxed()
}

pub(super) fn v1beta1() -> BoxedStrategy<(Kind, Value)> {
    let meta = || metadata(vec![("team", one_of(&["a"])), ("other", one_of(&["b"]))]);
    // A version is only remembered where there is an alias to have one.
    let class_spec = (v1beta1_class_spec(), any::<bool>(), meta()).prop_map(|(spec, pinned, mut meta)| {
        let aliased = spec.get("amiSelectorTerms").is_none() && spec["amiFamily"] != "Ubuntu";
        if aliased && pinned {
            meta["annotations"][ALIAS_VERSION] = "v20240807".into();
        }
        json!({"spec": spec, "metadata": meta})
    });
    let class = (class_spec, option::of(class_status(false))).prop_map(|(mut class, status)| {
        class["apiVersion"] = "karpenter.k8s.aws/v1beta1".into();
        class["kind"] = "EC2NodeClass".into();
        if let Some(status) = status {
            class["status"] = status;
        }
        (Kind::EC2NodeClass, class)
    });
    let old = || "karpenter.sh/v1beta1".to_owned();
    let pool_status = fields(vec![("resources", tags()), ("conditions", list(condition()))]);
    let claim_status = fields(vec![("nodeName", one_of(&["n"])), ("capacity", tags())]);
    prop_oneof![
        object(
            Kind::NodePool,
            old(),
            meta(),
            pool_spec(v1beta1_claim_spec(false), v1beta1_disruption(), false),
            pool_status
        ),
        object(Kind::NodeClaim, old(), meta(), v1beta1_claim_spec(true), claim_status),
        class,
    ]
    .boxed()
}
