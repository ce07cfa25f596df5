//! What upstream 1.14.1 makes of the same settings, byte for byte: its bootstrap package was run on them.

use super::*;
use crate::userdata::yaml::to_yaml;

const FULL_NODE_CONFIG: &str = r##"# Karpenter Generated NodeConfig
apiVersion: node.eks.aws/v1alpha1
kind: NodeConfig
metadata: {}
spec:
  cluster:
    apiServerEndpoint: https://api
    certificateAuthority: Y2E=
    cidr: 10.100.0.0/16
    name: here
  containerd: {}
  instance:
    localStorage:
      strategy: RAID0
  kubelet:
    config:
      clusterDNS:
      - 10.0.0.10
      cpuCFSQuota: false
      evictionHard:
        memory.available: 5%
        nodefs.available: 10%
      evictionMaxPodGracePeriod: 60
      evictionSoft:
        memory.available: 8%
      evictionSoftGracePeriod:
        memory.available: 2m0s
      imageGCHighThresholdPercent: 85
      imageGCLowThresholdPercent: 80
      kubeReserved:
        cpu: "1"
        ephemeral-storage: "1e3"
        memory: 100Mi
      maxPods: 58
      podsPerCore: 10
      registerWithTaints:
      - effect: NoSchedule
        key: team
        value: "true"
      - effect: NoExecute
        key: karpenter.sh/unregistered
      systemReserved:
        cpu: 50m
    flags:
    - --node-labels="a=1,karpenter.sh/do-not-sync-taints=true,team=x"
"##;

const FULL_BOTTLEROCKET: &str = r##"[settings]
[settings.bootstrap-commands]
[settings.bootstrap-commands.000-mount-instance-storage]
commands = [['apiclient', 'ephemeral-storage', 'init'], ['apiclient', 'ephemeral-storage', 'bind', '--dirs', '/var/lib/containerd', '/var/lib/kubelet', '/var/log/pods']]
mode = 'always'
essential = true

[settings.kubernetes]
api-server = 'https://api'
cluster-certificate = 'Y2E='
cluster-name = 'here'
cluster-dns-ip = '10.0.0.10'
max-pods = 58
eviction-max-pod-grace-period = 60
image-gc-high-threshold-percent = '85'
image-gc-low-threshold-percent = '80'
cpu-cfs-quota-enforced = false

[settings.kubernetes.node-labels]
a = '1'
'karpenter.sh/do-not-sync-taints' = 'true'
team = 'x'

[settings.kubernetes.node-taints]
'karpenter.sh/unregistered' = [':NoExecute']
team = ['true:NoSchedule']

[settings.kubernetes.eviction-hard]
'memory.available' = '5%'
'nodefs.available' = '10%'

[settings.kubernetes.eviction-soft]
'memory.available' = '8%'

[settings.kubernetes.eviction-soft-grace-period]
'memory.available' = '2m0s'

[settings.kubernetes.kube-reserved]
cpu = '1'
ephemeral-storage = '1e3'
memory = '100Mi'

[settings.kubernetes.system-reserved]
cpu = '50m'
"##;

const OWN_BOTTLEROCKET: &str = r##"[settings]
motd = "it's"

[settings.bootstrap-commands]
[settings.bootstrap-commands.000-mount-instance-storage]
commands = [['apiclient', 'ephemeral-storage', 'init'], ['apiclient', 'ephemeral-storage', 'bind']]
mode = 'always'
essential = true

[settings.bootstrap-commands.mine]
commands = [['apiclient', 'x']]
mode = 'once'
essential = false

[settings.host-containers]
[settings.host-containers.admin]
enabled = true
list = [1, 2]
ratio = 1.0

[[settings.host-containers.admin.mixed]]
a = 1

[[settings.host-containers.admin.mixed]]
b = 'x'

[settings.kubernetes]
api-server = 'https://api'
cluster-certificate = 'Y2E='
cluster-name = 'here'
max-pods = 3
allowed-unsafe-sysctls = ['net.core.somaxconn']
registry-qps = 7
cpu-manager-policy = 'static'

[settings.kubernetes.credential-providers]
[settings.kubernetes.credential-providers.ecr]
enabled = true
cache-duration = '1h'
image-patterns = ['*.x']

[settings.kubernetes.credential-providers.ecr.environment]
A = 'b'

[settings.kubernetes.node-labels]
a = '1'
'karpenter.sh/do-not-sync-taints' = 'true'
own = 'kept'
team = 'x'

