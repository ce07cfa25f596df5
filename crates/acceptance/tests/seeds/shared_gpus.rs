//! 001: images by id, 4 and 8 CPUs only, and GPUs that pods share.

use std::collections::BTreeSet;

use karpenter_aws_sim::{Script, Target};
use karpenter_core::plan::PoolReason;
use karpenter_ec2::catalogue::CapacityClass;
use serde_json::{Value, json};

use super::files::{object, objects, sources, written};
use super::lab::{CLAIMS, CLASSES, Lab, NODES, POOLS, Place, condition, is_true, label};
use super::plans::{Planned, asking, merge, plan, pod};

const MANIFESTS: &[&str] = &["001/manifests"];
const IMAGES: &[&str] = &["ami-0aaaaaaaaaaaaaaaa", "ami-0bbbbbbbbbbbbbbbb"];

async fn lab(pods_per_gpu: u64) -> Lab {
    let lab = Lab::new(Place { cluster: "demo", images: IMAGES, pods_per_gpu, ..Place::default() }).await;
    lab.apply(objects(MANIFESTS)).await;
    lab.settle(10).await;
    lab
}

fn planned(pods: &[Value]) -> Planned {
    plan("us-east-1", sources(MANIFESTS).into_iter().chain([written(pods)]).collect())
}

fn gpu_pod(name: &str) -> Value {
    let mut pod = object(&["001/workloads/gpu-workload.yaml"], "Pod", "gpu-workload");
    pod["metadata"]["name"] = json!(name);
    pod
}

#[tokio::test(start_paused = true)]
async fn classes_by_image_id_are_ready_and_their_nodes_join_by_the_bootstrap_script() {
    // covers: SEED1-09, SEED1-10, SEED1-11, SEED1-13, SEED1-28
    let lab = lab(1).await;
    for (class, image, size) in [("default", IMAGES[0], "100Gi"), ("gpu-nodeclass", IMAGES[1], "200Gi")] {
        let class = lab.get(&format!("{CLASSES}/{class}")).await;
        assert!(is_true(&class, "Ready"), "{}", class["status"]);
        assert_eq!(class["status"]["amis"][0]["id"], image);
        assert_eq!(class["spec"]["blockDeviceMappings"][0]["ebs"]["volumeSize"], size);
    }
    lab.apply(vec![asking("web", json!({"cpu": "1"})), gpu_pod("train")]).await;
    lab.settle(180).await;
    assert_eq!(lab.running().await, 2);
    for node in lab.list(NODES).await {
        let gpu = label(&node, "karpenter.sh/nodepool") == "gpu";
        assert_eq!(
            (label(&node, "karpenter.sh/registered"), label(&node, "karpenter.sh/initialized")),
            ("true", "true")
        );
        let storage = node["status"]["capacity"]["ephemeral-storage"].as_str().unwrap();
        assert_eq!(storage, if gpu { "200Gi" } else { "100Gi" }, "the volume of its class");
        let taints = node["spec"]["taints"].as_array().cloned().unwrap_or_default();
        let expected = json!({"key": "nvidia.com/gpu", "value": "true", "effect": "NoSchedule"});
        assert_eq!(taints.contains(&expected), gpu, "{taints:?}");
    }
    // An alias of AL2 is refused for this version of Kubernetes; the ids above are not.
    let mut alias = object(MANIFESTS, "EC2NodeClass", "default");
    alias["metadata"]["name"] = json!("alias");
    alias["spec"]["amiSelectorTerms"] = json!([{"alias": "al2@latest"}]);
    lab.apply(vec![alias]).await;
    lab.settle(10).await;
    assert!(!is_true(&lab.get(&format!("{CLASSES}/alias")).await, "Ready"));
}

