use karpenter_core::node::Stage;
use karpenter_core::pod::Phase;
use karpenter_core::storage::BindingMode;

use super::*;

fn source(name: &str, text: &str) -> Source {
    Source { name: name.into(), bytes: text.as_bytes().to_vec() }
}

fn load_all(sources: Vec<Source>) -> Result<Loaded, Vec<InputFault>> {
    let none = |_: &Value| Ok(Arc::from([]));
    load(
        sources,
        Options {
            now: "2026-01-02T00:00:00Z".parse().unwrap(),
            settings: Settings::default(),
            vocabulary: Arc::new(Vocabulary::kubernetes()),
            overlays: true,
            instance_types: &mut { none },
        },
    )
}

fn world(text: &str) -> World {
    match load_all(vec![source("w.yaml", text)]) {
        Ok(loaded) => loaded.world,
        Err(faults) => panic!("{faults:#?}"),
    }
}

fn faults(text: &str) -> Vec<String> {
    let faults = load_all(vec![source("w.yaml", text)]).expect_err("bad input");
    faults.iter().map(ToString::to_string).collect()
}

const POOL: &str = "
apiVersion: karpenter.k8s.aws/v1
kind: EC2NodeClass
metadata: {name: default}
spec:
  role: node
  amiSelectorTerms: [{alias: al2023@latest}]
  subnetSelectorTerms: [{tags: {a: b}}]
  securityGroupSelectorTerms: [{tags: {a: b}}]
---
apiVersion: karpenter.sh/v1
kind: NodePool
metadata: {name: default}
spec:
  template:
    spec:
      nodeClassRef: {group: karpenter.k8s.aws, kind: EC2NodeClass, name: default}
      requirements: [{key: karpenter.sh/capacity-type, operator: In, values: [spot]}]
";

#[test]
fn workloads_become_pods_in_the_order_of_the_input() {
    let world = world(
        "
apiVersion: v1
kind: Pod
metadata: {name: first, namespace: a}
spec: {containers: [{name: c, image: i}]}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: web, namespace: a}
spec:
  replicas: 2
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec: {containers: [{name: c, image: i, resources: {limits: {cpu: 2}, requests: {memory: 1Gi}}}]}
---
apiVersion: batch/v1
kind: Job
metadata: {name: job}
spec: {parallelism: 5, completions: 1, template: {spec: {containers: [{name: c, image: i}], restartPolicy: Never}}}
---
apiVersion: v1
kind: Pod
metadata: {name: last, creationTimestamp: '2025-01-01T00:00:00Z'}
spec: {containers: [{name: c, image: i}], nodeName: n1}
",
    );
    let seen: Vec<_> = world.pods.iter().map(|pod| (pod.key(), pod.created.to_string())).collect();
    let want = [
        ("a/first", "2026-01-01T00:00:00Z"),
        ("a/web-0", "2026-01-01T00:00:01Z"),
        ("a/web-1", "2026-01-01T00:00:02Z"),
        ("default/job-0", "2026-01-01T00:00:03Z"),
        ("default/last", "2025-01-01T00:00:00Z"),
    ];
    assert_eq!(seen, want.map(|(name, time)| (name.to_owned(), time.to_owned())));
    assert_eq!(world.pods[1].shape.requests.get("cpu"), "2".parse().unwrap(), "a limit stands in for a request");
    assert!(Arc::ptr_eq(&world.pods[1].shape, &world.pods[2].shape));
    assert_ne!(world.pods[1].uid, world.pods[2].uid);
    assert_eq!(world.pods[0].scheduled_reason.as_deref(), Some("Unschedulable"));
    assert_eq!((world.pods[4].phase, world.pods[4].scheduled_reason.as_deref()), (Phase::Running, None));
    assert_eq!(world.namespaces["a"]["kubernetes.io/metadata.name"], "a");
    assert_eq!(world.workload_selectors.len(), 1, "a Job has no selector that spreads");
}

#[test]
fn a_workload_whose_pods_are_there_is_not_expanded_again() {
    let pod = |owner: &str, kind: &str, labels: &str| {
        format!(
            "---\napiVersion: v1\nkind: Pod\nmetadata: {{name: p-{owner}, labels: {labels}, ownerReferences: [{{apiVersion: apps/v1, \
             kind: {kind}, name: {owner}, uid: u, controller: true}}]}}\nspec: {{containers: [{{name: c, image: i}}]}}\n"
        )
    };
    let workload = |kind: &str, name: &str, owner: &str| {
        format!(
            "---\napiVersion: apps/v1\nkind: {kind}\nmetadata: {{name: {name}{owner}}}\nspec: {{replicas: 3, selector: {{matchLabels: {{a: b}}}}, \
             template: {{metadata: {{labels: {{a: b}}}}, spec: {{containers: [{{name: c, image: i}}]}}}}}}\n"
        )
    };
    let owned = ", ownerReferences: [{apiVersion: apps/v1, kind: Deployment, name: web, uid: d, controller: true}]";
    for (name, text, want) in [
        (
            "by template hash",
            workload("Deployment", "web", "") + &pod("web-abc", "ReplicaSet", "{pod-template-hash: abc}"),
            1,
        ),
        (
            "by its ReplicaSet",
            workload("Deployment", "web", "") + &workload("ReplicaSet", "odd", owned) + &pod("odd", "ReplicaSet", "{}"),
            1,
        ),
        ("only once", workload("Deployment", "web", "") + &workload("ReplicaSet", "odd", owned), 3),
        (
            "somebody else's pod",
            workload("Deployment", "web", "") + &pod("other-abc", "ReplicaSet", "{pod-template-hash: abc}"),
            4,
        ),
        ("ReplicaSet", workload("ReplicaSet", "rs", "") + &pod("rs", "ReplicaSet", "{}"), 1),
        ("StatefulSet", workload("StatefulSet", "db", "") + &pod("db", "StatefulSet", "{}"), 1),
    ] {
        assert_eq!(world(&text).pods.len(), want, "{name}");
    }
}