[settings.kubernetes.node-taints]
'karpenter.sh/unregistered' = [':NoExecute']
team = ['true:NoSchedule']
"##;

const OWN: &str = r##"
outside = 1
[settings]
motd = "it's"
[settings.host-containers.admin]
enabled = true
ratio = 1.0
list = [1, 2]
mixed = [{a = 1}, {b = "x"}]
[settings.bootstrap-commands.mine]
commands = [["apiclient", "x"]]
mode = "once"
essential = false
[settings.kubernetes]
registry-qps = 7
allowed-unsafe-sysctls = ["net.core.somaxconn"]
cpu-manager-policy = "static"
[settings.kubernetes.credential-providers.ecr]
enabled = true
image-patterns = ["*.x"]
cache-duration = "1h"
[settings.kubernetes.credential-providers.ecr.environment]
A = "b"
[settings.kubernetes.node-labels]
own = "kept"
"##;

fn kubelet() -> Value {
    json!({
        "maxPods": 58, "podsPerCore": 10, "clusterDNS": ["10.0.0.10"], "systemReserved": {"cpu": "50m"},
        "kubeReserved": {"cpu": "1", "memory": "100Mi", "ephemeral-storage": "1e3"},
        "evictionHard": {"nodefs.available": "10%", "memory.available": "5%"},
        "evictionSoft": {"memory.available": "8%"}, "evictionSoftGracePeriod": {"memory.available": "2m"},
        "evictionMaxPodGracePeriod": 60, "imageGCHighThresholdPercent": 85, "imageGCLowThresholdPercent": 80,
        "cpuCFSQuota": false,
    })
}

fn fixture(kubelet: Value) -> Fixture {
    let mut fixture = Fixture::new(kubelet);
    let labels = [("a", "1"), ("karpenter.sh/do-not-sync-taints", "true"), ("team", "x")];
    fixture.labels = labels.map(|(key, value)| (key.to_owned(), value.to_owned())).into();
    fixture.taints[0].value = "true".to_owned();
    fixture.raid0 = true;
    fixture
}

#[test]
fn node_configs_are_upstreams() {
    // covers: AWS-UD-13, AWS-UD-14, AWS-UD-17
    let text = fixture(kubelet()).text(AmiFamily::Al2023);
    assert_eq!(mime::read(&text).unwrap().parts[0].body, FULL_NODE_CONFIG);
    let mut bare = Fixture::new(json!({"maxPods": 3}));
    (bare.labels, bare.cluster.ca_bundle) = (BTreeMap::new(), None);
    bare.taints.remove(0);
    assert_eq!(mime::read(&bare.text(AmiFamily::Al2023)).unwrap().parts[0].body, BARE_NODE_CONFIG);
}

const BARE_NODE_CONFIG: &str = r##"# Karpenter Generated NodeConfig
apiVersion: node.eks.aws/v1alpha1
kind: NodeConfig
metadata: {}
spec:
  cluster:
    apiServerEndpoint: https://api
    cidr: 10.100.0.0/16
    name: here
  containerd: {}
  instance:
    localStorage: {}
  kubelet:
    config:
      maxPods: 3
      registerWithTaints:
      - effect: NoExecute
        key: karpenter.sh/unregistered
"##;

#[test]
fn bottlerocket_settings_are_upstreams() {
    // covers: AWS-UD-19, AWS-UD-21, AWS-UD-23, AWS-UD-24
    assert_eq!(fixture(kubelet()).text(AmiFamily::Bottlerocket), FULL_BOTTLEROCKET);
    let mut own = fixture(json!({"maxPods": 3})).custom(OWN);
    own.binds = true;
    assert_eq!(own.text(AmiFamily::Bottlerocket), OWN_BOTTLEROCKET);
}

