//! The program as users meet it: arguments, output, exit statuses.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use serde_json::Value;

fn example() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/shop")
}

fn karpenter(args: &[&str], input: &str) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_karpenter"));
    // Settings of whoever runs the tests must not decide them.
    command.env_clear().args(args).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    // A child that does not read its input has closed it, which is its good right.
    let _ = child.stdin.take().unwrap().write_all(input.as_bytes());
    child.wait_with_output().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

fn json(output: &Output) -> Value {
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

const WORLD: &str = r#"
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
metadata: {name: default, uid: pool-uid}
spec:
  template:
    metadata: {labels: {team: shop}, annotations: {note: kept}}
    spec:
      nodeClassRef: {group: karpenter.k8s.aws, kind: EC2NodeClass, name: default}
      startupTaints: [{key: cni, effect: NoSchedule}]
      taints: [{key: soft, value: soft, effect: PreferNoSchedule}]
      expireAfter: 48h
      terminationGracePeriod: 1h30m
      requirements:
      - {key: karpenter.sh/capacity-type, operator: In, values: [on-demand]}
      - {key: node.kubernetes.io/instance-type, operator: In, values: [m5.large, m5.xlarge]}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  replicas: 2
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec: {containers: [{name: c, image: i, resources: {requests: {cpu: 500m, memory: 1Gi}}}]}
---
apiVersion: v1
kind: Pod
metadata: {name: huge}
spec: {containers: [{name: c, image: i, resources: {requests: {cpu: 100}}}]}
"#;

#[test]
fn a_plan_in_json_has_the_documented_fields() {
    let plan = json(&karpenter(&["plan", "-f", "-", "-o", "json"], WORLD));
    assert_eq!(plan["apiVersion"], "plan.karpenter.sh/v1");
    let node = &plan["newNodes"][0];
    assert_eq!((node["name"].as_str(), node["nodePool"].as_str()), (Some("default-1"), Some("default")));
    assert_eq!((node["instanceType"].as_str(), node["capacityType"].as_str()), (Some("m5.large"), Some("on-demand")));
    assert_eq!(node["pods"], serde_json::json!(["default/web-0", "default/web-1"]));
    assert_eq!(node["instanceTypes"], serde_json::json!(["m5.large", "m5.xlarge"]));
    assert_eq!(node["labels"]["team"], "shop");
    assert_eq!((node["requests"]["cpu"].as_str(), node["requests"]["pods"].as_str()), (Some("1"), Some("2")));
    assert!(node["allocatable"]["memory"].is_string());
    assert_eq!(node["pricePerHour"], plan["pricePerHour"]);
    let left = plan["unschedulable"].as_array().unwrap();
    assert_eq!((left.len(), left[0]["pod"].as_str()), (1, Some("default/huge")));
    assert!(!left[0]["message"].as_str().unwrap().is_empty() && !left[0]["reason"].as_str().unwrap().is_empty());
    for absent in ["solveMillis", "disruptions", "nodes"] {
        assert!(plan.get(absent).is_none(), "{absent}");
    }
    assert!(json(&karpenter(&["plan", "-f", "-", "-o", "json", "--timings"], WORLD))["solveMillis"].is_number());
}

#[test]
fn the_same_input_gives_the_same_bytes() {
    for output in ["json", "yaml", "table"] {
        let run = || karpenter(&["plan", "-f", example().to_str().unwrap(), "-o", output], "").stdout;
        assert_eq!(run(), run(), "{output}");
    }
}

#[test]
fn the_example_is_planned_but_for_the_pod_that_shows_a_reason() {
    let plan = json(&karpenter(&["plan", "-f", example().to_str().unwrap(), "-o", "json"], ""));
    let left: Vec<_> =
        plan["unschedulable"].as_array().unwrap().iter().map(|left| left["pod"].as_str().unwrap()).collect();
    assert_eq!(left, ["shop/notebook"]);
    let pods: usize =
        plan["newNodes"].as_array().unwrap().iter().map(|node| node["pods"].as_array().unwrap().len()).sum();
    assert_eq!(pods, 9 + 3 + 12 + 2);
}

#[test]
fn node_claims_are_written_as_they_would_be_created() {
    // covers: SCH-TAINT-04, SCH-NEW-01, SCH-NEW-02, SCH-NEW-32, SCH-NEW-33, SCH-NEW-34, SCH-NEW-36, SCH-NEW-37
    let output = karpenter(&["plan", "-f", "-", "-o", "yaml"], WORLD);
    // Which scalars are quoted is the printer's business.
    let claim = text(&output.stdout).replace('\'', "");
    for want in [
        "kind: NodeClaim",
        "generateName: default-",
        "karpenter.sh/nodeclaim-min-values-relaxed: false",
        "karpenter.sh/nodepool-hash: ",
        "karpenter.sh/nodepool-hash-version: v3",
        "note: kept",
        "blockOwnerDeletion: true",
        "uid: pool-uid",
        "  startupTaints:\n  - effect: NoSchedule\n    key: cni\n",
        "  taints:\n  - effect: PreferNoSchedule\n    key: soft\n    value: soft\n",
        "nodeClassRef:\n    group: karpenter.k8s.aws\n    kind: EC2NodeClass\n    name: default\n",
        "team: shop",
        "karpenter.sh/nodepool: default",
        "karpenter.k8s.aws/ec2nodeclass: default",
        "expireAfter: 48h",
        "terminationGracePeriod: 1h30m",
        "- key: karpenter.sh/capacity-type\n    operator: In\n    values:\n    - on-demand\n",
        "- key: node.kubernetes.io/instance-type\n    operator: In\n    values:\n    - m5.large\n    - m5.xlarge\n",
    ] {
        assert!(claim.contains(want), "{want}\n{claim}");
    }
    let requests = "resources:\n    requests:\n      cpu: 1\n      memory: 2Gi\n      pods: 2\n";
    assert!(claim.contains(requests), "{claim}");
    for unwanted in
        ["kubernetes.io/hostname", "karpenter.sh/registered", "karpenter.sh/initialized", "controller: true"]
    {
        assert!(!claim.contains(unwanted), "{unwanted}\n{claim}");
    }
    let labels = claim.split("labels:").nth(1).unwrap().split("ownerReferences").next().unwrap();
    assert!(
        !labels.contains("instance-type") && !labels.contains("capacity-type"),
        "well-known keys are no labels yet: {labels}"
    );
}

#[test]
fn left_over_pods_fail_the_run_only_when_asked() {
    let status = |flags: &[&str]| karpenter(&[&["plan", "-f", "-"], flags].concat(), WORLD).status.code();
    assert_eq!(status(&[]), Some(0));
    assert_eq!(status(&["--fail-on-unschedulable"]), Some(3));
    let (placed, _) = WORLD.rsplit_once("---").unwrap();
    assert_eq!(karpenter(&["plan", "-f", "-", "--fail-on-unschedulable"], placed).status.code(), Some(0));
}

#[test]
fn bad_input_is_told_fault_by_fault_and_nothing_is_planned() {
    let bad = WORLD.replace("replicas: 2", "replicas: two").replace("image: i, resources", "image: i, resurces");
    let output = karpenter(&["plan", "-f", "-", "-o", "json"], &bad);
    assert_eq!(output.status.code(), Some(2));
    assert!(output.stdout.is_empty());
    let lines: Vec<String> = text(&output.stderr).lines().map(str::to_owned).collect();
    let expect = [
        "error: -: document 3: Deployment default/web: spec.replicas: must be an integer, not the string \"two\"",
        "error: -: document 3: Deployment default/web: spec.template.spec.containers[0].resurces: unknown field; did you mean \"resources\"?",
        "error: -: document 4: Pod default/huge: spec.containers[0].resurces: unknown field; did you mean \"resources\"?",
    ];
    assert_eq!(lines, expect, "in the order of the document");
}

#[test]
fn an_invalid_pool_is_bad_input() {
    // What has a uid was accepted by some server once.
    let bad = WORLD.replace("operator: In, values: [on-demand]", "operator: Like, values: [on-demand]");
    let bad = bad.replace(", uid: pool-uid", "");
    let output = karpenter(&["plan", "-f", "-"], &bad);
    assert_eq!(output.status.code(), Some(2));
    let told = text(&output.stderr);
    assert!(told.contains("-: document 2: NodePool default: spec.template.spec.requirements[0].operator"), "{told}");
}

#[test]
fn a_pod_that_no_server_takes_is_not_planned() {
    let bad = WORLD.replace("requests: {cpu: 100}", "requests: {cpu: -2}");
    let output = karpenter(&["plan", "-f", "-"], &bad);
    assert_eq!(output.status.code(), Some(2));
    assert_eq!(
        text(&output.stderr),
        "error: -: document 4: Pod default/huge: spec.containers[0].resources.requests[cpu]: Invalid value: \"-2\": must be \
         greater than or equal to 0\n"
    );
}

#[test]
fn what_cannot_be_used_is_status_2() {
    for (args, want) in [
        (&["plan", "-f", "no-such-file.yaml"][..], "no-such-file.yaml"),
        (&["plan"], "--file"),
        (&["plan", "-f", "-", "--region", "mars-1"], "mars-1"),
        (&["plan", "-f", "-", "--catalog", "no-such-folder"], "no-such-folder"),
        (&["plan", "-f", "-", "--now", "yesterday"], "yesterday"),
        (&["plan", "-f", "-", "--preference-policy", "Sometimes"], "preference-policy"),
        (&["plan", "-f", "-", "--consolidation-threshold", "-1"], "consolidation-threshold"),
        (&["plan", "-f", "-"], "there is no Kubernetes object in the input"),
        (&["types", "-f", "-"], "no EC2NodeClass"),
        (&["frobnicate"], "frobnicate"),
    ] {
        let output = karpenter(args, "");
        assert_eq!(output.status.code(), Some(2), "{args:?}");
        assert!(text(&output.stderr).contains(want), "{args:?}: {}", text(&output.stderr));
    }
}

/// A node that is twice what its pod needs, and one that another pod fills.
const NODES: &str = r#"---
apiVersion: v1
kind: Node
metadata:
  name: roomy
  labels: {karpenter.sh/nodepool: default, node.kubernetes.io/instance-type: m5.xlarge, karpenter.sh/capacity-type: on-demand, topology.kubernetes.io/zone: us-east-1a, team: shop, kubernetes.io/arch: amd64, kubernetes.io/os: linux}
status:
  capacity: {cpu: "4", memory: 15Gi, pods: "58"}
  allocatable: {cpu: 3920m, memory: 14Gi, pods: "58"}
---
apiVersion: v1
kind: Pod
metadata: {name: there, annotations: {karpenter.sh/do-not-disrupt: "false"}}
spec: {nodeName: roomy, containers: [{name: c, image: i, resources: {requests: {cpu: 100m, memory: 128Mi}}}]}
"#;

#[test]
fn consolidation_is_shown_with_commands_moves_and_decisions() {
    let (pools, _) = WORLD.split_once("---\napiVersion: apps/v1").unwrap();
    let world = format!("{pools}{NODES}");
    // The pool allows a tenth of its nodes at a time, rounded up.
    let plan = json(&karpenter(&["plan", "-f", "-", "--consolidate", "-o", "json"], &world));
    assert_eq!(plan["disruptions"][0]["reason"], "Underutilized", "{plan:#}");
    assert_eq!(plan["disruptions"][0]["method"], "single");
    assert_eq!(plan["disruptions"][0]["nodes"], serde_json::json!(["roomy"]));
    assert_eq!(plan["disruptions"][0]["replacements"][0]["instanceType"], "m5.large");
    assert_eq!(plan["disruptions"][0]["moves"][0]["to"], "default-1");
    assert_eq!(plan["nodes"][0]["decision"], "disrupt");
    let table = karpenter(&["plan", "-f", "-", "--consolidate"], &world);
    assert!(text(&table.stdout).contains("1 node goes, 1 pod moves"), "{}", text(&table.stdout));
    let kept = world.replace("\"false\"", "\"true\"");
    let plan = json(&karpenter(&["plan", "-f", "-", "--consolidate", "-o", "json"], &kept));
    assert_eq!(plan["disruptions"], serde_json::json!([]));
    assert_eq!(plan["nodes"][0]["decision"], "keep");
    assert_eq!(plan["nodes"][0]["nearestMiss"]["object"], "Pod default/there");
}

#[test]
fn skipped_kinds_are_noted_on_standard_error() {
    let more = format!("{WORLD}---\napiVersion: v1\nkind: ConfigMap\nmetadata: {{name: c}}\n");
    let output = karpenter(&["plan", "-f", "-", "-o", "json"], &more);
    assert!(text(&output.stderr).contains("note: skipped 1 v1 ConfigMap"), "{}", text(&output.stderr));
    assert!(serde_json::from_slice::<Value>(&output.stdout).is_ok());
}

#[test]
fn hashes_are_one_line_each() {
    let output = karpenter(&["hash", "-f", "-"], WORLD);
    let lines: Vec<Value> = text(&output.stdout).lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let kinds: Vec<_> =
        lines.iter().map(|line| (line["kind"].as_str().unwrap(), line["hashVersion"].as_str().unwrap())).collect();
    assert_eq!(kinds, [("EC2NodeClass", "v6"), ("NodePool", "v3")]);
    let with_bundle = karpenter(&["hash", "-f", "-", "--cluster-ca-bundle", "Y2E="], WORLD);
    let first = |output: &Output| text(&output.stdout).lines().next().unwrap().to_owned();
    assert_ne!(first(&output), first(&with_bundle), "the CA bundle is part of the class's hash");
}

#[test]
fn types_are_listed_for_people_and_programs() {
    let output = karpenter(&["types", "-o", "json", "--offerings"], "");
    let line: Value = serde_json::from_str(text(&output.stdout).lines().next().unwrap()).unwrap();
    assert!(line["allocatable"]["cpu"].is_string() && line["offerings"][0]["zone"].is_string(), "{line}");
    let table = text(&karpenter(&["types"], "").stdout);
    assert!(table.contains("m5.large"), "{table}");
}

#[test]
fn help_shows_examples_and_ends_well() {
    // covers: API-ST-04
    for args in
        [&["--help"][..], &["plan", "--help"], &["types", "--help"], &["hash", "--help"], &["completions", "--help"]]
    {
        let output = karpenter(args, "");
        assert_eq!(output.status.code(), Some(0), "{args:?}");
        assert!(args.len() == 1 || text(&output.stdout).contains("Examples:"), "{args:?}");
    }
}

#[test]
fn colour_is_for_whoever_asks_for_it() {
    let table = |flags: &[&str]| text(&karpenter(&[&["plan", "-f", "-"], flags].concat(), WORLD).stdout);
    assert!(table(&["--color", "always"]).contains("\u{1b}["));
    assert!(!table(&["--color=never"]).contains('\u{1b}'));
    assert!(!table(&[]).contains('\u{1b}'), "a pipe is no terminal");
}

#[test]
fn the_version_and_manual_pages_are_printed() {
    let version = text(&karpenter(&["version"], "").stdout);
    assert_eq!(version, text(&karpenter(&["--version"], "").stdout));
    let object: Value = serde_json::from_slice(&karpenter(&["version", "-o", "json"], "").stdout).unwrap();
    assert_eq!(format!("karpenter {}\n", object["version"].as_str().unwrap()), version);
    assert_eq!(object["kinds"]["NodePool"], "karpenter.sh/v1");
    for (args, want) in [
        (&["man"][..], ".TH KARPENTER 1"),
        (&["man", "plan"], ".TH KARPENTER-PLAN 1"),
        (&["man", "import", "cluster-definition"], ".TH KARPENTER-IMPORT-CLUSTER-DEFINITION 1"),
    ] {
        let page = text(&karpenter(args, "").stdout);
        assert!(page.starts_with(want), "{args:?}: {page}");
    }
    assert_eq!(karpenter(&["man", "frobnicate"], "").status.code(), Some(2));
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("man");
    assert_eq!(karpenter(&["man", "--all", folder.to_str().unwrap()], "").status.code(), Some(0));
    assert!(folder.join("karpenter-plan.1").is_file() && folder.join("karpenter.1").is_file());
}

#[test]
fn crds_and_completions_are_printed() {
    let crds = text(&karpenter(&["crds"], "").stdout);
    for name in ["nodepools.karpenter.sh", "nodeclaims.karpenter.sh", "ec2nodeclasses.karpenter.k8s.aws"] {
        assert!(crds.contains(&format!("name: {name}")), "{name}");
    }
    for shell in ["bash", "zsh", "fish"] {
        assert!(text(&karpenter(&["completions", shell], "").stdout).contains("karpenter"), "{shell}");
    }
}

#[test]
fn the_examples_cluster_definition_is_translated_as_it_stands_beside_it() {
    // covers: API-TR-12
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/seeds/002");
    let definition = folder.join("cluster-definition.yaml").display().to_string();
    let output = karpenter(&["import", "cluster-definition", "-f", &definition, "--cluster-name", "production"], "");
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    assert_eq!(text(&output.stdout), std::fs::read_to_string(folder.join("translated.yaml")).unwrap());
}

#[test]
fn a_plan_of_v1beta1_manifests_says_that_they_are_old() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/seeds/004/manifests").display().to_string();
    let pod = r#"{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"},
        "spec": {"containers": [{"name": "c", "image": "i", "resources": {"requests": {"cpu": "1"}}}]}}"#;
    let output = karpenter(&["plan", "-f", &folder, "-", "--region", "us-east-1", "-o", "json"], pod);
    let found = json(&output);
    assert_eq!(found["newNodes"][0]["pods"][0], "default/p", "{found}");
    assert!(["t3.medium", "t3a.medium"].contains(&found["newNodes"][0]["instanceType"].as_str().unwrap()));
    assert_eq!(found["newNodes"][0]["allocatable"]["pods"], "110", "the pool's own kubelet settings count");
    let notes = text(&output.stderr);
    assert!(notes.contains("NodePool default is v1beta1 and read as v1"), "{notes}");
}