#[test]
fn only_what_the_pools_allow_is_bought_whatever_the_text_says() {
    // covers: SEED1-12, SEED1-15, SEED1-16, SEED1-18, SEED1-26, SEED1-27, SEED2-05
    let shapes = [("tiny", "100m", "64Mi"), ("even", "3", "8Gi"), ("fat", "2", "50Gi"), ("lean", "7", "4Gi")];
    let pods: Vec<Value> =
        shapes.iter().map(|(name, cpu, memory)| asking(name, json!({"cpu": cpu, "memory": memory}))).collect();
    let planned = planned(&[pods, vec![gpu_pod("train")]].concat());
    assert!(planned.plan.left_over.is_empty(), "{:?}", planned.plan.left_over);
    let mut bought = BTreeSet::new();
    for node in &planned.plan.new_nodes {
        bought.insert(node.launch.instance_type.to_string());
        assert_eq!(&*node.launch.capacity_type, "on-demand");
        if planned.pool(node) == "gpu" {
            assert_eq!(planned.types(node), BTreeSet::from(["g4dn.12xlarge".to_owned()]));
        } else {
            assert!(["4", "8"].contains(&planned.label(node, "karpenter.k8s.aws/instance-cpu").as_str()));
            assert!(["c", "m", "r"].contains(&planned.label(node, "karpenter.k8s.aws/instance-category").as_str()));
        }
    }
    assert_eq!(planned.by_pool().len(), 2, "one batch, two pools");
    assert!(bought.len() > 1, "{bought:?}");
}

#[test]
fn each_thing_that_a_decision_looks_at_changes_it_alone() {
    // covers: SEED1-24, SEED1-23
    let base = asking("p", json!({"cpu": "1", "memory": "1Gi"}));
    let plain = planned(std::slice::from_ref(&base));
    let chosen = |planned: &Planned| {
        let node = planned.plan.new_nodes.first();
        node.map(|node| {
            (planned.pool(node).to_owned(), node.launch.instance_type.to_string(), node.launch.zone.to_string())
        })
    };
    let requests =
        |requests: Value| json!({"containers": [{"name": "main", "image": "x", "resources": {"requests": requests}}]});
    let tolerations = json!([{"key": "nvidia.com/gpu", "operator": "Equal", "value": "true", "effect": "NoSchedule"}]);
    for (what, change) in [
        ("cpu", requests(json!({"cpu": "6", "memory": "1Gi"}))),
        ("memory", requests(json!({"cpu": "1", "memory": "40Gi"}))),
        ("storage", requests(json!({"cpu": "1", "memory": "1Gi", "ephemeral-storage": "150Gi"}))),
        ("type", json!({"nodeSelector": {"node.kubernetes.io/instance-type": "r5.2xlarge"}})),
        ("zone", json!({"nodeSelector": {"topology.kubernetes.io/zone": "us-east-1d"}})),
        ("selector", json!({"nodeSelector": {"eks-node": "gpu"}})),
        ("architecture", json!({"nodeSelector": {"kubernetes.io/arch": "arm64"}})),
    ] {
        let mut pod = base.clone();
        merge(&mut pod["spec"], change);
        assert_ne!(chosen(&planned(&[pod])), chosen(&plain), "{what}");
    }
    // The pool's taint, its toleration, the device and the selector's value.
    assert_eq!(planned(&[gpu_pod("train")]).only_pool(), Some("gpu"));
    let mut intolerant = gpu_pod("train");
    intolerant["spec"]["tolerations"] = json!([]);
    let refused = planned(&[intolerant]);
    assert_eq!(refused.only_pool(), None);
    assert!(matches!(refused.why("gpu"), PoolReason::Taint { .. }));
    let mut elsewhere = gpu_pod("train");
    elsewhere["spec"]["nodeSelector"] = json!({"eks-node": "cpu"});
    assert_eq!(planned(&[elsewhere]).only_pool(), None);
    let device = json!({"tolerations": tolerations, "containers": [{"name": "main", "image": "x", "resources": {"limits": {"nvidia.com/gpu": 1}}}]});
    assert_eq!(planned(&[pod("p", device)]).only_pool(), Some("gpu"), "the device alone leads there");
    let tolerant = pod("p", json!({"tolerations": tolerations}));
    assert_eq!(planned(&[tolerant]).only_pool(), Some("default"), "a toleration alone does not");
}

