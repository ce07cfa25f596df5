mod random;

use proptest::prelude::*;
use serde_json::json;

use super::*;
use crate::{apply_defaults, apply_v1beta1_defaults, validate, validate_v1beta1};

/// The manifests of a deployment that still writes v1beta1, their variables filled in.
const POOL: &str = r#"
apiVersion: karpenter.sh/v1beta1
kind: NodePool
metadata:
  name: default
spec:
  template:
    spec:
      requirements:
        - {key: kubernetes.io/arch, operator: In, values: ["amd64"]}
        - {key: kubernetes.io/os, operator: In, values: ["linux"]}
        - {key: karpenter.sh/capacity-type, operator: In, values: ["spot","on-demand"]}
        - {key: node.kubernetes.io/instance-type, operator: In, values: ["t3.medium","t3a.medium"]}
        - {key: karpenter.k8s.aws/instance-generation, operator: Gt, values: ["2"]}
      kubelet: {maxPods: 110}
      nodeClassRef: {name: default}
  limits: {cpu: 1000}
  disruption: {consolidationPolicy: WhenUnderutilized, expireAfter: 720h}
"#;
const CLASS: &str = r#"
apiVersion: karpenter.k8s.aws/v1beta1
kind: EC2NodeClass
metadata: {name: default}
spec:
  amiFamily: Bottlerocket
  role: karpenter-node-c
  subnetSelectorTerms: [{tags: {karpenter.sh/discovery: c}}]
  securityGroupSelectorTerms: [{tags: {karpenter.sh/discovery: c}}]
"#;

fn yaml(text: &str) -> Value {
    serde_saphyr::from_str(text).unwrap()
}

/// As an API server would hold it.
fn admitted(text: &str) -> (Kind, Value) {
    let mut object = yaml(text);
    let (kind, old) = convertible(&object).unwrap();
    assert!(old);
    apply_v1beta1_defaults(kind, &mut object);
    assert_eq!(validate_v1beta1(kind, None, &object), []);
    (kind, object)
}

fn no_pool(_: &str) -> Option<String> {
    None
}

fn up_and_valid(kind: Kind, object: &Value) -> Value {
    let mut new = to_v1(kind, object, &no_pool);
    apply_defaults(kind, &mut new);
    assert_eq!(validate(kind, &new), [], "{new}");
    new
}

