//! Values of the chart: what each comes to in the objects.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::helm::{Release, chart, helm, read, yaml};

#[test]
fn a_cluster_name_is_required_and_the_error_names_the_value() {
    // covers: API-HM-01
    let Some(helm) = helm() else { return };
    for set in [&[] as &[&str], &["settings.clusterName="]] {
        let error = helm.try_template(&chart("karpenter"), &Release { set, ..Release::default() }).err().unwrap();
        assert!(error.contains("settings.clusterName"), "{error}");
    }
}

#[test]
fn expressions_in_settings_are_evaluated() {
    // covers: API-HM-02
    let Some(helm) = helm() else { return };
    let values = r#"
global: {tenant: blue}
settings:
  clusterName: "shop-{{ .Values.global.tenant }}"
  clusterEndpoint: "https://{{ .Release.Name }}.example"
  interruptionQueue: "{{ .Values.settings.clusterName | replace .Values.global.tenant .Values.global.tenant }}"
  batchMaxDuration: '{{ "20s" }}'
"#;
    let made = helm.template(&Release { set: &[], values: Some(values), ..Release::default() });
    assert_eq!(made.env("CLUSTER_NAME"), Some("shop-blue"));
    assert_eq!(made.env("CLUSTER_ENDPOINT"), Some("https://karpenter.example"));
    assert_eq!(made.env("BATCH_MAX_DURATION"), Some("20s"));
}

#[test]
fn terms_about_pods_without_a_selector_get_ours() {
    // covers: API-HM-03
    let Some(helm) = helm() else { return };
    let values = r#"
settings: {clusterName: shop}
affinity:
  podAffinity:
    preferredDuringSchedulingIgnoredDuringExecution:
      - {weight: 1, podAffinityTerm: {topologyKey: a}}
      - {weight: 2, podAffinityTerm: {topologyKey: b, labelSelector: {matchLabels: {app: other}}}}
topologySpreadConstraints:
  - {maxSkew: 1, topologyKey: c, whenUnsatisfiable: DoNotSchedule}
  - {maxSkew: 1, topologyKey: d, whenUnsatisfiable: DoNotSchedule, labelSelector: {}}
"#;
    let made = helm.template(&Release { set: &[], values: Some(values), ..Release::default() });
    let ours =
        json!({"matchLabels": {"app.kubernetes.io/name": "karpenter", "app.kubernetes.io/instance": "karpenter"}});
    let preferred = &made.pod()["affinity"]["podAffinity"]["preferredDuringSchedulingIgnoredDuringExecution"];
    assert_eq!(preferred[0]["podAffinityTerm"]["labelSelector"], ours);
    assert_eq!(preferred[1]["podAffinityTerm"]["labelSelector"], json!({"matchLabels": {"app": "other"}}));
    let required = &made.pod()["affinity"]["podAntiAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"];
    assert_eq!(
        required[0],
        json!({"topologyKey": "kubernetes.io/hostname", "labelSelector": ours}),
        "the default stays"
    );
    let spreads = &made.pod()["topologySpreadConstraints"];
    assert_eq!((&spreads[0]["labelSelector"], &spreads[1]["labelSelector"]), (&ours, &json!({})));
}

#[test]
fn the_image_is_named_by_whoever_installs() {
    let Some(helm) = helm() else { return };
    for set in
        [&["settings.clusterName=shop"] as &[&str], &["settings.clusterName=shop", "controller.image.repository="]]
    {
        let unnamed = Release { image: None, set, ..Release::default() };
        let error = helm.try_template(&chart("karpenter"), &unnamed).err().expect("no image of everybody's");
        assert!(error.contains("controller.image.repository is missing"), "{error}");
    }
    let digest = ["settings.clusterName=shop", "controller.image.tag=9", "controller.image.digest=sha256:0"];
    let made = helm.template(&Release { set: &digest, ..Release::default() });
    assert_eq!(made.container()["image"], "registry.example/karpenter/controller:9@sha256:0");
}

