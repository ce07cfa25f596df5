use serde_json::{Value, json};

use super::definition::read;
use super::translate::manifests;
use super::*;

/// The example of the document, and its second way to write requirements.
const EXAMPLE: &str = r#"
spec:
  karpenter:
    node_pools:
      default:
        node_class:
          extra_securitygroup_ids: []
          gpu_enabled: false
          public: false
          tags:
            maintainer: skyscrapers
          volumeSize: "100Gi"
        annotations:
          foo: bar
        labels:
          foo: bar
        limits:
          cpu: 111
          memory: "100Gi"
        requirements:
          node:
            key: karpenter.k8s.aws/instance-category
            operator: In
            values:
              - C
        taints:
          - effect: NoSchedule
            key: role
            value: foo
      listed:
        requirements:
          - key: "karpenter.k8s.aws/instance-category"
            operator: In
            values: ["c", "m", "r"]
          - key: karpenter.k8s.aws/instance-generation
            operator: Gt
            values: ["4"]
          - key: "topology.kubernetes.io/zone"
            operator: In
            values: ["eu-west-1a", "eu-west-1b", "eu-west-1c"]
          - key: "kubernetes.io/arch"
            operator: In
            values: ["amd64"]
          - key: "karpenter.sh/capacity-type"
            operator: In
            values: ["on-demand"]
          - key: node.kubernetes.io/instance-type
            operator: NotIn
            values: ["m5a.16xlarge", "m5a.24xlarge"]
"#;

fn surroundings(alias: &str) -> Surroundings {
    Surroundings { cluster: "c".to_owned(), role: "KarpenterNodeRole-c".to_owned(), alias: alias.to_owned() }
}

fn translated(text: &str) -> (Vec<Value>, Vec<String>) {
    manifests(&read(text).unwrap(), &surroundings("al2023@latest")).unwrap()
}

/// One pool with this in it.
fn pool(body: &str) -> Vec<Value> {
    translated(&format!("karpenter: {{node_pools: {{p: {body}}}}}")).0
}

#[test]
fn the_whole_example_becomes_two_pools_and_their_classes() {
    // covers: API-TR-01, API-TR-04, API-TR-05, API-TR-06, API-TR-07, API-TR-08, API-TR-09, API-TR-10, API-TR-11, EXT-08
    // covers: SEED2-12, SEED2-13, SEED2-14, SEED2-15, SEED2-16, SEED2-17, SEED2-19, SEED2-20, SEED2-21, SEED2-23
    let (objects, notes) = translated(EXAMPLE);
    let titles: Vec<String> =
        objects.iter().map(|o| format!("{} {}", o["kind"], o["metadata"]["name"]).replace('"', "")).collect();
    assert_eq!(titles, ["EC2NodeClass default", "NodePool default", "EC2NodeClass listed", "NodePool listed"]);
    assert_eq!(
        objects[0]["spec"],
        json!({"amiSelectorTerms": [{"alias": "al2023@latest"}], "role": "KarpenterNodeRole-c",
            "securityGroupSelectorTerms": [{"tags": {"karpenter.sh/discovery": "c"}}],
            "subnetSelectorTerms": [{"tags": {"karpenter.sh/discovery": "c", "kubernetes.io/role/internal-elb": "1"}}],
            "tags": {"maintainer": "skyscrapers"},
            "blockDeviceMappings": [{"deviceName": "/dev/xvda", "ebs": {"encrypted": true, "volumeSize": "100Gi", "volumeType": "gp3"}}]})
    );
    assert_eq!(
        objects[1]["spec"],
        json!({"template": {"metadata": {"annotations": {"foo": "bar"}, "labels": {"foo": "bar"}}, "spec": {
                "nodeClassRef": {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "default"},
                "requirements": [
                    {"key": "karpenter.k8s.aws/instance-category", "operator": "In", "values": ["c"]},
                    {"key": "karpenter.k8s.aws/instance-gpu-count", "operator": "DoesNotExist"}],
                "taints": [{"effect": "NoSchedule", "key": "role", "value": "foo"}]}},
            "limits": {"cpu": 111, "memory": "100Gi"}})
    );
    assert_eq!(notes, ["node_pools.default.requirements: karpenter.k8s.aws/instance-category \"C\" is written \"c\""]);
    assert_eq!(objects[3]["spec"]["template"]["spec"]["requirements"].as_array().unwrap().len(), 6);
    assert_eq!(objects[3]["spec"]["template"]["spec"]["requirements"][5]["operator"], "NotIn");
}