#[test]
fn a_pool_of_old_reads_as_v1_and_comes_back_as_it_was() {
    // covers: API-CV-01, API-CV-02, API-CV-05, EXT-01
    let (kind, old) = admitted(POOL);
    let new = up_and_valid(kind, &old);
    let template = &new["spec"]["template"]["spec"];
    let reference = json!({"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "default"});
    assert_eq!(template["nodeClassRef"], reference);
    assert_eq!(template["expireAfter"], "720h");
    let disruption = json!({"consolidationPolicy": "WhenEmptyOrUnderutilized", "consolidateAfter": "0s", "budgets": [{"nodes": "10%"}]});
    assert_eq!(new["spec"]["disruption"], disruption);
    assert_eq!(new["spec"]["limits"]["cpu"], 1000);
    assert_eq!(new["metadata"]["annotations"][KUBELET], r#"{"maxPods":110}"#);
    assert_eq!(to_v1beta1(kind, &new), old);
}

#[test]
fn a_class_of_old_reads_as_an_alias_and_comes_back_as_it_was() {
    // covers: API-CV-03
    let (kind, old) = admitted(CLASS);
    let new = up_and_valid(kind, &old);
    assert_eq!(new["spec"]["amiSelectorTerms"], json!([{"alias": "bottlerocket@latest"}]));
    assert_eq!(new["spec"].get("amiFamily"), None);
    assert_eq!(new["spec"]["metadataOptions"]["httpPutResponseHopLimit"], 2, "what v1beta1 always allowed");
    assert_eq!(to_v1beta1(kind, &new), old);
}

#[test]
fn a_pinned_alias_and_ubuntu_survive() {
    for (family, annotations, want) in [
        ("AL2023", json!({ALIAS_VERSION: "v20240807"}), json!([{"alias": "al2023@v20240807"}])),
        ("Windows2022", json!({}), json!([{"alias": "windows2022@latest"}])),
        ("Ubuntu", json!({}), json!([{"id": "ami-placeholder"}])),
    ] {
        let (kind, mut old) = admitted(CLASS);
        old["spec"]["amiFamily"] = family.into();
        if annotations != json!({}) {
            old["metadata"]["annotations"] = annotations;
        }
        let new = up_and_valid(kind, &old);
        assert_eq!(new["spec"]["amiSelectorTerms"], want, "{family}");
        assert_eq!(to_v1beta1(kind, &new), old, "{family}");
    }
    let (kind, mut old) = admitted(CLASS);
    old["spec"]["amiFamily"] = "Ubuntu".into();
    let new = to_v1(kind, &old, &no_pool);
    assert_eq!(annotation(&new, UBUNTU), Some("amiFamily,blockDeviceMappings,incompatible"));
    assert_eq!(
        (&new["spec"]["amiFamily"], new["spec"]["blockDeviceMappings"][0]["deviceName"].as_str()),
        (&json!("AL2"), Some("/dev/sda1"))
    );
    old["spec"]["amiSelectorTerms"] = json!([{"id": "ami-1"}]);
    old["spec"]["blockDeviceMappings"] = json!([{"deviceName": "/dev/xvda", "ebs": {"volumeSize": "9Gi"}}]);
    assert_eq!(annotation(&to_v1(kind, &old, &no_pool), UBUNTU), Some("amiFamily"));
}

#[test]
fn never_stays_never() {
    // covers: EXT-14, API-CV-05
    let (kind, mut old) = admitted(POOL);
    old["spec"]["disruption"]["consolidateAfter"] = "Never".into();
    old["spec"]["disruption"]["expireAfter"] = "Never".into();
    assert_eq!(validate_v1beta1(kind, None, &old), []);
    let new = up_and_valid(kind, &old);
    assert_eq!(new["spec"]["disruption"]["consolidateAfter"], "Never");
    assert_eq!(new["spec"]["template"]["spec"]["expireAfter"], "Never");
    assert_eq!(to_v1beta1(kind, &new), old);
}

#[test]
fn a_missing_reference_is_an_empty_one() {
    // covers: API-CV-06
    for (kind, spec, place) in [
        (Kind::NodePool, json!({"template": {"spec": {"requirements": []}}}), "/spec/template/spec/nodeClassRef"),
        (Kind::NodeClaim, json!({"requirements": []}), "/spec/nodeClassRef"),
    ] {
        let old =
            json!({"apiVersion": v1beta1_of(kind), "kind": kind.as_str(), "metadata": {"name": "n"}, "spec": spec});
        let new = to_v1(kind, &old, &no_pool);
        assert_eq!(new.pointer(place), Some(&json!({"group": "", "kind": "", "name": ""})));
        assert_eq!(to_v1beta1(kind, &new), old);
    }
    // Nor does anything else that is missing or of the wrong type.
    for kind in KINDS {
        for spec in [json!(null), json!([]), json!({"template": 1, "disruption": "x", "amiSelectorTerms": {}})] {
            let old = json!({"apiVersion": v1beta1_of(kind), "kind": kind.as_str(), "spec": spec, "metadata": 3, "status": 4});
            to_v1beta1(kind, &to_v1(kind, &old, &no_pool));
        }
    }
}

#[test]
fn a_claim_takes_its_expiry_from_its_pool() {
    let claim = json!({"apiVersion": "karpenter.sh/v1beta1", "kind": "NodeClaim",
        "metadata": {"name": "n", "labels": {"karpenter.sh/nodepool": "p"}},
        "spec": {"requirements": [], "nodeClassRef": {"name": "c", "apiVersion": "x.io/v2", "kind": "K"}}});
    let known = |name: &str| (name == "p").then(|| "24h".to_owned());
    let new = to_v1(Kind::NodeClaim, &claim, &known);
    assert_eq!(new["spec"]["expireAfter"], "24h");
    assert_eq!(new["spec"]["nodeClassRef"], json!({"group": "x.io", "kind": "K", "name": "c"}));
    assert_eq!(to_v1(Kind::NodeClaim, &claim, &no_pool)["spec"].get("expireAfter"), None);
    let back = to_v1beta1(Kind::NodeClaim, &new);
    assert_eq!(back["spec"], claim["spec"]);
    assert_eq!(to_v1(Kind::NodeClaim, &back, &no_pool), new, "it is remembered, whatever became of the pool");
}

#[test]
fn two_pools_keep_their_own_kubelets() {
    // covers: API-CV-08
    let (kind, old) = admitted(POOL);
    let mut other = old.clone();
    other["spec"]["template"]["spec"]["kubelet"] = json!({"maxPods": 20, "systemReserved": {"cpu": "1"}});
    let kubelet = |old: &Value| annotation(&to_v1(kind, old, &no_pool), KUBELET).unwrap().to_owned();
    assert_eq!(kubelet(&old), r#"{"maxPods":110}"#);
    assert_eq!(kubelet(&other), r#"{"maxPods":20,"systemReserved":{"cpu":"1"}}"#);
    let mut none = old;
    none["spec"]["template"]["spec"].as_object_mut().unwrap().shift_remove("kubelet");
    none["metadata"]["annotations"] = json!({KUBELET: "stale"});
    assert_eq!(annotation(&to_v1(kind, &none, &no_pool), KUBELET), None);
}

#[test]
fn what_v1_alone_has_is_shown_as_well_as_can_be_and_remembered() {
    // covers: EXT-13
    let mut pool = json!({"apiVersion": "karpenter.sh/v1", "kind": "NodePool", "metadata": {"name": "n"}, "spec": {
        "template": {"spec": {
            "nodeClassRef": {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "c"},
            "terminationGracePeriod": "1h", "expireAfter": "24h",
            "requirements": [
                {"key": "a", "operator": "Gte", "values": ["5"]}, {"key": "b", "operator": "Lte", "values": ["5"], "minValues": 2},
                {"key": "c", "operator": "Gte", "values": ["0"]}]}},
        "disruption": {"consolidationPolicy": "Balanced", "consolidateAfter": "5m",
            "budgets": [{"nodes": "0", "reasons": ["Drifted"]}, {"nodes": "10%"}]}},
        "status": {"nodes": 3, "resources": {"cpu": "8"}}});
    let old = to_v1beta1(Kind::NodePool, &pool);
    let template = &old["spec"]["template"]["spec"];
    assert_eq!(template["nodeClassRef"], json!({"kind": "EC2NodeClass", "name": "c"}));
    assert_eq!(
        template["requirements"],
        json!([{"key": "a", "operator": "Gt", "values": ["4"]}, {"key": "b", "operator": "Lt", "values": ["6"], "minValues": 2},
            {"key": "c", "operator": "Exists"}])
    );
    let disruption = json!({"consolidationPolicy": "WhenUnderutilized", "budgets": [{"nodes": "0"}, {"nodes": "10%"}], "expireAfter": "24h"});
    assert_eq!(old["spec"]["disruption"], disruption);
    assert_eq!(old["status"], json!({"resources": {"cpu": "8"}}));
    assert_eq!(validate_v1beta1(Kind::NodePool, None, &old), []);
    assert_eq!(to_v1(Kind::NodePool, &old, &no_pool), pool);

    // Somebody writes through v1beta1: what they changed counts, the rest is still remembered.
    let mut edited = old;
    edited["spec"]["disruption"] = json!({"consolidationPolicy": "WhenEmpty", "consolidateAfter": "30s",
        "budgets": [{"nodes": "0"}, {"nodes": "10%"}], "expireAfter": "24h"});
    edited["metadata"]["labels"] = json!({"team": "a"});
    pool["metadata"]["labels"] = json!({"team": "a"});
    pool["spec"]["disruption"]["consolidationPolicy"] = "WhenEmpty".into();
    pool["spec"]["disruption"]["consolidateAfter"] = "30s".into();
    assert_eq!(to_v1(Kind::NodePool, &edited, &no_pool), pool);
    edited["spec"]["template"]["spec"]["requirements"] = json!([]);
    assert_eq!(to_v1(Kind::NodePool, &edited, &no_pool)["spec"]["template"]["spec"]["requirements"], json!([]));
}

#[test]
fn what_v1beta1_refused_is_refused() {
    // covers: API-CV-15
    let (_, pool) = admitted(POOL);
    let (_, class) = admitted(CLASS);
    let with = |object: &Value, place: &str, value: Value| {
        let (mut changed, (parent, field)) = (object.clone(), place.rsplit_once('/').unwrap());
        changed.pointer_mut(parent).unwrap()[field] = value;
        changed
    };
    for (kind, object, field) in [
        (Kind::NodePool, with(&pool, "/spec/disruption/consolidateAfter", json!("30s")), "spec.disruption"),
        (Kind::NodePool, with(&pool, "/spec/disruption/consolidationPolicy", json!("WhenEmpty")), "spec.disruption"),
        (
            Kind::NodePool,
            with(&pool, "/spec/disruption/consolidationPolicy", json!("Balanced")),
            "spec.disruption.consolidationPolicy",
        ),
        (
            Kind::NodePool,
            with(&pool, "/spec/template/spec/kubelet", json!({"maxPods": -1})),
            "spec.template.spec.kubelet.maxPods",
        ),
        (
            Kind::NodePool,
            with(&pool, "/spec/template/spec/kubelet", json!({"systemReserved": {"gpu": "1"}})),
            "spec.template.spec.kubelet.systemReserved",
        ),
        (
            Kind::NodePool,
            with(&pool, "/spec/template/spec/kubelet", json!({"evictionSoft": {"memory.available": "5%"}})),
            "spec.template.spec.kubelet",
        ),
        (Kind::NodePool, with(&pool, "/spec/template/spec/resources", json!({})), "spec.template.spec"),
        (
            Kind::NodePool,
            with(&pool, "/spec/template/spec/requirements", json!([{"key": "a", "operator": "Gte", "values": ["1"]}])),
            "spec.template.spec.requirements[0].operator",
        ),
        (Kind::EC2NodeClass, with(&class, "/spec/amiFamily", json!("Custom")), "spec"),
        (Kind::EC2NodeClass, with(&class, "/spec/amiFamily", json!("Windows2025")), "spec.amiFamily"),
    ] {
        let faults = validate_v1beta1(kind, None, &object);
        assert!(faults.iter().any(|fault| fault.field.starts_with(field)), "{field}: {faults:?}");
    }
    let moved = with(&class, "/spec/role", json!("another"));
    assert_eq!(validate_v1beta1(Kind::EC2NodeClass, Some(&class), &moved)[0].field, "spec.role");
    assert_eq!(validate_v1beta1(Kind::EC2NodeClass, Some(&class), &class), []);
}

#[test]
fn reviews_answer_in_kind_and_name_what_they_cannot_convert() {
    let (_, pool) = admitted(POOL);
    let ask = |desired: &str, object: &Value| {
        let request = json!({"uid": "u", "desiredAPIVersion": desired, "objects": [object]});
        review(
            &json!({"apiVersion": "apiextensions.k8s.io/v1beta1", "kind": "ConversionReview", "request": request}),
            &no_pool,
        )
    };
    let answer = ask("karpenter.sh/v1", &pool);
    assert_eq!(
        (&answer["apiVersion"], &answer["response"]["uid"]),
        (&json!("apiextensions.k8s.io/v1beta1"), &json!("u"))
    );
    assert_eq!(answer["response"]["result"]["status"], "Success");
    let new = &answer["response"]["convertedObjects"][0];
    assert_eq!(new["apiVersion"], "karpenter.sh/v1");
    assert_eq!(ask("karpenter.sh/v1beta1", new)["response"]["convertedObjects"][0], pool);
    assert_eq!(&ask("karpenter.sh/v1", new)["response"]["convertedObjects"][0], new);
    for (desired, object) in
        [("karpenter.sh/v2", &pool), ("karpenter.sh/v1", &json!({"kind": "Pod", "metadata": {"name": "default"}}))]
    {
        let result = &ask(desired, object)["response"]["result"];
        assert_eq!(result["status"], "Failure");
        assert!(result["message"].as_str().unwrap().contains("\"default\""), "{result}");
    }
    let claim = json!({"apiVersion": "karpenter.sh/v1beta1", "kind": "NodeClaim", "metadata": {"labels": {"karpenter.sh/nodepool": "p"}}});
    let request = json!({"request": {"desiredAPIVersion": "karpenter.sh/v1", "objects": [claim, pool]}});
    assert_eq!(pools_wanted(&request).into_iter().collect::<Vec<_>>(), ["p"]);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 512, ..ProptestConfig::default() })]

    // covers: API-CV-04, EXT-13
    #[test]
    fn v1_comes_back_from_v1beta1_as_it_was((kind, object) in random::v1()) {
        let old = to_v1beta1(kind, &object);
        prop_assert_eq!(&old["apiVersion"], &json!(v1beta1_of(kind)));
        prop_assert_eq!(to_v1(kind, &old, &no_pool), object);
    }

    // covers: API-CV-04
    #[test]
    fn v1beta1_comes_back_from_v1_as_it_was((kind, object) in random::v1beta1()) {
        let new = to_v1(kind, &object, &no_pool);
        prop_assert_eq!(&new["apiVersion"], &json!(kind.api_version()));
        prop_assert_eq!(to_v1beta1(kind, &new), object);
    }
}
