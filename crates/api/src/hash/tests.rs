use serde_json::{Value, json};

use super::*;
use crate::{EC2NodeClass, NodePool};

fn pool_from(template: Value) -> NodePool {
    serde_json::from_value(json!({
        "apiVersion": "karpenter.sh/v1", "kind": "NodePool", "metadata": {"name": "p"}, "spec": {"template": template},
    }))
    .unwrap()
}

/// The default class reference with `changes` merged over the template's spec.
fn pool(metadata: Value, changes: Value) -> NodePool {
    let mut spec = json!({
        "nodeClassRef": {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "default"}, "requirements": [],
    });
    merge(&mut spec, changes);
    pool_from(json!({"metadata": metadata, "spec": spec}))
}

fn merge(into: &mut Value, changes: Value) {
    match (into, changes) {
        (Value::Object(into), Value::Object(changes)) => {
            for (key, change) in changes {
                merge(into.entry(key).or_insert(Value::Null), change);
            }
        }
        (Value::Array(into), Value::Array(changes)) => {
            for (i, change) in changes.into_iter().enumerate() {
                merge(&mut into[i], change);
            }
        }
        (into, change) => *into = change,
    }
}

#[test]
fn nodepool_hashes_seen_on_real_clusters() {
    // covers: NP-HASH-03, NP-HASH-04, NP-HASH-05, NP-HASH-07, API-NP-46
    let none = Value::Null;
    let auto = json!({"nodeClassRef": {"group": "eks.amazonaws.com", "kind": "NodeClass", "name": "default"},
        "expireAfter": "336h", "terminationGracePeriod": "24h"});
    let mut tainted = auto.clone();
    merge(&mut tainted, json!({"taints": [{"key": "CriticalAddonsOnly", "effect": "NoSchedule"}]}));
    for (pool, want) in [
        (pool(none.clone(), json!({"expireAfter": "720h"})), "6821555240594823858"),
        (pool(none.clone(), json!({})), "6821555240594823858"),
        (pool(none.clone(), auto), "4012513481623584108"),
        (pool(none.clone(), tainted), "4982684901400657622"),
        (pool(json!({"labels": {"team": "a"}}), json!({})), "1617844334411263980"),
        (pool(none, json!({"expireAfter": "Never"})), "17369979337536258260"),
    ] {
        assert_eq!(nodepool_hash(&pool), want);
    }
    assert_eq!(NODEPOOL_HASH_VERSION, "v3");
}

/// Values of the reference for one feature each.
#[test]
fn nodepool_hashes_of_the_reference() {
    // covers: NP-HASH-02, NP-HASH-06, API-NP-47
    let none = Value::Null;
    let gpu = json!({"key": "nvidia.com/gpu", "value": "true", "effect": "NoSchedule"});
    let dedicated = json!({"key": "dedicated", "effect": "NoExecute"});
    for (what, metadata, spec, want) in [
        (
            "labels",
            json!({"labels": {"team": "a", "billing": "research", "example.com/with-slash": "x"}}),
            json!({}),
            "14888875689952427508",
        ),
        (
            "annotations",
            json!({"annotations": {"example.com/owner": "my-team", "note": "ünïcode ok"}}),
            json!({}),
            "13520439337820276427",
        ),
        (
            "present but empty maps and lists are set",
            json!({"labels": {}, "annotations": {}}),
            json!({"taints": [], "startupTaints": []}),
            "1503777627493537235",
        ),
        ("taints", none.clone(), json!({"taints": [gpu, dedicated]}), "18136105463463828471"),
        ("their order is nothing", none.clone(), json!({"taints": [dedicated, gpu]}), "18136105463463828471"),
        (
            "startup taints",
            none.clone(),
            json!({"startupTaints": [{"key": "node.cilium.io/agent-not-ready", "value": "true", "effect": "NoExecute"}]}),
            "9240655166365907290",
        ),
        ("an expiry in mixed units", none.clone(), json!({"expireAfter": "1h30m10s"}), "17486462449493787611"),
        ("a grace period", none.clone(), json!({"terminationGracePeriod": "48h"}), "15015733878877233177"),
        ("a grace period of zero", none.clone(), json!({"terminationGracePeriod": "0s"}), "10356118934572431967"),
        (
            "the time a taint was added",
            none.clone(),
            json!({"taints": [{"key": "a", "effect": "NoSchedule", "timeAdded": "2024-01-02T03:04:05Z"}]}),
            "9593244539624380882",
        ),
        (
            "such a time before 1970, with a fraction",
            none.clone(),
            json!({"taints": [{"key": "a", "effect": "NoSchedule", "timeAdded": "1969-12-31T23:59:58.25Z"}]}),
            "4881363314391135929",
        ),
        ("an expiry of zero, which is set", json!({}), json!({"expireAfter": "0s"}), "15640125381500602090"),
        ("another class", none, json!({"nodeClassRef": {"name": "gpu-nodes"}}), "13831917749468066394"),
    ] {
        assert_eq!(nodepool_hash(&pool(metadata, spec)), want, "{what}");
    }
}

