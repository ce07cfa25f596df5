//! 002: pools of a platform team's cluster definition.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};

use super::files::{object, objects, sources, written};
use super::lab::{CLAIMS, DEPLOYMENTS, Lab, NODES, POOLS, Place, condition, is_true, label};
use super::plans::{Planned, asking, merge, plan, pod};

const MANIFESTS: &[&str] = &["002/manifests"];

async fn lab() -> Lab {
    let lab = Lab::new(Place { region: "eu-west-1", cluster: "production", ..Place::default() }).await;
    lab.apply(objects(MANIFESTS)).await;
    lab.settle(10).await;
    lab
}

fn planned(pods: &[Value]) -> Planned {
    plan("eu-west-1", sources(MANIFESTS).into_iter().chain([written(pods)]).collect())
}

/// Tolerates and selects the pool `default`.
fn chosen(name: &str, cpu: &str) -> Value {
    let mut pod = asking(name, json!({"cpu": cpu}));
    let more = json!({"nodeSelector": {"foo": "bar"}, "tolerations": [{"key": "role", "operator": "Equal", "value": "foo", "effect": "NoSchedule"}]});
    merge(&mut pod["spec"], more);
    pod
}

fn deployment(name: &str, replicas: usize, cpu: &str) -> Value {
    let container = json!({"name": "main", "image": "x", "resources": {"requests": {"cpu": cpu}}});
    json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": name, "namespace": "default"},
        "spec": {"replicas": replicas, "selector": {"matchLabels": {"app": name}},
            "template": {"metadata": {"labels": {"app": name}}, "spec": {"containers": [container]}}}})
}

#[tokio::test(start_paused = true)]
async fn labels_and_annotations_of_a_pool_are_on_its_claims_and_nodes() {
    // covers: SEED2-18
    let lab = lab().await;
    lab.apply(vec![chosen("p", "1")]).await;
    lab.settle(180).await;
    assert_eq!(lab.running().await, 1);
    for path in [CLAIMS, NODES] {
        let all = lab.list(path).await;
        let [one] = &all[..] else { panic!("{all:?}") };
        assert_eq!((label(one, "foo"), &one["metadata"]["annotations"]["foo"]), ("bar", &json!("bar")), "{path}");
    }
}

#[test]
fn pools_are_kept_apart_by_taints_limits_and_requirements() {
    // covers: SEED2-19, SEED2-22, SEED2-23, SEED2-24, SEED2-25, SEED2-26, SEED2-27
    let planned =
        planned(&[chosen("special", "1"), asking("plain", json!({"cpu": "1"})), asking("wide", json!({"cpu": "40"}))]);
    assert!(planned.plan.left_over.is_empty(), "{:?}", planned.plan.left_over);
    for node in &planned.plan.new_nodes {
        let of = |key: &str| planned.label(node, &format!("karpenter.k8s.aws/instance-{key}"));
        if planned.pool(node) == "default" {
            assert_eq!(node.pods.len(), 1, "pods without the toleration stay away");
            assert_eq!(of("category"), "c");
        } else {
            assert!(["c", "m", "r"].contains(&of("category").as_str()));
            assert!(of("generation").parse::<u32>().unwrap() > 4);
            assert!(["eu-west-1a", "eu-west-1b", "eu-west-1c"].contains(&&*node.launch.zone));
            assert_eq!(planned.label(node, "kubernetes.io/arch"), "amd64");
            assert_eq!(&*node.launch.capacity_type, "on-demand");
            let types = planned.types(node);
            assert!(!types.contains("m5a.16xlarge") && !types.contains("m5a.24xlarge"));
        }
    }
    let many: Vec<Value> = (0..60).map(|number| chosen(&format!("p{number}"), "3")).collect();
    let limited = self::planned(&many);
    let cpus: u64 = limited
        .plan
        .new_nodes
        .iter()
        .map(|node| limited.label(node, "karpenter.k8s.aws/instance-cpu").parse::<u64>().unwrap())
        .sum();
    assert!(cpus <= 111 && !limited.plan.left_over.is_empty(), "{cpus}");
}

