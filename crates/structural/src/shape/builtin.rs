//! The shapes of the kinds that every Kubernetes 1.36 server serves.
//!
//! `data/builtin-1.36.txt` is made from the server's own OpenAPI documents by `cargo run --example builtin_shapes`.

use std::sync::LazyLock;

use super::{Shapes, text};

static BUILTIN: LazyLock<Shapes> = LazyLock::new(|| {
    let shapes = text::parse(include_str!("../../data/builtin-1.36.txt"));
    Shapes { native: true, ..shapes.expect("the data file is ours, and a test reads it") }
});

/// The shapes of all built-in kinds, read once.
pub fn shapes() -> &'static Shapes {
    &BUILTIN
}

#[cfg(test)]
mod tests {
    use super::super::{ListRelation, MapRelation, Strategy};
    use super::*;

    #[test]
    fn the_kinds_we_serve_are_there() {
        for (api_version, kind) in [
            ("v1", "Pod"),
            ("v1", "Node"),
            ("v1", "Event"),
            ("apps/v1", "Deployment"),
            ("batch/v1", "CronJob"),
            ("policy/v1", "PodDisruptionBudget"),
            ("policy/v1", "Eviction"),
            ("storage.k8s.io/v1", "CSINode"),
            ("scheduling.k8s.io/v1", "PriorityClass"),
            ("coordination.k8s.io/v1", "Lease"),
            ("rbac.authorization.k8s.io/v1", "ClusterRole"),
            ("events.k8s.io/v1", "Event"),
            ("discovery.k8s.io/v1", "EndpointSlice"),
            ("node.k8s.io/v1", "RuntimeClass"),
            ("networking.k8s.io/v1", "Ingress"),
            ("autoscaling/v2", "HorizontalPodAutoscaler"),
            ("autoscaling/v1", "Scale"),
            ("resource.k8s.io/v1", "ResourceClaim"),
            ("apiextensions.k8s.io/v1", "CustomResourceDefinition"),
            ("admissionregistration.k8s.io/v1", "ValidatingAdmissionPolicy"),
            ("certificates.k8s.io/v1", "CertificateSigningRequest"),
            ("flowcontrol.apiserver.k8s.io/v1", "FlowSchema"),
        ] {
            assert!(shapes().kind(api_version, kind).is_some(), "{api_version} {kind}");
        }
    }

    #[test]
    fn a_pods_lists_have_their_keys() {
        let pod = shapes().kind("v1", "Pod").unwrap().map().unwrap();
        let spec = pod.under("spec").unwrap().map().unwrap();
        let containers = spec.under("containers").unwrap().list().unwrap();
        assert_eq!(containers.relation, &ListRelation::Keyed(vec!["name".to_owned()]));
        assert_eq!(spec.field("containers").unwrap().patch.strategy, Strategy::Merge);
        assert_eq!(spec.under("nodeSelector").unwrap().map().unwrap().relation, MapRelation::Atomic);
        let port = containers.element.map().unwrap().under("ports").unwrap().list().unwrap();
        assert_eq!(port.relation, &ListRelation::Keyed(vec!["containerPort".to_owned(), "protocol".to_owned()]));
        let protocol = port.element.map().unwrap().field("protocol").unwrap();
        assert_eq!(protocol.default, Some("TCP".into()));
        let meta = pod.under("metadata").unwrap().map().unwrap();
        assert_eq!(meta.under("finalizers").unwrap().list().unwrap().relation, &ListRelation::Set);
        assert!(pod.under("nonsense").is_none());
    }
}