#[test]
fn a_stateful_set_brings_its_claims() {
    let world = world(
        "
apiVersion: apps/v1
kind: StatefulSet
metadata: {name: db, namespace: a}
spec:
  serviceName: db
  replicas: 2
  selector: {matchLabels: {app: db}}
  template: {metadata: {labels: {app: db}}, spec: {containers: [{name: c, image: i}], volumes: [{name: s, ephemeral: {volumeClaimTemplate: {spec: {storageClassName: fast}}}}]}}
  volumeClaimTemplates: [{metadata: {name: data}, spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}}]
---
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: data-db-1, namespace: a}
spec: {volumeName: pv-1, storageClassName: slow, accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}
---
apiVersion: storage.k8s.io/v1
kind: StorageClass
metadata: {name: gp3, annotations: {storageclass.kubernetes.io/is-default-class: 'true'}}
provisioner: ebs.csi.aws.com
",
    );
    let claims: Vec<Vec<&str>> =
        world.pods.iter().map(|pod| pod.claims.iter().map(|claim| &**claim).collect()).collect();
    assert_eq!(claims, [["db-0-s", "data-db-0"], ["db-1-s", "data-db-1"]]);
    let claim = |name: &str| &world.storage.claims[&("a".into(), name.into())];
    assert_eq!(claim("data-db-0").class.as_deref(), Some("gp3"), "the default class");
    assert_eq!(claim("data-db-1").class.as_deref(), Some("slow"), "a given claim counts first");
    assert_eq!(claim("db-0-s").class.as_deref(), Some("fast"), "made for an ephemeral volume");
    assert_eq!(world.storage.classes["gp3"].binding, BindingMode::Immediate);
}

#[test]
fn priorities_and_limit_ranges_apply_wherever_they_stand() {
    // covers: SCH-RES-20
    let world = world(
        "
apiVersion: v1
kind: Pod
metadata: {name: p, namespace: a}
spec: {priorityClassName: high, runtimeClassName: vm, containers: [{name: c, image: i, resources: {limits: {cpu: 3}}}]}
---
apiVersion: v1
kind: Pod
metadata: {name: q, namespace: b}
spec: {priorityClassName: system-node-critical, containers: [{name: c, image: i}]}
---
apiVersion: v1
kind: Pod
metadata: {name: r, namespace: b}
spec: {containers: [{name: c, image: i}]}
---
apiVersion: scheduling.k8s.io/v1
kind: PriorityClass
metadata: {name: high}
value: 1000
---
apiVersion: scheduling.k8s.io/v1
kind: PriorityClass
metadata: {name: usual}
value: 5
globalDefault: true
---
apiVersion: v1
kind: LimitRange
metadata: {name: l, namespace: a}
spec: {limits: [{type: Container, defaultRequest: {cpu: 100m}, default: {memory: 256Mi}, max: {ephemeral-storage: 1Gi}}, {type: Pod, max: {cpu: 9}}]}
---
apiVersion: node.k8s.io/v1
kind: RuntimeClass
metadata: {name: vm}
handler: vm
overhead: {podFixed: {cpu: 250m}}
scheduling: {nodeSelector: {kind: vm}, tolerations: [{key: vm, operator: Exists}]}
",
    );
    let shape = &world.pods[0].shape;
    assert_eq!(shape.priority, 1000);
    assert_eq!(shape.requests.get("cpu"), "3250m".parse().unwrap(), "limit, then overhead; the range comes too late");
    assert_eq!(shape.requests.get("memory"), "256Mi".parse().unwrap());
    assert_eq!(shape.requests.get("ephemeral-storage"), "1Gi".parse().unwrap());
    assert_eq!(shape.node_selector["kind"], "vm");
    assert_eq!(shape.tolerations[0].key, "vm");
    assert_eq!(world.pods[1].shape.priority, 2_000_001_000);
    assert_eq!(world.pods[2].shape.priority, 5);
    assert!(!world.pods[2].shape.requests.0.contains_key("memory"), "another namespace's range");
}

