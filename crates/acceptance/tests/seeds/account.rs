//! The account around the cluster: whose instances are whose, what may be called, and what is missing from older policies.

use std::collections::BTreeSet;
use std::sync::Arc;

use karpenter_aws_sim::{Forbidden, Options, Region, Script, Target, Warning};
use karpenter_controllers::Clock;
use karpenter_ec2::catalogue::CapacityClass;
use karpenter_provider_aws::calls::InstanceStatus;
use karpenter_runtime::Amazon;
use serde_json::{Value, json};

use super::files::{object, objects};
use super::heard::Heard;
use super::lab::{CLAIMS, CLASSES, Lab, NODES, POOLS, Place, condition, is_true, label};
use super::plans::asking;

const CLUSTER_TAG: &str = "eks:eks-cluster-name";

/// Instances that run, by the cluster they say they belong to.
fn of_cluster(lab: &Lab, cluster: &str) -> BTreeSet<String> {
    let ours =
        |one: &karpenter_aws_sim::SimInstance| one.instance.tags.get(CLUSTER_TAG).is_some_and(|name| name == cluster);
    lab.instances().into_iter().filter(ours).map(|one| one.instance.id).collect()
}

#[tokio::test(start_paused = true)]
async fn two_clusters_in_one_account_leave_each_other_alone() {
    // covers: SEED0-08, API-TF-04
    let manifests = &["000/manifests"];
    let place = |cluster| Place { region: "ap-southeast-3", cluster, ..Place::default() };
    let dev = Lab::new(place("dev")).await;
    let staging = dev.beside(place("staging")).await;
    for (lab, cluster) in [(&dev, "dev"), (&staging, "staging")] {
        // Terraform fills in the cluster's name and nothing else.
        let text = Value::Array(objects(manifests)).to_string();
        assert!(text.contains("piksel-dev-cluster"));
        let filled: Value = serde_json::from_str(&text.replace("piksel-dev-cluster", cluster)).unwrap();
        lab.apply(filled.as_array().unwrap().clone()).await;
        lab.apply(objects(&["000/workloads/api.yaml"])).await;
    }
    dev.settle(240).await;
    let (of_dev, of_staging) = (of_cluster(&dev, "dev"), of_cluster(&dev, "staging"));
    assert!(!of_dev.is_empty() && !of_staging.is_empty(), "{of_dev:?} {of_staging:?}");
    assert_eq!(of_dev.len() + of_staging.len(), dev.instances().len(), "every instance says whose it is");
    let profile = async |lab: &Lab| lab.get(&format!("{CLASSES}/default")).await["status"]["instanceProfile"].clone();
    let (one, other) = (profile(&dev).await, profile(&staging).await);
    assert!(
        one.as_str().unwrap().starts_with("dev_") && other.as_str().unwrap().starts_with("staging_"),
        "{one} {other}"
    );
    // One team clears up behind itself; the sweeps of both go on meanwhile.
    dev.scale("api", 0).await;
    dev.settle(300).await;
    for pool in ["default", "gpu"] {
        dev.delete(&format!("{POOLS}/{pool}")).await;
    }
    dev.delete(&format!("{CLASSES}/default")).await;
    dev.settle(120).await;
    assert!(of_cluster(&dev, "dev").is_empty());
    assert_eq!(of_cluster(&dev, "staging"), of_staging, "nobody touched them");
    let tagged = |template: &karpenter_provider_aws::calls::NewLaunchTemplate| template.tags.get(CLUSTER_TAG).cloned();
    let left: BTreeSet<Option<String>> = dev.region.templates().iter().map(tagged).collect();
    assert!(!left.contains(&Some("dev".to_owned())), "{left:?}");
    assert!(is_true(&staging.get(&format!("{CLASSES}/default")).await, "Ready"));
}