#[test]
fn misspelt_values_are_refused_by_name() {
    // covers: API-HM-04
    let Some(helm) = helm() else { return };
    for name in [
        "settings.clusterNam",
        "setting.clusterName",
        "settings.aws.interruptionQueu",
        "controller.image.repo",
        "controller.resource.requests.cpu",
        "webhook.enable",
        "serviceMonitor.enable",
        "networkPolicy.enable",
        "logConfig.logLevel.controler",
        "replicaCount",
    ] {
        let set = format!("{name}=1");
        let release = Release { set: &["settings.clusterName=shop", &set], ..Release::default() };
        let error = helm.try_template(&chart("karpenter"), &release).err().unwrap_or_else(|| panic!("{set} renders"));
        let misspelt = name.split('.').find(|part| error.contains(&format!("'{part}'")));
        assert!(misspelt.is_some() && error.contains("additional properties"), "{set}: {error}");
    }
    let set = ["webhook.serviceNam=x"];
    let definitions = Release { image: None, set: &set, ..Release::default() };
    let error = helm.try_template(&chart("karpenter-crd"), &definitions).err().expect("serviceNam is no value");
    assert!(error.contains("'serviceNam'"), "{error}");
}

/// What upstream's charts know beside what 1.14 does: 0.32, releases between, and 1.15 as far as its documents tell.
const OF_OTHER_RELEASES: &str = r#"
affinity: {nodeAffinity: {requiredDuringSchedulingIgnoredDuringExecution: {nodeSelectorTerms: [
  {matchExpressions: [{key: karpenter.sh/provisioner-name, operator: DoesNotExist}]}]}}}
postInstallHook: {image: {repository: public.ecr.aws/bitnami/kubectl, tag: "1.30", digest: "sha256:1"}}
webhook: {enabled: true, port: 8443, logLevel: error, metrics: {port: 8001}}
logLevel: debug
logEncoding: console
logConfig:
  enabled: true
  outputPaths: [stdout]
  errorOutputPaths: [stderr]
  logEncoding: json
  logLevel: {global: debug, controller: debug, webhook: error}
controller: {logLevel: "", outputPaths: [], errorOutputPaths: [], batchMaxDuration: 10s, batchIdleDuration: 1s}
settings:
  clusterName: shop
  interruptionQueueName: shop
  assumeRoleARN: ""
  assumeRoleDuration: 15m
  securityGroupRefreshInterval: 1m
  enableDRA: false
  aws:
    assumeRoleARN: ""
    assumeRoleDuration: 15m
    clusterCABundle: ""
    clusterName: shop
    clusterEndpoint: ""
    defaultInstanceProfile: ""
    enablePodENI: false
    enableENILimitedPodDensity: true
    nodeNameConvention: ip-name
    isolatedVPC: false
    vmMemoryOverheadPercent: 0.075
    interruptionQueueName: shop
    reservedENIs: "0"
    tags: {team: sre}
  featureGates: {drift: true, driftEnabled: true, StaticCapacity: false, terminateFirstDrift: false, terminateFirstRepair: false,
    podDeletionCostManagement: false}
  awsFeatureGates: {nodeClassCEL: false, draNVIDIAGPU: false, draEFA: false, rebootForRepair: false}
"#;