#[test]
fn nodes_are_ready_and_have_claims_unless_told_otherwise() {
    let nodes = "
---
apiVersion: v1
kind: Node
metadata: {name: ours, labels: {karpenter.sh/nodepool: default, topology.kubernetes.io/zone: z}}
spec: {taints: [{key: k, effect: NoSchedule}]}
status: {allocatable: {cpu: 4}, capacity: {cpu: 4}}
---
apiVersion: v1
kind: Node
metadata: {name: starting, labels: {karpenter.sh/nodepool: default, karpenter.sh/registered: 'true', node.kubernetes.io/instance-type: t}}
---
apiVersion: v1
kind: Node
metadata: {name: foreign}
---
apiVersion: v1
kind: Node
metadata: {name: orphan, labels: {karpenter.sh/nodepool: gone}}
---
apiVersion: karpenter.sh/v1
kind: NodeClaim
metadata: {name: coming, labels: {karpenter.sh/nodepool: default}}
spec: {nodeClassRef: {group: karpenter.k8s.aws, kind: EC2NodeClass, name: default}, requirements: []}
status: {capacity: {cpu: 2}, allocatable: {cpu: 2}}
---
apiVersion: karpenter.sh/v1
kind: NodeClaim
metadata: {name: own-claim, labels: {karpenter.sh/nodepool: default}}
spec: {nodeClassRef: {group: karpenter.k8s.aws, kind: EC2NodeClass, name: default}, requirements: []}
status: {nodeName: ours}
---
apiVersion: storage.k8s.io/v1
kind: CSINode
metadata: {name: ours}
spec: {drivers: [{name: d, nodeID: n1, allocatable: {count: 3}}]}
";
    let world = world(&(POOL.to_owned() + nodes));
    let seen: Vec<_> =
        world.nodes.iter().map(|node| (&*node.name, node.claim.as_deref(), node.stage, node.has_node)).collect();
    assert_eq!(
        seen,
        [
            ("ours", Some("own-claim"), Stage::Initialized, true),
            ("starting", Some("starting"), Stage::Registered, true),
            ("foreign", None, Stage::Unmanaged, true),
            ("orphan", None, Stage::Unmanaged, true),
            ("coming", Some("coming"), Stage::Launched, false),
        ]
    );
    assert_eq!(world.nodes[0].provider_id.as_deref(), Some("aws:///z/ours"));
    assert_eq!(world.nodes[0].labels["kubernetes.io/hostname"], "ours");
    assert_eq!(world.nodes[0].volume_limits["d"], 3);
    assert_eq!(world.pools.len(), 1);
}

#[test]
fn budgets_without_status_are_computed() {
    let pods: String = (0..4)
        .map(|i| {
            let node = if i < 3 { "nodeName: n1, " } else { "" };
            format!("---\napiVersion: v1\nkind: Pod\nmetadata: {{name: p{i}, labels: {{app: mine}}}}\nspec: {{{node}containers: [{{name: c, image: i}}]}}\n")
        })
        .collect();
    let budget = |spec: &str| {
        let text =
            format!("{pods}---\napiVersion: policy/v1\nkind: PodDisruptionBudget\nmetadata: {{name: b}}\n{spec}\n");
        world(&text).disruption_budgets[0].disruptions_allowed
    };
    assert_eq!(budget("spec: {maxUnavailable: 2, selector: {matchLabels: {app: mine}}}"), 1, "3 of 4 run, 2 must");
    assert_eq!(budget("spec: {minAvailable: 50%, selector: {}}"), 1);
    assert_eq!(budget("spec: {minAvailable: 1, selector: {matchLabels: {app: other}}}"), 0);
    assert_eq!(
        budget("spec: {maxUnavailable: 1, selector: {}}\nstatus: {observedGeneration: 1, disruptionsAllowed: 7}"),
        7
    );
}

