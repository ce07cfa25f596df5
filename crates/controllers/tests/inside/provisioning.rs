//! From pods that wait to NodeClaims.

use std::time::Duration;

use karpenter_controllers::Settings;
use karpenter_controllers::decision::Decision;
use karpenter_controllers::roster::{all, provisioning};
use serde_json::{Value, json};

use super::lab::{CLAIMS, CLASSES, DEPLOYMENTS, Lab, NODES, POOLS, START, deployment, running};
use super::scythe::When;

fn names(objects: &[Value]) -> Vec<&str> {
    objects.iter().map(|object| object["metadata"]["name"].as_str().unwrap()).collect()
}

#[tokio::test(start_paused = true)]
async fn a_pod_that_keeps_others_away_does_so_while_it_is_bound() {
    // covers: STATE-32
    let term = json!({"labelSelector": {"matchLabels": {"app": "other"}}, "topologyKey": "kubernetes.io/hostname"});
    let required = json!({"requiredDuringSchedulingIgnoredDuringExecution": [term.clone()]});
    let wished = json!({"preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 9, "podAffinityTerm": term}]});
    for (rule, nodes) in [(required, 2), (wished, 1)] {
        let mut lab = Lab::new(1).await;
        lab.node_class().await;
        lab.pool("main", json!({"disruption": {"consolidateAfter": "Never"}})).await;
        lab.run(all(&Settings::default()));
        let mut alone = deployment("alone", 1, "1");
        alone["spec"]["template"]["spec"]["affinity"] = json!({"podAntiAffinity": rule});
        lab.create(DEPLOYMENTS, alone).await;
        lab.settle(120).await;
        assert_eq!(lab.claims().await.len(), 1);
        lab.deployment("other", 1, "500m").await;
        lab.settle(120).await;
        assert_eq!((running(&lab.pods("other").await), lab.claims().await.len()), (1, nodes));
        lab.scale("alone", 0).await;
        lab.settle(60).await;
        lab.scale("other", 4).await;
        lab.settle(120).await;
        assert_eq!((running(&lab.pods("other").await), lab.claims().await.len()), (4, nodes), "its node is free now");
    }
}

#[tokio::test(start_paused = true)]
async fn nothing_is_said_of_a_pod_before_its_pool_had_time_to_become_ready() {
    // covers: NP-READY-03
    let mut lab = Lab::new(1).await;
    lab.node_class().await;
    let why = "SubnetSelector did not match any Subnets";
    let waiting = json!({"status": {"conditions": [{"type": "Ready", "status": "False", "reason": "SubnetsNotFound",
        "message": why, "lastTransitionTime": START, "observedGeneration": 1}]}});
    lab.patch(&format!("{CLASSES}/default/status"), waiting).await;
    lab.pool("main", json!({})).await;
    lab.run(all(&Settings::default()));
    lab.deployment("web", 1, "1").await;
    let told = async |lab: &Lab| {
        let events = lab.events("Pod").await;
        events.into_iter().filter(|event| event.starts_with("FailedScheduling Failed")).collect::<Vec<_>>()
    };
    lab.settle(28).await;
    assert_eq!(told(&lab).await, [""; 0]);
    lab.settle(30).await;
    let events = told(&lab).await;
    let pool = format!("NodePool main is not ready: NodeClassReady is False, {why}");
    assert!(events.len() == 1 && events[0].contains(&pool), "{events:?}");
}

#[tokio::test(start_paused = true)]
async fn nothing_is_bought_for_pods_that_found_a_place_while_it_was_planned() {
    let mut lab = Lab::new(1).await;
    lab.ready_pool("main").await;
    lab.run(provisioning());
    // As if the watch told of it in the minute that a solve may take.
    let index = lab.context.index.clone();
    let told = Box::new(move |world: &karpenter_core::World, _: &karpenter_core::plan::Plan| {
        for pod in world.pods.iter().filter(|pod| pod.node.is_none()) {
            let change = match pod.name.split('-').next() {
                Some("bound") => json!({"nodeName": "another"}),
                Some("ended") => json!({}),
                _ => continue,
            };
            let phase = if change == json!({}) { "Succeeded" } else { "Pending" };
            let metadata = json!({"name": &*pod.name, "namespace": &*pod.namespace, "uid": &*pod.uid,
                "resourceVersion": "1000000000"});
            let mut object = json!({"metadata": metadata, "spec": {"containers": []}, "status": {"phase": phase}});
            object["spec"].as_object_mut().unwrap().extend(change.as_object().unwrap().clone());
            let pod: k8s_openapi::api::core::v1::Pod = serde_json::from_value(object).unwrap();
            index.apply(pod.into());
        }
    });
    assert!(lab.context.plan_observer.set(told).is_ok());
    for app in ["bound", "ended", "waits"] {
        lab.deployment(app, 1, "7").await;
    }
    lab.settle(30).await;
    let claims = lab.claims().await;
    assert_eq!(claims.len(), 1, "{:?}", names(&claims));
}

#[tokio::test(start_paused = true)]
async fn pods_that_wait_get_claims_made_from_their_pool() {
    // covers: SCH-NEW-01, SCH-NEW-02, SCH-NEW-32, LC-GEN-14, SCH-BATCH-21, SCH-BATCH-22, SCH-ERR-02, API-EV-01
    let mut lab = Lab::new(1).await;
    lab.node_class().await;
    let template = json!({"metadata": {"labels": {"team": "red"}, "annotations": {"note": "x"}},
        "spec": {"requirements": [], "expireAfter": "24h", "terminationGracePeriod": "1h",
            "taints": [{"key": "dedicated", "effect": "PreferNoSchedule"}],
            "startupTaints": [{"key": "wait", "effect": "NoExecute"}],
            "nodeClassRef": {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "default"}}});
    lab.pool("main", json!({"template": template})).await;
    lab.make_ready("main").await;
    lab.run(provisioning());
    lab.deployment("web", 3, "1").await;
    lab.settle(5).await;
    let claims = lab.claims().await;
    let pool = lab.get(&format!("{POOLS}/main")).await.unwrap();
    assert_eq!(claims.len(), 1, "{claims:?}");
    let claim = &claims[0];
    assert!(claim["metadata"]["name"].as_str().unwrap().starts_with("main-"));
    let owner = json!([{"apiVersion": "karpenter.sh/v1", "kind": "NodePool", "name": "main", "blockOwnerDeletion": true,
        "uid": pool["metadata"]["uid"]}]);
    assert_eq!(claim["metadata"]["ownerReferences"], owner);
    let labels = json!({"team": "red", "karpenter.sh/nodepool": "main", "karpenter.k8s.aws/ec2nodeclass": "default"});
    assert_eq!(claim["metadata"]["labels"], labels);
    let annotations = claim["metadata"]["annotations"].as_object().unwrap();
    assert_eq!(annotations["note"], "x");
    assert_eq!(annotations["karpenter.sh/nodepool-hash-version"], "v3");
    let stored: karpenter_api::NodePool = serde_json::from_value(pool.clone()).unwrap();
    assert_eq!(annotations["karpenter.sh/nodepool-hash"], karpenter_api::nodepool_hash(&stored));
    let spec = &claim["spec"];
    for key in ["expireAfter", "terminationGracePeriod", "taints", "startupTaints", "nodeClassRef"] {
        assert_eq!(spec[key], pool["spec"]["template"]["spec"][key], "{key}");
    }
    assert_eq!(spec["resources"]["requests"]["cpu"], "3");
    let nominated = lab.events("Pod").await;
    let name = claim["metadata"]["name"].as_str().unwrap();
    let told = nominated.iter().filter(|text| **text == format!("Nominated Pod should schedule on: nodeclaim/{name}"));
    assert_eq!(told.count(), 3, "{nominated:?}");
    for pod in lab.pods("web").await {
        assert!(pod["spec"]["nodeName"].is_null(), "only kube-scheduler binds");
    }
}

#[tokio::test(start_paused = true)]
async fn a_pass_waits_until_every_claim_has_its_machine_and_loses_no_pod() {
    // covers: SCH-BATCH-10, SCH-BATCH-11, STATE-01, STATE-02, STATE-05, CP-A1
    let mut lab = Lab::new(1).await;
    lab.ready_pool("main").await;
    lab.run(provisioning());
    lab.deployment("web", 1, "1").await;
    lab.settle(5).await;
    assert_eq!(lab.claims().await.len(), 1);
    // Nobody launches it, so nothing else is planned.
    lab.deployment("big", 2, "7").await;
    lab.settle(30).await;
    let claims = lab.claims().await;
    assert_eq!(claims.len(), 1, "{claims:?}");
    lab.run(provisioning());
    lab.settle(30).await;
    assert_eq!(lab.claims().await.len(), 1, "nor after a restart");
    assert!(!lab.context.index.is_synced());
    let gauge = |name: &str| lab.metric(&format!("karpenter_cluster_state_{name}"), "");
    assert_eq!((gauge("synced"), gauge("node_count")), (0.0, 0.0), "it is no machine yet");
    assert!((15.0..=31.0).contains(&gauge("unsynced_time_seconds")), "{}", gauge("unsynced_time_seconds"));
    let name = names(&claims)[0].to_owned();
    let status = json!({"status": {"providerID": "shop:///a/i-1", "capacity": {"cpu": "2", "memory": "4Gi", "pods": "110"},
        "allocatable": {"cpu": "2", "memory": "4Gi", "pods": "110"}}});
    lab.patch(&format!("{CLAIMS}/{name}/status"), status).await;
    // At once, not at the next trigger.
    tokio::time::sleep(std::time::Duration::from_millis(100)).await;
    let claims = lab.claims().await;
    assert_eq!(claims.len(), 3, "two big pods, two more nodes; the first pod keeps its place: {:?}", names(&claims));
    assert_eq!((gauge("synced"), gauge("unsynced_time_seconds"), gauge("node_count")), (1.0, 0.0, 1.0));
}

#[tokio::test(start_paused = true)]
async fn pods_are_gathered_for_as_long_as_settings_say() {
    // covers: SCH-BATCH-05, SCH-BATCH-08
    let (batch_idle, batch_max) = (Duration::from_secs(5), Duration::from_secs(12));
    let mut lab = Lab::new(1).await;
    lab.ready_pool("main").await;
    lab.run_with(provisioning(), Settings { batch_idle, batch_max, ..Settings::default() });
    lab.settle(60).await;
    lab.deployment("web", 1, "1").await;
    lab.settle(4).await;
    assert!(lab.claims().await.is_empty(), "another may come");
    lab.settle(3).await;
    assert_eq!(lab.claims().await.len(), 1);
    let mut lab = Lab::new(1).await;
    lab.ready_pool("main").await;
    lab.run_with(provisioning(), Settings { batch_idle, batch_max, ..Settings::default() });
    lab.settle(60).await;
    for app in ["a", "b", "c", "d"] {
        assert!(lab.claims().await.is_empty(), "others came before {app}");
        lab.deployment(app, 1, "1").await;
        lab.settle(if app == "d" { 4 } else { 3 }).await;
    }
    assert!(!lab.claims().await.is_empty(), "twelve seconds are enough, though the last came four seconds ago");
}

#[tokio::test(start_paused = true)]
async fn nominations_are_told_no_faster_than_events_may_come() {
    // covers: SCH-ERR-02, API-EV-01
    let mut lab = Lab::new(1).await;
    lab.ready_pool("main").await;
    lab.run(provisioning());
    lab.deployment("web", 40, "100m").await;
    lab.settle(5).await;
    assert_eq!(lab.claims().await.len(), 2, "all of them are planned");
    let events = lab.events("Pod").await;
    assert_eq!(events.iter().filter(|text| text.starts_with("Nominated ")).count(), 10, "{events:?}");
}

#[tokio::test(start_paused = true)]
async fn a_pool_that_is_over_its_limit_by_now_gets_no_claim() {
    // covers: SCH-BATCH-20, API-NP-38
    // A large node has eight cores.
    for (limit, nodes) in [("8", 2), ("7", 1)] {
        let mut lab = Lab::new(1).await;
        lab.node_class().await;
        lab.pool("main", json!({"disruption": {"consolidateAfter": "Never"}})).await;
        lab.run(all(&Settings::default()));
        lab.deployment("web", 1, "7").await;
        lab.settle(120).await;
        assert_eq!(lab.claims().await.len(), 1);
        // While the next node is planned, the pool gets a limit.
        let mut pool = lab.get(&format!("{POOLS}/main")).await.unwrap();
        pool["spec"]["limits"] = json!({"cpu": limit});
        pool["metadata"]["resourceVersion"] = json!("1000000000");
        let pool: karpenter_api::NodePool = serde_json::from_value(pool).unwrap();
        let index = lab.context.index.clone();
        let limited = Box::new(move |_: &karpenter_core::World, _: &karpenter_core::plan::Plan| {
            index.apply(pool.clone().into());
        });
        assert!(lab.context.plan_observer.set(limited).is_ok());
        lab.deployment("more", 1, "7").await;
        lab.settle(30).await;
        assert_eq!(lab.claims().await.len(), nodes, "{limit}");
        let records = lab.context.recorder.decisions_since(0);
        let refusals: Vec<&str> = records
            .iter()
            .filter_map(|record| match &record.decision {
                Decision::NotLaunched { why, .. } => Some(why.as_str()),
                _ => None,
            })
            .collect();
        let want = if nodes == 1 { vec!["cpu resource usage of 8 exceeds limit of 7"] } else { Vec::new() };
        assert_eq!(refusals, want);
    }
}

#[tokio::test(start_paused = true)]
async fn planned_pods_keep_their_place_and_cost_no_second_node() {
    // covers: SCH-EXIST-07, CP-A2
    let mut lab = Lab::new(1).await;
    lab.ready_pool("main").await;
    lab.run(provisioning());
    lab.deployment("web", 4, "500m").await;
    lab.settle(5).await;
    let claims = lab.claims().await;
    assert_eq!(claims.len(), 1);
    let status = json!({"status": {"providerID": "shop:///a/i-1", "capacity": {"cpu": "2", "memory": "4Gi", "pods": "110"},
        "allocatable": {"cpu": "2", "memory": "4Gi", "pods": "110"}}});
    lab.patch(&format!("{CLAIMS}/{}/status", names(&claims)[0]), status).await;
    lab.settle(60).await;
    assert_eq!(lab.claims().await.len(), 1, "full and on its way");
    // Nothing of the plan is in memory after a restart; the machine still counts.
    lab.run(provisioning());
    lab.settle(60).await;
    assert_eq!(lab.claims().await.len(), 1);
    lab.scale("web", 5).await;
    lab.settle(5).await;
    assert_eq!(lab.claims().await.len(), 2, "the fifth pod needs another");
}

#[tokio::test(start_paused = true)]
async fn what_no_pool_can_host_is_told_and_the_rest_goes_on() {
    // covers: SCH-ERR-01, SCH-ERR-09, SCH-BATCH-13, API-EV-02
    let mut lab = Lab::new(1).await;
    lab.ready_pool("main").await;
    lab.run(provisioning());
    lab.deployment("huge", 1, "64").await;
    lab.deployment("web", 1, "1").await;
    lab.settle(30).await;
    assert_eq!(lab.claims().await.len(), 1);
    let events = lab.events("Pod").await;
    let failed: Vec<&String> =
        events.iter().filter(|text| text.starts_with("FailedScheduling Failed to schedule pod")).collect();
    assert_eq!(failed.len(), 1, "once in five minutes: {events:?}");
    assert!(failed[0].contains("NodePool main"), "{failed:?}");
    assert!(failed[0].contains("cpu 64"), "{failed:?}");
}

#[tokio::test(start_paused = true)]
async fn pools_that_are_not_ready_or_over_their_limit_give_nothing() {
    // covers: SCH-BATCH-01, SCH-BATCH-15
    let mut lab = Lab::new(1).await;
    lab.node_class().await;
    lab.pool("unready", json!({})).await;
    lab.run(provisioning());
    lab.deployment("web", 1, "1").await;
    // For half a minute a pool may still be becoming ready.
    lab.settle(60).await;
    assert!(lab.claims().await.is_empty());
    let events = lab.events("Pod").await;
    assert!(events.iter().any(|text| text.contains("no NodePool")), "{events:?}");
    lab.make_ready("unready").await;
    lab.settle(15).await;
    assert_eq!(lab.claims().await.len(), 1, "without anybody touching the pod");
}

#[tokio::test(start_paused = true)]
async fn pods_get_nodes_from_pools_that_are_ours_dynamic_ready_and_staying() {
    // covers: SCH-BATCH-14
    let mut lab = Lab::new(1).await;
    lab.node_class().await;
    let class = |group: &str| json!({"spec": {"requirements": [], "nodeClassRef": {"group": group, "kind": "EC2NodeClass", "name": "default"}}});
    lab.pool("foreign", json!({"weight": 50, "template": class("eks.amazonaws.com")})).await;
    lab.pool("fixed", json!({"replicas": 0})).await;
    lab.pool("unready", json!({"weight": 40})).await;
    lab.pool("going", json!({"weight": 30})).await;
    for pool in ["foreign", "fixed", "going"] {
        lab.make_ready(pool).await;
    }
    let held = json!({"metadata": {"finalizers": ["example.com/held"]}});
    lab.patch(&format!("{POOLS}/going"), held).await;
    lab.delete(&format!("{POOLS}/going")).await;
    lab.run(provisioning());
    lab.deployment("web", 1, "1").await;
    lab.settle(30).await;
    assert!(lab.claims().await.is_empty(), "none of these");
    lab.pool("main", json!({})).await;
    lab.make_ready("main").await;
    lab.settle(30).await;
    let claims = lab.claims().await;
    assert_eq!(claims.len(), 1);
    assert_eq!(claims[0]["metadata"]["labels"]["karpenter.sh/nodepool"], "main");
}

#[tokio::test(start_paused = true)]
async fn a_node_that_is_set_apart_starts_a_pass_every_ten_seconds() {
    // covers: SCH-BATCH-02
    let mut lab = Lab::new(1).await;
    lab.ready_pool("main").await;
    let node = |name: &str| json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}});
    lab.create(NODES, node("apart")).await;
    lab.create(NODES, node("other")).await;
    lab.run(provisioning());
    lab.settle(30).await;
    let passes = || lab.shop.asked().0;
    let taint =
        |effect: &str| json!({"spec": {"taints": [{"key": "karpenter.sh/disrupted", "value": "x", "effect": effect}]}});
    let before = passes();
    lab.patch(&format!("{NODES}/other"), taint("NoExecute")).await;
    lab.settle(60).await;
    assert_eq!(passes(), before, "another effect is another taint");
    lab.patch(&format!("{NODES}/apart"), taint("NoSchedule")).await;
    lab.settle(3).await;
    assert_eq!(passes(), before + 1, "whatever the taint's value");
    lab.settle(50).await;
    let more = passes() - before - 1;
    assert!((4..=5).contains(&more), "every ten seconds: {more}");
    lab.patch(&format!("{NODES}/apart"), json!({"spec": {"taints": null}})).await;
    lab.settle(15).await;
    let before = passes();
    lab.settle(60).await;
    assert_eq!(passes(), before, "and no longer");
}