#[test]
fn every_value_of_upstreams_charts_passes() {
    let Some(helm) = helm() else { return };
    helm.template(&Release { set: &[], values: Some(OF_OTHER_RELEASES), ..Release::default() });
    // What is handed on to Kubernetes as it stands is not ours to know, nor is what a chart around this one adds.
    let free = r#"
global: {anything: {goes: [1]}}
enabled: true
additionalLabels: {a: b}
additionalAnnotations: {a: b}
service: {annotations: {a: b}}
serviceAccount: {annotations: {a: b}}
serviceMonitor: {additionalLabels: {a: b}, endpointConfig: {interval: 30s}}
strategy: {type: Recreate, rollingUpdate: null}
podLabels: {a: b}
podAnnotations: {a: b}
podSecurityContext: {runAsNonRoot: true, sysctls: []}
dnsConfig: {options: [{name: ndots, value: "1"}]}
nodeSelector: {a: b}
controller: {resources: {claims: []}, securityContext: {seLinuxOptions: {level: "s0"}}}
settings: {clusterName: shop, featureGates: {future: true}, awsFeatureGates: {future: "false"}}
"#;
    helm.template(&Release { set: &[], values: Some(free), ..Release::default() });
    let Some(theirs) = std::env::var_os("UPSTREAM_CHART").map(std::path::PathBuf::from) else {
        eprintln!("passed over: UPSTREAM_CHART names no chart");
        return;
    };
    let values = std::fs::read_to_string(theirs.join("values.yaml")).unwrap();
    helm.template(&Release { values: Some(&values), ..Release::default() });
}

#[test]
fn devices_are_refused_where_they_are_asked_for() {
    let Some(helm) = helm() else { return };
    let set = ["settings.clusterName=shop", "settings.enableDRA=true"];
    let release = Release { set: &set, ..Release::default() };
    let error = helm.try_template(&chart("karpenter"), &release).err().expect("claims would wait for ever");
    assert!(error.contains("settings.enableDRA is not supported"), "{error}");
}

#[test]
fn known_values_of_the_wrong_kind_are_refused_by_name() {
    let Some(helm) = helm() else { return };
    for (set, at) in [
        ("logLevel=loud", "/logLevel"),
        ("replicas=many", "/replicas"),
        ("settings.preferencePolicy=Maybe", "/settings/preferencePolicy"),
        ("settings.batchIdleDuration=soon", "/settings/batchIdleDuration"),
        ("controller.metrics.port=70000", "/controller/metrics/port"),
        ("settings.vmMemoryOverheadPercent=-1", "/settings/vmMemoryOverheadPercent"),
    ] {
        let release = Release { set: &["settings.clusterName=shop", set], ..Release::default() };
        let error = helm.try_template(&chart("karpenter"), &release).err().unwrap_or_else(|| panic!("{set} renders"));
        assert!(error.contains(at), "{set}: {error}");
    }
}

#[test]
fn a_given_node_affinity_replaces_the_default_term_and_the_anti_affinity_stays() {
    // covers: API-HM-05, SEED4-06, SEED4-34
    let Some(helm) = helm() else { return };
    let made = helm.template(&Release {
        set: &[],
        values: Some(&read("examples/seeds/004/values.yaml")),
        ..Release::default()
    });
    let affinity = &made.pod()["affinity"];
    let terms = &affinity["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"];
    assert_eq!(*terms, json!([{"matchExpressions": [{"key": "role", "operator": "In", "values": ["core"]}]}]));
    let apart = &affinity["podAntiAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"][0];
    assert_eq!(apart["topologyKey"], "kubernetes.io/hostname");
    assert_eq!(made.get("Deployment", "karpenter")["spec"]["replicas"], 2);
}

