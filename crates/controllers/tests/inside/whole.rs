//! Everything together: pods wait, nodes come, pods run, pods go, nodes go.

use karpenter_apiserver::{Digest, Effect, Fault};
use karpenter_controllers::Settings;
use karpenter_controllers::roster::all;
use serde_json::json;
use std::time::Duration;

use super::lab::{DEPLOYMENTS, Lab, NODES, deployment, running};

/// A pool whose empty nodes go soon and all at once.
async fn pool(lab: &Lab) {
    lab.node_class().await;
    let disruption =
        json!({"consolidationPolicy": "WhenEmpty", "consolidateAfter": "30s", "budgets": [{"nodes": "100%"}]});
    lab.pool("main", json!({"disruption": disruption})).await;
}

/// Scales a workload up, down and to zero; answers what the server remembers.
async fn story(seed: u64) -> (Digest, u32) {
    let mut lab = Lab::new(seed).await;
    pool(&lab).await;
    lab.run(all(&Settings::default()));
    lab.deployment("web", 20, "1").await;
    lab.settle(120).await;
    assert_eq!(running(&lab.pods("web").await), 20);
    let mut text = String::new();
    prometheus_client::encoding::text::encode(&mut text, &lab.context.metrics.registry()).unwrap();
    // Ten small nodes at five cents an hour.
    assert!(text.contains("karpenter_nodepools_cost_total{nodepool=\"main\"} 0.5\n"), "{text}");
    let (claims, bought) = (lab.claims().await.len(), lab.shop.bought());
    assert_eq!(u32::try_from(claims).unwrap(), bought, "the nodes of the first plan, no second round");
    assert_eq!(bought, 10, "ten small nodes are cheaper than three large ones");
    lab.scale("web", 0).await;
    lab.settle(300).await;
    assert_eq!(lab.claims().await.len(), 0);
    assert!(lab.list(NODES).await.is_empty());
    assert!(lab.shop.running().is_empty(), "what nobody needs is not paid for: {:?}", lab.shop.running());
    let mut text = String::new();
    prometheus_client::encoding::text::encode(&mut text, &lab.context.metrics.registry()).unwrap();
    assert!(!text.contains("karpenter_nodepools_cost_total{"), "{text}");
    let labels = "reason=\"empty\",nodepool=\"main\",capacity_type=\"on-demand\",consolidation_policy=\"WhenEmpty\"";
    assert!(
        text.contains(&format!("karpenter_nodeclaims_disrupted_total{{{labels},termination_mode=\"graceful\"}} 10\n"))
    );
    (lab.digest(), bought)
}

#[tokio::test(start_paused = true)]
async fn pods_get_nodes_and_empty_nodes_go() {
    // covers: DIS-LOOP-05, DIS-QUEUE-12, DIS-QUEUE-13, DIS-QUEUE-16, STATE-COST-01
    story(1).await;
}

#[tokio::test(start_paused = true)]
async fn what_a_pool_costs_follows_prices_every_hour() {
    // covers: STATE-COST-03
    let mut lab = Lab::new(1).await;
    lab.node_class().await;
    let disruption = json!({"consolidateAfter": "Never", "budgets": [{"nodes": "0"}]});
    for name in ["main", "other"] {
        let template = json!({"metadata": {"labels": {"pool": name}}, "spec": {"requirements": [],
            "nodeClassRef": {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "default"}}});
        lab.pool(name, json!({"disruption": disruption, "template": template})).await;
        let mut pods = deployment(name, 1, "1");
        pods["spec"]["template"]["spec"]["nodeSelector"] = json!({"pool": name});
        lab.create(DEPLOYMENTS, pods).await;
    }
    lab.run(all(&Settings::default()));
    lab.settle(120).await;
    let costs = |lab: &Lab| {
        ["main", "other"].map(|pool| lab.metric("karpenter_nodepools_cost_total", &format!("nodepool=\"{pool}\"")))
    };
    assert_eq!(costs(&lab), [0.05, 0.05]);
    lab.shop.reprice("small", 80_000);
    lab.settle(3_000).await;
    assert_eq!(costs(&lab), [0.05, 0.05], "the hour is not over");
    lab.settle(600).await;
    assert_eq!(costs(&lab), [0.08, 0.08]);
    lab.shop.discontinue("small");
    lab.settle(3_700).await;
    assert_eq!(costs(&lab), [0.08, 0.08], "what is sold no more keeps its price");
}

#[tokio::test(start_paused = true)]
async fn the_same_seed_gives_the_same_history_to_the_byte() {
    assert_eq!(story(7).await, story(7).await);
}

