use proptest::prelude::*;
use serde_json::json;

use super::mime::Part;
use super::*;

mod hostile;
mod upstream;

struct Fixture {
    cluster: ClusterFacts,
    labels: BTreeMap<String, String>,
    taints: Vec<Taint>,
    kubelet: Map<String, Value>,
    raid0: bool,
    custom: Option<String>,
    binds: bool,
}

fn map(value: Value) -> Map<String, Value> {
    value.as_object().unwrap().clone()
}

fn taint(key: &str, value: &str, effect: Effect) -> Taint {
    Taint { key: key.into(), value: value.into(), effect }
}

impl Fixture {
    fn new(kubelet: Value) -> Self {
        Self {
            cluster: ClusterFacts {
                name: "here".into(),
                endpoint: "https://api".into(),
                ca_bundle: Some("Y2E=".into()),
                cidr: Some("10.100.0.0/16".into()),
            },
            labels: [("b".to_owned(), "2".to_owned()), ("a".to_owned(), "1".to_owned())].into(),
            taints: vec![
                taint("team", "x", Effect::NoSchedule),
                taint("karpenter.sh/unregistered", "", Effect::NoExecute),
            ],
            kubelet: map(kubelet),
            raid0: false,
            custom: None,
            binds: false,
        }
    }

    fn custom(mut self, text: &str) -> Self {
        self.custom = Some(text.to_owned());
        self
    }

    fn rendered(&self, family: AmiFamily) -> Result<Rendered, UserDataError> {
        render(&Bootstrap {
            family,
            cluster: &self.cluster,
            labels: &self.labels,
            taints: &self.taints,
            kubelet: &self.kubelet,
            raid0: self.raid0,
            custom: self.custom.as_deref(),
            bottlerocket_binds_by_default: self.binds,
        })
    }

    fn text(&self, family: AmiFamily) -> String {
        self.rendered(family).unwrap().text
    }
}

fn everything() -> Value {
    json!({
        "maxPods": 58, "podsPerCore": 10, "clusterDNS": ["10.0.0.10"],
        "systemReserved": {"memory": "100Mi", "cpu": "50m"}, "kubeReserved": {"cpu": "80m"},
        "evictionHard": {"nodefs.available": "10%", "memory.available": "5%"}, "evictionSoft": {"memory.available": "8%"},
        "evictionSoftGracePeriod": {"memory.available": "2m"}, "evictionMaxPodGracePeriod": 60,
        "imageGCHighThresholdPercent": 85, "imageGCLowThresholdPercent": 80, "cpuCFSQuota": false,
    })
}

const ARGS: &str = "--node-labels=\"a=1,b=2\" \
    --register-with-taints=\"team=x:NoSchedule,karpenter.sh/unregistered:NoExecute\" --max-pods=58 --pods-per-core=10 \
    --system-reserved=\"cpu=50m,memory=100Mi\" --kube-reserved=\"cpu=80m\" \
    --eviction-hard=\"memory.available<5%,nodefs.available<10%\" --eviction-soft=\"memory.available<8%\" \
    --eviction-soft-grace-period=\"memory.available=2m0s\" --eviction-max-pod-grace-period=60 \
    --image-gc-high-threshold=85 --image-gc-low-threshold=80 --cpu-cfs-quota=false";

#[test]
fn labels_that_nodes_may_not_set_stay_away() {
    // covers: AWS-UD-01, AWS-UD-02
    let claim: BTreeMap<String, String> = [
        "team",
        "karpenter.sh/nodepool",
        "kubernetes.io/arch",
        "node.kubernetes.io/instance-type",
        "topology.k8s.io/x",
        "k8s.io/x",
        "node-restriction.kubernetes.io/x",
        "sub.node-restriction.kubernetes.io/x",
        "notk8s.io/x",
        "topology.k8s.aws/zone-id",
    ]
    .map(|key| (key.to_owned(), "v".to_owned()))
    .into();
    let keys = |family| node_labels(&claim, "spot", family).into_keys().collect::<Vec<_>>();
    let kept =
        ["karpenter.sh/capacity-type", "karpenter.sh/nodepool", "notk8s.io/x", "team", "topology.k8s.aws/zone-id"];
    assert_eq!(keys(AmiFamily::Custom), kept);
    for family in AmiFamily::ALL.into_iter().filter(|family| *family != AmiFamily::Custom) {
        let labels = node_labels(&claim, "spot", family);
        assert_eq!(labels.len(), kept.len() + 1);
        assert_eq!(labels["karpenter.sh/do-not-sync-taints"], "true");
        assert_eq!(labels["karpenter.sh/capacity-type"], "spot");
    }
}