#[tokio::test(start_paused = true)]
async fn nothing_is_made_before_the_cluster_is_known() {
    // covers: INV-6
    let mut lab = Lab::new(1).await;
    let settings = Settings { static_capacity: true, ..Settings::default() };
    lab.node_class().await;
    lab.pool("main", json!({"disruption": {"consolidateAfter": "0s", "budgets": [{"nodes": "100%"}]}})).await;
    // Its nodes are not for the pod.
    let template = json!({"spec": {"requirements": [], "taints": [{"key": "dedicated", "effect": "NoSchedule"}],
        "nodeClassRef": {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "default"}}});
    lab.pool("fixed", json!({"replicas": 2, "template": template})).await;
    for pool in ["main", "fixed"] {
        lab.make_ready(pool).await;
    }
    lab.deployment("web", 1, "1").await;
    // One kind of all cannot be listed.
    lab.server.inject(karpenter_apiserver::Fault {
        methods: vec!["GET".into()],
        path_contains: "/storageclasses".into(),
        per_mille: 1000,
        times: None,
        effect: karpenter_apiserver::Effect::InternalError,
    });
    lab.run_with(all(&settings), settings.clone());
    lab.settle(120).await;
    assert!(lab.claims().await.is_empty(), "neither for pods nor for replicas");
    lab.server.clear_faults();
    lab.settle(30).await;
    assert_eq!(lab.claims().await.len(), 3);
}

