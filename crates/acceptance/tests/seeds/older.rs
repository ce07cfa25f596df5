//! 004: manifests of v1beta1 on Bottlerocket.

use karpenter_aws_sim::SimInstance;
use serde_json::{Value, json};

use super::files::{object, objects};
use super::lab::{CLAIMS, CLASSES, Lab, NODES, POOLS, Place, is_true, label};

const MANIFESTS: &[&str] = &["004/manifests"];
const OLD_POOLS: &str = "/apis/karpenter.sh/v1beta1/nodepools";
const OLD_CLASSES: &str = "/apis/karpenter.k8s.aws/v1beta1/ec2nodeclasses";

async fn lab() -> Lab {
    let lab = Lab::new(Place { cluster: "sandbox", ..Place::default() }).await;
    lab.apply(objects(MANIFESTS)).await;
    lab.settle(10).await;
    lab
}

#[tokio::test(start_paused = true)]
async fn the_pool_reads_as_v1_and_back_as_it_was_written() {
    // covers: SEED4-15, SEED4-16, SEED4-18, SEED4-19, SEED4-20, API-CV-01, API-CV-14
    let lab = lab().await;
    let pool = lab.get(&format!("{POOLS}/default")).await;
    let spec = &pool["spec"];
    assert_eq!(
        spec["template"]["spec"]["nodeClassRef"],
        json!({"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "default"})
    );
    assert_eq!(spec["template"]["spec"]["expireAfter"], "720h");
    let disruption = &spec["disruption"];
    assert_eq!(disruption["consolidationPolicy"], "WhenEmptyOrUnderutilized");
    assert_eq!((&disruption["consolidateAfter"], &disruption["budgets"]), (&json!("0s"), &json!([{"nodes": "10%"}])));
    assert_eq!(spec["limits"]["cpu"], 1000);
    let kubelet = pool["metadata"]["annotations"][karpenter_api::conversion::KUBELET].as_str().unwrap();
    assert_eq!(serde_json::from_str::<Value>(kubelet).unwrap(), json!({"maxPods": 110}));
    assert!(is_true(&pool, "Ready"), "{}", pool["status"]);
    let written = object(MANIFESTS, "NodePool", "default");
    let old = lab.get(&format!("{OLD_POOLS}/default")).await;
    assert_eq!(old["apiVersion"], "karpenter.sh/v1beta1");
    assert_holds(&old["spec"], &written["spec"]);
}

/// Everything that was written is there; what the server filled in may be, too.
fn assert_holds(found: &Value, wanted: &Value) {
    match (found, wanted) {
        (Value::Object(found), Value::Object(wanted)) => {
            for (key, value) in wanted {
                assert_holds(found.get(key).unwrap_or_else(|| panic!("{key} is gone: {found:?}")), value);
            }
        }
        _ => assert_eq!(found, wanted),
    }
}

#[tokio::test(start_paused = true)]
async fn the_class_reads_as_v1_and_back_as_it_was_written() {
    // covers: SEED4-09, SEED4-11, API-CV-03
    let lab = lab().await;
    let class = lab.get(&format!("{CLASSES}/default")).await;
    assert!(is_true(&class, "Ready"), "{}", class["status"]);
    let spec = &class["spec"];
    assert_eq!(
        (&spec["amiSelectorTerms"], &spec["amiFamily"]),
        (&json!([{"alias": "bottlerocket@latest"}]), &Value::Null)
    );
    let written = object(MANIFESTS, "EC2NodeClass", "default");
    for field in
        ["role", "subnetSelectorTerms", "securityGroupSelectorTerms", "tags", "metadataOptions", "blockDeviceMappings"]
    {
        assert_holds(&spec[field], &written["spec"][field]);
    }
    let old = lab.get(&format!("{OLD_CLASSES}/default")).await;
    assert_holds(&old["spec"], &written["spec"]);
    assert_eq!(old["spec"]["amiSelectorTerms"], Value::Null);
}

#[tokio::test(start_paused = true)]
async fn applying_again_gives_no_difference() {
    // covers: SEED4-21, API-CV-02
    let lab = lab().await;
    for (written, path) in [
        (object(MANIFESTS, "NodePool", "default"), OLD_POOLS),
        (object(MANIFESTS, "EC2NodeClass", "default"), OLD_CLASSES),
    ] {
        let first = lab.apply_again(&written).await;
        lab.settle(30).await;
        let before = lab.get(&format!("{path}/default")).await;
        let again = lab.apply_again(&written).await;
        assert_eq!(again["metadata"]["resourceVersion"], before["metadata"]["resourceVersion"], "{path}");
        assert_eq!(
            (&again["spec"], &again["metadata"]["generation"]),
            (&first["spec"], &before["metadata"]["generation"])
        );
    }
}

#[tokio::test(start_paused = true)]
async fn five_pods_of_one_cpu_get_five_small_nodes_and_none_stays() {
    // covers: SEED4-12, SEED4-31, SEED4-32
    let lab = lab().await;
    let mut inflate = object(&["004/workloads/inflate.yaml"], "Deployment", "inflate");
    inflate["metadata"]["namespace"] = json!("default");
    lab.apply(vec![inflate]).await;
    lab.settle(30).await;
    assert!(lab.launches().is_empty(), "no replicas, no nodes");
    lab.scale("inflate", 5).await;
    lab.settle(240).await;
    assert_eq!(lab.running().await, 5);
    let nodes = lab.list(NODES).await;
    assert_eq!(nodes.len(), 5);
    for node in &nodes {
        assert!(["t3.medium", "t3a.medium"].contains(&label(node, "node.kubernetes.io/instance-type")));
        assert_eq!(node["status"]["capacity"]["ephemeral-storage"], "20Gi", "of the data volume");
    }
    assert_eq!(lab.list(CLAIMS).await.len(), 5);
    let tags = |one: &SimInstance, key: &str| one.instance.tags.get(key).cloned();
    for one in lab.instances() {
        assert_eq!(tags(&one, "Name").as_deref(), Some("eks-karpenter-sandbox"), "not overwritten by the node's name");
        assert_eq!(
            (tags(&one, "platform").as_deref(), tags(&one, "karpenter.sh/discovery").as_deref()),
            (Some("eks"), Some("sandbox"))
        );
    }
    lab.scale("inflate", 0).await;
    lab.settle(600).await;
    assert!(lab.list(NODES).await.is_empty() && lab.instances().is_empty());
}

#[tokio::test(start_paused = true)]
async fn the_role_mapping_is_a_config_map_like_any_other() {
    // covers: SEED4-07
    let lab = lab().await;
    let found = lab.get("/api/v1/namespaces/kube-system/configmaps/aws-auth").await;
    let roles = found["data"]["mapRoles"].as_str().unwrap();
    let listed: Vec<Value> = serde_saphyr::from_str(roles).unwrap();
    let arns: Vec<&str> = listed.iter().map(|role| role["rolearn"].as_str().unwrap()).collect();
    assert_eq!(arns.len(), 2);
    let role = object(MANIFESTS, "EC2NodeClass", "default")["spec"]["role"].as_str().unwrap().to_owned();
    assert!(arns.iter().any(|arn| arn.ends_with(&role)), "the class's role is one that may join");
    assert!(listed.iter().all(|role| role["groups"] == json!(["system:bootstrappers", "system:nodes"])));
}

#[tokio::test(start_paused = true)]
async fn the_modules_variables_decide_what_is_bought() {
    // covers: SEED4-28, SEED4-30, API-TF-30, API-TF-32, API-TF-33
    let filled = |types: &str, capacity: &str, arch: &str| {
        let text = Value::Array(objects(MANIFESTS)).to_string();
        let text = text.replace(r#"["t3.medium","t3a.medium"]"#, types).replace(r#"["spot","on-demand"]"#, capacity);
        let text = text.replace(r#"["amd64"]"#, arch).replace("sandbox", "blue");
        serde_json::from_str::<Value>(&text).unwrap().as_array().unwrap().clone()
    };
    for (types, capacity, want, lifecycle) in [
        (r#"["m5.large"]"#, r#"["on-demand"]"#, "m5.large", None),
        (r#"["c5.large","c5.xlarge"]"#, r#"["spot"]"#, "c5.large", Some("spot")),
    ] {
        // The definitions are served and the first manifest is applied in the same moment.
        let lab = Lab::new(Place { cluster: "blue", ..Place::default() }).await;
        lab.apply(filled(types, capacity, r#"["amd64"]"#)).await;
        let mut inflate = object(&["004/workloads/inflate.yaml"], "Deployment", "inflate");
        inflate["metadata"]["namespace"] = json!("default");
        inflate["spec"]["replicas"] = json!(1);
        lab.apply(vec![inflate]).await;
        lab.settle(120).await;
        assert_eq!(lab.running().await, 1);
        let [one] = &lab.instances()[..] else { panic!("{types}") };
        assert_eq!((one.instance.instance_type.as_str(), one.instance.lifecycle.as_deref()), (want, lifecycle));
        let class = lab.get(&format!("{CLASSES}/default")).await;
        assert_eq!(class["spec"]["role"], "karpenter-node-blue");
    }
    // A pool may just as well be general.
    let lab = Lab::new(Place { cluster: "blue", ..Place::default() }).await;
    let mut all = filled("[]", r#"["spot"]"#, r#"["amd64"]"#);
    for object in all.iter_mut().filter(|object| object["kind"] == "NodePool") {
        let requirements = object["spec"]["template"]["spec"]["requirements"].as_array_mut().unwrap();
        requirements.retain(|entry| entry["key"] != "node.kubernetes.io/instance-type");
        requirements
            .push(json!({"key": "karpenter.k8s.aws/instance-category", "operator": "In", "values": ["m", "r"]}));
        requirements.push(json!({"key": "karpenter.k8s.aws/instance-size", "operator": "NotIn", "values": ["large"]}));
        requirements.push(json!({"key": "karpenter.k8s.aws/instance-cpu", "operator": "Lt", "values": ["9"]}));
    }
    lab.apply(all).await;
    lab.settle(5).await;
    let mut inflate = object(&["004/workloads/inflate.yaml"], "Deployment", "inflate");
    inflate["metadata"]["namespace"] = json!("default");
    inflate["spec"]["replicas"] = json!(3);
    lab.apply(vec![inflate]).await;
    lab.settle(120).await;
    assert_eq!(lab.running().await, 3);
    for node in lab.list(NODES).await {
        assert!(["m", "r"].contains(&label(&node, "karpenter.k8s.aws/instance-category")));
        assert!(["4", "8"].contains(&label(&node, "karpenter.k8s.aws/instance-cpu")));
    }
}