#[test]
fn every_fault_of_a_run_is_told_with_its_place() {
    let text = "
apiVersion: v1
kind: Pod
metadata: {name: a}
spec: {containers: [{name: c, image: i, resouces: {}, resources: {requests: {cpu: lots}}}], priority: high, nodeSelector: [x]}
---
apiVersion: v1
kind: Pod
metadata: {name: b}
spec: {containers: [{name: c, image: i, resources: {requests: {cpu: 1x}}}]}
---
{broken
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: d}
spec: {selector: {}, template: {spec: {containers: [{name: c, image: i, resources: {requests: {memory: 1x}}}]}}}
---
apiVersion: policy/v1beta1
kind: PodDisruptionBudget
metadata: {name: old}
---
kind: Pod
metadata: {name: x}
---
apiVersion: v1
kind: Pod
metadata: {}
---
apiVersion: karpenter.sh/v1
kind: NodePool
metadata: {name: p}
spec: {template: {spec: {nodeClassRef: {group: karpenter.k8s.aws, kind: EC2NodeClass, name: none}, requirements: [{key: a, operator: Like}]}}}
";
    let seen = faults(text);
    let expect = [
        "w.yaml: document 1: Pod default/a: spec.containers[0].resouces: unknown field; did you mean \"resources\"?",
        "w.yaml: document 1: Pod default/a: spec.containers[0].resources.requests.cpu: \"lots\" is not a quantity",
        "w.yaml: document 1: Pod default/a: spec.priority: must be an integer, not the string \"high\"",
        "w.yaml: document 1: Pod default/a: spec.nodeSelector: must be an object, not a list",
        "w.yaml: document 2: Pod default/b: spec.containers[0].resources.requests.cpu: \"1x\" is not a quantity",
        "w.yaml: document 3: line",
        "w.yaml: document 4: Deployment default/d: spec.selector: Invalid value: {}: empty selector is invalid for deployment",
        "w.yaml: document 4: Deployment default/d: spec.template.spec.containers[0].resources.requests.memory: \"1x\" is not",
        "w.yaml: document 5: PodDisruptionBudget old: apiVersion: policy/v1beta1 is not a version we read; policy/v1 is",
        "w.yaml: document 6: apiVersion: is missing",
        "w.yaml: document 7: Pod: metadata.name: Required value: name or generateName is required",
        "w.yaml: document 7: Pod: spec.containers: Required value",
        "w.yaml: document 8: NodePool p: spec.template.spec.requirements[0].operator",
        "w.yaml: document 8: NodePool p: spec.template.spec.nodeClassRef.name: there is no EC2NodeClass none in the input",
    ];
    for (line, start) in seen.iter().zip(expect) {
        assert!(line.starts_with(start), "{line}\n{start}");
    }
    assert_eq!(seen.len(), expect.len(), "{seen:#?}");
}

#[test]
fn a_pool_without_its_node_class_is_bad_input() {
    let pool = POOL.split("---").nth(1).unwrap();
    let seen = faults(pool);
    assert_eq!(
        seen,
        [
            "w.yaml: document 1: NodePool default: spec.template.spec.nodeClassRef.name: there is no EC2NodeClass default in the input"
        ]
    );
}

#[test]
fn pools_that_may_not_grow_are_passed_over_with_a_note() {
    let with = |extra: &str| load_all(vec![source("w.yaml", &(POOL.to_owned() + extra))]).unwrap();
    let used = with("");
    assert_eq!((used.world.pools.len(), used.node_pools.len()), (1, 1));
    let condition = "  conditions: [{type: Ready, status: 'False', reason: Why, message: '', lastTransitionTime: '2026-01-01T00:00:00Z'}]";
    for (extra, why) in
        [("  replicas: 3\n".to_owned(), "static"), (format!("status:\n{condition}\n"), "not ready (Why)")]
    {
        let loaded = with(&extra);
        assert!(loaded.world.pools.is_empty(), "{extra}");
        assert!(loaded.notes.iter().any(|note| note.contains(why)), "{:?}", loaded.notes);
    }
}

#[test]
fn other_kinds_and_repetitions_are_noted() {
    let text = "
apiVersion: v1
kind: ConfigMap
metadata: {name: c}
---
apiVersion: v1
kind: Pod
metadata: {name: a}
spec: {containers: [{name: c, image: i}]}
---
apiVersion: v1
kind: Pod
metadata: {name: a, namespace: default}
spec: {containers: [{name: c, image: i}]}
";
    let loaded = load_all(vec![source("w.yaml", text)]).unwrap();
    assert_eq!(loaded.world.pods.len(), 1);
    assert!(loaded.notes.iter().any(|note| note.starts_with("skipped 1 v1 ConfigMap")), "{:?}", loaded.notes);
    assert!(
        loaded.notes.iter().any(|note| note.contains("Pod default/a is given more than once")),
        "{:?}",
        loaded.notes
    );
}

#[test]
fn a_budget_that_is_no_number_is_bad_input() {
    let text = "apiVersion: policy/v1\nkind: PodDisruptionBudget\nmetadata: {name: b}\nspec: {maxUnavailable: few, selector: {}}\n";
    let seen = faults(text);
    let start = "w.yaml: document 1: PodDisruptionBudget default/b: spec.maxUnavailable: Invalid value: \"few\": a valid percent";
    assert!(seen.len() == 1 && seen[0].starts_with(start), "{seen:#?}");
}

