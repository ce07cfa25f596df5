use super::*;
use karpenter_ec2::userdata::{self, Bootstrap, ClusterFacts};
use serde_json::json;

fn rendered(family: AmiFamily, custom: Option<&str>) -> String {
    let cluster = ClusterFacts {
        name: "here".into(),
        endpoint: "https://api".into(),
        ca_bundle: Some("Y2E=".into()),
        cidr: Some("10.100.0.0/16".into()),
    };
    let claim = [("team".to_owned(), "a".to_owned()), ("karpenter.sh/nodepool".to_owned(), "pool".to_owned())].into();
    let labels = userdata::node_labels(&claim, "spot", AmiFamily::Al2023);
    let own = Taint { key: "gpu".into(), value: "yes".into(), effect: Effect::NoSchedule };
    let taints = userdata::registration_taints(&[own], &[]);
    let user = json!({"kubeReserved": {"cpu": "90m"}, "evictionHard": {"memory.available": "5%"}});
    let kubelet = userdata::kubelet_settings(user.as_object().unwrap(), 58, Some("10.100.0.10"), &Default::default());
    let bootstrap = Bootstrap {
        family,
        cluster: &cluster,
        labels: &labels,
        taints: &taints,
        kubelet: &kubelet,
        raid0: true,
        custom,
        bottlerocket_binds_by_default: false,
    };
    userdata::render(&bootstrap).unwrap().text
}

#[test]
fn a_machine_of_every_family_understands_what_we_send() {
    // covers: AWS-SIM-07
    for family in AmiFamily::ALL.into_iter().filter(|family| *family != AmiFamily::Custom) {
        let settings = read(family, &rendered(family, None)).unwrap_or_else(|error| panic!("{family:?}: {error}"));
        let labels = [
            ("karpenter.sh/capacity-type", "spot"),
            ("karpenter.sh/do-not-sync-taints", "true"),
            ("karpenter.sh/nodepool", "pool"),
            ("team", "a"),
        ];
        let labels: BTreeMap<String, String> = labels.map(|(key, value)| (key.to_owned(), value.to_owned())).into();
        assert_eq!(settings.labels, labels, "{family:?}");
        let mut taints: Vec<String> = settings.taints.iter().map(ToString::to_string).collect();
        taints.sort();
        assert_eq!(taints, ["gpu=yes:NoSchedule", "karpenter.sh/unregistered:NoExecute"], "{family:?}");
        assert_eq!(settings.max_pods, Some(58), "{family:?}");
        assert_eq!(settings.kube_reserved.get("cpu").map(String::as_str), Some("90m"), "{family:?}");
        assert_eq!(settings.eviction_hard.get("memory.available").map(String::as_str), Some("5%"), "{family:?}");
        assert_eq!(settings.cluster.as_deref(), Some("here"), "{family:?}");
    }
}

#[test]
fn the_users_own_node_config_is_merged_below_ours() {
    let own = "apiVersion: node.eks.aws/v1alpha1\nkind: NodeConfig\nspec:\n  kubelet:\n    config:\n      maxPods: 5\n    \
        flags:\n    - --node-labels=mine=1\n";
    let settings = read(AmiFamily::Al2023, &rendered(AmiFamily::Al2023, Some(own))).unwrap();
    assert_eq!(settings.max_pods, Some(58));
    assert_eq!(settings.labels.get("mine").map(String::as_str), Some("1"));
}

#[test]
fn a_machine_that_cannot_read_its_user_data_does_not_join() {
    for family in [AmiFamily::Al2, AmiFamily::Al2023, AmiFamily::Bottlerocket, AmiFamily::Windows2022] {
        assert!(read(family, "echo nothing of use").is_err(), "{family:?}");
    }
    assert_eq!(read(AmiFamily::Custom, "echo whatever").unwrap(), NodeSettings::default());
    let own = rendered(AmiFamily::Bottlerocket, None);
    assert_eq!(read(AmiFamily::Custom, &own).unwrap().max_pods, Some(58), "an image of one's own may be a known one");
}