#[test]
fn the_price_decides_between_types_that_fit() {
    // covers: SEED1-25
    use karpenter_provider_aws::calls::FleetKind;
    assert_eq!(FleetKind::OnDemand.allocation_strategy(false), Some("lowest-price"));
    assert_eq!(FleetKind::Spot.allocation_strategy(false), Some("price-capacity-optimized"));
    for (cpu, memory) in [("1", "1Gi"), ("3", "12Gi"), ("6", "10Gi"), ("2", "50Gi")] {
        let planned = planned(&[asking("p", json!({"cpu": cpu, "memory": memory}))]);
        let [node] = &planned.plan.new_nodes[..] else { panic!("{:?}", planned.plan.new_nodes) };
        let pool = &planned.world.pools[node.pool];
        let types = planned.types(node);
        let on_demand = |offering: &&karpenter_core::Offering| {
            offering.available && offering.requirements.get("karpenter.sh/capacity-type").allows("on-demand")
        };
        let fitting = pool.instance_types.iter().filter(|one| types.contains(&*one.name));
        let cheapest =
            fitting.flat_map(|one| one.offerings.iter().filter(on_demand).map(|offering| offering.price)).min();
        assert_eq!(Some(node.launch.price), cheapest, "{cpu} {memory}");
    }
}

#[test]
fn the_plugins_requests_are_overhead_of_gpu_nodes_only() {
    // covers: SEED1-22, SEED1-48
    let of = |plugin: bool, pod: Value| {
        let mut all = sources(MANIFESTS);
        if plugin {
            all.extend(sources(&["001/workloads/nvidia-device-plugin.yaml"]));
        }
        all.push(written(&[pod]));
        let planned = plan("us-east-1", all);
        let node = &planned.plan.new_nodes[0];
        let cpu = node.requests.iter().find(|(name, _)| *name == "cpu").map(|(_, amount)| amount.to_string());
        (planned.pool(node).to_owned(), cpu.unwrap_or_default())
    };
    let cpu_pod = || asking("web", json!({"cpu": "1"}));
    assert_eq!(of(true, cpu_pod()), of(false, cpu_pod()));
    let (with, without) = (of(true, gpu_pod("train")), of(false, gpu_pod("train")));
    assert_eq!((&*with.0, &*without.0), ("gpu", "gpu"));
    assert_eq!((with.1.as_str(), without.1.as_str()), ("250m", ""));
}

#[tokio::test(start_paused = true)]
async fn a_node_that_offers_ten_times_its_gpus_is_used_to_the_last() {
    // covers: SEED1-17, SEED1-21, SEED1-39
    let lab = lab(10).await;
    lab.apply(vec![gpu_pod("first")]).await;
    lab.settle(180).await;
    assert_eq!(lab.running().await, 1);
    let labels = object(MANIFESTS, "NodePool", "gpu")["spec"]["template"]["metadata"]["labels"].clone();
    let claims = lab.list(CLAIMS).await;
    let nodes = lab.list(&format!("{NODES}?labelSelector=eks-node=gpu")).await;
    assert_eq!((claims.len(), nodes.len()), (1, 1));
    for (key, value) in labels.as_object().unwrap() {
        assert_eq!(claims[0]["metadata"]["labels"][key], *value, "{key}");
        assert_eq!(nodes[0]["metadata"]["labels"][key], *value, "{key}");
    }
    assert_eq!(claims[0]["status"]["capacity"]["nvidia.com/gpu"], "4", "assumed before it registered");
    assert_eq!(nodes[0]["status"]["allocatable"]["nvidia.com/gpu"], "40");
    assert!(is_true(&claims[0], "Initialized"));
    let rest: Vec<Value> = (1..40).map(|number| gpu_pod(&format!("more-{number}"))).collect();
    lab.apply(rest).await;
    lab.settle(60).await;
    assert_eq!((lab.running().await, lab.list(CLAIMS).await.len()), (40, 1), "no second node");
    assert_ne!(condition(&lab.list(CLAIMS).await[0], "ConsistentStateFound")["status"], "False");
    lab.apply(vec![gpu_pod("one-too-many")]).await;
    lab.settle(180).await;
    assert_eq!((lab.running().await, lab.list(CLAIMS).await.len()), (41, 2));
}