#[test]
fn an_upper_case_category_matches_nothing_and_no_requirement_matches_all() {
    // covers: SEED2-28
    let class = object(MANIFESTS, "EC2NodeClass", "default");
    let with = |requirements: Value| {
        let mut pool = object(MANIFESTS, "NodePool", "general");
        pool["spec"]["template"]["spec"]["requirements"] = requirements;
        plan("eu-west-1", vec![written(&[class.clone(), pool, asking("p", json!({"cpu": "1"}))])])
    };
    let raw = with(json!([{"key": "karpenter.k8s.aws/instance-category", "operator": "In", "values": ["C"]}]));
    assert!(raw.plan.new_nodes.is_empty());
    assert_eq!(with(json!([])).plan.new_nodes.len(), 1);
}

#[test]
fn spreads_are_kept_when_nodes_are_bought() {
    // covers: SEED2-01
    let spread = json!({"maxSkew": 1, "topologyKey": "topology.kubernetes.io/zone", "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {"matchLabels": {"app": "web"}}});
    let pods: Vec<Value> = (0..6)
        .map(|number| {
            let mut one = pod(&format!("web-{number}"), json!({"topologySpreadConstraints": [spread]}));
            one["metadata"]["labels"] = json!({"app": "web"});
            one["spec"]["containers"][0]["resources"] = json!({"requests": {"cpu": "1"}});
            one
        })
        .collect();
    let planned = planned(&pods);
    let mut zones: BTreeMap<&str, usize> = BTreeMap::new();
    for node in &planned.plan.new_nodes {
        *zones.entry(&node.launch.zone).or_default() += node.pods.len();
    }
    assert_eq!(zones.values().copied().collect::<Vec<_>>(), [2, 2, 2], "{zones:?}");
    // Without the constraint they share: aggregate requests decide, not the number of pods.
    let together: Vec<Value> = (0..6).map(|number| asking(&format!("p{number}"), json!({"cpu": "1"}))).collect();
    let shared = self::planned(&together);
    assert!(shared.plan.new_nodes.len() < 3, "{:?}", shared.by_pool());
    let price = |planned: &Planned| planned.plan.new_nodes.iter().map(|node| node.launch.price.0).sum::<u64>();
    assert!(price(&shared) <= price(&planned));
}

#[tokio::test(start_paused = true)]
async fn limits_hold_under_waves_of_pods() {
    // covers: SEED2-08, SEED3-31
    let lab = lab().await;
    lab.patch(&format!("{POOLS}/general"), json!({"spec": {"limits": {"cpu": 48}}})).await;
    for wave in 0..5 {
        lab.apply(vec![deployment(&format!("wave-{wave}"), 6, "3")]).await;
        lab.settle(2).await;
    }
    lab.settle(240).await;
    let pool = lab.get(&format!("{POOLS}/general")).await;
    let used: u64 = pool["status"]["resources"]["cpu"].as_str().unwrap().parse().unwrap();
    let real: u64 = lab
        .list(NODES)
        .await
        .iter()
        .map(|node| node["status"]["capacity"]["cpu"].as_str().unwrap().parse::<u64>().unwrap())
        .sum();
    assert!(used <= 48 && real <= 48 && used > 0, "{used} {real}");
    assert_eq!(pool["spec"]["limits"]["cpu"], 48);
    assert!(lab.running().await < 30);
}

#[tokio::test(start_paused = true)]
async fn a_deleted_node_is_drained_and_its_pods_get_another() {
    // covers: SEED2-33
    let lab = lab().await;
    lab.apply(vec![deployment("web", 3, "2")]).await;
    lab.settle(180).await;
    let before: BTreeSet<String> = names(&lab.list(NODES).await);
    let victim = before.iter().next().unwrap().clone();
    lab.delete(&format!("{NODES}/{victim}")).await;
    lab.settle(300).await;
    let after = names(&lab.list(NODES).await);
    assert!(!after.contains(&victim), "{after:?}");
    assert_eq!(lab.running().await, 3);
    assert_eq!(lab.list(CLAIMS).await.len(), after.len());
    assert_eq!(lab.instances().len(), after.len(), "its instance is ended");
}

fn names(objects: &[Value]) -> BTreeSet<String> {
    objects.iter().map(|object| object["metadata"]["name"].as_str().unwrap().to_owned()).collect()
}

#[tokio::test(start_paused = true)]
async fn a_changed_requirement_drifts_what_no_longer_matches_and_nothing_else() {
    // covers: SEED2-30
    let lab = lab().await;
    let mut here = deployment("a", 1, "2");
    here["spec"]["template"]["spec"]["nodeSelector"] = json!({"topology.kubernetes.io/zone": "eu-west-1a"});
    let mut there = deployment("b", 1, "2");
    there["spec"]["template"]["spec"]["nodeSelector"] = json!({"topology.kubernetes.io/zone": "eu-west-1b"});
    // Protected, so that they can be looked at.
    for one in [&mut here, &mut there] {
        one["spec"]["template"]["metadata"]["annotations"] = json!({"karpenter.sh/do-not-disrupt": "true"});
    }
    lab.apply(vec![here, there]).await;
    lab.settle(180).await;
    let mut pool = object(MANIFESTS, "NodePool", "general");
    for entry in pool["spec"]["template"]["spec"]["requirements"].as_array_mut().unwrap() {
        if entry["key"] == "topology.kubernetes.io/zone" {
            entry["values"] = json!(["eu-west-1b", "eu-west-1c"]);
        }
    }
    lab.patch(&format!("{POOLS}/general"), json!({"spec": pool["spec"]})).await;
    lab.settle(600).await;
    let claims = lab.list(CLAIMS).await;
    assert_eq!(claims.len(), 2, "{:?}", lab.list(DEPLOYMENTS).await.len());
    for claim in claims {
        let drifted = condition(&claim, "Drifted");
        match label(&claim, "topology.kubernetes.io/zone") {
            "eu-west-1a" => {
                assert_eq!((&drifted["status"], &drifted["reason"]), (&json!("True"), &json!("RequirementsDrifted")))
            }
            _ => assert!(!is_true(&claim, "Drifted"), "{claim}"),
        }
    }
}

#[tokio::test(start_paused = true)]
async fn the_default_budget_is_a_tenth() {
    // covers: SEED2-34
    let lab = lab().await;
    let pool = lab.get(&format!("{POOLS}/general")).await;
    assert_eq!(pool["spec"]["disruption"]["budgets"], json!([{"nodes": "10%"}]));
    lab.patch(
        &format!("{POOLS}/general"),
        json!({"spec": {"disruption": {"consolidationPolicy": "WhenEmpty", "consolidateAfter": "30s"}}}),
    )
    .await;
    // Twelve nodes that hold one pod each.
    let mut apart = deployment("web", 12, "1");
    let term = json!({"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {"app": "web"}}});
    apart["spec"]["template"]["spec"]["affinity"] =
        json!({"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}});
    lab.apply(vec![apart]).await;
    lab.settle(300).await;
    assert_eq!(lab.list(NODES).await.len(), 12);
    lab.scale("web", 0).await;
    let mut most = 0;
    for _ in 0..100 {
        lab.settle(3).await;
        // As upstream counts: a node whose instance is terminating is none any more.
        let is_ending = |claim: &&Value| {
            !claim["metadata"]["deletionTimestamp"].is_null() && !is_true(claim, "InstanceTerminating")
        };
        most = most.max(lab.list(CLAIMS).await.iter().filter(is_ending).count());
    }
    assert!((1..=2).contains(&most), "two of twelve at once, rounded up: {most}");
}

#[tokio::test(start_paused = true)]
async fn spreads_and_budgets_of_workloads_hold_while_nodes_come_and_go() {
    // covers: SEED2-11
    let lab = lab().await;
    let mut web = deployment("web", 6, "1");
    web["spec"]["template"]["spec"]["topologySpreadConstraints"] = json!([{"maxSkew": 1, "topologyKey": "topology.kubernetes.io/zone",
        "whenUnsatisfiable": "DoNotSchedule", "labelSelector": {"matchLabels": {"app": "web"}}}]);
    let budget = json!({"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": "web", "namespace": "default"},
        "spec": {"minAvailable": 5, "selector": {"matchLabels": {"app": "web"}}}});
    let created = lab.send("POST", "/apis/policy/v1/namespaces/default/poddisruptionbudgets", Some(budget)).await;
    created.unwrap();
    lab.apply(vec![web]).await;
    lab.settle(240).await;
    let zones = async || -> BTreeMap<String, usize> {
        let mut count = BTreeMap::new();
        let nodes = lab.list(NODES).await;
        for pod in lab.list(super::lab::PODS).await.iter().filter(|pod| pod["status"]["phase"] == "Running") {
            let node = nodes.iter().find(|node| node["metadata"]["name"] == pod["spec"]["nodeName"]).unwrap();
            *count.entry(label(node, "topology.kubernetes.io/zone").to_owned()).or_default() += 1;
        }
        count
    };
    let even = |counts: Vec<usize>| counts.iter().max().unwrap() - counts.iter().min().unwrap() <= 1;
    let before = zones().await;
    assert!(before.len() > 1 && even(before.values().copied().collect()), "{before:?}");
    // All nodes are to go at once; the pods go one after the other.
    for node in lab.list(NODES).await {
        lab.delete(&format!("{NODES}/{}", node["metadata"]["name"].as_str().unwrap())).await;
    }
    let mut fewest = 6;
    for _ in 0..300 {
        lab.settle(2).await;
        let ready =
            |pod: &&Value| pod["status"]["phase"] == "Running" && pod["metadata"]["deletionTimestamp"].is_null();
        fewest = fewest.min(lab.list(super::lab::PODS).await.iter().filter(ready).count());
    }
    assert!(fewest >= 5, "{fewest}");
    let after = zones().await;
    assert!(after.values().sum::<usize>() == 6 && even(after.values().copied().collect()), "{after:?}");
    assert!(lab.list(NODES).await.iter().all(|node| node["metadata"]["deletionTimestamp"].is_null()));
}

#[tokio::test(start_paused = true)]
async fn what_is_dearer_than_needed_is_replaced_and_requests_alone_count() {
    // covers: SEED2-03, SEED2-06, SEED0-32
    let lab = lab().await;
    lab.patch(
        &format!("{POOLS}/general"),
        json!({"spec": {"disruption": {"consolidationPolicy": "WhenEmptyOrUnderutilized", "consolidateAfter": "30s", "budgets": [{"nodes": "100%"}]}}}),
    )
    .await;
    lab.apply(vec![deployment("large", 1, "14"), deployment("small", 1, "1")]).await;
    lab.settle(240).await;
    let before = lab.region.price_per_hour();
    let cpus = async || -> u64 {
        let of = |node: &Value| node["status"]["capacity"]["cpu"].as_str().unwrap().parse::<u64>().unwrap();
        lab.list(NODES).await.iter().map(of).sum()
    };
    assert!(cpus().await >= 16);
    lab.scale("large", 0).await;
    lab.settle(900).await;
    assert_eq!(lab.running().await, 1, "the pod moved along");
    assert!(lab.region.price_per_hour() < before && cpus().await <= 4, "{} CPUs", cpus().await);
    // A container of a pod that asks for little, and an init container and a runtime that ask for more, are requests.
    let mut heavy = asking("heavy", json!({"cpu": "100m"}));
    heavy["spec"]["initContainers"] =
        json!([{"name": "unpack", "image": "x", "resources": {"requests": {"cpu": "6"}}}]);
    heavy["spec"]["overhead"] = json!({"cpu": "1"});
    let planned = planned(&[heavy]);
    let asked = planned.plan.new_nodes[0].requests.iter().find(|(name, _)| *name == "cpu").unwrap().1.to_string();
    assert_eq!(asked, "7");
}

#[test]
fn a_batch_gets_nodes_at_little_more_than_the_cheapest_imaginable() {
    // covers: SEED2-01
    let shapes = [("2", "4Gi"), ("1", "6Gi"), ("3", "3Gi"), ("500m", "1Gi")];
    let pods: Vec<Value> = (0..60)
        .map(|number| {
            let (cpu, memory) = shapes[number % shapes.len()];
            asking(&format!("p{number}"), json!({"cpu": cpu, "memory": memory}))
        })
        .collect();
    let planned = planned(&pods);
    assert!(planned.plan.left_over.is_empty());
    let paid: u64 = planned.plan.new_nodes.iter().map(|node| node.launch.price.0).sum();
    // No node gives a CPU for less than the cheapest CPU of all types, nor a byte for less than the cheapest byte.
    let pool = planned.world.pools.iter().find(|pool| &*pool.name == "general").unwrap();
    let asked = |resource: &str| -> f64 {
        let of = |pod: &karpenter_core::Pod| pod.shape.requests.get(resource).nanos() as f64;
        planned.world.pods.iter().map(of).sum()
    };
    let cheapest = |resource: &str| -> f64 {
        let mut best = f64::MAX;
        let allowed = |kind: &&std::sync::Arc<karpenter_core::InstanceType>| {
            let of = |key: &str| kind.requirements.get(&format!("karpenter.k8s.aws/instance-{key}")).pick();
            let generation = of("generation").is_some_and(|text| text.parse::<u32>().is_ok_and(|number| number > 4));
            generation
                && of("category").is_some_and(|category| ["c", "m", "r"].contains(&&*category))
                && kind.requirements.get("kubernetes.io/arch").allows("amd64")
        };
        for kind in pool.instance_types.iter().filter(allowed) {
            let on_demand = |offering: &&karpenter_core::Offering| {
                offering.available && offering.requirements.get("karpenter.sh/capacity-type").allows("on-demand")
            };
            let room = kind.allocatable().get(resource).nanos() as f64;
            let price = kind.offerings.iter().filter(on_demand).map(|offering| offering.price.0).min();
            if let Some(price) = price.filter(|_| room > 0.0) {
                best = best.min(price as f64 / room);
            }
        }
        best
    };
    let bound = ["cpu", "memory"].map(|resource| asked(resource) * cheapest(resource)).into_iter().fold(0.0, f64::max);
    assert!((paid as f64) < bound * 1.25, "paid {paid}, no plan is below {bound}");
}

#[tokio::test(start_paused = true)]
async fn the_translated_definition_applies_and_its_pools_become_ready() {
    // covers: API-TR-12
    let lab = Lab::new(Place { region: "eu-west-1", cluster: "production", ..Place::default() }).await;
    lab.apply(objects(&["002/translated.yaml"])).await;
    lab.settle(30).await;
    let pools = lab.list(POOLS).await;
    assert_eq!(names_of(&pools), ["default", "general"]);
    for pool in pools {
        assert!(is_true(&pool, "Ready"), "{}", pool["status"]);
    }
    lab.apply(vec![chosen("special", "1"), asking("plain", json!({"cpu": "1"}))]).await;
    lab.settle(120).await;
    assert_eq!(lab.running().await, 2);
}

fn names_of(objects: &[Value]) -> Vec<&str> {
    objects.iter().map(|object| object["metadata"]["name"].as_str().unwrap()).collect()
}
