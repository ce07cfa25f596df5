//! Good objects: those of the examples, and one of every kind that plans read.

use std::path::PathBuf;

use karpenter_manifests::read_sources;
use serde_json::{Value, json};

/// What the first document's shell has in its environment.
const VARIABLES: [(&str, &str); 3] = [
    ("${CLUSTER_NAME}", "demo"),
    ("${AMD_AMI_ID}", "ami-0aaaaaaaaaaaaaaaa"),
    ("${GPU_AMI_ID}", "ami-0bbbbbbbbbbbbbbbb"),
];

/// In v1beta1, which the server is asked for elsewhere: `004/manifests`.
const EXAMPLES: [&str; 8] = [
    "shop",
    "seeds/000/manifests",
    "seeds/000/workloads",
    "seeds/001/manifests",
    "seeds/001/workloads",
    "seeds/002/translated.yaml",
    "seeds/003",
    "seeds/004/workloads",
];

const KINDS: &str = "
apiVersion: v1
kind: Pod
metadata: {name: whole, namespace: default, labels: {app: whole}, annotations: {note: kept}}
spec:
  restartPolicy: Never
  nodeSelector: {disk: ssd}
  tolerations: [{key: a, operator: Equal, value: b, effect: NoExecute, tolerationSeconds: 30}]
  topologySpreadConstraints: [{maxSkew: 1, topologyKey: kubernetes.io/hostname, whenUnsatisfiable: ScheduleAnyway, labelSelector: {matchLabels: {app: whole}}}]
  affinity:
    nodeAffinity:
      requiredDuringSchedulingIgnoredDuringExecution: {nodeSelectorTerms: [{matchExpressions: [{key: cpus, operator: Gt, values: ['4']}]}]}
      preferredDuringSchedulingIgnoredDuringExecution: [{weight: 7, preference: {matchExpressions: [{key: arch, operator: In, values: [arm64]}]}}]
    podAntiAffinity:
      preferredDuringSchedulingIgnoredDuringExecution: [{weight: 3, podAffinityTerm: {topologyKey: zone, labelSelector: {matchExpressions: [{key: app, operator: Exists}]}}}]
  volumes: [{name: data, persistentVolumeClaim: {claimName: data}}, {name: scratch, emptyDir: {sizeLimit: 1Gi}}]
  initContainers: [{name: before, image: example.com/before, resources: {requests: {memory: 1Gi}}}]
  containers:
  - name: main
    image: example.com/main
    env: [{name: A, value: b}, {name: NODE, valueFrom: {fieldRef: {fieldPath: spec.nodeName}}}]
    ports: [{name: http, containerPort: 80, hostPort: 8080}]
    resources: {requests: {cpu: 100m, memory: 1Gi}, limits: {memory: 2Gi, nvidia.com/gpu: 1}}
    volumeMounts: [{name: data, mountPath: /data}]
    readinessProbe: {httpGet: {port: http}, periodSeconds: 5}
---
apiVersion: apps/v1
kind: ReplicaSet
metadata: {name: set, namespace: default}
spec: {replicas: 2, selector: {matchLabels: {a: b}}, template: {metadata: {labels: {a: b}}, spec: {containers: [{name: c, image: i}]}}}
---
apiVersion: v1
kind: Node
metadata: {name: node, labels: {kubernetes.io/hostname: node}}
spec: {taints: [{key: a, value: b, effect: NoSchedule}], podCIDR: 10.0.0.0/24}
status: {capacity: {cpu: 4, memory: 16Gi}, allocatable: {cpu: 4, memory: 15Gi}}
---
apiVersion: v1
kind: PersistentVolume
metadata: {name: volume}
spec: {capacity: {storage: 5Gi}, accessModes: [ReadWriteOnce], csi: {driver: ebs.csi.aws.com, volumeHandle: vol-1},
  nodeAffinity: {required: {nodeSelectorTerms: [{matchExpressions: [{key: zone, operator: In, values: [a]}]}]}}}