#[tokio::test(start_paused = true)]
async fn nodes_that_never_expire_outlive_those_that_do() {
    // covers: SEED1-14, SEED1-19
    let lab = lab(1).await;
    let mut mortal = object(MANIFESTS, "NodePool", "default");
    mortal["metadata"]["name"] = json!("mortal");
    mortal["spec"]["template"]["spec"]["expireAfter"] = json!("10m");
    mortal["spec"]["template"]["metadata"] = json!({"labels": {"expires": "yes"}});
    let mut immortal = asking("stays", json!({"cpu": "3"}));
    immortal["spec"]["nodeSelector"] = json!({"karpenter.sh/nodepool": "default"});
    let mut other = asking("moves", json!({"cpu": "3"}));
    other["spec"]["nodeSelector"] = json!({"expires": "yes"});
    lab.apply(vec![mortal, immortal, other]).await;
    lab.settle(180).await;
    let of = |claims: &[Value], pool: &str| -> Vec<String> {
        let ours = claims.iter().filter(|claim| label(claim, "karpenter.sh/nodepool") == pool);
        ours.map(|claim| claim["metadata"]["name"].as_str().unwrap().to_owned()).collect()
    };
    let before = lab.list(CLAIMS).await;
    assert_eq!((of(&before, "default").len(), of(&before, "mortal").len()), (1, 1));
    lab.settle(1500).await;
    let after = lab.list(CLAIMS).await;
    assert_eq!(of(&after, "default"), of(&before, "default"));
    assert_ne!(of(&after, "mortal"), of(&before, "mortal"));
    let gpu = lab.get(&format!("{POOLS}/gpu")).await;
    assert_eq!(gpu["spec"]["template"]["spec"]["expireAfter"], "Never");
    assert!(is_true(&gpu, "Ready") && gpu["spec"]["limits"].is_null());
}

#[test]
fn the_documents_snippets_are_requirements_like_any_other() {
    // covers: SEED1-33, SEED1-42, SEED1-43
    let snippets = &objects_of_snippets();
    let number = |text: String| text.parse::<u32>().unwrap();
    for (name, list) in snippets.as_object().unwrap() {
        let mut pool = object(MANIFESTS, "NodePool", "default");
        pool["spec"]["template"]["spec"]["requirements"] = list.clone();
        let class = object(MANIFESTS, "EC2NodeClass", "default");
        let pods: Vec<Value> = (0..6).map(|number| asking(&format!("p{number}"), json!({"cpu": "3"}))).collect();
        let planned = plan("us-east-1", vec![written(&[class, pool]), written(&pods)]);
        assert!(planned.plan.left_over.is_empty(), "{name}: {:?}", planned.plan.left_over);
        for node in &planned.plan.new_nodes {
            match name.as_str() {
                "diversified" => {
                    assert!([4, 8, 16].contains(&number(planned.label(node, "karpenter.k8s.aws/instance-cpu"))));
                }
                "network" => {
                    let family = planned.label(node, "karpenter.k8s.aws/instance-family");
                    assert!(["m5", "m5n", "m5dn"].contains(&family.as_str()), "{family}");
                }
                "zones" => assert!(["us-east-1a", "us-east-1b", "us-east-1c"].contains(&&*node.launch.zone)),
                "spot" => assert_eq!(&*node.launch.capacity_type, "spot"),
                other => panic!("{other} is not looked at"),
            }
        }
    }
}