#[test]
fn nodes_register_with_all_their_taints() {
    // covers: AWS-UD-03
    let (a, b) = (taint("a", "", Effect::NoSchedule), taint("b", "1", Effect::NoExecute));
    let own = taint("karpenter.sh/unregistered", "", Effect::NoExecute);
    assert_eq!(
        registration_taints(std::slice::from_ref(&a), std::slice::from_ref(&b)),
        [a.clone(), b.clone(), own.clone()]
    );
    assert_eq!(registration_taints(std::slice::from_ref(&own), std::slice::from_ref(&b)), [own.clone(), b]);
    let other = taint("karpenter.sh/unregistered", "", Effect::NoSchedule);
    assert_eq!(registration_taints(&[], std::slice::from_ref(&other)), [other, own]);
}

#[test]
fn kubelet_settings_are_made_concrete() {
    // covers: AWS-UD-04, AWS-UD-05, AWS-KC-18
    let of = |user: Value, dns| Value::Object(kubelet_settings(&map(user), 29, dns, &Resolved::default()));
    assert_eq!(of(json!({}), None), json!({"maxPods": 29}));
    assert_eq!(of(json!({"maxPods": 5}), Some("10.0.0.10")), json!({"maxPods": 5, "clusterDNS": ["10.0.0.10"]}));
    assert_eq!(of(json!({"clusterDNS": ["1.1.1.1"]}), Some("10.0.0.10"))["clusterDNS"], json!(["1.1.1.1"]));
    let expressions = json!({
        "maxPods": "vcpus * 4", "kubeReserved": {"cpu": "vcpus * 10", "memory": "1Gi"}, "systemReserved": {"cpu": "min(1, 2)"},
    });
    assert_eq!(of(expressions, None), json!({"maxPods": 29, "kubeReserved": {"memory": "1Gi"}}));
}

#[test]
fn al2_runs_the_bootstrap_script() {
    // covers: AWS-UD-08, AWS-UD-10, AWS-UD-11, AWS-UD-12
    let mut fixture = Fixture::new(everything());
    fixture.raid0 = true;
    let want = format!(
        "MIME-Version: 1.0\nContent-Type: multipart/mixed; boundary=\"//\"\n\n--//\n\
         Content-Type: text/x-shellscript; charset=\"us-ascii\"\n\n#!/bin/bash -xe\n\
         exec > >(tee /var/log/user-data.log|logger -t user-data -s 2>/dev/console) 2>&1\n\
         /etc/eks/bootstrap.sh 'here' --apiserver-endpoint 'https://api' --b64-cluster-ca 'Y2E=' \\\n\
         --dns-cluster-ip '10.0.0.10' \\\n--use-max-pods false \\\n--kubelet-extra-args '{ARGS}' \\\n\
         --local-disks raid0\n--//--\n"
    );
    assert_eq!(fixture.text(AmiFamily::Al2), want);
    let plain = Fixture::new(json!({"clusterDNS": ["fd00::a"]})).text(AmiFamily::Al2);
    assert!(plain.contains(" \\\n--ip-family ipv6 \\\n--dns-cluster-ip 'fd00::a' \\\n--kubelet-extra-args"), "{plain}");
    assert!(!plain.contains("--use-max-pods") && !plain.contains("--local-disks"));
}

#[test]
fn al2_puts_the_users_parts_first() {
    // covers: AWS-UD-08, AWS-UD-09
    let own = |text: &str| mime::read(&Fixture::new(json!({})).custom(text).text(AmiFamily::Al2)).unwrap().parts;
    let parts = own("#!/bin/bash\r\necho hi\r\n");
    assert_eq!(parts.len(), 2);
    assert_eq!(parts[0], Part::new(mime::SHELL_SCRIPT, "#!/bin/bash\necho hi\n"));
    assert!(parts[1].body.contains("bootstrap.sh"));
    let document = "Content-Type: multipart/mixed; boundary=BOUND\nMIME-Version: 1.0\n\npreamble\n--BOUND\n\
        content-type: text/cloud-config\nX-Own: 1\n\n#cloud-config\n--BOUND\nContent-Type: text/x-shellscript\n\necho\n\
        --BOUND--\nepilogue\n";
    let parts = own(document);
    let headers = [("Content-Type", "text/cloud-config"), ("X-Own", "1")];
    assert_eq!(parts[0].headers, headers.map(|(name, value)| (name.to_owned(), value.to_owned())));
    assert_eq!((parts[0].body.as_str(), parts[1].body.as_str(), parts.len()), ("#cloud-config", "echo", 3));
    for broken in [
        "MIME-Version: 1.0\n\nno type",
        "Content-Type: text/plain\n\nplain",
        "Content-Type: multipart/mixed\n\nno boundary",
        "Content-Type: multipart/mixed; boundary=\"a\"\n\n--a\n\nnever closed\n",
        "MIME-Version: 1.0\nnot a header\n\n",
    ] {
        for family in [AmiFamily::Al2, AmiFamily::Al2023] {
            let error = Fixture::new(json!({})).custom(broken).rendered(family).unwrap_err();
            assert!(matches!(error, UserDataError::Custom(_)), "{broken:?}: {error}");
        }
    }
}