---
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: data, namespace: default}
spec: {accessModes: [ReadWriteOnce], storageClassName: gp3, resources: {requests: {storage: 5Gi}}}
---
apiVersion: storage.k8s.io/v1
kind: StorageClass
metadata: {name: gp3}
provisioner: ebs.csi.aws.com
volumeBindingMode: WaitForFirstConsumer
allowedTopologies: [{matchLabelExpressions: [{key: topology.kubernetes.io/zone, values: [us-east-1a]}]}]
---
apiVersion: storage.k8s.io/v1
kind: CSINode
metadata: {name: node}
spec: {drivers: [{name: ebs.csi.aws.com, nodeID: node, allocatable: {count: 25}}]}
---
apiVersion: policy/v1
kind: PodDisruptionBudget
metadata: {name: budget, namespace: default}
spec: {maxUnavailable: 10%, selector: {matchLabels: {app: whole}}}
---
apiVersion: v1
kind: Namespace
metadata: {name: another, labels: {team: a}}
---
apiVersion: scheduling.k8s.io/v1
kind: PriorityClass
metadata: {name: high}
value: 1000
preemptionPolicy: Never
---
apiVersion: node.k8s.io/v1
kind: RuntimeClass
metadata: {name: vm}
handler: vm
overhead: {podFixed: {cpu: 250m}}
scheduling: {nodeSelector: {kind: vm}, tolerations: [{key: vm, operator: Exists}]}
---
apiVersion: v1
kind: LimitRange
metadata: {name: limits, namespace: batch}
spec: {limits: [{type: Container, default: {cpu: 200m}, defaultRequest: {cpu: 100m}, max: {cpu: 2}}]}
---
apiVersion: v1
kind: Service
metadata: {name: service, namespace: default}
spec: {selector: {app: whole}, ports: [{name: http, port: 80, targetPort: http}]}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: config, namespace: default}
data: {a: b}
---
apiVersion: batch/v1
kind: CronJob
metadata: {name: cron, namespace: default}
spec: {schedule: 0 3 * * *, jobTemplate: {spec: {template: {spec: {restartPolicy: OnFailure, containers: [{name: c, image: i}]}}}}}
---
apiVersion: karpenter.sh/v1
kind: NodePool
metadata: {name: whole, labels: {team: a}}
spec:
  weight: 10
  limits: {cpu: 100}
  disruption: {consolidationPolicy: WhenEmptyOrUnderutilized, consolidateAfter: 1m, budgets: [{nodes: 10%, schedule: 0 9 * * 1-5, duration: 8h, reasons: [Drifted]}]}
  template:
    metadata: {labels: {team: a}, annotations: {note: kept}}
    spec:
      nodeClassRef: {group: karpenter.k8s.aws, kind: EC2NodeClass, name: default}
      expireAfter: 720h
      terminationGracePeriod: 1h
      taints: [{key: dedicated, value: a, effect: NoSchedule}]
      startupTaints: [{key: cni, effect: NoExecute}]
      requirements: [{key: karpenter.sh/capacity-type, operator: In, values: [spot], minValues: 1}, {key: karpenter.k8s.aws/instance-cpu, operator: Gt, values: ['4']}]
---
apiVersion: karpenter.sh/v1
kind: NodeClaim
metadata: {name: claim, labels: {karpenter.sh/nodepool: whole}}
spec:
  nodeClassRef: {group: karpenter.k8s.aws, kind: EC2NodeClass, name: default}
  requirements: [{key: kubernetes.io/arch, operator: In, values: [amd64]}]
  resources: {requests: {cpu: 1}}
---
apiVersion: karpenter.sh/v1alpha1
kind: NodeOverlay
metadata: {name: overlay}
spec: {requirements: [{key: karpenter.k8s.aws/instance-family, operator: In, values: [m5]}], priceAdjustment: -10%, weight: 5}
---
apiVersion: karpenter.k8s.aws/v1
kind: EC2NodeClass
metadata: {name: whole}
spec:
  amiFamily: AL2023
  amiSelectorTerms: [{alias: al2023@latest}]
  role: node
  subnetSelectorTerms: [{tags: {a: b}}]
  securityGroupSelectorTerms: [{id: sg-0123456789abcdef0}]
  tags: {team: a}
  metadataOptions: {httpTokens: required, httpPutResponseHopLimit: 1}
  blockDeviceMappings: [{deviceName: /dev/xvda, rootVolume: true, ebs: {volumeSize: 100Gi, volumeType: gp3, encrypted: true}}]
  kubelet: {maxPods: 30, kubeReserved: {cpu: 100m}, evictionHard: {memory.available: 5%}}
";

pub(crate) fn all() -> Vec<Value> {
    let root = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../examples");
    let paths: Vec<PathBuf> = EXAMPLES.iter().map(|path| root.join(path)).collect();
    let sources = read_sources(&paths, &mut std::io::empty()).unwrap();
    let texts = sources.into_iter().map(|source| String::from_utf8(source.bytes).unwrap());
    let filled = texts.map(|text| VARIABLES.iter().fold(text, |text, (name, value)| text.replace(name, value)));
    let objects =
        filled.chain([KINDS.to_owned()]).flat_map(|text| serde_saphyr::from_multiple::<Value>(&text).unwrap());
    // Values of charts stand beside the manifests.
    objects.filter(|object| object["kind"].is_string() && object["metadata"]["name"].is_string()).collect()
}

/// What plans want to see beside an object: the class of a NodePool.
pub(crate) fn beside(object: &Value) -> Vec<Value> {
    let class = |name: &Value| {
        json!({"apiVersion": "karpenter.k8s.aws/v1", "kind": "EC2NodeClass", "metadata": {"name": name}, "spec": {
            "role": "node", "amiSelectorTerms": [{"alias": "al2023@latest"}], "subnetSelectorTerms": [{"tags": {"a": "b"}}],
            "securityGroupSelectorTerms": [{"tags": {"a": "b"}}]}})
    };
    let name = object.pointer("/spec/template/spec/nodeClassRef/name");
    name.filter(|_| object["kind"] == "NodePool").map(class).into_iter().collect()
}

pub(crate) fn name(object: &Value) -> String {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    format!("{} {}", text(&object["kind"]), text(&object["metadata"]["name"]))
}