fn objects_of_snippets() -> Value {
    let [source] = &sources(&["001/snippets"])[..] else { panic!("one file") };
    serde_saphyr::from_str(str::from_utf8(&source.bytes).unwrap()).unwrap()
}

#[tokio::test(start_paused = true)]
async fn on_demand_comes_when_there_is_no_spot() {
    // covers: SEED1-34
    let lab = Lab::new(Place { cluster: "demo", images: IMAGES, ..Place::default() }).await;
    let mut pool = object(MANIFESTS, "NodePool", "default");
    let requirements = pool["spec"]["template"]["spec"]["requirements"].as_array_mut().unwrap();
    requirements.retain(|entry| entry["key"] != "karpenter.sh/capacity-type");
    requirements.extend(objects_of_snippets()["spot"].as_array().unwrap().clone());
    lab.apply(vec![object(MANIFESTS, "EC2NodeClass", "default"), pool]).await;
    lab.settle(10).await;
    lab.apply(vec![asking("first", json!({"cpu": "3"}))]).await;
    lab.settle(120).await;
    assert_eq!(lab.instances()[0].instance.lifecycle.as_deref(), Some("spot"));
    let dry = Target::Pool { class: Some(CapacityClass::Spot), instance_type: None, zone: None };
    lab.region.script(Script::new(dry, "InsufficientInstanceCapacity", u32::MAX));
    lab.apply(vec![asking("second", json!({"cpu": "3"}))]).await;
    lab.settle(300).await;
    assert_eq!(lab.running().await, 2);
    let lifecycles: Vec<Option<String>> = lab.instances().into_iter().map(|one| one.instance.lifecycle).collect();
    assert!(lifecycles.contains(&None), "{lifecycles:?}");
}

#[tokio::test(start_paused = true)]
async fn why_no_node_comes_is_told_where_people_look() {
    // covers: SEED1-37, SEED1-38
    let lab = lab(1).await;
    let told = |events: &[Value], pod: &str| -> String {
        let about = events.iter().find(|event| event["involvedObject"]["name"] == pod);
        about.map(|event| event["message"].as_str().unwrap().to_owned()).unwrap_or_default()
    };
    // An instance type that no pool has, and a limit.
    let mut picky = asking("picky", json!({"cpu": "1"}));
    picky["spec"]["nodeSelector"] = json!({"node.kubernetes.io/instance-type": "m5.large"});
    lab.apply(vec![picky]).await;
    lab.settle(30).await;
    lab.patch(&format!("{POOLS}/default"), json!({"spec": {"limits": {"cpu": 2}}})).await;
    lab.settle(30).await;
    lab.apply(vec![asking("limited", json!({"cpu": "1"}))]).await;
    lab.settle(30).await;
    let events = lab.events("FailedScheduling").await;
    assert!(told(&events, "picky").contains("instance-type"), "{}", told(&events, "picky"));
    assert!(told(&events, "limited").contains("limit"), "{}", told(&events, "limited"));
    // Subnets that are not there.
    lab.patch(&format!("{CLASSES}/default"), json!({"spec": {"subnetSelectorTerms": [{"id": "subnet-0gone"}]}})).await;
    lab.settle(120).await;
    let class = lab.get(&format!("{CLASSES}/default")).await;
    assert_eq!(condition(&class, "SubnetsReady")["status"], "False", "{}", class["status"]);
    let pool = lab.get(&format!("{POOLS}/default")).await;
    assert!(!is_true(&pool, "Ready") && !condition(&pool, "NodeClassReady")["message"].as_str().unwrap().is_empty());
    assert!(pool["spec"]["disruption"]["consolidateAfter"].is_string());
    // Permissions.
    let denied = Target::Call { operation: "CreateFleet", server_fault: false };
    lab.region.script(Script::new(denied, "UnauthorizedOperation", u32::MAX));
    let mut unauthorised = object(MANIFESTS, "EC2NodeClass", "default");
    unauthorised["metadata"]["name"] = json!("denied");
    lab.apply(vec![unauthorised]).await;
    lab.settle(60).await;
    let class = lab.get(&format!("{CLASSES}/denied")).await;
    assert_eq!(condition(&class, "ValidationSucceeded")["status"], "False", "{}", class["status"]);
}

