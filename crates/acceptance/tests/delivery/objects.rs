//! The objects of the chart, compared with the table of what an operator expects to find.

use karpenter_api::{ConversionService, Kind, convertible_crd};
use serde_json::{Value, json};

use super::helm::{Helm, Release, Rendered, chart, helm, read};

const SELECTOR: [&str; 2] = ["app.kubernetes.io/name", "app.kubernetes.io/instance"];

fn selector(release: &str) -> Value {
    json!({SELECTOR[0]: "karpenter", SELECTOR[1]: release})
}

#[test]
fn these_objects_are_rendered_and_no_others() {
    // covers: API-HM-30, API-HM-32, API-HM-33, API-HM-34, API-HM-35, API-HM-36, API-HM-37, API-HM-39
    let Some(helm) = helm() else { return };
    let mut expected = vec![
        "ClusterRole karpenter",
        "ClusterRole karpenter-admin",
        "ClusterRole karpenter-core",
        "ClusterRoleBinding karpenter",
        "ClusterRoleBinding karpenter-core",
        "Deployment karpenter",
        "PodDisruptionBudget karpenter",
        "Role karpenter",
        "Role karpenter-dns",
        "RoleBinding karpenter",
        "RoleBinding karpenter-dns",
        "Secret karpenter-cert",
        "Service karpenter",
        "ServiceAccount karpenter",
    ];
    assert_eq!(helm.template(&Release::default()).names(), expected);
    let off = ["settings.clusterName=shop", "webhook.enabled=false"];
    expected.retain(|name| *name != "Secret karpenter-cert");
    let without = helm.template(&Release { set: &off, ..Release::default() });
    assert_eq!(without.names(), expected);
    let ports: Vec<&Value> = without.get("Service", "karpenter")["spec"]["ports"].as_array().unwrap().iter().collect();
    assert_eq!(ports.len(), 1);
    assert_eq!(without.get("Service", "karpenter")["spec"]["publishNotReadyAddresses"], Value::Null);
    assert_eq!(without.container()["ports"].as_array().unwrap().len(), 2);
}

#[test]
fn the_controller_runs_without_privileges_and_is_probed() {
    // covers: API-HM-30, SEED4-33
    let Some(helm) = helm() else { return };
    let made = helm.template(&Release::default());
    let container = made.container();
    assert_eq!(made.pod()["containers"].as_array().unwrap().len(), 1);
    assert_eq!(container["name"], "controller");
    assert_eq!(
        container["securityContext"],
        json!({"runAsNonRoot": true, "runAsUser": 65532, "runAsGroup": 65532, "privileged": false,
            "allowPrivilegeEscalation": false, "readOnlyRootFilesystem": true, "capabilities": {"drop": ["ALL"]}})
    );
    let port = |name: &str, number: u16| json!({"name": name, "containerPort": number, "protocol": "TCP"});
    assert_eq!(
        container["ports"],
        json!([port("http-metrics", 8080), port("http", 8081), port("https-webhook", 8443)])
    );
    let probe = |path: &str, delay: u8| json!({"httpGet": {"path": path, "port": "http"}, "initialDelaySeconds": delay, "timeoutSeconds": 30});
    assert_eq!(container["livenessProbe"], probe("/healthz", 30));
    assert_eq!(container["readinessProbe"], probe("/readyz", 5));
    let values = "{settings: {clusterName: shop}, controller: {securityContext: {seccompProfile: {type: Unconfined}}}}";
    let profiled = helm.template(&Release { set: &[], values: Some(values), ..Release::default() });
    let context = &profiled.container()["securityContext"];
    assert_eq!((&context["seccompProfile"]["type"], &context["runAsNonRoot"]), (&json!("Unconfined"), &json!(true)));
}

#[test]
fn the_service_reaches_metrics_and_webhook_before_replicas_are_ready() {
    // covers: API-HM-32
    let Some(helm) = helm() else { return };
    let made = helm.template(&Release::default());
    let spec = &made.get("Service", "karpenter")["spec"];
    assert_eq!((&spec["type"], &spec["publishNotReadyAddresses"]), (&json!("ClusterIP"), &json!(true)));
    assert_eq!(spec["selector"], selector("karpenter"));
    let port = |name: &str, number: u16| json!({"name": name, "port": number, "targetPort": name, "protocol": "TCP"});
    assert_eq!(spec["ports"], json!([port("http-metrics", 8080), port("https-webhook", 8443)]));
}