#[test]
fn a_raw_dump_is_read_without_a_word() {
    let dump = r#"
apiVersion: v1
items:
- apiVersion: v1
  kind: Node
  metadata:
    annotations: {node.alpha.kubernetes.io/ttl: "0"}
    creationTimestamp: "2026-01-01T10:00:00Z"
    labels: {kubernetes.io/hostname: ip-10-0-0-1, topology.kubernetes.io/zone: us-east-1a}
    managedFields:
    - {apiVersion: v1, fieldsType: FieldsV1, fieldsV1: {"f:metadata": {"f:labels": {}}}, manager: kubelet, operation: Update, time: "2026-01-01T10:00:00Z"}
    name: ip-10-0-0-1
    resourceVersion: "7"
    uid: 1b2c
  spec: {providerID: "aws:///us-east-1a/i-1", podCIDRs: [10.1.0.0/24], podCIDR: 10.1.0.0/24}
  status:
    addresses: [{address: 10.0.0.1, type: InternalIP}]
    allocatable: {cpu: 1930m, memory: 7Gi, pods: "29"}
    capacity: {cpu: "2", memory: 8Gi, pods: "29"}
    conditions: [{lastHeartbeatTime: "2026-01-01T10:00:00Z", lastTransitionTime: "2026-01-01T10:00:00Z", message: ok, reason: KubeletReady, status: "True", type: Ready}]
    daemonEndpoints: {kubeletEndpoint: {Port: 10250}}
    images: [{names: [a], sizeBytes: 5}]
    nodeInfo: {architecture: amd64, bootID: b, containerRuntimeVersion: c, kernelVersion: k, kubeProxyVersion: "", kubeletVersion: v1.36.0, machineID: m, operatingSystem: linux, osImage: o, systemUUID: u}
- apiVersion: v1
  kind: Pod
  metadata:
    creationTimestamp: "2026-01-01T11:00:00Z"
    generateName: web-5d4-
    labels: {app: web, pod-template-hash: 5d4}
    name: web-5d4-x2
    namespace: shop
    ownerReferences: [{apiVersion: apps/v1, blockOwnerDeletion: true, controller: true, kind: ReplicaSet, name: web-5d4, uid: r}]
    uid: p1
  spec:
    containers:
    - {image: i, imagePullPolicy: Always, name: c, resources: {requests: {cpu: 100m}}, terminationMessagePath: /dev/termination-log, terminationMessagePolicy: File,
       volumeMounts: [{mountPath: /var/run, name: kube-api-access, readOnly: true}]}
    dnsPolicy: ClusterFirst
    enableServiceLinks: true
    nodeName: ip-10-0-0-1
    preemptionPolicy: PreemptLowerPriority
    priority: 0
    restartPolicy: Always
    schedulerName: default-scheduler
    securityContext: {}
    serviceAccount: default
    serviceAccountName: default
    terminationGracePeriodSeconds: 30
    tolerations: [{effect: NoExecute, key: node.kubernetes.io/not-ready, operator: Exists, tolerationSeconds: 300}]
    volumes:
    - name: kube-api-access
      projected: {defaultMode: 420, sources: [{serviceAccountToken: {expirationSeconds: 3607, path: token}}, {downwardAPI: {items: [{fieldRef: {apiVersion: v1, fieldPath: metadata.namespace}, path: namespace}]}}]}
  status:
    conditions: [{lastProbeTime: null, lastTransitionTime: "2026-01-01T11:00:01Z", observedGeneration: 1, status: "True", type: PodScheduled}]
    containerStatuses: [{containerID: abc, image: i, imageID: sha, lastState: {}, name: c, ready: true, restartCount: 0, started: true, state: {running: {startedAt: "2026-01-01T11:00:02Z"}}, allocatedResources: {cpu: 100m}, resources: {requests: {cpu: 100m}}}]
    hostIP: 10.0.0.1
    phase: Running
    podIPs: [{ip: 10.1.0.2}]
    qosClass: Burstable
    startTime: "2026-01-01T11:00:01Z"
- apiVersion: apps/v1
  kind: Deployment
  metadata: {name: web, namespace: shop, uid: d}
  spec: {progressDeadlineSeconds: 600, replicas: 1, revisionHistoryLimit: 10, selector: {matchLabels: {app: web}}, strategy: {rollingUpdate: {maxSurge: 25%, maxUnavailable: 25%}, type: RollingUpdate},
         template: {metadata: {creationTimestamp: null, labels: {app: web}}, spec: {containers: [{name: c, image: i}]}}}
  status: {availableReplicas: 1, conditions: [{lastTransitionTime: "2026-01-01T11:00:01Z", lastUpdateTime: "2026-01-01T11:00:01Z", message: m, reason: r, status: "True", type: Available}], observedGeneration: 1, replicas: 1}
kind: List
metadata: {resourceVersion: ""}
"#;
    let loaded = load_all(vec![source("dump.yaml", dump)]).unwrap_or_else(|faults| panic!("{faults:#?}"));
    assert_eq!(loaded.notes, Vec::<String>::new());
    assert_eq!((loaded.world.nodes.len(), loaded.world.pods.len()), (1, 1));
    assert_eq!(loaded.world.pods[0].phase, Phase::Running);
}

#[test]
fn an_empty_taint_value_is_no_value() {
    let text = POOL.replace(
        "      requirements:",
        "      taints: [{key: vip, value: '', effect: NoSchedule}]\n      requirements:",
    );
    let loaded = load_all(vec![source("w.yaml", &text)]).unwrap();
    let taint = &loaded.world.pools[0].taints[0];
    assert_eq!((taint.key.as_str(), taint.value.as_str()), ("vip", ""));
    let note = "w.yaml: document 2: NodePool default: spec.template.spec.taints[0].value: is empty: leave it out: an API server would \
        refuse this";
    assert_eq!(loaded.notes, [note]);
}