#[tokio::test(start_paused = true)]
async fn a_failed_creation_does_not_prevent_the_others_and_is_tried_again() {
    // covers: SCH-BATCH-19, SCH-ERR-12
    let mut lab = Lab::new(1).await;
    lab.ready_pool("main").await;
    lab.server.inject(karpenter_apiserver::Fault {
        methods: vec!["POST".into()],
        path_contains: "/nodeclaims".into(),
        per_mille: 1000,
        times: Some(1),
        effect: karpenter_apiserver::Effect::InternalError,
    });
    lab.run(provisioning());
    lab.create(DEPLOYMENTS, deployment("web", 3, "7")).await;
    lab.settle(3).await;
    assert_eq!(lab.claims().await.len(), 2);
    for claim in names(&lab.claims().await) {
        let status = json!({"status": {"providerID": format!("shop:///a/{claim}"),
            "capacity": {"cpu": "8", "memory": "32Gi", "pods": "110"},
            "allocatable": {"cpu": "8", "memory": "32Gi", "pods": "110"}}});
        lab.patch(&format!("{CLAIMS}/{claim}/status"), status).await;
    }
    lab.settle(15).await;
    assert_eq!(lab.claims().await.len(), 3, "one for each pod and no more");
}

#[tokio::test(start_paused = true)]
async fn one_pass_at_a_time_and_types_are_asked_for_once_in_each() {
    // covers: SCH-BATCH-09, SCH-BATCH-17
    let mut lab = Lab::new(1).await;
    lab.ready_pool("main").await;
    lab.shop.slow_down(Duration::from_secs(7));
    lab.run(provisioning());
    lab.deployment("web", 1, "1").await;
    lab.settle(2).await;
    assert_eq!(lab.shop.asked(), (1, 1), "a pass is under way");
    lab.deployment("more", 1, "1").await;
    lab.settle(4).await;
    assert_eq!(lab.shop.asked(), (1, 1), "the next one waits for it");
    lab.settle(30).await;
    assert_eq!(lab.shop.asked().1, 1);
    assert_eq!(lab.claims().await.len(), 1, "the pass that ran later saw both pods");
}

