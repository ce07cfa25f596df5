//! The CustomResourceDefinitions, ready for `kubectl apply` and for the chart.

use serde_json::{Map, Value, json};

use crate::conversion::V1BETA1;
use crate::kind::Kind;
use crate::schema::{schema_of, v1beta1_schema_of};
use crate::yaml;

/// All definitions, in a fixed order.
pub fn crds() -> Vec<Value> {
    Kind::ALL.into_iter().map(crd).collect()
}

/// The definition of one kind.
pub fn crd(kind: Kind) -> Value {
    let (group, version) = kind.group_version();
    let names = names(kind);
    json!({
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": format!("{}.{group}", kind.plural())},
        "spec": {
            "group": group,
            "names": names,
            "scope": if kind.is_namespaced() { "Namespaced" } else { "Cluster" },
            "versions": [{
                "additionalPrinterColumns": columns(kind),
                "name": version,
                "schema": {"openAPIV3Schema": schema_of(kind).to_json()},
                "served": true,
                "storage": true,
                "subresources": subresources(kind),
            }],
        },
    })
}

/// Where an API server finds the webhook that converts between v1 and v1beta1.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConversionService {
    pub name: String,
    pub namespace: String,
    pub port: u16,
    /// Base64 of the PEM, if known already: the controller fills it in.
    pub ca_bundle: Option<String>,
}

impl ConversionService {
    /// What stands under `spec.conversion`.
    pub fn stanza(&self, kind: Kind) -> Value {
        let mut config = json!({"service": {
            "name": self.name,
            "namespace": self.namespace,
            "path": conversion_path(kind),
            "port": self.port,
        }});
        if let Some(bundle) = &self.ca_bundle {
            config["caBundle"] = bundle.as_str().into();
        }
        json!({"strategy": "Webhook", "webhook": {
            "clientConfig": config,
            "conversionReviewVersions": ["v1", "v1beta1"],
        }})
    }
}

/// The webhook's path for a kind.
pub fn conversion_path(kind: Kind) -> String {
    format!("/conversion/{}", kind.group_version().0)
}

/// The definition with v1beta1 served beside v1, through a webhook. Kinds that v1beta1 did not have are as in [`crd`].
pub fn convertible_crd(kind: Kind, service: &ConversionService) -> Value {
    let mut definition = crd(kind);
    let Some(version) = v1beta1_version(kind) else { return definition };
    definition["spec"]["conversion"] = service.stanza(kind);
    if let Some(versions) = definition["spec"]["versions"].as_array_mut() {
        versions.push(version);
    }
    definition["spec"].as_object_mut().expect("built as an object").sort_keys();
    definition
}

/// The entry of `spec.versions`, served and not stored.
pub fn v1beta1_version(kind: Kind) -> Option<Value> {
    let schema = v1beta1_schema_of(kind)?;
    let columns: &[Column] = match kind {
        Kind::NodePool => &[
            column("NodeClass", ".spec.template.spec.nodeClassRef.name", "string"),
            wide("Weight", ".spec.weight", "string"),
        ],
        Kind::NodeClaim => &[
            column("Type", r".metadata.labels.node\.kubernetes\.io/instance-type", "string"),
            column("Zone", r".metadata.labels.topology\.kubernetes\.io/zone", "string"),
            column("Node", ".status.nodeName", "string"),
            READY,
            AGE,
            wide("Capacity", r".metadata.labels.karpenter\.sh/capacity-type", "string"),
            wide("NodePool", r".metadata.labels.karpenter\.sh/nodepool", "string"),
            wide("NodeClass", ".spec.nodeClassRef.name", "string"),
        ],
        Kind::EC2NodeClass | Kind::NodeOverlay | Kind::CapacityBuffer => {
            &[READY, AGE, wide("Role", ".spec.role", "string")]
        }
    };
    Some(json!({
        "additionalPrinterColumns": columns.iter().map(render_column).collect::<Value>(),
        "name": V1BETA1,
        "schema": {"openAPIV3Schema": schema.to_json()},
        "served": true,
        "storage": false,
        "subresources": {"status": {}},
    }))
}

/// The definition as a YAML document. The same definition always gives the same bytes.
pub fn crd_yaml(kind: Kind) -> String {
    yaml::to_yaml(&crd(kind))
}

/// All definitions as one YAML stream.
pub fn crds_yaml() -> String {
    Kind::ALL.into_iter().map(|kind| format!("---\n{}", crd_yaml(kind))).collect()
}

/// `<group>_<plural>.yaml`, as chart authors name such files.
pub fn crd_file_name(kind: Kind) -> String {
    format!("{}_{}.yaml", kind.group_version().0, kind.plural())
}