fn node_config(parts: &[Part]) -> Value {
    let last = parts.last().unwrap();
    assert_eq!(last.content_type(), mime::NODE_CONFIG);
    serde_saphyr::from_str(&last.body).unwrap()
}

#[test]
fn al2023_gets_a_node_config() {
    // covers: AWS-UD-13, AWS-UD-14, AWS-UD-15, AWS-UD-16, AWS-UD-17
    let mut kubelet = everything();
    kubelet["shutdownGracePeriod"] = json!("30s");
    kubelet["registerWithTaints"] = json!([{"key": "theirs", "effect": "NoSchedule"}]);
    let mut fixture = Fixture::new(kubelet.clone());
    fixture.raid0 = true;
    let text = fixture.text(AmiFamily::Al2023);
    let parts = mime::read(&text).unwrap().parts;
    assert_eq!(parts.len(), 1);
    assert!(parts[0].body.starts_with("# Karpenter Generated NodeConfig\n"));
    kubelet["evictionSoftGracePeriod"] = json!({"memory.available": "2m0s"});
    kubelet["registerWithTaints"] = json!([
        {"key": "team", "value": "x", "effect": "NoSchedule"}, {"key": "karpenter.sh/unregistered", "effect": "NoExecute"},
    ]);
    let want = json!({
        "apiVersion": "node.eks.aws/v1alpha1", "kind": "NodeConfig", "metadata": {},
        "spec": {
            "containerd": {},
            "cluster": {
                "name": "here", "apiServerEndpoint": "https://api", "certificateAuthority": "Y2E=", "cidr": "10.100.0.0/16",
            },
            "instance": {"localStorage": {"strategy": "RAID0"}},
            "kubelet": {"config": kubelet, "flags": ["--node-labels=\"a=1,b=2\""]},
        },
    });
    assert_eq!(node_config(&parts), want);
    fixture.labels.clear();
    fixture.raid0 = false;
    let bare = node_config(&mime::read(&fixture.text(AmiFamily::Al2023)).unwrap().parts);
    assert!(bare["spec"]["kubelet"].get("flags").is_none() && bare["spec"]["instance"] == json!({"localStorage": {}}));
    fixture.cluster.cidr = None;
    assert_eq!(fixture.rendered(AmiFamily::Al2023).unwrap_err(), UserDataError::NoClusterCidr);
}

#[test]
fn al2023_takes_three_kinds_of_user_data() {
    // covers: AWS-UD-18
    let own = |text: &str| {
        let parts = mime::read(&Fixture::new(json!({})).custom(text).text(AmiFamily::Al2023)).unwrap().parts;
        node_config(&parts);
        parts
    };
    let script = own("#!/bin/bash\necho hi");
    assert_eq!(script[0], Part::new(mime::SHELL_SCRIPT, "#!/bin/bash\necho hi"));
    let config = own("apiVersion: node.eks.aws/v1alpha1\nkind: NodeConfig\nspec: {}\n");
    assert_eq!(config[0].content_type(), mime::NODE_CONFIG);
    let document = "MIME-Version: 1.0\nContent-Type: multipart/mixed; boundary=\"b b\"\n\n--b b\nX-Own: 1\n\
        Content-Type: text/x-shellscript\n\necho =3D\n--b b\nContent-Type: text/plain\n\
        Content-Transfer-Encoding: quoted-printable\n\na=3Db=\nc\n--b b--\n";
    let parts = own(document);
    assert_eq!(parts[0], Part::new("text/x-shellscript", "echo =3D"));
    assert_eq!(parts[1], Part::new("text/plain", "a=bc"));
}

fn toml_of(fixture: &Fixture) -> Value {
    let rendered = fixture.rendered(AmiFamily::Bottlerocket).unwrap();
    serde_json::to_value(rendered.text.parse::<toml::Table>().unwrap()).unwrap()
}