#[test]
fn sidecars_count() {
    // covers: SEED1-46
    let sidecar = |native: bool| {
        let proxy = json!({"name": "proxy", "image": "istio/proxyv2", "resources": {"requests": {"cpu": "2"}}});
        let mut native_proxy = proxy.clone();
        native_proxy["restartPolicy"] = json!("Always");
        let app = json!({"name": "main", "image": "x", "resources": {"requests": {"cpu": "3"}}});
        match native {
            true => pod("p", json!({"initContainers": [native_proxy], "containers": [app]})),
            false => pod("p", json!({"containers": [app, proxy]})),
        }
    };
    let cpus = |pod: Value| {
        planned(&[pod]).plan.new_nodes[0].requests.iter().find(|(name, _)| *name == "cpu").unwrap().1.to_string()
    };
    assert_eq!(cpus(sidecar(false)), "5");
    assert_eq!(cpus(sidecar(true)), "5");
    assert_eq!(cpus(asking("p", json!({"cpu": "3"}))), "3");
}

#[tokio::test(start_paused = true)]
async fn the_dashboards_series_are_there() {
    // covers: SEED1-29, SEED1-30, EXT-05
    let lab = lab(1).await;
    lab.apply(vec![asking("web", json!({"cpu": "3"}))]).await;
    lab.settle(180).await;
    lab.delete("/api/v1/namespaces/default/pods/web").await;
    let running = lab.metrics();
    lab.settle(600).await;
    let later = lab.metrics();
    let has =
        |page: &str, start: &str, end: &str| page.lines().any(|line| line.starts_with(start) && line.ends_with(end));
    assert!(has(&running, "karpenter_nodes_created_total{nodepool=\"default\",zone=\"us-east-1", "} 1"), "{running}");
    assert!(has(&running, "karpenter_nodes_allocatable{", "") && running.contains("resource_type=\"memory\""));
    assert!(has(&later, "karpenter_nodes_terminated_total{nodepool=\"default\",zone=\"us-east-1", "} 1"), "{later}");
    assert!(has(&running, "karpenter_nodepool_limit{resource_type=\"cpu\",nodepool=\"default\"}", " 1000"));
    assert!(has(&running, "karpenter_nodepool_usage{resource_type=\"cpu\",nodepool=\"default\"}", " 4"));
    assert!(has(&running, "karpenter_provisioner_scheduling_duration{quantile=\"0.99\"}", ""));
    assert!(has(&running, "karpenter_provisioner_scheduling_duration_seconds_bucket{le=\"60.0\"}", ""), "{running}");
}

#[tokio::test(start_paused = true)]
async fn nodes_are_where_the_selectors_say_and_have_no_public_address_of_ours() {
    // covers: SEED1-45, SEED3-05
    let lab = lab(1).await;
    lab.apply(vec![asking("web", json!({"cpu": "3"}))]).await;
    lab.settle(120).await;
    let class = lab.get(&format!("{CLASSES}/default")).await;
    let ids = |field: &str| -> BTreeSet<String> {
        class["status"][field].as_array().unwrap().iter().map(|one| one["id"].as_str().unwrap().to_owned()).collect()
    };
    let (subnets, groups) = (ids("subnets"), ids("securityGroups"));
    assert!(!subnets.is_empty() && !groups.is_empty());
    for one in lab.instances() {
        assert!(subnets.contains(one.instance.subnet_id.as_deref().unwrap()));
    }
    let templates = lab.region.templates();
    assert!(!templates.is_empty());
    for interface in templates.iter().flat_map(|template| &template.interfaces) {
        assert_eq!(interface.associate_public_ip, None, "the subnet decides");
        assert_eq!(interface.security_groups.iter().cloned().collect::<BTreeSet<_>>(), groups);
    }
}