fn names(kind: Kind) -> Value {
    let (category, short): (&str, &[&str]) = match kind {
        Kind::NodePool | Kind::NodeClaim => ("karpenter", &[]),
        Kind::NodeOverlay => ("karpenter", &["overlays"]),
        Kind::CapacityBuffer => ("autoscaling", &["cb"]),
        Kind::EC2NodeClass => ("karpenter", &["ec2nc", "ec2ncs"]),
    };
    let mut names = json!({
        "categories": [category],
        "kind": kind.as_str(),
        "listKind": format!("{}List", kind.as_str()),
        "plural": kind.plural(),
        "singular": kind.as_str().to_lowercase(),
    });
    if !short.is_empty() {
        names["shortNames"] = short.to_vec().into();
        names.as_object_mut().expect("built as an object").sort_keys();
    }
    names
}

fn subresources(kind: Kind) -> Value {
    match kind {
        Kind::NodePool => {
            json!({"scale": {"specReplicasPath": ".spec.replicas", "statusReplicasPath": ".status.nodes"}, "status": {}})
        }
        Kind::NodeClaim | Kind::NodeOverlay | Kind::CapacityBuffer | Kind::EC2NodeClass => json!({"status": {}}),
    }
}

/// A column of `kubectl get`.
struct Column {
    name: &'static str,
    path: &'static str,
    kind: &'static str,
    wide_only: bool,
    description: &'static str,
}

const fn column(name: &'static str, path: &'static str, kind: &'static str) -> Column {
    Column { name, path, kind, wide_only: false, description: "" }
}

const fn wide(name: &'static str, path: &'static str, kind: &'static str) -> Column {
    Column { name, path, kind, wide_only: true, description: "" }
}

const fn described(name: &'static str, path: &'static str, kind: &'static str, description: &'static str) -> Column {
    Column { name, path, kind, wide_only: false, description }
}

const READY: Column = column("Ready", r#".status.conditions[?(@.type=="Ready")].status"#, "string");
const AGE: Column = column("Age", ".metadata.creationTimestamp", "date");

fn columns(kind: Kind) -> Value {
    let columns: &[Column] = match kind {
        Kind::NodePool => &[
            column("NodeClass", ".spec.template.spec.nodeClassRef.name", "string"),
            column("Nodes", ".status.nodes", "string"),
            READY,
            AGE,
            wide("Weight", ".spec.weight", "integer"),
            wide("CPU", ".status.resources.cpu", "string"),
            wide("Memory", ".status.resources.memory", "string"),
        ],
        Kind::NodeClaim => &[
            column("Type", r".metadata.labels.node\.kubernetes\.io/instance-type", "string"),
            column("Capacity", r".metadata.labels.karpenter\.sh/capacity-type", "string"),
            column("Zone", r".metadata.labels.topology\.kubernetes\.io/zone", "string"),
            column("Node", ".status.nodeName", "string"),
            READY,
            AGE,
            wide("ImageID", ".status.imageID", "string"),
            wide("ID", ".status.providerID", "string"),
            wide("NodePool", r".metadata.labels.karpenter\.sh/nodepool", "string"),
            wide("NodeClass", ".spec.nodeClassRef.name", "string"),
            wide("Drifted", r#".status.conditions[?(@.type=="Drifted")].status"#, "string"),
        ],
        Kind::NodeOverlay => &[READY, AGE, wide("Weight", ".spec.weight", "integer")],
        Kind::CapacityBuffer => &[
            described("Strategy", ".spec.provisioningStrategy", "string", "How the buffer is kept."),
            described("PodTemplate", ".status.podTemplateRef.name", "string", "The PodTemplate in use."),
            described("Replicas", ".status.replicas", "integer", "Number of chunks in force."),
            described("ConditionsType", ".status.conditions[*].type", "string", "Types of all conditions."),
            described("ConditionsStatus", ".status.conditions[*].status", "string", "States of all conditions."),
            described("ConditionsReason", ".status.conditions[*].reason", "string", "Reasons of all conditions."),
            described("Age", ".metadata.creationTimestamp", "date", "Age of the buffer."),
        ],
        Kind::EC2NodeClass => &[READY, AGE, wide("Role", ".spec.role", "string")],
    };
    columns.iter().map(render_column).collect()
}

fn render_column(column: &Column) -> Value {
    let mut out = Map::new();
    if !column.description.is_empty() {
        out.insert("description".into(), column.description.into());
    }
    out.insert("jsonPath".into(), column.path.into());
    out.insert("name".into(), column.name.into());
    if column.wide_only {
        out.insert("priority".into(), 1.into());
    }
    out.insert("type".into(), column.kind.into());
    Value::Object(out)
}

#[cfg(test)]
mod tests;
