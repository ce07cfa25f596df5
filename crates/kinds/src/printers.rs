//! Table output: the columns kubectl shows, and their cells.

use jiff::Timestamp;
use serde_json::{Value, json};

mod age;
mod cells;
mod json_path;
mod pods;

pub use age::since;

/// A column's definition. Custom columns carry the JSON path of their cell.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Column {
    pub name: String,
    pub kind: String,
    pub format: String,
    pub description: String,
    pub priority: i64,
    pub json_path: Option<String>,
}

impl Column {
    fn of(name: &str, kind: &str, format: &str, priority: i64) -> Column {
        Column {
            name: name.into(),
            kind: kind.into(),
            format: format.into(),
            description: String::new(),
            priority,
            json_path: None,
        }
    }

    pub fn name() -> Column {
        Column::of("Name", "string", "name", 0)
    }

    pub fn custom(name: &str, kind: &str, format: &str, description: &str, priority: i64, json_path: &str) -> Column {
        Column {
            name: name.into(),
            kind: kind.into(),
            format: format.into(),
            description: description.into(),
            priority,
            json_path: Some(json_path.into()),
        }
    }

    pub fn definition(&self) -> Value {
        json!({"name": self.name, "type": self.kind, "format": self.format, "description": self.description,
            "priority": self.priority})
    }

    /// The cell of a custom column.
    pub fn custom_cell(&self, object: &Value, now: Timestamp) -> Value {
        let Some(path) = &self.json_path else { return object["metadata"]["name"].clone() };
        let found = json_path::find(object, path);
        let Some(value) = found else { return Value::Null };
        match self.kind.as_str() {
            "date" => match value.as_str() {
                Some(text) => match crate::times::parse(text) {
                    Ok(time) => json!(age::since(Some(time), now)),
                    Err(_) => json!("<invalid>"),
                },
                None => json!("<unknown>"),
            },
            "string" => match value {
                Value::String(_) => value,
                Value::Null => Value::Null,
                other => json!(other.to_string()),
            },
            "integer" if value.is_i64() => value,
            "number" if value.is_number() => value,
            "boolean" if value.is_boolean() => value,
            _ => Value::Null,
        }
    }
}

/// Name:type, a format after a second colon, `!` where only wide output shows it. All of them start with the name unless
/// they say otherwise.
fn columns_text(group: &str, kind: &str) -> &'static str {
    match (group, kind) {
        ("", "Pod") => "Name|Ready|Status|Restarts|Age|!IP|!Node|!Nominated Node|!Readiness Gates",
        ("", "PodTemplate") => "Name|Containers|Images|Pod Labels",
        ("policy", "PodDisruptionBudget") => "Name|Min Available|Max Unavailable|#Allowed Disruptions|Age",
        ("", "ReplicationController") | ("apps", "ReplicaSet") => {
            "Name|#Desired|#Current|#Ready|Age|!Containers|!Images|!Selector"
        }
        ("apps", "DaemonSet") => {
            "Name|#Desired|#Current|#Ready|#Up-to-date|#Available|Node Selector|Age|!Containers|!Images|!Selector"
        }
        ("batch", "Job") => "Name|Status|Completions|Duration|Age|!Containers|!Images|!Selector",
        ("batch", "CronJob") => {
            "Name|Schedule|Timezone|?Suspend|#Active|Last Schedule|Age|!Containers|!Images|!Selector"
        }
        ("", "Service") => "Name|Type|Cluster-IP|External-IP|Port(s)|Age|!Selector",
        ("networking.k8s.io", "Ingress") => "Name|Class|Hosts|Address|Ports|Age",
        ("networking.k8s.io", "IngressClass") => "Name|Controller|Parameters|Age",
        ("apps", "StatefulSet") => "Name|Ready|Age|!Containers|!Images",
        ("", "Endpoints") => "Name|Endpoints|Age",
        ("", "Node") => {
            "Name|Status|Roles|Age|Version|!Internal-IP|!External-IP|!OS-Image|!Kernel-Version|!Container-Runtime"
        }
        ("" | "events.k8s.io", "Event") => {
            "~Last Seen|Type|Reason|Object|!Subobject|!Source|Message|!First Seen|!Count|!Name"
        }
        ("", "Namespace") => "Name|Status|Age",
        ("", "Secret") => "Name|Type|Data|Age",
        ("", "ServiceAccount") => "Name|Age",
        ("", "PersistentVolume") => {
            "Name|Capacity|Access Modes|Reclaim Policy|Status|Claim|StorageClass|VolumeAttributesClass|Reason|Age|!VolumeMode"
        }
        ("", "PersistentVolumeClaim") => {
            "Name|Status|Volume|Capacity|Access Modes|StorageClass|VolumeAttributesClass|Age|!VolumeMode"
        }
        ("apps", "Deployment") => "Name|Ready|Up-to-date|Available|Age|!Containers|!Images|!Selector",
        ("autoscaling", "HorizontalPodAutoscaler") => "Name|Reference|Targets|MinPods|MaxPods|Replicas|Age",
        ("", "ConfigMap") => "Name|Data|Age",
        ("networking.k8s.io", "NetworkPolicy") => "Name|Pod-Selector|Age",
        ("rbac.authorization.k8s.io", "RoleBinding" | "ClusterRoleBinding") => {
            "Name|Role|Age|!Users|!Groups|!ServiceAccounts"
        }
        ("certificates.k8s.io", "CertificateSigningRequest") => {
            "Name|Age|SignerName|Requestor|RequestedDuration|Condition"
        }
        ("coordination.k8s.io", "Lease") => "Name|Holder|Age",
        ("storage.k8s.io", "StorageClass") => {
            "Name|Provisioner|ReclaimPolicy|VolumeBindingMode|AllowVolumeExpansion|Age"
        }
        ("storage.k8s.io", "VolumeAttributesClass") => "Name|DriverName|Age",
        ("", "ResourceQuota") => "Name|Request|Limit|Age",
        ("scheduling.k8s.io", "PriorityClass") => "Name|#Value|?Global-Default|Age|PreemptionPolicy",
        ("node.k8s.io", "RuntimeClass") => "Name|Handler|Age",
        ("storage.k8s.io", "VolumeAttachment") => "Name|@Attacher|PV|Node|?Attached|Age",
        ("discovery.k8s.io", "EndpointSlice") => "Name|AddressType|Ports|Endpoints|Age",
        ("storage.k8s.io", "CSINode") => "Name|#Drivers|Age",
        ("resource.k8s.io", "DeviceClass" | "ResourceClaimTemplate") => "Name|Age",
        ("resource.k8s.io", "ResourceClaim") => "Name|State|Age",
        ("resource.k8s.io", "ResourceSlice") => "Name|Node|Driver|Pool|Age",
        ("apps", "ControllerRevision") => "Name|Controller|#Revision|Age",
        ("admissionregistration.k8s.io", "MutatingWebhookConfiguration" | "ValidatingWebhookConfiguration") => {
            "Name|#Webhooks|Age"
        }
        ("storage.k8s.io", "CSIStorageCapacity") => "Name|StorageClassName|Capacity",
        ("networking.k8s.io", "ServiceCIDR") => "Name|CIDRs|Age",
        ("networking.k8s.io", "IPAddress") => "Name|ParentRef",
        ("flowcontrol.apiserver.k8s.io", "FlowSchema") => {
            "Name|PriorityLevel|MatchingPrecedence|DistinguisherMethod|Age|MissingPL"
        }
        ("apiextensions.k8s.io", "CustomResourceDefinition") => "Name|^Created At",
        _ => "Name|^Created At",
    }
}