#[tokio::test(start_paused = true)]
async fn everything_happens_in_one_region_and_only_public_parameters_are_read() {
    // covers: SEED0-07, SEED0-25, SEED2-32
    let heard = Heard::everything();
    let lab = Lab::new(Place { region: "ap-southeast-3", cluster: "piksel-dev-cluster", ..Place::default() }).await;
    lab.apply(objects(&["000/manifests"])).await;
    lab.apply(objects(&["000/workloads"])).await;
    lab.settle(25).await;
    let templates = lab.region.templates();
    lab.settle(275).await;
    assert_eq!(lab.running().await, 8);
    for line in heard.said("discovered ssm parameter") {
        let name = line["parameter"].as_str().unwrap();
        assert!(name.starts_with("/aws/service/"), "{name}");
    }
    for one in lab.instances() {
        assert!(one.instance.zone.starts_with("ap-southeast-3"), "{:?}", one.instance);
    }
    for node in lab.list(NODES).await {
        assert_eq!(label(&node, "topology.kubernetes.io/region"), "ap-southeast-3");
    }
    // The agent is part of these images, and nothing that we tell the machine switches it off.
    let class = lab.get(&format!("{CLASSES}/default")).await;
    let images = class["status"]["amis"].as_array().unwrap();
    assert!(images.iter().all(|image| image["name"].as_str().unwrap().contains("al2023")), "{images:?}");
    assert!(!templates.is_empty());
    for template in templates {
        let text = decoded(&template.user_data);
        assert!(text.contains("node.eks.aws"), "{text}");
        assert!(!text.contains("ssm-agent") && !text.contains("systemctl"), "{text}");
    }
}

/// Base64, without a crate for it.
fn decoded(text: &str) -> String {
    const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let (mut bytes, mut held, mut bits) = (Vec::new(), 0u32, 0);
    for c in text.bytes().filter(|c| *c != b'=') {
        let value = ALPHABET.iter().position(|known| *known == c).unwrap();
        held = held << 6 | value as u32;
        bits += 6;
        if bits >= 8 {
            bits -= 8;
            bytes.push((held >> bits) as u8);
        }
    }
    String::from_utf8(bytes).unwrap()
}

#[tokio::test(start_paused = true)]
async fn a_role_that_is_not_enough_is_told_at_the_start_by_the_call_that_was_denied() {
    // covers: SEED1-44
    let clock = Clock::starting_at("2026-01-01T00:00:00Z".parse().unwrap());
    let server = karpenter_apiserver::ApiServer::new(karpenter_apiserver::Options::new());
    let client = kube::Client::new(server.service(), "default");
    let options = Options::new("us-east-1", 1, "demo");
    let facts = karpenter_provider_aws::Settings::new("demo", &options.cluster_endpoint, "1.33");
    let now = clock.clone();
    let region = Region::new(options, Arc::new(move || now.now()));
    let denied = Target::Call { operation: "DescribeInstanceTypes", server_fault: false };
    region.script(Script::new(denied, "UnauthorizedOperation", u32::MAX));
    let heard = Heard::everything();
    let failed =
        Amazon::start(client.clone(), &clock, region.aws(), facts.clone()).await.err().expect("it cannot start");
    let told = karpenter_provider::chain(&failed);
    assert!(told.contains("ec2 api connectivity check failed") && told.contains("DescribeInstanceTypes"), "{told}");
    assert!(told.contains("UnauthorizedOperation"), "{told}");
    heard.said("ec2 api connectivity check failed");
    region.clear_scripts();
    assert!(Amazon::start(client, &clock, region.aws(), facts).await.is_ok(), "with what the stack allows it starts");
}

#[tokio::test(start_paused = true)]
async fn the_public_modules_policy_is_enough_for_all_but_what_it_leaves_out() {
    // covers: SEED3-45, SEED0-34, EXT-10, API-TF-19
    const NOT_ALLOWED: &[&str] =
        &["ListInstanceProfiles", "DescribeInstanceStatus", "DescribePlacementGroups", "DescribeCapacityReservations"];
    let heard = Heard::everything();
    let lab = Lab::new(Place { cluster: "eks-cluster-dev", denied: NOT_ALLOWED, ..Place::default() }).await;
    lab.apply(objects(&["003/manifests"])).await;
    lab.settle(10).await;
    lab.apply(objects(&["003/workloads"])).await;
    lab.settle(240).await;
    assert_eq!(lab.running().await, 4);
    lab.region.warn(&lab.instances()[0].instance.id.clone(), Warning::SpotInterruption);
    lab.settle(400).await;
    assert_eq!(lab.running().await, 4);
    // An instance that is sick stays: nobody may ask.
    let sick = InstanceStatus {
        instance_id: lab.instances()[0].instance.id.clone(),
        system_checks: Vec::new(),
        instance_checks: Vec::new(),
        events: vec!["instance-retirement".to_owned()],
    };
    lab.region.set_health(sick);
    lab.scale("web", 0).await;
    lab.settle(4000).await;
    assert!(lab.list(NODES).await.is_empty() && lab.instances().is_empty(), "from the first node to the last");
    for missing in ["DescribeInstanceStatus", "ListInstanceProfiles"] {
        let told = |line: &Value| line["level"] == "ERROR" && line.to_string().contains(missing);
        let lines: Vec<Value> = heard.lines().into_iter().filter(told).collect();
        assert_eq!(lines.len(), 1, "{missing} is told once: {lines:?}");
    }
    assert!(!lab.region.calls().contains_key("DescribePlacementGroups"), "no class selects a group");
}