#[test]
fn what_is_outside_the_template_does_not_change_the_hash() {
    // covers: NP-HASH-02, API-NP-47
    let plain = pool(Value::Null, json!({}));
    let mut other = plain.clone();
    other.spec.weight = Some(50);
    other.spec.replicas = Some(3);
    other.spec.limits = Some([("cpu".to_owned(), crate::Quantity("100".to_owned()))].into());
    other.spec.disruption.budgets.clear();
    other.spec.template.spec.requirements = vec![crate::requirement::NodeSelectorRequirement {
        key: "kubernetes.io/arch".to_owned(),
        operator: "Exists".to_owned(),
        ..Default::default()
    }];
    assert_eq!(nodepool_hash(&plain), nodepool_hash(&other));
}

#[test]
fn equal_list_elements_cancel_out() {
    // covers: NP-HASH-06
    let taint = json!({"key": "a", "effect": "NoSchedule"});
    let twice = pool(Value::Null, json!({"taints": [taint, taint]}));
    let empty = pool(Value::Null, json!({"taints": []}));
    assert_eq!(nodepool_hash(&twice), nodepool_hash(&empty));
    assert_ne!(nodepool_hash(&empty), nodepool_hash(&pool(Value::Null, json!({}))));
}

fn class(changes: Value) -> EC2NodeClass {
    let mut spec = json!({
        "role": "role-1",
        "tags": {"keyTag-1": "valueTag-1", "keyTag-2": "valueTag-2"},
        "context": "fake-context",
        "detailedMonitoring": false,
        "associatePublicIPAddress": false,
        "metadataOptions": {"httpEndpoint": "disabled", "httpProtocolIPv6": "disabled", "httpPutResponseHopLimit": 1,
            "httpTokens": "optional"},
        "blockDeviceMappings": [
            {"deviceName": "map-device-1", "rootVolume": false, "ebs": {"deleteOnTermination": false,
                "encrypted": false, "iops": 0, "kmsKeyID": "fakeKMSKeyID", "snapshotID": "fakeSnapshot",
                "throughput": 0, "volumeSize": "2G", "volumeType": "standard"}},
            {"deviceName": "map-device-2"},
        ],
        "userData": "userdata-test-1",
    });
    merge(&mut spec, changes);
    serde_json::from_value(json!({"spec": spec})).unwrap()
}

fn class_hash(changes: Value) -> String {
    ec2nodeclass_hash(&class(changes), Some("test-ca-bundle"))
}

#[test]
fn ec2nodeclass_hashes_of_the_reference() {
    // covers: API-EC2-60, API-EC2-61, AWS-DRIFT-10, AWS-DRIFT-11, AWS-DRIFT-12, AWS-DRIFT-13
    const BASE: &str = "11148166120438674859";
    let device = |ebs: Value| json!({"blockDeviceMappings": [{"ebs": ebs}]});
    for (changes, want) in [
        (json!({}), BASE),
        (json!({"userData": "userdata-test-2"}), "11774429238106843388"),
        (json!({"tags": {"keyTag-test-3": "valueTag-test-3"}}), "9327338697296909506"),
        (json!({"context": "context-2"}), "2279761750428738028"),
        (json!({"detailedMonitoring": true}), "1936848126751988570"),
        (json!({"instanceStorePolicy": "RAID0"}), "16697988646989909967"),
        (json!({"associatePublicIPAddress": true}), "16141801171825097963"),
        (json!({"metadataOptions": {"httpEndpoint": "enabled"}}), "14969742554812447671"),
        (json!({"metadataOptions": {"httpProtocolIPv6": "enabled"}}), "1581716956216772561"),
        (json!({"metadataOptions": {"httpPutResponseHopLimit": 10}}), "14046948658064232764"),
        (json!({"metadataOptions": {"httpTokens": "required"}}), "1346719102507290084"),
        (json!({"blockDeviceMappings": [{"deviceName": "map-device-test-3"}]}), "8979166653850509463"),
        (json!({"blockDeviceMappings": [{"rootVolume": true}]}), "8875796205856543692"),
        (device(json!({"deleteOnTermination": true})), "1470935115846151531"),
        (device(json!({"encrypted": true})), "5252376125396833097"),
        (device(json!({"iops": 10})), "11651419893470054855"),
        (device(json!({"kmsKeyID": "test"})), "1488385067008138755"),
        (device(json!({"snapshotID": "test"})), "12786013539168652330"),
        (device(json!({"throughput": 10})), "1873429003468556999"),
        (device(json!({"volumeType": "io1"})), "6743466905516550702"),
        (device(json!({"volumeSize": "10G"})), "10372902467896351912"),
        (json!({"connectionTracking": {"tcpEstablishedTimeout": 300}}), "1619669030802245540"),
        (json!({"connectionTracking": {"udpStreamTimeout": 120}}), "13743705849402595405"),
        (json!({"connectionTracking": {"udpTimeout": 45}}), "17941926745862994490"),
        (json!({"cpuOptions": {"nestedVirtualization": "enabled"}}), "6157846767212910604"),
        (json!({"role": null, "instanceProfile": "test-instance-profile"}), "10323991363677716244"),
        // What only selects does not count.
        (json!({"subnetSelectorTerms": [{"tags": {"a": "b"}}]}), BASE),
        (json!({"securityGroupSelectorTerms": [{"id": "sg-1"}]}), BASE),
        (json!({"capacityReservationSelectorTerms": [{"id": "cr-1"}]}), BASE),
        (json!({"amiSelectorTerms": [{"id": "ami-1"}]}), BASE),
        (json!({"amiFamily": "Custom"}), BASE),
        (json!({"ipPrefixCount": 4}), BASE),
        (json!({"kubelet": {}}), BASE),
    ] {
        assert_eq!(class_hash(changes.clone()), want, "{changes}");
    }
    assert_eq!(EC2NODECLASS_HASH_VERSION, "v6");
}