#[test]
fn manifests_of_v1beta1_are_read_as_v1_and_said_so() {
    const OLD: &str = "
apiVersion: karpenter.k8s.aws/v1beta1
kind: EC2NodeClass
metadata: {name: default}
spec:
  role: node
  amiFamily: Bottlerocket
  subnetSelectorTerms: [{tags: {a: b}}]
  securityGroupSelectorTerms: [{tags: {a: b}}]
---
apiVersion: karpenter.sh/v1beta1
kind: NodePool
metadata: {name: default}
spec:
  disruption: {consolidationPolicy: WhenUnderutilized, expireAfter: 100h}
  template:
    spec:
      nodeClassRef: {name: default}
      kubelet: {maxPods: 42}
      requirements: [{key: karpenter.sh/capacity-type, operator: In, values: [spot]}]
";
    let mut asked = Vec::new();
    let options = |asked: &mut Vec<Value>| {
        let mut types = |class: &Value| {
            asked.push(class.clone());
            Ok(Arc::from([]))
        };
        load(
            vec![source("w.yaml", OLD)],
            Options {
                now: "2026-01-02T00:00:00Z".parse().unwrap(),
                settings: Settings::default(),
                vocabulary: Arc::new(Vocabulary::kubernetes()),
                overlays: false,
                instance_types: &mut types,
            },
        )
    };
    let loaded = options(&mut asked).unwrap();
    let pool = &loaded.node_pools[0];
    assert_eq!(pool.spec.template.spec.node_class_ref.group, "karpenter.k8s.aws");
    assert_eq!(serde_json::to_value(&pool.spec.template.spec.expire_after).unwrap(), "100h");
    assert_eq!(asked[0]["spec"]["kubelet"], serde_json::json!({"maxPods": 42}), "of the pool, not of the class");
    assert_eq!(asked[0]["spec"]["amiSelectorTerms"][0]["alias"], "bottlerocket@latest");
    let told = |kind: &str| loaded.notes.iter().any(|note| note.contains(&format!("{kind} default is v1beta1")));
    assert!(told("NodePool") && told("EC2NodeClass"), "{:?}", loaded.notes);
    let wrong = OLD.replace("WhenUnderutilized", "Whenever");
    let seen = faults(&wrong);
    assert!(
        seen[0].starts_with("w.yaml: document 2: NodePool default: spec.disruption.consolidationPolicy"),
        "{seen:?}"
    );
}

#[test]
fn overlays_change_what_pools_see_where_the_gate_is_on() {
    let offering = karpenter_core::Offering {
        requirements: karpenter_core::Requirements::new(),
        price: karpenter_core::MicroUsd(1_000_000),
        available: true,
        reservation: None,
    };
    let kind = Arc::new(karpenter_core::InstanceType {
        name: "t".into(),
        requirements: karpenter_core::Requirements::new(),
        capacity: Default::default(),
        overhead: Default::default(),
        offerings: vec![offering],
    });
    let overlays = "
---
apiVersion: karpenter.sh/v1alpha1
kind: NodeOverlay
metadata: {name: dear}
spec: {requirements: [], price: '3.5', capacity: {example.com/device: '2'}}
---
apiVersion: karpenter.sh/v1alpha1
kind: NodeOverlay
metadata: {name: again}
spec: {requirements: [], priceAdjustment: '+1'}
";
    let with = |gate: bool| {
        let types: Arc<[Arc<InstanceType>]> = Arc::from([kind.clone()]);
        let options = Options {
            now: "2026-01-02T00:00:00Z".parse().unwrap(),
            settings: Settings::default(),
            vocabulary: Arc::new(Vocabulary::kubernetes()),
            overlays: gate,
            instance_types: &mut move |_: &Value| Ok(types.clone()),
        };
        load(vec![source("w.yaml", &(POOL.to_owned() + overlays))], options).unwrap()
    };
    let loaded = with(true);
    let seen = &loaded.world.pools[0].instance_types[0];
    assert_eq!((seen.offerings[0].price.0, seen.capacity.get("example.com/device").units()), (3_500_000, 2));
    assert_eq!(loaded.notes, ["NodeOverlay again is not applied: it conflicts with another overlay"]);
    let loaded = with(false);
    assert!(Arc::ptr_eq(&loaded.world.pools[0].instance_types[0], &kind));
    assert_eq!(loaded.notes.iter().filter(|note| note.contains("needs the feature gate NodeOverlay")).count(), 2);
}

#[test]
fn nothing_to_read_is_bad_input() {
    for text in ["", "# only words\n---\n", r#"{"kind": "List", "apiVersion": "v1", "items": []}"#] {
        assert_eq!(faults(text), ["w.yaml: document 1: there is no Kubernetes object in the input"], "{text}");
    }
}