#[test]
fn booleans_are_rendered_also_when_false_and_empty_texts_are_not() {
    // covers: API-HM-07, EXT-15, Q-07
    let Some(helm) = helm() else { return };
    let settings = [
        ("isolatedVPC", "ISOLATED_VPC", "false"),
        ("eksControlPlane", "EKS_CONTROL_PLANE", "false"),
        ("enableZonalShift", "ENABLE_ZONAL_SHIFT", "false"),
        ("ignoreDRARequests", "IGNORE_DRA_REQUESTS", "true"),
        ("disableClusterStateObservability", "DISABLE_CLUSTER_STATE_OBSERVABILITY", "false"),
        ("disableDryRun", "DISABLE_DRY_RUN", "false"),
        ("legacyMetrics", "LEGACY_METRICS", "true"),
        ("compatLogLines", "COMPAT_LOG_LINES", "true"),
    ];
    let plain = helm.template(&Release::default());
    for (_, variable, default) in settings {
        assert_eq!(plain.env(variable), Some(default), "{variable}");
    }
    for variable in ["CLUSTER_CA_BUNDLE", "CLUSTER_ENDPOINT", "INTERRUPTION_QUEUE", "SCHEDULER_CONFIG"] {
        assert!(
            !plain.container()["env"].as_array().unwrap().iter().any(|entry| entry["name"] == variable),
            "{variable}"
        );
    }
    // Every one of them may be either, but for devices: false is refused, which has a test of its own.
    let either = settings.iter().filter(|(value, ..)| *value != "ignoreDRARequests");
    for to in ["false", "true"] {
        let set: Vec<String> = either.clone().map(|(value, ..)| format!("settings.{value}={to}")).collect();
        let set: Vec<&str> = ["settings.clusterName=shop"].into_iter().chain(set.iter().map(String::as_str)).collect();
        let made = helm.template(&Release { set: &set, ..Release::default() });
        for (_, variable, _) in either.clone() {
            assert_eq!(made.env(variable), Some(to), "{variable}");
        }
    }
}

