//! The log over a cluster's life: operators and their log shippers match on these lines.

use karpenter_aws_sim::{Script, Target, Warning};
use karpenter_controllers::Settings;
use karpenter_provider_aws::calls::{InstanceStatus, StatusCheck};
use serde_json::{Value, json};

use super::files::{object, objects};
use super::heard::{Heard, has};
use super::lab::{CLASSES, Lab, NODES, POOLS, Place};
use super::plans::{asking, merge};

const MANIFESTS: &[&str] = &["003/manifests"];
const SECRET: &str = "a-token-that-is-nobodys-business";

async fn lab(place: Place) -> Lab {
    let lab = Lab::new(Place { cluster: "eks-cluster-dev", ..place }).await;
    let mut all = objects(MANIFESTS);
    for object in &mut all {
        if object["kind"] == "EC2NodeClass" {
            object["spec"]["userData"] = json!(format!("#!/bin/bash\nexport TOKEN={SECRET}\n{}", "#".repeat(14_200)));
        }
    }
    lab.apply(all).await;
    lab.settle(10).await;
    lab
}

fn web(replicas: usize) -> Value {
    let mut web = object(&["003/workloads/web.yaml"], "Deployment", "web");
    web["spec"]["replicas"] = json!(replicas);
    web
}

#[tokio::test(start_paused = true)]
async fn a_life_is_told_in_upstreams_words() {
    // covers: API-LG-10, API-LG-11, API-LG-12, API-LG-13, API-LG-14, API-LG-15, API-LG-16, API-LG-17, API-LG-18, API-LG-19
    // covers: API-LG-21, API-LG-28, API-LG-29, API-LG-40, API-LG-41, API-LG-42, SEED3-21, SEED3-22, SEED3-23
    let heard = Heard::everything();
    let lab = lab(Place::default()).await;
    lab.apply(vec![web(1)]).await;
    lab.settle(12).await;
    lab.apply(vec![asking("late", json!({"cpu": "50m"}))]).await;
    lab.settle(180).await;
    has(&heard.said("found provisionable pod(s)")[0], &["Pods", "duration", "controller", "reconcileID"]);
    has(&heard.said("computed new nodeclaim(s) to fit pod(s)")[0], &["nodeclaims", "pods"]);
    has(&heard.said("computed unready node(s) will fit pod(s)")[0], &["nodes", "pods"]);
    has(&heard.said("created nodeclaim")[0], &["NodePool", "NodeClaim", "requests", "instance-types"]);
    let launched = &heard.said("launched nodeclaim")[0];
    has(launched, &["provider-id", "instance-type", "zone", "capacity-type", "allocatable", "NodeClaim"]);
    assert_eq!(launched["controller"], "nodeclaim.lifecycle");
    assert_eq!(launched["controllerKind"], "NodeClaim");
    let first = lab.instances()[0].clone();
    let told = &heard.said("launched node")[0];
    assert_eq!(
        (&told["level"], &told["node"], &told["instance-type"], &told["capacity-type"]),
        (&json!("INFO"), &json!(first.instance.id), &json!(first.instance.instance_type), &json!("spot"))
    );
    has(&heard.said("registered nodeclaim")[0], &["provider-id", "Node"]);
    has(&heard.said("initialized nodeclaim")[0], &["provider-id", "Node", "allocatable"]);
    has(&heard.said("discovered ssm parameter")[0], &["parameter", "value"]);
    has(&heard.said("rendered user data is approaching the EC2 user data size limit")[0], &["EC2NodeClass"]);

    lab.region.warn(&first.instance.id, Warning::RebalanceRecommendation);
    lab.settle(30).await;
    lab.region.warn(&first.instance.id, Warning::SpotInterruption);
    lab.settle(240).await;
    let received = heard.said("interruption received");
    let actions: Vec<&Value> = received.iter().map(|line| &line["action"]).collect();
    assert_eq!(actions, ["none", "terminate"]);
    assert!(received.iter().all(|line| line["level"] == "WARN" && line["node"] == first.instance.id), "{received:?}");
    let deleting = &heard.said("initiating delete from interruption message")[0];
    has(deleting, &["queue", "messageKind", "NodeClaim", "Node", "action"]);
    assert_eq!((&deleting["messageKind"], &deleting["action"]), (&json!("spot_interrupted"), &json!("CordonAndDrain")));
    has(&heard.said("tainted node")[0], &["Node", "taint.Key", "taint.Effect"]);
    heard.said("deleted node");
    heard.said("deleted nodeclaim");

    lab.scale("web", 0).await;
    lab.settle(600).await;
    let disrupting = &heard.said("disrupting node(s)")[0];
    has(disrupting, &["command", "decision", "disrupted-node-count", "disrupted-nodes"]);
    assert_eq!((&disrupting["decision"], &disrupting["disrupted-node-count"]), (&json!("delete"), &json!(1)));
    let gone = &disrupting["disrupted-nodes"][0];
    has(gone, &["Node", "NodeClaim", "instance-type", "capacity-type"]);
    let text = disrupting["command"].as_str().unwrap();
    assert!(text.starts_with("Empty/") && text.contains("general") && text.contains("savings: $"), "{text}");
    assert_eq!((&disrupting["replacement-node-count"], &disrupting["pod-count"]), (&json!(0), &json!(0)));
    assert_eq!(disrupting["replacement-nodes"], json!([]));
    let taken = heard.said("consolidation delete");
    assert_eq!(taken.len(), 1);
    assert_eq!((&taken[0]["node"], &taken[0]["reason"]), (&gone["Node"]["name"], &json!("empty")));
}