#[tokio::test(start_paused = true)]
async fn a_rough_day_ends_like_any_other() {
    for seed in 0..1 {
        let mut lab = Lab::new(seed).await;
        pool(&lab).await;
        let fault = |methods: &[&str], per_mille, effect| Fault {
            methods: methods.iter().map(|method| (*method).to_owned()).collect(),
            path_contains: String::new(),
            per_mille,
            times: None,
            effect,
        };
        lab.run(all(&Settings::default()));
        lab.deployment("web", 12, "1").await;
        lab.server.inject(fault(&["PATCH", "PUT", "DELETE"], 100, Effect::Conflict));
        lab.server.inject(fault(&["POST", "PATCH", "GET"], 50, Effect::InternalError));
        lab.server.inject(fault(&[], 50, Effect::Latency(Duration::from_millis(700))));
        for round in 0..10 {
            lab.settle(17).await;
            match round % 3 {
                0 => lab.server.drop_watches(),
                1 => lab.server.expire_watches(),
                _ => lab.server.compact(),
            }
        }
        // The process dies a few times on the way.
        for _ in 0..3 {
            lab.settle(31).await;
            lab.run(all(&Settings::default()));
        }
        lab.server.clear_faults();
        lab.settle(180).await;
        assert_eq!(running(&lab.pods("web").await), 12, "seed {seed}");
        assert_eq!(lab.claims().await.len(), lab.shop.running().len(), "seed {seed}: every machine has its claim");
        lab.scale("web", 0).await;
        lab.settle(600).await;
        assert!(lab.shop.running().is_empty(), "seed {seed}: {:?}", lab.shop.running());
        assert_eq!(lab.claims().await.len(), 0, "seed {seed}");
    }
}

#[tokio::test(start_paused = true)]
async fn planned_pods_are_nominated_to_their_node_before_it_is_ready() {
    // covers: LC-POD-13
    let mut lab = Lab::new(3).await;
    pool(&lab).await;
    lab.run(all(&Settings::default()));
    lab.deployment("web", 6, "1").await;
    // Booted and not ready yet.
    lab.settle(34).await;
    let nodes = lab.list(NODES).await;
    assert!(!nodes.is_empty());
    let pods = lab.pods("web").await;
    assert!(pods.iter().all(|pod| pod["spec"]["nodeName"].is_null()));
    let hopes =
        |pods: &[serde_json::Value]| pods.iter().filter(|pod| pod["status"]["nominatedNodeName"].is_string()).count();
    assert_eq!(hopes(&pods), 6);
    lab.settle(60).await;
    assert_eq!(running(&lab.pods("web").await), 6);
    assert_eq!(lab.shop.bought(), 3, "the plan came true");
}

#[tokio::test(start_paused = true)]
async fn what_a_pool_costs_is_counted_where_it_can_be_known() {
    // covers: STATE-COST-02, STATE-COST-04
    let mut lab = Lab::new(1).await;
    lab.node_class().await;
    for name in ["main", "broken"] {
        lab.pool(name, json!({"disruption": {"consolidateAfter": "Never"}})).await;
    }
    lab.run(all(&Settings::default()));
    let claim = |name: &str, pool: &str, kind: &str| {
        json!({"apiVersion": "karpenter.sh/v1", "kind": "NodeClaim", "metadata": {"name": name, "labels": {
                "karpenter.sh/nodepool": pool, "node.kubernetes.io/instance-type": kind,
                "topology.kubernetes.io/zone": "a", "karpenter.sh/capacity-type": "on-demand"}},
            "spec": {"nodeClassRef": {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "default"},
                "requirements": [{"key": "node.kubernetes.io/instance-type", "operator": "In", "values": ["small"]}]}})
    };
    for (name, pool, kind) in [("a", "main", "small"), ("b", "main", "unknown"), ("c", "broken", "small")] {
        lab.create(super::lab::CLAIMS, claim(name, pool, kind)).await;
    }
    lab.settle(60).await;
    let text = lab.metrics();
    assert!(
        text.contains("karpenter_nodepools_cost_total{nodepool=\"main\"} 0.05\n"),
        "what is not known is free: {text}"
    );
    assert!(text.contains("karpenter_nodepools_cost_tracker_errors_total{nodepool=\"broken\"}"), "{text}");
    assert!(!text.contains("karpenter_nodepools_cost_total{nodepool=\"broken\"}"), "{text}");
    lab.delete(&format!("{}/main", super::lab::POOLS)).await;
    lab.settle(5).await;
    assert!(!lab.metrics().contains("karpenter_nodepools_cost_total{nodepool=\"main\"}"), "forgotten with its pool");
}
