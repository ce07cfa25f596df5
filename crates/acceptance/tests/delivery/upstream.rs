//! Our chart beside upstream's, object by object, where a copy of upstream's is at hand (UPSTREAM_CHART).

use std::collections::BTreeSet;
use std::path::PathBuf;

use serde_json::{Map, Value};

use super::helm::{Release, helm};
use super::permissions::rights;

/// Settings that upstream's chart does not have, or renders only when they are true.
const OURS: [&str; 12] = [
    "AWS_FEATURE_GATES",
    "COMPAT_LOG_LINES",
    "DISABLE_CLUSTER_STATE_OBSERVABILITY",
    "DISABLE_DRY_RUN",
    "DISABLE_WEBHOOK",
    "EKS_CONTROL_PLANE",
    "ENABLE_ZONAL_SHIFT",
    "IGNORE_DRA_REQUESTS",
    "ISOLATED_VPC",
    "LEGACY_METRICS",
    "SCHEDULER_CONFIG",
    "WEBHOOK_PORT",
];

/// Rights that upstream's chart does not give: of the snapshot after it, of the webhook, and for nominations.
const MORE_RIGHTS: [&str; 6] = [
    "core/services ",
    "autoscaling.k8s.io/verticalpodautoscalers ",
    "apiextensions.k8s.io/",
    "core/secrets ",
    "core/pods/status ",
    "core/configmaps karpenter ",
];

#[test]
fn with_the_same_values_the_objects_are_upstreams() {
    // covers: API-HM-06, API-HM-08
    let Some(theirs) = std::env::var_os("UPSTREAM_CHART").map(PathBuf::from) else {
        eprintln!("passed over: UPSTREAM_CHART names no chart");
        return;
    };
    let Some(helm) = helm() else { return };
    let documented = [
        "settings.clusterName=shop",
        "settings.interruptionQueue=shop",
        "settings.clusterEndpoint=https://shop.example",
        "controller.resources.requests.cpu=1",
        "controller.resources.requests.memory=1Gi",
        "controller.resources.limits.cpu=1",
        "controller.resources.limits.memory=1Gi",
        "serviceAccount.annotations.eks\\.amazonaws\\.com/role-arn=arn:aws:iam::1:role/x",
        "dnsPolicy=Default",
        "replicas=1",
        "additionalLabels.team=sre",
        "podLabels.pod=label",
        "podAnnotations.note=hello",
        "serviceMonitor.enabled=true",
        "settings.isolatedVPC=true",
        "settings.featureGates.nodeRepair=true",
        "logLevel=debug",
    ];
    for (namespace, set) in
        [("karpenter", &documented[..1]), ("kube-system", &documented[..7]), ("kube-system", &documented[..])]
    {
        let release = Release { namespace, set, apis: &["monitoring.coreos.com/v1"], ..Release::default() };
        let ours = helm.template(&release);
        let theirs = helm.try_template(&theirs, &release).unwrap();
        let names: BTreeSet<String> = theirs.names().into_iter().collect();
        let more: Vec<String> = ours.names().into_iter().filter(|name| !names.contains(name)).collect();
        assert_eq!(more, ["Secret karpenter-cert"]);
        for object in &theirs.objects {
            let (kind, name) = (object["kind"].as_str().unwrap(), object["metadata"]["name"].as_str().unwrap());
            let mine = ours.get(kind, name);
            if kind.ends_with("Role") {
                let (mine, theirs) = (rights(mine), rights(object));
                assert!(theirs.is_subset(&mine), "{kind} {name}: {:?}", theirs.difference(&mine));
                let more =
                    mine.difference(&theirs).find(|right| !MORE_RIGHTS.iter().any(|start| right.starts_with(start)));
                assert_eq!(more, None, "{kind} {name}");
            }
            let comparable = |object: &Value| {
                let mut object = object.clone();
                reduce(&mut object);
                tidy(&mut object);
                object
            };
            assert_eq!(comparable(mine), comparable(object), "{kind} {name}");
        }
    }
}

/// Takes out what is meant to differ.
fn reduce(object: &mut Value) {
    for label in ["helm.sh/chart", "app.kubernetes.io/version"] {
        object["metadata"]["labels"].as_object_mut().unwrap().remove(label);
    }
    object.as_object_mut().unwrap().remove("rules");
    if object["kind"] == "Service" {
        object["spec"].as_object_mut().unwrap().remove("publishNotReadyAddresses");
        object["spec"]["ports"].as_array_mut().unwrap().retain(|port| port["name"] != "https-webhook");
    }
    if object["kind"] == "Deployment" {
        let container = &mut object["spec"]["template"]["spec"]["containers"][0];
        container.as_object_mut().unwrap().remove("image");
        container["ports"].as_array_mut().unwrap().retain(|port| port["name"] != "https-webhook");
        let variables = container["env"].as_array_mut().unwrap();
        variables.retain(|entry| !OURS.contains(&entry["name"].as_str().unwrap()) || entry["value"] == "true");
        variables.retain(|entry| {
            let name = entry["name"].as_str().unwrap();
            !["LEGACY_METRICS", "COMPAT_LOG_LINES"].contains(&name)
        });
    }
}

/// An absent field and an empty one mean the same.
fn tidy(value: &mut Value) {
    match value {
        Value::Object(fields) => {
            let mut kept = Map::new();
            for (name, mut field) in std::mem::take(fields) {
                tidy(&mut field);
                if !field.is_null() {
                    kept.insert(name, field);
                }
            }
            kept.sort_keys();
            *fields = kept;
        }
        Value::Array(items) => items.iter_mut().for_each(tidy),
        _ => {}
    }
}