#[test]
fn the_account_carries_the_role_and_its_token_only_into_our_pod() {
    // covers: API-HM-33, SEED0-06, SEED4-05
    let Some(helm) = helm() else { return };
    for seed in ["000", "004"] {
        let values = read(&format!("examples/seeds/{seed}/values.yaml"));
        let made = helm.template(&Release { set: &[], values: Some(&values), ..Release::default() });
        let account = made.get("ServiceAccount", "karpenter");
        assert_eq!(account["metadata"]["namespace"], "karpenter");
        let role = account["metadata"]["annotations"]["eks.amazonaws.com/role-arn"].as_str().unwrap();
        assert!(role.starts_with("arn:aws:iam::"), "{role}");
        assert_eq!(account["automountServiceAccountToken"], false);
        assert_eq!(made.pod()["automountServiceAccountToken"], true);
        assert_eq!(made.pod()["serviceAccountName"], "karpenter");
    }
    let own = ["settings.clusterName=shop", "serviceAccount.create=false"];
    let made = helm.template(&Release { set: &own, ..Release::default() });
    assert!(made.find("ServiceAccount", "karpenter").is_none());
    assert_eq!(made.pod()["serviceAccountName"], "default");
    let named = ["settings.clusterName=shop", "serviceAccount.name=mine"];
    let made = helm.template(&Release { set: &named, ..Release::default() });
    assert_eq!(made.get("RoleBinding", "karpenter")["subjects"][0]["name"], "mine");
}

#[test]
fn a_service_monitor_comes_where_the_api_exists() {
    // covers: API-HM-38
    let Some(helm) = helm() else { return };
    let values = r#"
settings: {clusterName: shop}
serviceMonitor:
  enabled: true
  additionalLabels: {team: sre}
  relabelings: [{action: drop, sourceLabels: [a]}]
  metricRelabelings: [{action: keep, sourceLabels: [b]}]
  endpointConfig: {interval: 30s}
  sampleLimit: 9
"#;
    let release = Release { set: &[], values: Some(values), ..Release::default() };
    assert!(helm.template(&release).find("ServiceMonitor", "karpenter").is_none());
    let made = helm.template(&Release { apis: &["monitoring.coreos.com/v1"], ..release });
    let monitor = made.get("ServiceMonitor", "karpenter");
    assert_eq!(monitor["metadata"]["labels"]["team"], "sre");
    assert_eq!(
        monitor["spec"],
        json!({"namespaceSelector": {"matchNames": ["karpenter"]}, "selector": {"matchLabels": selector("karpenter")},
            "sampleLimit": 9,
            "endpoints": [{"port": "http-metrics", "path": "/metrics", "interval": "30s",
                "relabelings": [{"action": "drop", "sourceLabels": ["a"]}],
                "metricRelabelings": [{"action": "keep", "sourceLabels": ["b"]}]}]})
    );
}

#[test]
fn a_network_policy_opens_two_ports_to_those_who_need_them() {
    let Some(helm) = helm() else { return };
    let policy = |more: &str| {
        let values = format!("{{settings: {{clusterName: shop}}, {more}}}");
        let made = helm.template(&Release { set: &[], values: Some(&values), ..Release::default() });
        made.find("NetworkPolicy", "karpenter").map(|policy| policy["spec"].clone())
    };
    assert_eq!(policy("replicas: 2"), None, "only where it is asked for");
    let rule = |port: &str, from: Value| json!({"from": from, "ports": [{"port": port, "protocol": "TCP"}]});
    let pods = || rule("http-metrics", json!([{"namespaceSelector": {}}]));
    let everybody = json!([{"ipBlock": {"cidr": "0.0.0.0/0"}}, {"ipBlock": {"cidr": "::/0"}}]);
    let spec = |ingress: Value| json!({"podSelector": {"matchLabels": selector("karpenter")}, "policyTypes": ["Ingress"], "ingress": ingress});
    assert_eq!(policy("networkPolicy: {enabled: true}"), Some(spec(json!([pods(), rule("https-webhook", everybody)]))));
    assert_eq!(policy("webhook: {enabled: false}, networkPolicy: {enabled: true}"), Some(spec(json!([pods()]))));
    let own = "networkPolicy: {enabled: true, metricsFrom: [], webhookFrom: [{ipBlock: {cidr: 10.0.0.0/28}}]}";
    let subnet = json!([{"ipBlock": {"cidr": "10.0.0.0/28"}}]);
    assert_eq!(policy(own), Some(spec(json!([rule("https-webhook", subnet)]))));
}

