use serde_json::json;

use super::*;

fn faults(kubelet: Value) -> Vec<String> {
    let Value::Object(map) = kubelet else { panic!("kubelet settings are a map") };
    let fields = validate(&map).into_iter().map(|fault| fault.field);
    fields.map(|field| field.replacen("spec.kubelet.", "", 1)).collect()
}

#[track_caller]
fn accepts(kubelet: Value) {
    assert_eq!(faults(kubelet.clone()), Vec::<String>::new(), "{kubelet}");
}

#[track_caller]
fn refuses<const N: usize>(kubelet: Value, at: [&str; N]) {
    assert_eq!(faults(kubelet.clone()), at, "{kubelet}");
}

#[test]
fn names_and_types_are_those_of_the_kubelet() {
    // covers: API-EC2-20, AWS-KC-02
    accepts(json!({}));
    accepts(json!({"maxPods": 110, "serializeImagePulls": false, "featureGates": {"A": true}, "cpuCFSQuota": null}));
    accepts(json!({"logging": {"format": "json", "flushFrequency": "5s", "verbosity": 3,
        "options": {"json": {"infoBufferSize": "100Mi", "splitStream": true}}}}));
    accepts(json!({"logging": {"flushFrequency": 5_000_000_000_i64}}));
    accepts(json!({"reservedMemory": [{"numaNode": 0, "limits": {"memory": "1Gi"}}], "memoryThrottlingFactor": 0.9}));
    accepts(
        json!({"shutdownGracePeriod": "30s", "staticPodURLHeader": {"a": ["b"]}, "podPidsLimit": 5_000_000_000_i64}),
    );
    accepts(json!({"maxPods": "vcpus * 10", "podsPerCore": 10}));
    refuses(json!({"notAKubeletField": true}), ["notAKubeletField"]);
    refuses(json!({"MaxPods": 5}), ["MaxPods"]);
    refuses(json!({"logging": {"bogus": true}}), ["logging.bogus"]);
    refuses(json!({"logging": {"options": {"json": {"nope": "x"}}}}), ["logging.options.json.nope"]);
    for (kubelet, at) in [
        (json!({"podsPerCore": "ten"}), "podsPerCore"),
        (json!({"podsPerCore": 5.5}), "podsPerCore"),
        (json!({"podsPerCore": 3_000_000_000_i64}), "podsPerCore"),
        (json!({"logging": {"format": 12345}}), "logging.format"),
        (json!({"logging": {"verbosity": -1}}), "logging.verbosity"),
        (json!({"clusterDNS": "10.0.0.10"}), "clusterDNS"),
        (json!({"clusterDNS": [10]}), "clusterDNS[0]"),
        (json!({"maxPods": true}), "maxPods"),
        (json!({"kubeReserved": {"cpu": 1}}), "kubeReserved[cpu]"),
        (json!({"evictionHard": {"memory.available": 5}}), "evictionHard[memory.available]"),
        (json!({"cpuCFSQuota": "true"}), "cpuCFSQuota"),
        (json!({"syncFrequency": "soon"}), "syncFrequency"),
        (json!({"featureGates": {"A": "true"}}), "featureGates[A]"),
        (json!({"tracing": []}), "tracing"),
        (
            json!({"shutdownGracePeriodByPodPriority": [{"priority": "x"}]}),
            "shutdownGracePeriodByPodPriority[0].priority",
        ),
    ] {
        refuses(kubelet, [at]);
    }
}

#[test]
fn taints_at_registration_belong_to_the_controller() {
    // covers: API-EC2-21, AWS-KC-08
    refuses(json!({"registerWithTaints": [{"key": "a", "effect": "NoSchedule"}]}), ["registerWithTaints"]);
}

#[test]
fn eviction_settings() {
    // covers: API-EC2-22, API-EC2-23, API-EC2-24, AWS-KC-03, AWS-KC-04, AWS-KC-05
    for signal in EVICTION_SIGNALS {
        for field in ["evictionHard", "evictionMinimumReclaim"] {
            for good in ["5%", "0%", "100%", "12.5%", "500Mi", "0", "1k"] {
                accepts(json!({field: {signal: good}}));
            }
            for bad in ["lots", "101%", "-1%", "%", "-500Mi", ""] {
                refuses(json!({field: {signal: bad}}), [&format!("{field}[{signal}]")]);
            }
        }
        accepts(json!({"evictionSoft": {signal: "10%"}, "evictionSoftGracePeriod": {signal: "1m"}}));
    }
    for field in ["evictionHard", "evictionMinimumReclaim"] {
        refuses(json!({field: {"notASignal": "5%"}}), [&format!("{field}[notASignal]")]);
    }
    let pair =
        |soft: &str, grace: &str| json!({"evictionSoft": {soft: "5%"}, "evictionSoftGracePeriod": {grace: "1m"}});
    refuses(pair("bogus", "bogus"), ["evictionSoft[bogus]", "evictionSoftGracePeriod[bogus]"]);
    refuses(
        pair("memory.available", "nodefs.available"),
        ["evictionSoft[memory.available]", "evictionSoftGracePeriod[nodefs.available]"],
    );
    refuses(json!({"evictionSoft": {"memory.available": "5%"}}), ["evictionSoft[memory.available]"]);
    refuses(json!({"evictionSoftGracePeriod": {"pid.available": "1m"}}), ["evictionSoftGracePeriod[pid.available]"]);
    for bad in ["soon", "5x", "-1m", "5"] {
        refuses(
            json!({"evictionSoft": {"pid.available": "5%"}, "evictionSoftGracePeriod": {"pid.available": bad}}),
            ["evictionSoftGracePeriod[pid.available]"],
        );
    }
}