#[test]
fn bottlerocket_overwrites_the_users_settings() {
    // covers: AWS-UD-19, AWS-UD-20, AWS-UD-21, AWS-UD-22, AWS-UD-23
    let own = r#"
        outside = 1
        [settings.ntp]
        time-servers = ["a"]
        [settings.kubernetes]
        api-server = "theirs"
        max-pods = 3
        cluster-dns-ip = "9.9.9.9"
        registry-qps = 7
        made-up = true
        [settings.kubernetes.node-labels]
        a = "theirs"
        own = "kept"
        [settings.kubernetes.node-taints]
        theirs = ["x:NoSchedule"]
        [settings.kubernetes.eviction-hard]
        "memory.available" = "15%"
        [settings.kubernetes.kube-reserved]
        cpu = "1"
    "#;
    let kubelet = json!({"maxPods": 58, "kubeReserved": {"cpu": "80m"}});
    let fixture = Fixture::new(kubelet).custom(own);
    let want = json!({"settings": {
        "ntp": {"time-servers": ["a"]},
        "kubernetes": {
            "cluster-name": "here", "api-server": "https://api", "cluster-certificate": "Y2E=", "max-pods": 58,
            "cluster-dns-ip": "9.9.9.9", "registry-qps": 7,
            "node-labels": {"a": "1", "b": "2", "own": "kept"},
            "node-taints": {"team": ["x:NoSchedule"], "karpenter.sh/unregistered": [":NoExecute"]},
            "eviction-hard": {"memory.available": "15%"}, "kube-reserved": {"cpu": "80m"},
        },
    }});
    assert_eq!(toml_of(&fixture), want);
    let notes = fixture.rendered(AmiFamily::Bottlerocket).unwrap().notes;
    let told = ["outside is outside of settings", "settings.kubernetes.made-up", "settings.kubernetes.node-taints"];
    assert_eq!(notes.len(), told.len(), "{notes:?}");
    assert!(notes.iter().zip(told).all(|(note, what)| note.contains(what)), "{notes:?}");
    let all = &toml_of(&Fixture::new(everything()))["settings"]["kubernetes"];
    assert_eq!(all["eviction-soft-grace-period"], json!({"memory.available": "2m0s"}));
    assert_eq!(all["image-gc-high-threshold-percent"], json!("85"));
    assert_eq!((&all["cluster-dns-ip"], &all["cpu-cfs-quota-enforced"]), (&json!("10.0.0.10"), &json!(false)));
    for broken in ["not toml", "settings = 1", "[settings]\nkubernetes = 2"] {
        let error = Fixture::new(json!({})).custom(broken).rendered(AmiFamily::Bottlerocket).unwrap_err();
        assert!(matches!(error, UserDataError::Custom(_)), "{broken}");
    }
}

#[test]
fn bottlerocket_mounts_the_instance_store() {
    // covers: AWS-UD-24
    let own =
        "[settings.bootstrap-commands.mine]\ncommands = [[\"apiclient\", \"x\"]]\nmode = \"once\"\nessential = false\n";
    let mut fixture = Fixture::new(json!({})).custom(own);
    fixture.raid0 = true;
    let commands = &toml_of(&fixture)["settings"]["bootstrap-commands"];
    let dirs = ["--dirs", "/var/lib/containerd", "/var/lib/kubelet", "/var/log/pods"];
    let mut bind = vec!["apiclient", "ephemeral-storage", "bind"];
    let init = json!(["apiclient", "ephemeral-storage", "init"]);
    let short = json!({"commands": [init, bind], "mode": "always", "essential": true});
    bind.extend(dirs);
    let long = json!({"commands": [init, bind], "mode": "always", "essential": true});
    assert_eq!(commands["000-mount-instance-storage"], long);
    assert_eq!(commands["mine"]["mode"], json!("once"));
    fixture.binds = true;
    assert_eq!(toml_of(&fixture)["settings"]["bootstrap-commands"]["000-mount-instance-storage"], short);
}