#[test]
fn kinds_that_nobody_has_are_told_with_what_was_meant() {
    let object =
        |api_version: &str, kind: &str| format!("apiVersion: {api_version}\nkind: {kind}\nmetadata: {{name: x}}\n");
    for (api_version, kind, want) in [
        (
            "karpenter.sh/v1",
            "Nodepool",
            "Nodepool x: kind: there is no Nodepool in karpenter.sh/v1; did you mean NodePool?",
        ),
        ("apps/v1", "Deploymnet", "Deploymnet x: kind: there is no Deploymnet in apps/v1; did you mean Deployment?"),
        ("v1", "Podd", "Podd x: kind: there is no Podd in v1; did you mean Pod?"),
        ("v1", "Deployment", "Deployment x: apiVersion: there is no Deployment in v1; did you mean apps/v1?"),
        ("app/v1", "Deployment", "Deployment x: apiVersion: there is no Deployment in app/v1; did you mean apps/v1?"),
        (
            "karpenter.k8s.aws/v1",
            "NodePool",
            "apiVersion: there is no NodePool in karpenter.k8s.aws/v1; did you mean karpenter.sh/v1?",
        ),
        ("karpenter.sh/v1alpha5", "Provisioner", "Provisioner x: kind: is not read since v0.33: write a NodePool"),
        ("extensions/v1beta1", "Ingress", "did you mean networking.k8s.io/v1?"),
        ("v1", "Frobnicator", "Frobnicator x: kind: there is no Frobnicator in v1"),
    ] {
        let seen = faults(&object(api_version, kind));
        assert!(seen.len() == 1 && seen[0].contains(want), "{seen:?}");
    }
    for (api_version, kind) in [("monitoring.coreos.com/v1", "ServiceMonitor"), ("serving.knative.dev/v1", "Service")] {
        let loaded = load_all(vec![source("w.yaml", &object(api_version, kind))]).unwrap();
        assert_eq!(loaded.notes, [format!("skipped 1 {api_version} {kind}: plans do not depend on this kind")]);
    }
    let dumped = object("resource.k8s.io/v9", "DeviceThing").replace("{name: x}", "{name: x, uid: u}");
    assert!(load_all(vec![source("w.yaml", &dumped)]).is_ok(), "a newer server may have it");
}

#[test]
fn all_faults_of_a_document_are_told_in_its_order() {
    let text = "
apiVersion: v1
kind: Pod
metadata: {name: Bad_Name, lables: {}}
spec:
  restartPolicy: Sometimes
  containers:
  - {name: c, image: i, resources: {requests: {cpu: -2, memory: lots}}}
  - {name: c, image: i, resouces: {}}
  topologySpreadConstraints: [{maxSkew: 0, topologyKey: zone, whenUnsatisfiable: Maybe}]
";
    let fields: Vec<String> =
        load_all(vec![source("w.yaml", text)]).unwrap_err().into_iter().map(|fault| fault.field).collect();
    assert_eq!(
        fields,
        [
            "metadata.name",
            "metadata.lables",
            "spec.restartPolicy",
            "spec.containers[0].resources.requests[cpu]",
            "spec.containers[0].resources.requests.memory",
            "spec.containers[1].name",
            "spec.containers[1].resouces",
            "spec.topologySpreadConstraints[0].maxSkew",
            "spec.topologySpreadConstraints[0].whenUnsatisfiable",
        ]
    );
}

#[test]
fn what_a_server_took_once_is_a_note_told_once() {
    let pod = |name: &str, cpu: &str| {
        format!(
            "---\napiVersion: v1\nkind: Pod\nmetadata: {{name: {name}, uid: u-{name}}}\nspec: {{newField: 1, containers: [{{name: c, \
             image: i, resources: {{requests: {{cpu: {cpu}}}, limits: {{cpu: 1}}}}}}]}}\n"
        )
    };
    let text: String = ["a", "b", "c"].iter().map(|name| pod(name, "2")).collect();
    let loaded = load_all(vec![source("w.yaml", &text)]).unwrap();
    assert_eq!(loaded.world.pods.len(), 3);
    assert_eq!(
        loaded.notes,
        [
            "w.yaml: document 1: Pod default/a: spec.newField: unknown field: an API server would refuse this, and 2 more like it",
            "w.yaml: document 1: Pod default/a: spec.containers[0].resources.requests: Invalid value: \"2\": must be less than or \
             equal to cpu limit of 1: an API server would refuse this, and 2 more like it",
        ]
    );
    let owned = |name: &str| {
        let owner = "ownerReferences: [{apiVersion: apps/v1, kind: ReplicaSet, name: r, uid: r, controller: true}]";
        pod(name, "2").replace(&format!("uid: u-{name}"), &format!("uid: u-{name}, {owner}"))
    };
    let loaded = load_all(vec![source("w.yaml", &(owned("a") + &owned("b")))]).unwrap();
    assert_eq!(loaded.world.pods.len(), 2);
    assert!(
        loaded.notes.len() == 2 && !loaded.notes[0].contains("more"),
        "one of a controller's pods: {:?}",
        loaded.notes
    );
    let seen = faults(&(owned("a") + &owned("d").replace("cpu: 2", "cpu: lots")));
    assert!(seen.len() == 1 && seen[0].contains("\"lots\" is not a quantity"), "it cannot be read: {seen:?}");
    let seen = faults(&pod("d", "lots"));
    assert!(seen.len() == 1 && seen[0].contains("\"lots\" is not a quantity"), "no server can have taken it: {seen:?}");
}