#[tokio::test(start_paused = true)]
async fn old_and_new_control_planes_are_served_alike() {
    // covers: SEED3-43, SEED2-07
    for kubernetes in ["1.28", "1.36"] {
        let lab = Lab::new(Place { cluster: "eks-cluster-dev", kubernetes, ..Place::default() }).await;
        lab.apply(objects(&["003/manifests"])).await;
        lab.settle(10).await;
        assert!(is_true(&lab.get(&format!("{CLASSES}/default")).await, "Ready"), "{kubernetes}");
        lab.apply(objects(&["003/workloads"])).await;
        lab.settle(90).await;
        assert_eq!(lab.running().await, 4, "{kubernetes}: up within a minute and a half");
        lab.scale("web", 0).await;
        lab.settle(400).await;
        assert!(lab.list(NODES).await.is_empty(), "{kubernetes}: and down again");
    }
}

#[tokio::test(start_paused = true)]
async fn without_the_role_for_spot_on_demand_is_bought() {
    // covers: SEED4-23, API-EV-36, EXT-17, SEED4-29
    let lab = Lab::new(Place { cluster: "sandbox", ..Place::default() }).await;
    lab.apply(objects(&["004/manifests"])).await;
    lab.settle(10).await;
    let spot = Target::Pool { class: Some(CapacityClass::Spot), instance_type: None, zone: None };
    lab.region.script(Script::new(spot, "AuthFailure.ServiceLinkedRoleCreationNotPermitted", u32::MAX));
    lab.apply(vec![asking("web", json!({"cpu": "1"}))]).await;
    lab.settle(300).await;
    assert_eq!(lab.running().await, 1);
    assert!(lab.instances().iter().all(|one| one.instance.lifecycle.is_none()), "on demand");
    let events = lab.events("SpotServiceLinkedRoleCreationFailed").await;
    assert!(!events.is_empty());
    assert_eq!((&events[0]["type"], &events[0]["involvedObject"]["kind"]), (&json!("Warning"), &json!("NodeClaim")));
}