#[test]
fn the_chart_works_in_any_namespace_and_on_fargate() {
    // covers: API-HM-11, SEED0-01, SEED1-36, SEED2-09, SEED2-31, SEED3-03, SEED3-06, SEED3-19
    let Some(helm) = helm() else { return };
    for namespace in ["kube-system", "karpenter", "elsewhere"] {
        let made = helm.template(&Release { namespace, ..Release::default() });
        for object in &made.objects {
            let kind = object["kind"].as_str().unwrap();
            assert_ne!(kind, "DaemonSet");
            assert_ne!(kind, "Namespace", "helm makes it: --create-namespace");
            let dns = object["metadata"]["name"] == "karpenter-dns";
            let expected = match kind {
                "ClusterRole" | "ClusterRoleBinding" => Value::Null,
                _ if dns => json!("kube-system"),
                _ => json!(namespace),
            };
            assert_eq!(object["metadata"]["namespace"], expected, "{kind}");
            if let Some(subjects) = object["subjects"].as_array() {
                assert_eq!(
                    *subjects,
                    vec![json!({"kind": "ServiceAccount", "name": "karpenter", "namespace": namespace})]
                );
            }
        }
        // Fargate gives a pod nothing of its host.
        let pod = made.pod();
        assert_eq!((&pod["hostNetwork"], &pod["volumes"], &pod["hostPID"]), (&Value::Null, &Value::Null, &Value::Null));
        assert_eq!(
            made.get("Deployment", "karpenter")["spec"]["template"]["metadata"]["labels"],
            selector("karpenter")
        );
        let terms =
            &pod["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"];
        assert_eq!(
            *terms,
            json!([{"matchExpressions": [{"key": "karpenter.sh/nodepool", "operator": "DoesNotExist"}]}]),
            "never on a node of its own"
        );
    }
}

#[test]
fn names_follow_the_release() {
    // covers: API-HM-35
    let Some(helm) = helm() else { return };
    for (name, set, full) in [
        ("karpenter", "global.a=b", "karpenter"),
        ("my-karpenter-2", "global.a=b", "my-karpenter-2"),
        ("scaling", "global.a=b", "scaling-karpenter"),
        ("scaling", "nameOverride=scal", "scaling"),
        ("scaling", "fullnameOverride=nodes", "nodes"),
    ] {
        let made = helm.template(&Release { name, set: &["settings.clusterName=shop", set], ..Release::default() });
        for (kind, suffix) in [
            ("Deployment", ""),
            ("Service", ""),
            ("ClusterRole", "-core"),
            ("ClusterRole", "-admin"),
            ("Role", "-dns"),
            ("Secret", "-cert"),
        ] {
            made.get(kind, &format!("{full}{suffix}"));
        }
        assert_eq!(made.env("KARPENTER_SERVICE"), Some(full));
        for kind in ["Role", "RoleBinding", "ClusterRole", "ClusterRoleBinding"] {
            made.get(kind, full);
        }
    }
    let long = "x".repeat(60);
    let made = helm.template(&Release { name: &long[..50], ..Release::default() });
    assert!(made.names().iter().all(|name| name.rsplit(' ').next().unwrap().len() <= 63 + "-admin".len()));
}

#[test]
fn every_object_carries_the_labels_and_the_operators_own() {
    // covers: API-HM-08
    let Some(helm) = helm() else { return };
    let values = "{settings: {clusterName: shop}, additionalLabels: {team: sre}, additionalAnnotations: {note: hello}, \
        podLabels: {pod: label}, podAnnotations: {pod: note}, service: {annotations: {own: service}}}";
    let made = helm.template(&Release { name: "karpenter-blue", set: &[], values: Some(values), ..Release::default() });
    let version = env!("CARGO_PKG_VERSION");
    for object in &made.objects {
        let (labels, annotations) = (&object["metadata"]["labels"], &object["metadata"]["annotations"]);
        for (key, value) in [
            ("helm.sh/chart", &*format!("karpenter-{version}")),
            ("app.kubernetes.io/name", "karpenter"),
            ("app.kubernetes.io/instance", "karpenter-blue"),
            ("app.kubernetes.io/version", version),
            ("app.kubernetes.io/managed-by", "Helm"),
            ("team", "sre"),
        ] {
            assert_eq!(labels[key], value, "{key} of {}", object["kind"]);
        }
        assert_eq!(annotations["note"], "hello", "{}", object["kind"]);
    }
    let deployment = made.get("Deployment", "karpenter-blue");
    assert_eq!(deployment["spec"]["selector"]["matchLabels"], selector("karpenter-blue"), "immutable, so never more");
    let pod = &deployment["spec"]["template"]["metadata"];
    assert_eq!((&pod["labels"]["pod"], &pod["annotations"]["pod"]), (&json!("label"), &json!("note")));
    let service = made.get("Service", "karpenter-blue");
    assert_eq!(service["metadata"]["annotations"]["own"], "service");
}

