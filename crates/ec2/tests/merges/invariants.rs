//! What must hold whatever people and AWS write: nothing panics, and what comes out is what its reader expects.

use std::collections::BTreeMap;

use karpenter_core::Taint;
use karpenter_core::taints::Effect;
use karpenter_ec2::AmiFamily;
use karpenter_ec2::images::{self, Image, ImageQuery};
use karpenter_ec2::interruption::{self, Action, Kind};
use karpenter_ec2::userdata::{self, Bootstrap, ClusterFacts, UserDataError};
use serde_json::{Map, Value, json};

/// A body of the interruption queue.
pub(crate) fn message(body: &str) {
    let Ok(message) = interruption::parse(body) else { return };
    if message.kind == Kind::NoOp {
        assert!(message.instances.is_empty(), "nothing is done about {body:?}");
        assert_eq!(message.kind.action(), Action::Nothing);
    }
    // A detail that says nothing about an instance is no reason to act.
    if matches!(message.kind, Kind::SpotInterrupted | Kind::InstanceStopped | Kind::InstanceTerminated) {
        assert_eq!(message.instances.len(), 1, "{body:?}");
    }
}

/// The user's own part of user data, merged with ours for every family.
pub(crate) fn user_data(custom: &str) {
    for family in AmiFamily::ALL {
        let rendered = render(family, custom);
        assert_eq!(rendered, render(family, custom), "the same twice");
        let Ok(text) = rendered else { continue };
        match family {
            AmiFamily::Custom => assert_eq!(text, custom),
            AmiFamily::Bottlerocket => bottlerocket(&text),
            AmiFamily::Al2 | AmiFamily::Al2023 => multipart(&text, family),
            AmiFamily::Windows2019 | AmiFamily::Windows2022 | AmiFamily::Windows2025 => {
                assert!(text.starts_with("<powershell>\n") && text.trim_end().ends_with("</powershell>"), "{text:?}");
                assert!(text.contains("-EKSClusterName 'here'"), "{text:?}");
            }
        }
    }
}

fn render(family: AmiFamily, custom: &str) -> Result<String, UserDataError> {
    let cluster = ClusterFacts {
        name: "here".into(),
        endpoint: "https://api".into(),
        ca_bundle: Some("Y2E=".into()),
        cidr: Some("10.0.0.0/16".into()),
    };
    let labels: BTreeMap<String, String> = [("a".to_owned(), "1".to_owned())].into();
    let taints = [Taint { key: "karpenter.sh/unregistered".into(), value: String::new(), effect: Effect::NoExecute }];
    let kubelet: Map<String, Value> = json!({"maxPods": 29}).as_object().cloned().unwrap_or_default();
    let bootstrap = Bootstrap {
        family,
        cluster: &cluster,
        labels: &labels,
        taints: &taints,
        kubelet: &kubelet,
        raid0: false,
        custom: Some(custom),
        bottlerocket_binds_by_default: true,
    };
    userdata::render(&bootstrap).map(|rendered| rendered.text)
}

/// As Bottlerocket reads it: settings only, and what is ours is ours.
fn bottlerocket(text: &str) {
    let read: toml::Table = toml::from_str(text).unwrap_or_else(|error| panic!("{error}: {text:?}"));
    assert_eq!(read.keys().map(String::as_str).collect::<Vec<_>>(), ["settings"], "{text:?}");
    let kubernetes = &read["settings"]["kubernetes"];
    assert_eq!(kubernetes["cluster-name"].as_str(), Some("here"), "{text:?}");
    assert_eq!(kubernetes["api-server"].as_str(), Some("https://api"));
    assert_eq!(kubernetes["max-pods"].as_integer(), Some(29));
    assert!(kubernetes["node-taints"].as_table().is_some_and(|taints| taints.len() == 1), "{text:?}");
}

/// As cloud-init and nodeadm read it: parts between boundaries, ours the last.
fn multipart(text: &str, family: AmiFamily) {
    assert!(!text.contains('\r'), "{text:?}");
    assert!(
        text.starts_with("MIME-Version: 1.0\nContent-Type: multipart/mixed; boundary=\"//\"\n\n--//\n"),
        "{text:?}"
    );
    assert!(text.ends_with("--//--\n"), "{text:?}");
    let last = text.rsplit("--//\n").next().unwrap_or_default();
    let ours = if family == AmiFamily::Al2 { "/etc/eks/bootstrap.sh 'here'" } else { "kind: NodeConfig" };
    assert!(last.contains(ours), "{last:?}");
}

/// Versions and names of images, which users write and registries return.
pub(crate) fn image(text: &str) {
    for family in AmiFamily::ALL {
        for parameter in images::alias_parameters(family, text, "1.36") {
            assert!(parameter.name.starts_with("/aws/service/"), "{}", parameter.name);
            assert!(!parameter.serves.is_empty());
        }
        let _ = images::unsupported_alias(family, text);
    }
    let image = |id: &str, architecture: &str| Image {
        id: id.to_owned(),
        name: text.to_owned(),
        architecture: architecture.to_owned(),
        created: None,
        deprecated_from: None,
    };
    let found = vec![image("ami-1", "x86_64"), image(text, "arm64"), image("ami-3", text)];
    let queries = images::queries(&[images::ImageTerm {
        id: Some(text.to_owned()),
        name: Some(text.to_owned()),
        owner: None,
        tags: BTreeMap::new(),
    }]);
    let answers: Vec<(ImageQuery, Vec<Image>)> = queries.into_iter().map(|query| (query, found.clone())).collect();
    let now = jiff::Timestamp::UNIX_EPOCH;
    assert_eq!(images::choose(&answers, now), images::choose(&answers, now));
    let names = userdata::ImageNames {
        alias_version: Some(text),
        name_terms: vec![text],
        id_terms: vec![text],
        resolved: vec![(text, text)],
    };
    let _ = userdata::binds_by_default(&names);
}