#[test]
fn the_bind_command_depends_on_the_image_version() {
    // covers: AWS-UD-25
    let named = |version: &str| format!("bottlerocket-aws-k8s-1.33-x86_64-{version}-431fe75a");
    let (old, new) = (named("v1.45.9"), named("v1.46.0"));
    let none = ImageNames::default();
    for (names, want) in [
        (ImageNames { alias_version: Some("latest"), ..none.clone() }, true),
        (ImageNames { alias_version: Some("1.46.0"), ..none.clone() }, true),
        (ImageNames { alias_version: Some("v1.45.0"), ..none.clone() }, false),
        (ImageNames { name_terms: vec!["other", &new], ..none.clone() }, true),
        (ImageNames { name_terms: vec![&old], resolved: vec![("ami-1", &new)], ..none.clone() }, false),
        (
            ImageNames { id_terms: vec!["ami-2"], resolved: vec![("ami-1", &old), ("ami-2", &new)], ..none.clone() },
            true,
        ),
        (ImageNames { resolved: vec![("ami-1", "mine"), ("ami-2", &new)], ..none.clone() }, true),
        (ImageNames { resolved: vec![("ami-1", "mine-v2.0.0")], ..none.clone() }, false),
        (none, false),
    ] {
        assert_eq!(binds_by_default(&names), want, "{names:?}");
    }
}

#[test]
fn windows_runs_powershell() {
    // covers: AWS-UD-26
    let text = Fixture::new(everything()).custom("Write-Host hi").text(AmiFamily::Windows2022);
    let want = format!(
        "<powershell>\nWrite-Host hi\n\
         [string]$EKSBootstrapScriptFile = \"$env:ProgramFiles\\Amazon\\EKS\\Start-EKSBootstrap.ps1\"\n\
         & $EKSBootstrapScriptFile -EKSClusterName 'here' -APIServerEndpoint 'https://api' -Base64ClusterCA 'Y2E=' \
         -KubeletExtraArgs '{ARGS}' -DNSClusterIP '10.0.0.10'\n</powershell>"
    );
    assert_eq!(text, want);
    let mut bare = Fixture::new(json!({}));
    bare.cluster.ca_bundle = None;
    let text = bare.text(AmiFamily::Windows2019);
    assert!(!text.contains("-Base64ClusterCA") && !text.contains("-DNSClusterIP"), "{text}");
}

#[test]
fn custom_images_get_the_users_text_alone() {
    // covers: AWS-UD-27
    let fixture = Fixture::new(everything()).custom("anything\r\nat all");
    assert_eq!(fixture.text(AmiFamily::Custom), "anything\r\nat all");
    assert_eq!(Fixture::new(everything()).text(AmiFamily::Custom), "");
}

#[test]
fn a_kubelet_map_that_cannot_be_read_is_an_error() {
    // covers: AWS-KC-20
    for (kubelet, family) in [
        (json!({"clusterDNS": "10.0.0.10"}), AmiFamily::Al2023),
        (json!({"podsPerCore": "3"}), AmiFamily::Al2),
        (json!({"evictionSoftGracePeriod": {"memory.available": "soon"}}), AmiFamily::Bottlerocket),
        (json!({"systemReserved": {"cpu": true}}), AmiFamily::Windows2022),
    ] {
        let error = Fixture::new(kubelet).rendered(family).unwrap_err();
        assert!(matches!(error, UserDataError::Kubelet { .. }), "{error}");
    }
}

proptest! {
    /// Whatever the user wrote, rendering ends, gives the same bytes twice, and keeps our part last and whole.
    #[test]
    fn merging_is_total_and_stable(text in "(MIME-Version: 1.0\n)?(Content-Type: [a-z/]{0,12}; boundary=b\n)?\n?(--b\n)?[ -~\n]{0,80}(\n--b--\n)?") {
        // covers: AWS-UD-06
        for family in AmiFamily::ALL {
            let fixture = Fixture::new(everything()).custom(&text);
            let first = fixture.rendered(family);
            prop_assert_eq!(&first, &fixture.rendered(family));
            if let (Ok(rendered), AmiFamily::Al2 | AmiFamily::Al2023) = (&first, family) {
                let alone = mime::read(&Fixture::new(everything()).text(family)).unwrap().parts;
                let document = mime::read(&rendered.text);
                // A user's part may hold our boundary; that is theirs to avoid, and still must not be a panic.
                if !text.contains("--//") {
                    let parts = document.unwrap().parts;
                    prop_assert_eq!(parts.last(), alone.last());
                }
            }
        }
    }

    #[test]
    fn label_order_does_not_matter(mut pairs in proptest::collection::vec(("[a-z]{1,5}", "[a-z]{0,5}"), 0..6)) {
        let mut fixture = Fixture::new(everything());
        fixture.labels = pairs.iter().cloned().collect::<BTreeMap<_, _>>();
        let distinct: BTreeMap<String, String> = fixture.labels.clone();
        pairs.retain(|(key, value)| distinct[key] == *value);
        pairs.reverse();
        let text = fixture.text(AmiFamily::Al2);
        fixture.labels = pairs.into_iter().collect();
        prop_assert_eq!(text, fixture.text(AmiFamily::Al2));
    }
}