#[test]
fn texts_are_quoted_where_upstream_quotes_them() {
    let scalars = [
        ("1", r##""1""##),
        ("1.5", r##""1.5""##),
        ("0x1f", r##""0x1f""##),
        ("1e3", r##""1e3""##),
        ("yes", r##""yes""##),
        ("Yes", r##""Yes""##),
        ("yEs", "yEs"),
        ("~", r##""~""##),
        ("", r##""""##),
        (".5", r##"".5""##),
        ("-", "'-'"),
        ("- a", "'- a'"),
        ("a: b", "'a: b'"),
        ("a #b", "'a #b'"),
        ("a:b", "a:b"),
        ("190:20:30", r##""190:20:30""##),
        ("2001-12-14", r##""2001-12-14""##),
        ("#a", "'#a'"),
        ("100Mi", "100Mi"),
        ("5%", "5%"),
        ("-x", "-x"),
        ("? a", "'? a'"),
        ("it's", "it's"),
        ("a'b", "a'b"),
        ("*a", "'*a'"),
        ("@a", "'@a'"),
        ("0755", r##""0755""##),
        ("+1", r##""+1""##),
        ("1_000", r##""1_000""##),
        ("fd00::a", "fd00::a"),
        ("'q'", "'''q'''"),
        ("a ", "'a '"),
        (":", "':'"),
    ];
    for (text, want) in scalars {
        assert_eq!(to_yaml(&json!(text)), format!("{want}\n"), "{text:?}");
    }
}

#[test]
fn mime_documents_are_read_where_upstream_reads_them() {
    // covers: AWS-UD-09, AWS-UD-18
    let part = "--B\nContent-Type: text/x-shellscript\n\necho\n";
    for (body, parts) in [
        (format!("{part}--B--\n"), Some(2)),
        (format!("{part}--B--"), Some(2)),
        // The end of the text after a boundary is the end of the document; upstream's own suite has such a file.
        (format!("{part}--B"), Some(2)),
        (format!("{part}--B  "), Some(2)),
        (format!("{part}--B\n"), Some(2)),
        (format!("{part}--Bx\nmore\n--B--"), Some(2)),
        // So is its end in the headers of a part, which upstream drops without a word.
        (format!("{part}--B\nContent-Type: text/x-shellscript"), Some(2)),
        (format!("{part}--B\nContent-Type: text/x-shellscript\n"), Some(2)),
        (format!("{part}--B\nno header\n"), None),
        (format!("{part}--B\nContent-Type: text/x-shellscript\n\n"), None),
        ("--B\nX Own: passed over\n: too\n\necho\n--B--\n".to_owned(), Some(2)),
        ("a preamble and nothing else".to_owned(), Some(1)),
        (String::new(), Some(1)),
        (part.to_owned(), None),
        (part.trim_end().to_owned(), None),
    ] {
        let document = format!("MIME-Version: 1.0\nContent-Type: multipart/mixed; boundary=\"B\"\n\n{body}");
        for family in [AmiFamily::Al2, AmiFamily::Al2023] {
            let rendered = Fixture::new(json!({})).custom(&document).rendered(family);
            let read = rendered.ok().map(|rendered| mime::read(&rendered.text).unwrap().parts.len());
            assert_eq!(read, parts, "{document:?}");
        }
    }
}

#[test]
fn what_upstreams_reader_passes_over_is_said() {
    // covers: AWS-UD-09, AWS-UD-18
    let part = "--B\nContent-Type: text/x-shellscript\n\necho\n";
    for (body, said) in [
        (format!("{part}--B--\n"), None),
        (format!("{part}--B\n"), None),
        (format!("{part}--B\nContent-Type: text/x-shellscript\n"), Some("ends in the headers of its last part")),
        (
            "--C\n\nanother boundary than it says\n--C--\n".to_owned(),
            Some("no line of the MIME document is its boundary"),
        ),
    ] {
        let document = format!("MIME-Version: 1.0\nContent-Type: multipart/mixed; boundary=\"B\"\n\n{body}");
        for family in [AmiFamily::Al2, AmiFamily::Al2023] {
            let notes = Fixture::new(json!({})).custom(&document).rendered(family).unwrap().notes;
            assert_eq!(notes.len(), usize::from(said.is_some()), "{document:?}: {notes:?}");
            assert!(notes.iter().zip(said).all(|(note, said)| note.contains(said)), "{document:?}: {notes:?}");
        }
    }
}

#[test]
fn node_configs_are_told_from_scripts_as_upstream_does() {
    // covers: AWS-UD-18
    for (text, is_config) in [
        ("a: 1\n", true),
        ("a: 1\na: 2\n", true),
        ("# a comment\n", true),
        ("null", true),
        ("---\na: 1\n", true),
        ("# a comment\n--- \na: 1\n", true),
        ("a: 1\n---\n[\n", true),
        ("#!/bin/bash\necho hi", false),
        ("[1]", false),
        ("a: b: c\n", false),
        ("spec:\n  x: *nope\n", false),
    ] {
        let parts = mime::read(&Fixture::new(json!({})).custom(text).text(AmiFamily::Al2023)).unwrap().parts;
        assert_eq!(parts[0].content_type() == mime::NODE_CONFIG, is_config, "{text:?}");
        assert_eq!(parts[0].body, text, "it is passed on as it is");
    }
}