#[test]
fn reservations() {
    // covers: API-EC2-25, AWS-KC-06
    for field in ["kubeReserved", "systemReserved"] {
        accepts(json!({field: {"cpu": "200m", "memory": "100Mi", "ephemeral-storage": "1Gi", "pid": "1000"}}));
        accepts(json!({field: {"memory": "memory_mib * 0.1"}}));
        refuses(json!({field: {"gpu": "1"}}), [&format!("{field}[gpu]")]);
        refuses(json!({field: {"cpu": "-1"}}), [&format!("{field}[cpu]")]);
    }
    let expressions = |kubelet: Value| has_expressions(kubelet.as_object().unwrap());
    assert!(
        expressions(json!({"maxPods": "110"})),
        "a textual maxPods is an expression even when it looks like a number"
    );
    assert!(expressions(json!({"systemReserved": {"cpu": "100m", "memory": "memory_mib * 0.1"}})));
    assert!(!expressions(json!({"maxPods": 110, "kubeReserved": {"cpu": "100m"}})));
}

#[test]
fn numbers() {
    // covers: API-EC2-26, AWS-KC-07
    for field in ["imageGCHighThresholdPercent", "imageGCLowThresholdPercent"] {
        accepts(json!({field: 0}));
        accepts(json!({field: 100}));
        refuses(json!({field: -1}), [field]);
        refuses(json!({field: 101}), [field]);
    }
    for field in ["podsPerCore", "evictionMaxPodGracePeriod", "maxPods"] {
        accepts(json!({field: 0}));
        refuses(json!({field: -1}), [field]);
    }
    accepts(json!({"imageGCHighThresholdPercent": 80, "imageGCLowThresholdPercent": 60}));
    for (high, low) in [(60, 80), (70, 70)] {
        refuses(
            json!({"imageGCHighThresholdPercent": high, "imageGCLowThresholdPercent": low}),
            ["imageGCHighThresholdPercent"],
        );
    }
}

#[test]
fn all_violations_come_together() {
    refuses(
        json!({"bogus": 1, "podsPerCore": -1, "kubeReserved": {"gpu": "1", "cpu": "-1"}, "evictionHard": {"notASignal": "5%"}}),
        ["bogus", "evictionHard[notASignal]", "kubeReserved[cpu]", "kubeReserved[gpu]", "podsPerCore"],
    );
    let Value::Object(map) = json!({"bogus": 1}) else { unreachable!("an object literal") };
    assert_eq!(validate(&map)[0].to_string(), "spec.kubelet.bogus: unknown field");
}

#[test]
fn families_that_cannot_apply_everything() {
    // covers: API-EC2-28, AWS-KC-01, AWS-KC-10
    let fields = |faults: Vec<Fault>| -> Vec<String> {
        faults.into_iter().map(|fault| fault.field.replacen("spec.kubelet.", "", 1)).collect()
    };
    let unsupported = |family, kubelet: Value| fields(unsupported_by(family, kubelet.as_object().unwrap()));
    let ignored = |family, kubelet: Value| {
        assert!(unsupported(family, kubelet.clone()).is_empty(), "{kubelet} is accepted as upstream accepts it");
        fields(ignored_by(family, kubelet.as_object().unwrap()))
    };
    let common = json!({"clusterDNS": ["10.0.0.10"], "maxPods": 1, "systemReserved": {}, "kubeReserved": {},
        "evictionHard": {}, "evictionSoft": {}, "evictionSoftGracePeriod": {}, "evictionMaxPodGracePeriod": 1,
        "imageGCHighThresholdPercent": 80, "imageGCLowThresholdPercent": 60, "cpuCFSQuota": true});
    for family in AmiFamily::ALL {
        let free = matches!(family, AmiFamily::Al2023 | AmiFamily::Custom);
        assert_eq!(unsupported(family, common.clone()), Vec::<String>::new(), "{family:?}");
        let want: &[&str] = if free { &[] } else { &["serializeImagePulls"] };
        assert_eq!(unsupported(family, json!({"serializeImagePulls": false})), want, "{family:?}");
        assert_eq!(ignored(family, common.clone()), Vec::<String>::new(), "{family:?}");
        let want: &[&str] = if free { &[] } else { &["clusterDNS"] };
        assert_eq!(ignored(family, json!({"clusterDNS": ["10.0.0.10", "10.0.0.11"]})), want, "{family:?}");
        let want: &[&str] = if family == AmiFamily::Bottlerocket { &["podsPerCore"] } else { &[] };
        assert_eq!(ignored(family, json!({"podsPerCore": 5})), want, "{family:?}");
    }
    // Twelve fields are ours to apply; all others only go where the kubelet reads the map itself.
    let ours: Vec<&str> = common.as_object().unwrap().keys().map(String::as_str).chain(["podsPerCore"]).collect();
    assert_eq!(ours.len(), 12);
    for field in fields::names() {
        let alone = json!({field: null});
        let refused = !unsupported(AmiFamily::Al2, alone.clone()).is_empty();
        assert_eq!(refused, !ours.contains(&field), "{field}");
        assert!(unsupported(AmiFamily::Al2023, alone).is_empty(), "{field} passes through");
    }
}
