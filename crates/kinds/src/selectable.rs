//! Which fields of a kind a field selector may name, and where their values are.

/// (label, JSON pointers tried in order). Every kind also has `metadata.name`, and namespaced ones `metadata.namespace`.
pub fn fields(group: &str, kind: &str) -> &'static [(&'static str, &'static [&'static str])] {
    match (group, kind) {
        ("", "Pod") => &[
            ("spec.nodeName", &["/spec/nodeName"]),
            ("spec.restartPolicy", &["/spec/restartPolicy"]),
            ("spec.schedulerName", &["/spec/schedulerName"]),
            ("spec.serviceAccountName", &["/spec/serviceAccountName"]),
            ("spec.hostNetwork", &["/spec/hostNetwork"]),
            ("status.phase", &["/status/phase"]),
            ("status.podIP", &["/status/podIP"]),
            ("status.podIPs", &["/status/podIP"]),
            ("status.nominatedNodeName", &["/status/nominatedNodeName"]),
        ],
        ("", "Node") => &[("spec.unschedulable", &["/spec/unschedulable"])],
        ("", "Namespace") => &[("status.phase", &["/status/phase"]), ("name", &["/metadata/name"])],
        ("", "Secret") => &[("type", &["/type"])],
        ("", "Service") => &[("spec.clusterIP", &["/spec/clusterIP"]), ("spec.type", &["/spec/type"])],
        ("", "PersistentVolume") => &[("name", &["/metadata/name"])],
        ("", "PersistentVolumeClaim") => &[("name", &["/metadata/name"])],
        ("", "ReplicationController") | ("apps", "ReplicaSet") => &[("status.replicas", &["/status/replicas"])],
        ("batch", "Job") => &[("status.successful", &["/status/succeeded"])],
        ("", "Event") | ("events.k8s.io", "Event") => &[
            ("involvedObject.kind", &["/involvedObject/kind"]),
            ("involvedObject.namespace", &["/involvedObject/namespace"]),
            ("involvedObject.name", &["/involvedObject/name"]),
            ("involvedObject.uid", &["/involvedObject/uid"]),
            ("involvedObject.apiVersion", &["/involvedObject/apiVersion"]),
            ("involvedObject.resourceVersion", &["/involvedObject/resourceVersion"]),
            ("involvedObject.fieldPath", &["/involvedObject/fieldPath"]),
            ("regarding.kind", &["/involvedObject/kind"]),
            ("regarding.namespace", &["/involvedObject/namespace"]),
            ("regarding.name", &["/involvedObject/name"]),
            ("regarding.uid", &["/involvedObject/uid"]),
            ("regarding.apiVersion", &["/involvedObject/apiVersion"]),
            ("regarding.resourceVersion", &["/involvedObject/resourceVersion"]),
            ("regarding.fieldPath", &["/involvedObject/fieldPath"]),
            ("reason", &["/reason"]),
            ("reportingComponent", &["/reportingComponent", "/source/component"]),
            ("reportingController", &["/reportingComponent", "/source/component"]),
            ("source", &["/source/component", "/reportingComponent"]),
            ("type", &["/type"]),
        ],
        ("certificates.k8s.io", "CertificateSigningRequest") => &[("spec.signerName", &["/spec/signerName"])],
        ("resource.k8s.io", "ResourceSlice") => {
            &[("spec.nodeName", &["/spec/nodeName"]), ("spec.driver", &["/spec/driver"])]
        }
        ("networking.k8s.io", "IPAddress") => &[],
        _ => &[],
    }
}

/// What the value of an absent field is taken for.
pub fn absent(kind: &str, field: &str) -> &'static str {
    match (kind, field) {
        ("Pod", "spec.hostNetwork") | ("Node", "spec.unschedulable") => "false",
        ("ReplicationController" | "ReplicaSet", "status.replicas") | ("Job", "status.successful") => "0",
        _ => "",
    }
}

/// The server's refusal of a field it does not know for the kind.
pub fn unsupported(group: &str, kind: &str, field: &str) -> String {
    match (group, kind) {
        (
            "",
            "Pod"
            | "Node"
            | "Namespace"
            | "Secret"
            | "Service"
            | "PersistentVolume"
            | "PersistentVolumeClaim"
            | "ReplicationController"
            | "Event",
        )
        | ("apps", "ReplicaSet")
        | ("batch", "Job")
        | ("certificates.k8s.io", "CertificateSigningRequest") => format!("field label not supported: {field}"),
        _ => format!("{field:?} is not a known field selector: only \"metadata.name\", \"metadata.namespace\""),
    }
}
