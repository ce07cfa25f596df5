//! Under roles that leave something out.

use karpenter_core::pod::{NodePolicy, WhenUnsatisfiable};
use karpenter_core::settings::DefaultSpread;

use super::outages::Complaints;
use super::*;

/// All that nodes need, and nothing of what only some features do: services and workloads, overlays and buffers.
async fn least_rights(lab: &Lab) {
    let rule = |group: &str, resources: &[&str]| json!({"apiGroups": [group], "resources": resources, "verbs": ["*"]});
    let core =
        ["pods", "pods/eviction", "nodes", "namespaces", "persistentvolumes", "persistentvolumeclaims", "events"];
    let rules = [
        rule("", &core),
        rule("events.k8s.io", &["*"]),
        rule("storage.k8s.io", &["*"]),
        rule("apps", &["daemonsets"]),
        rule("policy", &["*"]),
        rule("karpenter.k8s.aws", &["*"]),
        rule("karpenter.sh", &["nodepools", "nodepools/status", "nodeclaims", "nodeclaims/status"]),
    ];
    let role = json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole",
        "metadata": {"name": "least"}, "rules": rules});
    lab.create("/apis/rbac.authorization.k8s.io/v1/clusterroles", role).await;
    let binding = json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding",
        "metadata": {"name": "least"}, "subjects": [{"kind": "User", "name": "karpenter", "apiGroup": "rbac.authorization.k8s.io"}],
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "least"}});
    lab.create("/apis/rbac.authorization.k8s.io/v1/clusterrolebindings", binding).await;
}

#[tokio::test(start_paused = true)]
async fn what_only_a_feature_needs_switches_off_that_feature_alone() {
    // covers: API-RB-23
    let (complaints, _listening) = Complaints::heard();
    let mut settings = Settings::default();
    // Pods spread by default over what their services and workloads select, as far as we may see those.
    settings.scheduling.default_spread = vec![DefaultSpread {
        topology_key: "topology.kubernetes.io/zone".into(),
        max_skew: 1,
        min_domains: None,
        when: WhenUnsatisfiable::ScheduleAnyway,
        node_affinity: NodePolicy::Honor,
        node_taints: NodePolicy::Ignore,
    }];
    let user = User::new("karpenter", &["system:authenticated"]);
    let lab = Lab::of(41, user, settings, |options, facts| {
        outages::few_families(options);
        facts.node_overlays = true;
    });
    let lab = lab.await;
    least_rights(&lab).await;
    lab.pool().await;
    let overlay = json!({"apiVersion": "karpenter.sh/v1alpha1", "kind": "NodeOverlay", "metadata": {"name": "dear"},
        "spec": {"requirements": [], "price": "99"}});
    lab.create("/apis/karpenter.sh/v1alpha1/nodeoverlays", overlay).await;
    lab.create(DEPLOYMENTS, deployment(("even", "1", "1Gi"), 4)).await;
    lab.settle(900).await;
    let pods = lab.list("/api/v1/namespaces/default/pods").await;
    assert_eq!(pods.iter().filter(|pod| pod["status"]["phase"] == "Running").count(), 4, "the rest keeps working");
    let claims = lab.list("/apis/karpenter.sh/v1/nodeclaims").await;
    assert!(
        claims.iter().all(|claim| claim["metadata"]["annotations"]["karpenter.sh/price-overlay-applied"].is_null())
    );
    let told = complaints.of("a kind cannot be read, what depends on it is off");
    assert_eq!(told, 5, "one line for each of services, three kinds of workloads and overlays: {complaints:?}");
}

#[tokio::test(start_paused = true)]
async fn overlays_that_nobody_can_be_told_about_do_not_hold() {
    // covers: API-RB-23
    let (complaints, _listening) = Complaints::heard();
    let user = User::new("karpenter", &["system:authenticated"]);
    let lab = Lab::of(43, user, Settings::default(), |options, facts| {
        outages::few_families(options);
        facts.node_overlays = true;
    });
    let lab = lab.await;
    least_rights(&lab).await;
    let role = json!({"rules": [{"apiGroups": ["*"], "resources": ["*"], "verbs": ["get", "list", "watch"]},
        {"apiGroups": ["", "events.k8s.io", "policy", "karpenter.k8s.aws"], "resources": ["*"], "verbs": ["*"]},
        {"apiGroups": ["karpenter.sh"], "resources": ["nodepools", "nodepools/status", "nodeclaims", "nodeclaims/status"], "verbs": ["*"]}]});
    send(&lab.client, "PATCH", "/apis/rbac.authorization.k8s.io/v1/clusterroles/least", Some(role)).await;
    lab.pool().await;
    let overlay = json!({"apiVersion": "karpenter.sh/v1alpha1", "kind": "NodeOverlay", "metadata": {"name": "dear"},
        "spec": {"requirements": [], "price": "99"}});
    lab.create("/apis/karpenter.sh/v1alpha1/nodeoverlays", overlay).await;
    lab.create(DEPLOYMENTS, deployment(("even", "1", "1Gi"), 2)).await;
    lab.settle(300).await;
    let claims = lab.list("/apis/karpenter.sh/v1/nodeclaims").await;
    assert!(!claims.is_empty());
    assert!(
        claims.iter().all(|claim| claim["metadata"]["annotations"]["karpenter.sh/price-overlay-applied"].is_null())
    );
    assert_eq!(complaints.of("the status of NodeOverlays cannot be written"), 1, "{complaints:?}");
}