#[test]
fn one_replica_rolls_out_although_replicas_keep_apart() {
    // covers: API-HM-09, API-HM-34, SEED0-02, SEED0-03
    let Some(helm) = helm() else { return };
    let plain = helm.template(&Release::default());
    let two = &plain.get("Deployment", "karpenter")["spec"];
    // helm waits for replicas minus maxUnavailable: one of two.
    assert_eq!((&two["replicas"], &two["strategy"]), (&json!(2), &json!({"rollingUpdate": {"maxUnavailable": 1}})));
    let values = read("examples/seeds/000/values.yaml");
    let made = helm.template(&Release { set: &[], values: Some(&values), ..Release::default() });
    let one = &made.get("Deployment", "karpenter")["spec"];
    assert_eq!((&one["replicas"], &one["strategy"]["rollingUpdate"]["maxUnavailable"]), (&json!(1), &json!(1)));
    let budget = made.get("PodDisruptionBudget", "karpenter");
    assert_eq!(budget["apiVersion"], "policy/v1");
    assert_eq!(budget["spec"], json!({"maxUnavailable": 1, "selector": {"matchLabels": selector("karpenter")}}));
    assert_eq!(made.container()["resources"], json!({"requests": {"cpu": "1", "memory": "2Gi"}}));
    let limit =
        made.container()["env"].as_array().unwrap().iter().find(|entry| entry["name"] == "MEMORY_LIMIT").unwrap();
    assert_eq!(limit["valueFrom"]["resourceFieldRef"]["resource"], "limits.memory", "the node's size without a limit");
}

#[test]
fn values_that_say_where_and_how_the_pod_runs_reach_it() {
    let Some(helm) = helm() else { return };
    let values = r#"
settings: {clusterName: shop}
imagePullPolicy: Always
imagePullSecrets: [{name: pull}]
revisionHistoryLimit: 3
podDisruptionBudget: {name: other, maxUnavailable: 2}
podSecurityContext: {fsGroup: 1}
priorityClassName: mine
terminationGracePeriodSeconds: 60
hostNetwork: true
schedulerName: second
dnsPolicy: Default
dnsConfig: {options: [{name: ndots, value: "1"}]}
initContainers: [{name: first, image: x}]
nodeSelector: {role: core}
tolerations: [{operator: Exists}]
extraVolumes: [{name: v, emptyDir: {}}]
controller:
  containerName: main
  image: {repository: registry.example/karpenter, tag: "1.2", digest: "sha256:00"}
  envFrom: [{configMapRef: {name: more}}]
  resources: {limits: {memory: 1Gi}}
  extraVolumeMounts: [{name: v, mountPath: /v}]
  sidecarContainer: [{name: side, image: y}]
  sidecarVolumeMounts: [{name: v, mountPath: /side}]
"#;
    let made = helm.template(&Release { image: None, set: &[], values: Some(values), ..Release::default() });
    let (pod, container) = (made.pod(), made.container());
    for (found, expected) in [
        (&container["imagePullPolicy"], json!("Always")),
        (&pod["imagePullSecrets"], json!([{"name": "pull"}])),
        (&made.get("Deployment", "karpenter")["spec"]["revisionHistoryLimit"], json!(3)),
        (&made.get("PodDisruptionBudget", "other")["spec"]["maxUnavailable"], json!(2)),
        (&pod["securityContext"]["fsGroup"], json!(1)),
        (&pod["priorityClassName"], json!("mine")),
        (&pod["terminationGracePeriodSeconds"], json!(60)),
        (&pod["hostNetwork"], json!(true)),
        (&pod["schedulerName"], json!("second")),
        (&pod["dnsPolicy"], json!("Default")),
        (&pod["dnsConfig"]["options"][0]["name"], json!("ndots")),
        (&pod["initContainers"], json!([{"name": "first", "image": "x"}])),
        (&pod["nodeSelector"]["role"], json!("core")),
        (&pod["tolerations"], json!([{"operator": "Exists"}])),
        (&pod["volumes"], json!([{"name": "v", "emptyDir": {}}])),
        (&container["name"], json!("main")),
        (&container["image"], json!("registry.example/karpenter:1.2@sha256:00")),
        (&container["envFrom"], json!([{"configMapRef": {"name": "more"}}])),
        (&container["resources"], json!({"limits": {"memory": "1Gi"}})),
        (&container["volumeMounts"], json!([{"name": "v", "mountPath": "/v"}])),
        (
            &pod["containers"][1]["volumeMounts"],
            json!([{"name": "v", "mountPath": "/v"}, {"name": "v", "mountPath": "/side"}]),
        ),
    ] {
        assert_eq!(*found, expected);
    }
    let untagged = helm.template(&Release::default());
    let image = untagged.container()["image"].as_str().unwrap();
    assert!(image.ends_with(&format!(":{}", env!("CARGO_PKG_VERSION"))), "{image}");
}