#[test]
fn every_setting_reaches_its_variable_and_the_users_own_come_last() {
    // covers: API-HM-31
    let Some(helm) = helm() else { return };
    let values = r#"
logLevel: debug
logOutputPaths: [stdout, /var/log/karpenter]
logErrorOutputPaths: [stdout]
settings:
  clusterName: shop
  clusterEndpoint: https://shop.example
  clusterCABundle: Zm9v
  interruptionQueue: shop-queue
  isolatedVPC: true
  eksControlPlane: true
  vmMemoryOverheadPercent: 0.1
  reservedENIs: "2"
  disableDryRun: true
  enableZonalShift: true
  amiRefreshInterval: 5m
  subnetRefreshInterval: 6m
  batchMaxDuration: 20s
  batchIdleDuration: 2s
  preferencePolicy: Ignore
  minValuesPolicy: BestEffort
  ignoreDRARequests: true
  schedulerConfig: {podTopologySpread: {defaultConstraints: []}}
  disableClusterStateObservability: true
  legacyMetrics: false
  compatLogLines: false
  featureGates: {nodeRepair: true, nodeOverlay: true, reservedCapacity: false, spotToSpotConsolidation: true, staticCapacity: true, capacityBuffer: true}
  awsFeatureGates: {nodeClassCEL: true}
webhook: {enabled: false, port: 9443}
controller:
  metrics: {port: 9080}
  healthProbe: {port: 9081}
  env:
    - {name: AWS_REGION, value: eu-west-1}
    - {name: LOG_LEVEL, value: error}
"#;
    let made = helm.template(&Release { set: &[], values: Some(values), ..Release::default() });
    for (name, value) in [
        ("KARPENTER_SERVICE", "karpenter"),
        ("LOG_OUTPUT_PATHS", "stdout,/var/log/karpenter"),
        ("LOG_ERROR_OUTPUT_PATHS", "stdout"),
        ("METRICS_PORT", "9080"),
        ("HEALTH_PROBE_PORT", "9081"),
        (
            "FEATURE_GATES",
            "ReservedCapacity=false,SpotToSpotConsolidation=true,NodeRepair=true,NodeOverlay=true,StaticCapacity=true,CapacityBuffer=true",
        ),
        ("AWS_FEATURE_GATES", "NodeClassCEL=true"),
        ("CLUSTER_NAME", "shop"),
        ("CLUSTER_ENDPOINT", "https://shop.example"),
        ("CLUSTER_CA_BUNDLE", "Zm9v"),
        ("INTERRUPTION_QUEUE", "shop-queue"),
        ("ISOLATED_VPC", "true"),
        ("EKS_CONTROL_PLANE", "true"),
        ("VM_MEMORY_OVERHEAD_PERCENT", "0.1"),
        ("RESERVED_ENIS", "2"),
        ("DISABLE_DRY_RUN", "true"),
        ("ENABLE_ZONAL_SHIFT", "true"),
        ("AMI_REFRESH_INTERVAL", "5m"),
        ("SUBNET_REFRESH_INTERVAL", "6m"),
        ("BATCH_MAX_DURATION", "20s"),
        ("BATCH_IDLE_DURATION", "2s"),
        ("PREFERENCE_POLICY", "Ignore"),
        ("MIN_VALUES_POLICY", "BestEffort"),
        ("IGNORE_DRA_REQUESTS", "true"),
        ("SCHEDULER_CONFIG", r#"{"podTopologySpread":{"defaultConstraints":[]}}"#),
        ("DISABLE_CLUSTER_STATE_OBSERVABILITY", "true"),
        ("LEGACY_METRICS", "false"),
        ("COMPAT_LOG_LINES", "false"),
        ("DISABLE_WEBHOOK", "true"),
        ("WEBHOOK_PORT", "9443"),
        ("AWS_REGION", "eu-west-1"),
        ("LOG_LEVEL", "error"),
    ] {
        assert_eq!(made.env(name), Some(value), "{name}");
    }
    let variables = made.container()["env"].as_array().unwrap();
    assert_eq!(variables.last().unwrap()["name"], "LOG_LEVEL", "what the user adds wins");
    let source = |name: &str| &variables.iter().find(|entry| entry["name"] == name).unwrap()["valueFrom"];
    assert_eq!(*source("SYSTEM_NAMESPACE"), json!({"fieldRef": {"fieldPath": "metadata.namespace"}}));
    let of = |resource: &str, divisor: &str| json!({"resourceFieldRef": {"containerName": "controller", "divisor": divisor, "resource": resource}});
    assert_eq!(*source("CPU_REQUESTS"), of("requests.cpu", "1m"));
    assert_eq!(*source("MEMORY_LIMIT"), of("limits.memory", "0"));
    assert!(variables.iter().any(|entry| entry["name"] == "KUBERNETES_MIN_VERSION"));
}

#[test]
fn the_schema_knows_every_value_and_no_other() {
    for name in ["karpenter", "karpenter-crd"] {
        let values = yaml(&read(&format!("charts/{name}/values.yaml")));
        let schema: Value = serde_json::from_str(&read(&format!("charts/{name}/values.schema.json"))).unwrap();
        let mut written = BTreeSet::new();
        paths_of_schema("", &schema, &mut written);
        // Of charts around ours.
        for other in ["/global", "/enabled"] {
            assert!(written.remove(other), "{other}");
        }
        let mut known = BTreeSet::new();
        paths_of_values("", &values, &written, &mut known);
        assert_eq!(written, known, "{name}");
    }
}

/// The current ones, and every map that is not free lets nothing else through.
fn paths_of_schema(at: &str, schema: &Value, paths: &mut BTreeSet<String>) {
    assert!(schema["additionalProperties"] == false || at.ends_with("eatureGates"), "{at} lets everything through");
    for (name, inner) in schema["properties"].as_object().unwrap() {
        let path = format!("{at}/{name}");
        match (inner["properties"].is_object(), inner["deprecated"] == true) {
            (true, _) => paths_of_schema(&path, inner, paths),
            (false, true) => {}
            (false, false) => assert!(paths.insert(path), "{name} is there once"),
        }
    }
}

/// Down to where the schema stops looking.
fn paths_of_values(at: &str, value: &Value, stops: &BTreeSet<String>, paths: &mut BTreeSet<String>) {
    match value.as_object() {
        Some(fields) if !stops.contains(at) => {
            fields.iter().for_each(|(name, inner)| paths_of_values(&format!("{at}/{name}"), inner, stops, paths));
        }
        _ => assert!(paths.insert(at.to_owned()), "{at} is there once"),
    }
}