#[test]
fn a_node_class_that_is_not_filled_in_is_planned_with_and_a_wrong_one_is_not() {
    let open =
        POOL.replace("  role: node\n", "").replace("subnetSelectorTerms: [{tags: {a: b}}]", "subnetSelectorTerms: []");
    let loaded = load_all(vec![source("w.yaml", &open)]).unwrap();
    assert_eq!(loaded.world.pools.len(), 1);
    assert!(
        loaded.notes.iter().all(|note| note.contains("EC2NodeClass default: spec") && note.contains("would refuse"))
    );
    assert!(!loaded.notes.is_empty());
    let both = POOL.replace("  role: node\n", "  role: node\n  instanceProfile: profile\n  kubelt: {}\n");
    let seen = faults(&both);
    assert!(
        seen.iter().any(|line| line.contains("must specify exactly one of ['role', 'instanceProfile']")),
        "{seen:?}"
    );
    assert!(seen.iter().any(|line| line.contains("spec.kubelt: unknown field; did you mean \"kubelet\"?")), "{seen:?}");
}

#[test]
fn a_pod_may_not_give_a_priority_of_its_own() {
    let pod = |spec: &str| {
        format!(
            "apiVersion: v1\nkind: Pod\nmetadata: {{name: p}}\nspec: {{{spec}, containers: [{{name: c, image: i}}]}}\n"
        )
    };
    let lines = faults(&pod("priority: 5"));
    let start =
        "w.yaml: document 1: Pod default/p: spec.priority: the integer value of priority (5) must not be provided";
    assert!(lines.len() == 1 && lines[0].starts_with(start), "{lines:?}");
    for good in [
        "priority: 0",
        "priority: 2000000000, priorityClassName: system-cluster-critical",
        "priority: 7, priorityClassName: of-the-cluster",
    ] {
        assert_eq!(world(&pod(good)).pods.len(), 1, "{good}");
    }
}

#[test]
fn a_pool_without_a_spec_names_what_it_lacks() {
    let text = "apiVersion: karpenter.sh/v1\nkind: NodePool\nmetadata: {name: p}\n";
    assert_eq!(faults(text), ["w.yaml: document 1: NodePool p: spec: required"]);
}

#[test]
fn nothing_without_a_name_is_lost() {
    let nameless = POOL.replace("metadata: {name: default}", "metadata: {labels: {a: b c}}");
    let lines = faults(&nameless);
    for (line, kind) in lines.chunks(2).zip(["document 1: EC2NodeClass", "document 2: NodePool"]) {
        assert!(line[0].starts_with(&format!("w.yaml: {kind}: metadata.labels: Invalid value: \"b c\"")), "{lines:#?}");
        assert_eq!(line[1], format!("w.yaml: {kind}: metadata.name: Required value: name or generateName is required"));
    }
    assert_eq!(lines.len(), 4, "{lines:#?}");
}

#[test]
fn names_may_be_left_to_the_server() {
    let job = "
apiVersion: batch/v1
kind: Job
metadata: {generateName: report-}
spec: {template: {spec: {restartPolicy: Never, containers: [{name: c, image: i}]}}}
";
    let world = world(&format!("{job}---{job}"));
    let names: Vec<&str> = world.pods.iter().map(|pod| &*pod.name).collect();
    assert_eq!(names, ["report-00001-0", "report-00002-0"]);
}

#[test]
fn good_specs_are_remembered_and_bad_ones_are_not_mistaken_for_them() {
    let pod = |name: &str, cpu: &str, node: &str| {
        format!(
            "---\napiVersion: v1\nkind: Pod\nmetadata: {{name: {name}}}\nspec: {{nodeName: {node}, containers: [{{name: c, image: i, \
             resources: {{requests: {{cpu: \"{cpu}\"}}}}}}]}}\n"
        )
    };
    let text = pod("a", "1", "n1")
        + &pod("b", "1", "n2")
        + &pod("c", "-1", "n1")
        + &pod("d", "1", "Bad_Node")
        + &pod("Bad_Name", "1", "n1");
    let lines = faults(&text);
    let starts = [
        "document 3: Pod default/c: spec.containers[0]",
        "document 4: Pod default/d: spec.nodeName",
        "document 5: Pod default/Bad_Name: metadata.name",
    ];
    assert_eq!(lines.len(), starts.len(), "{lines:#?}");
    for (line, start) in lines.iter().zip(starts) {
        assert!(line.starts_with(&format!("w.yaml: {start}")), "{line}");
    }
}