#[test]
fn the_seeds_values_give_what_they_say() {
    // covers: SEED0-29, SEED1-07, SEED3-18, SEED4-02, SEED4-03, API-TF-02, API-TF-15
    let Some(helm) = helm() else { return };
    let of = |seed: &str| {
        let values = read(&format!("examples/seeds/{seed}/values.yaml"));
        helm.template(&Release { set: &[], values: Some(&values), ..Release::default() })
    };
    for (seed, cluster, endpoint, queue) in [
        ("000", "piksel-dev-cluster", Some("https://piksel.example.com"), "Karpenter-piksel-dev-cluster"),
        ("001", "demo", None, "demo"),
        ("003", "eks-cluster-dev", Some("https://xxx.eks.amazonaws.com"), "karpenter-eks-cluster-dev"),
        ("004", "sandbox", Some("https://sandbox.example.com"), "sandbox-karpenter"),
    ] {
        let made = of(seed);
        assert_eq!(made.env("CLUSTER_NAME"), Some(cluster), "{seed}");
        assert_eq!(made.env("CLUSTER_ENDPOINT"), endpoint, "{seed}");
        assert_eq!(made.env("INTERRUPTION_QUEUE"), Some(queue), "{seed}");
        assert_eq!(made.pod()["serviceAccountName"], "karpenter", "{seed}");
    }
    let limits = json!({"requests": {"cpu": 1, "memory": "1Gi"}, "limits": {"cpu": 1, "memory": "1Gi"}});
    assert_eq!(of("001").container()["resources"], limits);
    assert_eq!(of("003").container()["resources"], json!({"requests": {"cpu": "1", "memory": "1Gi"}}));
}

#[test]
fn definitions_come_with_the_chart_and_as_templates_of_their_own() {
    // covers: API-HM-40, API-CV-13
    let names = |folder: &str| {
        let entries = std::fs::read_dir(chart(folder)).unwrap();
        let mut names: Vec<String> = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    };
    let expected = [
        "autoscaling.x-k8s.io_capacitybuffers.yaml",
        "karpenter.k8s.aws_ec2nodeclasses.yaml",
        "karpenter.sh_nodeclaims.yaml",
        "karpenter.sh_nodeoverlays.yaml",
        "karpenter.sh_nodepools.yaml",
    ];
    assert_eq!(names("karpenter/crds"), expected);
    assert_eq!(names("karpenter-crd/templates"), expected);
    let Some(helm) = helm() else { return };
    let plain = definitions(&helm, &["webhook.enabled=false"]);
    let annotated = definitions(&helm, &["additionalAnnotations.a=b"]);
    assert_eq!(plain.objects.len(), 5);
    for definition in &plain.objects {
        let versions = definition["spec"]["versions"].as_array().unwrap();
        assert!(
            versions
                .iter()
                .all(|version| version["name"] != "v1beta1" || definition["spec"]["group"] == "autoscaling.x-k8s.io")
        );
    }
    assert!(annotated.objects.iter().all(|definition| definition["metadata"]["annotations"] == json!({"a": "b"})));
    // They are the definitions of the program, with the webhook where the values say it is.
    let with =
        definitions(&helm, &["webhook.serviceName=other", "webhook.serviceNamespace=there", "webhook.port=9443"]);
    let service = ConversionService { name: "other".into(), namespace: "there".into(), port: 9443, ca_bundle: None };
    for kind in Kind::ALL {
        let expected = convertible_crd(kind, &service);
        let name = expected["metadata"]["name"].as_str().unwrap();
        assert_eq!(*with.get("CustomResourceDefinition", name), expected, "{name}");
        assert_eq!(*plain.get("CustomResourceDefinition", name), karpenter_api::crd(kind), "{name}");
    }
}

fn definitions(helm: &Helm, set: &[&str]) -> Rendered {
    let release = Release { image: None, name: "karpenter-crd", set, ..Release::default() };
    helm.try_template(&chart("karpenter-crd"), &release).unwrap()
}