#[tokio::test(start_paused = true)]
async fn a_queue_of_any_name_is_read_and_each_rule_of_any_name_has_its_effect() {
    // covers: SEED4-26, SEED4-27, API-TF-35
    let lab = Lab::new(Place { cluster: "sandbox", queue: Some("sandbox-karpenter"), ..Place::default() }).await;
    lab.apply(objects(&["004/manifests"])).await;
    lab.settle(10).await;
    let mut inflate = object(&["004/workloads/inflate.yaml"], "Deployment", "inflate");
    inflate["metadata"]["namespace"] = json!("default");
    inflate["spec"]["replicas"] = json!(4);
    lab.apply(vec![inflate]).await;
    lab.settle(240).await;
    let instances: Vec<String> = lab.instances().into_iter().map(|one| one.instance.id).collect();
    assert_eq!(instances.len(), 4);
    let all =
        [Warning::RebalanceRecommendation, Warning::ScheduledChange, Warning::SpotInterruption, Warning::Terminated];
    for (instance, warning) in instances.iter().zip(all) {
        lab.region.warn(instance, warning);
    }
    lab.settle(20).await;
    assert_eq!(lab.region.queue_length(), 0);
    let ending: BTreeSet<String> = lab
        .list(CLAIMS)
        .await
        .iter()
        .filter(|claim| !claim["metadata"]["deletionTimestamp"].is_null())
        .map(|claim| claim["status"]["providerID"].as_str().unwrap().rsplit('/').next().unwrap().to_owned())
        .collect();
    assert!(!ending.contains(&instances[0]), "a recommendation is only told");
    let page = lab.metrics();
    for kind in ["rebalance_recommendation", "scheduled_change", "spot_interrupted", "instance_terminated"] {
        let line = format!("karpenter_interruption_received_messages_total{{message_type=\"{kind}\"}} 1");
        assert!(page.contains(&line), "{kind}");
    }
    lab.settle(300).await;
    assert_eq!(lab.running().await, 4);
    let now: BTreeSet<String> = lab.instances().into_iter().map(|one| one.instance.id).collect();
    assert!(now.contains(&instances[0]) && instances[1..].iter().all(|gone| !now.contains(gone)), "{now:?}");
    for reason in ["SpotRebalanceRecommendation", "InstanceUnhealthy", "SpotInterrupted", "InstanceTerminating"] {
        assert!(!lab.events(reason).await.is_empty(), "{reason}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_role_of_another_name_is_named_and_a_repair_is_noticed() {
    // covers: SEED4-10, API-CD-47, API-EC2-54
    let lab = Lab::new(Place { cluster: "sandbox", ..Place::default() }).await;
    let missing = Target::Call { operation: "AddRoleToInstanceProfile", server_fault: false };
    let message = "The role with name karpenter-node-sandbox cannot be found.".to_owned();
    lab.region.script(Script { message, ..Script::new(missing, "NoSuchEntity", u32::MAX) });
    lab.apply(objects(&["004/manifests"])).await;
    let mut others = Vec::new();
    for (name, field, value) in [
        ("subnets", "subnetSelectorTerms", json!([{"id": "subnet-0gone"}])),
        ("groups", "securityGroupSelectorTerms", json!([{"id": "sg-0gone"}])),
        ("images", "amiSelectorTerms", json!([{"id": "ami-0gone"}])),
    ] {
        let mut class = object(&["003/manifests"], "EC2NodeClass", "default");
        class["metadata"]["name"] = json!(name);
        class["spec"]["amiFamily"] = json!("AL2023");
        class["spec"].as_object_mut().unwrap().remove("role");
        class["spec"]["instanceProfile"] = json!("given");
        class["spec"][field] = value;
        others.push(class);
    }
    lab.apply(others).await;
    lab.settle(120).await;
    let class = lab.get(&format!("{CLASSES}/default")).await;
    let told = condition(&class, "InstanceProfileReady");
    assert_eq!(
        (&told["status"], &told["reason"]),
        (&json!("False"), &json!("NodeRoleNotFound")),
        "{}",
        class["status"]
    );
    assert!(told["message"].as_str().unwrap().contains("karpenter-node-sandbox"), "{told}");
    let kinds = [
        ("subnets", "SubnetsReady", "SubnetsNotFound", "subnetSelectorTerms"),
        ("groups", "SecurityGroupsReady", "SecurityGroupsNotFound", "securityGroupSelectorTerms"),
        ("images", "AMIsReady", "AMINotFound", "amiSelectorTerms"),
    ];
    for (name, kind, reason, _) in kinds {
        let class = lab.get(&format!("{CLASSES}/{name}")).await;
        let told = condition(&class, kind);
        assert_eq!(
            (&told["status"], &told["reason"]),
            (&json!("False"), &json!(reason)),
            "{name}: {}",
            class["status"]
        );
    }
    // The causes are repaired, and nothing is restarted.
    lab.region.clear_scripts();
    for (name, _, _, field) in kinds {
        let right = object(&["003/manifests"], "EC2NodeClass", "default")["spec"][field].clone();
        lab.patch(&format!("{CLASSES}/{name}"), json!({"spec": {field: right}})).await;
    }
    lab.settle(660).await;
    for name in ["default", "subnets", "groups", "images"] {
        let class = lab.get(&format!("{CLASSES}/{name}")).await;
        assert!(is_true(&class, "Ready"), "{name}: {}", class["status"]);
    }
}

#[tokio::test(start_paused = true)]
async fn images_by_parameter_or_by_id_change_when_the_manifest_does() {
    // covers: SEED1-20, SEED1-47
    const IMAGES: &[&str] = &["ami-0aaaaaaaaaaaaaaaa", "ami-0cccccccccccccccc"];
    let lab = Lab::new(Place { cluster: "demo", images: IMAGES, kubernetes: "1.31", ..Place::default() }).await;
    let path = "/aws/service/eks/optimized-ami/1.31/amazon-linux-2/recommended/image_id";
    let mut by_parameter = object(&["001/manifests"], "EC2NodeClass", "default");
    by_parameter["metadata"]["name"] = json!("by-parameter");
    by_parameter["spec"]["amiSelectorTerms"] = json!([{"ssmParameter": path}]);
    let pinned = object(&["001/manifests"], "EC2NodeClass", "default");
    let mut pool = object(&["001/manifests"], "NodePool", "default");
    pool["spec"]["disruption"]["budgets"] = json!([{"nodes": "100%"}]);
    lab.apply(vec![by_parameter, pinned, pool]).await;
    lab.settle(30).await;
    let class = lab.get(&format!("{CLASSES}/by-parameter")).await;
    assert!(is_true(&class, "Ready"), "{}", class["status"]);
    assert!(class["status"]["amis"][0]["id"].as_str().unwrap().starts_with("ami-"));
    let mut web = object(&["003/workloads/web.yaml"], "Deployment", "web");
    web["spec"]["replicas"] = json!(1);
    lab.apply(vec![web]).await;
    lab.settle(3600).await;
    let images = |lab: &Lab| lab.instances().into_iter().map(|one| one.instance.image_id).collect::<Vec<_>>();
    assert_eq!(images(&lab), [IMAGES[0]], "an hour later it is what was pinned");
    lab.patch(&format!("{CLASSES}/default"), json!({"spec": {"amiSelectorTerms": [{"id": IMAGES[1]}]}})).await;
    lab.settle(900).await;
    assert_eq!(images(&lab), [IMAGES[1]], "drift replaced the node");
}

/// The calls that the controller policy of release 0.32 allows.
const ALLOWED_IN_0_32: &[&str] = &[
    "AddRoleToInstanceProfile",
    "CreateFleet",
    "CreateInstanceProfile",
    "CreateLaunchTemplate",
    "CreateTags",
    "DeleteInstanceProfile",
    "DeleteLaunchTemplate",
    "DeleteMessage",
    "DescribeCluster",
    "DescribeImages",
    "DescribeInstanceTypeOfferings",
    "DescribeInstanceTypes",
    "DescribeInstances",
    "DescribeLaunchTemplates",
    "DescribeSecurityGroups",
    "DescribeSpotPriceHistory",
    "DescribeSubnets",
    "GetInstanceProfile",
    "GetParameter",
    "GetProducts",
    "GetQueueUrl",
    "ReceiveMessage",
    "RemoveRoleFromInstanceProfile",
    "RunInstances",
    "TerminateInstances",
];

#[tokio::test(start_paused = true)]
async fn the_policy_of_the_fourth_document_is_enough_for_a_spot_node() {
    // covers: SEED4-25, API-TF-34, API-IAM-40, API-IAM-41, API-IAM-42, API-IAM-43
    const DENIED: &[&str] = &[
        "ListInstanceProfiles",
        "DescribeInstanceStatus",
        "DescribePlacementGroups",
        "DescribeCapacityReservations",
        "GetManagedResource",
    ];
    let place = Place { cluster: "sandbox", queue: Some("sandbox-karpenter"), denied: DENIED, ..Place::default() };
    let lab = Lab::new(place).await;
    lab.region.forbid(Forbidden::SpotRequestTags);
    lab.region.forbid(Forbidden::TagKey(CLUSTER_TAG));
    lab.apply(objects(&["004/manifests"])).await;
    lab.settle(10).await;
    lab.apply(vec![asking("web", json!({"cpu": "1"}))]).await;
    lab.settle(300).await;
    assert_eq!(lab.running().await, 1);
    let instance = lab.instances().remove(0).instance;
    assert_eq!(instance.lifecycle.as_deref(), Some("spot"));
    assert!(instance.tags.contains_key("Name") && instance.tags.contains_key("karpenter.sh/nodeclaim"), "{instance:?}");
    let claim = lab.list(CLAIMS).await.remove(0);
    assert_eq!(claim["metadata"]["annotations"]["karpenter.k8s.aws/tagged"], "true");
    // The one role that the policy passes on.
    let name = lab.list(CLASSES).await[0]["status"]["instanceProfile"].as_str().unwrap().to_owned();
    let profile = lab.region.aws().iam.get_instance_profile(&name).await.unwrap();
    assert_eq!(profile.roles, ["karpenter-node-sandbox"]);
    // From the first node to the last.
    lab.delete("/api/v1/namespaces/default/pods/web").await;
    lab.settle(600).await;
    assert!(lab.list(NODES).await.is_empty() && lab.instances().is_empty());
    for call in lab.region.calls().keys() {
        assert!(
            ALLOWED_IN_0_32.contains(call) || DENIED.contains(call),
            "{call} is neither allowed nor known to be denied"
        );
    }
}
