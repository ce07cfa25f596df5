//! Amazon Linux 2023: nodeadm reads a NodeConfig from the last part of a MIME document.

use serde_json::{Map, Value, json};

use super::kubelet_args::{Reader, node_labels};
use super::mime::{self, Document, NODE_CONFIG, Part, SHELL_SCRIPT};
use super::yaml::to_yaml;
use super::{Bootstrap, Rendered, UserDataError, custom_text, looks_like_mime};

pub(super) fn render(bootstrap: &Bootstrap<'_>) -> Result<Rendered, UserDataError> {
    let Document { mut parts, notes } = custom_parts(bootstrap)?;
    parts.push(Part::new(NODE_CONFIG, node_config(bootstrap)?));
    Ok(Rendered { text: mime::write(&parts), notes })
}

/// nodeadm merges several NodeConfigs, ours last; so the user's own may be one, bare or in a MIME document.
fn custom_parts(bootstrap: &Bootstrap<'_>) -> Result<Document, UserDataError> {
    let plain = |parts| Document { parts, notes: Vec::new() };
    let Some(text) = custom_text(bootstrap) else { return Ok(plain(Vec::new())) };
    if looks_like_mime(text) {
        let Document { parts, notes } = mime::read(text)?;
        let parts = parts.into_iter().map(|part| Part::new(part.content_type(), part.body.clone())).collect();
        return Ok(Document { parts, notes });
    }
    let kind = if is_yaml_mapping(text) { NODE_CONFIG } else { SHELL_SCRIPT };
    Ok(plain(vec![Part::new(kind, text)]))
}

/// As upstream's reader decides, which reads the first document only, takes the last of two values for a key, and takes a
/// document of nothing but comments for an empty mapping.
fn is_yaml_mapping(text: &str) -> bool {
    let options = serde_saphyr::options! { duplicate_keys: serde_saphyr::DuplicateKeyPolicy::LastWins };
    let document: Result<Option<Value>, _> = serde_saphyr::from_str_with_options(&first_document(text), options);
    document.is_ok_and(|document| document.is_none_or(|value| value.is_object() || value.is_null()))
}

/// Without the marker it may begin with.
fn first_document(text: &str) -> String {
    let marker = |line: &&str| *line == "---" || line.starts_with("--- ");
    let is_bare = |line: &&str| line.trim().is_empty() || line.starts_with('#');
    let before = text.lines().take_while(is_bare).count();
    let mut lines = text.lines().skip(before).peekable();
    let first = lines.next_if(marker).map(|line| line.trim_start_matches("---"));
    first.into_iter().chain(lines.take_while(|line| !marker(line))).collect::<Vec<_>>().join("\n")
}

fn node_config(bootstrap: &Bootstrap<'_>) -> Result<String, UserDataError> {
    let cluster = bootstrap.cluster;
    let cidr = cluster.cidr.as_ref().filter(|cidr| !cidr.is_empty()).ok_or(UserDataError::NoClusterCidr)?;
    let kubelet = Reader { settings: bootstrap.kubelet };
    // Fails on a kubelet map that could not be decoded, rather than let a node boot without its settings.
    kubelet.cluster_dns()?;
    let mut config: Map<String, Value> = bootstrap.kubelet.clone();
    if config.contains_key("evictionSoftGracePeriod") {
        let periods = kubelet.durations("evictionSoftGracePeriod")?;
        config.insert("evictionSoftGracePeriod".to_owned(), periods.into_iter().collect());
    }
    let taints = bootstrap.taints.iter().map(|taint| {
        let mut entry = Map::new();
        entry.insert("effect".to_owned(), taint.effect.as_str().into());
        entry.insert("key".to_owned(), taint.key.as_str().into());
        if !taint.value.is_empty() {
            entry.insert("value".to_owned(), taint.value.as_str().into());
        }
        Value::Object(entry)
    });
    config.insert("registerWithTaints".to_owned(), taints.collect());
    let mut kubelet = json!({ "config": config });
    if let Some(labels) = node_labels(bootstrap) {
        kubelet["flags"] = json!([labels]);
    }
    let mut spec = json!({
        "cluster": { "name": cluster.name, "apiServerEndpoint": cluster.endpoint, "cidr": cidr },
        // Empty, as upstream's library writes them.
        "containerd": {},
        "instance": { "localStorage": {} },
        "kubelet": kubelet,
    });
    if let Some(ca) = cluster.ca_bundle.as_ref().filter(|ca| !ca.is_empty()) {
        spec["cluster"]["certificateAuthority"] = json!(ca);
    }
    if bootstrap.raid0 {
        spec["instance"]["localStorage"]["strategy"] = json!("RAID0");
    }
    let document = json!({ "apiVersion": "node.eks.aws/v1alpha1", "kind": "NodeConfig", "metadata": {}, "spec": spec });
    Ok(format!("# Karpenter Generated NodeConfig\n{}", to_yaml(&document)))
}