pub fn columns(group: &str, kind: &str) -> Vec<Column> {
    let parts = columns_text(group, kind).split('|');
    let mut columns: Vec<Column> = parts
        .map(|text| {
            let (text, wide) = text.strip_prefix('!').map_or((text, 0), |rest| (rest, 1));
            let marker = text.chars().next().unwrap_or_default();
            let name = text.trim_start_matches(['#', '?', '~', '@', '^']);
            match marker {
                '#' => Column::of(name, "integer", "", wide),
                '?' => Column::of(name, "boolean", "", wide),
                '@' => Column::of(name, "string", "name", wide),
                '^' => Column::of(name, "date", "", wide),
                _ => Column::of(name, "string", if name == "Name" { "name" } else { "" }, wide),
            }
        })
        .collect();
    // What has no printer of its own falls back to metadata alone, as the server's default printer does.
    if columns_text(group, kind).contains('^') {
        columns[0].format = "name".into();
    }
    columns
}

pub fn cells(group: &str, kind: &str, object: &Value, now: Timestamp) -> Vec<Value> {
    match (group, kind) {
        ("", "Pod") => pods::cells(object, now),
        _ if columns_text(group, kind).contains('^') => {
            vec![object["metadata"]["name"].clone(), object["metadata"]["creationTimestamp"].clone()]
        }
        _ => cells::cells(group, kind, object, now),
    }
}

/// Pods that ended are marked, so that clients can hide them.
pub fn row_conditions(group: &str, kind: &str, object: &Value) -> Option<Value> {
    if (group, kind) != ("", "Pod") {
        return None;
    }
    match object["status"]["phase"].as_str() {
        Some("Succeeded") => Some(json!([{"type": "Completed", "status": "True", "reason": "Succeeded",
            "message": "The pod has completed successfully."}])),
        Some("Failed") => {
            Some(json!([{"type": "Completed", "status": "True", "reason": "Failed", "message": "The pod failed."}]))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_has_a_cell_for_every_column() {
        let now: Timestamp = "2026-01-02T00:00:00Z".parse().unwrap();
        for resource in crate::resources::all().iter().filter(|r| r.subresource.is_empty() && r.verbs.contains(&"list"))
        {
            let object = json!({"metadata": {"name": "x", "creationTimestamp": "2026-01-01T00:00:00Z"}});
            let (columns, cells) =
                (columns(resource.group, resource.kind), cells(resource.group, resource.kind, &object, now));
            assert_eq!(columns.len(), cells.len(), "{} {}", resource.group, resource.kind);
        }
    }

    #[test]
    fn custom_columns_follow_their_path() {
        let now: Timestamp = "2026-01-02T00:00:00Z".parse().unwrap();
        let object = json!({"spec": {"n": 3, "list": [{"a": "x"}, {"a": "y"}]}, "status": {"conditions":
            [{"type": "Ready", "status": "True"}, {"type": "Other", "status": "False"}]}});
        let cell = |kind: &str, path: &str| Column::custom("C", kind, "", "", 0, path).custom_cell(&object, now);
        assert_eq!(cell("integer", ".spec.n"), json!(3));
        assert_eq!(cell("string", ".status.conditions[?(@.type==\"Ready\")].status"), json!("True"));
        assert_eq!(cell("string", ".spec.list[1].a"), json!("y"));
        assert_eq!(cell("string", ".spec.nothing"), Value::Null);
    }
}