#[tokio::test(start_paused = true)]
async fn a_pool_without_types_is_skipped_and_the_others_are_not() {
    // covers: SCH-BATCH-17
    let mut lab = Lab::new(1).await;
    lab.ready_pool("main").await;
    for (name, weight) in [("broken", 50), ("sold-out", 60)] {
        lab.pool(name, json!({"weight": weight})).await;
        lab.make_ready(name).await;
    }
    lab.run(provisioning());
    lab.deployment("web", 1, "1").await;
    lab.settle(5).await;
    let claims = lab.claims().await;
    assert_eq!(claims[0]["metadata"]["labels"]["karpenter.sh/nodepool"], "main");
    let passes = lab.metric("karpenter_scheduler_scheduling_duration_seconds_count", "controller=\"provisioner\"");
    let asked = f64::from(lab.shop.asked_by("provisioner").times);
    assert!(passes > 0.0 && asked == 3.0 * passes, "once for each pool: {asked} in {passes} passes");
}

#[tokio::test(start_paused = true)]
async fn a_pool_whose_requirements_leave_nothing_says_so_once_a_minute() {
    // covers: SCH-ERR-03
    let mut lab = Lab::new(1).await;
    lab.node_class().await;
    let requirements = json!([{"key": "node.kubernetes.io/instance-type", "operator": "In", "values": ["gigantic"]}]);
    let class = json!({"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "default"});
    lab.pool("main", json!({"template": {"spec": {"requirements": requirements, "nodeClassRef": class}}})).await;
    lab.make_ready("main").await;
    lab.run(provisioning());
    lab.deployment("web", 1, "1").await;
    lab.settle(130).await;
    let events = lab.events("NodePool").await;
    let told = events.iter().filter(|text| text.starts_with("NoCompatibleInstanceTypes")).count();
    assert_eq!(told, 3, "{events:?}");
}

#[tokio::test(start_paused = true)]
async fn pods_that_avoid_us_are_left_in_peace_and_invalid_ones_are_told() {
    // covers: SCH-ERR-05, SCH-POD-15, SCH-POD-16, SCH-ERR-16
    let mut lab = Lab::new(1).await;
    lab.ready_pool("main").await;
    lab.run(provisioning());
    let selecting = |name: &str, expression: Value| {
        let mut object = deployment(name, 1, "1");
        object["spec"]["template"]["spec"]["affinity"] = json!({"nodeAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [{"matchExpressions": [expression]}]}}});
        object
    };
    let avoids = json!({"key": "karpenter.sh/nodepool", "operator": "DoesNotExist"});
    lab.create(DEPLOYMENTS, selecting("avoids", avoids)).await;
    let invalid = json!({"key": "karpenter.sh/unknown", "operator": "In", "values": ["x"]});
    lab.create(DEPLOYMENTS, selecting("invalid", invalid)).await;
    lab.settle(15).await;
    assert!(lab.claims().await.is_empty());
    let about = |app: &str, events: &[Value]| -> Vec<String> {
        let of = |event: &&Value| {
            event["involvedObject"]["name"].as_str().unwrap().starts_with(app)
                && event["source"]["component"] == "karpenter"
        };
        events.iter().filter(of).map(|event| event["message"].as_str().unwrap().to_owned()).collect()
    };
    let events = lab.list("/api/v1/events").await;
    assert!(about("avoids", &events).is_empty());
    let told = about("invalid", &events);
    assert_eq!(told.len(), 1);
    assert!(told[0].contains("karpenter.sh/unknown"), "{told:?}");
    assert_eq!(lab.metric("karpenter_scheduler_ignored_pods_count", ""), 2.0);
    lab.scale("invalid", 0).await;
    lab.settle(30).await;
    assert_eq!(lab.metric("karpenter_scheduler_ignored_pods_count", ""), 1.0, "of the latest look");
}

#[tokio::test(start_paused = true)]
async fn a_decision_is_kept_for_every_launch_and_refusal() {
    let mut lab = Lab::new(1).await;
    lab.ready_pool("main").await;
    lab.run(provisioning());
    lab.deployment("web", 2, "1").await;
    lab.deployment("huge", 1, "64").await;
    lab.settle(5).await;
    let records = lab.context.recorder.decisions_since(0);
    let launches: Vec<_> = records
        .iter()
        .filter_map(|record| match &record.decision {
            Decision::Launch(launch) => Some(launch),
            _ => None,
        })
        .collect();
    assert_eq!(launches.len(), 1);
    assert_eq!((launches[0].pods.len(), &*launches[0].expected.instance_type), (2, "small"));
    let refused = records.iter().any(|record| {
        matches!(&record.decision, Decision::Unschedulable { pod, why, .. } if pod.starts_with("default/huge") && why.contains("cpu 64"))
    });
    assert!(refused, "{records:?}");
    assert!(records.iter().enumerate().all(|(position, record)| record.number == position as u64));
}

#[tokio::test(start_paused = true)]
async fn a_pool_edited_during_a_pass_gives_claims_with_the_hash_it_had() {
    // covers: SCH-NEW-04
    let mut lab = Lab::new(1).await;
    lab.ready_pool("main").await;
    lab.shop.slow_down(Duration::from_secs(7));
    lab.run(provisioning());
    lab.deployment("web", 1, "1").await;
    lab.settle(3).await;
    let hash = |pool: Value| karpenter_api::nodepool_hash(&serde_json::from_value(pool).unwrap());
    let before = hash(lab.get(&format!("{POOLS}/main")).await.unwrap());
    let edit = json!({"spec": {"template": {"metadata": {"labels": {"team": "blue"}}}}});
    let after = hash(lab.patch(&format!("{POOLS}/main"), edit).await);
    assert_ne!(before, after);
    lab.settle(8).await;
    let claims = lab.claims().await;
    assert_eq!(claims.len(), 1);
    assert_eq!(claims[0]["metadata"]["annotations"]["karpenter.sh/nodepool-hash"], before);
    assert!(claims[0]["metadata"]["labels"]["team"].is_null(), "as the pool was when the pass began");
}

#[tokio::test(start_paused = true)]
async fn a_pass_is_measured_once_and_what_it_left_over_is_counted() {
    // covers: SCH-ERR-13, SCH-ERR-15, SCH-GAP-22, SCH-NEW-39, SCH-POD-20
    let mut lab = Lab::new(1).await;
    lab.ready_pool("main").await;
    lab.run(provisioning());
    lab.deployment("huge", 2, "64").await;
    lab.deployment("web", 1, "1").await;
    lab.settle(5).await;
    let passes = lab.metric("karpenter_scheduler_scheduling_duration_seconds_count", "controller=\"provisioner\"");
    assert_eq!(passes as u64, 1);
    assert_eq!(lab.metric("karpenter_scheduler_unschedulable_pods_count", "controller=\"provisioner\"") as u64, 2);
    let labels = "reason=\"provisioned\",nodepool=\"main\",min_values_relaxed=\"false\"";
    assert_eq!(lab.metric("karpenter_nodeclaims_created_total", labels) as u64, 1);
    let decided = |lab: &Lab| lab.metric("karpenter_pods_scheduling_decision_duration_seconds_count", "") as u64;
    assert_eq!(decided(&lab), 3, "also those that failed");
    lab.settle(60).await;
    assert_eq!(decided(&lab), 3, "the first decision about a pod is the one that counts");
}

#[tokio::test(start_paused = true)]
async fn a_claim_whose_creation_nobody_heard_of_is_used_and_leaves_no_surplus() {
    // covers: CP-A3, INV-1
    let mut lab = Lab::new(1).await;
    lab.node_class().await;
    let disruption =
        json!({"consolidationPolicy": "WhenEmpty", "consolidateAfter": "30s", "budgets": [{"nodes": "100%"}]});
    lab.pool("main", json!({"disruption": disruption})).await;
    let everything = || karpenter_controllers::roster::all(&karpenter_controllers::Settings::default());
    lab.run(everything());
    lab.scythe.arm(When::After, |effect| effect.name == format!("POST {CLAIMS}"));
    lab.deployment("web", 2, "1").await;
    lab.settle(10).await;
    assert!(lab.scythe.is_dead(), "between the creation and its answer");
    lab.run(everything());
    lab.settle(180).await;
    assert_eq!(super::lab::running(&lab.pods("web").await), 2);
    let claims = lab.claims().await.len();
    assert_eq!(claims, lab.shop.running().len(), "every machine has its claim");
    assert_eq!(claims, 1, "a surplus one is gone by now");
}