#[tokio::test(start_paused = true)]
async fn pods_that_get_no_node_and_wishes_that_cost_are_told() {
    // covers: API-LG-25, API-LG-26, API-LG-27, API-LG-31, API-LG-43, API-EV-03, SEED3-32
    let heard = Heard::everything();
    let lab = lab(Place::default()).await;
    let devices = json!({"resourceClaims": [{"name": "gpu", "resourceClaimName": "a-gpu"}]});
    let mut claiming = asking("claiming", json!({"cpu": "1"}));
    merge(&mut claiming["spec"], devices);
    let selector = json!({"matchLabels": {"app": "apart"}});
    let mut apart = asking("apart", json!({"cpu": "100m"}));
    let term =
        json!({"weight": 1, "podAffinityTerm": {"topologyKey": "kubernetes.io/hostname", "labelSelector": selector}});
    apart["spec"]["affinity"] = json!({"podAntiAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [term]}});
    let mut spread = asking("spread", json!({"cpu": "100m"}));
    spread["spec"]["topologySpreadConstraints"] = json!([{"maxSkew": 1, "topologyKey": "topology.kubernetes.io/zone",
        "whenUnsatisfiable": "ScheduleAnyway", "labelSelector": selector}]);
    let mut picky = asking("picky", json!({"cpu": "1"}));
    picky["spec"]["nodeSelector"] = json!({"node.kubernetes.io/instance-type": "x1.32xlarge"});
    let mut wishing = asking("wishing", json!({"cpu": "1"}));
    let nowhere =
        json!({"matchExpressions": [{"key": "topology.kubernetes.io/zone", "operator": "In", "values": ["nowhere"]}]});
    wishing["spec"]["affinity"] = json!({"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 1, "preference": nowhere}]}});
    for (name, requirement) in [
        ("nothing", json!({"key": "node.kubernetes.io/instance-type", "operator": "In", "values": ["x1.32xlarge"]})),
        ("few", json!({"key": "karpenter.k8s.aws/instance-family", "operator": "Exists", "minValues": 50})),
    ] {
        let mut pool = object(MANIFESTS, "NodePool", "general");
        pool["metadata"]["name"] = json!(name);
        pool["spec"]["template"]["spec"]["requirements"] = json!([requirement]);
        lab.apply(vec![pool]).await;
    }
    lab.patch(&format!("{POOLS}/general"), json!({"spec": {"limits": {"cpu": 16}}})).await;
    lab.settle(5).await;
    let mut invalid = asking("invalid", json!({"cpu": "1"}));
    invalid["spec"]["nodeSelector"] = json!({"karpenter.sh/unknown": "x"});
    lab.apply(vec![claiming, apart, spread, picky, wishing, invalid]).await;
    lab.settle(60).await;
    let line =
        &heard.said("skipping pod with Dynamic Resource Allocation requirements, not yet supported by Karpenter")[0];
    assert_eq!(line["Pod"], json!({"name": "claiming", "namespace": "default"}));
    let line = &heard.said("pod(s) have a preferred Anti-Affinity which can prevent consolidation")[0];
    assert_eq!((&line["pods"], &line["level"]), (&json!("default/apart"), &json!("INFO")));
    let line = &heard.said("pod(s) have a preferred TopologySpreadConstraint which can prevent consolidation")[0];
    assert_eq!(line["pods"], "default/spread");
    let line = &heard.said("relaxing soft constraints for pod since it previously failed to schedule")[0];
    assert_eq!(line["Pod"]["name"], "wishing");
    heard.said("instance types were excluded because they would breach limits");
    let line = &heard.said("ignoring pod")[0];
    assert_eq!((&line["Pod"]["name"], &line["level"]), (&json!("invalid"), &json!("DEBUG")));
    assert!(line["error"].as_str().unwrap().contains("karpenter.sh/unknown"), "{line}");
    let said: Vec<Value> = heard.said("could not schedule pod");
    let line = said.iter().find(|line| line["Pod"]["name"] == "picky").unwrap();
    assert_eq!(line["level"], "ERROR");
    assert!(line["error"].as_str().unwrap().contains("instance type"), "{line}");

    let skipped = heard.said("skipping, nodepool requirements filtered out all instance types");
    let pools: std::collections::BTreeSet<&str> =
        skipped.iter().map(|line| line["NodePool"]["name"].as_str().unwrap()).collect();
    assert_eq!(pools.into_iter().collect::<Vec<_>>(), ["few", "nothing"]);
    let events = lab.events("NoCompatibleInstanceTypes").await;
    for (pool, why) in [("nothing", "instance types"), ("few", "minValues")] {
        let about = events.iter().find(|event| event["involvedObject"]["name"] == pool).unwrap();
        assert_eq!((&about["type"], &about["involvedObject"]["kind"]), (&json!("Warning"), &json!("NodePool")));
        assert!(about["message"].as_str().unwrap().contains(why), "{about}");
        assert_eq!(about["message"].as_str().unwrap().contains("minValues"), pool == "few");
    }
    // Without any pool there is nothing to say but that.
    for pool in ["general", "batch", "critical", "nothing", "few"] {
        lab.delete(&format!("{POOLS}/{pool}")).await;
    }
    lab.settle(60).await;
    lab.apply(vec![asking("stranded", json!({"cpu": "1"}))]).await;
    lab.settle(30).await;
    heard.said("no dynamic nodepools found");
}

#[tokio::test(start_paused = true)]
async fn sick_machines_are_told_of() {
    // covers: API-LG-22, API-LG-23
    let heard = Heard::everything();
    let lab =
        lab(Place { controllers: Settings { node_repair: true, ..Settings::default() }, ..Place::default() }).await;
    lab.apply(vec![web(1)]).await;
    lab.settle(180).await;
    let id = lab.instances()[0].instance.id.clone();
    let since = lab.context.clock.now();
    let failed = StatusCheck { status: "failed".to_owned(), impaired_since: Some(since) };
    lab.region.set_health(InstanceStatus {
        instance_id: id.clone(),
        system_checks: vec![failed],
        instance_checks: Vec::new(),
        events: Vec::new(),
    });
    lab.settle(300).await;
    let line = &heard.said("detected unhealthy instance owned by cluster")[0];
    assert_eq!((&line["instanceID"], &line["category"]), (&json!(id), &json!("SystemStatus")));
    lab.settle(240).await;
    // Repair: a node that says of itself that its storage is broken.
    let node = lab.list(NODES).await[0]["metadata"]["name"].as_str().unwrap().to_owned();
    let mut conditions = lab.get(&format!("{NODES}/{node}")).await["status"]["conditions"].as_array().unwrap().clone();
    conditions.push(json!({"type": "StorageReady", "status": "False", "reason": "Broken", "message": "",
        "lastHeartbeatTime": null, "lastTransitionTime": lab.context.clock.now().to_string()}));
    lab.patch(&format!("{NODES}/{node}/status"), json!({"status": {"conditions": conditions}})).await;
    lab.settle(2400).await;
    has(&heard.said("deleting unhealthy node")[0], &["NodeClaim"]);
}

#[tokio::test(start_paused = true)]
async fn what_fails_is_told_once_with_its_name_and_nothing_secret_is_told_ever() {
    // covers: API-LG-05, API-LG-06, API-LG-30
    let heard = Heard::everything();
    let lab = lab(Place { denied: &["DescribeInstanceStatus", "GetQueueUrl"], ..Place::default() }).await;
    let deny = |operation: &'static str, times: u32| {
        let call = Target::Call { operation, server_fault: false };
        lab.region.script(Script::new(call, "UnauthorizedOperation", times));
    };
    lab.apply(vec![web(1)]).await;
    lab.settle(120).await;
    for (name, operation) in [("a", "CreateLaunchTemplate"), ("b", "CreateFleet"), ("c", "RunInstances")] {
        lab.region.clear_scripts();
        deny(operation, u32::MAX);
        let mut class = object(MANIFESTS, "EC2NodeClass", "default");
        class["metadata"]["name"] = json!(name);
        class["spec"]["userData"] = json!(format!("#!/bin/bash\necho {SECRET} {name}"));
        let mut pool = object(MANIFESTS, "NodePool", "general");
        pool["metadata"]["name"] = json!(name);
        pool["spec"]["template"]["spec"]["nodeClassRef"]["name"] = json!(name);
        pool["spec"]["disruption"]["budgets"] = json!([{"nodes": "1", "schedule": "@dailyfoo", "duration": "1h"}]);
        pool["spec"]["template"]["spec"]["requirements"] =
            json!([{"key": "karpenter.sh/capacity-type", "operator": "In", "values": ["spot", "borrowed"]}]);
        lab.apply(vec![class, pool]).await;
        lab.settle(60).await;
        let line = &heard.said(&format!("unauthorized to call ec2:{operation}"))[0];
        assert_eq!(line["level"], "ERROR");
        has(line, &["error"]);
    }
    lab.region.clear_scripts();
    deny("DeleteLaunchTemplate", 1);
    deny("GetQueueUrl", 1);
    lab.apply(vec![asking("more", json!({"cpu": "3"}))]).await;
    lab.settle(30).await;
    lab.region.send_message("{ this is no event");
    lab.settle(1800).await;
    for message in [
        "ignoring nodepool, not ready",
        "failed to create valid sqs provider",
        "failed parsing interruption message",
        "please correct found invalid values, proceeding with valid values",
        "failed to delete launch template",
        "detected disruption budget errors",
        "Reconciler error",
    ] {
        let lines = heard.said(message);
        assert!(lines.iter().any(|line| line["level"] == "ERROR"), "{lines:?}");
    }
    for line in heard.said("Reconciler error") {
        has(&line, &["controller", "error"]);
    }
    let named: Vec<Value> =
        heard.lines().into_iter().filter(|line| line["permission"] == "ec2:DescribeInstanceStatus").collect();
    assert_eq!(named.len(), 1, "once: {named:?}");
    // A launch that cannot be.
    let dry = Target::Pool { class: None, instance_type: None, zone: None };
    lab.region.script(Script::new(dry, "InsufficientInstanceCapacity", u32::MAX));
    lab.apply(vec![asking("unlucky", json!({"cpu": "6"}))]).await;
    lab.settle(120).await;
    let line = &heard.said("failed launching nodeclaim")[0];
    assert!(line["level"] == "ERROR" && line["error"].as_str().unwrap().contains("instance type"), "{line}");
    let class = lab.get(&format!("{CLASSES}/default")).await;
    assert!(class["spec"]["userData"].as_str().unwrap().contains(SECRET));
    let leaked: Vec<String> = heard.text().lines().filter(|line| line.contains(SECRET)).map(str::to_owned).collect();
    assert!(leaked.is_empty(), "{leaked:?}");
}

#[tokio::test(start_paused = true)]
async fn discoveries_are_told_when_they_change() {
    // covers: API-LG-31
    let heard = Heard::everything();
    let lab = lab(Place::default()).await;
    lab.apply(vec![web(2)]).await;
    lab.settle(1200).await;
    for message in [
        "discovered region",
        "discovered kubernetes version",
        "discovered cluster CIDR",
        "discovered instance types",
        "discovered offerings for instance types",
        "discovered zones",
        "discovered amis",
        "discovered subnets",
        "discovered security groups",
        "updated on-demand pricing",
        "updated spot pricing with instance types and offerings",
        "watching interruption queue",
    ] {
        let lines = heard.said(message);
        assert!(lines.iter().all(|line| line["level"] == "DEBUG"), "{lines:?}");
        assert_eq!(lines.len(), 1, "not at every look: {lines:?}");
    }
    heard.said("created launch template");
    heard.said("deleted launch template");
    heard.said("filtered out instance types from launch");
    let dry = Target::Pool { class: None, instance_type: None, zone: None };
    lab.region.script(Script::new(dry, "InsufficientInstanceCapacity", 3));
    lab.patch(&format!("{POOLS}/general"), json!({"spec": {"template": {"metadata": {"labels": {"new": "yes"}}}}}))
        .await;
    lab.settle(600).await;
    has(&heard.said("marking drifted")[0], &["NodeClaim", "reason"]);
    has(&heard.said("removing offering from offerings")[0], &["reason", "instance-type", "zone", "capacity-type"]);
    heard.said("command succeeded");
    heard.said("marking consolidatable");
    lab.patch(&format!("{POOLS}/general"), json!({"spec": {"template": {"spec": {"expireAfter": "20m"}}}})).await;
    lab.settle(3000).await;
    heard.said("deleting expired nodeclaim");
}