#[test]
fn what_is_absent_is_left_to_discovery_and_defaults() {
    // covers: API-TR-02, SEED2-28
    let objects = pool("{}");
    let found = json!([{"tags": {"karpenter.sh/discovery": "c"}}]);
    assert_eq!(
        (&objects[0]["spec"]["subnetSelectorTerms"], &objects[0]["spec"]["securityGroupSelectorTerms"]),
        (&found, &found)
    );
    let reference = json!({"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "p"});
    assert_eq!(objects[1]["spec"], json!({"template": {"spec": {"nodeClassRef": reference, "requirements": []}}}));
}

#[test]
fn groups_public_addresses_and_gpus() {
    // covers: API-TR-04, API-TR-05, API-TR-06, API-TR-08
    let class = pool("{node_class: {extra_securitygroup_ids: [sg-1, sg-2], public: true}}").remove(0);
    let groups = json!([{"tags": {"karpenter.sh/discovery": "c"}}, {"id": "sg-1"}, {"id": "sg-2"}]);
    assert_eq!(class["spec"]["securityGroupSelectorTerms"], groups);
    assert_eq!(class["spec"]["associatePublicIPAddress"], true);
    assert_eq!(class["spec"]["subnetSelectorTerms"][0]["tags"]["kubernetes.io/role/elb"], "1");
    for (key, own) in [
        ("karpenter.k8s.aws/instance-gpu-name", true),
        ("karpenter.k8s.aws/instance-family", true),
        ("node.kubernetes.io/instance-type", true),
        ("kubernetes.io/arch", false),
    ] {
        let body =
            format!("{{node_class: {{gpu_enabled: true}}, requirements: [{{key: {key}, operator: In, values: [x]}}]}}");
        let pool = pool(&body).remove(1);
        let requirements = pool["spec"]["template"]["spec"]["requirements"].as_array().unwrap();
        assert_eq!(requirements.len(), if own { 1 } else { 2 }, "{key}");
        assert!(own || requirements[1] == json!({"key": "karpenter.k8s.aws/instance-gpu-count", "operator": "Exists"}));
    }
    let sized = read("karpenter: {node_pools: {p: {node_class: {volumeSize: 50Gi}}}}").unwrap();
    let (objects, _) = manifests(&sized, &surroundings("bottlerocket")).unwrap();
    let devices = &objects[0]["spec"]["blockDeviceMappings"];
    assert_eq!((&devices[1]["deviceName"], &devices[1]["ebs"]["volumeSize"]), (&json!("/dev/xvdb"), &json!("50Gi")));
}

#[test]
fn what_cannot_be_translated_is_named_and_nothing_is_written() {
    // covers: API-TR-03, API-TR-07
    for (text, want) in [
        ("karpenter: {nodepools: {}}", "karpenter.nodepools: unknown key"),
        ("spec: {karpenter: {node_pools: {p: {label: {a: b}}}}}", "spec.karpenter.node_pools.p.label: unknown key"),
        (
            "karpenter: {node_pools: {p: {node_class: {gpu: true}}}}",
            "karpenter.node_pools.p.node_class.gpu: unknown key",
        ),
        (
            "karpenter: {node_pools: {p: {requirements: [{name: x}]}}}",
            "karpenter.node_pools.p.requirements[0].name: unknown key",
        ),
        ("karpenter: {node_pools: {p: {requirements: 3}}}", "karpenter.node_pools.p.requirements: expected"),
        (
            "karpenter: {node_pools: {p: {node_class: {public: maybe}}}}",
            "karpenter.node_pools.p.node_class.public: expected",
        ),
        ("other: {}", "karpenter: missing"),
        ("a: [", ""),
    ] {
        let faults = read(text).unwrap_err();
        assert!(faults[0].contains(want), "{text}: {faults:?}");
    }
    for (body, want) in [
        ("{node_class: {tags: {karpenter.sh/nodepool: x}}}", "spec.tags"),
        ("{node_class: {volumeSize: huge}}", "volumeSize"),
        ("{taints: [{key: a, effect: Sometimes}]}", "spec.template.spec.taints[0].effect"),
        ("{taints: [{key: a, effect: NoSchedule, colour: red}]}", "colour"),
        ("{requirements: [{key: a, operator: In}]}", "requirements"),
    ] {
        let pools = read(&format!("karpenter: {{node_pools: {{p: {body}}}}}")).unwrap();
        let faults = manifests(&pools, &surroundings("al2023")).unwrap_err();
        assert!(faults[0].starts_with("node_pools.p as ") && faults[0].contains(want), "{body}: {faults:?}");
    }
    assert!(manifests(&Default::default(), &surroundings("beos@latest")).is_err());
}