/// The reference's previous version (v5) hashes a list without the kubelet map. A list is the xor of its elements, so its
/// value for a class without kubelet settings differs from ours by the hash of `null` and nothing else.
#[test]
fn ec2nodeclass_hash_differs_from_its_predecessor_by_the_kubelet_map_alone() {
    // covers: API-EC2-60, AWS-DRIFT-13
    let class: EC2NodeClass = serde_json::from_value(json!({"spec": {
        "role": "role-1",
        "subnetSelectorTerms": [{"id": "subnet-1"}],
        "securityGroupSelectorTerms": [{"id": "sg-1"}],
        "amiSelectorTerms": [{"alias": "bottlerocket@latest"}],
        "placementGroupSelector": {"id": "pg-1"},
        "userData": "",
        "tags": {},
        "blockDeviceMappings": [{"deviceName": "/dev/xvda", "rootVolume": true,
            "ebs": {"volumeSize": "2048Gi", "snapshotID": "s", "volumeInitializationRate": 100}}],
        "networkInterfaces": [{"networkCardIndex": 0, "deviceIndex": 0, "interfaceType": "interface"},
            {"networkCardIndex": 1, "deviceIndex": 1, "interfaceType": "efa-only"}],
    }}))
    .unwrap();
    let v6: u64 = ec2nodeclass_hash(&class, Some("test-ca-bundle")).parse().unwrap();
    assert_eq!(v6 ^ string("null"), 1162612561045827339);
}

#[test]
fn ec2nodeclass_hash_knows_no_order_and_the_effective_family() {
    // covers: API-EC2-60, AWS-DRIFT-14
    let mut reversed = class(json!({}));
    reversed.spec.block_device_mappings.as_mut().unwrap().reverse();
    assert_eq!(ec2nodeclass_hash(&reversed, Some("test-ca-bundle")), class_hash(json!({})));

    let alias = json!({"amiSelectorTerms": [{"alias": "al2023@latest"}]});
    let mut named = alias.clone();
    merge(&mut named, json!({"amiFamily": "AL2023"}));
    assert_eq!(class_hash(alias.clone()), class_hash(named), "naming the implied family changes nothing");
    assert_ne!(class_hash(alias), class_hash(json!({})));
    assert_ne!(class_hash(json!({})), ec2nodeclass_hash(&class(json!({})), None), "the CA bundle counts");
    assert_eq!(
        class_hash(json!({"kubelet": {"maxPods": 1, "podsPerCore": 2}})),
        class_hash(json!({"kubelet": {"podsPerCore": 2, "maxPods": 1}})),
    );
    assert_ne!(class_hash(json!({"kubelet": {"maxPods": 12}})), class_hash(json!({"kubelet": {"maxPods": 21}})));
}

#[test]
fn json_is_written_as_go_writes_it() {
    let value =
        json!({"b": [1, -2, 1.5, 100.0, 1e21, 1.5e-7, 0.000001], "a": {"z": null, "y": "<&>\u{2028}\u{1}\n\"\\"}});
    let Value::Object(map) = value else { unreachable!("an object literal") };
    assert_eq!(
        go_json::object(&map),
        r#"{"a":{"y":"\u003c\u0026\u003e\u2028\u0001\n\"\\","z":null},"b":[1,-2,1.5,100,1e+21,1.5e-7,0.000001]}"#,
    );
}
